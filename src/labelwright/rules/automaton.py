"""Formulas as an automaton that reads the labels of a sentence from left to right.

The automaton is never written down: its states are rows of whole numbers, one for each *atom* (a
weighted sum of events, or the state of a Language), and all steps from some states by some labels
are computed at once.  As soon as an atom is decided, whatever follows, its value is HOLDS or FAILS,
and when the formula is decided, all its atoms are DONE: states that differed in them alone become
one.  So `at_most(2, "PER")` has three states and `agree(3, 7)` one for each label, between these
tokens alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelwright.rules.formulas import All, Event, Formula, Language, Not, Row
from labelwright.rules.rules import Bound
from labelwright.structures.lattice import Lattice

Array = NDArray[Any]
DONE = np.iinfo(np.int64).min
FAILS, HOLDS = DONE + 1, DONE + 2
SETTLED = HOLDS  # up to here, values are no sums and no states
FALSE, OPEN, TRUE = 0.0, 0.5, 1.0  # all of: the least; some of: the largest; not: 1 - x
BEGIN = -1  # the label before the first token


# -- rules on one token, or on two neighbours ------------------------------------------------------


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
    """The lattice without the labels, and the pairs of neighbouring labels, that are not
    permitted."""
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
        arc = np.broadcast_to(arc, (len(node), arc.shape[1])).copy()
        inside = np.flatnonzero((source < graph.n_nodes) & (target < graph.n_nodes))
        labels = of[source[inside]], of[target[inside]]
        for t, permitted in pairs.items():
            arc[t, inside[~permitted[labels]]] = -np.inf
    return Lattice(node, arc, graph)


# -- the automaton ---------------------------------------------------------------------------------


class States(NamedTuple):
    """States of the automaton between two tokens."""

    values: Array  # [K, R]  of the atoms
    before: Array  # [K]  the class of the label before (see Automaton)


class Steps(NamedTuple):
    """Where some states lead by some labels."""

    states: States  # all that are reached
    following: Array  # [K, G]  number of the state reached; -1: a hard rule is broken
    cost: Array  # [K, G]  price of the soft rules that are broken by this step


class _Tree(NamedTuple):
    """A formula whose atoms are numbers."""

    kind: type[Any]  # All, Some, Not; Row for an atom
    parts: "tuple[_Tree, ...]"
    atom: int = -1


Weighted: TypeAlias = tuple[Formula, float | None]  # a formula and its price; None: it must hold


class TooFarApartError(Exception):
    """An event of tokens that are not neighbours."""


class Automaton:
    """The automaton of formulas over the labels of T tokens.

    Labels that every event treats alike as the label *before* a token are one class: states
    remember no more.

    possible : the labels [T, L] that tokens may have, and so what can still happen; None: all"""

    def __init__(
        self,
        formulas: Sequence[Weighted],
        labels: Sequence[str],
        T: int,
        local: Local = NOTHING,
        possible: Array | None = None,
    ):
        self.labels, self.T, self.local = tuple(labels), T, local
        self._masks: dict[frozenset[str], Array] = {}
        self.atoms: list[Row | Language] = []
        self.trees = [(self._tree(formula), price) for formula, price in formulas]
        self._members = [(tree, sorted(_atoms(tree)), price) for tree, price in self.trees]
        rows = [atom for atom in self.atoms if isinstance(atom, Row)]
        sets = {event[0][1] for row in rows for _, event in row.terms if len(event) > 1}
        self.classes = self._classes(sorted(sets, key=sorted))  # [L+1], the last one of BEGIN
        _, self._first_of_class = np.unique(self.classes, return_index=True)
        self._gains = [
            np.zeros((self.n_classes, len(labels), len(self.atoms)), np.int64) for _ in range(T)
        ]
        self._tables = {
            r: self._table(atom) for r, atom in enumerate(self.atoms) if isinstance(atom, Language)
        }
        for r, atom in enumerate(self.atoms):
            if isinstance(atom, Row):
                for coefficient, event in atom.terms:
                    self._add(r, coefficient, event)
        some = np.ones((T, len(labels)), np.bool_) if possible is None else possible
        gains = [gain[:, some[t]] for t, gain in enumerate(self._gains)]
        least = np.array([gain.min(axis=(0, 1), initial=0) for gain in gains]).reshape(T, -1)
        most = np.array([gain.max(axis=(0, 1), initial=0) for gain in gains]).reshape(T, -1)
        # [T, R]  of all tokens after t
        self._least, self._most = (_after(part) for part in (least, most))

    @property
    def n_classes(self) -> int:
        return len(self._first_of_class)

    # -- construction ------------------------------------------------------------------------------

    def _tree(self, formula: Formula) -> _Tree:
        if isinstance(formula, Row | Language):
            self.atoms.append(formula)
            return _Tree(Row, (), len(self.atoms) - 1)
        parts = (formula.part,) if isinstance(formula, Not) else formula.parts
        return _Tree(type(formula), tuple(self._tree(part) for part in parts))

    def _mask(self, names: frozenset[str]) -> Array:
        if names not in self._masks:
            self._masks[names] = np.array([label in names for label in self.labels])
        return self._masks[names]

    def _classes(self, sets: Sequence[frozenset[str]]) -> Array:
        """The class of every label [L] and, the last, of the beginning."""
        pairs = list({id(pairs): pairs for pairs in self.local.pairs.values()}.values())
        keys = [
            (
                tuple(label in names for names in sets),
                *(permitted[i].tobytes() for permitted in pairs),
            )
            for i, label in enumerate(self.labels)
        ]
        numbers = {key: n for n, key in enumerate(dict.fromkeys(keys))}
        return np.array([*(numbers[key] for key in keys), len(numbers)])

    def _add(self, r: int, coefficient: int, event: Event) -> None:
        """Count an event for an atom, at its last token."""
        tokens = sorted({t for t, _ in event})
        if not tokens or tokens[-1] - tokens[0] > 1:
            raise TooFarApartError
        happens = np.ones((self.n_classes, len(self.labels)), np.bool_)
        for t, names in event:
            if t == tokens[-1]:
                happens &= self._mask(names)
            else:
                happens &= np.append(self._mask(names), False)[self._first_of_class][:, None]
        self._gains[tokens[-1]][:, :, r] += coefficient * happens

    def _table(self, language: Language) -> tuple[Array, Array]:
        """The next state [states, L], and whether a state is decided [states]: TRUE, FALSE or
        OPEN."""
        table = np.array(language.table)[:, [language.column[label] for label in self.labels]]
        reached = np.eye(len(table), dtype=np.bool_)
        for _ in range(len(table)):
            further = reached | _onwards(reached, table)
            if (further == reached).all():
                break
            reached = further
        final = np.array(language.final)
        always, ever = (~reached | final).all(axis=1), (reached & final).any(axis=1)
        return table, np.where(always, TRUE, np.where(ever, OPEN, FALSE))

    # -- reading -----------------------------------------------------------------------------------

    def begin(self) -> States:
        """The state before the first token."""
        return States(np.zeros((1, len(self.atoms)), np.int64), np.array([self.classes[BEGIN]]))

    def read(self, t: int, states: States, labels: Array) -> Steps:
        """Where these states lead by each of these labels [G] of token t."""
        values, before = states
        K, G, R = len(values), len(labels), len(self.atoms)
        before_rows = np.repeat(values, G, axis=0)
        settled = before_rows <= SETTLED
        reached = np.where(settled, 0, before_rows).reshape(K, G, R)
        for r, (table, _) in self._tables.items():
            reached[:, :, r] = table[reached[:, 0, r]][:, labels]
        reached += self._gains[t][before][:, labels]
        rows: Array = reached.reshape(K * G, R)
        rows[settled] = before_rows[settled]
        alive, cost = self._decide(t, rows)
        alive &= self._permitted(t, before, labels).reshape(-1)
        after = np.tile(self.classes[labels], K)
        following = np.full(K * G, -1)
        kept = np.flatnonzero(alive)
        first, following[kept] = _distinct(rows[kept], after[kept])
        chosen = kept[first]
        return Steps(
            States(rows[chosen], after[chosen]), following.reshape(K, G), cost.reshape(K, G)
        )

    def _permitted(self, t: int, before: Array, labels: Array) -> Array:
        """Whether token t may have these labels after those of the states [K, G]."""
        permitted = np.ones((len(before), len(labels)), np.bool_)
        if t in self.local.labels:
            permitted &= self.local.labels[t][labels]
        if t in self.local.pairs:  # there is a token before
            permitted &= self.local.pairs[t][self._first_of_class[before]][:, labels]
        return permitted

    def _decide(self, t: int, values: Array) -> tuple[Array, Array]:
        """Mark what is decided after token t in values [n, R]; which states break no hard rule [n],
        and the prices of soft rules that are broken now [n]."""
        alive, cost = np.ones(len(values), np.bool_), np.zeros(len(values))
        for tree, atoms, price in self._members:
            if not atoms:
                truth = self._truth(t, tree, values)
                # nothing to wait for, but one token must pay
                fresh = np.full(len(values), t == self.T - 1)
            else:
                truth, fresh = self._truth(t, tree, values), values[:, atoms[0]] != DONE
            decided = fresh & (truth != OPEN)
            broken = decided & (truth == FALSE)
            if price is None:
                alive &= ~broken
            else:
                cost[broken] += price
            for r in atoms:
                values[decided, r] = DONE
        return alive, cost

    def _settle(self, t: int, atom: int, values: Array) -> Array:
        """The truth of an atom after token t [n]; where it is decided, its value says so."""
        truth = self._truth_of_atom(t, atom, values[:, atom])
        live = values[:, atom] > SETTLED
        values[live & (truth == TRUE), atom] = HOLDS
        values[live & (truth == FALSE), atom] = FAILS
        return truth

    def _truth(self, t: int, tree: _Tree, values: Array) -> Array:
        """TRUE, FALSE or OPEN after token t, for each of the states [n]."""
        if tree.kind is Row:
            return self._settle(t, tree.atom, values)
        parts = [self._truth(t, part, values) for part in tree.parts]
        if tree.kind is Not:
            return 1 - parts[0]
        if not parts:
            return np.full(len(values), TRUE if tree.kind is All else FALSE)
        return np.asarray((np.minimum if tree.kind is All else np.maximum).reduce(parts))

    def _truth_of_atom(self, t: int, r: int, value: Array) -> Array:
        atom = self.atoms[r]
        known = np.where(value == HOLDS, TRUE, FALSE)
        settled, value = value <= SETTLED, np.where(value <= SETTLED, 0, value)
        if isinstance(atom, Language):
            _, decided = self._tables[r]
            now = np.array(atom.final).astype(np.float64) if t == self.T - 1 else decided
            return np.where(settled, known, now[value])
        least, most = value + self._least[t, r], value + self._most[t, r]
        low = -np.inf if atom.low is None else atom.low
        high = np.inf if atom.high is None else atom.high
        outside = (most < low) | (least > high)
        truth = np.where(outside, FALSE, np.where((least >= low) & (most <= high), TRUE, OPEN))
        return np.where(settled, known, truth)


def _onwards(reached: Array, table: Array) -> Array:
    """States [n, n] that are one label behind those reached."""
    onwards = np.zeros_like(reached)
    for column in table.T:
        np.logical_or.at(onwards.T, column, reached.T)
    return onwards


def _after(gains: Array) -> Array:
    """The sum of all later rows, for each row [T, R]."""
    return np.asarray(np.cumsum(gains[::-1], axis=0)[::-1] - gains)


def _atoms(tree: _Tree) -> list[int]:
    return (
        [tree.atom] if tree.kind is Row else [atom for part in tree.parts for atom in _atoms(part)]
    )


def _distinct(values: Array, last: Array) -> tuple[Array, Array]:
    """Rows that differ in `values` [n, R] or `last` [n]: the first place of each, and its number
    for every row."""
    code, size = last.astype(np.int64), int(last.max(initial=0)) + 1
    for column in values.T:
        settled = column <= SETTLED
        low = int(column.min(initial=0, where=~settled)) - 3
        width = int(column.max(initial=0, where=~settled)) - low + 1
        if size > (1 << 62) // width:  # too large a number: renumber what there is
            distinct, code = np.unique(code, return_inverse=True)
            size = len(distinct)
        code = code * width + np.where(settled, column - DONE, np.where(settled, 0, column) - low)
        size *= width
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    return first, number
