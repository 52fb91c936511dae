"""Every answer of chains of both orders, with latent states and without, against enumeration of all
their paths."""

import copy
import itertools

import numpy as np
import pytest
from enumerated import check_answers
from problems import Truth
from tiny import ARCS, NEW, STATES, TRIPLES, X, Y

from labelwright import CRF, LatentCRF
from labelwright.corpus import convert
from labelwright.errors import OptionError
from labelwright.scoring import assembly
from labelwright.structures.states import state_names

UNEVEN = {"B-NP": 2, "I-NP": 1, "O": 3}
BOTH = {"constraints": "scheme", "cells": "all"}
MODELS = {  # template, order, latent states, further settings
    "states": (STATES, 1, 1, {}),
    "arcs": (ARCS, 1, 1, {"cells": "all"}),
    "constrained": (ARCS, 1, 1, {"constraints": "scheme"}),
    "sgd": (ARCS, 1, 1, {"optimizer": "sgd", "max_iter": 10}),
    "latent": (STATES, 1, 2, {}),
    "uneven": (ARCS, 1, UNEVEN, {"l1": 0.1}),
    "latent, constrained": (ARCS, 1, 2, BOTH),
    "order 2": (STATES, 2, 1, {}),
    "order 2, arcs": (ARCS, 2, 1, {"cells": "all"}),
    "order 2, triples": (TRIPLES, 2, 1, {}),
    "order 2, constrained": (TRIPLES, 2, 1, BOTH),
    "order 2, latent": (STATES, 2, 2, {}),
    "order 2, latent triples": (TRIPLES, 2, UNEVEN, {"l1": 0.1}),
    "order 2, latent, constrained": (ARCS, 2, 2, BOTH),
}
RESTRICTIONS = [
    {},
    {"constraints": "scheme"},
    {"forced": [[None, "O", ["B-NP", "O"], None]]},
    {"forced": [["B-NP", None, ["B-NP", "O"], None]], "constraints": "iob2"},
    {"forced": [["O", "B-NP", "I-NP", "O"]]},
]


def made(name, y=Y, **more):
    template, order, sizes, settings = MODELS[name]
    settings = (
        {"template": template, "order": order, "n_jobs": 1, "l2": 0.3, "random_state": 0}
        | settings
        | more
    )
    return (CRF(**settings) if sizes == 1 else LatentCRF(sizes, **settings)).fit(X, y)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return made(request.param)


@pytest.mark.parametrize("restriction", RESTRICTIONS, ids=str)
def test_every_answer_agrees_with_enumeration(model, restriction):
    forced, scheme = (
        restriction.get("forced", [None])[0],
        "iob2" if "constraints" in restriction else None,
    )
    truth = Truth(model, NEW, forced, scheme)
    check_answers(model, NEW, truth.labellings, **restriction)
    (latent,) = model.predict_marginals([NEW], latent=True, **restriction)
    for t, row in enumerate(latent):
        assert list(row) == state_names(model._space)
        expected = [truth.p[truth.paths[:, t] == s].sum() for s in range(len(row))]
        assert list(row.values()) == pytest.approx(expected, abs=1e-12)
    (hidden,) = model.decode([NEW], "viterbi", **restriction)
    assert hidden.labels == list(truth.projected[int(np.argmax(truth.p))])


def test_a_temperature_divides_all_scores(model):
    labels = model.predict([NEW])
    calibrated = copy.copy(model)
    calibrated._set_calibration({"temperature": 2.5})
    truth = {y: float(np.exp(p)) for y, p in Truth(model, NEW).tempered(2.5).items()}
    (record,), (nbest,) = calibrated.decode([NEW]), calibrated.predict_nbest([NEW], 1000)
    assert [record.labels] == labels
    assert np.exp(record.log_probability) == pytest.approx(truth[tuple(labels[0])], abs=1e-9)
    assert {tuple(y): p for y, p in nbest} == pytest.approx(truth, abs=1e-9)
    for t, row in enumerate(calibrated.predict_marginals([NEW])[0]):
        assert row == pytest.approx(
            {y: sum(p for z, p in truth.items() if z[t] == y) for y in row}, abs=1e-9
        )
    assert np.exp(
        calibrated.sequence_log_probabilities([NEW] * 9, list(truth)[:9])
    ) == pytest.approx(list(truth.values())[:9], abs=1e-9)


def test_sentences_of_one_and_two_tokens_and_of_none(model):
    for sentence in (["dog"], ["the", "zzz"]):
        check_answers(model, sentence, Truth(model, sentence).labellings)
    assert model.sequence_entropies([[]]) == [0.0]
    assert model.occurrence_probabilities([[]], "NP") == [0.0]
    assert model.sequence_log_probabilities([[], ["a"]], [[], ["unheard-of"]]) == [0.0, -np.inf]


@pytest.mark.parametrize("constraints", [None, "scheme"])
@pytest.mark.parametrize("name", ["states", "latent", "order 2, triples", "order 2, latent"])
def test_labels_that_cannot_end_a_sentence(name, constraints):
    """With BIOES labels one token alone, too, may not begin a chunk that does not end."""
    model = made(name, convert(Y, "iob2", "bioes"), constraints=constraints)
    assert model.scheme_ == "bioes"
    for sentence in (["the"], ["the", "dog"], ["the", "zzz", "dog"]):
        truth = Truth(model, sentence, scheme="bioes").labellings
        check_answers(model, sentence, truth, constraints="scheme")


def test_what_cannot_be_satisfied_is_said(model):
    impossible = {"forced": [["O", "I-NP"]], "constraints": "scheme"}
    asks = [model.predict_nbest, model.predict_marginals, model.predict_spans]
    asks += [lambda x, d=d, **words: model.decode(x, d, **words) for d in model.decoders]
    for ask in asks:
        with pytest.raises(OptionError, match="sentence 0: no labelling satisfies"):
            ask([["the", "dog"]], **impossible)
    with pytest.raises(
        OptionError, match=r"^types: no type 'Y' in this model, expected one of NP$"
    ):
        model.occurrence_probabilities([NEW], "Y")
    with pytest.raises(OptionError, match=r"^types: expected one at least$"):
        model.occurrence_probabilities([NEW], [])
    with pytest.raises(
        OptionError, match=r"^least: expected a probability above 0 and up to 1, got 0$"
    ):
        model.likely_spans([NEW], 0)


def test_without_tables_of_keys_the_answers_are_the_same(model, monkeypatch):
    data = [*X, NEW, ["zzz"]]
    before = model.predict_marginals(data)
    monkeypatch.setattr(assembly, "WIDE", 0)
    for frequent in (2, 10**9):
        monkeypatch.setattr(assembly, "FREQUENT", frequent)
        for row, other in zip(
            itertools.chain(*before), itertools.chain(*model.predict_marginals(data)), strict=True
        ):
            assert other == pytest.approx(row)


@pytest.mark.cases(4)
def test_threads_and_pieces_change_no_answer(model, monkeypatch):
    data = [[*s, *NEW] for s in X] * 40
    one = model.decode(data)
    assert copy.copy(model).set_params(n_jobs=2).decode(data) == one
    # Of smaller pieces, sentences are summed one by one: sums are rounded otherwise.
    monkeypatch.setattr("labelwright.scoring.assembly.BLOCK_NUMBERS", 1 << 10)
    other = copy.copy(model).set_params(n_jobs=2).decode(data)
    assert [d.labels for d in other] == [d.labels for d in one]
    for found, expected in zip(other, one, strict=True):
        assert found.score == pytest.approx(expected.score, rel=1e-12)
        assert found.log_probability == pytest.approx(expected.log_probability, rel=1e-12)


def test_an_estimate_of_the_entropy_is_the_same_alone_and_has_no_bias():
    model = made("latent", l2=3.0, share=False)
    pairs = [[a, b] for s in X for t in X for a in s for b in t][::3]
    found = model.sequence_entropies(pairs)
    alone = [model.sequence_entropies([pair])[0] for pair in pairs[:3]]
    assert found[:3] == alone
    errors = []
    for pair, entropy in zip(pairs, found, strict=True):
        p = np.array(list(Truth(model, pair).labellings.values()))
        errors.append(entropy + p @ np.log(p))
    assert len(errors) > 30
    rounding = 1e-12
    assert abs(np.mean(errors)) < 3 * np.std(errors) / len(errors) ** 0.5 + rounding < 0.03
