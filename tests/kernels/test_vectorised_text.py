"""Texts scanned in NumPy against the compiled scanner, on drawn bytes."""

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from labelwright.engine import choice
from labelwright.kernels import text as kernels

pytest.importorskip("numba")

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


def scanned(text, *options):
    answers = []
    for engine in ("compiled", "numpy"):
        with choice.using(engine):
            found = kernels.scan(np.frombuffer(text, np.uint8), *options)
            columns = [
                kernels.gather(np.frombuffer(text, np.uint8), found.entries, c).tobytes()
                for c in range(2)
            ]
            answers.append((found, columns))
    return answers


@drawn(400)
@given(texts, st.sampled_from([0, 3]), st.integers(1, 2), st.booleans(), st.booleans())
def test_both_scanners_read_the_same(text, begin, n_columns, tabs, conllu):
    (one, columns), (other, twins) = scanned(
        text, min(begin, len(text)), n_columns, tabs, conllu, n_columns - 1
    )
    assert (one.fail, one.got) == (other.fail, other.got)
    for name in ("codes", "starts", "ends", "offsets", "marks", "documents"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    if one.fail < 0:
        assert columns == twins
        np.testing.assert_array_equal(
            one.entries[:, : kernels.KEY], other.entries[:, : kernels.KEY]
        )


def test_many_values_fit():
    text = b"".join(b"%d %d\n" % (n, n % 700) for n in range(9000))
    (one, columns), (other, twins) = scanned(text, 0, 2, False, False, 1)
    np.testing.assert_array_equal(one.codes, other.codes)
    assert columns == twins
    assert columns[0].count(b"\n") == 9000


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
    for found, _ in scanned(text, 0, n_columns, False, False, n_columns - 1):
        assert found.codes.base.size <= len(text) // 2 + 2 * n_columns
        assert len(found.entries.base) <= max(1 << 12, len(text) // 2 + 2 * n_columns) + n_columns
        others = (found.starts, found.ends, found.offsets, found.marks, found.documents)
        assert sum(part.base.size for part in others) <= 2 * len(text)
