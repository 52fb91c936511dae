"""Weights of labels and codes of labels, as arrays."""

import numpy as np
import pytest

from labelwright.taggers.sample_weights import class_weights


def test_balanced_weights_of_labels():
    """The sum of the weights of its tokens is the same for every label."""
    gold = np.repeat([0, 1, 2], [6, 3, 1])
    weights = class_weights("balanced", ["A", "B", "C"], gold)
    assert (weights * np.bincount(gold)).tolist() == pytest.approx([10 / 3] * 3)


def test_labels_that_occur_in_sets_alone_have_the_weight_one():
    """They would have a huge one as the rarest of all, and change those of the others."""
    sets = [3, 3]  # the set B|C
    weights = class_weights("balanced", ["A", "B", "C"], np.array([0] * 50 + [1] * 50 + sets))
    assert weights.tolist() == [1.0, 1.0, 1.0]
    assert class_weights("balanced", ["A", "B"], np.array([2, 2])).tolist() == [1.0, 1.0]
