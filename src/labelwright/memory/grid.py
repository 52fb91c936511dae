"""The settings of memory-based models that a search tries."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from labelwright.memory.search import VOTES
from labelwright.memory.weights import WEIGHTS

NEIGHBOURS = (1, 3, 5, 7, 9, 11, 13, 15, 19, 25, 35)
TRIED_METRICS: dict[str, tuple[dict[str, Any], ...]] = {
    "overlap": ({},),
    "mvdm": ({"mvdm_threshold": 1}, {"mvdm_threshold": 2}),
    "jeffrey": ({"mvdm_threshold": 1}, {"mvdm_threshold": 2}),
}
SEARCHED = ("k", "metric", "weights", "votes", "mvdm_threshold")

# The value of the grid that one outside it is most like: settings with that value are tried with it.
LIKE: dict[str, Callable[[Any], Any]] = {
    "k": lambda k: 3,
    "metric": lambda metric: (
        "mvdm"
        if {"mvdm", "jeffrey", "jensen-shannon"} & {*([metric] if isinstance(metric, str) else metric)}
        else "overlap"
    ),
    "weights": lambda weights: "none",
    "votes": lambda votes: "none",
    "mvdm_threshold": lambda threshold: 2,
}


def memory_settings(prefix: str = "") -> list[dict[str, Any]]:
    """Settings of memory-based models for a search: k, metric, weights, votes and the threshold of value differences,
    without those that make no difference (votes with one neighbour; a threshold of overlap).

    prefix : `classifier__` for a MemoryBased within another model

    >>> len(memory_settings()), memory_settings()[0]
    (1025, {'k': 1, 'metric': 'overlap', 'weights': 'gain-ratio', 'votes': 'none'})
    """
    settings = []
    for k, (metric, thresholds), weights in product(NEIGHBOURS, TRIED_METRICS.items(), WEIGHTS):
        for votes, threshold in product(VOTES if k > 1 else ["none"], thresholds):
            settings.append({"k": k, "metric": metric, "weights": weights, "votes": votes, **threshold})
    return [{prefix + name: value for name, value in setting.items()} for setting in settings]


def settings_with(algorithm: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The settings to try with this algorithm that have the given values.

    >>> len(settings_with("ib1", {"k": 1})), len(settings_with("igtree", {}))
    (25, 5)
    """
    tried = memory_settings() if algorithm == "ib1" else [{"weights": weights} for weights in WEIGHTS]
    for name in SEARCHED:
        if name in given:
            wanted = given[name]
            same = [setting for setting in tried if setting.get(name) == wanted]
            tried = same or [s | {name: wanted} for s in tried if s.get(name) == LIKE[name](wanted)]
    return tried
