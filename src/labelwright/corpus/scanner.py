"""Files of columns become numbers: one pass over the bytes finds tokens and sentences, and interns
every value (kernels.text)."""

from typing import NamedTuple

import numpy as np

from labelwright.arrays import ranges
from labelwright.kernels import text as kernels
from labelwright.kernels.tables import BASE

NEWLINE = 10
SHORTEST_MARK = 8  # bytes of the shortest line that marks a document, # newdoc
FEW_VALUES = 1 << 12  # for which there is room at first

# Fields of one row of `entries`: where a distinct value first occurs, its length, its column, its
# code there, its hash.
START, SIZE, COLUMN, CODE, KEY = 0, 1, 2, 3, 4


class Scanned(NamedTuple):
    """The result of one pass over a text."""

    codes: np.ndarray  # [C, T] int32  the number of each value in its column
    starts: np.ndarray  # [T] int64     where the edited column begins in the text
    ends: np.ndarray  # [T] int64
    offsets: np.ndarray  # [N+1] int64   sentence n is tokens offsets[n]:offsets[n+1]
    marks: np.ndarray  # [D] int64     ends of the lines that mark documents
    documents: np.ndarray  # [D] int64     the sentences that marks precede
    entries: np.ndarray  # [V, 5] int64  distinct values of all columns in order of appearance
    fail: int  # start of the first line with a wrong number of columns, or -1
    got: int  # its number of columns


def scan(
    text: np.ndarray, begin: int, n_columns: int, tabs: bool, conllu: bool, edited: int
) -> Scanned:
    """Scan text [B] from `begin` on: columns are separated by tabs, or by spaces and tabs; blank
    lines end sentences."""
    lines = int(np.count_nonzero(text == NEWLINE))
    # each value has a separator; the last line may be short
    rows = 1 + min(lines, (len(text) + 1) // (2 * n_columns))
    most_marks = 1 + min(lines, len(text) // SHORTEST_MARK)
    codes = np.empty((n_columns, rows), np.int32)
    starts, ends, offsets = (
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.zeros(rows + 1, np.int64),
    )
    marks, documents = np.empty(most_marks, np.int64), np.empty(most_marks, np.int64)
    slots = np.full(2 * FEW_VALUES, -1, np.int64)
    entries = np.empty((FEW_VALUES + n_columns, 5), np.int64)
    distinct = np.zeros(n_columns, np.int64)
    state = np.array([begin, 0, 0, 0, 0, 0, -1, 0, BASE], np.int64)
    read = text, tabs, conllu, edited, codes, starts, ends, offsets, marks, documents
    while kernels.scan_lines(*read, slots, entries, distinct, state):
        slots, entries = _grown(slots, entries, int(state[5]))
    _, t, n, m, d, v, fail, got, _ = state.tolist()
    return Scanned(
        codes[:, :t],
        starts[:t],
        ends[:t],
        offsets[: n + 1],
        marks[:m],
        documents[:d],
        entries[:v],
        fail,
        got,
    )


def _grown(slots: np.ndarray, entries: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table four times as large that holds the first n entries."""
    more = np.empty((4 * len(entries), entries.shape[1]), np.int64)
    more[:n] = entries[:n]
    slots = np.full(4 * len(slots), -1, np.int64)
    kernels.refill(slots, more, n)
    return slots, more


def gather(text: np.ndarray, entries: np.ndarray, column: int) -> np.ndarray:
    """Copy the distinct values of one column into one buffer, each followed by a newline."""
    chosen = entries[entries[:, COLUMN] == column]
    sizes = chosen[:, SIZE] + 1
    buffer = text.take(ranges(chosen[:, START], sizes), mode="clip")
    buffer[np.cumsum(sizes) - 1] = NEWLINE
    return buffer
