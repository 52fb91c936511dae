"""Latent states of segments, against enumeration of all segmentations and states, and finite differences."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import differences
from segmentations import DICTIONARIES, NEW, TEMPLATE, Enumerated, X, labelled, random_model

from labelwright import SemiCRF, Span, load
from labelwright.constraints import at_most
from labelwright.errors import OptionError
from labelwright.inspection import segments as inspection
from labelwright.parallel import Workers

KINDS = ["iob1", "iob2", "ioe1", "io", None]


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return random_model(request.param, n_latent=2)


def best_of(truth, n):
    return [list(labels) for labels in truth.labels[:n]]


def test_every_answer_agrees_with_enumeration(model):
    truth = Enumerated(model, NEW)
    log_p = model.sequence_log_probabilities([NEW] * 20, truth.labels[:20])
    np.testing.assert_allclose(log_p, truth.scores[:20] - truth.log_z, atol=1e-6)
    best = model.decode([NEW])[0]
    assert (best.labels, best.exact, best.gap) == (list(truth.labels[0]), True, 0.0)
    assert best.score == pytest.approx(truth.scores[0], abs=1e-5)
    nbest = model.predict_nbest([NEW], 10)[0]
    assert [labels for labels, _ in nbest] == best_of(truth, 10)
    np.testing.assert_allclose([p for _, p in nbest], truth.p[:10], atol=1e-7)
    path = model.decode([NEW], "viterbi")[0]
    assert tuple(path.labels) == max(truth.paths, key=truth.paths.get)
    assert path.score == pytest.approx(max(truth.paths.values()), abs=1e-5)
    assert path.log_probability == pytest.approx(truth.scores[truth.labels.index(tuple(path.labels))] - truth.log_z)
    rows = model.predict_marginals([NEW])[0]
    for t, row in enumerate(rows):
        for label, p in row.items():
            assert p == pytest.approx(sum(truth.p[[y[t] == label for y in truth.labels]]), abs=1e-7)


def test_spans_and_states_have_their_probabilities(model):
    truth, space = Enumerated(model, NEW), model.segments_
    spans = {Span(*s): p for s, p in truth.spans().items() if s[2] in space.types[: space.n_long]}
    asked = model.span_probabilities([NEW], [list(spans)])[0]
    np.testing.assert_allclose([s.probability for s in asked], list(spans.values()), atol=1e-7)
    states = model.predict_marginals([NEW], latent=True)[0]
    assert set(states[0]) == set(space.states)
    assert all(sum(row.values()) == pytest.approx(1.0) for row in states)
    inside = sum(p for s, p in truth.spans().items() if s[0] <= 1 < s[1] and s[2] == space.types[0])
    assert sum(p for name, p in states[1].items() if name.startswith(f"{space.types[0]}#")) == pytest.approx(inside)


def test_forced_labels(model):
    wanted = [None, None, {model.classes_[0], model.classes_[1]}, None]
    truth = Enumerated(model, NEW, wanted)
    assert model.decode([NEW], forced=[wanted])[0].labels == list(truth.labels[0])
    assert model.decode([NEW], "marginal", forced=[wanted])[0].labels[2] in wanted[2]


def test_the_decoder_marginal_has_the_most_places_right():
    model = random_model("bioes", n_latent=2)  # whose labels are the places of tokens
    truth = Enumerated(model, NEW)
    rows = model.predict_marginals([NEW])[0]
    right = [sum(row[label] for row, label in zip(rows, labels, strict=True)) for labels in truth.labels]
    record = model.decode([NEW], "marginal")[0]
    assert tuple(record.labels) == truth.labels[int(np.argmax(right))]
    p = float(np.exp(record.log_probability))
    assert p == pytest.approx(truth.p[truth.labels.index(tuple(record.labels))], abs=1e-7)
    assert record.gap == pytest.approx(max(0.0, 1 - 2 * p))


def test_a_search_that_is_stopped_says_what_it_may_have_missed():
    model = random_model("iob2", n_latent=2)
    truth = Enumerated(model, NEW)
    record = model.decode([NEW], max_expansions=0)[0]
    p = float(np.exp(record.log_probability))
    assert record.labels == model.decode([NEW], "viterbi")[0].labels
    assert record.exact == (p >= 0.5)
    assert p + record.gap >= truth.p[0] - 1e-9
    nbest = model.predict_nbest([NEW], 3, max_expansions=1)[0]
    assert [labels for labels, _ in nbest] == [record.labels]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(KINDS), st.integers(2, 3), st.floats(0.1, 5))
def test_the_best_labelling_of_random_weights(seed, scheme, n_latent, scale):
    model, sentence = random_model(scheme, n_latent), NEW[:3]
    weights = np.random.default_rng(seed).normal(scale=scale, size=len(model.weights_))
    model.weights_ = weights.astype(np.float32)
    truth, record = Enumerated(model, sentence), model.decode([sentence])[0]
    assert record.exact
    assert record.score == pytest.approx(truth.scores[0], abs=1e-4)
    assert tuple(record.labels) in [
        y for y, s in zip(truth.labels, truth.scores, strict=True) if s > record.score - 1e-4
    ]


# -- training -------------------------------------------------------------------------------------------------------


def objective(model, y, sample_weight=None):
    model._check_parameters()
    data, model._trained = model._prepare(X, y, sample_weight=sample_weight)
    return model._objective(model._trained, data, Workers(1), np.float64)


@pytest.mark.parametrize(
    ("scheme", "given_sets"), [("iob1", False), ("io", False), (None, False), ("iob1", True), ("iob2", True)]
)
def test_the_loss_is_a_sum_over_states_and_its_gradient_that_of_differences(scheme, given_sets):
    random, y = np.random.default_rng(2), [[{label} for label in s] for s in labelled(scheme)]
    if given_sets:
        y = [[None if random.random() < 0.3 else labels for labels in s] for s in y]
    sentence_weight = random.uniform(0, 3, len(X)) if given_sets else np.ones(len(X))
    model = SemiCRF(TEMPLATE, dictionaries=DICTIONARIES, max_length=3, n_latent=2, n_jobs=1)
    problem = objective(model, y, sentence_weight) if given_sets else objective(model, labelled(scheme))
    n = model._parameters.n_weights
    weights, gradient = random.normal(size=n), np.empty(n)
    loss = problem(weights, gradient)
    some = random.choice(n, 60, replace=False)
    found = differences(lambda w: problem(w, np.empty(n)), weights, some)
    np.testing.assert_allclose(gradient[some], found, atol=1e-6)
    model.weights_, expected = weights, 0.0
    for sentence, right, weight in zip(X, y, sentence_weight, strict=True):
        truth = Enumerated(model, sentence)
        agree = [all(r is None or a in r for a, r in zip(labels, right, strict=True)) for labels in truth.labels]
        expected += weight * (truth.log_z - oracles.log_sum(truth.scores[agree]))
    assert loss == pytest.approx(expected, abs=1e-9)


def test_all_states_of_a_type_have_the_same_weights_in_number():
    one, two = (SemiCRF(TEMPLATE, max_iter=2, n_jobs=1, n_latent=k).fit(X, labelled("iob2")) for k in (1, 2))
    assert two.segments_.states == ("X#1", "X#2", "Y#1", "Y#2", "O#1", "O#2")
    for kind, cells in one._parameters.cells.items():
        other = two._parameters.cells[kind]
        np.testing.assert_array_equal(other.ptr, 2 * cells.ptr)
        np.testing.assert_array_equal(other.column[::2], 2 * cells.column)
    assert one.segments_.states == one.segments_.types
    assert one.segments_.roles == one.segments_.roles_of_types


def test_seeds_break_the_symmetry_and_states_differ():
    first, again = (
        SemiCRF(TEMPLATE, n_latent=2, l2=0.01, random_state=3, n_jobs=1).fit(X, labelled("iob2")) for _ in "ab"
    )
    np.testing.assert_array_equal(first.weights_, again.weights_)
    assert first.predict(X) == labelled("iob2")
    transitions = first.weights_[first._parameters.slices["transitions"]].reshape(7, 7)
    assert np.abs(transitions[0, :-1] - transitions[1, :-1]).max() > 1e-3


def remembered(n, seed):
    """The type of the last segment is that of the first word, which no feature of the segment sees."""
    random = np.random.default_rng(seed)
    rows = [(int(random.integers(2)), int(random.integers(1, 3))) for _ in range(n)]
    sentences = [["ab"[first], *["o"] * between, "?", "!"] for first, between in rows]
    return sentences, [["O", *["O"] * between, f"B-{'XY'[first]}", f"I-{'XY'[first]}"] for first, between in rows]


def test_states_of_segments_remember_what_came_before():
    (sentences, y), (new, true) = remembered(40, 0), remembered(50, 1)
    shared = {"template": "U:%x[0,0]", "l2": 0.01, "max_iter": 100, "random_state": 4, "n_jobs": 1}
    plain = SemiCRF(**shared).fit(sentences, y)
    latent = SemiCRF(**shared, n_latent=2, n_restarts=3).fit(sentences, y)
    assert len({labels[-1] for labels in plain.predict(new)}) == 1
    assert latent.predict(new) == true
    assert len(latent.training_["restarts"]) == 3


# -- files, further data, inspection, rules ---------------------------------------------------------------------------


def test_a_model_survives_its_file_and_learns_more(tmp_path):
    model = random_model("iob2", n_latent=2)
    model.save(tmp_path / "m")
    back = load(tmp_path / "m")
    assert back.segments_ == model.segments_
    assert (back.n_latent, back._default_decoder) == (2, "exact")
    assert back.decode(X) == model.decode(X)
    back.set_params(max_iter=3).partial_fit([["d", "a"]], [["B-Z", "O"]])
    assert back.segments_.states[-4:] == ("Z#1", "Z#2", "O#1", "O#2")
    new = back.weights_[back._parameters.slices["transitions"]].reshape(9, 9)[4:6, :-1]
    assert np.abs(new[0] - new[1]).max() > 1e-3  # states of a new type are not equal


def test_weights_are_described_by_state():
    facts = inspection.describe(random_model("iob2", n_latent=2), 3)
    assert set(facts["segments"]["lengths"]["1"]) == {"X#1", "X#2", "Y#1", "Y#2", "O#1", "O#2"}
    assert set(facts["segments"]["transitions"]) == {*facts["segments"]["lengths"]["1"], "(outside)"}
    assert "B-X#2" in facts["states"]
    model = random_model("iob2", n_latent=2)
    views = {view["state"]: view for view in inspection.describe_use(model, [X, [NEW]], 9)["use"]}
    states = [row for sentence in model.predict_marginals([*X, NEW], latent=True) for row in sentence]
    for name, view in views.items():
        assert view["share"] == pytest.approx(np.mean([row[name] for row in states]))
        assert sum(p for _, p in view["after"]) == pytest.approx(1.0)
    assert "6 latent states" in model._summary().sizes


def test_rules_hold_for_the_best_latent_path():
    model = random_model("iob2", n_latent=2)
    no_x = at_most(0, ["B-X", "I-X"])
    truth = Enumerated(model, NEW)
    kept = [not any(label.endswith("-X") for label in labels) for labels in truth.labels]
    record = model.decode([NEW], constraints=[no_x])[0]
    expected = max((y for y, k in zip(truth.labels, kept, strict=True) if k), key=truth.paths.get)
    assert tuple(record.labels) == expected
    rows = model.predict_marginals([NEW], constraints=[no_x])[0]
    share = sum(truth.p[[k and y[0] == "O" for k, y in zip(kept, truth.labels, strict=True)]]) / sum(truth.p[kept])
    assert rows[0]["O"] == pytest.approx(share, abs=1e-7)


def test_what_is_refused():
    model = random_model("iob2", n_latent=2)
    with pytest.raises(OptionError, match=r"^decoder: expected one of viterbi, exact, marginal, got 'ldi'$"):
        model.decode([NEW], "ldi")
    with pytest.raises(OptionError, match=r"^decoder marginal: no option 'max_expansions'"):
        model.decode([NEW], "marginal", max_expansions=2)
    with pytest.raises(OptionError, match=r"^n_latent: expected a whole number of 1 or more and .*, got 0$"):
        SemiCRF(n_latent=0).fit(X, labelled("iob2"))
    with pytest.raises(OptionError, match=r"^weights_of: the other model has other types of segments"):
        model._weights_of(random_model("iob2"))
