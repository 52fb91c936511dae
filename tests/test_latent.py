"""The latent CRF as users meet it, and its objective against enumeration of all latent paths."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import labelwright
import oracles
import test_objective as plain
from labelwright import CRF, LatentCRF, Span
from labelwright.corpus import spans_of, validate
from labelwright.errors import CorpusError, LabelwrightError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import learn
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.sgd import SGD
from labelwright.models.linear import LinearModel
from labelwright.parallel import Workers
from labelwright.parameters import make_parameters
from labelwright.states import state_names, state_space

X = [["the", "dog", "barks"], ["a", "bird"], ["birds", "sing"], ["the", "bird", "sings"], ["dogs"]]
Y = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"], ["B-NP", "O"], ["B-NP", "I-NP", "O"], ["B-NP"]]
LABELS = ["B-NP", "I-NP", "O"]
STATES = "U1:%x[0,0]\nU2:%x[-1,0]\nB"
ARCS = "U:%x[0,0]\nU:%x[-1,0]\nB:%x[0,0]"
UNEVEN = {"B-NP": 2, "I-NP": 1, "O": 3}
NEW = ["the", "bird", "zzz", "barks"]


@pytest.fixture(scope="module", params=[(STATES, 2), (ARCS, 2), (ARCS, UNEVEN)], ids=["states", "arcs", "uneven"])
def model(request):
    template, n_latent = request.param
    return LatentCRF(n_latent, template=template, n_jobs=1, l2=0.3, random_state=0).fit(X, Y)


class Truth:
    """Every latent path of a sentence that the restrictions leave, with its probability."""

    def __init__(self, model, sentence, forced=None, scheme=None):
        (lattice,) = model._each([sentence], lambda n, lattice: lattice, None)
        every = oracles.Enumerated(*lattice)
        label_of = [model.classes_[i] for i in model.space_.label_of]
        wanted = [None if f is None else [f] if isinstance(f, str) else f for f in forced or [None] * len(sentence)]
        projected = [tuple(label_of[s] for s in path) for path in every.paths]
        kept = [
            all(w is None or label in w for w, label in zip(wanted, y, strict=True))
            and (scheme is None or not validate([list(y)], scheme))
            for y in projected
        ]
        self.paths = every.paths[kept]
        self.p = every.p[kept] / every.p[kept].sum()
        self.labellings = {}
        for y, p in zip(itertools.compress(projected, kept), self.p, strict=True):
            self.labellings[y] = self.labellings.get(y, 0.0) + p


# --- answers ----------------------------------------------------------------------------------------------------------

RESTRICTIONS = [
    {},
    {"constraints": "scheme"},
    {"constraints": "iob2"},
    {"forced": [[None, "O", None, None]]},
    {"forced": [["B-NP", None, ["B-NP", "O"], None]], "constraints": "scheme"},
    {"forced": [["O", "B-NP", "I-NP", "O"]]},
]


@pytest.mark.parametrize("restriction", RESTRICTIONS)
def test_every_answer_agrees_with_enumeration(model, restriction):
    forced = restriction.get("forced", [None])[0]
    scheme = "iob2" if "constraints" in restriction else None
    whole = Truth(model, NEW, forced, scheme)
    truth = whole.labellings
    ranked = sorted(truth.values(), reverse=True)

    for decoder in (None, "exact", "ldi"):
        options = {"n": 0} if decoder == "ldi" else {}
        (best,) = model.decode([NEW], decoder, **options, **restriction)
        assert truth[tuple(best.labels)] == pytest.approx(ranked[0])
        assert np.exp(best.log_probability) == pytest.approx(ranked[0])
        assert best.exact
        assert best.gap == 0
    (hidden,) = model.decode([NEW], "viterbi", **restriction)
    label_of = [model.classes_[i] for i in model.space_.label_of]
    assert hidden.labels == [label_of[s] for s in whole.paths[np.argmax(whole.p)]]
    assert np.exp(hidden.log_probability) == pytest.approx(truth[tuple(hidden.labels)])

    (nbest,) = model.predict_nbest([NEW], n=1000, **restriction)
    assert len(nbest) == len(truth)
    assert [p for _, p in nbest] == pytest.approx(ranked)
    assert {tuple(y): p for y, p in nbest} == pytest.approx(truth)
    assert model.predict_nbest([NEW], n=3, **restriction)[0] == nbest[:3]

    (marginals,) = model.predict_marginals([NEW], **restriction)
    (latent,) = model.predict_marginals([NEW], latent=True, **restriction)
    for t, (row, states) in enumerate(zip(marginals, latent, strict=True)):
        assert list(row) == model.classes_
        assert list(states) == state_names(model.space_)
        for label, p in row.items():
            assert p == pytest.approx(sum(q for y, q in truth.items() if y[t] == label), abs=1e-12)
        for s, p in enumerate(states.values()):
            assert p == pytest.approx(whole.p[whole.paths[:, t] == s].sum(), abs=1e-12)

    (spans,) = model.predict_spans([NEW], **restriction)
    assert [s[:3] for s in spans] == [s[:3] for s in spans_of(best.labels)]
    places = [Span(a, b, "NP") for a in range(4) for b in range(a + 1, 5)]
    (every,) = model.span_probabilities([NEW], [places], **restriction)
    for span in [*every, *spans]:
        having = sum(q for y, q in truth.items() if any(s[:3] == span[:3] for s in spans_of(list(y))))
        assert span.probability == pytest.approx(having, abs=1e-12)

    (by_token,) = model.decode([NEW], decoder="marginal", **restriction)
    assert by_token.labels == [max(row, key=row.get) for row in marginals]
    for candidates in ("nbest", "ldi"):
        (choice,) = model.decode([NEW], decoder="mbr", n=500, candidates=candidates, **restriction)
        assert np.exp(choice.log_probability) == pytest.approx(truth[tuple(choice.labels)])


def test_probabilities_of_all_labellings_add_up(model):
    labellings = [list(y) for y in itertools.product(LABELS, repeat=3)]
    log_p = model.sequence_log_probabilities([NEW[:3]] * len(labellings), labellings)
    assert np.exp(log_p).sum() == pytest.approx(1)
    truth = Truth(model, NEW[:3]).labellings
    assert np.exp(log_p) == pytest.approx([truth[tuple(y)] for y in labellings])
    assert model.sequence_log_probabilities([["a"]], [["unheard-of"]]) == [-np.inf]


def test_a_search_cut_short(model):
    best = model.decode([NEW])[0]
    for limit in range(20):
        (found,) = model.decode([NEW], max_expansions=limit)
        assert len(found.labels) == 4
        assert np.exp(best.log_probability) <= np.exp(found.log_probability) + found.gap + 1e-12
        assert not found.exact or found.log_probability == pytest.approx(best.log_probability)
        (nbest,) = model.predict_nbest([NEW], n=10, max_expansions=limit)
        assert 1 <= len(nbest) <= 10
    assert found.exact
    assert len(model.decode([NEW], time_limit=0)[0].labels) == 4


def test_what_cannot_be_satisfied_is_said(model):
    impossible = {"forced": [["O", "I-NP"]], "constraints": "scheme"}
    asks = [model.predict_nbest, model.predict_marginals, model.predict_spans]
    asks += [
        lambda x, d=d, **words: model.decode(x, d, **words) for d in ("exact", "ldi", "mbr", "viterbi", "marginal")
    ]
    for ask in asks:
        with pytest.raises(OptionError, match="sentence 0: no labelling satisfies"):
            ask([["the", "dog"]], **impossible)


@pytest.mark.parametrize(
    ("decoder", "options", "message"),
    [
        ("exact", {"max_expansions": -1}, "max_expansions: expected 0 or more"),
        ("exact", {"time_limit": -1}, "time_limit: expected 0 seconds or more"),
        ("exact", {"alpha": 1}, "decoder exact: .*alpha"),
        ("ldi", {"n": -3}, "n: expected a number of latent paths"),
        ("ldi", {"alpha": 2}, "alpha: expected"),
        ("mbr", {"gain": "luck"}, "gain: expected one of"),
        ("mbr", {"n": 0}, "n: expected 1 or more"),
        (None, {"beam": 1}, "decoder exact: .*beam"),
    ],
)
def test_bad_questions_get_one_clear_line(model, decoder, options, message):
    with pytest.raises(OptionError, match=message) as caught:
        model.decode(X, decoder, **options)
    assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="n: expected 1 or more"):
        model.predict_nbest(X, n=0)


def test_empty_and_short_sentences(model):
    assert model.predict([]) == []
    assert model.predict([[], ["dog"], []])[0::2] == [[], []]
    assert model.predict_nbest([[], ["dog"]])[0] == [([], 1.0)]
    assert model.predict_marginals([[]], latent=True) == [[]]
    (one,) = model.predict_nbest([["dog"]], n=9)
    assert len(one) == 3
    assert sum(p for _, p in one) == pytest.approx(1)


def test_a_thousand_tokens(model):
    long = [X[i % 5][0] for i in range(1000)]
    for decoder in ("exact", "ldi", "mbr", "viterbi", "marginal"):
        (found,) = model.decode([long], decoder)
        assert len(found.labels) == 1000
        (p,) = model.sequence_log_probabilities([long], [found.labels])
        assert found.log_probability == pytest.approx(p, abs=1e-8)
        assert found.exact == (found.gap == 0)
    (hidden,), (best,) = model.decode([long], "viterbi"), model.decode([long])
    assert best.log_probability >= hidden.log_probability - 2  # the limit of expansions may end the search
    assert 1 <= len(model.predict_nbest([long], n=3)[0]) <= 3
    trained = [w for s in X for w in s] * 90
    assert model.decode([trained], max_expansions=10)[0].gap > 0
    assert all(0 < s.probability <= 1 for s in model.predict_spans([long])[0][:50])


def test_threads_over_sentences_change_no_answer(model):
    data = [[*s, *NEW] for s in X] * 60
    one = model.decode(data)
    two = copy.copy(model).set_params(n_jobs=2).decode(data)
    assert one == two


def zeroed(labels, n_latent):
    """A model that knows nothing: all its weights are 0."""
    model = LatentCRF(n_latent, template="U:%x[0,0]\nB", n_jobs=1, max_iter=1).fit([["a"] * len(labels)], [labels])
    model.weights_ = np.zeros_like(model.weights_)
    return model


def test_an_untrained_model():
    model = zeroed(["O", "B-X", "I-X", "B-Y", "I-Y"], 3)
    sentence = ["a"] * 30
    for decoder in ("exact", "ldi", "mbr", "viterbi", "marginal"):
        (found,) = model.decode([sentence], decoder)
        assert len(found.labels) == 30
        assert found.log_probability == pytest.approx(-30 * np.log(5))
        assert not found.exact or decoder in ("exact", "mbr")
    assert model.decode([sentence])[0].exact
    (nbest,) = model.predict_nbest([sentence], n=20)
    assert [p for _, p in nbest] == pytest.approx([5.0**-30] * 20)
    assert len({tuple(y) for y, _ in nbest}) == 20
    (marginals,) = model.predict_marginals([sentence])
    assert all(p == pytest.approx(0.2) for row in marginals for p in row.values())
    (latent,) = model.predict_marginals([sentence], latent=True)
    assert all(p == pytest.approx(1 / 15) for row in latent for p in row.values())


@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_weights_that_overflow_exp(model, size):
    huge = copy.deepcopy(model)
    huge.weights_ = (np.random.default_rng(0).normal(size=len(model.weights_)) * size).astype(np.float32)
    truth = Truth(huge, NEW).labellings
    (best,) = huge.decode([NEW])
    assert best.exact
    assert np.exp(best.log_probability) == pytest.approx(max(truth.values()), abs=1e-9)
    assert truth[tuple(best.labels)] == pytest.approx(max(truth.values()), abs=1e-9)
    for decoder in ("ldi", "mbr", "viterbi", "marginal"):
        (found,) = huge.decode([NEW], decoder)
        assert np.isfinite(found.score)
        assert truth[tuple(found.labels)] == pytest.approx(np.exp(found.log_probability), abs=1e-9)
    (marginals,) = huge.predict_marginals([NEW])
    assert all(sum(row.values()) == pytest.approx(1) for row in marginals)
    assert all(0 <= p <= 1 for _, p in huge.predict_nbest([NEW], n=20)[0])


# --- the objective ----------------------------------------------------------------------------------------------------


class Problem(plain.Problem):
    """Data with their objective on a latent space, and the same data as the oracle takes them."""

    def __init__(self, X, y, template, sizes=2, cells="observed", scheme=None, dtype=np.float64, n_jobs=1):
        super().__init__(X, y, template, cells, scheme, dtype, n_jobs)
        self.space = state_space(self.labels, sizes)
        if scheme:
            self.space = self.space.constrained(scheme)
        n = self.extractor.n_features
        self.parameters = make_parameters(self.layers, n, self.gold, self.offsets, self.space, cells)
        self.objective = LogLikelihood(
            self.layers, n, self.offsets, self.gold, self.space, self.parameters, self.workers, dtype=dtype
        )
        numbers = np.arange(self.space.n_states) - self.space.first[self.space.label_of]
        self.states = [(self.labels[i], k) for i, k in zip(self.space.label_of, numbers.tolist(), strict=True)]

    def names(self):
        found = []
        for layer, cells in self.parameters.cells.items():
            for f, (a, b) in enumerate(itertools.pairwise(cells.ptr.tolist())):
                for column in cells.column[a:b].tolist():
                    pair = divmod(column, len(self.states)) if layer == "edge" else (column,)
                    found.append((self.extractor.name(f), *(self.states[i] for i in pair)))
        return found + [(None, r, s) for r in self.states for s in self.states]

    def true_loss(self, weights, tokens):
        named = dict(zip(self.names(), weights.tolist(), strict=True))
        assert len(named) == len(weights)

        def allowed(labelling):
            return not validate([list(labelling)], self.scheme)

        return oracles.latent_loss(tokens, self.y, self.states, named, allowed if self.scheme else None)


CASES = {
    "states": (plain.STATES, 2, "observed", None),
    "states, all cells": (plain.STATES, [1, 3, 2], "all", None),
    "arcs": (plain.ARCS, [1, 3, 2], "observed", None),
    "arcs, all cells": (plain.ARCS, 2, "all", None),
    "constrained": (plain.STATES, [2, 1, 3], "observed", "iob2"),
    "constrained arcs": (plain.ARCS, 2, "observed", "iob2"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n_sentences", [1, 10])
def test_loss_and_gradient(case, n_sentences):
    template, sizes, cells, scheme = CASES[case]
    X, y = plain.words(n_sentences, seed=3, longest=3)
    problem = Problem(X, y, template, sizes, cells, scheme)
    tokens = plain.as_tokens(X, template)
    weights = problem.random_weights()
    loss, gradient = problem(weights)
    assert loss == pytest.approx(problem.true_loss(weights, tokens), rel=1e-9)
    at = np.random.default_rng(1).permutation(len(weights))[:10]
    expected = plain.differences(lambda w: problem.true_loss(w, tokens), weights, at)
    np.testing.assert_allclose(gradient[at], expected, atol=1e-7)
    more = np.arange(0, len(weights), max(1, len(weights) // 300))
    np.testing.assert_allclose(gradient[more], plain.differences(lambda w: problem(w)[0], weights, more), atol=1e-6)


def test_observed_cells_are_those_of_the_labels_times_their_states():
    X, y = plain.words(10, seed=5)
    problem = Problem(X, y, plain.ARCS, [1, 3, 2])
    without = plain.Problem(X, y, plain.ARCS)
    of = {label: [s for s in problem.states if s[0] == label] for label in plain.LABELS}
    expected = {
        (name[0], *states) for name in without.names() for states in itertools.product(*(of[i] for i in name[1:]))
    }
    assert set(problem.names()) == expected
    assert len(problem.names()) == len(expected)


@pytest.mark.parametrize("template", [plain.STATES, plain.ARCS])
def test_float32_agrees_with_float64(template):
    X, y = plain.words(150, seed=2, longest=30)
    exact, quick = Problem(X, y, template, 3), Problem(X, y, template, 3, dtype=np.float32)
    weights = exact.random_weights().astype(np.float32)
    loss, gradient = exact(weights)
    loss32, gradient32 = quick(weights)
    assert loss32 == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(gradient32, gradient, atol=2e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("template", [plain.STATES, plain.ARCS])
@pytest.mark.parametrize("scheme", [None, "iob2"])
@pytest.mark.parametrize("scale", [10.0, 100.0, 300.0, 1e3, 1e4])
def test_scores_of_any_size(template, scheme, scale):
    """Where scaled probabilities run out of range, log space takes over, in the clamped sums too."""
    X, y = plain.words(8, seed=4, longest=3)
    problem = Problem(X, y, template, [2, 1, 3], scheme=scheme)
    weights = problem.random_weights(scale)
    loss, gradient = problem(weights)
    tokens = plain.as_tokens(X, template)
    assert loss == pytest.approx(problem.true_loss(weights, tokens), rel=1e-9)
    at = np.arange(0, len(weights), len(weights) // 12)
    expected = plain.differences(lambda w: problem.true_loss(w, tokens), weights, at, step=1e-4)
    np.testing.assert_allclose(gradient[at], expected, atol=2e-5)
    quick = Problem(X, y, template, [2, 1, 3], scheme=scheme, dtype=np.float32)
    loss32, gradient32 = quick(weights.astype(np.float32))
    assert loss32 == pytest.approx(loss, rel=1e-5)
    exact32 = problem(weights.astype(np.float32))[1]  # float32 loses digits of the scores: 1e-7 of their size
    np.testing.assert_allclose(gradient32, exact32, atol=1e-5 * scale)


@pytest.mark.parametrize("template", [plain.STATES, plain.ARCS])
def test_threads_change_no_bit_of_the_gradient(template):
    X, y = plain.words(800, seed=6, longest=12)
    results = []
    for n_jobs in (1, 2):
        problem = Problem(X, y, template, [3, 2, 1], dtype=np.float32, n_jobs=n_jobs)
        results.append(problem(problem.random_weights()))
        problem.workers.close()
    (loss, gradient), (other_loss, other) = results
    assert loss == other_loss
    assert gradient.tobytes() == other.tobytes()


@pytest.mark.parametrize("template", [plain.STATES, plain.ARCS])
@pytest.mark.parametrize("scheme", [None, "iob2"])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_a_step_of_sgd_follows_the_gradient(template, scheme, scale):
    """A pass at a rate near zero moves the weights by the rate times minus the gradient, and meets the loss."""
    X, y = plain.words(12, seed=8)
    problem = Problem(X, y, template, [2, 1, 3], scheme=scheme)
    weights = problem.random_weights(scale)
    loss, gradient = problem(weights)
    run = SGD(problem.layers, problem.offsets, problem.gold, problem.space, problem.parameters, 0.0, 0)
    moved, eta = weights.copy(), 1e-7
    met, shrink = run.one_pass(moved, 1.0, np.arange(len(X)), eta, 0)
    assert shrink == 1
    assert met == pytest.approx(loss, rel=1e-4)
    np.testing.assert_allclose((weights - moved) / eta, gradient, atol=1e-4 * scale)


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"l1": 0.3}, {"optimizer": "sgd"}, {"constraints": "scheme", "cells": "all"}])
@pytest.mark.parametrize("one", [1, dict.fromkeys(LABELS, 1)])
def test_with_one_state_per_label_it_is_the_crf(settings, one):
    crf = CRF(template=ARCS, n_jobs=1, random_state=3, **settings).fit(X, Y)
    latent = LatentCRF(one, template=ARCS, n_jobs=1, random_state=3, **settings).fit(X, Y)
    assert latent.weights_.tobytes() == crf.weights_.tobytes()
    assert [r["loss"] for r in latent.history_] == [r["loss"] for r in crf.history_]
    assert latent.predict_marginals([NEW]) == crf.predict_marginals([NEW])
    assert latent.sequence_log_probabilities(X, Y) == crf.sequence_log_probabilities(X, Y)
    assert [y for y, _ in latent.predict_nbest([NEW], n=20)[0]] == [y for y, _ in crf.predict_nbest([NEW], n=20)[0]]
    p, q = ([p for _, p in m.predict_nbest([NEW], n=20)[0]] for m in (latent, crf))
    assert p == pytest.approx(q)
    assert latent.predict(X) == crf.predict(X)
    (found,) = latent.decode([NEW])
    (best,) = crf.decode([NEW])
    assert found.exact
    assert found.log_probability == pytest.approx(best.log_probability)


def test_latent_states_learn_what_a_crf_cannot():
    """Every third label is B, and no word tells: a CRF sees only its neighbour, two states of A can count."""
    x, y = [["x"] * 9] * 5, [["A", "A", "B"] * 3] * 5
    settings = {"template": "U:%x[0,0]\nB", "l2": 0.01, "n_jobs": 1}
    latent = LatentCRF(2, random_state=1, **settings).fit(x, y)
    crf = CRF(**settings).fit(x, y)
    assert latent.predict(x[:1]) == y[:1]
    assert np.exp(latent.sequence_log_probabilities(x[:1], y[:1])[0]) > 0.9
    assert np.exp(crf.sequence_log_probabilities(x[:1], y[:1])[0]) < 0.2
    (row,) = latent.predict_marginals(x[:1], latent=True)
    of_a = [max(("A#1", "A#2"), key=row[t].get) for t in range(9) if y[0][t] == "A"]
    assert of_a == of_a[:2] * 3
    assert of_a[0] != of_a[1]


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.5), (0.2, 0.05)])
def test_training_ends_where_the_gradient_does(l1, l2):
    """The optimum: g + l2 w = -l1 sign(w), or |g| <= l1 where w is 0."""
    model = LatentCRF(2, template=ARCS, l1=l1, l2=l2, tol=1e-9, n_jobs=1, random_state=0).fit(X, Y)
    _, layers, offsets = learn(X, ARCS, 1)
    index = {label: i for i, label in enumerate(model.classes_)}
    gold = np.array([index[label] for s in Y for label in s], np.int32)
    weights, gradient = model.weights_.astype(np.float64), np.empty(len(model.weights_))
    with Workers(1) as workers:
        n = model.extractor_.n_features
        objective = LogLikelihood(layers, n, offsets, gold, model.space_, model.parameters_, workers, dtype=np.float64)
        loss = objective(weights, gradient)
    penalty = l1 * np.abs(weights).sum() + 0.5 * l2 * weights @ weights
    assert loss + penalty == pytest.approx(model.training_["loss"], rel=1e-5)
    assert model.training_["loss"] < model.history_[0]["loss"] / 2
    used = weights != 0
    np.testing.assert_allclose(gradient[used], -(l2 * weights + l1 * np.sign(weights))[used], atol=5e-3)
    assert np.abs(gradient[~used]).max(initial=0) <= l1 + 5e-3
    assert used.all() if l1 == 0 else 0.1 < used.mean() < 0.9


@pytest.mark.parametrize("template", [STATES, ARCS])
def test_sgd_lowers_the_loss(chunks, template):
    small = chunks.take(slice(0, 60))
    words = [[t[0] for t in s] for s in small.X]
    model = LatentCRF(2, template=template, optimizer="sgd", max_iter=8, tol=0, n_jobs=1, random_state=0)
    model.fit(words, small.y)
    losses = [record["loss"] for record in model.history_]
    assert losses[-1] < losses[1] < losses[0]
    assert model.score(words, small.y) > 0.8


def test_threads_change_no_weight(chunks):
    small = chunks.take(slice(0, 120))
    words = [[t[0] for t in s] for s in small.X]
    for template in (STATES, ARCS):
        one, two = (
            LatentCRF(3, template=template, max_iter=6, n_jobs=n, random_state=5).fit(words, small.y) for n in (1, 2)
        )
        assert one.weights_.tobytes() == two.weights_.tobytes()
        assert one.predict_nbest(words[:20], n=3) == two.predict_nbest(words[:20], n=3)


@pytest.mark.parametrize("optimizer", ["lbfgs", "sgd"])
def test_seeds(optimizer):
    def trained(seed):
        return LatentCRF(2, template=STATES, optimizer=optimizer, max_iter=10, n_jobs=1, random_state=seed).fit(X, Y)

    assert trained(1).weights_.tobytes() == trained(1).weights_.tobytes()
    assert trained(1).weights_.tobytes() != trained(2).weights_.tobytes()
    assert trained(None).weights_.tobytes() == trained(None).weights_.tobytes()


def test_restarts_keep_the_best_objective():
    words = {"template": STATES, "n_jobs": 1, "random_state": 7, "max_iter": 12, "l2": 0.05}
    one = LatentCRF(3, **words).fit(X, Y)
    assert "restarts" not in one.training_
    four = LatentCRF(3, n_restarts=4, **words).fit(X, Y)
    spread = four.training_["restarts"]
    assert len(spread) == 4
    losses = [run["loss"] for run in spread]
    assert [run["merit"] for run in spread] == [-loss for loss in losses]
    assert losses[0] == one.training_["loss"]
    assert len(set(losses)) > 1
    assert four.training_["loss"] == min(losses) == four.history_[-1]["loss"]
    again = LatentCRF(3, n_restarts=4, **words).fit(X, Y)
    assert again.weights_.tobytes() == four.weights_.tobytes()


def test_restarts_keep_the_best_on_development_data(chunks):
    train, dev = chunks.take(slice(0, 25)), chunks.take(slice(25, 80))
    model = LatentCRF(2, template="words", n_restarts=3, max_iter=15, l2=0.1, n_jobs=1, random_state=2)
    model.fit(train, dev=dev)
    merits = [run["merit"] for run in model.training_["restarts"]]
    assert len(merits) == 3
    assert len(set(merits)) > 1
    assert all(0 < merit < 1 for merit in merits)
    assert evaluate(dev.y, model.predict(dev)).score == pytest.approx(max(merits))
    assert max(record.get("dev", 0) for record in model.history_) == max(merits)


class StopError(Exception):
    pass


@pytest.mark.parametrize(
    "settings", [{}, {"l1": 0.2}, {"optimizer": "sgd"}, {"n_restarts": 2}], ids=["lbfgs", "owlqn", "sgd", "restarts"]
)
@pytest.mark.parametrize("stop", [3, 19])
def test_a_run_that_goes_on_from_its_checkpoint_is_the_undisturbed_run(tmp_path, settings, stop):
    words = {"template": ARCS, "max_iter": 12, "tol": 0, "n_jobs": 1, "random_state": 1} | settings
    calm = LatentCRF(2, **words).fit(X, Y)
    seen = []

    def interrupt(record, limit):
        seen.append(record)
        if len(seen) == stop:
            raise StopError

    place = tmp_path / "run.checkpoint"
    try:
        LatentCRF(2, **words).fit(X, Y, checkpoint=place, checkpoint_every=0, progress=interrupt)
    except StopError:
        assert len(seen) == stop
    resumed = LatentCRF(2, **words).fit(X, Y, checkpoint=place, checkpoint_every=0, resume=True)
    assert resumed.weights_.tobytes() == calm.weights_.tobytes()
    assert [r["loss"] for r in resumed.history_] == [r["loss"] for r in calm.history_]


def test_a_checkpoint_of_another_seed_or_size_is_refused(tmp_path):
    place = tmp_path / "run.checkpoint"
    words = {"template": STATES, "max_iter": 3, "n_jobs": 1}
    LatentCRF(2, random_state=0, **words).fit(X, Y, checkpoint=place, checkpoint_every=0)
    for other in (LatentCRF(2, random_state=1, **words), LatentCRF(3, random_state=0, **words)):
        with pytest.raises(LabelwrightError, match="other data or other settings"):
            other.fit(X, Y, checkpoint=place, resume=True)


def test_warm_start():
    model = LatentCRF(2, template=ARCS, n_jobs=1, warm_start=True, tol=1e-7, random_state=0).fit(X, Y)
    first = model.training_
    model.fit(X, Y)
    assert model.history_[0]["loss"] == pytest.approx(first["loss"], rel=1e-6)


@pytest.mark.parametrize("template", [STATES, ARCS])
def test_constraints_hold_in_training_and_after(template):
    model = LatentCRF(2, template=template, constraints="scheme", n_jobs=1, random_state=0).fit(X, Y)
    labellings = [list(y) for y in itertools.product(LABELS, repeat=3)]
    p = np.exp(model.sequence_log_probabilities([NEW[:3]] * 27, labellings))
    assert p.sum() == pytest.approx(1)
    assert (p[[bool(validate([y], "iob2")) for y in labellings]] == 0).all()
    assert len(model.predict_nbest([NEW[:3]], n=100)[0]) == (p > 0).sum()
    with pytest.raises(CorpusError, match="sentence 0, token 1: I-NP cannot follow O"):
        LatentCRF(2, constraints="iob2", n_jobs=1).fit([["a", "b"]], [["O", "I-NP"]])


# --- settings, copies and files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n_latent",
    [0, -1, True, False, 2.0, 2.5, "3", None, [2, 2, 2], {}, {"O": 2}, dict(UNEVEN, O=0), dict(UNEVEN, O=True)],
    ids=repr,
)
def test_bad_numbers_of_states(n_latent):
    with pytest.raises(OptionError, match="n_latent") as caught:
        LatentCRF(n_latent, n_jobs=1).fit(X, Y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words", [{"n_restarts": 0}, {"n_restarts": 1.5}, {"order": 3}, {"cells": "few"}, {"random_state": -1}], ids=str
)
def test_bad_settings(words):
    with pytest.raises(OptionError, match=next(iter(words))):
        LatentCRF(2, n_jobs=1, **words).fit(X, Y)


def test_numbers_per_label():
    model = LatentCRF(UNEVEN | {"never seen": 7}, template=STATES, n_jobs=1, random_state=0).fit(X, Y)
    assert np.diff(model.space_.first).tolist() == [UNEVEN[label] for label in model.classes_]
    names = list(model.predict_marginals([["dog"]], latent=True)[0][0])
    assert names == ["B-NP#1", "B-NP#2", "I-NP", "O#1", "O#2", "O#3"]
    numpy_number = LatentCRF(np.int64(2), template=STATES, n_jobs=1, random_state=0).fit(X, Y)
    assert numpy_number.space_.n_states == 6


def test_copies_and_pickles_predict_alike(model):
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert isinstance(other, LinearModel)
        assert other.predict_marginals(X, latent=True) == model.predict_marginals(X, latent=True)
        assert other.decode(X) == model.decode(X)


@pytest.mark.parametrize("kind", ["plain", "uneven", "numpy", "l1", "constrained", "restarts"])
def test_files_keep_everything(kind, tmp_path):
    more = {
        "plain": {},
        "uneven": {"n_latent": UNEVEN},
        "numpy": {"n_latent": np.int64(3)},
        "l1": {"l1": 0.4},
        "constrained": {"constraints": "scheme"},
        "restarts": {"n_restarts": 2, "max_iter": 5},
    }[kind]
    model = LatentCRF(**{"n_latent": 2, "template": ARCS, "n_jobs": 1, "random_state": 0} | more).fit(X, Y)
    model.save(tmp_path / "model")
    again = labelwright.load(tmp_path / "model")
    assert type(again) is LatentCRF
    same = {"template": ARCS}
    assert again.get_params() | same == model.get_params() | same
    assert again.predict_marginals(X, latent=True) == model.predict_marginals(X, latent=True)
    assert again.predict_nbest(X) == model.predict_nbest(X)
    assert again.decode(X) == model.decode(X)
    assert (again.classes_, again.scheme_) == (model.classes_, model.scheme_)
    assert again.training_ == model.training_
    assert again.history_ == model.history_
    again.fit(X, Y)  # a loaded model can be trained again
    assert again.weights_.tobytes() == model.weights_.tobytes()


def test_scikit_learn_tools():
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV

    model = LatentCRF(2, template=STATES, n_jobs=1, max_iter=30, random_state=0)
    fresh = clone(model.fit(X, Y))
    assert not hasattr(fresh, "weights_")
    assert fresh.get_params() == model.get_params()
    search = GridSearchCV(fresh, {"n_latent": [1, 2], "l2": [0.1, 1e6]}, cv=2, error_score="raise").fit(X * 2, Y * 2)
    assert search.best_params_["l2"] == 0.1
