"""Checks of what files hold: each lets pass what it should, and refuses the rest in one line that
names the tensor."""

import pickle

import numpy as np
import pytest

from labelwright.errors import ModelFileError
from labelwright.modelfile import HeaderReader, TensorReader

LARGE, SMALL = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (lambda t, n: t.pointers("t", None, 3), [[0, 3], [0, 0, 3, 3]],
         [[], [0], [1, 3], [0, 2], [0, 3, 2, 3], [0, 4, 3], [0, LARGE, SMALL, 3], [0, -1, 3]]),
        (lambda t, n: t.pointers("t", n - 1, 3, least=1), [[0, 1, 3]],
         [[0, 0, 3], [0, LARGE, SMALL, 3]]),
        (lambda t, n: t.pointers("t", None, None), [[0, 2], [0, 0]], [[0, 2, 1], [0, -1]]),
        (lambda t, n: t.indices("t", np.int64, 3, n), [[], [0, 2, 1]],
         [[3], [-1], [LARGE], [SMALL]]),
        (lambda t, n: t.indices("t", np.int64, np.array([1, 5]), n, least=-1), [[0, 4], [-1, -1]],
         [[1, 0], [0, 5]]),
        (lambda t, n: t.permutation("t", np.int64, n), [[], [0], [2, 0, 1]],
         [[1], [0, 0], [0, 2], [0, -1]]),
        (lambda t, n: t.rising("t", np.array([0, 2, 9])), [[], [1, 2, 0, 1]],
         [[1, 1], [1, 2, 3, 3]]),
    ],
)  # fmt: skip
def test_checks_of_whole_numbers(check, good, bad):
    for numbers in good:
        check(TensorReader({"t": np.array(numbers, np.int64)}), len(numbers))
    for numbers in bad:
        with pytest.raises(ModelFileError, match=r"^tensor t: expected [^\n]+$"):
            check(TensorReader({"t": np.array(numbers, np.int64)}), len(numbers))


def test_checks_of_trees():
    for numbers in ([1, 1], [1, 3, 3, 3], [1, 2, 3, 3]):
        TensorReader({"t": np.array(numbers, np.int32)}).children("t")
    for numbers in ([], [1], [0, 1], [1, 2], [1, 1, 2], [1, 3, 2, 3], [1, 2, 2, 3]):
        with pytest.raises(ModelFileError, match="tensor t: expected a tree"):
            TensorReader({"t": np.array(numbers, np.int32)}).children("t")


def test_checks_of_numbers():
    TensorReader({"t": np.array([0.0, -1e30, 3.0], np.float32)}).weights("t", np.float32, 3)
    for bad in (np.nan, np.inf, -np.inf, 4.0, -0.1):
        with pytest.raises(ModelFileError, match="tensor t: expected finite numbers from 0 to 3"):
            TensorReader({"t": np.array([1.0, bad])}).numbers("t", np.float64, 2, least=0, most=3)


@pytest.mark.parametrize(
    ("array", "shape"),
    [
        (np.zeros(3, np.int64), (3,)),
        (np.zeros(3, np.float32), (3,)),
        (np.zeros(4, np.int32), (3,)),
        (np.zeros((3, 1), np.int32), (3,)),
        (np.array(3, np.int32), (None,)),
    ],
)
def test_arrays_of_other_types_and_shapes_are_refused(array, shape):
    with pytest.raises(
        ModelFileError, match=r"^tensor t: expected int32 \[(3|any)\], got (u?int|float)\d+ \["
    ):
        TensorReader({"t": array}).array("t", np.int32, *shape)


def test_tensors_are_read_by_prefix_and_named_in_full():
    tensors = TensorReader({"layer0.space.end": np.zeros(2, np.bool_), "x": np.zeros(1)})
    part = tensors.part("layer0.").part("space.")
    assert (list(part), "end" in part, "x" in part, len(tensors)) == (["end"], True, False, 2)
    assert part.array("end", np.bool_, 2).shape == (2,)
    with pytest.raises(ModelFileError, match=r"^tensor layer0\.space\.start: missing$"):
        part.array("start", np.bool_, 2)
    with pytest.raises(
        ModelFileError, match=r"^tensor layer0\.space\.end: expected bool \[3\], got bool \[2\]$"
    ):
        part.array("end", np.bool_, 3)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda h: h["nothing"], "'nothing' is missing"),
        (lambda h: h.whole("flag"), "flag: expected a whole number from 0 to"),
        (lambda h: h.whole("real"), "real: expected a whole number"),
        (lambda h: h.whole("n", 4), "n: expected a whole number from 4 to"),
        (lambda h: h.number("text"), "text: expected a finite number, got 'a'"),
        (lambda h: h.number("endless"), "endless: expected a finite number"),
        (lambda h: h.names("mixed"), "mixed: expected a list of strings"),
        (lambda h: h.names("text"), "text: expected a list"),
        (lambda h: h.text("n"), "n: expected a string, got 3"),
        (lambda h: h.one_of("flag", (1, 2)), "flag: expected one of 1, 2, got True"),
        (lambda h: h.part("n"), "header: n: expected an object, got 3"),
        (lambda h: h.parts("mixed")[0], r"header: mixed\[0\]: expected an object"),
    ],
)
def test_header_fields_are_checked(read, message):
    header = HeaderReader(
        {"flag": True, "real": 1.0, "n": 3, "text": "a", "endless": float("inf"), "mixed": ["a", 1]}
    )
    with pytest.raises(ModelFileError, match=message):
        read(header)
    assert (
        header.whole("n"),
        header.number("n"),
        header.text("text"),
        header.get("nothing", 7),
    ) == (3, 3.0, "a", 7)


def test_a_message_is_one_printable_line():
    """Names come from files: a line end or a code for the terminal is shown, not obeyed."""
    error = ModelFileError("layer 2: expected the columns a\nb, c\x1b[2J, \ud800, é")
    assert str(error) == r"layer 2: expected the columns a\nb, c\x1b[2J, \ud800, é"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
