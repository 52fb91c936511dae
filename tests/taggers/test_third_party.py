"""A tagger of another package (that of CONTRIBUTING.md) keeps the contract without a line
elsewhere."""

import pytest
from contract import CHECKS
from most_frequent import MostFrequent

from labelwright.taggers import registry
from taggers import Case

CASE = Case("most-frequent", MostFrequent)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(registry.TAGGERS, "most-frequent", "most_frequent:MostFrequent")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check, tmp_path):
    check(CASE, tmp_path)


def test_answers():
    tagger = CASE.trained
    assert all(record.exact and record.log_probability <= 0 for record in tagger.decode(CASE.X))
    assert len(tagger.decode(CASE.X, "marginal")) == len(CASE.X)
    assert [record.labels for record in tagger.scored(CASE.X).decode("viterbi")] == tagger.predict(
        CASE.X
    )
