"""What the command line refuses: one plain line, exit code 2, and nothing lost."""

import json
import os
import threading
from pathlib import Path
from unittest import mock

import pytest
from command import SENTENCE, one_line, refused

import labelwright

# -- what goes wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "options", "parts"),
    [
        (b"a DT B-NP\nb\n\n", [], ["bad.txt:2: expected 3 columns, got 1"]),
        (b"", [], ["bad.txt: no tokens"]),
        (b"\n\n \n", [], ["bad.txt: no tokens"]),
        (b"a DT B-NP\n\xff DT O\n", [], ["bad.txt:2: byte 1", "not UTF-8"]),
        ("a DT O\n".encode("utf-16"), [], ["bad.txt: is UTF-16, expected UTF-8", "iconv -f UTF-16 -t UTF-8"]),
        (b"a DT O\n", ["--columns", "word,pos"], ["bad.txt:1: expected 2 columns (word,pos), got 3"]),
        (b"a DT O\n", ["--label", "ner"], ["bad.txt: no column 'ner' to be the label"]),
        (b"a DT O\n", ["--template", "U:%q[0,0]"], ["template:1:3: unknown function %q"]),
        (b"a DT O\n", ["--template", "U:%x[0,7]"], ["reads column 7, but the data has 2 input columns"]),
        (b"a DT O\n", ["--template", "nowhere.tpl"], ["nowhere.tpl: neither a file nor a built-in template"]),
        (b"a DT O\n", ["--optimizer", "adam"], ["optimizer: expected one of lbfgs, sgd, got 'adam'"]),
        (b"a DT O\n", ["--l2", "much"], ["--l2"]),
        (
            b"a DT O\n",
            ["--iterations", "0"],
            ["labelwright: --iterations: expected a whole number of 1 or more, got 0"],
        ),
        (b"a DT O\n", ["--threads", "0"], ["--threads: expected a number of threads", "got 0"]),
        (b"a DT O\n", ["--scheme", "bio7"], ["scheme: got 'bio7'"]),
        (b"a DT NN\n", ["--scheme", "iob2"], ["label 'NN' is no chunk label"]),
        (b"a DT NN\n", ["--constraints", "scheme"], ["the labels follow no chunk scheme"]),
        (b"a DT O\nb DT I-NP\nc DT B-NP\nd DT O\ne DT B-NP\n", ["--constraints", "iob2"], ["cannot follow"]),
        (b"a DT O\n", ["--model", "lcrf"], ["--model: expected one of crf, ", "got 'lcrf'"]),
        (b"a DT O\n", ["--order", "3"], ["order: expected", "got 3"]),
        (b"a DT O\n", ["--dev", "nowhere.txt"], ["nowhere.txt: cannot read: no such file"]),
        (b"a DT O\n", ["--start-from", "nowhere"], ["nowhere: cannot read: no such file"]),
        (b"a DT O\n", ["--recipe", "nowhere.toml"], ["nowhere.toml: cannot read: no such file"]),
        (b"a DT O\n", ["--colour", "red"], ["--colour", "labelwright train --help"]),
        (b"a DT O\n", ["more"], ["more"]),
    ],
)
def test_bad_training_input(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, options: list[str], parts: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.txt").write_bytes(content)
    Path("model").write_bytes(b"precious")
    refused(run("train", "bad.txt", "-o", "model", *options), *parts)
    assert Path("model").read_bytes() == b"precious"
    assert set(os.listdir()) == {"bad.txt", "model"}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["tga"], ["No such command 'tga'; did you mean 'tag'?", "labelwright --help"]),
        (["train"], ["TRAIN", "labelwright train --help"]),
        (["train", "nowhere.txt", "-o", "m"], ["nowhere.txt: cannot read: no such file"]),
        (["train", ".", "-o", "m"], [".: is a folder, expected a file, or a folder with"]),
        (["tag", "nowhere"], ["nowhere: cannot read: no such file"]),
        (["eval", "nowhere", "nothing"], ["nowhere: cannot read: no such file"]),
        (["convert", "nowhere", "out"], ["nowhere: cannot read: no such file"]),
        (["inspect", "."], [".: cannot read: is a folder, expected a file"]),
    ],
)
def test_bad_arguments(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], parts: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(run(*arguments), *parts)
    assert os.listdir() == []


def test_targets_are_checked_before_training(run, data: Path, tmp_path: Path) -> None:
    missing, folder = tmp_path / "no" / "m", tmp_path
    for target, part in ((missing, "there is no folder"), (folder, "is a folder"), ("/dev/null", "not a regular file")):
        code, _, err = run("train", "nowhere.txt", "-o", target)  # the target is looked at first
        assert code == 2
        one_line(err, str(target), part)
    refused(run("tag", data / "crf", data / "words.txt", "-o", missing), "there is no folder")


def test_no_command_replaces_what_it_reads(run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = {
        "train.txt": (data / "train.txt").read_bytes(),
        "m.checkpoint": (data / "train.txt").read_bytes(),
        "own.tpl": b"U:%x[0,0]\n",
        "recipe.toml": b'dev = "dev.txt"\n',
        "dev.txt": (data / "dev.txt").read_bytes(),
        "crf": (data / "crf").read_bytes(),
        "other": (data / "crf").read_bytes(),
    }
    for name, text in content.items():
        Path(name).write_bytes(text)
    Path("link").symlink_to("train.txt")
    for arguments, part in (
        (["train", "train.txt", "-o", "train.txt"], "train.txt: would replace train.txt"),
        (["train", "train.txt", "-o", "link"], "link: would replace train.txt"),
        (["train", "train.txt", "-o", "dev.txt", "--dev", "dev.txt"], "dev.txt: would replace"),
        (["train", "train.txt", "-o", "dev.txt", "--recipe", "recipe.toml"], "dev.txt: would replace"),
        (["train", "train.txt", "-o", "recipe.toml", "--recipe", "recipe.toml"], "recipe.toml: would replace"),
        (["train", "train.txt", "-o", "own.tpl", "--template", "own.tpl"], "own.tpl: would replace"),
        (["train", "m.checkpoint", "-o", "m"], "m.checkpoint: would replace"),
        (["tag", "crf", "train.txt", "-o", "crf"], "crf: would replace crf, which this command reads"),
        (["tag", "crf", "train.txt", "-o", "other"], "other: is a model, which this command would replace"),
        (["convert", "train.txt", "crf"], "crf: is a model"),
    ):
        refused(run(*arguments), part, "name another file to write")
    assert {name: Path(name).read_bytes() for name in content} == content
    assert run("tag", "crf", "train.txt", "-o", "train.txt") == (0, "", "")  # in place, whole or not at all
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


def test_bad_tagging_options(run, data: Path) -> None:
    for options, part in (
        (["--decoder", "best"], "decoder: expected one of viterbi, marginal"),
        (["--nbest", "many"], "--nbest"),
        (["--known", "hint"], "no column 'hint'"),
        (["--threads", -5], "--threads: expected a number of threads"),
    ):
        code, out, err = run("tag", data / "crf", data / "words.txt", *options)
        assert (code, out) == (2, ""), options
        one_line(err, part)


def test_a_model_made_of_dicts_reads_no_columns(run, tmp_path: Path) -> None:
    labelwright.CRF(max_iter=3).fit([[{"w": "a"}, {"w": "b"}]], [["X", "Y"]]).save(tmp_path / "m")
    refused(
        run("tag", tmp_path / "m", stdin=SENTENCE),
        "<stdin>: no attributes, but the model was trained on feature dicts",
        "labelwright.load",
    )
    assert run("inspect", tmp_path / "m")[0] == 0


def test_a_failed_write_leaves_the_old_model(run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "m").write_bytes(b"precious")
    monkeypatch.setattr("labelwright.modelfile.os.fsync", full)
    refused(run("train", data / "train.txt", "-o", tmp_path / "m", "--iterations", 3), "No space left on device")
    assert (tmp_path / "m").read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["m"]


def test_unexpected_errors_are_one_line_too(run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    for error, wanted, part in ((KeyboardInterrupt(), 130, "interrupted"), (MemoryError(), 2, "not enough memory")):
        monkeypatch.setattr("labelwright.taggers.crf.CRF.fit", mock.Mock(side_effect=error))
        found, _, err = run("train", data / "train.txt", "-o", tmp_path / "m")
        assert found == wanted
        one_line(err, part)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--lattent", "3"], "no such option --lattent; did you mean --latent?"),
        (["--c1", "1"], "no such option --c1; did you mean --l1?"),
        (["--c2=1"], "no such option --c2; did you mean --l2?"),
        (["--epochs", "9"], "no such option --epochs; did you mean --iterations?"),
        (["--max-iter", "9"], "no such option --max-iter; did you mean --iterations?"),
        (["--colums", "a,b"], "no such option --colums; did you mean --columns?"),
        (["--averaging", "avg"], "--averaging: 'avg' is about the passes of SGD; use --optimizer sgd"),
        (["--template", "T:%x[0,0]"], "--template: T lines are features on three labels; use --order 2"),
        (["--recipe", "colums.toml"], "colums.toml: unknown key 'colums'; did you mean 'columns'?"),
        (["--recipe", "l1.toml"], "l1.toml: l1: SGD has no L1 penalty; use --optimizer lbfgs"),
    ],
)
def test_messages_speak_of_options_and_correct_them(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], part: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("a DT O\n")
    Path("colums.toml").write_text('colums = "a,b"\n')
    Path("l1.toml").write_text('l1 = 1.0\noptimizer = "sgd"\n')
    refused(run("train", "train.txt", "-o", "m", *options), part)


def test_min_count_that_leaves_hardly_a_feature(run, data, tmp_path) -> None:
    template = tmp_path / "t.tpl"
    template.write_text("U:%x[0,0]\nB\n")
    arguments = ["train", data / "train.txt", "-o", tmp_path / "m", "--columns", "word,pos,chunk"]
    code, _, err = run(*arguments, "--template", template, "--min-count", 100, "--iterations", 2)
    assert code == 0
    assert "in the training data, for " in err.splitlines()[0]
    assert "lower --min-count" in err.splitlines()[0]


# -- pipes and devices ------------------------------------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path):
    """A named pipe to which a thread writes some bytes."""
    threads = []

    def piped(name: str, content: bytes) -> Path:
        os.mkfifo(tmp_path / name)
        threads.append(threading.Thread(target=(tmp_path / name).write_bytes, args=[content], daemon=True))
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
    code, out, _ = run("compare", tmp_path / "out.txt", pipe("a", content), pipe("b", content), "--json")
    assert code == 0
    assert json.loads(out)["a"]["n_sentences"] == 2000


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="has no such device")
def test_a_dictionary_without_an_end_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr("labelwright.taggers.kinds.MOST_HELD", 1 << 21)
    (tmp_path / "t.txt").write_bytes(b"a X\n")
    code, _, error = run("train", tmp_path / "t.txt", "-o", tmp_path / "m", "--dictionary", "d=/dev/zero")
    assert code == 2
    one_line(error, "--dictionary d: /dev/zero: cannot read: file too large")
