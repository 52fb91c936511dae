"""How often a CRF with pruned labels uses each label on data: counts of candidates alone, so that thousands of labels
take little memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Corpus
from labelwright.inspection.linear import _expected_transitions
from labelwright.inspection.use import OUTSIDE, StateView, pieces, ranked, shares, typical_words

Array = NDArray[Any]


class SparseCounts:
    """A table of sums of which most are 0."""

    def __init__(self, n_columns: int):
        self.n_columns = n_columns
        self._code: Array = np.empty(0, np.int64)
        self._value: Array = np.empty(0)

    def add(self, row: Array, column: Array, value: Array) -> None:
        """Add numbers to some cells."""
        code = np.concatenate([self._code, np.asarray(row, np.int64) * self.n_columns + column])
        self._code, place = np.unique(code, return_inverse=True)
        self._value = np.bincount(place, np.concatenate([self._value, value]), len(self._code))

    def rows(self, n_rows: int) -> list[tuple[Array, Array]]:
        """The columns of each row and their sums."""
        ends = np.searchsorted(self._code, np.arange(1, n_rows) * self.n_columns)
        codes, values = np.split(self._code, ends), np.split(self._value, ends)
        return [(code % self.n_columns, value) for code, value in zip(codes, values, strict=True)]


def describe_use(model: Any, corpora: Sequence[Any], top: int) -> dict[str, Any]:
    """The labels by their expected use on data, ready for JSON."""
    L, index = model._space.n_labels, dict[str, int]()
    states, before, after = np.zeros(L), SparseCounts(L + 1), SparseCounts(L + 1)
    words = SparseCounts(1 << 31)  # by label
    for corpus in corpora:
        for piece in pieces(corpus):
            answers = model._ask(piece, lambda batch: [_use_of(sentence, L) for sentence in batch])
            label, share = (np.concatenate([use[k] for use in answers]) for k in (1, 2))
            states += np.bincount(label, share, L)
            first, second, count = (np.concatenate([use[k] for use in answers]) for k in (3, 4, 5))
            before.add(second, first, count)
            after.add(first, second, count)
            if isinstance(piece, Corpus):  # only files have words
                words.add(label, _words(piece, [use[0] for use in answers], index), share)
    views = _views(model._space.labels, states, words, before, after, list(index), top)
    return {"use": [view._asdict() for view in views]}


def _use_of(sentence: Any, n_labels: int) -> tuple[Array, ...]:
    """The token, the label and the probability of every candidate, and the expected number of all pairs of labels that
    follow each other (label L: outside the sentence), as first, second, number."""
    if sentence is None:
        none = np.empty(0, np.int64)
        return none, none, np.empty(0), none, none, np.empty(0)
    token, label, share = sentence.candidate_marginals()
    local = sentence.possible.local
    expected = _expected_transitions(local.chain.lattice, local.chain.posterior())
    first, second = np.nonzero(expected)
    codes = np.append(local.codes, n_labels)
    return token, label, share, codes[first], codes[second], expected[first, second]


def _words(piece: Corpus, tokens: list[Array], index: dict[str, int]) -> Array:
    """The number of the word of every candidate of some sentences; new words are put into the index."""
    name = piece.input_names[0]
    number = np.array([index.setdefault(value, len(index)) for value in piece.values(name)], np.int64)
    offsets = np.asarray(piece.offsets)[:-1].tolist()
    token = np.concatenate([first + within for first, within in zip(offsets, tokens, strict=True)])
    codes: Array = number[piece.codes(name)[token]]
    return codes


def _views(
    labels: Sequence[str],
    states: Array,
    words: SparseCounts,
    before: SparseCounts,
    after: SparseCounts,
    values: list[str],
    top: int,
) -> list[StateView]:
    """Every label as the data show it, the most frequent first."""
    L, around, share = len(labels), [*labels, OUTSIDE], shares(states)
    rows = words.rows(L)
    total = np.zeros(len(values))
    for word, count in rows:
        total[word] += count
    neighbours = list(zip(before.rows(L + 1), after.rows(L + 1), strict=True))
    views = []
    for k in range(L):
        mine = np.zeros(len(values))
        mine[rows[k][0]] = rows[k][1]
        typical = typical_words(mine, total, values, top) if len(values) else []
        beside = [
            ranked(shares(count), [around[s] for s in state.tolist()], top, 0.0) for state, count in neighbours[k]
        ]
        views.append(StateView(labels[k], labels[k], float(share[k]), typical, [], *beside))
    return sorted(views, key=lambda view: -view.share)
