"""Decoding by costs of wrong labels, against enumeration of all labellings."""

import itertools

import numpy as np
import pytest

from labelwright import CRF, LatentCRF
from labelwright.corpus import builtin_corpus
from labelwright.decode.costs import cheapest, cost_matrix
from labelwright.errors import OptionError
from labelwright.structures.states import state_space

CORPUS = builtin_corpus(40, random_state=3, columns=["word", "pos", "chunk"])


@pytest.mark.parametrize("scheme", [None, "iob2"])
@pytest.mark.parametrize("seed", range(5))
def test_the_lowest_expected_cost_of_all_labellings(scheme, seed):
    random, labels = np.random.default_rng(seed), ["O", "B-X", "I-X"]
    space = state_space(labels, [1, 2, 1], scheme=scheme)
    marginals, matrix = random.dirichlet(np.ones(3), 4), random.uniform(0, 3, (3, 3)) * (1 - np.eye(3))
    found = cheapest(marginals, matrix, space)

    def cost(labelling):
        return sum(marginals[t] @ matrix[:, y] for t, y in enumerate(labelling))

    allowed = [
        y for y in itertools.product(range(3), repeat=4)
        if scheme is None or (y[0] != 2 and all((a, b) != (0, 2) for a, b in itertools.pairwise(y)))
    ]  # fmt: skip
    assert cost(found) == pytest.approx(min(map(cost, allowed)))
    assert tuple(found.tolist()) in allowed


@pytest.mark.parametrize(
    "model", [CRF(max_iter=3, n_jobs=1), LatentCRF(n_latent=2, max_iter=3, n_jobs=1, random_state=0)]
)
def test_costs_move_predictions(model):
    model.fit(CORPUS)
    plain = model.decode(CORPUS.X, "marginal")
    even = model.decode(CORPUS.X, "mbr", costs={("*", "*"): 1.0})
    assert [d.labels for d in even] == [d.labels for d in plain]
    few = model.decode(CORPUS.X, "mbr", costs="*>O=20")
    many = model.decode(CORPUS.X, "mbr", costs="O>*=20")
    outside = [sum(label == "O" for d in answer for label in d.labels) for answer in (few, even, many)]
    assert outside == sorted(outside)
    assert outside[0] < outside[2]
    valid = model.decode(CORPUS.X, "mbr", costs="*>O=20", constraints="scheme")
    assert all(d.log_probability > -np.inf for d in valid)


def test_the_text_and_the_table_are_the_same():
    labels = ["O", "B-PER", "B-LOC"]
    table = {("*", "B-LOC"): 2.0, ("B-PER", "O"): 5}
    np.testing.assert_array_equal(cost_matrix("*>B-LOC=2,B-PER>O=5", labels), cost_matrix(table, labels))


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ("B-PER>O", "expected RIGHT>PREDICTED=X"),
        ("B-PER>X=2", "no label 'X' in this model"),
        ({("B-PER", "O"): -1}, "expected a number of 0 or more, got -1"),
        ({"B-PER": 2}, "expected {\\(right, predicted\\): cost}"),
        ("O>B-PER=1-", "expected a number after ="),
    ],
)
def test_what_is_refused(costs, message):
    with pytest.raises(OptionError, match=message):
        cost_matrix(costs, ["O", "B-PER"])
