"""The latent CRF of both orders as users meet it: its answers against enumeration of all latent paths, its files."""

import copy
import itertools

import numpy as np
import pytest
from problems import Truth
from tiny import ARCS, LABELS, NEW, STATES, TRIPLES, X, Y

import labelwright
from labelwright import LatentCRF, Span
from labelwright.corpus import spans_of
from labelwright.errors import OptionError
from labelwright.structures.states import state_names

UNEVEN = {"B-NP": 2, "I-NP": 1, "O": 3}


MODELS = {
    "states": (STATES, 2, 1),
    "arcs": (ARCS, 2, 1),
    "uneven": (ARCS, UNEVEN, 1),
    "states 2": (STATES, 2, 2),
    "arcs 2": (ARCS, UNEVEN, 2),
    "triples 2": (TRIPLES, 2, 2),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    template, n_latent, order = MODELS[request.param]
    return LatentCRF(n_latent, template=template, order=order, n_jobs=1, l2=0.3, random_state=0).fit(X, Y)


# --- answers ----------------------------------------------------------------------------------------------------------

RESTRICTIONS = [
    {},
    {"constraints": "scheme"},
    {"constraints": "iob2"},
    {"forced": [[None, "O", None, None]]},
    {"forced": [["B-NP", None, ["B-NP", "O"], None]], "constraints": "scheme"},
    {"forced": [["O", "B-NP", "I-NP", "O"]]},
]


@pytest.mark.cases(12)
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
    label_of = [model.classes_[i] for i in model._space.label_of]
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
        assert list(states) == state_names(model._space)
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


@pytest.mark.parametrize(
    ("decoder", "options", "message"),
    [
        ("exact", {"max_expansions": -1}, "max_expansions: expected a whole number, 0 or more"),
        ("exact", {"time_limit": -1}, "time_limit: expected 0 seconds or more"),
        ("exact", {"alpha": 1}, "decoder exact: .*alpha"),
        ("ldi", {"n": -3}, "n: expected a whole number, 0 or more"),
        ("ldi", {"alpha": 2}, "alpha: expected"),
        ("mbr", {"gain": "luck"}, "gain: expected one of"),
        ("mbr", {"n": 0}, "n: expected a whole number, 1 to 2,000"),
        (None, {"beam": 1}, "decoder exact: .*beam"),
    ],
)
def test_bad_questions_get_one_clear_line(model, decoder, options, message):
    with pytest.raises(OptionError, match=message) as caught:
        model.decode(X, decoder, **options)
    assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="n: expected a whole number, 1 to 100,000"):
        model.predict_nbest(X, n=0)


@pytest.mark.slow
def test_a_thousand_tokens(model):
    long = [X[i % 5][0] for i in range(1000)]
    for decoder in ("exact", "ldi", "mbr", "viterbi", "marginal"):
        (found,) = model.decode([long], decoder)
        assert len(found.labels) == 1000
        (p,) = model.sequence_log_probabilities([long], [found.labels])
        assert found.log_probability == pytest.approx(p, abs=1e-8)
        assert found.exact == (found.gap == 0)
    (hidden,), (best,) = model.decode([long], "viterbi"), model.decode([long])
    assert best.log_probability >= hidden.log_probability - 1e-8  # even where the limit of expansions ends the search
    assert 1 <= len(model.predict_nbest([long], n=3)[0]) <= 3
    trained = [w for s in X for w in s] * 90
    (stopped,) = model.decode([trained], max_expansions=10)
    assert stopped.exact == (stopped.gap == 0)
    if not isinstance(model.n_latent, dict):  # with uneven numbers of states the first bound is tight already
        assert stopped.gap > 0
    assert all(0 < s.probability <= 1 for s in model.predict_spans([long])[0][:50])


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


@pytest.mark.cases(6)
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
    model = LatentCRF(UNEVEN, template=STATES, n_jobs=1, random_state=0).fit(X, Y)
    assert np.diff(model._space.first).tolist() == [UNEVEN[label] for label in model.classes_]
    names = list(model.predict_marginals([["dog"]], latent=True)[0][0])
    assert names == ["B-NP#1", "B-NP#2", "I-NP", "O#1", "O#2", "O#3"]
    with pytest.raises(
        OptionError, match=r"n_latent: no label 'never seen' in the training data, which have B-NP, I-NP, O$"
    ):
        LatentCRF(UNEVEN | {"never seen": 7}, template=STATES, n_jobs=1).fit(X, Y)
    numpy_number = LatentCRF(np.int64(2), template=STATES, n_jobs=1, random_state=0).fit(X, Y)
    assert numpy_number._space.n_states == 6


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "kind", ["plain", "uneven", "numpy", "l1", "constrained", "restarts", "order 2", "order 2, constrained"]
)
def test_files_keep_everything(kind, tmp_path):
    more = {
        "plain": {},
        "uneven": {"n_latent": UNEVEN},
        "numpy": {"n_latent": np.int64(3)},
        "l1": {"l1": 0.4},
        "constrained": {"constraints": "scheme"},
        "restarts": {"n_restarts": 2, "max_iter": 5},
        "order 2": {"order": 2, "template": TRIPLES},
        "order 2, constrained": {"order": 2, "template": TRIPLES, "constraints": "scheme", "l1": 0.2},
    }[kind]
    model = LatentCRF(**{"n_latent": 2, "template": ARCS, "n_jobs": 1, "random_state": 0} | more).fit(X, Y)
    model.save(tmp_path / "model")
    again = labelwright.load(tmp_path / "model")
    assert type(again) is LatentCRF
    same = {"template": ARCS, "n_jobs": None}
    assert again.get_params() | same == model.get_params() | same
    assert again.predict_marginals(X, latent=True) == model.predict_marginals(X, latent=True)
    assert again.predict_nbest(X) == model.predict_nbest(X)
    assert again.decode(X) == model.decode(X)
    assert (again.classes_, again.scheme_) == (model.classes_, model.scheme_)
    assert again.training_ == model.training_
    assert again.history_ == model.history_
    again.fit(X, Y)  # a loaded model can be trained again
    assert again.weights_.tobytes() == model.weights_.tobytes()
