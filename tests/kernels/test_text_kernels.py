"""The byte scanner against a reading in plain Python, on drawn bytes."""

from itertools import pairwise

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from labelwright.corpus import scanner

PIECES = [
    b"a",
    b"b\xc3\xa9",
    b" ",
    b"\t",
    b"  ",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\r",
    b"-DOCSTART-",
    b"-DOCSTART- O\n\n",
]
LINES = [b"x y\n", b"y\tx\n", b"x z \n", b"x x\r\n", b"x  y\t \r\n", b" x y\n", b"\t \n"]
CONLLU = [
    b"1\tx\n",
    b"1-2\tx\n",
    b"8.1\ty\n",
    b"# newdoc\n",
    b"# newdoc id = 1\n",
    b"# text = x\n",
    b"\n",
    b"2\ty z \n",
]
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=25),
    st.lists(st.sampled_from([*LINES, b"\n", b"-DOCSTART- -X-\n\n"]), max_size=25),
    st.lists(st.sampled_from(CONLLU), max_size=25),
).map(b"".join)


def lines_of(text, begin):
    """Where each line begins, and the line without the blanks at its end."""
    while begin < len(text):
        end = text.find(b"\n", begin)
        end = len(text) if end < 0 else end
        yield begin, text[begin:end].removesuffix(b"\r").rstrip(b" \t")
        begin = end + 1


def begins(line, mark):
    return line == mark or line.startswith((mark + b" ", mark + b"\t"))


def read(text, begin, n_columns, tabs, conllu):
    """Rows of values, where sentences begin, where marks end, the sentences behind them, and the
    line that fails with its number of columns."""
    rows, offsets, marks, documents = [], [0], [], []
    lines = list(lines_of(text, begin))
    for number, (a, line) in enumerate(lines):
        alone = number + 1 == len(lines) or not lines[number + 1][1]
        if not line:
            if len(rows) > offsets[-1]:
                offsets.append(len(rows))
            continue
        if conllu and line.startswith(b"#"):
            if begins(line, b"# newdoc"):
                documents.append(len(offsets) - 1)
            continue
        if conllu and set(line.partition(b"\t")[0]) & set(b"-."):
            continue
        first = len(rows) == offsets[-1]
        if not conllu and first and alone and begins(line, b"-DOCSTART-"):
            marks.append(a + len(line))
            documents.append(len(offsets) - 1)
            continue
        parts = line.split(b"\t") if tabs else line.replace(b"\t", b" ").split(b" ")
        values = [part for part in parts if part]
        if len(values) != n_columns:
            return rows, offsets, marks, documents, (a, len(values))
        rows.append(values)
    if len(rows) > offsets[-1]:
        offsets.append(len(rows))
    return rows, offsets, marks, documents, (-1, 0)


def scanned(text, *options):
    found = scanner.scan(np.frombuffer(text, np.uint8), *options)
    columns = [
        scanner.gather(np.frombuffer(text, np.uint8), found.entries, c).tobytes().split(b"\n")[:-1]
        for c in range(options[1])
    ]
    return found, columns


@drawn(400)
@given(texts, st.sampled_from([0, 3]), st.integers(1, 2), st.booleans(), st.booleans())
def test_the_scanner_reads_what_is_written(text, begin, n_columns, tabs, conllu):
    begin = min(begin, len(text))
    found, columns = scanned(text, begin, n_columns, tabs, conllu, n_columns - 1)
    rows, offsets, marks, documents, failed = read(text, begin, n_columns, tabs, conllu)
    assert (found.fail, found.got) == failed
    assert found.marks.tolist() == marks
    assert found.documents.tolist() == documents
    if found.fail >= 0:
        return
    assert found.offsets.tolist() == offsets
    for c, values in enumerate(columns):
        assert [values[code] for code in found.codes[c]] == [row[c] for row in rows]
        assert values == list(dict.fromkeys(row[c] for row in rows))
    edited = [text[a:b] for a, b in zip(found.starts, found.ends, strict=True)]
    assert edited == [row[-1] for row in rows]


def test_many_values_fit():
    text = b"".join(b"%d %d\n" % (n, n % 700) for n in range(9000))
    found, columns = scanned(text, 0, 2, False, False, 1)
    assert found.codes[0].tolist() == list(range(9000))
    assert found.codes[1].tolist() == [n % 700 for n in range(9000)]
    assert columns[0] == [b"%d" % n for n in range(9000)]
    assert all(a < b for a, b in pairwise(found.entries[:, scanner.START].tolist()))


@pytest.mark.parametrize(
    ("text", "n_columns"),
    [
        (b"a " * 255 + b"a\n" + b"\n" * 20_000, 256),
        (b"a " * 255 + b"a\n" + b" \r\n" * 5000 + b"b " * 255 + b"b", 256),
        (b"a\n" * 5000, 256),
        (b"-DOCSTART- O\n\n" * 500 + b"a b\n", 2),
    ],
)
def test_cells_are_bounded_by_the_length_of_the_text(text, n_columns):
    found, _ = scanned(text, 0, n_columns, False, False, n_columns - 1)
    assert found.codes.base.size <= len(text) // 2 + 2 * n_columns
    assert len(found.entries.base) <= max(1 << 12, len(text) // 2 + 2 * n_columns) + n_columns
    others = (found.starts, found.ends, found.offsets, found.marks, found.documents)
    assert sum(part.base.size for part in others) <= 2 * len(text)
