"""Rules on one token, or on two neighbours: which labels and pairs of labels they leave."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.rules.formulas import All, Formula, Row
from labelwright.rules.rules import Bound
from labelwright.structures.lattice import Lattice

Array = NDArray[Any]


class Local(NamedTuple):
    """What tokens may have."""

    labels: dict[int, Array]  # token: which labels [L]
    pairs: dict[int, Array]  # second token: which pairs of labels [L, L]


class Unit(NamedTuple):
    """A part of the rules that can be broken by itself."""

    name: str  # of the rule
    formula: Formula
    price: float | None  # None: it must hold


NOTHING = Local({}, {})


def units_of(bound: Bound) -> list[Unit]:
    """The rules in parts: a hard rule that requires several things is several units."""
    hard = [Unit(name, part, None) for name, formula in bound.hard for part in _parts(formula)]
    return hard + [Unit(*rule) for rule in bound.soft]


def _parts(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, All):
        for part in formula.parts:
            yield from _parts(part)
    else:
        yield formula


def is_local(unit: Unit) -> bool:
    """Is it a hard rule on one token, or on two neighbours?"""
    if unit.price is not None or not isinstance(unit.formula, Row):
        return False
    first, last = None, None
    for _, event in unit.formula.terms:
        for t, _ in event:
            first, last = t if first is None else min(first, t), t if last is None else max(last, t)
            if last - first > 1:
                return False
    return first is not None


def local_rules(units: Sequence[Unit], labels: Sequence[str]) -> Local:
    """What those of the rules that are local leave to the tokens."""
    local = Local({}, {})
    masks: dict[frozenset[str], Array] = {}
    known: dict[tuple[Any, ...], Array] = {}  # the same table for the same rule at another token

    def mask(names: frozenset[str]) -> Array:
        if names not in masks:
            masks[names] = np.array([label in names for label in labels])
        return masks[names]

    for unit in units:
        row = unit.formula
        if not is_local(unit) or not isinstance(row, Row):
            continue
        places = sorted({t for _, event in row.terms for t, _ in event})
        last, two = places[-1], len(places) == 2
        key = (
            two, row.low, row.high,
            tuple((c, tuple((t == last, names) for t, names in event)) for c, event in row.terms),
        )  # fmt: skip
        if key not in known:
            known[key] = _permitted(row, last, two, len(labels), mask)
        kept, permitted = (local.pairs if two else local.labels), known[key]
        kept[last] = permitted if last not in kept else _both(kept[last], permitted, known)
    return local


def _both(one: Array, other: Array, known: dict[tuple[Any, ...], Array]) -> Array:
    """Both tables, made once for all tokens that have the same two."""
    key = id(one), id(other)
    if key not in known:
        known[key] = one & other
    return known[key]


def _permitted(row: Row, last: int, two: bool, L: int, mask: Any) -> Array:
    """The labels [L], or pairs of labels [L, L], for which a row holds."""
    total = np.zeros((L, L) if two else (1, L), np.int64)
    for coefficient, event in row.terms:
        part = np.ones_like(total, np.bool_)
        for t, names in event:
            part &= mask(names) if t == last else mask(names)[:, None]
        total += coefficient * part
    permitted = np.ones_like(total, np.bool_)
    if row.low is not None:
        permitted &= total >= row.low
    if row.high is not None:
        permitted &= total <= row.high
    return permitted if two else permitted[0]


def masked(lattice: Lattice, local: Local) -> Lattice:
    """The lattice without the labels, and the pairs of neighbouring labels, that are not permitted."""
    if not local.labels and not local.pairs:
        return lattice
    node, arc, graph = lattice.node.copy(), lattice.arc, lattice.graph
    of = graph.label_of_node
    for t, permitted in local.labels.items():
        node[t, : graph.n_nodes][~permitted[of]] = -np.inf
    pairs = {t: permitted for t, permitted in local.pairs.items() if not permitted.all()}
    if pairs and graph.order == 2:
        inner = np.flatnonzero(graph.previous >= 0)
        labels = graph.label_of_state[graph.previous[inner]], of[inner]
        for t, permitted in pairs.items():
            node[t, inner[~permitted[labels]]] = -np.inf
    elif pairs:
        source, target = graph.ends
        arc = np.array(np.broadcast_to(arc, (len(node), arc.shape[1])))
        inside = np.flatnonzero((source < graph.n_nodes) & (target < graph.n_nodes))
        labels = of[source[inside]], of[target[inside]]
        for t, permitted in pairs.items():
            arc[t, inside[~permitted[labels]]] = -np.inf
    return Lattice(node, arc, graph)
