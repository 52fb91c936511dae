"""The byte scanner in NumPy: all lines and fields of a text are found at once, and values interned
by a dict."""

from typing import NamedTuple

import numpy as np

from labelwright.kernels import text as kernels
from labelwright.kernels.common import ranges


class _Lines(NamedTuple):
    """The lines of a text."""

    begin: np.ndarray  # [n]  first byte
    end: np.ndarray  # [n]  behind the last byte that is no blank
    newline: np.ndarray  # [n]  the newline, or the end of the text


class _Kinds(NamedTuple):
    """What each line is [n]; all else is a comment."""

    blank: np.ndarray
    token: np.ndarray
    mark: np.ndarray  # -DOCSTART-
    document: np.ndarray  # -DOCSTART- or # newdoc


def scan_lines(
    text, tabs, conllu, edited, codes, starts, ends, places, slots, entries, distinct, state
):
    """Scan all lines; `entries` has a place for each value of the text.  The hashes of values are
    left out."""
    raw = text.tobytes()
    lines = _lines(text, int(state[0]), raw)
    kinds = _kinds_in_conllu(text, lines) if conllu else _kinds_in_columns(text, lines)
    field_begin, field_end = _fields(text, int(state[0]), lines, tabs)
    first = np.searchsorted(field_begin, lines.begin)
    n_fields = np.diff(first, append=len(field_begin))
    fail, got = -1, 0
    wrong = np.flatnonzero(kinds.token & (n_fields != len(codes)))
    if len(wrong):
        stop = int(wrong[0])
        fail, got = int(lines.begin[stop]), int(n_fields[stop])
        lines, kinds = (
            _Lines(*(part[:stop] for part in lines)),
            _Kinds(*(part[:stop] for part in kinds)),
        )
        first = first[:stop]
    own = first[kinds.token]
    n_sentences, n_marks, n_documents = _places(lines, kinds, *places)
    v = 0
    for column in range(len(codes)):
        begin, end = field_begin[own + column], field_end[own + column]
        fresh = _intern(raw, begin, end, codes[column])
        distinct[column] = len(fresh)
        part = entries[v : v + len(fresh)]
        part[:, kernels.START], part[:, kernels.SIZE] = begin[fresh], (end - begin)[fresh]
        part[:, kernels.COLUMN], part[:, kernels.CODE], part[:, kernels.KEY] = (
            column,
            np.arange(len(fresh)),
            0,
        )
        v += len(fresh)
        if column == edited:
            starts[: len(own)], ends[: len(own)] = begin, end
    entries[:v] = entries[:v][np.argsort(entries[:v, kernels.START])]
    state[:8] = len(text), len(own), n_sentences, n_marks, n_documents, v, fail, got
    return False


def _lines(text, begin, raw):
    newline = begin + np.flatnonzero(text[begin:] == kernels.NEWLINE)
    begins = np.concatenate([[begin], newline + 1])
    ends = np.append(newline, len(text))
    n = len(begins) - (begins[-1] >= len(text))  # nothing follows the last newline
    begins, newline = begins[:n], ends[:n]
    ends = newline - ((newline > begins) & (text[newline - 1] == kernels.RETURN))
    last = text[ends - 1]
    for i in np.flatnonzero(
        (ends > begins) & ((last == kernels.SPACE) | (last == kernels.TAB))
    ).tolist():
        ends[i] = begins[i] + len(raw[begins[i] : ends[i]].rstrip(b" \t"))
    return _Lines(begins, ends, newline)


def _fields(text, begin, lines, tabs):
    """Where each field of any line begins and ends."""
    inside = (text != kernels.NEWLINE) & (text != kernels.TAB)
    if not tabs:
        inside &= text != kernels.SPACE
    inside[:begin] = False
    inside[ranges(lines.end, lines.newline - lines.end)] = False  # blanks at the end of lines
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    return edges[::2], edges[1::2]


def _kinds_in_columns(text, lines):
    blank = lines.end == lines.begin
    alone = np.concatenate([[True], blank[:-1]]) & np.concatenate([blank[1:], [True]])[: len(blank)]
    mark = _begins(text, lines, alone & ~blank, kernels.DOCSTART)
    return _Kinds(blank, ~blank & ~mark, mark, mark)


def _kinds_in_conllu(text, lines):
    blank = lines.end == lines.begin
    comment = np.zeros(len(blank), np.bool_)
    comment[~blank] = text[lines.begin[~blank]] == kernels.HASH
    tab, sign = (
        np.flatnonzero(text == kernels.TAB),
        np.flatnonzero((text == kernels.MINUS) | (text == kernels.DOT)),
    )
    next_tab = np.append(tab, len(text))[np.searchsorted(tab, lines.begin)]
    behind = np.minimum(next_tab, lines.end)
    # neither 1-2 nor 8.1
    whole = np.searchsorted(sign, behind) == np.searchsorted(sign, lines.begin)
    documents = _begins(text, lines, comment, kernels.NEWDOC)
    return _Kinds(blank, ~blank & ~comment & whole, np.zeros_like(blank), documents)


def _begins(text, lines, candidates, prefix):
    """Which of the candidates [n] begin with `prefix` as a whole word."""
    rows = np.flatnonzero(candidates & (lines.end - lines.begin >= len(prefix)))
    for k, byte in enumerate(prefix):
        rows = rows[text[lines.begin[rows] + k] == byte]
    behind = lines.begin[rows] + len(prefix)
    ends = behind == lines.end[rows]
    after = text[np.where(ends, 0, behind)]
    chosen = np.zeros(len(candidates), np.bool_)
    chosen[rows[ends | (after == kernels.SPACE) | (after == kernels.TAB)]] = True
    return chosen


def _places(lines, kinds, offsets, marks, documents):
    """Fill offsets, the ends of marks and the first sentences of documents; return how many there
    are of each."""
    tokens = np.cumsum(kinds.token)  # up to each line
    at = np.flatnonzero(kinds.blank & (tokens > 0))
    # the first blank line after some tokens ends a sentence
    at = at[np.diff(tokens[at], prepend=0) > 0]
    ends = tokens[at]
    total = int(tokens[-1]) if len(tokens) else 0
    if total > (ends[-1] if len(ends) else 0):
        ends = np.append(ends, total)
    offsets[1 : len(ends) + 1] = ends
    mark, document = lines.end[kinds.mark], np.searchsorted(at, np.flatnonzero(kinds.document))
    marks[: len(mark)], documents[: len(document)] = mark, document
    return len(ends), len(mark), len(document)


def _intern(raw, begin, end, codes):
    """Fill the codes of values raw[begin:end] in order of appearance; return where each was first
    seen."""
    values = [raw[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    number = {value: n for n, value in enumerate(dict.fromkeys(values))}
    codes[: len(values)] = np.fromiter(map(number.__getitem__, values), np.int32, len(values))
    first = np.empty(len(number), np.int64)
    first[codes[: len(values)][::-1]] = np.arange(len(values))[::-1]
    return first
