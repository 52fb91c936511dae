"""Model files: what is written comes back, what is damaged or foreign is named in one line,
failures leave no trace."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import load, save

from labelwright import modelfile
from labelwright.errors import ModelFileError
from labelwright.modelfile import pack_strings, read, unpack_strings, write

TENSORS = {
    "weights": np.arange(12, dtype=np.float32).reshape(3, 4),
    "offsets": np.array([0, 2, 5], dtype=np.int64),
    "mask": np.array([True, False]),
    "nothing": np.zeros((0, 7), dtype=np.float64),
    "number": np.array(2.5),
}
HEADER = {
    "kind": "crf",
    "labels": ["O", "B-é", "\ud800"],
    "l2": 0.1,
    "nested": {"b": None, "a": [1, 2]},
}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    write(path, TENSORS, HEADER)
    return path


def complaint(path):
    """The one line that reading `path` raises."""
    with pytest.raises(ModelFileError) as caught:
        read(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    return text


def same(left, right):
    return (
        sorted(left) == sorted(right)
        and all(left[n].dtype == right[n].dtype and left[n].shape == right[n].shape for n in left)
        and all(np.array_equal(left[n], right[n]) for n in left)
    )


def test_round_trip(model):
    tensors, header = read(model)
    assert same(tensors, TENSORS)
    assert header == HEADER
    assert all(array.flags.writeable for array in tensors.values())


def test_bytes_and_file_objects(model):
    content = model.read_bytes()
    there = io.BytesIO()
    write(there, TENSORS, HEADER)
    assert there.getvalue() == content
    with open(model, "rb") as file:
        sources = [
            content,
            bytearray(content),
            memoryview(content),
            io.BytesIO(content),
            file,
            str(model),
        ]
        assert all(same(read(source)[0], TENSORS) for source in sources)


def test_files_that_are_none_are_refused(model, tmp_path):
    told = "opened as text, expected a binary file; open it with mode"
    with pytest.raises(ModelFileError, match=f"^<file>: {told} 'rb'"):
        read(io.StringIO("text"))
    with (
        open(tmp_path / "text", "w") as file,
        pytest.raises(ModelFileError, match=f"text: {told} 'wb'"),
    ):
        write(file, TENSORS, HEADER)
    with (
        open(tmp_path / "text", "wb") as file,
        pytest.raises(ModelFileError, match="text: cannot read"),
    ):
        read(file)
    for other in (5, None):
        with pytest.raises(ModelFileError, match="expected a path or a binary file, got"):
            read(other)
        with pytest.raises(ModelFileError, match="expected a path or a binary file, got"):
            write(other, TENSORS, HEADER)
    with pytest.raises(ModelFileError, match=r"^<bytes>: the file is empty"):
        read(b"")


def test_any_array_layout_is_stored_by_its_values(tmp_path):
    tensors = {
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "every_second": np.arange(10, dtype=np.int32)[::2],
        "big_endian": np.arange(4, dtype=">f4"),
    }
    write(tmp_path / "m", tensors, {})
    back, header = read(tmp_path / "m")
    assert header == {}
    assert all(np.array_equal(back[name], tensors[name]) for name in tensors)


def test_header_is_read_as_json_reads_it(tmp_path):
    write(tmp_path / "m", {}, {"pair": (1, 2), "by_number": {10: "x", 9: "y"}})
    assert read(tmp_path / "m") == ({}, {"pair": [1, 2], "by_number": {"10": "x", "9": "y"}})


def test_equal_models_are_equal_files(model, tmp_path):
    write(tmp_path / "again", dict(reversed(TENSORS.items())), HEADER)
    assert (tmp_path / "again").read_bytes() == model.read_bytes()


def test_it_is_a_safetensors_file_with_one_metadata_key(model):
    content = model.read_bytes()
    assert same(load(content), TENSORS)
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    assert list(metadata) == ["labelwright"]
    assert json.loads(metadata["labelwright"])["format"] == modelfile.FORMAT


@pytest.mark.parametrize("extra", range(0, 700, 8))
def test_every_header_length_is_read(tmp_path, extra):
    """The file begins with that length, which must never be mistaken for the first bytes of another
    format."""
    write(tmp_path / "m", {}, {"filler": "x" * extra})
    assert read(tmp_path / "m")[1]["filler"] == "x" * extra


@pytest.mark.slow
def test_every_cut_is_noticed(model):
    content = model.read_bytes()
    for length in range(len(content)):
        model.write_bytes(content[:length])
        complaint(model)


@pytest.mark.slow
def test_every_changed_byte_is_noticed(model):
    content = model.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        model.write_bytes(changed)
        if content[place : place + 1].isspace():  # blanks between the header's words carry nothing
            continue
        complaint(model)


def test_missing_folder_and_empty(tmp_path):
    assert "cannot read: no such file" in complaint(tmp_path / "absent")
    assert "is a folder" in complaint(tmp_path)
    (tmp_path / "empty").touch()
    assert "is empty" in complaint(tmp_path / "empty")


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("the file was executed",)


def zipped():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        # of 1980, so that the name of a test is fixed
        archive.writestr(zipfile.ZipInfo("weights.npy"), b"123")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"Confidence NN B-NP\nin IN B-PP\n", "expected a labelwright model"),
        (b"{}", "expected a labelwright model"),
        (pickle.dumps(Bomb()), "this is a pickle"),
        (zipped(), "this is a zip archive"),
        (b"lCRF\x00\x00\x00\x00\x00\x00", "this is a CRFsuite model"),
        (save({"weights": np.zeros(3)}), "not from labelwright"),
        (save({"weights": np.zeros(3)}, metadata={"format": "pt"}), "not from labelwright"),
        (save({}, metadata={"labelwright": "[" * 100_000}), "damaged"),
        (save({}, metadata={"labelwright": "[]"}), "not from labelwright"),
        (save({}, metadata={"labelwright": "{}"}), "unknown format None"),
        (save({}, metadata={"labelwright": '{"format": 1}'}), "checksum does not fit"),
        (
            save({}, metadata={"labelwright": '{"format": 3, "new": 1}'}),
            "newer labelwright (format 3, this one reads 1 and 2)",
        ),
    ],
)
def test_foreign_files_are_named(tmp_path, content, expected):
    (tmp_path / "m").write_bytes(content)
    assert expected in complaint(tmp_path / "m")


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(model, monkeypatch, step, failure):
    before = model.read_bytes()

    def fail(*_):
        raise failure

    monkeypatch.setattr(os, step, fail)
    with pytest.raises((ModelFileError, KeyboardInterrupt)) as caught:
        write(model, {"weights": np.ones(5)}, {"kind": "other"})
    monkeypatch.undo()
    if caught.type is ModelFileError:
        assert str(caught.value) == f"{model}: cannot be written: No space left on device"
    assert model.read_bytes() == before
    assert os.listdir(model.parent) == [model.name]


def test_overwriting_keeps_mode_and_follows_links(model, tmp_path):
    model.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(model)
    write(link, {}, {"kind": "second"})
    assert link.is_symlink()
    assert read(model)[1] == {"kind": "second"}
    assert model.stat().st_mode & 0o777 == 0o640


def test_places_that_cannot_be_written(tmp_path):
    for path, expected in [
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "m", "does not exist"),
        (os.devnull, "is a device"),
        (tmp_path / ("x" * 300), "File name too long"),
    ]:
        with pytest.raises(ModelFileError, match=expected) as caught:
            write(path, TENSORS, HEADER)
        assert str(caught.value).startswith(f"{path}: ")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("tensors", "header", "expected"),
    [
        ({}, {"checksum": "mine"}, "'checksum' is kept"),
        ({}, {"l2": np.float32(1)}, "must be plain JSON"),
        ({"words": np.array(["a", "b"], dtype=object)}, {}, "cannot be stored"),
        ({"words": np.array(["a", "b"])}, {}, "cannot be stored"),
        ({"__metadata__": np.zeros(2)}, {}, "cannot be stored"),
    ],
)
def test_what_cannot_be_stored_is_refused(tmp_path, tensors, header, expected):
    with pytest.raises(ModelFileError, match=expected):
        write(tmp_path / "m", tensors, header)
    assert os.listdir(tmp_path) == []


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_any_strings_are_packed(strings):
    data, offsets = pack_strings(strings)
    assert (data.dtype, offsets.dtype, len(offsets)) == (np.uint8, np.int64, len(strings) + 1)
    assert unpack_strings(data, offsets) == strings


@pytest.mark.parametrize(
    ("data", "offsets"),
    [(b"abc", [0, 4]), (b"abc", [1, 3]), (b"abc", [0, 2, 1, 3]), (b"abc", []), (b"\xff", [0, 1])],
)
def test_damaged_string_tables_are_refused(data, offsets):
    with pytest.raises(
        ModelFileError, match=r"^tensor labels\.(text: not UTF-8|offsets: expected pointers)"
    ):
        unpack_strings(
            np.frombuffer(data, dtype=np.uint8), np.array(offsets, dtype=np.int64), "labels"
        )


@given(
    arrays_of.arrays(
        st.sampled_from([np.float32, np.int64, np.uint8]),
        arrays_of.array_shapes(min_dims=0, min_side=0),
    )
)
def test_any_array_comes_back(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("any") / "m"
    write(path, {"array": array}, {"kind": "test"})
    back = read(path)[0]["array"]
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()
