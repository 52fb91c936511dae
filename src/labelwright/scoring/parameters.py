"""Which weights exist: a cell per feature and state, pair or triple of states in use, and one per
plain transition.

All weights of a model are one vector: state, edge and triple cells, then the transitions [S, S]
and, of order 2, the plain triples [S, S, S].
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import ranges
from labelwright.corpus.offsets import offsets_from
from labelwright.errors import OptionError
from labelwright.features.extract import Extractor
from labelwright.features.incidence import NO_VALUES, Incidence, observed_cells, on_tokens
from labelwright.structures.segments import SegmentSpace
from labelwright.structures.states import StateSpace
from labelwright.structures.supervision import NO_SETS, variants

FEW = 4  # labels of a set, each of which gets weights for the features of its tokens
# labels before the token that count for state, pair and triple features
REACH = {"state": 0, "edge": 1, "triple": 2}
# of state, pair or triple features: L-BFGS needs about sixty bytes for each
MAX_CELLS = 1_500_000_000
Array = NDArray[Any]


class Cells(NamedTuple):
    """The weights of state, pair or triple features: one per feature f and column[ptr[f]:ptr[f+1]],
    which is a state, a pair of states r * S + s, or a triple (r * S + s) * S + u."""

    ptr: Array  # [F+1]
    column: Array  # [W of this kind]


class Parameters(NamedTuple):
    """The cells of a model, and where each kind (state, edge, triple) lies in the weight vector."""

    cells: dict[str, Cells]
    n_states: int
    order: int = 1
    has_weight: Array | None = None  # [S * S]  transitions that training may change; None: all
    # SparseTransitions: the pairs of labels that have a weight, of a model with pruned labels
    sparse: Any = None

    @property
    def n_weights(self) -> int:
        return int(max(part.stop for part in self.slices.values()))

    @property
    def slices(self) -> dict[str, slice]:
        """The part of the weight vector of each kind of cells, of "transitions" and (order 2) of
        "triples"."""
        sizes = {name: len(cells.column) for name, cells in self.cells.items()}
        sizes["transitions"] = self.n_states**2 if self.sparse is None else len(self.sparse.second)
        if self.order == 2:
            sizes["triples"] = self.n_states**3
        ends = itertools.accumulate(sizes.values())
        return {
            name: slice(end - size, end)
            for (name, size), end in zip(sizes.items(), ends, strict=True)
        }

    def codes_of(self, part: str, numbers: Array) -> Array:
        """The pairs r * S + s ("transitions") or triples of weights with these numbers: all have
        one, in order, but for sparse transitions."""
        return numbers if self.sparse is None else self.sparse.codes[numbers]

    def places(self, part: str, codes: Array) -> Array:
        """The numbers of the weights of these pairs or triples; -1 stays -1, and is that of pairs
        without one."""
        return codes if self.sparse is None else self.sparse.places(codes)


def states_in(column: Array, reach: int, n_states: int) -> Iterator[Array]:
    """The states of states, pairs or triples of states (reach 0, 1, 2), the last ones first."""
    for _ in range(reach + 1):
        yield column % n_states
        column = column // np.asarray(n_states, column.dtype)


def renamed(column: Array, reach: int, names: Array, n_names: int) -> Array:
    """Numbers of states, pairs or triples of states (reach 0, 1, 2) with names [S] in place of the
    states; -1 where one of them has none (-1)."""
    codes, factor = np.zeros(len(column), np.int64), 1
    for state in states_in(column, reach, len(names)):
        name = names[state]
        codes = np.where((name < 0) | (codes < 0), -1, codes + name * factor)
        factor *= n_names
    return codes


class Before(NamedTuple):
    """A model before it grows: its cells stay."""

    parameters: Parameters
    space: StateSpace  # whose labels the grown model has too
    number: Array  # [F]  the numbers of its features in the grown model

    def label_cells(self, kind: str, labels: tuple[str, ...]) -> tuple[Array, Array]:
        """The feature and the code (label, pair, triple of labels) of every cell of this kind [W of
        this kind], by the numbers of the grown model."""
        ptr, column = self.parameters.cells[kind]
        place = {label: i for i, label in enumerate(labels)}
        # [S]
        label_of = np.array([place[label] for label in self.space.labels], np.int64)[
            self.space.label_of
        ]
        return np.repeat(self.number, np.diff(ptr)), renamed(
            column, REACH[kind], label_of, len(labels)
        )


def united(
    ptr: Array, codes: Array, feature: Array, code: Array, n_codes: int
) -> tuple[Array, Array]:
    """Sparse rows of sorted codes, merged with the codes of further cells (feature, code), each
    once."""
    n_features = len(ptr) - 1
    known = np.repeat(np.arange(n_features, dtype=np.int64), np.diff(ptr)) * n_codes + codes
    # Both are sorted as a rule: a stable sort only merges them.
    every = np.sort(np.concatenate([feature * n_codes + code, known]), kind="stable")
    every = every[np.concatenate([[True], every[1:] != every[:-1]])] if len(every) else every
    sizes = np.bincount(every // n_codes, minlength=n_features)
    return offsets_from(sizes), (every % n_codes).astype(np.int32)


def _behind(codes: Array, gold: Array, offsets: Array, n_labels: int) -> Array:
    """The code of the token before, followed by the label of each token; -1 where there is no token
    before, or either is not known."""
    following = np.full(len(gold), -1, np.int32)
    following[1:] = np.where(
        (codes[:-1] < 0) | (gold[1:] < 0), -1, codes[:-1] * n_labels + gold[1:]
    )
    following[offsets[:-1][offsets[:-1] < len(gold)]] = -1
    return following


def _expand(ptr: Array, codes: Array, states_of: list[Array]) -> Cells:
    """Label codes -> the columns of their states; the states of one label stay together."""
    sizes = np.array([len(s) for s in states_of], np.int64)
    if (sizes == 1).all():
        return Cells(ptr, np.array([s[0] for s in states_of], np.int32)[codes])
    length = sizes[codes]
    column = np.concatenate(states_of)[ranges(offsets_from(sizes)[codes], length)]
    return Cells(offsets_from(length)[ptr], column.astype(np.int32))


def make_parameters(
    incidences: dict[str, Incidence],
    n_features: int,
    gold: Array,
    offsets: Array,
    space: StateSpace,
    cells: str,
    before: Before | None = None,
    sets: Array = NO_SETS,
    likely: int = -1,
) -> Parameters:
    """Decide which cells exist: those seen in training (`observed`) or every one (`all`), and all
    those `before`.

    Where a token has a set of labels (structures.supervision), its features are seen with all of
    them, if these are few; with the label `likely`, or none, where the label is as good as
    unknown."""
    L, S = space.n_labels, space.n_states
    labels = variants(gold, sets, L, FEW, likely)
    states = [
        np.arange(a, b, dtype=np.int32)
        for a, b in zip(space.first[:-1], space.first[1:], strict=True)
    ]
    made = {}
    for name, incidence in incidences.items():
        codes, n_codes, states_of = labels, L, states
        for _ in range(REACH[name]):  # one more label before
            codes, n_codes = (
                [_behind(c, label, offsets, L) for c in codes for label in labels],
                n_codes * L,
            )
            states_of = [
                (r[:, None] * S + s[None, :]).reshape(-1) for r in states_of for s in states
            ]
        if cells == "all" and n_features * n_codes > MAX_CELLS:
            raise OptionError(
                f"cells='all': {n_features:,} features on {n_codes:,} (pairs or triples of) labels "
                f"make more than {MAX_CELLS:,} weights; use cells='observed' or a larger min_count"
            )
        if cells == "all":
            present = np.zeros(n_features, np.bool_)  # a feature of another kind has no cells here
            present[incidence.key_feature] = present[incidence.token_feature] = True
            if before is not None:
                present[before.number[np.diff(before.parameters.cells[name].ptr) > 0]] = True
            ptr = offsets_from(np.where(present, n_codes, 0))
            column = np.tile(np.arange(n_codes, dtype=np.int32), int(present.sum()))
        else:
            ptr, column = observed_cells(incidence, n_features, codes[0], n_codes)
            for further in codes[1:]:
                at, more = observed_cells(incidence, n_features, further, n_codes)
                feature = np.repeat(np.arange(n_features, dtype=np.int64), np.diff(at))
                ptr, column = united(ptr, column, feature, more.astype(np.int64), n_codes)
            if before is not None:
                ptr, column = united(ptr, column, *before.label_cells(name, space.labels), n_codes)
        sizes = np.array([len(states) for states in states_of])
        total = int(np.bincount(column, minlength=n_codes) @ sizes)
        if total > MAX_CELLS:
            raise OptionError(
                f"{total:,} weights for {name} features, more than {MAX_CELLS:,}; use a larger "
                "min_count, fewer latent states, cells='observed', or fewer template lines of that "
                "kind"
            )
        made[name] = _expand(ptr, column, states_of)
    return Parameters(made, S, space.graph.order)


# -- what a tagger has learnt ----------------------------------------------------------------------


class Pruning(NamedTuple):
    """The zero-order model that chooses the candidates of a token."""

    weights: Array  # [W of states] float32  on the state cells of the model
    bias: Array  # [L] float32  of every label
    cutoff: float  # candidates are at most so far below the best label, in nats,
    most: int  # and no more than these
    share: float  # of gold labels that it kept on held-out tokens
    prior: float  # times its scores are part of the model's; 0 in files of before


class Trained(NamedTuple):
    """Weights and all that is needed to apply them to sentences."""

    extractor: Extractor
    space: StateSpace
    parameters: Parameters
    weights: Array  # [W] float32; float64 from another program's model
    scheme: str | None = None  # of the labels, where they follow one
    segments: SegmentSpace | None = None  # of a segment model
    # of a model with many labels: what chooses the candidates of a token
    pruning: Pruning | None = None
    reads: Any = None  # of a model of lattices: what the sentences are

    @property
    def total_weights(self) -> Array:
        """The weights together with those of the zero-order model, where it is part of the model
        [W] float64."""
        total: Array = self.weights.astype(np.float64)
        if self.pruning is not None:
            total[self.parameters.slices["state"]] += self.pruning.prior * self.pruning.weights
        return total


# -- weights on the arcs of lattices ---------------------------------------------------------------


def cells_of_arcs(incidence: Incidence, n_features: int, label: Array, n_labels: int) -> Cells:
    """The pairs of a feature and a label that arcs have; `label` [A] is -1 for arcs that do not
    count."""
    codes = np.unique(_codes(incidence, label, n_labels))
    codes = codes[codes >= 0]
    return Cells(
        offsets_from(np.bincount(codes // n_labels, minlength=n_features)),
        (codes % n_labels).astype(np.int32),
    )


def weights_of_arcs(incidence: Incidence, label: Array, cells: Cells, n_labels: int) -> Incidence:
    """The arcs with numbers of weights in place of features; without features that have no weight
    for the label of their arc [A], which is n_labels where the model does not know it."""
    feature = np.repeat(np.arange(len(cells.ptr) - 1, dtype=np.int64), np.diff(cells.ptr))
    known = feature * n_labels + cells.column
    codes = _codes(incidence, np.where(label < n_labels, label, -1), n_labels)
    place = np.searchsorted(known, codes)
    kept = codes == np.append(known, -2)[place]
    value = incidence.token_value[kept] if len(incidence.token_value) else NO_VALUES
    return on_tokens(
        np.concatenate([[0], np.cumsum(kept)])[incidence.token_ptr], place[kept], value
    )


def arc_scores(weights_of: Incidence, weights: Array) -> Array:
    """The scores of arcs [A] in float64, without those of transitions."""
    ptr, numbers, value = weights_of.token_ptr, weights_of.token_feature, weights_of.token_value
    terms = weights.astype(np.float64)[numbers]
    if len(value):
        terms *= value
    arc = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    return np.bincount(arc, terms, len(ptr) - 1)


def _codes(incidence: Incidence, label: Array, n_labels: int) -> Array:
    """The code of feature and label for each feature of each arc; negative where the arc does not
    count."""
    of_arc = np.repeat(label.astype(np.int64), np.diff(incidence.token_ptr))
    return np.where(of_arc < 0, -1, incidence.token_feature * n_labels + of_arc)
