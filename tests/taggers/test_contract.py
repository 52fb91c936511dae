"""Every tagger of the registry keeps the same contract; the checks are in tests/support/contract.py."""

import pytest
from contract import CHECKS

from labelwright.taggers.registry import class_names, model_class, name_of, tagger_names
from taggers import Case

CASES = {name: Case(name) for name in tagger_names()}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_contract(name, check, tmp_path):
    check(CASES[name], tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_the_registry_knows_a_tagger_by_both_names(name):
    kind = model_class(name)
    assert name_of(kind) == name
    assert class_names()[kind.__name__] == name
    assert getattr(kind, "name", "") in ("", name)
