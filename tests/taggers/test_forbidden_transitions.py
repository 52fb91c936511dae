"""Transitions that a user forbids are impossible in training and in tagging."""

import itertools

import numpy as np
import pytest

import labelwright
from labelwright import CRF, LatentCRF, LatentPerceptron, Perceptron
from labelwright.errors import CorpusError, OptionError

X = [["a", "b", "c"], ["b", "a"], ["c", "c", "b"], ["a"]]
Y = [["A", "B", "C"], ["B", "A"], ["C", "C", "B"], ["A"]]
FORBIDDEN = [("A", "C"), ("B", "B")]
TAGGERS = [
    CRF(forbidden_transitions=FORBIDDEN),
    CRF(forbidden_transitions=FORBIDDEN, order=2, constraints=None),
    LatentCRF(2, forbidden_transitions=FORBIDDEN, random_state=0, max_iter=20),
    Perceptron(forbidden_transitions=FORBIDDEN, max_iter=5),
    LatentPerceptron(2, forbidden_transitions=FORBIDDEN, random_state=0, max_iter=5),
]
names = [f"{type(tagger).__name__}-{n}" for n, tagger in enumerate(TAGGERS)]


REQUIRED = [("A", "B"), ("C", "B"), ("C", "C")]


@pytest.mark.parametrize("setting", ["forbidden_transitions", "required_transitions"])
@pytest.mark.parametrize("tagger", TAGGERS, ids=names)
def test_only_transitions_that_are_allowed_occur(tagger, setting, tmp_path) -> None:
    given = {"forbidden_transitions": None, setting: FORBIDDEN if setting[0] == "f" else REQUIRED}
    model = tagger._untrained().set_params(n_jobs=1, **given).fit(X, Y)
    model.save(tmp_path / "m")
    new = [list(words) for words in itertools.product("abc", repeat=3)]
    for trained in (model, labelwright.load(tmp_path / "m")):
        pairs = {pair for labels in trained.predict(new) for pair in itertools.pairwise(labels)}
        assert pairs
        if setting[0] == "f":
            assert not pairs & set(FORBIDDEN)
        else:
            assert {pair for pair in pairs if pair[0] in "AC"} <= set(REQUIRED)
        assert [tuple(pair) for pair in getattr(trained, setting)] == given[setting]


@pytest.mark.parametrize("tagger", TAGGERS[:3], ids=names[:3])
def test_allowed_labellings_share_all_probability(tagger) -> None:
    model = tagger._untrained().set_params(n_jobs=1).fit(X, Y)
    labellings = [list(labels) for labels in itertools.product("ABC", repeat=3)]
    log_p = model.sequence_log_probabilities([["a", "b", "c"]] * 27, labellings)
    for labels, value in zip(labellings, log_p, strict=True):
        assert (value == -np.inf) == any(pair in FORBIDDEN for pair in itertools.pairwise(labels))
    assert np.exp(log_p).sum() == pytest.approx(1.0, abs=1e-6)


def test_unknown_labels_keep_them_in_training() -> None:
    y = [["A", None, "C"], *Y[1:]]
    model = CRF(n_jobs=1, forbidden_transitions=[("A", "A"), ("A", "C"), ("C", "C")])._untrained()
    with pytest.raises(
        CorpusError,
        match="training labels: C follows C, which forbidden_transitions exclude, in 1 ",
    ):
        model.fit(X, y)
    model.set_params(forbidden_transitions=[("A", "A"), ("A", "C"), ("A", "B")])
    with pytest.raises(CorpusError, match="sentence 0: no labelling within its sets of labels"):
        model.fit(X, [["A", None, "C"], ["B"] * 2, ["C"] * 3, ["A"]])


@pytest.mark.parametrize("tagger", TAGGERS[:1] + TAGGERS[3:4], ids=["CRF", "Perceptron"])
def test_further_data_keep_them(tagger) -> None:
    model = (
        tagger._untrained().set_params(n_jobs=1).fit(X, Y).partial_fit([["d", "a"]], [["D", "A"]])
    )
    pairs = {
        pair
        for labels in model.predict([["a", "c", "b", "b"]])
        for pair in itertools.pairwise(labels)
    }
    assert not pairs & set(FORBIDDEN)


@pytest.mark.parametrize("setting", ["forbidden_transitions", "required_transitions"])
def test_wrong_transitions_are_named(setting) -> None:
    with pytest.raises(
        OptionError, match=f"{setting}: no label 'D' in the training data, which have A, B"
    ):
        CRF(**{setting: [("A", "D")]}).fit(X, Y)
    with pytest.raises(OptionError, match=f"{setting}: expected pairs of labels"):
        CRF(**{setting: ["A B"]}).fit(X, Y)
    with pytest.raises(
        CorpusError, match="training labels: B follows A, which required_transitions exclude, in 1 "
    ):
        CRF(required_transitions=[("A", "C")]).fit(X, Y)
