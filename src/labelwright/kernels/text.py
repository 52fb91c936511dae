"""The byte scanner: one pass over a file of columns splits lines, ends sentences and interns every
value (corpus.scanner)."""

import cython
from cython.cimports.labelwright.kernels.hashing import first_slot, hash_with
from cython.cimports.libc.string import strlen

DOCSTART = b"-DOCSTART-"
NEWDOC = b"# newdoc"


def _line_end(text, k):
    """Return where the line that holds k ends: the place of its newline, or the end of the text."""
    while k < text.shape[0] and text[k] != NEWLINE:
        k += 1
    return k


def _trimmed(text, a, b):
    """Return the end of line a..b without a carriage return and trailing spaces and tabs."""
    end = b
    if end > a and text[end - 1] == RETURN:
        end -= 1
    while end > a and (text[end - 1] == SPACE or text[end - 1] == TAB):
        end -= 1
    return end


def _blank_at(text, a):
    """Whether the line that starts at a is blank; so is the end of the text."""
    return a >= text.shape[0] or _trimmed(text, a, _line_end(text, a)) == a


def _begins(text, a, b, prefix):
    """Whether the bytes a..b begin with prefix as a whole word."""
    size = strlen(prefix)
    if b - a < size:
        return False
    for k in range(size):
        if text[a + k] != prefix[k]:
            return False
    return b - a == size or text[a + size] == SPACE or text[a + size] == TAB


def _slot_of(text, f, g, column, key, slots, entries):
    """Find the slot of value f..g of a column by linear probing: the one that holds it, or the
    first free one."""
    mask = slots.shape[0] - 1
    s = first_slot(key, mask)
    while slots[s] >= 0:
        e = slots[s]
        if entries[e, KEY] == key and entries[e, COLUMN] == column and entries[e, SIZE] == g - f:
            p = entries[e, START]
            k = 0
            while k < g - f and text[p + k] == text[f + k]:
                k += 1
            if k == g - f:
                return s
        s = (s + 1) & mask
    return s


def refill(slots, entries, n):
    """Enter the first n entries into empty slots."""
    mask = slots.shape[0] - 1
    with cython.nogil:
        for e in range(n):
            s = first_slot(entries[e, KEY], mask)
            while slots[s] >= 0:
                s = (s + 1) & mask
            slots[s] = e


def scan_lines(
    text, tabs, conllu, edited, codes, starts, ends, offsets, marks, documents, slots, entries,
    distinct, state,
):  # fmt: skip
    """Scan lines until the text ends (returns False) or the table of values may overflow (returns
    True: enlarge it and call again).

    state: place in the text, tokens, sentences, marks, documents, values, failed line, its columns,
    and the base of hashes."""
    with cython.nogil:
        _scan_lines(
            text, tabs, conllu, edited, codes, starts, ends, offsets, marks, documents, slots,
            entries, distinct, state,
        )  # fmt: skip
    return state[0] < text.shape[0]


def _scan_lines(
    text, tabs, conllu, edited, codes, starts, ends, offsets, marks, documents, slots, entries,
    distinct, state,
):  # fmt: skip
    n_columns = codes.shape[0]
    a, t, n = state[0], state[1], state[2]
    m, d, v = state[3], state[4], state[5]
    fail, got, base = state[6], state[7], state[8]
    while (
        a < text.shape[0]
        and 2 * (v + n_columns) <= slots.shape[0]
        and v + n_columns <= entries.shape[0]
    ):
        newline = _line_end(text, a)
        b = _trimmed(text, a, newline)
        token = b > a
        if not token:
            if t > offsets[n]:
                n += 1
                offsets[n] = t
        elif conllu:
            if text[a] == HASH:
                token = False
                if _begins(text, a, b, NEWDOC):
                    documents[d] = n
                    d += 1
            else:  # multiword ranges (1-2) and empty nodes (8.1) are no tokens
                k = a
                while k < b and text[k] != TAB:
                    if text[k] == MINUS or text[k] == DOT:
                        token = False
                    k += 1
        elif t == offsets[n] and _begins(text, a, b, DOCSTART) and _blank_at(text, newline + 1):
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
                key = column + 1
                while k < b and text[k] != TAB and (tabs or text[k] != SPACE):
                    key = hash_with(key, text[k], base)
                    k += 1
                if column < n_columns:
                    s = _slot_of(text, f, k, column, key, slots, entries)
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
                fail = a
                got = column
                a = text.shape[0]
                break
            t += 1
        a = newline + 1
    if a >= text.shape[0] and t > offsets[n]:
        n += 1
        offsets[n] = t
    state[0], state[1], state[2] = a, t, n
    state[3], state[4], state[5] = m, d, v
    state[6], state[7] = fail, got
