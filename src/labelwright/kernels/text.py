"""The byte scanner: one pass over a file of columns splits lines, ends sentences and interns every
value."""

from typing import NamedTuple

import numpy as np

from labelwright.kernels import compiled, kernel
from labelwright.kernels.common import ranges
from labelwright.kernels.tables import BASE, first_slot, hash_with

NEWLINE, RETURN, TAB, SPACE, HASH, MINUS, DOT = 10, 13, 9, 32, 35, 45, 46
DOCSTART = np.frombuffer(b"-DOCSTART-", dtype=np.uint8)
NEWDOC = np.frombuffer(b"# newdoc", dtype=np.uint8)

# Fields of one row of `entries`: where a distinct value first occurs, its length, its column, its
# code there, its hash.
START, SIZE, COLUMN, CODE, KEY = 0, 1, 2, 3, 4


@kernel
def line_end(text, k):
    """Return where the line that holds k ends: the place of its newline, or the end of the text."""
    while k < len(text) and text[k] != NEWLINE:
        k += 1
    return k


@kernel
def trimmed(text, a, b):
    """Return the end of line a..b without a carriage return and trailing spaces and tabs."""
    if b > a and text[b - 1] == RETURN:
        b -= 1
    while b > a and (text[b - 1] == SPACE or text[b - 1] == TAB):
        b -= 1
    return b


@kernel
def blank_at(text, a):
    """Whether the line that starts at a is blank; so is the end of the text."""
    return a >= len(text) or trimmed(text, a, line_end(text, a)) == a


@kernel
def begins(text, a, b, prefix):
    """Whether the bytes a..b begin with prefix as a whole word."""
    if b - a < len(prefix):
        return False
    for k in range(len(prefix)):
        if text[a + k] != prefix[k]:
            return False
    return b - a == len(prefix) or text[a + len(prefix)] == SPACE or text[a + len(prefix)] == TAB


@kernel
def slot_of(text, f, g, column, key, slots, entries):
    """Find the slot of value f..g of a column by linear probing: the one that holds it, or the
    first free one."""
    s = first_slot(key, len(slots) - 1)
    while slots[s] >= 0:
        e = slots[s]
        if entries[e, KEY] == key and entries[e, COLUMN] == column and entries[e, SIZE] == g - f:
            p = entries[e, START]
            k = 0
            while k < g - f and text[p + k] == text[f + k]:
                k += 1
            if k == g - f:
                return s
        s = (s + 1) & (len(slots) - 1)
    return s


@kernel
def refill(slots, entries, n):
    """Enter the first n entries into empty slots."""
    for e in range(n):
        s = first_slot(entries[e, KEY], len(slots) - 1)
        while slots[s] >= 0:
            s = (s + 1) & (len(slots) - 1)
        slots[s] = e


def grown(slots: np.ndarray, entries: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table four times as large that holds the first n entries."""
    more = np.empty((4 * len(entries), entries.shape[1]), np.int64)
    more[:n] = entries[:n]
    slots = np.full(4 * len(slots), -1, np.int64)
    refill(slots, more, n)
    return slots, more


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
    most_marks = 1 + min(lines, len(text) // len(NEWDOC))
    codes = np.empty((n_columns, rows), np.int32)
    starts, ends, offsets = (
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.zeros(rows + 1, np.int64),
    )
    marks, documents = np.empty(most_marks, np.int64), np.empty(most_marks, np.int64)
    values = (1 << 12) if compiled() else rows * n_columns  # NumPy scans all lines at once
    slots, entries = np.full(1 << 13, -1, np.int64), np.empty((values + n_columns, 5), np.int64)
    distinct = np.zeros(n_columns, np.int64)
    state = np.array([begin, 0, 0, 0, 0, 0, -1, 0, BASE], np.int64)
    places = (offsets, marks, documents)
    while scan_lines(
        text, tabs, conllu, edited, codes, starts, ends, places, slots, entries, distinct, state
    ):
        slots, entries = grown(slots, entries, int(state[5]))
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


@kernel
def scan_lines(
    text, tabs, conllu, edited, codes, starts, ends, places, slots, entries, distinct, state
):
    """Scan lines until the text ends (returns False) or the table of values may overflow (returns
    True: enlarge it and call again).

    The table is never replaced in here: a variable that holds one array after another costs a
    reference count at every use.  state: place in the text, tokens, sentences, marks, documents,
    values, failed line, its columns, and the base of hashes.
    """
    offsets, marks, documents = places
    n_columns = len(codes)
    a, t, n, m, d, v, fail, got, base = state
    while a < len(text) and 2 * (v + n_columns) <= len(slots) and v + n_columns <= len(entries):
        newline = line_end(text, a)
        b = trimmed(text, a, newline)
        after = newline + 1
        token = b > a
        if not token:
            if t > offsets[n]:
                n += 1
                offsets[n] = t
        elif conllu:
            if text[a] == HASH:
                token = False
                if begins(text, a, b, NEWDOC):
                    documents[d] = n
                    d += 1
            else:  # multiword ranges (1-2) and empty nodes (8.1) are no tokens
                k = a
                while k < b and text[k] != TAB:
                    token = token and text[k] != MINUS and text[k] != DOT
                    k += 1
        elif t == offsets[n] and begins(text, a, b, DOCSTART) and blank_at(text, after):
            token = False
            marks[m] = b
            documents[d] = n
            m += 1
            d += 1
        if token:
            column = 0
            k = a
            while True:
                while k < b and (text[k] == TAB or (text[k] == SPACE and not tabs)):
                    k += 1
                if k >= b:
                    break
                f = k
                key = np.int64(column + 1)
                while k < b and text[k] != TAB and (tabs or text[k] != SPACE):
                    key = hash_with(key, text[k], base)
                    k += 1
                if column < n_columns:
                    s = slot_of(text, f, k, column, key, slots, entries)
                    if slots[s] < 0:
                        slots[s] = v
                        entries[v, START] = f
                        entries[v, SIZE] = k - f
                        entries[v, COLUMN] = column
                        entries[v, CODE] = distinct[column]
                        entries[v, KEY] = key
                        distinct[column] += 1
                        v += 1
                    codes[column, t] = entries[slots[s], CODE]
                    if column == edited:
                        starts[t] = f
                        ends[t] = k
                column += 1
            if column != n_columns:
                fail, got = a, column
                a = len(text)
                break
            t += 1
        a = after
    if a >= len(text) and t > offsets[n]:
        n += 1
        offsets[n] = t
    state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7] = (
        a,
        t,
        n,
        m,
        d,
        v,
        fail,
        got,
    )
    return a < len(text)


def gather(text: np.ndarray, entries: np.ndarray, column: int) -> np.ndarray:
    """Copy the distinct values of one column into one buffer, each followed by a newline."""
    chosen = entries[entries[:, COLUMN] == column]
    sizes = chosen[:, SIZE] + 1
    buffer = text.take(ranges(chosen[:, START], sizes), mode="clip")
    buffer[np.cumsum(sizes) - 1] = NEWLINE
    return buffer
