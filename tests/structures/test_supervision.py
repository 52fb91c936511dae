"""What training data say about labels."""

import numpy as np

from labelwright.structures.supervision import (
    COMPLETE,
    PARTIAL,
    PLAIN,
    UNLABELLED,
    Supervision,
    kinds_of,
)


def test_kinds_of_sentences():
    sets = np.array([[1, 1, 1], [0, 1, 1]], np.bool_)  # codes 3 and 4
    gold, offsets = np.array([0, 2, 3, 3, 3, 1, 4, 4, 3]), np.array([0, 2, 4, 6, 7, 9])
    kinds = kinds_of(gold, offsets, Supervision(sets), 3)
    assert kinds.tolist() == [COMPLETE, UNLABELLED, PARTIAL, PARTIAL, PARTIAL]
    assert kinds_of(np.array([0, 2]), np.array([0, 2]), PLAIN, 3).tolist() == [COMPLETE]


def test_what_codes_allow():
    sets = np.array([[1, 0, 1]], np.bool_)
    assert Supervision(sets).allowed(3).tolist() == [
        *np.eye(3, dtype=bool).tolist(),
        [True, False, True],
    ]
