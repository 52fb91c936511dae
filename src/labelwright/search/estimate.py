"""What training will take, before it begins: a few passes over a small sample, scaled to all
sentences."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from labelwright.search.samples import fitted, looked_at, without_calibration, without_warnings
from labelwright.taggers.estimator import uninterrupted, untrained

SAMPLE = 3000  # tokens to measure on
PASSES = 3  # over the sample; the last one is measured
MUCH = 200_000_000  # steps of a pass from which on training may take minutes
FEATURES = 20  # of a token, about
PROBE = {"max_iter": PASSES, "n_restarts": 1, "start": "random", "verbose": 0, "warm_start": False}


class Estimate(NamedTuple):
    """What training will take."""

    tokens: int
    states: int
    arcs: int  # transitions between states; of order 2, between pairs of them
    seconds: float  # of a pass, or of an iteration, over all sentences


def may_take_minutes(n_tokens: int, n_labels: int, latent: int = 1, order: int = 1) -> bool:
    """Whether a pass has so much to do that an estimate is worth its time.

    >>> may_take_minutes(200_000, 9), may_take_minutes(200_000, 45)
    (False, True)
    """
    S = n_labels * latent
    return n_tokens * (int(S ** (order + 1)) + FEATURES * S) >= MUCH


def estimate(model: Any, X: Any, y: Any = None) -> Estimate:
    """Train an untrained copy of a model on a few sentences, and scale the time of its last pass to
    all of them.

    The sample has every label, so that states and arcs are those of the whole data."""
    data = looked_at(X, y, least=1, asker="an estimate")
    gold = X.y if y is None else y
    lengths = np.array([len(labels) for labels in gold])
    rows = np.array(_chosen(gold, max(1, int(lengths.sum() // SAMPLE))))
    probe = without_calibration(untrained(model))
    known = probe.get_params(deep=False)
    probe.set_params(**{name: value for name, value in PROBE.items() if name in known})
    with without_warnings():
        uninterrupted(fitted(probe, *data.take(rows)))
    history = probe.history_
    took = history[-1]["seconds"] - (history[-2]["seconds"] if len(history) > 1 else 0.0)
    graph, scale = probe._space.graph, lengths.sum() / max(1, lengths[rows].sum())
    return Estimate(int(lengths.sum()), graph.n_states, graph.n_arcs, float(took * scale))


def _chosen(gold: Sequence[Sequence[Any]], share: int) -> list[int]:
    """Every `share`-th sentence, and the first one with each label."""
    seen: set[Any] = set()
    rows = []
    for n, labels in enumerate(gold):
        is_new = not seen.issuperset(labels)
        seen.update(labels)
        if is_new or n % share == 0:
            rows.append(n)
    return rows
