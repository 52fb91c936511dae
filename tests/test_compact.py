"""Arrays in fewer bytes: what is stored comes back exactly, what was made is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from labelwright import modelfile
from labelwright.errors import ModelFileError
from labelwright.modelfile import packed, rounded, unpacked

SIZES = st.one_of(st.just(0.0), st.floats(2.0**-20, 2.0**99, width=32))
WEIGHTS = arrays_of.arrays(
    np.float32, st.integers(0, 20), elements=st.builds(np.copysign, SIZES, st.sampled_from([-1, 1]))
)
WHOLE = arrays_of.arrays(
    st.sampled_from([np.int32, np.int64]),
    st.integers(0, 9),
    elements=st.integers(-(2**31), 2**31 - 1),
)


@pytest.mark.slow
@given(WEIGHTS, st.sampled_from([8, 16]))
def test_rounding_is_near_and_done_once(weights, bits):
    near = rounded(weights, bits)
    largest = np.abs(weights).max(initial=0)
    assert near.dtype == weights.dtype
    assert (np.abs(near - weights) <= largest * (1 / 250 if bits == 8 else 1 / 2000) + 1e-38).all()
    assert (rounded(near, bits) == near).all()
    arrays, stored = packed({"w": near}, {"w"})
    assert arrays["w"].itemsize <= bits // 8 or not len(near)
    assert (unpacked(arrays, stored)["w"] == near).all()


@given(WHOLE, WEIGHTS)
def test_what_is_packed_comes_back(numbers, weights):
    tensors = {
        "n": numbers,
        "sorted": np.sort(np.abs(numbers)),
        "w": weights,
        "table": numbers.reshape(-1, 1),
    }
    arrays, stored = packed(tensors, {"w"})
    back = unpacked(arrays, stored)
    for name, array in tensors.items():
        assert back[name].dtype == array.dtype
        assert np.array_equal(back[name], array)
        assert arrays[name].nbytes <= array.nbytes


def test_pointers_take_a_byte_for_each_step():
    arrays, stored = packed({"ptr": np.arange(0, 10**6, 100)}, ())
    assert arrays["ptr"].dtype == np.uint8
    assert stored == {"ptr": ["int64", "steps", 1.0]}


@pytest.mark.parametrize(
    ("array", "stored", "message"),
    [
        (np.zeros(2, np.int8), [], "stored: expected an object"),
        (np.zeros(2, np.int8), {"b": ["int64", "whole", 1.0]}, "no tensor 'b'"),
        (np.zeros(2, np.int8), {"a": ["int64", "whole"]}, "expected a type, a method and a scale"),
        (
            np.zeros(2, np.int8),
            {"a": ["int64", "whole", float("nan")]},
            "expected a type, a method and a scale",
        ),
        (
            np.zeros(2, np.int8),
            {"a": [["int64"], "whole", 1.0]},
            "expected a type, a method and a scale",
        ),
        (
            np.zeros(2, np.float64),
            {"a": ["int64", "whole", 1.0]},
            "expected whole numbers in fewer bytes",
        ),
        (
            np.zeros((2, 2), np.int8),
            {"a": ["int64", "steps", 1.0]},
            "expected whole numbers in fewer bytes",
        ),
        (np.array([1, -1], np.int8), {"a": ["int64", "steps", 1.0]}, "never fall"),
        (np.full(9, 2**31, np.uint32), {"a": ["int32", "steps", 1.0]}, "fit into int32"),
        (np.zeros(2, np.float32), {"a": ["float32", "scaled", 1.0]}, "expected int8 or float16"),
    ],
)
def test_made_headers_are_refused(array, stored, message):
    with pytest.raises(ModelFileError, match=message):
        unpacked({"a": array}, stored)


def test_files_of_format_2(tmp_path):
    tensors = {
        "state.weights": rounded(np.linspace(-1, 1, 99, dtype=np.float32), 8),
        "ptr": np.arange(0, 9999, 101),
    }
    path = tmp_path / "m"
    modelfile.write(path, tensors, {"kind": "x"}, weights={"state.weights"})
    back, header = modelfile.read(path)
    assert header == {"kind": "x"}
    assert all(
        np.array_equal(back[name], array) and back[name].dtype == array.dtype
        for name, array in tensors.items()
    )
    content = path.read_bytes()
    assert b'\\"format\\": 2' in content
    path.write_bytes(content.replace(b'\\"steps\\"', b'\\"whole\\"'))
    with pytest.raises(ModelFileError, match="the checksum does not fit"):
        modelfile.read(path)
