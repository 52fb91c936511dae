"""Perceptrons against one that enumerates every path, and how they learn: passes, starts, checkpoints, batches."""

import itertools
import json
import pickle
from collections import Counter

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import ARCS, EVERYTHING, LABELS, STATES, TRIPLES, Problem, bioes, dicts, names_of, words
from sklearn.base import clone
from tiny import NEW, X, Y

import labelwright
from labelwright import CRF, LatentCRF, LatentPerceptron, Perceptron
from labelwright.corpus import synthetic_hmm
from labelwright.errors import CorpusError, LabelwrightError, NotFittedError, OptionError
from labelwright.evaluate import evaluate
from labelwright.kernels import perceptron as kernels
from labelwright.kernels.perceptron import Rule
from labelwright.learn.perceptron import Averaged, Passes
from labelwright.structures.states import state_names
from labelwright.taggers.perceptron import LIKELY, PATIENCE, PLAIN, SPLIT
from labelwright.taggers.true_model import bayes_ceiling

PASSES = 4
RULES = [Rule(0.0, False, 1.0), Rule(0.7, False, 1.0), Rule(0.5, True, 1.0), Rule(0.5, True, 0.1)]
ORDERS = [(STATES, 1), (ARCS, 1), (STATES, 2), (TRIPLES, 2), (EVERYTHING, 2)]
NOISY = words(14, seed=5)  # nothing separates these: passes go on
SIMPLE = "U:%x[0,0]\nB"


# --- against enumeration ----------------------------------------------------------------------------------------------


def compare(problem, rule, averaging="none", reset_every=1, seed=0):
    """The passes of the kernel and those of the oracle from the same random weights."""
    passes = Passes(problem.layers, problem.offsets, problem.gold, problem.space, problem.parameters, rule, seed)
    start = problem.random_weights(0.3, seed).astype(np.float32)
    run = Averaged(passes.layout.laid_out(start))
    np.testing.assert_array_equal(passes.layout.taken_back(run.weights), start)
    limits = {"margin": rule.margin, "limit": rule.limit if rule.passive else None}
    orders = [passes.order(q) for q in range(1, PASSES + 1)]
    expected = oracles.perceptron(problem.choices(), orders, start, averaging, reset_every, **limits)
    assert expected[0].clear or rule.passive  # whose steps end in ties
    for q, truth in enumerate(expected, 1):
        if not truth.clear:
            break
        if averaging == "mavg" and q % reset_every == 0:
            run.restart()
        mistakes, _ = passes.one_pass(run, q)
        np.testing.assert_allclose(passes.layout.taken_back(run.weights), truth.weights, atol=1e-4)
        np.testing.assert_allclose(passes.layout.taken_back(run.mean()), truth.mean, atol=1e-4)
        assert rule.passive or mistakes == truth.mistakes  # a step of nothing may be made or not
        assert run.taken == q * passes.n


@st.composite
def problems(draw, templates=ORDERS):
    """Small training data under every kind of template, states and constraints."""
    template, order = draw(st.sampled_from(templates))
    cells, seed = draw(st.sampled_from(["observed", "all"])), draw(st.integers(0, 1000))
    sizes = draw(st.sampled_from([1, 1, 2, [2, 1, 1], [1, 2, 3], [3, 1, 1]]))
    kind = draw(st.sampled_from(["free", "free", "iob2", "bioes"]))
    if kind == "bioes":
        X, y, sizes, scheme = *bioes(5, seed, 3), 1, "bioes"
    else:
        longest = 4 if sizes == 1 else 3
        X, y, scheme = *words(5, seed, longest), None if kind == "free" else "iob2"
    return Problem(X, y, template, cells, scheme, sizes=sizes, order=order)


rules = st.sampled_from(RULES)
averages = st.sampled_from([("none", 1), ("avg", 1), ("mavg", 1), ("mavg", 2), ("mavg", 3)])


@settings(max_examples=150)
@given(problems(), rules, averages, st.integers(0, 100))
def test_weights_means_and_mistakes_are_those_of_enumeration(problem, rule, averaging, seed):
    compare(problem, rule, *averaging, seed)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("sizes", [1, [2, 1, 2]])
def test_features_with_real_values_of_any_sign_count_as_much_as_they_say(rule, order, sizes):
    problem = Problem(*dicts(5, 3, longest=4 if order * len(str(sizes)) < 9 else 3), sizes=sizes, order=order)
    assert any(token["state"]["x"] < 0 for sentence in problem.tokens for token in sentence)
    compare(problem, rule, "mavg", 2)


@pytest.mark.parametrize(
    ("template", "order"), [(ARCS, 1), (ARCS, 2), (EVERYTHING, 2)], ids=["arcs 1", "arcs 2", "everything 2"]
)
def test_cells_of_forbidden_pairs_leave_latent_weights_in_their_places(template, order):
    """With cells="all" pairs of labels that the scheme forbids have weights: nothing may slip because of them."""
    compare(Problem(*words(5, 1, 3), template, "all", "iob2", sizes=2, order=order), RULES[0], "avg")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("template", "order"), [(ARCS, 1), (STATES, 2), (EVERYTHING, 2)], ids=["arcs 1", "states 2", "everything 2"]
)
def test_longer_sentences_keep_their_latent_paths(template, order, rule):
    X, y = words(12, 4, longest=5)
    long = [n for n, sentence in enumerate(X) if len(sentence) == 5][:2]
    compare(Problem([X[n] for n in long], [y[n] for n in long], template, sizes=[1, 2, 1], order=order), rule, "avg")


@pytest.mark.parametrize("order", [1, 2])
def test_latent_states_under_bioes_end_where_they_may(order):
    compare(Problem(*bioes(4, 2, 3), SIMPLE, scheme="bioes", sizes=[1, 2, 1, 1, 2], order=order), RULES[1], "avg")


@pytest.mark.parametrize("sizes", [1, [1, 3, 2]])
def test_the_lazy_mean_is_the_mean_of_the_weights_after_each_sentence(sizes):
    """Sentence by sentence, by a pass over each of them alone."""
    problem = Problem(*NOISY, ARCS, sizes=sizes)
    start = problem.random_weights(0.3).astype(np.float32)
    whole = Passes(problem.layers, problem.offsets, problem.gold, problem.space, problem.parameters, RULES[0], 1)
    single = Passes(problem.layers, problem.offsets, problem.gold, problem.space, problem.parameters, RULES[0], 1)
    run, step, every = Averaged(whole.layout.laid_out(start)), Averaged(single.layout.laid_out(start)), []
    orders = [whole.order(q) for q in range(1, PASSES + 1)]
    for q, order in enumerate(orders, 1):
        whole.one_pass(run, q)
        for n in order:
            single.order = lambda number, n=n: np.array([n])
            single.n = 1
            single.one_pass(step, q)
            every.append(step.weights.astype(np.float64))
    np.testing.assert_array_equal(run.weights, step.weights)
    np.testing.assert_allclose(run.mean(), np.mean(every, axis=0), atol=1e-5)
    assert np.abs(run.mean() - run.weights).max() > 0.1


def test_pieces_of_a_pass_change_nothing(monkeypatch):
    problem = Problem(*NOISY, ARCS)
    parts = problem.layers, problem.offsets, problem.gold, problem.space, problem.parameters, RULES[0], 4
    start = problem.random_weights(0.3).astype(np.float32)
    runs = []
    for piece in (10**9, 1):
        monkeypatch.setattr("labelwright.learn.perceptron.PIECE", piece)
        passes = Passes(*parts)
        run = Averaged(passes.layout.laid_out(start))
        counts = [passes.one_pass(run, q) for q in (1, 2)]
        runs.append((run.weights.tobytes(), run.sums.tobytes(), run.taken, counts))
    assert runs[0] == runs[1]


def best_in_float64(node, arc):
    """The best path [T] of scores node [T, S] and arc [S, S]."""
    delta, back = node[0], []
    for scores in node[1:]:
        every = delta[:, None] + arc
        back.append(every.argmax(axis=0))
        delta = every.max(axis=0) + scores
    path = [int(delta.argmax())]
    for row in reversed(back):
        path.append(int(row[path[-1]]))
    return path[::-1]


def test_paths_of_a_long_sentence_are_those_of_eight_byte_numbers():
    """Scores of 20,000 tokens add up to numbers of which four bytes keep few digits."""
    random, T = np.random.default_rng(3), 20_000
    X, y = [list(random.choice(["a", "b", "c", "d", "e"], T))], [list(random.choice(["A", "B"], T))]
    problem = Problem(X, y, SIMPLE, "all", labels=["A", "B"], sizes=3)
    passes = Passes(problem.layers, problem.offsets, problem.gold, problem.space, problem.parameters, RULES[0], None)
    start = (5 + problem.random_weights(2.0)).astype(np.float32)
    run = Averaged(passes.layout.laid_out(start))
    assert passes.one_pass(run, 1)[0] == 1
    names = names_of(problem.parameters, problem.extractor, range(6))
    weight = dict(zip(names, start.astype(np.float64), strict=True))
    node = np.array([[weight[f"U:{word}", s] for s in range(6)] for word in X[0]])
    arc = np.array([[weight[None, r, s] for s in range(6)] for r in range(6)])
    wrong = problem.space.label_of[None, :] != problem.gold[:, None]
    expected = Counter()
    for scores, sign in ((np.where(wrong, -np.inf, node), 1), (node, -1)):
        path = best_in_float64(scores, arc)
        for feature, n in Counter(zip(X[0], path, strict=True)).items():
            expected[f"U:{feature[0]}", feature[1]] += sign * n
        for move, n in Counter(itertools.pairwise(path)).items():
            expected[None, *move] += sign * n
    change = passes.layout.taken_back(run.weights) - start
    np.testing.assert_allclose(change, [expected[name] for name in names], atol=0.01)
    assert np.abs(change).max() > 100


@settings(max_examples=25)
@given(problems())
def test_weights_come_back_from_the_layout_as_they_went_in(problem):
    passes = Passes(problem.layers, problem.offsets, problem.gold, problem.space, problem.parameters, RULES[0], 0)
    weights = problem.random_weights()
    np.testing.assert_array_equal(passes.layout.taken_back(passes.layout.laid_out(weights)), weights)


# --- the models -------------------------------------------------------------------------------------------------------


def fit_by_hand(model, X, y, n_passes):
    """The same training by the oracle, from the model's own start."""
    model._check_parameters()
    data = model._prepare(X, y)
    start = model._start(0, False)
    passes = Passes(*data, model.space_, model.parameters_, model._rule(), 0 if model.shuffle else None)
    states = range(model.space_.n_states)
    names = names_of(model.parameters_, model.extractor_, states)
    label_of = [model.space_.labels[i] for i in model.space_.label_of]
    problem = Problem(X, y, model.template, labels=list(model.space_.labels), order=model.order)
    choices = [
        oracles.Choices(tokens, gold, states, label_of, names) for tokens, gold in zip(problem.tokens, y, strict=True)
    ]
    rule = model._rule()
    return oracles.perceptron(
        choices, [passes.order(q) for q in range(1, n_passes + 1)], start, model.averaging, model.reset_every,
        margin=rule.margin, limit=rule.limit if rule.passive else None,
    )  # fmt: skip


@pytest.mark.parametrize("averaging", ["none", "avg", "mavg"])
@pytest.mark.parametrize("order", [1, 2])
def test_fit_runs_the_passes_of_the_paper(averaging, order):
    """From the random start of a latent model, with shuffled sentences, to the weights that the averaging asks for."""
    settings = {"template": ARCS, "order": order, "averaging": averaging, "reset_every": 2, "max_iter": 3}
    X, y = words(6, 8, 3)
    model = LatentPerceptron(2, margin=0, start="random", n_jobs=1, random_state=0, **settings)
    expected = fit_by_hand(model, X, y, 3)
    model.fit(X, y)
    assert [r["mistakes"] for r in model.history_] == [truth.mistakes for truth in expected]
    last = expected[-1]
    assert last.clear
    np.testing.assert_allclose(model.weights_, last.weights if averaging == "none" else last.mean, atol=1e-4)
    assert [r["iteration"] for r in model.history_] == [1, 2, 3]
    assert [r["separable"] for r in model.history_] == [1 - truth.mistakes / 6 for truth in expected]
    assert model.training_["mistakes"] == sum(truth.mistakes for truth in expected)


@pytest.mark.parametrize("sizes", [1, 2])
def test_a_margin_of_our_choice_is_the_usual_step_and_more_in_the_first_passes(sizes):
    """As many features and plain moves as a token usually has; 2.5 times that before the tenth pass."""
    problem = Problem(*words(5, 2, 3), STATES, sizes=sizes)
    passes = Passes(
        problem.layers, problem.offsets, problem.gold, problem.space, problem.parameters, Rule(np.nan, False, 1.0), 0
    )
    usual = 4 + 1  # four U lines of a token, and the move to it
    start, n_passes = problem.random_weights(0.3).astype(np.float32), 12
    run, orders = Averaged(passes.layout.laid_out(start)), [passes.order(q) for q in range(1, n_passes + 1)]
    asked = [2.5 * usual] * 9 + [usual] * 3
    for q, truth in enumerate(oracles.perceptron(problem.choices(), orders, start, margin=asked), 1):
        assert passes.one_pass(run, q)[0] == truth.mistakes
        assert truth.clear
        np.testing.assert_allclose(passes.layout.taken_back(run.weights), truth.weights, atol=1e-4)


def test_a_margin_of_our_choice_counts_values_by_their_squares():
    """The median token: one of large values alone asks for nothing."""
    X, y = [[{"a": 2.0}, {"a": -1.0, "b": 3.0}, {"b": 100.0}]], [["A", "B", "A"]]
    model = Perceptron(margin="auto", n_jobs=1)
    model._check_parameters()
    for order in (1, 2):
        data = model.set_params(order=order)._prepare(X, y)
        passes = Passes(*data, model.space_, model.parameters_, model._rule(), None)
        assert passes.rule.margin == pytest.approx(1 + 9 + order)


@pytest.mark.parametrize("words_", [{}, {"averaging": "none"}, {"margin": 1.0}, {"margin": "auto"}])
def test_a_pass_without_mistakes_is_the_last(words_):
    model = Perceptron(n_jobs=1, **words_).fit(X, Y)
    mistakes = [r["mistakes"] for r in model.history_]
    assert mistakes[-1] == 0
    assert all(m > 0 for m in mistakes[:-1])
    assert model.training_["stopped"] == "converged: a pass without mistakes"
    assert model.training_["iterations"] == len(mistakes) < 50
    assert words_.get("averaging") != "none" or model.predict(X) == Y


@pytest.mark.parametrize("max_iter", [6, 20, 50])
def test_the_passes_left_after_one_without_mistakes_count_in_the_mean(max_iter):
    """As if all of them had been run."""
    model = Perceptron(template=STATES, max_iter=max_iter, random_state=0, n_jobs=1)
    model._check_parameters()
    data = model._prepare(X, Y)
    passes = Passes(*data, model.space_, model.parameters_, model._rule(), 0)
    run = Averaged(passes.layout.laid_out(np.zeros(model.parameters_.n_weights)))
    mistakes = [passes.one_pass(run, q)[0] for q in range(1, max_iter + 1)]
    assert mistakes[-1] == 0 < mistakes[0]
    model.fit(X, Y)
    assert len(model.history_) == mistakes.index(0) + 1 < max_iter
    np.testing.assert_allclose(model.weights_, passes.layout.taken_back(run.mean()), atol=1e-6)
    assert np.abs(model.weights_ - passes.layout.taken_back(run.weights)).max() > 1e-3


@pytest.mark.parametrize("averaging", ["none", "avg"])
@pytest.mark.parametrize("margin", [0.3, 1.0, 7.0, "auto"])
def test_passive_aggressive_training_on_separable_data_ends(averaging, margin):
    """What rounding leaves of a margin is no mistake."""
    settings = {"update": "passive-aggressive", "averaging": averaging, "margin": margin, "n_jobs": 1}
    model = Perceptron(max_iter=1000, **settings).fit(X, Y)
    assert model.training_["stopped"] == "converged: a pass without mistakes"
    assert model.predict(X) == Y


def test_passive_aggressive_steps_bring_gold_above_the_others_by_the_margin():
    model = Perceptron(update="passive-aggressive", averaging="none", margin=0.5, n_jobs=1).fit(X, Y)
    assert model.training_["loss"] < 1e-3 < model.history_[0]["loss"]
    assert model.training_["stopped"] == "converged: a pass without mistakes"
    for sentence, gold, best in zip(X, Y, model.predict_nbest(X, n=30), strict=True):
        assert best[0][0] == gold
        for labels, score in best[1:]:
            assert score + 0.5 * sum(a != b for a, b in zip(labels, gold, strict=True)) < best[0][1] + 1e-3, sentence


def test_latent_states_learn_what_a_perceptron_cannot():
    """Every third label is B, and no word tells: two states of A can count."""
    x, y = [["x"] * 9] * 5, [["A", "A", "B"] * 3] * 5
    settings = {"template": SIMPLE, "max_iter": 100, "margin": 0, "n_jobs": 1, "random_state": 2}
    assert LatentPerceptron(2, **settings).fit(x, y).predict(x) == y
    assert Perceptron(**settings).fit(x, y).predict(x) != y


LATENT = {"template": STATES, "max_iter": 15, "margin": 1.0, "n_jobs": 1, "random_state": 2}


@pytest.mark.parametrize("start", ["auto", "split"])
def test_a_latent_model_starts_from_the_states_of_a_plain_one(start):
    """Of twelve passes and an average, with the same words otherwise."""
    plain = Perceptron(**LATENT | {"max_iter": PLAIN}).fit(X, Y)
    model, by_hand = LatentPerceptron(2, start=start, **LATENT), LatentPerceptron(2, start="random", **LATENT)
    model.fit(iter(X), Y)
    by_hand.fit(X, Y, init=plain)
    assert model.weights_.tobytes() == by_hand.weights_.tobytes()
    assert [r["mistakes"] for r in model.history_] == [r["mistakes"] for r in by_hand.history_]
    assert model.training_["start"] == {"of": "split", "plain_separable": 1.0}
    assert "start" not in by_hand.training_
    assert "start" not in LatentPerceptron(2, start="random", **LATENT).fit(X, Y).training_
    assert "start" not in LatentPerceptron(1, start=start, **LATENT).fit(X, Y).training_


def test_states_of_a_plain_model_that_separates_too_little_are_not_split():
    """No word tells where B is: the plain perceptron gets no sentence right."""
    x, y = [["x"] * 9] * 5, [["A", "A", "B"] * 3] * 5
    starts = "auto", "likelihood", "split", "random"
    auto, likely, split, random = (LatentPerceptron(2, start=start, **LATENT).fit(x, y) for start in starts)
    assert auto.training_["start"] == {"of": "likelihood", "plain_separable": 0.0}
    assert likely.training_["start"] == {"of": "likelihood"}
    assert split.training_["start"] == {"of": "split", "plain_separable": 0.0}
    assert auto.weights_.tobytes() == likely.weights_.tobytes()
    assert len({model.weights_.tobytes() for model in (likely, split, random)}) == 3
    crf = LatentCRF(2, template=STATES, max_iter=LIKELY, n_jobs=1, random_state=2).fit(x, y)
    by_hand = LatentPerceptron(2, start="random", **LATENT).fit(x, y, init=crf)
    assert by_hand.weights_.tobytes() == likely.weights_.tobytes()


@pytest.mark.parametrize("seed", [5, 7])
def test_states_that_a_random_start_leaves_stuck_are_told_apart_by_likelihood(seed):
    train, test = (synthetic_hmm(n, 10, 0.95, None, seed=1000 * i + seed) for i, n in enumerate((1500, 500)))
    model = LatentPerceptron(4, template="U:%x[0,0]\nB", max_iter=10, n_jobs=1, random_state=seed).fit(train)
    assert model.score(test) > bayes_ceiling(test, 0.95, None) - 0.005


def test_no_plain_model_is_trained_where_weights_are_given(monkeypatch):
    plain = Perceptron(template=STATES, n_jobs=1).fit(X, Y)
    model = LatentPerceptron(2, template=STATES, warm_start=True, n_jobs=1, random_state=0)

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(LatentPerceptron, "_plain", never)
    assert "start" not in model.fit(X, Y, init=plain).training_
    assert "start" not in model.fit(X, Y).training_  # warm
    assert model.predict(X) == Y


def test_with_one_state_per_label_a_latent_perceptron_is_a_perceptron():
    settings = {"template": ARCS, "averaging": "mavg", "reset_every": 2, "max_iter": 6, "n_jobs": 1, "random_state": 3}
    for n, margin in itertools.product((1, dict.fromkeys(LABELS, 1)), (None, 0.5, "auto")):
        settings["margin"] = margin
        plain = Perceptron(**settings).fit(*NOISY)
        latent = LatentPerceptron(n, **settings).fit(*NOISY)
        assert latent.weights_.tobytes() == plain.weights_.tobytes()
        assert latent.predict_nbest([["aa", "b", "c"]], n=9) == plain.predict_nbest([["aa", "b", "c"]], n=9)


def test_the_weights_of_the_best_pass_on_development_data_are_kept():
    train, dev = words(20, 1), words(20, 2)
    settings = {"template": STATES, "averaging": "none", "n_jobs": 1, "random_state": 0}
    model = Perceptron(**settings).fit(*train, dev=dev)
    scores = [r["dev"] for r in model.history_]
    best = int(np.argmax(scores)) + 1
    assert model.training_["best_iteration"] == best < len(scores) == best + PATIENCE
    assert model.training_["stopped"] == f"no better on the development data for {PATIENCE} iterations"
    assert evaluate(dev[1], model.predict(dev[0])).score == pytest.approx(max(scores))
    until_there = Perceptron(max_iter=best, **settings).fit(*train)
    assert model.weights_.tobytes() == until_there.weights_.tobytes()


def test_seeds_decide_the_order_and_shuffle_turns_it_off():
    def weights(**words_):
        return Perceptron(template=STATES, max_iter=3, n_jobs=1, **words_).fit(*NOISY).weights_.tobytes()

    assert weights(random_state=1) == weights(random_state=1)
    assert weights(random_state=1) != weights(random_state=2)
    assert weights(random_state=None) == weights(random_state=0)
    assert weights(shuffle=False, random_state=1) == weights(shuffle=False, random_state=2) != weights(random_state=1)


def test_without_shuffling_sentences_are_taken_in_their_order():
    settings = {"margin": 0, "template": STATES, "max_iter": 2, "shuffle": False, "averaging": "none", "n_jobs": 1}
    model = LatentPerceptron(2, start="random", **settings)
    expected = fit_by_hand(model, *words(6, 8, 3), 2)
    model.fit(*words(6, 8, 3))
    assert [r["mistakes"] for r in model.history_] == [truth.mistakes for truth in expected]
    np.testing.assert_allclose(model.weights_, expected[-1].weights, atol=1e-4)


@pytest.mark.parametrize("make", [Perceptron, LatentPerceptron])
def test_threads_change_no_weight(chunks, make):
    small = chunks.take(slice(0, 80))
    dev = chunks.take(slice(80, 120))
    one, two = (make(n_jobs=n, max_iter=3, random_state=5).fit(small, dev=dev) for n in (1, 2))
    assert one.weights_.tobytes() == two.weights_.tobytes()
    assert one.temperature_ == two.temperature_
    assert one.predict_nbest(dev, n=3) == two.predict_nbest(dev, n=3)


def test_restarts_keep_the_best_on_development_data():
    train, dev = words(20, 1), words(30, 2)
    settings = {"template": STATES, "max_iter": 4, "n_jobs": 1, "random_state": 0}
    model = LatentPerceptron(2, n_restarts=3, **settings).fit(*train, dev=dev)
    merits = [run["merit"] for run in model.training_["restarts"]]
    assert len(merits) == 3
    assert len(set(merits)) > 1
    assert evaluate(dev[1], model.predict(dev[0])).score == pytest.approx(max(merits))


def untrained(passes, weights, monitor, *rest):
    """In place of the training: the weights that it would have begun with."""
    monitor.finish("not trained")
    monitor.report(loss=0.0, mistakes=0, separable=1.0, weights=weights)
    return weights


@pytest.mark.parametrize("order", [1, 2])
def test_a_latent_model_begins_as_the_plain_one_it_is_made_from(monkeypatch, order):
    settings = {"template": ARCS, "order": order, "n_jobs": 1}
    plain = Perceptron(max_iter=7, **settings).fit(*NOISY)
    monkeypatch.setattr("labelwright.taggers.perceptron.perceptron", untrained)
    noisy = LatentPerceptron(3, random_state=0, **settings).fit(*NOISY, init=plain)
    monkeypatch.setattr("labelwright.taggers.perceptron.SPLIT", 1e-3)
    latent = LatentPerceptron(3, random_state=0, **settings).fit(*NOISY, init=plain)
    assert np.std(noisy.weights_ - latent.weights_) == pytest.approx(SPLIT, rel=0.2)
    assert latent.space_.n_states == 9
    unseen = [list(s) for s in [["c", "aa", "b"], ["b", "b"], ["ab"], ["aa", "new", "c"]]]
    assert latent.predict(NOISY[0] + unseen) == plain.predict(NOISY[0] + unseen)
    copies = [d.score for d in latent.decode(unseen)]
    assert copies == pytest.approx([d.score for d in plain.decode(unseen)], abs=0.2)  # but for a little noise
    assert len(set(latent.weights_.tolist())) > len(set(plain.weights_.tolist()))


def test_training_may_begin_from_a_crf_or_from_its_own_last_fit(monkeypatch):
    crf = CRF(template=STATES, n_jobs=1).fit(X, Y)
    model = Perceptron(template=STATES, averaging="none", warm_start=True, n_jobs=1).fit(X, Y)
    again = [r["mistakes"] for r in model.fit(X, Y).history_]
    assert again == [0]
    monkeypatch.setattr("labelwright.taggers.perceptron.perceptron", untrained)
    before = model.weights_.tobytes()
    assert model.fit(X, Y).weights_.tobytes() == before
    assert Perceptron(template=STATES, n_jobs=1).fit(X, Y, init=crf).weights_.tobytes() == crf.weights_.tobytes()
    with pytest.raises(NotFittedError):
        Perceptron(n_jobs=1).fit(X, Y, init=Perceptron())


class StopError(Exception):
    pass


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"averaging": "none"},
        {"averaging": "avg"},
        {"update": "passive-aggressive"},
        {"n_restarts": 2},
        {"order": 2},
    ],
    ids=["mavg", "none", "avg", "passive-aggressive", "restarts", "order 2"],
)
@pytest.mark.parametrize("stop", [3, 11])
def test_a_run_that_goes_on_from_its_checkpoint_is_the_undisturbed_run(tmp_path, settings, stop):
    settings = {"template": ARCS, "reset_every": 3, "max_iter": 8, "n_jobs": 1, "random_state": 1} | settings
    dev = words(10, 6)
    calm = LatentPerceptron(2, **settings).fit(*NOISY, dev=dev)
    seen = []

    def interrupt(record, limit):
        seen.append(record)
        if len(seen) == stop:
            raise StopError

    place = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    try:
        LatentPerceptron(2, **settings).fit(*NOISY, dev=dev, progress=interrupt, **place)
    except StopError:
        assert len(seen) == stop
    resumed = LatentPerceptron(2, **settings).fit(*NOISY, dev=dev, resume=True, **place)
    assert resumed.weights_.tobytes() == calm.weights_.tobytes()
    kept = ("loss", "mistakes", "separable", "dev", "iteration")
    assert [[r[k] for k in kept] for r in resumed.history_] == [[r[k] for k in kept] for r in calm.history_]
    assert resumed.training_["convergence"] == calm.training_["convergence"]


@pytest.mark.parametrize("dev", [None, words(10, 6)], ids=["alone", "dev"])
@pytest.mark.parametrize("averaging", ["none", "avg", "mavg"])
def test_a_run_that_converged_resumes_to_the_very_same_model(tmp_path, averaging, dev):
    settings = {"template": STATES, "averaging": averaging, "n_jobs": 1, "random_state": 1}
    place = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    whole = Perceptron(**settings).fit(X, Y, dev=dev, **place)
    assert whole.training_["stopped"] == "converged: a pass without mistakes"
    seen = []
    again = Perceptron(**settings).fit(X, Y, dev=dev, resume=True, progress=lambda *told: seen.append(told), **place)
    assert seen == []
    assert again.weights_.tobytes() == whole.weights_.tobytes()
    assert again.history_ == whole.history_
    assert again.training_ == whole.training_


def test_a_checkpoint_goes_on_for_more_passes_but_not_under_other_rules(tmp_path):
    settings = {"template": STATES, "n_jobs": 1}
    place = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    Perceptron(max_iter=3, **settings).fit(*NOISY, **place)
    longer = Perceptron(max_iter=6, **settings).fit(*NOISY, resume=True, **place)
    assert longer.weights_.tobytes() == Perceptron(max_iter=6, **settings).fit(*NOISY).weights_.tobytes()
    others = [{"averaging": "mavg"}, {"margin": 1.0}, {"random_state": 1}, {"shuffle": False}, {"order": 2}]
    for other in others:
        with pytest.raises(LabelwrightError, match="other data or other settings"):
            Perceptron(max_iter=6, **settings | other).fit(*NOISY, resume=True, **place)


@pytest.mark.parametrize(
    "model",
    [
        Perceptron(template=ARCS, order=2, constraints="scheme", update="passive-aggressive", max_iter=3),
        LatentPerceptron({"O": 1, "B-X": 3, "I-X": 2}, template=STATES, reset_every=2, max_iter=3),
    ],
)
def test_files_pickles_and_clones_are_the_same_model(tmp_path, model):
    model = clone(model).set_params(n_jobs=1, random_state=4)
    train, new = words(12, 3), [["aa", "c", "b"], ["b"], ["new", "aa"], []]
    model.fit(*train, dev=words(6, 4))
    model.save(tmp_path / "m")
    for other in (labelwright.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
        assert type(other) is type(model)
        assert other.get_params() | {"template": None} == model.get_params() | {"template": None}
        assert other.weights_.tobytes() == model.weights_.tobytes()
        assert other.decode(new) == model.decode(new)
        assert other.predict_confidences(new) == model.predict_confidences(new)
        assert other.training_ == model.training_
    copy = clone(model)
    assert not hasattr(copy, "weights_")
    assert copy.fit(*train, dev=words(6, 4)).weights_.tobytes() == model.weights_.tobytes()


def test_a_model_of_one_label_makes_no_mistakes(tmp_path):
    for make in (Perceptron, LatentPerceptron):
        model = make(n_jobs=1).fit([["a", "b"], ["c"]], [["O", "O"], ["O"]])
        assert model.training_["mistakes"] == 0
        assert model.predict([["a", "z"]]) == [["O", "O"]]
        assert model.training_["convergence"]["separable"] == 1.0
        assert model.training_["convergence"]["margin"] is None
        json.dumps([model.training_, model.history_], allow_nan=False)  # no Infinity, which is no JSON
        model.save(tmp_path / "m")
        loaded = labelwright.load(tmp_path / "m")
        assert loaded.predict([["z"]]) == [["O"]]
        assert loaded.training_ == model.training_


# --- batch by batch ---------------------------------------------------------------------------------------------------


def by_name(model):
    """The weights by what they belong to."""
    states = state_names(model.space_)
    return dict(zip(names_of(model.parameters_, model.extractor_, states), model.weights_.tolist(), strict=True))


def test_an_equal_batch_again_and_again_is_another_pass():
    for make, words_ in (
        (Perceptron, {"averaging": "none"}),
        (Perceptron, {"averaging": "avg", "update": "passive-aggressive"}),
        (Perceptron, {"averaging": "avg", "margin": 2.5, "order": 2}),
        (LatentPerceptron, {"n_latent": 2, "averaging": "avg", "margin": 0, "start": "random", "random_state": 3}),
        (LatentPerceptron, {"n_latent": 2, "averaging": "none", "margin": 3, "start": "random", "random_state": 3}),
    ):
        settings = {"template": ARCS, "n_jobs": 1, "shuffle": False, **words_}
        online = make(**settings)
        for k in range(1, 6):
            online.partial_fit(*NOISY)
            whole = make(max_iter=k, **settings).fit(*NOISY)
            assert [r["mistakes"] for r in online.history_] == [r["mistakes"] for r in whole.history_]
            found, expected = by_name(online), by_name(whole)
            assert found.keys() == expected.keys()
            assert list(found.values()) == pytest.approx([expected[name] for name in found], abs=1e-5)
        assert online.predict(NOISY[0]) == whole.predict(NOISY[0])
        assert online.training_["sentences"] == 5 * len(NOISY[0])
        assert all(0 < r["seconds"] < 60 for r in online.history_)


def test_calls_are_no_passes_for_restarts():
    """Sentence by sentence mavg would begin anew from its mean all the time."""
    models = [Perceptron(averaging=name, reset_every=2, template=ARCS, n_jobs=1) for name in ("avg", "mavg")]
    for sentence, labels in zip(*NOISY, strict=True):
        avg, mavg = (model.partial_fit([sentence], [labels]) for model in models)
        assert mavg.weights_.tobytes() == avg.weights_.tobytes()
    assert avg.weights_.any()


@pytest.mark.parametrize("make", [Perceptron, LatentPerceptron])
def test_calls_ask_for_the_usual_margin_of_the_first_one(make):
    """One feature and the move to a token in the first batch; those of the others have four times as many."""
    first, more = ([[{"w": "a"}, {"w": "b"}]] * 2, [["A", "B"]] * 2), dicts(6, 3)
    more = [[token | {"four": 2.0} for token in sentence] for sentence in more[0]], more[1]
    weights = []
    for margin in ("auto", 1 + 1):
        model = make(margin=margin, random_state=0, n_jobs=1).partial_fit(*first)
        weights.append(model.partial_fit(*more).partial_fit(*first).weights_.tobytes())
    assert weights[0] == weights[1]


@pytest.mark.parametrize("make", [Perceptron, LatentPerceptron])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_batch_leaves_the_model_as_it_was(monkeypatch, make, error):
    model = make(template=ARCS, random_state=0, n_jobs=1)
    batch = [["so", "new"], ["aa", "so", "b"]] * 3, [["B-X", "B-Y"], ["O", "B-Y", "O"]] * 3
    kernel, calls = kernels.perceptron_pass, []

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise error
        return kernel(*arguments)

    def interrupt():
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr("labelwright.learn.perceptron.PIECE", 1)
            patch.setattr("labelwright.kernels.perceptron.perceptron_pass", stopped)
            with pytest.raises(error):
                model.partial_fit(*batch)
        assert len(calls) == 3

    interrupt()
    assert not hasattr(model, "weights_")
    assert set(vars(model)) == set(vars(clone(model)))
    model.partial_fit(*words(8, 1))
    twin = pickle.loads(pickle.dumps(model))
    interrupt()
    assert model.weights_.tobytes() == twin.weights_.tobytes()
    assert (model.classes_, model.history_, model.training_) == (twin.classes_, twin.history_, twin.training_)
    assert model.decode(batch[0]) == twin.decode(batch[0])
    for data in (words(8, 2), batch):
        assert model.partial_fit(*data).weights_.tobytes() == twin.partial_fit(*data).weights_.tobytes()


@pytest.mark.parametrize("averaging", ["none", "avg"])
def test_batches_in_turn_are_one_pass_over_all_of_them(averaging):
    """Where the labels are known from the first batch on, and words that are new later start from nothing anyway."""
    X, y = words(30, 9)
    settings = {"template": ARCS, "cells": "all", "averaging": averaging, "shuffle": False, "n_jobs": 1}
    online = Perceptron(**settings)
    for begin, end in ((0, 12), (12, 13), (13, 30)):
        online.partial_fit(X[begin:end], y[begin:end])
    whole = Perceptron(max_iter=1, **settings).fit(X, y)
    assert sum(r["mistakes"] for r in online.history_) == whole.training_["mistakes"]
    found, expected = by_name(online), by_name(whole)
    assert found.keys() == expected.keys()
    assert list(found.values()) == pytest.approx([expected[name] for name in found], abs=1e-5)


@pytest.mark.parametrize("make", [Perceptron, LatentPerceptron])
def test_later_batches_bring_new_words_and_labels(make):
    model = make(averaging="none", n_jobs=1, random_state=0, template="U:%x[0,0]\nB")
    model.partial_fit([["the", "dog"]] * 3, [["D", "N"]] * 3)
    assert model.classes_ == ["D", "N"]
    weights = len(model.weights_)
    for _ in range(6):
        model.partial_fit([["the", "dog", "barks"], ["birds", "sing"]], [["D", "N", "V"], ["N", "V"]])
    assert model.classes_ == ["D", "N", "V"]
    assert len(model.weights_) > weights
    assert model.history_[-1]["mistakes"] == 0
    assert model.predict([["the", "dog", "barks"], ["birds", "sing"]]) == [["D", "N", "V"], ["N", "V"]]


def test_a_batch_that_is_refused_leaves_the_model_as_it_was():
    model = Perceptron(n_jobs=1, template=ARCS, constraints="scheme").partial_fit(*words(8, 1))
    twin, (x, y) = pickle.loads(pickle.dumps(model)), words(8, 2)
    for bad in (([[]], [[]]), (x, y[:3]), ([["a", "b"]], [["O", "I-X"]])):
        with pytest.raises(LabelwrightError):
            model.partial_fit(*bad)
    assert model.weights_.tobytes() == twin.weights_.tobytes()
    assert model.partial_fit(x, y).weights_.tobytes() == twin.partial_fit(x, y).weights_.tobytes()


def test_a_loaded_model_goes_on_from_its_weights(tmp_path):
    X, y = words(20, 9)
    for model in (Perceptron(n_jobs=1, template=ARCS), LatentPerceptron(2, margin=0, n_jobs=1, template=ARCS)):
        model.partial_fit(X[:10], y[:10]).save(tmp_path / "m")
        loaded, before = labelwright.load(tmp_path / "m"), model.predict(X)
        assert loaded.predict(X) == before
        loaded.partial_fit([X[0]], [loaded.predict([X[0]])[0]])  # what it says anyway changes nothing
        assert loaded.history_[-1]["mistakes"] == 0
        assert loaded.predict(X) == before
        assert {name: w for name, w in by_name(loaded).items() if w}.items() >= {
            name: w for name, w in by_name(model).items() if w
        }.items()
        for _ in range(8):
            loaded.partial_fit([["so", "new"]], [["B-X", "B-Y"]])
        assert loaded.predict([["so", "new"]]) == [["B-X", "B-Y"]]


def test_a_pickle_in_the_middle_keeps_the_mean():
    X, y = words(20, 9)
    model = Perceptron(n_jobs=1, template=ARCS).partial_fit(X[:10], y[:10])
    copied = pickle.loads(pickle.dumps(model)).partial_fit(X[10:], y[10:])
    assert copied.weights_.tobytes() == model.partial_fit(X[10:], y[10:]).weights_.tobytes()


def test_fit_forgets_the_batches_before_it():
    model = Perceptron(n_jobs=1, template=ARCS, max_iter=3).partial_fit(*words(5, 1))
    assert model.fit(*NOISY).weights_.tobytes() == clone(model).fit(*NOISY).weights_.tobytes()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("averaging", "mean"),
        ("averaging", None),
        ("update", "mira"),
        ("reset_every", 0),
        ("reset_every", 2.5),
        ("margin", -1.0),
        ("margin", "1"),
        ("margin", True),
        ("margin", float("nan")),
        ("aggressiveness", -0.5),
        ("aggressiveness", 0),
        ("aggressiveness", 0.0),
        ("aggressiveness", float("inf")),
        ("max_iter", 0),
        ("random_state", -1),
        ("order", 3),
        ("cells", "some"),
        ("min_count", 0),
        ("n_latent", 0),
        ("start", "zero"),
        ("start", None),
        ("n_restarts", 0),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_parameters_of_the_wrong_kind_are_named(name, value, method):
    make = LatentPerceptron if name in ("n_latent", "n_restarts", "start") else Perceptron
    with pytest.raises(OptionError, match=f"^{name}: expected") as error:
        getattr(make(**{name: value}), method)(X, Y)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_values_that_four_bytes_cannot_add_up_are_refused(method):
    for value in (2e15, -1e30):
        with pytest.raises(OptionError, match=r"^a feature has a value above 1e\+15, too large for a perceptron"):
            getattr(Perceptron(n_jobs=1), method)([[{"a": value}, {"b": 1.0}]], [["A", "B"]])
    getattr(Perceptron(n_jobs=1), method)([[{"a": 1e14}, {"b": 1.0}]], [["A", "B"]])


def test_passive_aggressive_updates_need_a_margin():
    with pytest.raises(OptionError, match=r"^margin: passive-aggressive updates need one above 0$"):
        Perceptron(update="passive-aggressive", margin=0).fit(X, Y)
    assert Perceptron(update="passive-aggressive")._rule().margin == 1.0
    assert Perceptron()._rule().margin == 0.0


def test_other_mistakes_of_the_caller_are_named():
    with pytest.raises(CorpusError, match="sentence 0, token 1: I-X cannot follow O"):
        Perceptron(constraints="iob2").fit([["a", "b"]], [["O", "I-X"]])
    with pytest.raises(OptionError, match="T lines are features on three labels; use order=2"):
        Perceptron(template=TRIPLES).fit(X, Y)
    with pytest.raises(OptionError, match="n_latent: no number for the label 'B-NP'"):
        LatentPerceptron({"O": 1}).fit(X, Y)
    with pytest.raises(NotFittedError):
        Perceptron().predict([NEW])
