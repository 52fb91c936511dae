"""What layers of a cascade pass to each other, and what comes back, against enumeration and finite
differences."""

import itertools

import numpy as np
import pytest
from cascades import passed_up
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from joint_problem import assert_slopes, joint_problem, slope

from labelwright import CRF, Cascade, LatentCRF, SemiCRF
from labelwright.features.layered import LayeredFeatures
from labelwright.parallel import Workers
from labelwright.structures.dag import chain_covariance as covariance
from labelwright.structures.lattice import label_marginals, posterior, sample
from labelwright.structures.passing import Layered, certain, joined, likely, mixed, part
from labelwright.taggers.linear import LinearTagger

WORDS = "abcdef"
LOWER = {1: "U:%x[0,0]\nB\n*:%x[-1,0]", 2: "U:%x[0,0]\nB\nT:%x[0,0]\n*:%x[1,0]"}
SINGLES = "U:%x[0,0]\nB\nU:%y[0]\nU:%y[0]/%x[0,0]\nU:%y[1]"
UPPER = "U:%x[0,0]\nB\nU:%y[0]\nU:%y[-1]/%y[0]\nB:%y[-1]/%y[0]\nU:%y[0]/%x[0,0]\n*:%y[1]"
ALL_LOWER = "U:%x[0,0]\nB\nU:%y[0]\nU:%y[0,pos]\nU:%y[-1,pos]/%y[0,pos]\nB:%y[1,pos]/%x[0,0]"
PRODUCTS = (
    "U:%x[0,0]\nB\nU:%y[-2]/%y[0]\nU:%y[0,pos]/%y[0]\nB:%y[-1,pos]/%y[0,pos]/%y[1,pos]\n"
    "*:%y[0]/%y[1,pos]/%x[0,0]"
)
LOGS = (
    "U:%x[0,0]\nB\nU:%log_y[0]\nU:%log_y[-1,pos]/%log_y[0,pos]\nU:%log_y[-1,pos]/%log_y[1]\n"
    "B:%y[0]\nU:%y[0,pos]"
)


def sentences(seed, n=5, longest=5):
    random = np.random.default_rng(seed)
    X = [
        [WORDS[i] for i in random.integers(0, len(WORDS), random.integers(1, longest + 1))]
        for _ in range(n)
    ]

    def labels(names):
        return [[names[random.integers(len(names))] for _ in x] for x in X]

    return X, {"pos": labels("NVD"), "mid": labels("pq"), "chunk": labels(["B", "I", "O"])}


def lattices(model: LinearTagger, X):
    return [sentence.lattice for sentence in model.scored(X)]


def paths_of(lattice):
    """All paths with their weights, by enumeration."""
    graph, T = lattice.graph, len(lattice.node)
    source, target = graph.ends
    arcs = {(int(s), int(t)): a for a, (s, t) in enumerate(zip(source, target, strict=True))}
    found = []
    for path in itertools.product(range(graph.n_nodes), repeat=T):
        if not all(pair in arcs for pair in itertools.pairwise(path)):
            continue
        steps = [arcs[pair] for pair in itertools.pairwise(path)]
        score = sum(lattice.node[t, q] for t, q in enumerate(path))
        score += sum(
            lattice.arc[t if len(lattice.arc) > 1 else 0, a] for t, a in enumerate(steps, 1)
        )
        if score > -np.inf:
            found.append((path, steps, score))
    top = max(score for *_, score in found)
    whole = sum(np.exp(score - top) for *_, score in found)
    return [(path, steps, np.exp(score - top) / whole) for path, steps, score in found]


@pytest.mark.parametrize(("order", "sizes"), [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_covariances_are_those_of_all_paths(order, sizes, scale):
    X, y = sentences(order + sizes, longest=3)
    model = LatentCRF(sizes, template=LOWER[order], order=order, max_iter=2, random_state=0).fit(
        X, y["mid"]
    )
    model.weights_ = model.weights_ * np.float32(scale)
    random = np.random.default_rng(1)
    for lattice in lattices(model, X):
        T, Q = lattice.node.shape
        gains = random.normal(size=(T, Q)), random.normal(size=(T, lattice.graph.n_arcs))
        expected = np.zeros((T, Q)), np.zeros((T, lattice.graph.n_arcs))
        every = paths_of(lattice)
        gain = [
            sum(gains[0][t, q] for t, q in enumerate(path))
            + sum(gains[1][t, a] for t, a in enumerate(steps, 1))
            for path, steps, _ in every
        ]
        mean = sum(g * p for g, (*_, p) in zip(gain, every, strict=True))
        for g, (path, steps, p) in zip(gain, every, strict=True):
            for t, q in enumerate(path):
                expected[0][t, q] += p * (g - mean)
            for t, a in enumerate(steps, 1):
                expected[1][t, a] += p * (g - mean)
        found = covariance(lattice, *gains)
        assert np.allclose(found[0], expected[0], atol=1e-9)
        assert np.allclose(found[1], expected[1], atol=1e-9)


@pytest.mark.parametrize(("order", "sizes"), [(1, 1), (1, 3), (2, 1), (2, 2)])
@pytest.mark.parametrize("scale", [1.0, 2000.0])
def test_what_is_passed_are_the_probabilities_of_labels_and_pairs(order, sizes, scale):
    X, y = sentences(7 * order + sizes, longest=3)
    model = LatentCRF(sizes, template=LOWER[order], order=order, max_iter=2, random_state=0).fit(
        X, y["mid"]
    )
    # the larger one leaves the scaled sums behind
    model.weights_ = model.weights_ * np.float32(scale)
    passed = passed_up(model, X, cut=0.0)
    slots = passed.candidates
    assert slots.n_slots == len(passed.probability)
    for n, lattice in enumerate(lattices(model, X)):
        labels = lattice.graph.label_of_node
        for t in range(len(lattice.node)):
            g = slots.offsets[n] + t
            mine = range(slots.ptr[g], slots.ptr[g + 1])
            expected = np.zeros(2)
            pairs = np.zeros((2, 2))
            for path, _, p in paths_of(lattice):
                expected[labels[path[t]]] += p
                if t:
                    pairs[labels[path[t - 1]], labels[path[t]]] += p
            assert np.allclose([passed.probability[i] for i in mine], expected, atol=1e-9)
            found = passed.probability[slots.pair_ptr[g] : slots.pair_ptr[g + 1]]
            assert np.allclose(found, pairs.reshape(-1) if t else [], atol=1e-9)


PLAIN = CRF(template=LOWER[1], max_iter=3)
LATENT = LatentCRF(2, template=UPPER, max_iter=3, random_state=1)
SEGMENTS = SemiCRF(template=SINGLES, max_iter=3)
LOWEST_SEGMENTS = SemiCRF(template="U:%x[0,0]\nB", max_iter=3)


def upper(template=UPPER, **settings):
    return CRF(template=template, max_iter=3, **settings)


CASCADES = {  # the layers of pos, mid and chunk
    "order 2 above": (PLAIN, LATENT, upper(order=2)),
    "order 2 below": (CRF(template=LOWER[2], order=2, max_iter=3), LATENT, upper()),
    "lowest segments": (LOWEST_SEGMENTS, LATENT._untrained().set_params(template=SINGLES), upper()),
    "weighted segments": (
        LOWEST_SEGMENTS._untrained().set_params(class_weight={"N": 5.0}),
        upper(SINGLES),
        upper(),
    ),
    "segments between": (PLAIN, SEGMENTS, upper(SINGLES)),
    "highest segments": (PLAIN, LATENT, SEGMENTS),
    "products": (PLAIN, LATENT, upper(PRODUCTS)),
    "logs": (CRF(template=LOWER[2], order=2, max_iter=3), LATENT, upper(LOGS)),
    "all lower layers": (PLAIN, LATENT, upper(ALL_LOWER)),
    "not the middle layer": (PLAIN, upper(), upper("U:%x[0,0]\nB\nU:%y[0,pos]")),
    "class weights": (
        PLAIN._untrained().set_params(class_weight={"N": 2.0}),
        LATENT,
        upper(class_weight="balanced"),
    ),
}


def in_scheme(rows):
    """Labels of chunks in iob2: an I needs something before it."""
    for row in rows:
        row[:] = [label if label == "O" else f"{label}-X" for label in row]
        for t, label in enumerate(row):
            row[t] = "B-X" if label == "I-X" and (t == 0 or row[t - 1] == "O") else label


@pytest.mark.cases(7)
@pytest.mark.parametrize(("jackknife", "given"), [(False, "tokens"), (True, "sentences")])
@pytest.mark.parametrize("name", CASCADES)
def test_the_gradient_is_that_of_finite_differences(name, jackknife, given):
    """Of sets of labels with weights, or, with segments, of complete labels."""
    X, y = sentences(4, n=6)
    in_scheme(y["chunk"])
    weights, random = None, np.random.default_rng(0)
    if "segments" not in name:
        for labels, some in zip(y.values(), ({"N", "V"}, {"p", "q"}, {"I-X", "O"}), strict=True):
            for sentence in labels:
                share = random.random(len(sentence)).tolist()
                sentence[:] = [
                    None if r < 0.2 else some if r < 0.4 else x
                    for r, x in zip(share, sentence, strict=True)
                ]
        weights = [2.0, 0.5, 1.0, 0.0, 3.0, 1.5]
        weights = (
            weights if given == "sentences" else [random.uniform(0, 2, len(x)).tolist() for x in X]
        )
    layers = [(layer, model._untrained()) for layer, model in zip(y, CASCADES[name], strict=True)]
    cascade = Cascade(
        layers, passing="marginal", cut=0.0, jackknife=jackknife, shares={"pos": 0.3, "chunk": 2.0}
    )
    assert_slopes(
        *joint_problem(cascade.set_params(n_jobs=1).fit(X, y, sample_weight=weights), X, y, weights)
    )


@pytest.mark.parametrize("scale", [1.0, 400.0])
@pytest.mark.parametrize(
    "lower", [CRF(class_weight={"N": 5.0}), LatentCRF(2, class_weight={"V": 0.2}, random_state=0)]
)
def test_what_is_passed_in_training_does_not_depend_on_the_labels_of_the_layer(lower, scale):
    X, y = sentences(5, n=6)
    y.pop("mid")
    lower = lower.__class__(**lower.get_params() | {"template": LOWER[1], "max_iter": 3})
    layers = [("pos", lower), ("chunk", CRF(template=UPPER, max_iter=3))]
    tokens = [np.random.default_rng(1).uniform(0, 2, len(x)).tolist() for x in X]
    cascade = Cascade(layers, passing="marginal", cut=0.0, n_jobs=1).fit(X, y, sample_weight=tokens)
    problem, _ = joint_problem(cascade, X, y, tokens)
    model = cascade.layers_["pos"]
    # the larger one leaves the scaled sums behind
    model.weights_ = model.weights_ * np.float32(scale)
    stack = problem.stacks[0]
    passed, _ = stack.layers[0].forward(
        model.weights_.astype(np.float64), stack.values[0].constants
    )
    expected = passed_up(model, X, cut=0.0)
    assert np.allclose(passed[: len(expected.probability)], expected.probability, atol=1e-6)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "lower", [CRF(template=LOWER[1], max_iter=2), SemiCRF(template="U:%x[0,0]", max_iter=2)]
)
@pytest.mark.parametrize("weight", ["balanced", {"B-Q": 3.0}, None])
def test_parts_of_a_jackknife_may_lack_what_the_whole_has(lower, weight):
    """One label is in a single sentence; there are sentences without labels, and some of weight
    0."""
    X, y = sentences(4, n=12, longest=3)
    y["pos"] = [["B-P" if i % 2 else "O" for i in range(len(x))] for x in X]
    y["pos"][0][0], y["pos"][5][:] = "B-Q", [None] * len(X[5])
    layers = [
        ("pos", lower._untrained().set_params(class_weight=weight)),
        ("mid", CRF(template=SINGLES, max_iter=2)),
    ]
    cascade = Cascade(layers, passing="joint", jackknife=True, max_iter=2, n_jobs=1)
    cascade.fit(
        X, {"pos": y["pos"], "mid": y["mid"]}, sample_weight=[float(n > 2) for n in range(12)]
    )
    assert np.isfinite(cascade.training_["joint"]["loss"])


@pytest.mark.parametrize("weight", ["balanced", {"p": 3.0}])
def test_class_weights_are_those_of_all_data_in_every_part(weight):
    """So that the losses of parts add up to that of the whole."""
    X, y = sentences(5, n=6)
    y["mid"][0][:] = ["p"] * len(X[0])  # by itself it would be balanced otherwise
    model = CRF(template=LOWER[1], max_iter=3, n_jobs=1, class_weight=weight).fit(X, y["mid"])
    weights = model._label_weights(y["mid"])

    def loss(begin, end):
        layer, constants = model._joint_objective(
            X[begin:end], y["mid"][begin:end], Workers(1), class_weight=weights
        )
        return layer.forward(model.weights_, constants)[1](None, 1.0)[0]

    assert loss(0, 1) + loss(1, 6) == pytest.approx(loss(0, 6), rel=1e-5)
    assert loss(0, 6) == pytest.approx(
        model.training_["loss"] - 0.5 * float(model.weights_ @ model.weights_), rel=1e-3
    )


@pytest.mark.slow
def test_a_jackknife_starts_every_layer_where_it_was_trained():
    """What a layer learns from is what the layers below say of sentences that they have not seen,
    together as alone."""
    X, y = sentences(8, n=20)
    layers = [
        ("pos", CRF(template=LOWER[1])),
        ("mid", CRF(template=UPPER)),
        ("chunk", CRF(template=UPPER)),
    ]
    cascade = Cascade(
        layers, passing="marginal", cut=0.0, jackknife=True, shares={"pos": 0.0, "chunk": 0.0}
    ).fit(X, y)
    problem, weights = joint_problem(cascade, X, y)
    problem.l2 = [0.0, 1.0, 0.0]
    gradient = np.empty(len(weights))
    problem(weights.astype(np.float64), gradient)
    # only the candidates that were cut off are missing
    assert np.abs(gradient[problem.parts[1]]).max() < 0.15


def test_scores_too_large_for_scaling_have_the_same_gradient():
    X, y = sentences(3, longest=4)
    layers = [
        ("pos", CRF(template=LOWER[1], max_iter=3)),
        ("chunk", CRF(template=UPPER, max_iter=3)),
    ]
    y.pop("mid")
    cascade = Cascade(layers, passing="marginal", cut=0.0).fit(X, y)
    problem, weights = joint_problem(cascade, X, y)
    at = weights.astype(np.float64)
    at[problem.parts[0]] *= 400.0
    gradient = np.empty_like(at)
    problem(at, gradient)
    checked = range(problem.parts[0].start, problem.parts[0].stop, 5)
    assert [gradient[i] for i in checked] == pytest.approx(
        [slope(problem, at, i) for i in checked], abs=1e-4
    )


def test_a_certain_layer_gives_the_cascade_of_its_best_labels():
    X, y = sentences(2)
    layers = [("pos", CRF(template=LOWER[1])), ("chunk", CRF(template=UPPER, max_iter=30))]
    y.pop("mid")
    best = Cascade(layers, passing="best").fit(X, y)
    lower = best.layers_["pos"]
    sure = certain(lower._space.labels, lower.predict(X))
    upper = CRF(template=UPPER, max_iter=30).fit(Layered(X, {"pos": sure}), y["chunk"])
    assert (upper.weights_ == best.layers_["chunk"].weights_).all()
    lower.weights_ = lower.weights_ * np.float32(1e4)  # all probability is on the best path
    soft = passed_up(lower, X, cut=0.001)
    assert (
        soft.candidates.label == certain(lower._space.labels, lower.predict(X)).candidates.label
    ).all()
    assert soft.probability == pytest.approx(np.ones(soft.candidates.n_slots))
    again = CRF(template=UPPER, max_iter=30).fit(Layered(X, {"pos": soft}), y["chunk"])
    assert again.predict(Layered(X, {"pos": soft})) == upper.predict(Layered(X, {"pos": sure}))


def test_features_of_the_labels_below_are_weighted_by_their_probabilities():
    X = [["a", "b"]]
    passed = mixed(("N", "V"), [[(["N", "V"], 0.75), (["V", "V"], 0.25)]])
    extractor, layers, _ = LayeredFeatures.learn(
        Layered(X, {"pos": passed}), "U:%y[0]\nU2:%y[-1]/%y[0]\nU3:%y[0]/%x[0,0]", 1
    )
    layer = layers["state"]
    found = {}
    for t in range(2):
        for i in range(layer.token_ptr[t], layer.token_ptr[t + 1]):
            found[t, extractor.name(int(layer.token_feature[i]))] = float(layer.token_value[i])
    assert found == {
        (0, "U:N"): 0.75,
        (0, "U:V"): 0.25,
        (0, "U2:_B-1/N"): 0.75,
        (0, "U2:_B-1/V"): 0.25,
        (0, "U3:N/a"): 0.75,
        (0, "U3:V/a"): 0.25,
        (1, "U:V"): 1.0,
        (1, "U2:N/V"): 0.75,
        (1, "U2:V/V"): 0.25,
        (1, "U3:V/b"): 1.0,
    }


@drawn(30)
@given(st.integers(0, 10**6))
def test_parts_joined_again_are_the_whole(seed):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 4, random.integers(1, 6))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    marginals = random.dirichlet(np.ones(3), int(offsets[-1]))
    slots = likely(offsets, marginals, 0.3)
    whole = certain(("a",), [["a"] * n for n in lengths])._replace(
        candidates=slots, probability=random.random(slots.n_slots)
    )
    cut = int(random.integers(0, len(lengths) + 1))
    pieces = [part(whole, a, b) for a, b in ((0, cut), (cut, len(lengths))) if a < b]
    again = joined(pieces)
    assert (again.probability == whole.probability).all()
    assert all(
        np.array_equal(x, y) for x, y in zip(again.candidates, whole.candidates, strict=True)
    )


def test_samples_come_as_often_as_they_are_probable():
    X, y = sentences(5, longest=3)
    model = CRF(template=LOWER[1], max_iter=5).fit(X, y["mid"])
    lattice = lattices(model, X)[0]
    drawn = sample(lattice, 20_000, np.random.default_rng(0))
    share = np.stack([(drawn == q).mean(axis=0) for q in range(2)], axis=1)
    assert np.allclose(share, label_marginals(posterior(lattice).nodes, lattice.graph), atol=0.015)


def test_a_segment_layer_passes_the_probabilities_of_its_labels():
    X, y = sentences(6)
    y = [[{"N": "B-X", "V": "O", "D": "B-Y"}[label] for label in row] for row in y["pos"]]
    model = SemiCRF(template="U:%x[0,0]", max_iter=3).fit(X, y)
    passed = passed_up(model, X, cut=0.0)
    dense = np.array(
        [[row[label] for label in model.classes_] for s in model.predict_marginals(X) for row in s]
    )
    assert passed.probability == pytest.approx(dense.reshape(-1))
    layer, values = model._joint_objective(X, None, Workers(1), passed.candidates, np.float64)
    assert layer.forward(model.weights_.astype(np.float64), values.constants)[0] == pytest.approx(
        passed.probability
    )
    neighbours = CRF(template="U:%y[-1]/%y[0]", max_iter=3).fit(Layered(X, {"pos": passed}), y)
    assert neighbours.predict(Layered(X, {"pos": passed}))
    assert CRF(max_iter=3).fit(Layered(X, {"pos": passed}), y).predict(Layered(X, {"pos": passed}))


@pytest.mark.parametrize("template", [PRODUCTS, LOGS])
def test_values_in_joint_training_are_those_in_tagging(template):
    X, y = sentences(6, n=6)
    layers = [
        ("pos", CRF(template=LOWER[1], max_iter=3)),
        ("mid", CRF(template=UPPER, max_iter=3)),
        ("chunk", CRF(template=template, max_iter=3)),
    ]
    cascade = Cascade(layers, passing="marginal", cut=0.0, n_jobs=1).fit(X, y)
    problem, weights = joint_problem(cascade, X, y)
    problem.l2 = [0.0, 0.0, 0.0]
    expected = 0.0
    for name, layer, data in cascade._readings(X):
        expected -= sum(layer.sequence_log_probabilities(data, y[name]))
    assert problem(weights.astype(np.float64), np.empty(len(weights))) == pytest.approx(
        expected, abs=1e-4
    )
