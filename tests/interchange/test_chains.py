"""Taggers as chain models: what is carried, what is refused, and the attributes that other programs
need."""

import io

import numpy as np
import pytest

import labelwright
from labelwright.errors import LabelwrightError, ModelFileError, OptionError
from labelwright.interchange import crfsuite, formats
from labelwright.interchange.chains import attributes, from_crf, not_carried, to_crf
from labelwright.taggers.registry import model_class

X = [["the", "dog"], ["a", "dog", "barks"], ["the", "bird"]]
Y = [["B-X", "I-X"], ["B-X", "I-X", "O"], ["B-X", "I-X"]]
DICTS = [[{"w": word, "w=the": word == "the", "size": len(word) / 4} for word in x] for x in X]


@pytest.mark.parametrize("name", ["crf", "perceptron"])
@pytest.mark.parametrize("kind", ["columns", "dicts", "arrays"])
def test_every_kind_of_features_can_be_written(name, kind):
    data = {
        "columns": X,
        "dicts": DICTS,
        "arrays": [np.array([[len(w), i] for i, w in enumerate(x)]) for x in X],
    }[kind]
    ours = model_class(name)(n_jobs=1, max_iter=5).fit(data, Y)
    copy = to_crf(from_crf(ours))
    assert copy.predict(attributes(ours, data)) == ours.predict(data)
    if name == "crf":
        same = copy.sequence_log_probabilities(attributes(ours, data), Y)
        assert same == pytest.approx(ours.sequence_log_probabilities(data, Y), abs=1e-9)


def test_string_values_are_joined_as_crfsuite_joins_them():
    ours = labelwright.CRF(n_jobs=1, max_iter=5).fit(DICTS, Y)
    names = from_crf(ours).attributes
    assert "w:dog" in names
    assert "size" in names
    copy = to_crf(from_crf(ours))
    assert copy.predict_marginals(DICTS)[1][0] == pytest.approx(
        ours.predict_marginals(DICTS)[1][0], abs=1e-9
    )


def test_attributes_of_nothing():
    ours = labelwright.CRF(n_jobs=1, max_iter=2).fit(X, Y)
    assert attributes(ours, [[], []]) == [[], []]


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("crf", {"order": 2}, "order 2"),
        ("latent-crf", {"n_latent": 2}, "latent states"),
        ("crf", {"prune_labels": 0.9}, "pruned labels"),
        ("crf", {"constraints": "scheme"}, "forbidden transitions"),
        ("crf", {"template": "pairs"}, "features on pairs of labels"),
        ("semi-crf", {}, "segments"),
        ("memory", {}, "a MemoryTagger"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(name, settings, told, tmp_path):
    if settings.get("template") == "pairs":
        (tmp_path / "pairs").write_text("U:%x[0,0]\nB:%x[0,0]\n")
        settings = {"template": str(tmp_path / "pairs")}
    fast = {} if name == "memory" else {"max_iter": 2}
    tagger = model_class(name)(n_jobs=1, **fast, **settings).fit(X, Y)
    with pytest.raises(ModelFileError, match=f"^out.crfsuite: {told}") as caught:
        formats.save(tagger, "out.crfsuite")
    assert "\n" not in str(caught.value)


def test_names_that_would_be_one_attribute():
    ours = labelwright.CRF(n_jobs=1, max_iter=2).fit([[{"w": "a", "w:a": 1.0}]], [["A"]])
    with pytest.raises(ModelFileError, match="two features would be the attribute 'w:a'"):
        from_crf(ours)


def test_files_bytes_and_file_objects(tmp_path):
    ours = labelwright.CRF(n_jobs=1, max_iter=2).fit(DICTS, Y)
    there = io.BytesIO()
    model = formats.save(ours, there)
    formats.save(ours, tmp_path / "m")
    assert there.getvalue() == (tmp_path / "m").read_bytes() == crfsuite.write(model)
    assert labelwright.load(io.BytesIO(there.getvalue())).predict(DICTS) == ours.predict(DICTS)
    with pytest.raises(OptionError, match="expected one of crfsuite"):
        formats.save(ours, there, "wapiti")


def test_what_is_not_carried_is_named():
    told = not_carried(labelwright.CRF(n_jobs=1, max_iter=2).fit(X, Y))
    assert told[:3] == ["settings", "training record", "label scheme (iob2)"]
    assert told[3].startswith("template")
    assert (
        not_carried(
            to_crf(
                from_crf(
                    labelwright.CRF(n_jobs=1, max_iter=2).fit(DICTS, [["A"] * len(x) for x in X])
                )
            )
        )
        == []
    )


def test_the_scheme_shows_in_the_transitions():
    words = [["a", "b", "c"], ["b", "b", "a"]]
    strict = labelwright.CRF(n_jobs=1).fit(words, [["B-X", "I-X", "O"], ["B-X", "I-X", "O"]])
    loose = labelwright.CRF(n_jobs=1).fit(words, [["O", "I-X", "I-X"], ["O", "I-X", "B-X"]])
    assert [to_crf(from_crf(tagger)).scheme_ for tagger in (strict, loose)] == ["iob2", "iob1"]


def test_training_goes_on_from_an_imported_model():
    first = to_crf(from_crf(labelwright.CRF(n_jobs=1).fit(DICTS, Y)))
    (at,) = [f for f in range(first._extractor.n_features) if first._extractor.name(f) == "w:dog"]
    old = first.weights_[first._parameters.cells["state"].ptr[at]]
    more = labelwright.CRF(n_jobs=1, max_iter=1, l2=1e-9).fit(DICTS, Y, init=first)
    assert more.weights_.dtype == np.float32
    (now,) = [f for f in range(more._extractor.n_features) if more._extractor.name(f) == "w=dog"]
    carried = more._weights_of(first)[more._parameters.cells["state"].ptr[now]]
    assert carried == np.float32(old) != 0


def test_an_imported_model_says_so():
    imported = to_crf(from_crf(labelwright.CRF(n_jobs=1, max_iter=2).fit(DICTS, Y)))
    assert imported.describe()["signature"].startswith("crf|template:dicts|imported_from:CRFsuite|")
    with pytest.raises(LabelwrightError, match="expected a dict of features"):
        imported.predict(X)
