"""labelwright calibrate, eval --calibration, tag --min-confidence and --uncalibrated."""

import json
from pathlib import Path

import pytest
from command import one_line, refused

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, write_columns
from labelwright.evaluate import calibration_report

TEMPLATE = "U1:%x[-1,0]\nU2:%x[0,0]\nU3:%x[1,0]\nU4:%suffix[0,0,2]\nU5:%shape[0,0]\nB\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with words and entities, with POS tags (pos-*) and the models of both, calibrated
    (*.sure) or not."""
    place = tmp_path_factory.mktemp("confidence")
    corpus = builtin_corpus(230, random_state=3)
    for name, part in {
        "train": slice(0, 80),
        "dev": slice(80, 200),
        "test": slice(200, 230),
    }.items():
        write_columns(corpus.take(part).select(["word", "entity"]), place / f"{name}.txt")
        write_columns(corpus.take(part).select(["word", "pos"]), place / f"pos-{name}.txt")
    (place / "t.txt").write_text(TEMPLATE)
    options = ["--template", place / "t.txt", "--iterations", 30, "--l2", 0.1, "--threads", 1, "-q"]
    for kind, extra in {
        "crf": [],
        "pos-crf": [],
        "perceptron": ["--model", "perceptron"],
        "memory": [],
    }.items():
        file = place / ("pos-train.txt" if kind == "pos-crf" else "train.txt")
        given = ["--model", "memory", "-q"] if kind == "memory" else [*extra, *options]
        given = given if kind != "perceptron" else [*extra, "--template", place / "t.txt", "-q"]
        assert main([str(a) for a in ["train", file, "-o", place / kind, *given]]) == 0
        dev = place / ("pos-dev.txt" if kind == "pos-crf" else "dev.txt")
        assert (
            main(
                [
                    str(a)
                    for a in ["calibrate", place / kind, dev, "-o", place / f"{kind}.sure", "-q"]
                ]
            )
            == 0
        )
    return place


# --- calibrate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_calibrate_writes_a_model_and_shows_what_it_gains(
    run, place: Path, tmp_path: Path, method: str
) -> None:
    code, out, err = run(
        "calibrate", place / "crf", place / "dev.txt", "-o", tmp_path / "m", "--method", method
    )
    assert (code, err) == (0, "")
    model = labelwright.load(tmp_path / "m")
    assert out.splitlines()[0].startswith(f"temperature {model.temperature_:.4g}")
    assert (
        ("monotone maps" in out) == (method == "isotonic") == (model._calibration.span is not None)
    )
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "before",
        "calibration",
        "Brier",
        "mean",
        "right",
    ]
    _, out, _ = run("inspect", tmp_path / "m")
    assert f"calibration  temperature {model.temperature_:.4g}" in out
    facts = json.loads(run("inspect", tmp_path / "m", "--json")[1])
    assert facts["training"]["calibration"]["method"] == method


def test_calibrate_in_place_as_json_and_by_folds(run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes((place / "crf").read_bytes())
    code, out, _ = run(
        "calibrate",
        tmp_path / "m",
        place / "train.txt",
        "-o",
        tmp_path / "m",
        "--folds",
        2,
        "--json",
    )
    facts = json.loads(out)
    assert code == 0
    assert facts["calibration"]["temperature"] == labelwright.load(tmp_path / "m").temperature_
    assert set(facts) == {"calibration"}  # of its training data a model knows too much
    assert labelwright.load(tmp_path / "m").n_jobs == labelwright.load(place / "crf").n_jobs
    out = run(
        "calibrate",
        tmp_path / "m",
        place / "dev.txt",
        "-o",
        tmp_path / "m",
        "--json",
        "--threads",
        1,
    )[1]
    assert set(json.loads(out)["before"]) == {"ece", "brier", "said", "right"}
    assert json.loads(out)["unit"] == "entity"


def test_calibrate_a_perceptron_and_labels_without_chunks(run, place: Path, tmp_path: Path) -> None:
    code, out, _ = run("calibrate", place / "perceptron", place / "dev.txt", "-o", tmp_path / "p")
    assert code == 0
    assert out.splitlines()[1].split() == ["after"]  # before, it has no confidences
    _, out, _ = run(
        "calibrate", place / "pos-crf", place / "pos-dev.txt", "-o", tmp_path / "q", "--json"
    )
    assert json.loads(out)["unit"] == "token"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("model", "measure"),
    [("crf", "probability"), ("perceptron", "confidence"), ("memory", "confidence")],
)
def test_what_is_shown_is_called_what_it_is(
    run, place: Path, tmp_path: Path, model: str, measure: str
) -> None:
    _, out, _ = run("calibrate", place / model, place / "dev.txt", "-o", tmp_path / "m")
    assert f"mean {measure}" in out
    _, out, _ = run("eval", tmp_path / "m", place / "test.txt", "--calibration")
    assert f"\n{measure} " in out
    _, out, _ = run("eval", tmp_path / "m", place / "test.txt", "--calibration", "--json")
    assert json.loads(out)["calibration"]["measure"] == measure


def test_calibrate_says_what_it_leaves_out_and_where_there_is_little(
    run, place: Path, tmp_path: Path
) -> None:
    lines = (place / "dev.txt").read_text().splitlines()
    ends = [n for n, line in enumerate(lines) if not line]
    unknown = [f"{line.split()[0]} _" if line else "" for line in lines[: ends[1] + 1]]
    strange = [
        f"{line.split()[0]} B-strange" if line else "" for line in lines[ends[1] + 1 : ends[2] + 1]
    ]
    (tmp_path / "some.txt").write_text(
        "\n".join([*unknown, *strange, *lines[ends[2] + 1 : ends[6]]]) + "\n"
    )
    _, out, err = run("calibrate", place / "crf", tmp_path / "some.txt", "-o", tmp_path / "m")
    n = labelwright.load(tmp_path / "m").training_["calibration"]["sentences"]
    cannot = f"{5 - n} with labels that the model cannot give"
    assert f", on {n} sentences; left out: 2 without labels, {cannot}; " in out.splitlines()[0]
    one_line(err, f"labelwright: the calibration rests on {n} sentences, ", "use 30 or more")
    assert run("calibrate", place / "crf", tmp_path / "some.txt", "-o", tmp_path / "m", "-q") == (
        0,
        "",
        "",
    )
    (tmp_path / "unknown.txt").write_text("\n".join(unknown))
    refused(
        run("calibrate", place / "crf", tmp_path / "unknown.txt", "-o", tmp_path / "none"),
        "no held-out token has a label",
    )
    assert not (tmp_path / "none").exists()


def test_calibrate_a_cascade(run, folder: Path, tmp_path: Path) -> None:
    code, out, _ = run(
        "calibrate", folder / "two", folder / "dev.txt", "-o", tmp_path / "m", "--json"
    )
    assert code == 0
    layers = json.loads(out)["layers"]
    model = labelwright.load(tmp_path / "m")
    assert {name: layer.temperature_ for name, layer in model.layers_.items()} == {
        name: facts["calibration"]["temperature"] for name, facts in layers.items()
    }
    code, out, _ = run("calibrate", folder / "two", folder / "dev.txt", "-o", tmp_path / "m")
    assert all(f"{name}\ntemperature" in out for name in layers)
    assert run("inspect", tmp_path / "m")[1].count("calibration  temperature") == len(layers)
    code, out, _ = run("eval", tmp_path / "m", folder / "test.txt", "--calibration", "--json")
    assert all("ece" in facts["calibration"] for facts in json.loads(out)["layers"].values())


@pytest.mark.cases(1)
@pytest.mark.parametrize("model", ["crf", "perceptron", "memory"])
def test_train_calibrates(run, place: Path, tmp_path: Path, model: str) -> None:
    train = ["train", place / "train.txt", "-o", tmp_path / "m", "--model", model, "--threads", 1]
    train += [] if model == "memory" else ["--iterations", 5]
    code, _, err = run(*train, "--calibrate", "isotonic", "--dev", place / "dev.txt")
    assert code == 0, err
    calibration = labelwright.load(tmp_path / "m")._calibration
    assert calibration.span is not None
    assert (
        f"calibrated on development data: temperature {calibration.temperature:.4g}, monotone "
        "maps, on "
    ) in err
    run(
        "train",
        place / "train.txt",
        "-o",
        tmp_path / "plain",
        *train[4:],
        "--dev",
        place / "dev.txt",
    )
    run(
        "calibrate",
        tmp_path / "plain",
        place / "dev.txt",
        "-o",
        tmp_path / "two",
        "--method",
        "isotonic",
        "-q",
    )
    assert labelwright.load(tmp_path / "two")._calibration == calibration
    code, _, err = run(*train, "--calibrate", "temperature")
    assert "calibrated by cross-fitting in 5 parts: temperature " in err
    assert labelwright.load(tmp_path / "m").temperature_ > 0


def test_train_keeps_a_model_that_cannot_be_calibrated(run, place: Path, tmp_path: Path) -> None:
    train = ["train", place / "train.txt", "-o", tmp_path / "m", "--iterations", 3, "-q"]
    (place / "few.txt").write_text("Ada B-PER\nran O\n\n")
    refused(
        run(*train, "--calibrate", "isotonic", "--dev", place / "few.txt"),
        "--calibrate: isotonic regression needs 50 entities",
        "holds the model without calibration",
    )
    assert labelwright.load(tmp_path / "m").temperature_ is None
    (tmp_path / "w.txt").write_text((place / "train.txt").read_text().replace(" ", " 1 "))
    weighted = [
        "train",
        tmp_path / "w.txt",
        "-o",
        tmp_path / "m",
        "--columns",
        "word,n,entity",
        "-q",
    ]
    result = run(*weighted, "--sentence-weight", "n", "--calibrate", "temperature")
    refused(result, "--calibrate: cross-fitting trains copies without weights; add --dev FILE")


# --- eval -----------------------------------------------------------------------------------------


def test_eval_shows_how_far_probabilities_can_be_trusted(run, place: Path, tmp_path: Path) -> None:
    code, out, err = run("eval", place / "crf.sure", place / "test.txt", "--calibration")
    assert (code, err) == (0, "")
    assert "expected calibration error" in out
    assert "at 95 % precision you keep" in out
    _, out, _ = run("eval", place / "crf.sure", place / "test.txt", "--calibration", "--json")
    facts = json.loads(out)
    model = labelwright.load(place / "crf.sure")
    test = labelwright.read_columns(place / "test.txt", names="word,entity")
    assert facts["calibration"] == json.loads(json.dumps(calibration_report(model, test).as_dict()))
    _, out, _ = run(
        "eval", place / "crf.sure", place / "test.txt", "--calibration", "--json", "--uncalibrated"
    )
    raw = json.loads(out)["calibration"]
    assert raw == json.loads(json.dumps(calibration_report(model.uncalibrated(), test).as_dict()))
    assert raw["said"] != facts["calibration"]["said"]
    assert json.loads(out)["f1"] == facts["f1"]


def test_eval_draws_a_diagram(run, place: Path, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, model, test in [
        ("a", place / "pos-crf", place / "pos-test.txt"),
        ("b", folder / "two", folder / "test.txt"),
    ]:
        code, _, err = run("eval", model, test, "--calibration", "--plot", tmp_path / f"{name}.png")
        assert (code, err.count("\n")) == (0, name == "b")  # which warns of an unseen label
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


# --- tag ------------------------------------------------------------------------------------------


def labels(out: str) -> list[str]:
    return [line.split()[-1] for line in out.splitlines() if line]


@pytest.mark.parametrize("kind", ["crf", "perceptron"])
def test_doubtful_entities_are_left_out(run, place: Path, kind: str) -> None:
    model, test = place / f"{kind}.sure", place / "test.txt"
    value = "probability" if kind == "crf" else "confidence"
    plain = [json.loads(line) for line in run("tag", model, test, "--json")[1].splitlines()]
    values = sorted({span[value] for sentence in plain for span in sentence["spans"]})
    least = sum(values[len(values) // 2 - 1 :][:2]) / 2  # between two that are shown
    code, out, err = run("tag", model, test, "--json", "--min-confidence", least)
    assert (code, err) == (0, "")
    kept = [json.loads(line) for line in out.splitlines()]
    for before, after in zip(plain, kept, strict=True):
        assert after["spans"] == [span for span in before["spans"] if span[value] >= least]
        inside = {t for span in after["spans"] for t in range(span["start"], span["end"])}
        assert after["labels"] == [
            label if t in inside else "O" for t, label in enumerate(before["labels"])
        ]
    _, columns, _ = run("tag", model, test, "--min-confidence", least)
    assert labels(columns) == [label for sentence in kept for label in sentence["labels"]]
    text = (place / "text.txt").write_text(
        "He saw Paris and London . John Smith ran .\n"
    ) and place / "text.txt"
    entities = [json.loads(line) for line in run("tag", model, text, "--text")[1].splitlines()]
    _, out, _ = run("tag", model, text, "--text", "--min-confidence", least)
    assert [json.loads(line) for line in out.splitlines()] == [
        e for e in entities if e[value] >= least
    ]
    _, out, _ = run("tag", model, text, "--text", "--to", "columns", "--min-confidence", 1)
    assert set(labels(out)) == {"O"}


def test_labels_without_chunks_become_undecided(run, place: Path) -> None:
    model, test = place / "pos-crf.sure", place / "pos-test.txt"
    _, out, _ = run("tag", model, test, "--probabilities")
    rows = [line.split()[-2:] for line in out.splitlines() if line]
    code, out, err = run("tag", model, test, "--min-confidence", 0.8)
    assert (code, err) == (0, "")
    wanted = ["_" if float(p) < 0.8 else label for label, p in rows]
    assert sum(a != b for a, b in zip(labels(out), wanted, strict=True)) <= sum(
        p == "0.8000" for _, p in rows
    )
    assert "_" in labels(out)
    code, out, _ = run("tag", model, test, "--min-confidence", 0.8, "--json", "--probabilities")
    (first, *_) = [json.loads(line) for line in out.splitlines()]
    assert first["spans"] == []
    assert ["_" if p < 0.8 else "x" for p in first["probabilities"]] == [
        "_" if y == "_" else "x" for y in first["labels"]
    ]


def test_probabilities_are_those_of_the_labels_that_are_shown(run, place: Path) -> None:
    model, test = place / "crf.sure", place / "test.txt"
    X = labelwright.read_columns(test, names="word,entity").select(["word"])
    rows = [row for sentence in labelwright.load(model).predict_marginals(X) for row in sentence]
    _, out, _ = run("tag", model, test, "--min-confidence", 1, "--probabilities")
    shown = [line.split()[-2:] for line in out.splitlines() if line]
    assert shown == [["O", f"{row['O']:.4f}"] for row in rows]


def test_probabilities_without_calibration(run, place: Path) -> None:
    raw = run("tag", place / "crf", place / "test.txt", "--json")[1]
    assert run("tag", place / "crf.sure", place / "test.txt", "--json", "--uncalibrated")[1] == raw
    assert run("tag", place / "crf.sure", place / "test.txt", "--json")[1] != raw
    assert (
        run("tag", place / "crf.sure", place / "test.txt")[1]
        == run("tag", place / "crf", place / "test.txt")[1]
    )
