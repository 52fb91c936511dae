"""Files that appear whole or not at all: whichever system call fails, and whenever the process
dies."""

import os
import socket
import subprocess
import sys
import warnings

import numpy as np
import pytest
from failing_disk import broken, failing_disk, killed, no_space

from labelwright import CRF, modelfile, storage
from labelwright.errors import ModelFileError, reason_of
from labelwright.storage import open_regular, replace_file, replacing

fcntl = pytest.importorskip("fcntl")
X, Y = [["the", "dog", "barks"], ["a", "bird", "sings"]] * 3, [["D", "N", "V"], ["D", "N", "V"]] * 3
OLD, NEW = {"x": np.arange(5)}, {"x": np.arange(9000)}


@pytest.fixture
def place(tmp_path):
    modelfile.write(tmp_path / "m", OLD, {"kind": "test"})
    return tmp_path / "m"


def written(place):
    """Which of the two is there; anything else is an error."""
    tensors, header = modelfile.read(place)  # checks the checksum
    assert header == {"kind": "test"}
    return {5: "old", 9000: "new"}[len(tensors["x"])]


def write(place):
    modelfile.write(place, NEW, {"kind": "test"})


def test_the_content_is_on_the_disk_before_the_rename_and_the_rename_before_the_end(place):
    with failing_disk() as disk:
        write(place)
    once = [name for i, name in enumerate(disk.calls) if i == 0 or name != disk.calls[i - 1]]
    # the last two: the folder
    assert once == ["create", "write", "fsync", "copymode", "replace", "open", "fsync"]


@pytest.mark.parametrize("how", [no_space, broken])
def test_whichever_call_fails_the_old_or_the_new_file_is_whole(place, how):
    with failing_disk() as disk:
        write(place)
    names = disk.calls
    for at, name in enumerate(names, 1):
        place.unlink()
        modelfile.write(place, OLD, {"kind": "test"})
        renamed = names.index("replace") + 1 < at
        with failing_disk(at, how):
            # a folder that cannot be opened is not synchronised, as on some file systems
            if name == "open":
                write(place)
            else:
                with pytest.raises(
                    ModelFileError, match=rf"^{place}: cannot be written: [A-Z][a-z/ ]+$"
                ):
                    write(place)
        assert written(place) == ("new" if renamed else "old"), name
        assert os.listdir(place.parent) == ["m"], name


def test_only_regular_files_are_opened_and_nothing_is_waited_for(place, tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    named = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    named.bind("socket")
    for path, reason in (
        (pipe, "is a pipe, expected a file"),
        ("socket", "is a socket, expected a file"),
        ("/dev/zero", "is a device, expected a file"),
        (tmp_path, "is a folder, expected a file"),
    ):
        with pytest.raises(OSError) as error:  # noqa: PT011  the reason is what matters
            open_regular(path)
        assert reason_of(error.value) == reason
    named.close()
    with open_regular(place) as file:
        assert file.read() == place.read_bytes()
    regular = os.stat(place)
    monkeypatch.setattr(os, "stat", lambda path: regular)  # a pipe takes its place after this
    with pytest.raises(OSError, match="is a pipe"):
        open_regular(pipe)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_whenever_the_process_dies_the_old_or_the_new_file_is_whole(place):
    seen = []
    for at in range(1, 100):
        modelfile.write(place, OLD, {"kind": "test"})
        child = os.fork()
        if not child:
            with failing_disk(at, killed):
                write(place)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seen.append(written(place))
        if status == 0:
            break
    assert set(seen) == {"old", "new"}
    assert seen == sorted(seen, reverse=True)  # first the old one, from the rename on the new one
    write(place)
    assert os.listdir(place.parent) == ["m"]  # nothing is left of the dead


@pytest.mark.parametrize("how", [no_space, broken])
def test_a_model_and_its_checkpoint_on_a_failing_disk(tmp_path, how):
    settings = {"n_jobs": 1, "max_iter": 3}
    whole = CRF(**settings).fit(X, Y, checkpoint=tmp_path / "c", checkpoint_every=0)
    whole.save(tmp_path / "m")
    for at in range(1, 12):
        with failing_disk(at, how), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = CRF(**settings).fit(X, Y, checkpoint=tmp_path / "c", checkpoint_every=0)
        np.testing.assert_array_equal(model.weights_, whole.weights_)
        lines = [str(warning.message) for warning in told]
        assert len(lines) <= 1
        assert all(
            "\n" not in line and "cannot be written" in line and "training continues" in line
            for line in lines
        )
        resumed = CRF(**settings).fit(
            X, Y, checkpoint=tmp_path / "c", checkpoint_every=0, resume=True
        )
        np.testing.assert_array_equal(resumed.weights_, whole.weights_)
        with failing_disk(at, how) as disk:
            try:
                model.save(tmp_path / "m")
            except ModelFileError as error:
                assert str(error).startswith(f"{tmp_path / 'm'}: cannot be written: ")  # noqa: PT017
        assert modelfile.read(tmp_path / "m")[1]["kind"] == "CRF"
        assert sorted(os.listdir(tmp_path)) == ["c", "m"], disk.calls


def test_what_a_killed_process_left_is_removed_with_the_next_file(tmp_path):
    place, other = tmp_path / "m.crf", tmp_path / ".mXcrf.0123456789ab.part"
    for name in (".m.crf.0123456789ab.part", ".m.crf.ba9876543210.part"):
        (tmp_path / name).write_bytes(b"half")
    kept = [other, tmp_path / ".m.crf.part", tmp_path / ".m.crf.0123456789ab.part.txt"]
    for path in kept:
        path.write_bytes(b"of others")
    replace_file(place, b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([place, *kept])


def test_a_file_that_is_being_written_is_left_alone(tmp_path):
    place = tmp_path / "m"
    with replacing(place) as first:
        first.write(b"first")
        replace_file(place, b"second")  # another writer, here or in another process
        assert place.read_bytes() == b"second"
        assert len(os.listdir(tmp_path)) == 2
    assert place.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["m"]


WRITER = """
import sys
from pathlib import Path
from labelwright.storage import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"of another process")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow
def test_a_file_of_another_process_is_left_alone_until_it_dies(tmp_path):
    place = tmp_path / "m"
    command = [sys.executable, "-c", WRITER, str(place)]
    for kill in (False, True):
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout.readline() == "writing\n"
            replace_file(place, b"ours")
            assert len(os.listdir(tmp_path)) == 2
            if kill:
                child.kill()
                child.wait()
            else:
                child.communicate("\n")
        assert place.read_bytes() == (b"ours" if kill else b"of another process")
    assert len(os.listdir(tmp_path)) == 2
    replace_file(place, b"again")
    assert os.listdir(tmp_path) == ["m"]


def test_a_file_that_is_removed_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    flock, removed = fcntl.flock, []

    def late(file, how):
        if not removed and not isinstance(file, int):
            removed.append(file.name)
            os.unlink(file.name)  # by another process, which took it for abandoned
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    replace_file(tmp_path / "m", b"whole")
    assert removed
    assert (tmp_path / "m").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["m"]


def test_where_files_are_not_locked_nothing_is_removed(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(95, "not supported")

    left = tmp_path / ".m.0123456789ab.part"
    left.write_bytes(b"half")
    monkeypatch.setattr(fcntl, "flock", unsupported)
    replace_file(tmp_path / "m", b"whole")
    assert sorted(os.listdir(tmp_path)) == [left.name, "m"]


@pytest.mark.parametrize("name", ["\u4e2d" * 80, "a" * 250, "\U0001f600" * 60, "ab\u00e9" * 60])
def test_long_names_have_short_siblings(name, tmp_path):
    beginning = storage._beginning(name)
    assert name.startswith(beginning)
    assert 97 <= len(os.fsencode(beginning)) <= storage.LONGEST
    storage.replace_file(tmp_path / name, b"content")
    assert os.listdir(tmp_path) == [name]
