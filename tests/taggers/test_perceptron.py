"""How perceptrons learn: passes, margins, starts of latent states, restarts, and what they
refuse."""

import itertools
import json

import numpy as np
import oracles
import pytest
from problems import ARCS, LABELS, NOISY, SIMPLE, STATES, Problem, names_of, words
from tiny import X, Y

import labelwright
from labelwright import LatentCRF, LatentPerceptron, Perceptron
from labelwright.corpus import synthetic_hmm
from labelwright.errors import NotFittedError, OptionError
from labelwright.evaluate import evaluate
from labelwright.learn.perceptron import Averaged, Passes, UpdateRule
from labelwright.scoring.carry import carry_over
from labelwright.taggers.linear import Noise
from labelwright.taggers.perceptron import LIKELY, PATIENCE, PLAIN, Online
from labelwright.taggers.true_model import bayes_ceiling


def fit_by_hand(model, X, y, n_passes):
    """The same training by the oracle, from the model's own start."""
    model._check_parameters()
    data, model._trained = model._prepare(X, y)
    start, rule = model._begun(model._trained, 0, False).weights, Online(model).rule()
    passes = Passes(*data[:4], model._space, model._parameters, rule, 0 if model.shuffle else None)
    states = range(model._space.n_states)
    names = names_of(model._parameters, model._extractor, states)
    label_of = [model._space.labels[i] for i in model._space.label_of]
    problem = Problem(X, y, model.template, labels=list(model._space.labels), order=model.order)
    choices = [
        oracles.Choices(tokens, gold, states, label_of, names)
        for tokens, gold in zip(problem.tokens, y, strict=True)
    ]
    orders = [passes.order(q) for q in range(1, n_passes + 1)]
    margin = oracles.Rule(rule.margin)
    return oracles.perceptron(choices, orders, start, model.averaging, model.reset_every, margin)


@pytest.mark.parametrize("averaging", ["none", "avg", "mavg"])
@pytest.mark.parametrize("order", [1, 2])
def test_fit_runs_the_passes_of_the_paper(averaging, order):
    """From the random start of a latent model, with shuffled sentences, to the weights that the
    averaging asks for."""
    settings = {
        "template": ARCS,
        "order": order,
        "averaging": averaging,
        "reset_every": 2,
        "max_iter": 3,
    }
    X, y = words(6, 8, 3)
    model = LatentPerceptron(
        2, margin=0, start="random", share=False, n_jobs=1, random_state=0, **settings
    )
    expected = fit_by_hand(model, X, y, 3)
    model.fit(X, y)
    assert [r["mistakes"] for r in model.history_] == [truth.mistakes for truth in expected]
    last = expected[-1]
    assert last.clear
    np.testing.assert_allclose(
        model.weights_, last.weights if averaging == "none" else last.mean, atol=1e-4
    )
    assert [r["iteration"] for r in model.history_] == [1, 2, 3]
    assert [r["separable"] for r in model.history_] == [
        1 - truth.mistakes / 6 for truth in expected
    ]
    assert model.training_["mistakes"] == sum(truth.mistakes for truth in expected)


@pytest.mark.parametrize("sizes", [1, 2])
def test_a_margin_of_our_choice_is_the_usual_step_and_more_in_the_first_passes(sizes):
    """As many features and plain transitions as a token usually has; 2.5 times that before the
    tenth pass."""
    problem = Problem(*words(5, 2, 3), STATES, sizes=sizes)
    passes = Passes(
        *problem.model,
        UpdateRule(np.nan, False, 1.0),
        0,
    )
    usual = 4 + 1  # four U lines of a token, and the transition to it
    start, n_passes = problem.random_weights(0.3).astype(np.float32), 12
    run, orders = (
        Averaged(passes.layout.laid_out(start)),
        [passes.order(q) for q in range(1, n_passes + 1)],
    )
    asked = [2.5 * usual] * 9 + [usual] * 3
    for q, truth in enumerate(
        oracles.perceptron(problem.choices(), orders, start, margins=asked), 1
    ):
        assert passes.one_pass(run, q)[0] == truth.mistakes
        assert truth.clear
        np.testing.assert_allclose(passes.layout.taken_back(run.weights), truth.weights, atol=1e-4)


def test_a_margin_of_our_choice_counts_values_by_their_squares():
    """The median token: one of large values alone asks for nothing."""
    X, y = [[{"a": 2.0}, {"a": -1.0, "b": 3.0}, {"b": 100.0}]], [["A", "B", "A"]]
    model = Perceptron(margin="auto", n_jobs=1)
    model._check_parameters()
    for order in (1, 2):
        data, model._trained = model.set_params(order=order)._prepare(X, y)
        passes = Passes(*data[:4], model._space, model._parameters, Online(model).rule(), None)
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
    data, model._trained = model._prepare(X, Y)
    passes = Passes(*data[:4], model._space, model._parameters, Online(model).rule(), 0)
    run = Averaged(passes.layout.laid_out(np.zeros(model._parameters.n_weights)))
    mistakes = [passes.one_pass(run, q)[0] for q in range(1, max_iter + 1)]
    assert mistakes[-1] == 0 < mistakes[0]
    model.fit(X, Y)
    assert len(model.history_) == mistakes.index(0) + 1 < max_iter
    np.testing.assert_allclose(model.weights_, passes.layout.taken_back(run.mean()), atol=1e-6)
    assert np.abs(model.weights_ - passes.layout.taken_back(run.weights)).max() > 1e-3


def test_all_passes_are_made_where_that_is_asked_for():
    """With mavg, a pass that begins from the mean may bring mistakes back; otherwise the mean alone
    changes."""
    settings = {"template": STATES, "max_iter": 20, "random_state": 0, "n_jobs": 1}
    short, whole = (Perceptron(all_passes=wanted, **settings).fit(X, Y) for wanted in (False, True))
    assert len(short.history_) < len(whole.history_) == 20
    assert whole.training_["stopped"] == "reached the limit of passes"
    np.testing.assert_allclose(whole.weights_, short.weights_, atol=1e-6)
    modified = LatentPerceptron(2, start="random", margin=0, all_passes=True, **settings).fit(
        X, Y, dev=(X, Y)
    )
    assert len(modified.history_) == 20  # whatever the development data say
    assert 0 in [record["mistakes"] for record in modified.history_[:-1]]


@pytest.mark.parametrize("reset_every", [2, 3])
def test_mavg_goes_on_as_published(reset_every):
    """Every pass of figure 1 of Sun et al. (2009), also those after one without mistakes."""
    data = words(3, 8, 3)
    settings = {
        "averaging": "mavg",
        "reset_every": reset_every,
        "all_passes": True,
        "max_iter": 14,
        "n_jobs": 1,
    }
    model = LatentPerceptron(
        2, template=ARCS, start="random", share=False, margin=0, random_state=0, **settings
    )
    expected = fit_by_hand(model, *data, 14)
    model.fit(*data)
    mistakes = [record["mistakes"] for record in model.history_]
    assert mistakes == [truth.mistakes for truth in expected]
    assert 0 in mistakes[:-1]
    np.testing.assert_allclose(model.weights_, expected[-1].mean, atol=1e-4)


def test_a_loss_that_ends_training_and_all_passes_exclude_each_other():
    with pytest.raises(OptionError, match=r"^epsilon: with all_passes, no loss ends the training"):
        Perceptron(all_passes=True, epsilon=0.1).fit(X, Y)


@pytest.mark.parametrize("averaging", ["none", "avg"])
@pytest.mark.parametrize("margin", [0.3, 1.0, 7.0, "auto"])
def test_passive_aggressive_training_on_separable_data_ends(averaging, margin):
    """What rounding leaves of a margin is no mistake."""
    settings = {
        "update": "passive-aggressive",
        "averaging": averaging,
        "margin": margin,
        "n_jobs": 1,
    }
    model = Perceptron(max_iter=1000, **settings).fit(X, Y)
    assert model.training_["stopped"] == "converged: a pass without mistakes"
    assert model.predict(X) == Y


def test_passive_aggressive_steps_bring_gold_above_the_others_by_the_margin():
    model = Perceptron(update="passive-aggressive", averaging="none", margin=0.5, n_jobs=1).fit(
        X, Y
    )
    assert model.training_["loss"] < 1e-3 < model.history_[0]["loss"]
    assert model.training_["stopped"] == "converged: a pass without mistakes"
    for sentence, gold, best in zip(X, Y, model.predict_nbest(X, n=30), strict=True):
        assert best[0][0] == gold
        for labels, score in best[1:]:
            assert (
                score + 0.5 * sum(a != b for a, b in zip(labels, gold, strict=True))
                < best[0][1] + 1e-3
            ), sentence


@pytest.mark.parametrize("cost", ["augmented", "labels", "root", "sentence"])
@pytest.mark.parametrize(
    "settings",
    [
        {"update": "passive-aggressive", "slack": "none"},
        {"update": "passive-aggressive", "slack": "linear"},
        {"update": "passive-aggressive", "slack": "quadratic", "margin": "auto"},
        {"update": "arow", "variance": 2.0},
        {"update": "arow", "gamma": 0.1, "margin": "auto"},
    ],
)
def test_every_update_learns_separable_data(cost, settings):
    settings = {
        "template": STATES,
        "cost": cost,
        "max_iter": 30,
        "random_state": 0,
        "n_jobs": 1,
    } | settings
    for model in (Perceptron(**settings), LatentPerceptron(2, start="random", **settings)):
        assert model.fit(X, Y).predict(X) == Y
        assert model.training_["loss"] < model.history_[0]["loss"]


def test_without_a_margin_in_decoding_right_answers_change_nothing():
    """Training ends as soon as all predictions are right, whatever their margin."""
    settings = {"averaging": "none", "update": "passive-aggressive", "n_jobs": 1}
    for cost in ("labels", "root", "sentence"):
        model = Perceptron(cost=cost, **settings).fit(X, Y)
        assert model.training_["stopped"] == "converged: a pass without mistakes"
        assert model.training_["loss"] == 0.0
        assert len(Perceptron(**settings).fit(X, Y).history_) > len(model.history_)


@pytest.mark.parametrize("margin", [0.25, 4.0])
def test_the_margin_of_arow_only_scales_the_weights(margin):
    """Every update is proportional to it, and the variances do not depend on it."""
    settings = {"template": STATES, "update": "arow", "max_iter": 5, "random_state": 0, "n_jobs": 1}
    one, other = (
        Perceptron(margin=each, **settings).fit(*NOISY).weights_ for each in (1.0, margin)
    )
    np.testing.assert_allclose(other, margin * one, rtol=1e-4, atol=1e-5)
    assert np.abs(one).max() > 0.1


@pytest.mark.parametrize("update", ["perceptron", "passive-aggressive", "arow"])
def test_training_ends_at_a_mean_loss_below_epsilon(update):
    """The share of wrong labels of a perceptron, the loss of the others."""
    train = words(40, 1)
    settings = {
        "template": SIMPLE,
        "update": update,
        "cost": "labels",
        "max_iter": 8,
        "random_state": 0,
        "n_jobs": 1,
    }
    whole = Perceptron(**settings).fit(*train)
    passes = Passes(
        *whole._prepare(*train)[0][:4], whole._space, whole._parameters, Online(whole).rule(), 0
    )
    run = Averaged.begin(passes.layout.laid_out(np.zeros(whole._parameters.n_weights)), passes.rule)
    losses = [passes.mean_loss(passes.one_pass(run, q)) for q in range(1, 9)]
    if update != "perceptron":
        assert losses == pytest.approx([record["loss"] / 40 for record in whole.history_])
    else:
        assert all(0 < loss < 1 for loss in losses)
    for q in range(1, 8):
        epsilon = losses[q - 1]
        last = next((k for k, loss in enumerate(losses, 1) if loss < epsilon), 8)
        model = Perceptron(epsilon=epsilon, **settings).fit(*train)
        assert len(model.history_) == last
        if last < 8:
            assert (
                model.training_["stopped"]
                == f"converged: a mean loss per sentence below {epsilon:g}"
            )
        assert (
            model.weights_.tobytes()
            == Perceptron(**settings | {"max_iter": last}).fit(*train).weights_.tobytes()
        )


LATENT = {"template": STATES, "max_iter": 15, "margin": 1.0, "n_jobs": 1, "random_state": 2}


@pytest.mark.parametrize("start", ["auto", "split"])
def test_a_latent_model_starts_from_the_states_of_a_plain_one(start):
    """Of twelve passes and an average, with the same words otherwise."""
    plain = Perceptron(**LATENT | {"max_iter": PLAIN}).fit(X, Y)
    model, by_hand = (
        LatentPerceptron(2, start=start, **LATENT),
        LatentPerceptron(2, start="random", **LATENT),
    )
    model.fit(iter(X), Y)
    by_hand.fit(X, Y, init=plain)
    assert model.weights_.tobytes() == by_hand.weights_.tobytes()
    assert [r["mistakes"] for r in model.history_] == [r["mistakes"] for r in by_hand.history_]
    assert model.training_["start"] == {"of": "split", "plain_separable": 1.0}
    assert "start" not in by_hand.training_
    assert "start" not in LatentPerceptron(2, start="random", **LATENT).fit(X, Y).training_
    assert "start" not in LatentPerceptron(1, start=start, **LATENT).fit(X, Y).training_


def test_states_of_a_plain_model_that_separates_too_little_are_not_split(monkeypatch):
    """No word tells where B is: the plain perceptron gets no sentence right."""
    x, y = [["x"] * 9] * 5, [["A", "A", "B"] * 3] * 5
    starts = "auto", "likelihood", "split", "random"
    auto, likely, split, random = (
        LatentPerceptron(2, start=start, **LATENT).fit(x, y) for start in starts
    )
    assert auto.training_["start"] == {"of": "likelihood", "plain_separable": 0.0}
    assert likely.training_["start"] == {"of": "likelihood"}
    assert split.training_["start"] == {"of": "split", "plain_separable": 0.0}
    assert auto.weights_.tobytes() == likely.weights_.tobytes()
    assert len({model.weights_.tobytes() for model in (likely, split, random)}) == 3
    crf = LatentCRF(2, template=STATES, max_iter=LIKELY, n_jobs=1, random_state=2).fit(x, y)
    monkeypatch.setattr(LatentPerceptron, "_can_start_from", ("latent-crf",))
    by_hand = LatentPerceptron(2, start="random", **LATENT).fit(x, y, init=crf)
    assert by_hand.weights_.tobytes() == likely.weights_.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 7])
def test_states_that_a_random_start_leaves_stuck_are_told_apart_by_likelihood(seed):
    train, test = (
        synthetic_hmm(n, 10, 0.95, None, seed=1000 * i + seed) for i, n in enumerate((1500, 500))
    )
    model = LatentPerceptron(
        4, template="U:%x[0,0]\nB", max_iter=10, n_jobs=1, random_state=seed
    ).fit(train)
    assert model.score(test) > bayes_ceiling(test, 0.95, None) - 0.005


def test_no_plain_model_is_trained_where_weights_are_given(monkeypatch):
    plain = Perceptron(template=STATES, n_jobs=1).fit(X, Y)
    model = LatentPerceptron(2, template=STATES, warm_start=True, n_jobs=1, random_state=0)

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(LatentPerceptron, "_other", never)
    assert "start" not in model.fit(X, Y, init=plain).training_
    assert "start" not in model.fit(X, Y).training_  # warm
    assert model.predict(X) == Y


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("update", ["perceptron", "passive-aggressive"])
def test_states_that_share_whole_steps_are_a_perceptron(update, order, monkeypatch):
    """Without noise, the states of a label stay equal; and the groups of weights with them."""
    settings = {
        "template": ARCS,
        "order": order,
        "update": update,
        "averaging": "mavg",
        "margin": 0.5,
        "max_iter": 6,
    }
    settings |= {"n_jobs": 1, "random_state": 3}
    plain = Perceptron(**settings).fit(*NOISY)
    monkeypatch.setattr("labelwright.taggers.perceptron.SHARED", 1.0)
    monkeypatch.setattr(Online, "noise", Noise(0.0, 0.0))
    latent = LatentPerceptron(2, start="random", **settings).fit(*NOISY)
    assert [r["mistakes"] for r in latent.history_] == [r["mistakes"] for r in plain.history_]
    assert latent.predict(NOISY[0]) == plain.predict(NOISY[0])
    copied = carry_over(
        plain._trained, latent._trained._replace(weights=np.zeros_like(latent.weights_))
    )
    np.testing.assert_allclose(latent.weights_, copied, atol=1e-4)


def test_states_share_unless_that_is_turned_off():
    def weights(**more):
        return (
            LatentPerceptron(2, max_iter=3, start="random", n_jobs=1, random_state=0, **more)
            .fit(*NOISY)
            .weights_
        )

    assert (weights() == weights(share=True)).all()
    assert not (weights() == weights(share=False)).all()
    assert (weights(update="arow") == weights(update="arow", share=False)).all()


def test_with_one_state_per_label_a_latent_perceptron_is_a_perceptron():
    settings = {
        "template": ARCS,
        "averaging": "mavg",
        "reset_every": 2,
        "max_iter": 6,
        "n_jobs": 1,
        "random_state": 3,
    }
    for n, margin in itertools.product((1, dict.fromkeys(LABELS, 1)), (None, 0.5, "auto")):
        settings["margin"] = margin
        plain = Perceptron(**settings).fit(*NOISY)
        latent = LatentPerceptron(n, **settings).fit(*NOISY)
        assert latent.weights_.tobytes() == plain.weights_.tobytes()
        assert latent.predict_nbest([["aa", "b", "c"]], n=9) == plain.predict_nbest(
            [["aa", "b", "c"]], n=9
        )


def test_the_weights_of_the_best_pass_on_development_data_are_kept():
    train, dev = words(20, 1), words(20, 2)
    settings = {"template": STATES, "averaging": "none", "n_jobs": 1, "random_state": 0}
    model = Perceptron(**settings).fit(*train, dev=dev)
    scores = [r["dev"] for r in model.history_]
    best = int(np.argmax(scores)) + 1
    assert model.training_["best_iteration"] == best < len(scores) == best + PATIENCE
    assert model.training_["stopped"] == f"no better on the development data for {PATIENCE} passes"
    assert evaluate(dev[1], model.predict(dev[0])).score == pytest.approx(max(scores))
    until_there = Perceptron(max_iter=best, **settings).fit(*train)
    assert model.weights_.tobytes() == until_there.weights_.tobytes()


def test_seeds_decide_the_order_and_shuffle_turns_it_off():
    def weights(**words_):
        return (
            Perceptron(template=STATES, max_iter=3, n_jobs=1, **words_)
            .fit(*NOISY)
            .weights_.tobytes()
        )

    assert weights(random_state=1) == weights(random_state=1)
    assert weights(random_state=1) != weights(random_state=2)
    assert weights(random_state=None) == weights(random_state=0)
    assert (
        weights(shuffle=False, random_state=1)
        == weights(shuffle=False, random_state=2)
        != weights(random_state=1)
    )


def test_without_shuffling_sentences_are_taken_in_their_order():
    settings = {
        "margin": 0,
        "template": STATES,
        "max_iter": 2,
        "shuffle": False,
        "averaging": "none",
        "n_jobs": 1,
    }
    model = LatentPerceptron(2, start="random", share=False, **settings)
    expected = fit_by_hand(model, *words(6, 8, 3), 2)
    model.fit(*words(6, 8, 3))
    assert [r["mistakes"] for r in model.history_] == [truth.mistakes for truth in expected]
    np.testing.assert_allclose(model.weights_, expected[-1].weights, atol=1e-4)


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
    split = Online.noise.split
    monkeypatch.setattr(Online, "noise", Online.noise._replace(split=1e-3))
    latent = LatentPerceptron(3, random_state=0, **settings).fit(*NOISY, init=plain)
    assert np.std(noisy.weights_ - latent.weights_) == pytest.approx(split, rel=0.2)
    assert latent._space.n_states == 9
    unseen = [list(s) for s in [["c", "aa", "b"], ["b", "b"], ["ab"], ["aa", "new", "c"]]]
    assert latent.predict(NOISY[0] + unseen) == plain.predict(NOISY[0] + unseen)
    copies = [d.score for d in latent.decode(unseen)]
    # but for a little noise
    assert copies == pytest.approx([d.score for d in plain.decode(unseen)], abs=0.2)
    assert len(set(latent.weights_.tolist())) > len(set(plain.weights_.tolist()))


def test_training_may_begin_from_a_perceptron_or_from_its_own_last_fit(monkeypatch):
    model = Perceptron(template=STATES, averaging="none", warm_start=True, n_jobs=1).fit(X, Y)
    again = [r["mistakes"] for r in model.fit(X, Y).history_]
    assert again == [0]
    monkeypatch.setattr("labelwright.taggers.perceptron.perceptron", untrained)
    before = model.weights_.tobytes()
    assert model.fit(X, Y).weights_.tobytes() == before
    assert Perceptron(template=STATES, n_jobs=1).fit(X, Y, init=model).weights_.tobytes() == before
    with pytest.raises(NotFittedError):
        Perceptron(n_jobs=1).fit(X, Y, init=Perceptron())


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_values_that_four_bytes_cannot_add_up_are_refused(method):
    for value in (2e15, -1e30):
        with pytest.raises(
            OptionError, match=r"^a feature has a value above 1e\+15, too large for a perceptron"
        ):
            getattr(Perceptron(n_jobs=1), method)([[{"a": value}, {"b": 1.0}]], [["A", "B"]])
    getattr(Perceptron(n_jobs=1), method)([[{"a": 1e14}, {"b": 1.0}]], [["A", "B"]])


@pytest.mark.parametrize("update", ["passive-aggressive", "arow"])
def test_updates_that_are_as_large_as_needed_need_a_margin(update):
    with pytest.raises(OptionError, match=rf"^margin: {update} updates need one above 0$"):
        Perceptron(update=update, margin=0).fit(X, Y)
    assert Online(Perceptron(update=update)).rule().margin == 1.0
    assert Online(Perceptron()).rule().margin == 0.0


def test_a_model_of_one_label_makes_no_mistakes(tmp_path):
    for make in (Perceptron, LatentPerceptron):
        model = make(n_jobs=1).fit([["a", "b"], ["c"]], [["O", "O"], ["O"]])
        assert model.training_["mistakes"] == 0
        assert model.predict([["a", "z"]]) == [["O", "O"]]
        assert model.training_["convergence"]["separable"] == 1.0
        assert model.training_["convergence"]["margin"] is None
        # no Infinity, which is no JSON
        json.dumps([model.training_, model.history_], allow_nan=False)
        model.save(tmp_path / "m")
        loaded = labelwright.load(tmp_path / "m")
        assert loaded.predict([["z"]]) == [["O"]]
        assert loaded.training_ == model.training_
