"""Weights of labels and codes of labels, as arrays."""

import numpy as np
import pytest

from labelwright import CRF, LatentCRF, MemoryTagger, Perceptron, SemiCRF
from labelwright.errors import OptionError
from labelwright.search import ProgressiveSearch, cross_validate
from labelwright.taggers.arguments import class_weights, tokens_of_labels

X = [["a", "b", "c"]] * 12
Y = [["B-R", "O", "B-Q"], *([["O", "B-P", "O"]] * 11)]  # two labels in one sentence alone
RARE = {"B-Q": 2.0, "O": 0.5}
TAGGERS = {
    "crf": CRF(class_weight=RARE, max_iter=2, n_jobs=1),
    "forbidden": CRF(
        class_weight=RARE, forbidden_transitions=[("B-P", "B-Q")], max_iter=2, n_jobs=1
    ),
    "latent": LatentCRF(
        {"O": 1, "B-P": 2, "B-Q": 1, "B-R": 1}, class_weight=RARE, max_iter=2, n_jobs=1
    ),
    "semi-crf": SemiCRF(class_weight=RARE, max_iter=2, n_jobs=1),
    "perceptron": Perceptron(class_weight=RARE, max_iter=2, n_jobs=1),
    "memory": MemoryTagger(class_weight=RARE, n_jobs=1),
}
every = pytest.mark.parametrize("name", TAGGERS)


def test_balanced_weights_of_labels():
    """The sum of the weights of its tokens is the same for every label."""
    gold = np.repeat([0, 1, 2], [6, 3, 1])
    weights = class_weights("balanced", ["A", "B", "C"], np.bincount(gold))
    assert (weights * np.bincount(gold)).tolist() == pytest.approx([10 / 3] * 3)


def test_labels_that_occur_in_sets_alone_have_the_weight_one():
    """They would have a huge one as the rarest of all, and change those of the others."""
    sets = [3, 3]  # the set B|C
    weights = class_weights(
        "balanced", ["A", "B", "C"], tokens_of_labels("ABC", np.array([0] * 50 + [1] * 50 + sets))
    )
    assert weights.tolist() == [1.0, 1.0, 1.0]
    assert class_weights(
        "balanced", ["A", "B"], tokens_of_labels("AB", np.array([2, 2]))
    ).tolist() == [1.0, 1.0]


# --- parts of the data ----------------------------------------------------------------------------


@every
def test_folds_may_lack_labels_that_settings_name(name):
    model = TAGGERS[name]
    assert len(cross_validate(model, X, Y, folds=2).folds) == 2
    misspelt = model._untrained() if hasattr(model, "_untrained") else MemoryTagger(n_jobs=1)
    with pytest.raises(OptionError, match="class_weight: no label 'B-Z' in the training data"):
        misspelt.set_params(class_weight={"B-Z": 2.0}).fit(X, Y)


@pytest.mark.parametrize("name", ["crf", "forbidden", "latent", "semi-crf", "perceptron"])
def test_calibration_by_folds(name):
    model = TAGGERS[name]._untrained().fit(X, Y).calibrate(X, Y, folds=2)
    assert model.temperature_ > 0


def test_batches_may_lack_labels_that_have_weights():
    model = TAGGERS["perceptron"]._untrained()
    for n in (8, 4, 0):
        model.partial_fit(X[n : n + 4], Y[n : n + 4])
    assert set(model.classes_) == {"O", "B-P", "B-Q", "B-R"}


def test_a_search_on_samples():
    search = ProgressiveSearch(TAGGERS["crf"], {"l2": [0.5, 1.0]}, first=5, steps=2, n_jobs=1)
    search.fit(X + X[1:], Y + Y[1:])
    assert search.best_params_["l2"] in (0.5, 1.0)


def test_texts_are_no_weights():
    with pytest.raises(
        OptionError, match="sample_weight: sentence 1: expected a number of 0 or more, got 'a'"
    ):
        CRF().fit([["x"], ["y", "z"]], [["A"], ["B", "A"]], sample_weight=[1.0, "a"])
    with pytest.raises(
        OptionError, match="sample_weight: token 1: expected a number of 0 or more, got 'a'"
    ):
        CRF().fit([["x"], ["y", "z"]], [["A"], ["B", "A"]], sample_weight=[[1.0], ["a", 2.0]])
