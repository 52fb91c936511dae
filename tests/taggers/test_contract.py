"""Every tagger of the registry keeps the same contract; the checks are in
tests/support/contract.py."""

from typing import Any

import pytest
from contract import CHECKS, WHAT_IT_CAN

from labelwright import CRF, Cascade, LatticeTagger, Perceptron, SemiCRF
from labelwright.errors import OptionError
from labelwright.taggers.registry import class_names, model_class, name_of, tagger_names
from taggers import LOWER, UPPER, Case, chunk_lattice


def cascade_of(*models: Any) -> Cascade:
    return Cascade(list(zip(("pos", "chunk"), models, strict=True)), passing="best", n_jobs=1)


CASES = {name: Case(name) for name in tagger_names()}
CASCADES = {
    "of perceptrons": Case(
        "cascade", lambda: cascade_of(Perceptron(LOWER, max_iter=2), Perceptron(UPPER, max_iter=2))
    ),
    "mixed": Case(
        "cascade", lambda: cascade_of(CRF(LOWER, max_iter=2), Perceptron(UPPER, max_iter=2))
    ),
    "with a lattice": Case(
        "cascade",
        lambda: cascade_of(CRF(LOWER, max_iter=2), LatticeTagger(chunk_lattice, max_iter=2)),
    ),
    "with segments": Case(
        "cascade", lambda: cascade_of(CRF(LOWER, max_iter=2), SemiCRF("words", max_iter=2))
    ),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_contract(name, check, tmp_path):
    check(CASES[name], tmp_path)


@pytest.mark.parametrize("check", WHAT_IT_CAN, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASCADES)
def test_a_cascade_can_do_what_its_layers_can(name, check, tmp_path):
    check(CASCADES[name], tmp_path)


def test_what_cascades_can():
    answered = {"n-best", "forced", "explanation"}
    assert CASCADES["of perceptrons"].can == answered | {"rules", "confidence"}
    assert CASCADES["mixed"].can == answered | {"rules"}
    assert CASCADES["with segments"].can == answered | {"rules", "probability"}
    assert CASCADES["with a lattice"].can == {"n-best", "forced", "probability", "rules"}
    assert cascade_of(SemiCRF(), SemiCRF()).can == answered | {"rules", "probability"}
    with pytest.raises(
        OptionError,
        match=r"^predict_marginals: layer chunk: a Perceptron has scores, not probabilities",
    ):
        CASCADES["mixed"].trained.predict_marginals(CASCADES["mixed"].X)


@pytest.mark.parametrize("name", CASES)
def test_the_registry_knows_a_tagger_by_both_names(name):
    kind = model_class(name)
    assert name_of(kind) == name
    assert class_names()[kind.__name__] == name
    assert getattr(kind, "name", "") in ("", name)
