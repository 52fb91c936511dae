"""From scores of states, pairs and triples of states to scores of nodes and arcs.

Of first order, states are nodes and pairs are arcs.  Of second order, pairs are nodes, which the
score of their second state belongs to as well, and triples are arcs.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.features.extract import Encoded
from labelwright.features.incidence import Incidence, with_frequent_keys
from labelwright.kernels import chain, scoring
from labelwright.parallel import Workers, even_ranges, sentence_ranges
from labelwright.scoring.parameters import REACH, Cells, Parameters, Trained
from labelwright.structures.states import Graph, StateSpace

Array = NDArray[Any]
WIDE = 128  # where rows of scores have more columns, only keys of at least
FREQUENT = 5  # tokens have a row in a table
# the most numbers of a table: keys need more tokens where it would be larger
TABLE_NUMBERS = 1 << 27
BLOCK_TOKENS = 4096  # sentences of one block,
BLOCK_NUMBERS = 1 << 23  # and the scores of all their nodes and arcs
FEW_FEATURES = 1 << 12  # of keys that are not worth a second thread


class Plain(NamedTuple):
    """The scores of plain transitions, without those of features."""

    node: Array  # [Q]
    arc: Array  # [A]


def padded(n: int) -> int:
    """The width of a row of n numbers: whole vector registers."""
    return -(-n // 4) * 4


def tables_for(
    incidences: dict[str, Incidence], row_width: dict[str, int], value: int = 1, shared: int = 1
) -> dict[str, Incidence]:
    """The features on states, pairs and triples, with tables only for keys of `shared` tokens or,
    where rows are wide, for frequent keys; `value` is that of features which leave their keys."""
    tables = {}
    for name, incidence in incidences.items():
        width = row_width[name]
        least = shared if width <= WIDE or not incidence.n_keys else FREQUENT
        tables[name] = incidence if least == 1 else with_frequent_keys(incidence, least, value)
        least = max(least, FREQUENT)
        while tables[name].n_keys * width > TABLE_NUMBERS:
            least *= 4
            tables[name] = with_frequent_keys(incidence, least, value)
    return tables


def _as_slice(places: Array) -> Array | slice:
    """Places as a slice, which is read and written much faster, where they count up."""
    if len(places) and (np.diff(places) == 1).all():
        return slice(int(places[0]), int(places[-1]) + 1)
    return places


class Assembly:
    """Which node or arc each column of a row of scores belongs to; rows hold the pairs and triples
    that have a weight, and a column of 0."""

    def __init__(self, space: StateSpace, parameters: Parameters, graph: Graph | None = None):
        self.graph = graph or space.graph
        self.order, S = self.graph.order, space.n_states
        self.width = self.graph.width
        self.parts = parameters.slices
        self.arc_kind = {1: "edge", 2: "triple"}[self.order]  # the features on arcs
        if self.order == 1:
            stride = self.graph.contexts.base[1] if S > 1 else 1
            places = {"transitions": (np.arange(S)[:, None] * stride + np.arange(S)).reshape(-1)}
        else:
            places = {"transitions": self.graph.node_of_pair, "triples": self.graph.arc_of_triple}
        self.places = places  # node or arc of every plain transition; -1: none
        self.cells: dict[str, Cells] = {}  # with columns of the rows
        self.used: dict[str, Array] = {}  # node or arc of every column
        self.row_width: dict[str, int] = {}
        for name, cells in parameters.cells.items():
            if name == "state":
                self.cells[name], self.row_width[name] = (
                    cells,
                    self.width if self.order == 1 else padded(S),
                )
                continue
            has_weight = np.zeros(S ** (REACH[name] + 1), np.bool_)
            has_weight[cells.column] = True
            used = np.flatnonzero(has_weight)
            self.used[name] = places["transitions" if name == "edge" else "triples"][used]
            self.cells[name] = cells._replace(
                column=(np.cumsum(has_weight, dtype=np.int32) - 1)[cells.column]
            )
            self.row_width[name] = padded(len(used) + 1)
        self.by_token = self.arc_kind in self.used
        self.forbidden_arcs = np.zeros(self.graph.n_arcs, np.bool_)
        self.forbidden_nodes = np.zeros(self.width, np.bool_)
        if self.order == 1:
            self.forbidden_arcs[:] = True
            self.forbidden_arcs[places["transitions"]] = ~space.arc.reshape(-1)
        else:
            has_node = places["transitions"] >= 0
            self.forbidden_nodes[places["transitions"][has_node]] = ~space.arc.reshape(-1)[has_node]
        if parameters.has_weight is not None:
            self.places = places | {
                "transitions": np.where(parameters.has_weight, places["transitions"], -1)
            }
        # transitions with a weight: is their score one of a node?  Of which, and which weight is
        # it?
        self._known = [
            (
                self.order == 2 and name == "transitions",
                _as_slice(at[at >= 0]),
                _as_slice(self.parts[name].start + np.flatnonzero(at >= 0)),
            )
            for name, at in self.places.items()
        ]
        self._shut_out = np.flatnonzero(self.forbidden_nodes), np.flatnonzero(self.forbidden_arcs)
        # of order 2: nodes that cannot be first
        self.inner = np.flatnonzero(self.graph.previous >= 0)
        # of order 2: nodes that cannot be later
        self.first = np.flatnonzero(self.graph.previous < 0)
        self.no_start = np.flatnonzero(~space.start[self.graph.state] & (self.graph.previous < 0))
        self.no_end = np.flatnonzero(~space.end[self.graph.state])

    @property
    def token_size(self) -> int:
        """How many numbers every token has besides its rows: all its nodes (order 2), all its arcs;
        0 for neither."""
        return (self.width if self.order == 2 else 0) + (self.graph.n_arcs if self.by_token else 0)

    def plain(self, weights: Array) -> Plain:
        """Scores of all plain transitions [Q], [A] in float64; minus infinity for those the space
        forbids."""
        plain = self.transition_weights(weights)
        for scores, forbidden in zip(plain, self._shut_out, strict=True):
            if len(forbidden):
                scores[forbidden] = -np.inf
        return plain

    def transition_weights(self, weights: Array) -> Plain:
        """The weights of all plain transitions, forbidden or not [Q], [A]."""
        node, arc = np.zeros(self.width), np.zeros(self.graph.n_arcs)
        for is_node, target, source in self._known:
            (node if is_node else arc)[target] = weights[source]
        return Plain(node, arc)

    def store_transitions(self, node: Array, arc: Array, weights: Array) -> None:
        """The adjoint of `transition_weights`: put numbers of nodes [Q] and arcs [A] at those of
        plain transitions."""
        for is_node, target, source in self._known:
            weights[source] = (node if is_node else arc)[target]

    def nodes(self, rows: dict[str, Array], plain: Plain, offsets: Array) -> Array:
        """Scores of the nodes [T, Q] of sentences, from rows of scores (of order 1: the row of
        states itself)."""
        node = self.nodes_of(rows, plain)
        self.fence(node, offsets)
        return node

    def nodes_of(self, rows: dict[str, Array], plain: Plain) -> Array:
        """Scores of the nodes [T, Q] of tokens, wherever in a sentence these are."""
        state = rows["state"]
        if self.order == 1:
            return state
        node = np.empty((len(state), self.width), state.dtype)
        used = self.used.get("edge", np.empty(0, np.int64))
        chain.pair_nodes(state, rows.get("edge", state), used, plain.node, self.graph.state, node)
        return node

    def fence(self, node: Array, offsets: Array) -> None:
        """Shut out the nodes that may not begin or end a sentence; sentences without tokens do not
        count."""
        if self.order == 1 and not len(self.no_start) and not len(self.no_end):
            return
        offsets = np.unique(offsets)
        self.shut(node, offsets[:-1] - offsets[0], offsets[1:] - offsets[0] - 1)

    def shut(self, node: Array, begins: Array, ends: Array) -> None:
        """The same, where the first and the last tokens of sentences have these rows."""
        if self.order == 2:
            later = np.ones(len(node), np.bool_)
            later[begins] = False
            node[np.ix_(np.flatnonzero(later), self.first)] = -np.inf
            node[np.ix_(begins, self.inner)] = -np.inf
        if len(self.no_start):
            node[np.ix_(begins, self.no_start)] = -np.inf
        if len(self.no_end):
            node[np.ix_(ends, self.no_end)] = -np.inf

    def arcs(self, rows: dict[str, Array], plain: Plain) -> Array:
        """Scores of the arcs [T or 1, A]."""
        if not self.by_token:
            return plain.arc[None]
        row = rows[self.arc_kind]
        arc = np.empty((len(row), self.graph.n_arcs), row.dtype)
        chain.spread_arcs(row, self.used[self.arc_kind], plain.arc.astype(row.dtype), arc)
        return arc


# -- scores of lattices ----------------------------------------------------------------------------


class Rows:
    """Scores of the tokens (or segments) of encoded sentences, row by row; the rows of keys are
    computed once."""

    def __init__(self, trained: Trained, build: Any, data: Encoded, workers: Workers):
        self.offsets = data.offsets
        slices = trained.parameters.slices
        self._incidences = tables_for(data.incidences, build.row_width)
        self.names = list(self._incidences)
        self._shape = {
            name: (build.cells[name], build.row_width[name]) for name in self._incidences
        }
        # sums are in float64
        self._weights = {name: trained.weights[slices[name]] for name in self._incidences}
        self._tables = {
            name: _score_keys(x, *self._shape[name], self._weights[name], workers)
            for name, x in self._incidences.items()
        }

    def of(self, name: str, begin: int, end: int) -> Array:
        """The rows begin:end of one kind of features [rows, width]."""
        x, (cells, width) = self._incidences[name], self._shape[name]
        rows = np.zeros((end - begin, width))
        features = x.token_ptr, x.token_feature, x.token_value.astype(np.float64, copy=False)
        table, weights = self._tables[name], self._weights[name]
        scoring.score_tokens(
            weights, cells.ptr, cells.column, x.keys, table, *features, begin, end, rows
        )
        return rows


def _score_keys(
    incidence: Incidence, cells: Cells, width: int, weights: Array, workers: Workers
) -> Array:
    """Rows of scores of all keys [K, width]."""
    none, table = np.empty(0, np.float64), np.empty((incidence.n_keys, width))
    if not incidence.n_keys:
        return table
    arrays = cells.ptr, cells.column, incidence.key_ptr, incidence.key_feature, none, table
    small = len(incidence.key_feature) <= FEW_FEATURES
    pieces = [(0, incidence.n_keys)] if small else even_ranges(incidence.key_ptr, 4 * workers.n)
    workers.run(scoring.score_keys, [(weights, *arrays, a, b) for a, b in pieces])
    return table


class LatticeScores:
    """The scores of the lattices of encoded sentences, block by block."""

    def __init__(self, trained: Trained, assembly: Assembly, data: Encoded, workers: Workers):
        self.assembly, self.offsets = assembly, data.offsets
        self._rows = Rows(trained, assembly, data, workers)
        self._plain = assembly.plain(trained.weights)

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of sentences that are scored together; they depend on the data alone."""
        limit = max(1, min(BLOCK_TOKENS, BLOCK_NUMBERS // (1 + self.assembly.token_size)))
        if self.offsets[-1] <= limit:
            return [(0, len(self.offsets) - 1)]
        return sentence_ranges(self.offsets, limit)

    def of(self, begin: int, end: int) -> tuple[Array, Array]:
        """Scores of the nodes [T, Q] and of the arcs [T or 1, A] of the sentences begin:end."""
        offsets = self.offsets[begin : end + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        rows = {name: self._rows.of(name, first, last) for name in self._rows.names}
        node = self.assembly.nodes(rows, self._plain, offsets)
        return node, self.assembly.arcs(rows, self._plain)


def bounds_of(offsets: Array) -> list[tuple[int, int]]:
    """First token and end of each sentence."""
    return list(pairwise((offsets - offsets[0]).tolist()))
