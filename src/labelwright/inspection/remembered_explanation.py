"""Why a memory-based tagger labels a token as it does: its neighbours, and the values without which it would not."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.inspection.explanation import Asked, Explanation, Flip
from labelwright.inspection.memory import read_of_token
from labelwright.inspection.remembered import Remembered
from labelwright.memory.instances import Instances
from labelwright.structures.distributions import Distributions

Array = NDArray[Any]
REMOVED = "\0"  # a value that no memory holds
VALUE = "value"  # the kind of what is removed
COPIED = 1 << 16  # tokens of copies of a sentence that are labelled together


def with_neighbours(model: Any, X: Any, explained: list[Explanation], asked: Asked) -> list[Explanation]:
    """Explanations with the nearest neighbours of each token and, if asked for, the values that decide."""
    instances, _ = model.windows_.instances(X)
    remembered = Remembered(model)
    complete = [
        each._replace(details=(each.details or {}) | read_of_token(model, instances, each.token, remembered))
        for each in explained
    ]
    return _with_flips(model, instances, complete) if asked.flips and asked.constraints is None else complete


def _with_flips(model: Any, instances: Instances, explained: list[Explanation]) -> list[Explanation]:
    """The values (token and column) without which a token has another label: the memory is asked again without each."""
    T, reach = len(instances.codes), 2 * (model.grams_.shape[1] // 2)
    tokens = sorted({s for e in explained for s in range(max(0, e.token - reach), min(T, e.token + reach + 1))})
    numeric = set(getattr(model.learner_.index_, "numeric", ()))
    columns = [f for f in range(instances.codes.shape[1]) if f not in numeric]
    removed = [(s, f) for s in tokens for f in columns]
    answers = _answers(model, instances, removed)
    whole = _answers(model, instances, [(s, None) for s in range(T)])
    flips: list[list[Flip]] = [[] for _ in explained]
    step = max(1, COPIED // T)
    for begin in range(0, len(removed), step):
        part = removed[begin : begin + step]
        copies = _spliced(whole, answers, begin, [s for s, _ in part])
        for (s, f), labels in zip(part, model._decoded_all(copies, np.arange(len(part) + 1) * T), strict=True):
            name = f"{model.windows_.names[f]}={instances.values[f][instances.codes[s, f]]}"
            for each, mine in zip(explained, flips, strict=True):
                if labels[each.token] != each.label:
                    mine.append(Flip(name, VALUE, s, labels[each.token]))
    return [each._replace(flips=mine) for each, mine in zip(explained, flips, strict=True)]


def _answers(model: Any, instances: Instances, removed: list[tuple[int, Any]]) -> Distributions:
    """What the memory says of tokens, each without its value in one column (None: with all)."""
    codes = instances.codes[[s for s, _ in removed]]
    for row, (_, f) in enumerate(removed):
        if f is not None:
            codes[row, f] = len(instances.values[f])
    values = tuple([*known, REMOVED] if f not in _numeric(model) else known for f, known in enumerate(instances.values))
    found = model._asked().answers(Instances(values, codes))
    classes = np.array(model.learner_.seen_, np.int32)
    return Distributions(classes[found.best], found.ptr, classes[found.classes], found.votes)


def _numeric(model: Any) -> tuple[int, ...]:
    """The columns that hold numbers."""
    return tuple(getattr(model.learner_.index_, "numeric", ()))


def _spliced(whole: Distributions, answers: Distributions, begin: int, tokens: list[int]) -> Distributions:
    """One sentence as often as there are tokens, with the answer for each token replaced by answers begin, ..."""
    T = len(whole.best)
    best = np.tile(whole.best, (len(tokens), 1))
    rows: list[tuple[Array, Array]] = []
    bounds = list(pairwise(whole.ptr.tolist()))
    for copy, s in enumerate(tokens):
        best[copy, s] = answers.best[begin + copy]
        for t, (a, b) in enumerate(bounds):
            if t == s:
                a, b = answers.ptr[begin + copy : begin + copy + 2].tolist()
                rows.append((answers.classes[a:b], answers.weights[a:b]))
            else:
                rows.append((whole.classes[a:b], whole.weights[a:b]))
    classes, weights = (np.concatenate(part) for part in zip(*rows, strict=True))
    assert len(rows) == T * len(tokens)
    return Distributions(best.reshape(-1), offsets_from([len(row) for row, _ in rows]), classes, weights)
