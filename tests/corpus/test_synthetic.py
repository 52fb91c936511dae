"""Synthetic data with latent dependencies, and the true model: both against what probability theory
says of them."""

import hashlib
import itertools

import numpy as np
import pytest

import labelwright
from labelwright.corpus import synthetic_hmm
from labelwright.corpus.generated import make_hmm
from labelwright.errors import OptionError
from labelwright.taggers.true_model import bayes_ceiling, expected_ceiling, true_model

CYCLE = ["y1", "y2", "y2", "y1"]


def digest(corpus):
    return hashlib.sha256(
        "\n".join(" ".join(corpus.tokens(name)) for name in corpus.names).encode()
    ).hexdigest()


def joint(hmm, symbols):
    """P(y, x) of every labelling y of the symbols x, by enumeration of all state paths."""
    codes = [hmm.symbols.index(symbol) for symbol in symbols]
    found = {}
    for path in itertools.product(range(len(hmm.label_of)), repeat=len(codes)):
        weight = hmm.start[path[0]] * hmm.emission[path[0], codes[0]]
        for before, state, code in zip(path, path[1:], codes[1:], strict=False):
            weight *= hmm.transition[before, state] * hmm.emission[state, code]
        labels = tuple(hmm.labels[hmm.label_of[state]] for state in path)
        found[labels] = found.get(labels, 0.0) + weight
    return found


# -- the data --------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_sequences_and_another_seed_others():
    assert digest(synthetic_hmm(50, seed=3)).startswith("0a6e4f9eeac0234c")  # on every platform
    assert digest(synthetic_hmm(50, seed=3)) == digest(
        synthetic_hmm(np.int64(50), np.int32(10), seed=np.uint8(3))
    )
    assert digest(synthetic_hmm(50, seed=3)) != digest(synthetic_hmm(50, seed=4))


def test_n_says_only_how_many_and_labels_do_not_depend_on_the_symbols():
    few, many = synthetic_hmm(20), synthetic_hmm(50)
    assert few.X == many.take(slice(20)).X
    assert few.y == many.take(slice(20)).y
    assert few.y == synthetic_hmm(20, emission=0.8).y == synthetic_hmm(20, emission=None).y


def test_the_corpus_is_a_corpus():
    corpus = synthetic_hmm(7, length=3)
    assert (len(corpus), corpus.n_tokens, corpus.names, corpus.label) == (
        7,
        21,
        ("symbol", "label"),
        "label",
    )
    assert [len(labels) for labels in corpus.y] == [3] * 7
    assert all(labels[0] == "y1" for labels in corpus.y)
    assert synthetic_hmm(1, length=1, emission=None).X == [["x1"]]
    assert synthetic_hmm(1, length=1).y == [["y1"]]
    assert len(synthetic_hmm(np.uint8(255), length=1)) == 255


def test_a_certain_chain_follows_the_cycle():
    assert synthetic_hmm(5, length=9, p=1.0).y == [(CYCLE * 3)[:9]] * 5


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
def test_labels_and_symbols_have_the_frequencies_of_the_model(p):
    n, hmm = 20_000, make_hmm(p, 0.3)
    corpus = synthetic_hmm(n, length=4, p=p, emission=0.3, seed=1)
    labels = np.array(corpus.tokens("label")).reshape(n, 4) == "y1"
    symbols = np.array(corpus.tokens("symbol")).reshape(n, 4) == "x1"
    near = {"abs": 5 * 0.5 / np.sqrt(n)}  # five standard deviations at most
    assert symbols[labels].mean() == pytest.approx(0.65, **near)
    assert symbols[~labels].mean() == pytest.approx(0.35, **near)
    total = {}  # P(y), the symbols summed out
    for x in itertools.product(hmm.symbols, repeat=4):
        for y, weight in joint(hmm, x).items():
            total[y] = total.get(y, 0.0) + weight
    assert sum(total.values()) == pytest.approx(1)
    for y, expected in total.items():  # all transitions of the states show in these
        assert (labels == (np.array(y) == "y1")).all(axis=1).mean() == pytest.approx(
            expected, **near
        )


def test_the_chain_of_figure_two():
    hmm = make_hmm(0.7, 0.2)
    np.testing.assert_allclose(hmm.transition.sum(axis=1), 1)
    np.testing.assert_allclose(np.sort(hmm.transition, axis=1), [[0.1, 0.1, 0.1, 0.7]] * 4)
    np.testing.assert_allclose(hmm.emission, [[0.6, 0.4], [0.6, 0.4], [0.4, 0.6], [0.4, 0.6]])
    state, seen = int(hmm.start.argmax()), []
    for _ in range(4):
        seen.append(state)
        state = int(hmm.transition[state].argmax())
    assert hmm.start.tolist() == (np.arange(4) == state).tolist()
    assert sorted(seen) == [0, 1, 2, 3]
    assert [hmm.labels[hmm.label_of[s]] for s in seen] == CYCLE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n: expected a whole number of 1 or more, got 0"),
        ({"n": 10.0}, "n: expected"),
        ({"n": True}, "n: expected"),
        ({"length": 0}, "length: expected"),
        ({"length": None}, "length: expected"),
        ({"seed": -1}, "seed: expected a whole number of 0 or more, got -1"),
        ({"seed": None}, "seed: expected"),
        ({"p": 0}, "p: expected a probability above 0 and at most 1, got 0"),
        ({"p": 1.1}, "p: expected"),
        ({"p": float("nan")}, "p: expected"),
        ({"p": "0.9"}, "p: expected"),
        ({"p": True}, "p: expected"),
        ({"emission": 1}, "emission: expected a number from 0 to below 1, or None"),
        ({"emission": -0.1}, "emission: expected"),
        ({"emission": float("nan")}, "emission: expected"),
        ({"emission": False}, "emission: expected"),
        ({"self_transitions": None}, "self_transitions: expected True or False, got None"),
        ({"start": "h5"}, "start: expected one of h1, h2, h3, h4, uniform, got 'h5'"),
        ({"start": 0}, "start: expected"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(OptionError, match=f"^{message}") as caught:
        synthetic_hmm(**options)
    assert "\n" not in str(caught.value)
    if set(options) <= {"p", "emission", "self_transitions", "start"}:
        with pytest.raises(OptionError, match=f"^{message}"):
            true_model(**options)


@pytest.mark.parametrize("start", ["h1", "h2", "h3", "h4", "uniform"])
def test_the_first_state_and_transitions_to_itself(start):
    hmm = make_hmm(0.7, self_transitions=False, start=start)
    np.testing.assert_allclose(np.sort(hmm.transition, axis=1), [[0.0, 0.15, 0.15, 0.7]] * 4)
    assert not hmm.transition.diagonal().any()
    np.testing.assert_allclose(np.full(4, 0.25) @ hmm.transition, 0.25)  # uniform is stationary
    corpus = synthetic_hmm(4_000, length=5, p=1.0, self_transitions=False, start=start)
    firsts = {tuple(labels) for labels in corpus.y}
    turned = {"h1": 0, "h3": 1, "h4": 2, "h2": 3}
    expected = [turned[start]] if start in turned else [0, 1, 2, 3]
    assert firsts == {tuple((CYCLE * 3)[k : k + 5]) for k in expected}
    share = np.mean([labels[0] == "y1" for labels in corpus.y])
    assert share == pytest.approx(hmm.start[:2].sum(), abs=5 * 0.5 / np.sqrt(4_000))


# -- the true model --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "emission"), [(0.9, 0.1), (0.4, 0.8), (1.0, 0.5), (0.9, 0.0), (0.7, None), (1.0, None)]
)
def test_the_true_model_has_the_probabilities_of_the_hidden_markov_model(p, emission):
    hmm, model = make_hmm(p, emission), true_model(p, emission)
    for x in itertools.product(hmm.symbols, repeat=5):
        weights = joint(hmm, x)
        total = sum(weights.values())
        y = [list(labels) for labels in weights]
        found = np.exp(model.sequence_log_probabilities([list(x)] * len(y), y))
        np.testing.assert_allclose(
            found, np.array(list(weights.values())) / total, rtol=1e-5, atol=1e-12
        )
        (best,) = model.decode([list(x)])
        assert best.exact
        assert np.exp(best.log_probability) == pytest.approx(
            max(weights.values()) / total, rel=1e-5
        )
        marginals = model.predict_marginals([list(x)])[0]
        for t in range(5):
            expected = (
                sum(weight for labels, weight in weights.items() if labels[t] == "y1") / total
            )
            assert marginals[t]["y1"] == pytest.approx(expected, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(("p", "emission"), [(0.9, 0.1), (1.0, None)])
def test_the_true_model_survives_a_file(tmp_path, p, emission):
    corpus, model = synthetic_hmm(20, p=p, emission=emission), true_model(p, emission)
    model.save(tmp_path / "true.model")
    again = labelwright.load(tmp_path / "true.model")
    assert [d.labels for d in again.decode(corpus)] == [d.labels for d in model.decode(corpus)]
    assert again.sequence_log_probabilities(corpus, corpus.y) == model.sequence_log_probabilities(
        corpus, corpus.y
    )


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.5, 0.9, 1.0])
def test_without_symbols_the_ceiling_is_that_of_the_cycle(p):
    # P(state t of the cycle) = 1/4 + 3/4 lambda^t, and half of what is missing has its label
    factor = p - (1 - p) / 3
    at = (1 + factor ** np.arange(10)) / 2
    corpus = synthetic_hmm(20_000, p=p, emission=None, seed=2)
    right = np.array(corpus.tokens("label")).reshape(-1, 10) == np.array((CYCLE * 3)[:10])
    np.testing.assert_allclose(right.mean(axis=0), at, atol=5 * 0.5 / np.sqrt(20_000))
    few = corpus.take(slice(2_000))
    assert true_model(p, None).predict([["x1"] * 10]) == [(CYCLE * 3)[:10]]
    assert bayes_ceiling(few, p, None, "marginal") == right[:2_000].mean()
    assert bayes_ceiling(few, p, None) == right[:2_000].mean()
    if p == 0.9:
        assert at.mean() == pytest.approx(0.785, abs=0.001)
        assert right.mean() == pytest.approx(at.mean(), abs=0.01)


def test_symbols_that_tell_raise_the_ceiling():
    strong = synthetic_hmm(2_000, emission=0.8)
    assert bayes_ceiling(strong, 0.9, 0.8) > bayes_ceiling(strong, 0.9, None) + 0.05


@pytest.mark.parametrize("start", ["h2", "uniform"])
def test_the_true_model_knows_its_start_and_transitions(start):
    further = {"self_transitions": False, "start": start}
    hmm, model = make_hmm(0.8, 0.4, **further), true_model(0.8, 0.4, **further)
    x, right = list(itertools.product(hmm.symbols, repeat=3)), 0.0
    for symbols in x:
        weights = joint(hmm, symbols)
        y = [list(labels) for labels in weights]
        found = np.exp(model.sequence_log_probabilities([list(symbols)] * len(y), y))
        np.testing.assert_allclose(
            found, np.array(list(weights.values())) / sum(weights.values()), rtol=1e-5, atol=1e-9
        )
        for t in range(3):
            first = sum(weight for labels, weight in weights.items() if labels[t] == "y1")
            right += max(first, sum(weights.values()) - first) / 3
    assert expected_ceiling(3, 0.8, 0.4, **further) == pytest.approx(right)
    corpus = synthetic_hmm(3_000, 3, 0.8, 0.4, **further)
    assert bayes_ceiling(corpus, 0.8, 0.4, "marginal", **further) == pytest.approx(right, abs=0.03)


def test_the_family_has_data_with_the_ceiling_of_the_paper():
    assert expected_ceiling(6, 0.9, 0.1, self_transitions=False) == pytest.approx(0.849, abs=0.001)
    with pytest.raises(OptionError, match=r"^length: expected 1 to 16 tokens"):
        expected_ceiling(17)
