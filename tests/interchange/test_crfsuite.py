"""CRFsuite's models: read as CRFsuite reads them, written as it writes them, and damage named in
one line."""

import math
import random
from types import SimpleNamespace

import numpy as np
import pytest

import labelwright
from labelwright.errors import ModelFileError
from labelwright.interchange import crfsuite
from labelwright.interchange.chains import ChainModel, from_crf, to_crf
from labelwright.interchange.crfsuite import hashes, write_strings
from labelwright.taggers.crf import CRF

WORDS = [
    "the",
    "dog",
    "naïve",
    "日本",
    "a:b",
    "a=b",
    "",
    " x\t",
    "a word that is longer than two blocks of the hash",
]


def sentences(n=40, seed=0):
    """Feature dicts with strings, numbers, booleans, and labels that depend on them."""
    rng = random.Random(seed)
    X = [
        [
            {
                "w": rng.choice(WORDS),
                "v:1": rng.uniform(-2, 2),
                "é": rng.random() < 0.5,
                "n": rng.randrange(3),
            }
            for _ in range(rng.randrange(1, 8))
        ]
        for _ in range(n)
    ]
    y = [
        [("I-ü" if t["n"] else "B-ü") if t["w"] in WORDS[:4] and t["v:1"] > -1 else "O" for t in s]
        for s in X
    ]
    return X, y


def small_model():
    return ChainModel(
        ["O", "B-ü", "I-ü"],
        ["bias", "w:the", "w:日本"],
        np.array([0, 0, 1, 2], np.int32),
        np.array([0, 2, 1, 2], np.int32),
        np.array([0.1, -1 / 3, 2.0, 1e-9]),
        np.array([0, 1, 1], np.int32),
        np.array([1, 0, 2], np.int32),
        np.array([1 / 7, -0.25, 3.0]),
    )


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


# -- without CRFsuite ------------------------------------------------------------------------------


def test_the_hash_is_lookup3():
    strings = [b"Four score and seven years ago", b"\0"]
    text = np.frombuffer(b"".join(strings), np.uint8)
    assert hashes(text, np.array([30, 1])).tolist()[0] == 0x17770551  # as its author gives it
    each = [hashes(np.frombuffer(s, np.uint8), np.array([len(s)]))[0] for s in strings]
    assert hashes(text, np.array([30, 1])).tolist() == each


def test_a_model_comes_back_as_it_was_written():
    model = small_model()
    assert same(crfsuite.read(crfsuite.write(model), "m"), model)
    assert crfsuite.write(from_crf(to_crf(model))) == crfsuite.write(model)


def test_zeros_are_left_out_and_labels_stay():
    model = small_model()._replace(
        weight=np.array([0.1, 0, 0, 1e-9]), transition=np.array([0.0, 0, 1])
    )
    back = crfsuite.read(crfsuite.write(model), "m")
    assert (back.labels, back.attributes) == (model.labels, ["bias", "w:日本"])
    assert (back.attribute.tolist(), back.weight.tolist(), back.source.tolist()) == (
        [0, 1],
        [0.1, 1e-9],
        [1],
    )


@pytest.mark.parametrize("empty", ["transitions", "weights"])
def test_one_kind_of_weights_may_be_missing(empty):
    nothing = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)
    model = small_model()
    fields = (
        ("source", "target", "transition")
        if empty == "transitions"
        else ("attribute", "label", "weight")
    )
    model = model._replace(**dict(zip(fields, nothing, strict=True)))
    crf = labelwright.load(crfsuite.write(model))
    assert crf.predict([[{"bias": 1.0}, {"w": "the"}]]) == [
        ["O", "B-ü"] if empty == "transitions" else ["B-ü", "I-ü"]
    ]


def test_missing_weights_are_zero_and_forbid_nothing():
    crf = to_crf(small_model())
    (marginals,) = crf.predict_marginals([[{"w": "unknown"}]])
    assert all(p == pytest.approx(1 / 3) for p in marginals[0].values())
    assert math.isfinite(crf.sequence_log_probabilities([[{}, {}]], [["I-ü", "I-ü"]])[0])


@pytest.mark.parametrize("string", ["a\0b", "\ud800"])
def test_strings_that_the_format_cannot_hold(string):
    with pytest.raises(ModelFileError, match="the attribute"):
        write_strings([string], "attribute")


def words_at(data, offset, n=1):
    return np.frombuffer(data, "<u4", n, offset).astype(int).tolist()


def with_word(data, offset, number):
    return data[:offset] + np.array([number], "<u4").tobytes() + data[offset + 4 :]


def places(data):
    """Where things are in a file."""
    names = "features", "labels", "attributes", "of_labels", "of_attributes"
    return SimpleNamespace(**dict(zip(names, words_at(data, 28, 5), strict=True)))


DAMAGE = [
    (lambda d, at: d[:40], "cut short after 40 bytes"),
    (lambda d, at: d[:-1], "cut short after"),
    (lambda d, at: d[:8] + b"XOMC" + d[12:], "expected a first-order CRFsuite model"),
    (lambda d, at: with_word(d, 12, 101), "version 101"),
    (lambda d, at: with_word(d, 16, 3), "holds 7 features, but the file has 3"),
    (lambda d, at: with_word(d, 20, 4), "holds 3 strings, but the file has 4 labels"),
    (lambda d, at: with_word(d, 24, 1 << 31), "attributes: holds 3 strings"),
    (lambda d, at: with_word(d, 28, len(d)), "features: chunk ends behind the end"),
    (lambda d, at: with_word(d, 32, at.attributes - 1), "labels: begins with"),
    (lambda d, at: with_word(d, at.features + 4, 1 << 30), "1,073,741,824 bytes, but the file has"),
    (lambda d, at: with_word(d, at.features + 8, 1 << 31), "list of features ends behind the end"),
    (lambda d, at: with_word(d, at.features + 12, 2), "neither of an attribute nor a transition"),
    (
        lambda d, at: with_word(d, at.features + 16, 3),
        "an attribute or a label that does not exist",
    ),
    (lambda d, at: with_word(d, at.features + 28, 0x7FF00000), "a weight is not a number between"),
    (lambda d, at: with_word(d, at.features + 40, 0), "a feature occurs twice"),
    (lambda d, at: with_word(d, at.labels + 12, 1), "byte order 0x1"),
    (lambda d, at: with_word(d, at.labels + 20, 1 << 31), "array of offsets ends behind the end"),
    (lambda d, at: with_word(d, at.labels + 2072, 1), "another number than its place"),
    (lambda d, at: with_word(d, at.labels + 2076, 1 << 31), "a string lies outside it"),
    (
        lambda d, at: with_word(d, at.labels + 2076, 5),
        "a label is not UTF-8|does not end with NUL|NUL character",
    ),
    (lambda d, at: d[: at.labels + 2080] + b"\xff" + d[at.labels + 2081 :], "a label is not UTF-8"),
    (
        lambda d, at: d[: at.labels + 2080] + b"\t" + d[at.labels + 2081 :],
        "label '.t' holds a tab, so no file can",
    ),
    (
        lambda d, at: d[: at.attributes + 2081] + b"\0" + d[at.attributes + 2082 :],
        "a NUL character within it",
    ),
    (lambda d, at: with_word(d, at.of_labels + 8, 2), "holds 2 lists, expected 3"),
    (lambda d, at: with_word(d, at.of_labels + 12, at.of_labels - 4), "a list begins outside it"),
    (lambda d, at: with_word(d, at.of_attributes + 24, 1 << 31), "features of attributes: lists"),
    (lambda d, at: with_word(d, at.of_attributes + 28, 100), "lists a feature that does not exist"),
    (
        lambda d, at: with_word(d, at.of_attributes + 28, 3),
        "lists a feature that belongs elsewhere",
    ),
    (lambda d, at: with_word(d, at.of_attributes + 28, 1), "lists a feature twice"),
]


@pytest.mark.parametrize(("damage", "told"), DAMAGE, ids=[told for _, told in DAMAGE])
def test_damage_is_one_line(damage, told):
    data = crfsuite.write(small_model())
    with pytest.raises(ModelFileError, match=told) as caught:
        labelwright.load(damage(data, places(data)))
    assert str(caught.value).startswith("<bytes>: ")
    assert "\n" not in str(caught.value)


def damaged(data, rng):
    """A file with some bytes changed, or cut short."""
    if rng.random() < 0.2:
        return data[: rng.randrange(4, len(data))]
    octets = bytearray(data)
    near = rng.choice([(4, 48), (4, len(data)), (48, 200), (len(data) - 200, len(data))])
    for _ in range(rng.choice([1, 1, 2, 8])):
        octets[rng.randrange(*near)] = rng.choice([0, 1, 4, 127, 128, 255, rng.randrange(256)])
    return bytes(octets)


def answered(data):
    """The error of a file, or None where it loads and answers."""
    try:
        crf = labelwright.load(data)
    except ModelFileError as error:
        return str(error)
    sentence = [{"w": "the", "bias": 0.5}, {"w": "日本"}]
    (labels,), (marginals,) = crf.predict([sentence]), crf.predict_marginals([sentence])
    assert len(labels) == len(marginals) == 2
    assert all(0 <= p <= 1 + 1e-9 for row in marginals for p in row.values())
    return None


def test_any_damage_is_an_error_or_a_model():
    data = crfsuite.write(small_model())
    rng = random.Random(7)
    errors = [answered(damaged(data, rng)) for _ in range(300)]
    told = [error for error in errors if error is not None]
    assert 30 < len(told) < 300
    assert not any("\n" in error for error in told)


# -- against CRFsuite ------------------------------------------------------------------------------


def trained_by_crfsuite(X, y, path, **settings):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 20, **settings})
    for features, labels in zip(X, y, strict=True):
        trainer.append(features, labels)
    trainer.train(str(path))
    return path.read_bytes()


def opened(data):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    tagger = pycrfsuite.Tagger()
    tagger.open_inmemory(data)
    return tagger


def check_agreement(theirs, ours, X, X_ours=None):
    """The same labels, probabilities and marginals to 1e-9."""
    assert theirs.labels() == ours.classes_
    for x, own in zip(X, X_ours or X, strict=True):
        labels = theirs.tag(x)
        assert ours.predict([own]) == [labels]
        (log_probability,) = ours.sequence_log_probabilities([own], [labels])
        assert theirs.probability(labels) == pytest.approx(math.exp(log_probability), abs=1e-9)
        (marginals,) = ours.predict_marginals([own])
        for t, row in enumerate(marginals):
            assert all(
                theirs.marginal(label, t) == pytest.approx(p, abs=1e-9) for label, p in row.items()
            )


@pytest.mark.parametrize(
    "settings",
    [
        {"c1": 0.2},
        {"c2": 0.01},
        {"feature.possible_transitions": True, "feature.possible_states": True},
    ],
)
def test_their_model_here_and_back(settings, tmp_path):
    X, y = sentences()
    data = trained_by_crfsuite(X, y, tmp_path / "m", **settings)
    crf = labelwright.load(tmp_path / "m")
    check_agreement(opened(data), crf, X)
    assert crfsuite.write(crfsuite.read(data, "m")) == data
    crf.save(tmp_path / "m.safetensors")
    again = labelwright.load(tmp_path / "m.safetensors")
    assert again.weights_.dtype == np.float64
    assert again.predict_marginals(X) == crf.predict_marginals(X)
    assert crfsuite.write(from_crf(again)) == data


def test_our_model_there_and_back(tmp_path):
    X, y = sentences(seed=1)
    # values that we trained on
    X = [[token | {"v:1": float(np.float32(token["v:1"]))} for token in x] for x in X]
    ours = CRF(n_jobs=1, max_iter=20).fit(X, y)
    data = crfsuite.write(from_crf(ours))
    theirs = opened(data)
    check_agreement(theirs, ours, X)
    check_agreement(theirs, labelwright.load(data), X)
    (tmp_path / "m").write_bytes(data)
    theirs.open(str(tmp_path / "m"))
    info, model = theirs.info(), from_crf(ours)
    assert len(info.state_features) == len(model.weight)
    assert len(info.transitions) == len(model.transition)
    assert list(info.attributes) == model.attributes
    assert list(info.labels) == model.labels


@pytest.mark.parametrize("labels", [["A"], ["A", "B"]])
def test_few_labels(labels, tmp_path):
    X = [[{"w": "x"}], [{"w": "y"}]]
    data = trained_by_crfsuite(X, [[labels[0]], [labels[-1]]], tmp_path / "m")
    theirs, ours = opened(data), labelwright.load(data)
    assert not len(crfsuite.read(data, "m").transition)
    check_agreement(theirs, ours, [*X, [{"w": "z"}, {"w": "x"}]])
    assert crfsuite.write(from_crf(ours)) == data


def test_a_small_file_has_no_room_for_many_labels():
    data = bytearray(crfsuite.write(small_model()))
    data[20:24] = (5000).to_bytes(4, "little")
    with pytest.raises(
        ModelFileError,
        match=r"5,000 labels in a file of 4,652 bytes make more than 4,268,736 pairs",
    ):
        crfsuite.read(bytes(data), "made")
