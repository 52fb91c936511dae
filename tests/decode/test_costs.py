"""Decoding by costs of wrong labels, against enumeration of all labellings."""

import itertools

import numpy as np
import pytest
from oracles import Scores

from labelwright import CRF, LatentCRF
from labelwright.corpus import builtin_corpus, validate
from labelwright.decode.mbr import cheapest, cost_matrix
from labelwright.errors import OptionError
from labelwright.structures.lattice import labelling_weight
from labelwright.structures.states import state_space

CORPUS = builtin_corpus(40, random_state=3, columns=["word", "pos", "chunk"])


@pytest.mark.parametrize("scheme", [None, "iob2"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_the_lowest_expected_cost_of_all_labellings(scheme, order, seed):
    """Of those that the lattice allows, some labels of which are barred."""
    random, labels = np.random.default_rng(seed), ["O", "B-X", "I-X"]
    space = state_space(labels, [1, 2, 1], order, scheme)
    node, arc = random.normal(size=(4, 4)), np.where(space.arc, random.normal(size=(4, 4)), -np.inf)
    node[0, ~space.start] = node[1, space.label_of == random.integers(3)] = -np.inf
    triple = random.normal(size=(1, 4, 4, 4)) if order == 2 else None
    lattice = Scores(node, arc[None], triple).lattice(space.graph)
    matrix = random.uniform(0, 3, (3, 3)) * (1 - np.eye(3))
    weight = {
        y: labelling_weight(lattice, np.array(y)) for y in itertools.product(range(3), repeat=4)
    }
    total = np.logaddexp.reduce(list(weight.values()))
    marginals = np.zeros((4, 3))
    for y, score in weight.items():
        marginals[np.arange(4), y] += np.exp(score - total)

    def cost(labelling):
        return sum(marginals[t] @ matrix[:, y] for t, y in enumerate(labelling))

    allowed = [y for y, score in weight.items() if score > -np.inf]
    found = cheapest(marginals, matrix, lattice)
    assert cost(found) == pytest.approx(min(map(cost, allowed)))
    assert tuple(found.tolist()) in allowed


@pytest.mark.parametrize("forced", [[{"O", "B-NP"}, None, "I-NP"], ["B-VP", "I-VP", None]])
@pytest.mark.parametrize("costs", ["*>*=0", "*>B-PP=0.01,B-NP>O=10,O>B-NP=10"])
@pytest.mark.parametrize("scheme", [None, "scheme"])
def test_costs_keep_forced_labels(forced, costs, scheme):
    model, X = CRF(max_iter=3, n_jobs=1).fit(CORPUS), [CORPUS.X[0][:3]]
    (found,) = model.decode(X, "mbr", costs=costs, forced=[forced], constraints=scheme)
    assert found.log_probability > -np.inf
    allowed = [
        model.classes_ if f is None else [f] if isinstance(f, str) else sorted(f) for f in forced
    ]
    labellings = [
        list(y) for y in itertools.product(*allowed) if scheme is None or not validate([y], "iob2")
    ]
    assert found.labels in labellings
    (marginals,) = model.predict_marginals(X, forced=[forced], constraints=scheme)
    matrix = cost_matrix(costs, model.classes_)
    expected = np.array([[p[label] for label in model.classes_] for p in marginals]) @ matrix

    def cost(labelling):
        return sum(
            expected[t, list(model.classes_).index(label)] for t, label in enumerate(labelling)
        )

    assert cost(found.labels) == pytest.approx(min(map(cost, labellings)))


@pytest.mark.parametrize(
    "model",
    [CRF(max_iter=3, n_jobs=1), LatentCRF(n_latent=2, max_iter=3, n_jobs=1, random_state=0)],
)
def test_costs_move_predictions(model):
    model.fit(CORPUS)
    plain = model.decode(CORPUS.X, "marginal")
    even = model.decode(CORPUS.X, "mbr", costs={("*", "*"): 1.0})
    assert [d.labels for d in even] == [d.labels for d in plain]
    few = model.decode(CORPUS.X, "mbr", costs="*>O=20")
    many = model.decode(CORPUS.X, "mbr", costs="O>*=20")
    outside = [
        sum(label == "O" for d in answer for label in d.labels) for answer in (few, even, many)
    ]
    assert outside == sorted(outside)
    assert outside[0] < outside[2]
    valid = model.decode(CORPUS.X, "mbr", costs="*>O=20", constraints="scheme")
    assert all(d.log_probability > -np.inf for d in valid)


def test_costs_of_labels_that_are_pruned():
    """B-PRT is no candidate in most sentences."""
    model = CRF(max_iter=3, n_jobs=1, prune_labels=0.05).fit(CORPUS)
    found = model.decode(CORPUS.X[:5], "mbr", costs="*>B-PRT=0.001,B-NP>B-PRT=2")
    assert all(d.log_probability > -np.inf for d in found)
    with pytest.raises(OptionError, match="no label 'B-X' in this model"):
        model.decode(CORPUS.X[:1], "mbr", costs="B-X>O=1")


def test_the_text_and_the_table_are_the_same():
    labels = ["O", "B-PER", "B-LOC"]
    table = {("*", "B-LOC"): 2.0, ("B-PER", "O"): 5}
    np.testing.assert_array_equal(
        cost_matrix("*>B-LOC=2,B-PER>O=5", labels), cost_matrix(table, labels)
    )


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


def test_options_of_candidates_are_refused_with_costs():
    model = CRF(max_iter=3, n_jobs=1).fit(CORPUS)
    for options in ({"gain": "accuracy"}, {"n": 5}, {"candidates": "ldi"}):
        name = next(iter(options))
        with pytest.raises(OptionError, match=f"^{name}: costs choose among all labellings"):
            model.decode(CORPUS.X[:1], "mbr", costs="*>O=3", **options)


def test_a_type_is_no_label():
    with pytest.raises(
        OptionError,
        match="costs: no label 'NP' in this model, which has O, B-NP; did you mean 'B-NP'",
    ):
        cost_matrix("NP>O=3", ["O", "B-NP"])
