"""What the command line refuses: one plain line, exit code 2, and nothing lost."""

import errno
import json
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
from command import one_line, refused

from labelwright.__main__ import main as start

# -- what goes wrong -------------------------------------------------------------------------------


def test_no_command_replaces_what_it_reads(
    run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.txt", "dev.txt", "crf"):
        Path(name).write_bytes((data / name).read_bytes())
    Path("link").symlink_to("train.txt")
    refused(
        run("train", "train.txt", "-o", "link"),
        "link: would replace train.txt",
        "name another file to write",
    )
    # in place, whole or not at all
    assert run("tag", "crf", "train.txt", "-o", "train.txt") == (0, "", "")
    assert run("convert", "dev.txt", "dev.txt", "--to-scheme", "bioes", "-q") == (0, "", "")


def test_bad_models(run, data: Path, tmp_path: Path) -> None:
    whole = (data / "crf").read_bytes()
    bad = {
        "truncated": (whole[: len(whole) // 2], "cut short"),
        "head": (whole[:100], "cut short"),
        "changed": (whole[:-1] + bytes([whole[-1] ^ 1]), "checksum"),
        "empty": (b"", "empty"),
        "text": ((data / "test.txt").read_bytes(), "expected a labelwright model"),
        "pickle": (b"\x80\x04]\x94.", "pickle"),
        "random": (b"\x17\x92\n\xff" * 9, r"random: begins with b'\x17\x92\n\xff\x17"),
    }
    for name, (content, part) in bad.items():
        (tmp_path / name).write_bytes(content)
        for command in (["tag", tmp_path / name, data / "words.txt"], ["inspect", tmp_path / name]):
            refused(run(*command), name, part)


def test_wrong_number_of_columns_to_tag(run, data: Path) -> None:
    refused(
        run("tag", data / "crf", stdin=b"He\nran\n\n"),
        "the model reads 2 columns (word,pos), or 3 with the label, got 1",
    )


def test_nothing_to_tag_is_answered_by_nothing(run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    assert run("tag", data / "crf", stdin=b"") == (0, "", "")
    for options in ([], ["--json"], ["--format", "jsonl"]):
        assert run("tag", data / "crf", tmp_path / "empty.txt", *options) == (0, "", "")
    refused(run("eval", data / "crf", tmp_path / "empty.txt"), "empty.txt: no tokens")


def test_a_failed_write_leaves_the_old_model(
    run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "m").write_bytes(b"precious")
    monkeypatch.setattr("labelwright.modelfile.os.fsync", full)
    refused(
        run("train", data / "train.txt", "-o", tmp_path / "m", "--iterations", 3),
        "No space left on device",
    )
    assert (tmp_path / "m").read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["m"]


def test_unexpected_errors_are_one_line_too(
    run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("labelwright.taggers.crf.CRF.fit", broken)
    code, _, err = run("train", data / "train.txt", "-o", tmp_path / "m")
    assert code == 1
    one_line(err, "unexpected error", "KeyError: 'x'", "LABELWRIGHT_DEBUG=1")
    monkeypatch.setenv("LABELWRIGHT_DEBUG", "1")
    with pytest.raises(KeyError):
        run("train", data / "train.txt", "-o", tmp_path / "m")
    monkeypatch.delenv("LABELWRIGHT_DEBUG")
    for error, wanted, part in (
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 2, "not enough memory"),
    ):
        monkeypatch.setattr("labelwright.taggers.crf.CRF.fit", mock.Mock(side_effect=error))
        found, _, err = run("train", data / "train.txt", "-o", tmp_path / "m")
        assert found == wanted
        one_line(err, part)


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory; raise --min-count"),
        (ImportError("m.so: failed to map segment from shared object"), "not enough memory"),
        (RuntimeError("can't start new thread"), "cannot start a thread; allow more memory"),
    ],
)
def test_limits_of_memory_are_one_line(
    run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, part: str
) -> None:
    monkeypatch.setattr("labelwright.taggers.crf.CRF.fit", mock.Mock(side_effect=error))
    code, _, err = run("train", data / "train.txt", "-o", tmp_path / "m")
    assert code == 2
    one_line(err, part)


def test_a_model_for_which_there_is_no_memory(run, data: Path, monkeypatch) -> None:
    monkeypatch.setattr("labelwright.taggers.crf.CRF.unpack", mock.Mock(side_effect=MemoryError))
    refused(run("tag", data / "crf", data / "words.txt"), "crf: not enough memory to read it")


@pytest.mark.parametrize(
    "error", [MemoryError(), ImportError("m.so: failed to map segment from shared object")]
)
def test_memory_that_is_lacking_at_the_start(capsys, monkeypatch, error: Exception) -> None:
    commands = ModuleType("labelwright.cli")
    commands.__getattr__ = mock.Mock(side_effect=error)
    monkeypatch.setitem(sys.modules, "labelwright.cli", commands)
    assert start() == 2
    one_line(capsys.readouterr().err, "not enough memory to start; raise the limit")


def test_min_count_that_leaves_hardly_a_feature(run, data, tmp_path) -> None:
    template = tmp_path / "t.tpl"
    template.write_text("U:%x[0,0]\nB\n")
    arguments = ["train", data / "train.txt", "-o", tmp_path / "m", "--columns", "word,pos,chunk"]
    code, _, err = run(*arguments, "--template", template, "--min-count", 100, "--iterations", 2)
    assert code == 0
    assert "in the training data, for " in err.splitlines()[0]
    assert "lower --min-count" in err.splitlines()[0]


# -- pipes and devices -----------------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path):
    """A named pipe to which a thread writes some bytes."""
    threads = []

    def piped(name: str, content: bytes) -> Path:
        os.mkfifo(tmp_path / name)
        threads.append(
            threading.Thread(target=(tmp_path / name).write_bytes, args=[content], daemon=True)
        )
        threads[-1].start()
        return tmp_path / name

    yield piped
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
def test_pipes_are_read_from_their_first_byte(run, pipe, tmp_path):
    content = b"".join(b"word%d NN B-X\nother NN O\n\n" % n for n in range(2000))
    assert run("convert", pipe("p", content), tmp_path / "out.txt", "-q")[0] == 0
    assert (tmp_path / "out.txt").read_bytes() == content
    report = json.loads(run("eval", pipe("gold", content), pipe("predicted", content), "--json")[1])
    assert (report["n_sentences"], report["token_accuracy"]) == (2000, 1.0)
    code, out, _ = run(
        "compare", tmp_path / "out.txt", pipe("a", content), pipe("b", content), "--json"
    )
    assert code == 0
    assert json.loads(out)["a"]["n_sentences"] == 2000


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="has no such device")
def test_a_dictionary_without_an_end_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr("labelwright.taggers.declared.MOST_HELD", 1 << 21)
    (tmp_path / "t.txt").write_bytes(b"a X\n")
    code, _, error = run(
        "train", tmp_path / "t.txt", "-o", tmp_path / "m", "--dictionary", "d=/dev/zero"
    )
    assert code == 2
    one_line(error, "--dictionary d: /dev/zero: cannot read: file too large")
