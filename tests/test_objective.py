"""The training objective against its definition: enumerated loss, finite differences, any scale, any threads."""

import itertools

import numpy as np
import pytest

import oracles
from labelwright.corpus.schemes import validate
from labelwright.features.extract import learn
from labelwright.learn.objective import LogLikelihood
from labelwright.parallel import Workers
from labelwright.parameters import make_parameters
from labelwright.states import state_space

LABELS = ["O", "B-X", "I-X"]
STATES = "U1:%x[0,0]\nU2:%x[-1,0]/%x[0,0]\nU:%prefix[0,0,1]\nUbias\nB"
ARCS = STATES + "\nB1:%x[0,0]\n*2:%x[1,0]"


def words(n_sentences, seed, longest=4):
    """Random sentences over a few words, with IOB2 labels that keep the scheme."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sentences):
        length = int(random.integers(1, longest + 1))
        X.append([str(w) for w in random.choice(["aa", "ab", "b", "c"], length)])
        labels = ["O"]
        for _ in range(length):
            labels.append(str(random.choice(LABELS if labels[-1] != "O" else LABELS[:2])))
        y.append(labels[1:])
    return X, y


def dicts(n_sentences, seed):
    """The same sentences as weighted features."""
    X, y = words(n_sentences, seed)
    random = np.random.default_rng(seed + 1)
    weighted = [
        [{"w": w, "x": float(np.float32(random.normal())), "first": t == 0} for t, w in enumerate(s)] for s in X
    ]
    return weighted, y


class Problem:
    """Data with their objective, and the same data as the oracle takes them."""

    def __init__(
        self, X, y, template="default", cells="observed", scheme=None, dtype=np.float64, n_jobs=1, labels=None
    ):
        self.labels = labels or LABELS
        index = {label: i for i, label in enumerate(self.labels)}
        self.X, self.y, self.scheme = X, y, scheme
        self.extractor, self.layers, self.offsets = learn(X, template, 1)
        self.gold = np.array([index[label] for s in y for label in s], np.int32)
        self.space = state_space(self.labels)
        if scheme:
            self.space = self.space.constrained(scheme)
        n = self.extractor.n_features
        self.parameters = make_parameters(self.layers, n, self.gold, self.offsets, self.space, cells)
        self.workers = Workers(n_jobs)
        self.objective = LogLikelihood(
            self.layers, n, self.offsets, self.gold, self.space, self.parameters, self.workers, dtype=dtype
        )
        self.dtype = dtype

    def __call__(self, weights):
        gradient = np.empty(len(weights), self.dtype)
        loss = self.objective(weights.astype(self.dtype), gradient)
        return loss, gradient

    def names(self):
        """What each weight belongs to, in the order of the weight vector."""
        found = []
        for layer, cells in self.parameters.cells.items():
            for f, (a, b) in enumerate(itertools.pairwise(cells.ptr.tolist())):
                for column in cells.column[a:b].tolist():
                    pair = divmod(column, len(self.labels)) if layer == "edge" else (column,)
                    found.append((self.extractor.name(f), *(self.labels[i] for i in pair)))
        return found + [(None, r, s) for r in self.labels for s in self.labels]

    def true_loss(self, weights, tokens):
        named = dict(zip(self.names(), weights.tolist(), strict=True))
        assert len(named) == len(weights)

        def allowed(labelling):
            return not validate([labelling], self.scheme)

        return oracles.crf_loss(tokens, self.y, self.labels, named, allowed if self.scheme else None)

    def random_weights(self, scale=1.0, seed=0):
        return np.random.default_rng(seed).normal(size=self.parameters.n_weights) * scale


def as_tokens(X, template):
    """Sentences of words as the oracle takes them."""
    lines = [line for line in template.splitlines() if line != "B"]
    found = oracles.template_features(lines, [[(w,) for w in s] for s in X])
    tokens = []
    for state, edge in zip(found["state"], found["edge"], strict=True):
        bias = {"Ubias": 1.0} if "Ubias" in lines else {}
        tokens.append({"state": dict.fromkeys(state, 1.0) | bias, "edge": dict.fromkeys(edge, 1.0)})
    flat = iter(tokens)
    return [[next(flat) for _ in s] for s in X]


def dict_tokens(X):
    return [
        [{"state": {f"w={d['w']}": 1.0, "x": d["x"], **({"first": 1.0} if d["first"] else {})}, "edge": {}} for d in s]
        for s in X
    ]


def differences(function, weights, at, step=1e-5):
    """Central differences of a function along some of the coordinates."""
    found = []
    for i in at:
        up, down = weights.copy(), weights.copy()
        up[i] += step
        down[i] -= step
        found.append((function(up) - function(down)) / (2 * step))
    return np.array(found)


CASES = {
    "states": (words, STATES, "observed", None),
    "states, all cells": (words, STATES, "all", None),
    "arcs": (words, ARCS, "observed", None),
    "arcs, all cells": (words, ARCS, "all", None),
    "constrained": (words, STATES, "observed", "iob2"),
    "constrained arcs": (words, ARCS, "observed", "iob2"),
    "dicts": (dicts, None, "observed", None),
    "dicts, all cells": (dicts, None, "all", "iob2"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n_sentences", [1, 12])
def test_loss_and_gradient(case, n_sentences):
    make, template, cells, scheme = CASES[case]
    X, y = make(n_sentences, seed=3)
    problem = Problem(X, y, template or "default", cells, scheme)
    tokens = as_tokens(X, template) if template else dict_tokens(X)
    weights = problem.random_weights()
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights, tokens), rel=1e-9)
    everywhere = np.arange(len(weights))
    at = np.random.default_rng(1).permutation(everywhere)[:12]
    expected = differences(lambda w: problem.true_loss(w, tokens), weights, at)
    np.testing.assert_allclose(gradient[at], expected, atol=1e-7)
    whole = differences(lambda w: problem(w)[0], weights, everywhere)
    np.testing.assert_allclose(gradient, whole, atol=1e-6)


def test_observed_cells_are_those_of_the_training_data():
    X, y = words(10, seed=5)
    problem = Problem(X, y, ARCS)
    tokens = as_tokens(X, ARCS)
    seen = {(None, r, s) for r in LABELS for s in LABELS}
    for sentence, labels in zip(tokens, y, strict=True):
        for t, token in enumerate(sentence):
            seen |= {(name, labels[t]) for name in token["state"]}
            if t > 0:
                seen |= {(name, labels[t - 1], labels[t]) for name in token["edge"]}
    assert set(problem.names()) == seen
    assert len(problem.names()) == len(seen)


def test_all_cells():
    X, y = words(10, seed=5)
    problem = Problem(X, y, ARCS, "all")
    features = {name for sentence in as_tokens(X, ARCS) for token in sentence for name in token["state"]}
    edges = {name for sentence in as_tokens(X, ARCS) for token in sentence for name in token["edge"]}
    pairs = [(r, s) for r in LABELS for s in LABELS]
    expected = {(f, s) for f in features for s in LABELS} | {(f, *p) for f in edges for p in pairs}
    assert set(problem.names()) == expected | {(None, *p) for p in pairs}


@pytest.mark.parametrize("template", [STATES, ARCS])
def test_float32_agrees_with_float64(template):
    X, y = words(200, seed=2, longest=30)
    exact, quick = Problem(X, y, template), Problem(X, y, template, dtype=np.float32)
    weights = exact.random_weights().astype(np.float32)
    loss, gradient = exact(weights)
    loss32, gradient32 = quick(weights)
    assert loss32 == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(gradient32, gradient, atol=2e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("template", [STATES, ARCS])
@pytest.mark.parametrize("scheme", [None, "iob2"])
@pytest.mark.parametrize("scale", [10.0, 30.0, 100.0, 300.0, 1e3, 1e4])
def test_scores_of_any_size(template, scheme, scale):
    """Where scaled probabilities run out of range, log space takes over; loss and gradient stay right."""
    X, y = words(15, seed=4)
    problem = Problem(X, y, template, scheme=scheme)
    weights = problem.random_weights(scale)
    loss, gradient = problem(weights)
    tokens = as_tokens(X, template)
    assert loss == pytest.approx(problem.true_loss(weights, tokens), rel=1e-9)
    at = np.arange(0, len(weights), 5)
    expected = differences(lambda w: problem.true_loss(w, tokens), weights, at, step=1e-4)
    np.testing.assert_allclose(gradient[at], expected, atol=2e-5)
    loss32, gradient32 = Problem(X, y, template, scheme=scheme, dtype=np.float32)(weights.astype(np.float32))
    assert loss32 == pytest.approx(loss, rel=1e-5)
    assert np.isfinite(gradient32).all()
    exact32 = problem(weights.astype(np.float32))[1]  # float32 loses digits of the scores: 1e-7 of their size
    np.testing.assert_allclose(gradient32, exact32, atol=1e-5 * scale)


@pytest.mark.parametrize("template", [STATES, ARCS])
def test_threads_change_no_bit(template):
    X, y = words(1500, seed=6, longest=12)
    results = []
    for n_jobs in (1, 2, 3):
        problem = Problem(X, y, template, dtype=np.float32, n_jobs=n_jobs)
        results.append(problem(problem.random_weights()))
        problem.workers.close()
    for loss, gradient in results[1:]:
        assert loss == results[0][0]
        assert gradient.tobytes() == results[0][1].tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sentence_of_ten_thousand_tokens(dtype):
    """At zero weights the loss is T log L; at random ones the gradient still meets finite differences."""
    X, y = words(4000, seed=7)
    X, y = [[w for s in X for w in s][:10_000]], [[label for s in y for label in s][:10_000]]
    assert len(X[0]) > 9_000
    problem = Problem(X, y, STATES, dtype=dtype)
    loss, _ = problem(np.zeros(problem.parameters.n_weights))
    assert loss == pytest.approx(len(X[0]) * np.log(3), rel=1e-6)
    weights = problem.random_weights()
    loss, gradient = problem(weights)
    at = np.argsort(-np.abs(gradient))[:3]
    exact = Problem(X, y, STATES)
    expected = differences(lambda w: exact(w)[0], weights, at, step=1e-4)
    np.testing.assert_allclose(gradient[at], expected, rtol=1e-3 if dtype == np.float32 else 1e-6)


def test_two_hundred_labels():
    labels = [f"l{i}" for i in range(200)]
    random = np.random.default_rng(0)
    y = [[labels[i] for i in random.integers(0, 200, 8)] for _ in range(60)]
    X = [[f"w{random.integers(0, 30)}" for _ in s] for s in y]
    problem = Problem(X, y, "U:%x[0,0]\nB", labels=labels)
    weights = problem.random_weights()
    _, gradient = problem(weights)
    at = random.permutation(len(weights))[:5].tolist() + np.argsort(-np.abs(gradient))[:3].tolist()
    np.testing.assert_allclose(gradient[at], differences(lambda w: problem(w)[0], weights, at), atol=1e-5)
