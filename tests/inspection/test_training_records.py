"""Whatever road a model has come by, the service, `inspect` and `report` can say how it was
trained: fit, partial_fit, another program, or a file whose record of training says little."""

import json
import math

import pytest
import zoo

import labelwright
from labelwright import CRF, Cascade, LatentPerceptron, MemoryTagger, Perceptron, SemiCRF, modelfile
from labelwright.cli import main
from labelwright.errors import ModelFileError
from labelwright.serve.models import Served

WORDS = zoo.WORDS


def from_file(name):
    return lambda path: path.write_bytes(zoo.content(name))


def saved(name):
    """Loaded from a file, and saved."""

    def write(path):
        path.write_bytes(zoo.content(name))
        zoo.loaded(path).save(path)

    return write


def compressed(name):
    def write(path):
        path.write_bytes(zoo.content(name))
        zoo.loaded(path).compressed().save(path)

    return write


def further(name):
    """Loaded from a file, and trained on more sentences."""

    def write(path):
        path.write_bytes(zoo.content(name))
        model = zoo.loaded(path)
        model.partial_fit(*zoo.data_of(name)(3, zoo.N))
        model.save(path)

    return write


def by_partial_fit(untrained, data=zoo.words):
    def write(path):
        untrained().partial_fit(*data(0, zoo.N)).save(path)

    return write


def recorded(name, change):
    """A made file with a changed record of training."""

    def write(path):
        tensors, header = modelfile.read(zoo.content(name))
        change(header["training"])
        modelfile.write(path, tensors, header)

    return write


def without(*names):
    def change(record):
        for name in names:
            del record[name]

    return change


ROADS = {
    "crfpp": from_file("crfpp"),
    "wapiti": from_file("wapiti"),
    "crfpp, saved": saved("crfpp"),
    "wapiti, compressed": compressed("wapiti"),
    "crfpp, further": further("crfpp"),
    "crf": from_file("crf"),
    "cascade": from_file("cascade-segments"),
    "perceptron, further": further("perceptron"),
    "crf, partial": by_partial_fit(lambda: CRF(WORDS, **zoo.SHORT)),
    "semi-crf, partial": by_partial_fit(lambda: SemiCRF(WORDS, **zoo.SHORT)),
    "perceptron, partial": by_partial_fit(lambda: Perceptron(WORDS, n_jobs=1)),
    "latent-perceptron, partial": by_partial_fit(
        lambda: LatentPerceptron(2, WORDS, random_state=0, n_jobs=1)
    ),
    "memory, partial": by_partial_fit(lambda: MemoryTagger(n_jobs=1)),
    "cascade, partial": by_partial_fit(
        lambda: Cascade(
            [("pos", Perceptron(WORDS, n_jobs=1)), ("entity", MemoryTagger(n_jobs=1))],
            passing="best",
            n_jobs=1,
        ),
        zoo.layers,
    ),
    "crf without a record": recorded("crf", dict.clear),
    "memory without a record": recorded("memory", dict.clear),
    "crf without features": recorded("crf", without("features", "weights")),
    "crf that never ended": recorded("crf", without("stopped", "seconds")),
    "perceptron without calibration": recorded("perceptron", lambda r: r.update(calibration=None)),
    "perceptron of another program": recorded(
        "perceptron",
        lambda r: (
            [r.pop(n) for n in ("sentences", "tokens", "iterations", "loss", "stopped")]
            and r.update(imported_from="x")
        ),
    ),
}


@pytest.mark.parametrize("road", ROADS)
def test_the_service_and_inspect_say_what_is_known(road, tmp_path, capsysbinary):
    path = tmp_path / "m.model"
    ROADS[road](path)
    facts = Served("m", str(path), 1).facts()
    assert "labels" in facts["description"]
    main(["inspect", str(path)])
    assert b"labels" in capsysbinary.readouterr().out
    main(["inspect", str(path), "--json"])
    assert json.loads(capsysbinary.readouterr().out)["kind"] == facts["kind"]


def test_a_model_of_another_program_has_a_page(tmp_path):
    (tmp_path / "m.model").write_bytes(zoo.content("crfpp"))
    X, y = zoo.tagged(1, 4)
    rows = [
        "\n".join(" ".join((*token, label)) for token, label in zip(x, labels, strict=True))
        for x, labels in zip(X, y, strict=True)
    ]
    (tmp_path / "gold.txt").write_text("\n\n".join(rows) + "\n", encoding="utf-8")
    page = tmp_path / "page.html"
    main(["report", str(tmp_path / "m.model"), str(tmp_path / "gold.txt"), "-o", str(page)])
    assert "CRF++" in page.read_text(encoding="utf-8")


def test_partial_fit_counts_seconds_as_it_counts_sentences(tmp_path):
    model = Perceptron(WORDS, n_jobs=1).partial_fit(*zoo.words(0, zoo.N))
    assert "12 sentences" in model._summary().run
    assert model._summary().run[-1].endswith(" s")
    before = model.training_["seconds"]
    model.partial_fit(*zoo.words(1, zoo.N))
    took = model.history_[-1]["seconds"]
    assert math.isclose(model.training_["seconds"], before + took, abs_tol=1e-3)


@pytest.mark.parametrize(
    ("name", "value"), [("sentences", None), ("seconds", "long"), ("stopped", 3), ("features", [])]
)
def test_a_wrong_type_is_an_error_about_the_file(name, value, tmp_path):
    recorded("crf", lambda record: record.update({name: value}))(tmp_path / "m.model")
    with pytest.raises(ModelFileError, match=rf"m\.model: header: training: {name}: expected"):
        labelwright.load(tmp_path / "m.model")
