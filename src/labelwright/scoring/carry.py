"""Transfer of weights from one model to another with other features, labels or cells."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.features.extract import ArrayFeatures, ColumnFeatures, DictFeatures, Extractor
from labelwright.features.layered import LayeredFeatures
from labelwright.features.vocabulary import Vocabulary
from labelwright.modelfile import rounded
from labelwright.scoring.parameters import REACH, Cells, Trained, renamed, states_in
from labelwright.structures.states import StateSpace

Array = NDArray[Any]


def carry_over(before: Trained, now: Trained, shake: bool = False) -> Array:
    """The old weight of every cell that the old model has too, the new start elsewhere.

    Where states of a label were split, or with `shake`, the new start is added to the old weights,
    to break the symmetry of the copies."""
    old_space, old_parameters, old_weights = before.space, before.parameters, before.weights
    space, parameters, weights = now.space, now.parameters, now.weights.copy()
    features = old_features(before.extractor, now.extractor)
    states = _old_states(old_space, space)
    known = states[states >= 0]
    split = (
        np.isin(states, known[np.bincount(known, minlength=old_space.n_states)[known] > 1]) | shake
    )
    S, old_S = space.n_states, old_space.n_states
    parts, old_parts = parameters.slices, old_parameters.slices

    def carry(name: str, number: Array, shaken: Array) -> None:
        """The old weights of a part by their numbers there; a cell without one keeps its new
        start."""
        start = weights[parts[name]]
        old = np.append(old_weights[old_parts[name]], 0)[number]
        weights[parts[name]] = np.where(number < 0, start, old + np.where(shaken, start, 0))

    def any_split(column: Array, reach: int) -> Array:
        return np.asarray(
            np.logical_or.reduce([split[state] for state in states_in(column, reach, S)])
        )

    for name, cells in parameters.cells.items():
        if name not in old_parameters.cells:
            continue
        column = renamed(cells.column, REACH[name], states, old_S)
        number = old_cells(old_parameters.cells[name], Cells(cells.ptr, column), features)
        carry(name, number, any_split(cells.column, REACH[name]))
    for name, reach in (("transitions", 1), ("triples", 2)):
        if name in parts and name in old_parts:
            every = parameters.codes_of(name, np.arange(parts[name].stop - parts[name].start))
            old = old_parameters.places(name, renamed(every, reach, states, old_S))
            carry(name, old, any_split(every, reach))
    return weights


def old_cells(old: Cells, new: Cells, features: Array) -> Array:
    """For each new cell its number among the old ones, or -1; features [F] gives the old number of
    each feature, or -1, and the new columns are numbered like the old ones, or -1."""
    if not len(old.column) or not len(new.column):
        return np.full(len(new.column), -1)
    width = int(max(old.column.max(), new.column.max())) + 1
    feature = np.repeat(features, np.diff(new.ptr)).astype(np.int64)
    wanted = np.where((feature < 0) | (new.column < 0), -1, feature * width + new.column)
    known = (
        np.repeat(np.arange(len(old.ptr) - 1, dtype=np.int64), np.diff(old.ptr)) * width
        + old.column
    )
    order = np.argsort(known, kind="stable")
    number = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(order) - 1)]
    return np.where(known[number] == wanted, number, -1)


def _old_states(old: StateSpace, new: StateSpace) -> Array:
    """For each state its number in the old space, or -1: the k-th state of a label stays the k-th
    of that label, and states beyond the old ones are copies of them in turn (so that labels grow by
    splitting their states)."""
    index = {label: i for i, label in enumerate(old.labels)}
    old_state = np.full(new.n_states, -1, np.int64)
    for i, label in enumerate(new.labels):
        if label in index:
            j = index[label]
            k = np.arange(new.first[i + 1] - new.first[i])
            old_state[new.first[i] : new.first[i + 1]] = old.first[j] + k % (
                old.first[j + 1] - old.first[j]
            )
    return old_state


def old_features(old: Extractor, new: Extractor) -> Array:
    """For each feature its number in the old extractor, or -1."""
    if isinstance(old, ColumnFeatures) and isinstance(new, ColumnFeatures):
        numbers = np.full(new.numbers.n_features, -1, np.int64)
        if old.numbers.same_as(new.numbers):
            numbers = old.vocabulary.n_features + np.arange(len(numbers))
        return np.concatenate([_old_columns(old.vocabulary, new.vocabulary), numbers])
    if isinstance(old, DictFeatures) and isinstance(new, DictFeatures):
        index = {name: i for i, name in enumerate(old.names)}
        return np.array([index.get(name, -1) for name in new.joined_by(old.separator)], np.int64)
    if (
        isinstance(old, ArrayFeatures)
        and isinstance(new, ArrayFeatures)
        and old.n_features == new.n_features
    ):
        return np.arange(new.n_features)
    if isinstance(old, LayeredFeatures) and isinstance(new, LayeredFeatures):
        base, above = old_features(old.base, new.base), _old_columns(old.above, new.above)
        return np.concatenate([base, np.where(above < 0, -1, above + old.base.n_features)])
    return np.full(new.n_features, -1, np.int64)


def _old_columns(old: Vocabulary, new: Vocabulary) -> Array:
    """Features are the same when their table and the strings and boundary marks in their cells
    are."""
    old_number = np.full(new.n_features, -1, np.int64)
    translation = {}
    for reader, strings in new.values.items():
        if reader in old.values:
            index = {s: i + 2 * old.reach for i, s in enumerate(old.values[reader])}
            marks = [d if d < old.reach else -1 for d in range(new.reach)] + [
                old.reach + d if d < old.reach else -1 for d in range(new.reach)
            ]
            translation[reader] = np.array(marks + [index.get(s, -1) for s in strings], np.int32)
    for table, rows in new.rows.items():
        if table in old.rows and all(reader in translation for reader in table.readers):
            translated = [translation[reader][rows[:, i]] for i, reader in enumerate(table.readers)]
            asked = (
                np.stack(translated, axis=1) if translated else np.empty((len(rows), 0), np.int32)
            )
            old_number[new.first[table] : new.first[table] + len(rows)] = old.find(table, asked)
    return old_number


# -- a smaller model -------------------------------------------------------------------------------


def pruned(trained: Trained, threshold: float, bits: int) -> Trained:
    """The same model with weights of so many bits, without those of features whose absolute value
    is `threshold` or less, without features that have no weight left, and without strings that no
    feature reads.

    Labels, states and plain transitions stay; so do features that the zero-order model of pruned
    labels reads."""
    parts = trained.parameters.slices
    weights = {name: rounded(trained.weights[part], bits) for name, part in parts.items()}
    cells, kept = trained.parameters.cells, {}
    used = np.zeros(trained.extractor.n_features, np.bool_)
    pruning = trained.pruning
    for name, (ptr, _) in cells.items():
        kept[name] = (np.abs(trained.weights[parts[name]]) > threshold) & (weights[name] != 0)
        if name == "state" and pruning is not None:
            kept[name] |= np.abs(pruning.weights) > threshold
        used |= _counts(kept[name], ptr) > 0
    extractor, left = trained.extractor.reduced(used)
    smaller = {}
    for name, (ptr, column) in cells.items():
        smaller[name] = Cells(offsets_from(_counts(kept[name], ptr)[left]), column[kept[name]])
        weights[name] = weights[name][kept[name]]
    if pruning is not None:
        pruning = pruning._replace(weights=pruning.weights[kept["state"]])
    parameters, left_over = (
        trained.parameters._replace(cells=smaller),
        np.concatenate(list(weights.values())),
    )
    return trained._replace(
        extractor=extractor, parameters=parameters, weights=left_over, pruning=pruning
    )


def _counts(kept: Array, ptr: Array) -> Array:
    """How many cells [F] of each feature are kept."""
    return np.diff(np.concatenate([[0], np.cumsum(kept)])[ptr])
