"""From scores of states, pairs and triples of states to scores of nodes and arcs.

Of first order, states are nodes and pairs are arcs.  Of second order, pairs are nodes, which the score of their second
state belongs to as well, and triples are arcs.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.features.incidence import Incidence, with_frequent_keys
from labelwright.kernels import chain
from labelwright.scoring.parameters import REACH, Cells, Parameters
from labelwright.structures.graph import Graph
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
WIDE = 128  # columns of a row of scores, from which on only keys of so many tokens get a row in a table,
FREQUENT = 5
TABLE_NUMBERS = 1 << 27  # or of more, where the table would have more numbers than this


class Plain(NamedTuple):
    """The scores of plain moves, where features do not count."""

    node: Array  # [Q]
    arc: Array  # [A]


def tables_for(
    layers: dict[str, Incidence], row_width: dict[str, int], value: int = 1, shared: int = 1
) -> dict[str, Incidence]:
    """The features on states, pairs and triples, with tables only for keys of `shared` tokens or, where rows are wide,
    for frequent keys; `value` is that of features which leave their keys."""
    tables = {}
    for name, incidence in layers.items():
        width = row_width[name]
        least = shared if width <= WIDE else FREQUENT
        tables[name] = incidence if least == 1 else with_frequent_keys(incidence, least, value)
        least = max(least, FREQUENT)
        while tables[name].n_keys * width > TABLE_NUMBERS:
            least *= 4
            tables[name] = with_frequent_keys(incidence, least, value)
    return tables


class Assembly:
    """Where the columns of each layer belong; rows hold the pairs and triples that have a weight, and a column of 0."""

    def __init__(self, space: StateSpace, parameters: Parameters, graph: Graph | None = None):
        self.graph = graph or space.graph
        self.order, S = self.graph.order, space.n_states
        self.width = self.graph.width
        self.parts = parameters.slices
        self.arc_layer = {1: "edge", 2: "triple"}[self.order]
        if self.order == 1:
            stride = self.graph.contexts.base[1] if S > 1 else 1
            moves = {"transitions": (np.arange(S)[:, None] * stride + np.arange(S)).reshape(-1)}
        else:
            moves = {"transitions": self.graph.node_of_pair, "triples": self.graph.arc_of_triple}
        self.moves = moves  # node or arc of every plain move
        self.cells: dict[str, Cells] = {}  # with columns of the rows
        self.used: dict[str, Array] = {}  # node or arc of every column
        self.row_width: dict[str, int] = {}
        for name, cells in parameters.cells.items():
            if name == "state":
                self.cells[name], self.row_width[name] = cells, self.width if self.order == 1 else -(-S // 4) * 4
                continue
            has_weight = np.zeros(S ** (REACH[name] + 1), np.bool_)
            has_weight[cells.column] = True
            used = np.flatnonzero(has_weight)
            self.used[name] = moves["transitions" if name == "edge" else "triples"][used]
            self.cells[name] = cells._replace(column=(np.cumsum(has_weight, dtype=np.int32) - 1)[cells.column])
            self.row_width[name] = -(-(len(used) + 1) // 4) * 4
        self.by_token = self.arc_layer in self.used
        self.forbidden_arcs = np.zeros(self.graph.n_arcs, np.bool_)
        self.forbidden_nodes = np.zeros(self.width, np.bool_)
        if self.order == 1:
            self.forbidden_arcs[:] = True
            self.forbidden_arcs[moves["transitions"]] = ~space.arc.reshape(-1)
        else:
            there = moves["transitions"] >= 0
            self.forbidden_nodes[moves["transitions"][there]] = ~space.arc.reshape(-1)[there]
        self.inner = np.flatnonzero(self.graph.previous >= 0)  # of order 2: nodes that cannot be first
        self.first = np.flatnonzero(self.graph.previous < 0)  # of order 2: nodes that cannot be later
        self.no_start = np.flatnonzero(~space.start[self.graph.state] & (self.graph.previous < 0))
        self.no_end = np.flatnonzero(~space.end[self.graph.state])

    @property
    def token_size(self) -> int:
        """How many numbers every token has besides its rows: all its nodes (order 2), all its arcs; 0 for neither."""
        return (self.width if self.order == 2 else 0) + (self.graph.n_arcs if self.by_token else 0)

    def layers(self, layers: dict[str, Incidence], value: int = 1, shared: int = 1) -> dict[str, Incidence]:
        """The features, as the width of their rows asks for (see tables_for)."""
        return tables_for(layers, self.row_width, value, shared)

    def plain(self, weights: Array) -> Plain:
        """Scores of all plain moves [Q], [A] in float64; minus infinity for those the space forbids."""
        node, arc = self.weights_of_moves(weights)
        node[self.forbidden_nodes] = -np.inf
        arc[self.forbidden_arcs] = -np.inf
        return Plain(node, arc)

    def weights_of_moves(self, weights: Array) -> Plain:
        """The weights of all plain moves, forbidden or not [Q], [A]."""
        node, arc = np.zeros(self.width), np.zeros(self.graph.n_arcs)
        for name, places in self.moves.items():
            there = places >= 0
            scores = node if self.order == 2 and name == "transitions" else arc
            scores[places[there]] = weights[self.parts[name]][there]
        return Plain(node, arc)

    def moved(self, node: Array, arc: Array, gradient: Array) -> None:
        """The adjoint of `weights_of_moves`: numbers of nodes [Q] and arcs [A] become those of the plain moves."""
        for name, places in self.moves.items():
            there = places >= 0
            sums = node if self.order == 2 and name == "transitions" else arc
            gradient[self.parts[name]][there] = sums[places[there]]

    def nodes(self, rows: dict[str, Array], plain: Plain, offsets: Array) -> Array:
        """Scores of the nodes [T, Q] of sentences, from rows of scores (of order 1: the row of states itself)."""
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
        """Shut out the nodes that may not begin or end a sentence."""
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
        row = rows[self.arc_layer]
        arc = np.empty((len(row), self.graph.n_arcs), row.dtype)
        chain.spread_arcs(row, self.used[self.arc_layer], plain.arc.astype(row.dtype), arc)
        return arc
