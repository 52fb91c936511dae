"""The recipe of a small cascade, its input, its output as rows, and what a layer passes."""

from typing import Any

from labelwright.structures.passing import Passed, joined

LAYER = 'template = "words"\nmax_iter = 6\n'
RECIPE = f"""
model = "cascade"
columns = ["word", "pos", "chunk"]
max_iter = 6
random_state = 1
n_jobs = 1
[[layers]]
name = "pos"
{LAYER}
[[layers]]
name = "chunk"
{LAYER}"""
WORDS = b"She\nsaw\nhim\n.\n\n"


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if line]


def passed_up(model: Any, X: Any, cut: float = 0.001, forced: Any = None) -> Passed:
    """What a tagger passes to a layer above it."""
    return joined(model._ask(X, lambda batch: [model._passed_by(batch, cut)], forced))
