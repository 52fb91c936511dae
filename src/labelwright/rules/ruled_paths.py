"""The best labellings under rules by automata, proven, without a solver.

The product of the graph with the automaton of *all* rules may be large: "every label at most once" has a state for
every set of labels.  Two relaxations keep it small, and neither loses the optimum:

- rules are added when they are broken: the best labellings under some of the rules that satisfy all of them are the
  best under all;
- only arcs on paths within `reach` of the best path are kept: labellings within that reach beat all that use others.

Sums need all rules at once, and all arcs.  Where that is too large, what is improbable without the rules is left out,
as much as changes no sum by more than `PRECISION` of it (see product.Beam).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.locks import computed_once
from labelwright.rules.automaton import Automaton, TooFarApartError
from labelwright.rules.formulas import holds
from labelwright.rules.labelled_graphs import GraphSums, LabelledGraph
from labelwright.rules.local import NOTHING, Local, Unit, is_local, local_rules, units_of
from labelwright.rules.product import TINY, Beam, Product, Size, TooLargeError, product
from labelwright.rules.program import ADVICE, InfeasibleError, contradiction
from labelwright.rules.rules import Bound
from labelwright.structures import dag

Array = NDArray[Any]
FIRST_ARCS = 8  # for each token, within the first reach,
GROWTH = 4  # and how many times as many in the next
WHOLE = Size(1 << 20, 1 << 22)  # of a product for sums
PRECISION = 1e-7  # of sums, where a product has not all arcs: relative,
ROUNDS = 5  # after so many tries at most
SLACK = 1e-9  # rounding must not exclude the optimum


class Path(NamedTuple):
    """A path of a labelled graph."""

    value: float  # its score less the price of soft rules
    arcs: Array  # of the graph
    codes: Array  # [T]  its labels


class RuledPaths:
    """The labellings of one sentence under rules.

    units : the rules that automata follow
    local : those on tokens and neighbours that the graph does not know yet"""

    def __init__(
        self, graph: LabelledGraph, units: Sequence[Unit], labels: Sequence[str], T: int, local: Local = NOTHING
    ):
        self.graph, self.units, self.labels, self.T, self.local = graph, list(units), tuple(labels), T, local

    @staticmethod
    def of(graph: LabelledGraph, bound: Bound, labels: Sequence[str], T: int) -> "RuledPaths":
        """The labellings of a graph under the rules of its sentence."""
        units = units_of(bound)
        others = [unit for unit in units if not is_local(unit)]
        return RuledPaths(graph, others, labels, T, local_rules(units, labels))

    @computed_once
    def _sums(self) -> GraphSums:
        return self.graph.sums()

    def _automaton(self, units: Sequence[Unit], possible: Array | None = None) -> Automaton:
        try:
            return Automaton([(unit.formula, unit.price) for unit in units], self.labels, self.T, self.local, possible)
        except TooFarApartError:
            raise TooLargeError from None

    def broken(self, codes: Array) -> list[int]:
        """The numbers of the units that a labelling breaks."""
        labels = [self.labels[code] for code in codes.tolist()]
        return [number for number, unit in enumerate(self.units) if not holds(unit.formula, labels)]

    def best(self, n: int = 1, known: Array | None = None) -> list[Path]:
        """Up to n best paths whose labels satisfy the rules; none where there is none.  With latent states, several
        may have the same labels.

        known : the labels [T] of the best path without rules"""
        loss, top = self.graph.losses()
        if top == -np.inf:
            return []
        slack = SLACK * (1 + abs(top))
        order = np.sort(loss)
        n_arcs, reach = FIRST_ARCS * self.T, None
        active = set(self.broken(known)) if known is not None else set[int]()
        while True:
            limit = (order[min(n_arcs, len(order)) - 1] if reach is None else reach) + slack
            whole = limit >= order[-1]
            paths = self._paths(np.flatnonzero(loss <= limit), sorted(active), n)
            fresh = {u for path in paths for u in self.broken(path.codes)} - active
            if fresh:
                active |= fresh
            elif whole or (len(paths) == n and top - paths[-1].value <= limit):
                return paths
            elif len(paths) == n:
                reach = top - paths[-1].value
            else:
                n_arcs, reach = n_arcs * GROWTH, None

    def _paths(self, kept: Array, active: Sequence[int], n: int) -> list[Path]:
        """The n best paths along some arcs under some rules."""
        made = product(self.graph.arcs.taken(kept), self.graph.sinks, self._automaton([self.units[u] for u in active]))
        if not len(made.arc):
            return []
        if n == 1:
            path, score = dag.best_path(made.dag, made.score)
            return [self._path(kept[made.arc[path]], score)] if len(path) else []
        paths, scores = dag.best_paths(made.dag, made.score, n)
        return [self._path(kept[made.arc[path]], score) for path, score in zip(paths, scores.tolist(), strict=True)]

    def _path(self, arcs: Array, value: float) -> Path:
        labels = self.graph.arcs.label[arcs]
        return Path(float(value), arcs, labels[labels >= 0])

    def whole(self) -> Product:
        """The product with all rules: its sums are those of all labellings that satisfy them, within PRECISION."""
        try:
            return product(self.graph.arcs, self.graph.sinks, self._automaton(self.units), None, WHOLE)
        except TooLargeError:
            pass
        share = PRECISION / 2
        for _ in range(ROUNDS):
            made = self._likely(share)
            if made.error <= PRECISION:
                return made
            share *= PRECISION / made.error / 2
        raise TooLargeError

    def _likely(self, share: float) -> Product:
        """The product without paths that have at most this share of the weight of all paths without rules."""
        arcs, sums = self.graph.arcs, self._sums
        order = np.argsort(sums.arcs, kind="stable")
        losses = np.cumsum(np.maximum(sums.arcs[order], TINY))
        n_lost = int(np.searchsorted(losses, share / 2, side="right"))
        kept = np.sort(order[n_lost:])
        possible = np.zeros((self.T, len(self.labels)), np.bool_)
        reads = kept[arcs.label[kept] >= 0]
        possible[arcs.token[reads], arcs.label[reads]] = True
        beam = Beam(share / 2, float(losses[n_lost - 1]) if n_lost else 0.0, sums.log_z, sums.behind)
        made = product(arcs.taken(kept), self.graph.sinks, self._automaton(self.units, possible), beam, WHOLE)
        return made._replace(arc=kept[made.arc])


def contradiction_in(graph: LabelledGraph, bound: Bound, labels: Sequence[str], T: int, number: int) -> InfeasibleError:
    """The error where no labelling of a graph satisfies the hard rules."""

    def impossible(wanted: Bound, seconds: float) -> bool:
        try:
            return not RuledPaths.of(graph, wanted, labels, T).best()
        except TooLargeError:
            return False

    return contradiction(number, bound, impossible, ADVICE)
