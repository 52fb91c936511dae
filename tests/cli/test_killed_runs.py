"""Training that is killed by signals at drawn moments; `python -m tests.fuzz.kills` does it without
limit."""

import os

import pytest
from killed_runs import Killing

TAGGERS = [
    "crf",
    "latent-crf-restarts",
    "perceptron",
    "cascade-jackknife",
    "search-latent-perceptron",
]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_runs_are_resumed_to_identical_weights(tmp_path):
    outcome = Killing(tmp_path, seed=5, n_sentences=10).kills(10, TAGGERS)
    assert outcome.mistakes == []
    assert sum(outcome.kills.values()) == 10
