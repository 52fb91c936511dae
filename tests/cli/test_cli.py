"""The command line: start-up, every command but `train`, and its one-line errors."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import COMMAND, SENTENCE, one_line, process, refused

import labelwright
from labelwright.corpus import read_columns, read_conllu

# -- start-up --------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from labelwright.cli import main; code = main(['--help']); "
        "bad = {'numpy', 'rich', 'safetensors', 'scipy', 'sklearn'} & set(sys.modules); "
        "sys.exit(code or str(sorted(bad)) * bool(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("train", "tag", "eval", "compare", "inspect", "convert", "warmup", "demo"):
        assert f"  {name} " in done.stdout


@pytest.mark.slow
def test_tagging_imports_neither_scipy_nor_scikit_learn(data: Path) -> None:
    script = (
        "import sys; from labelwright.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or int('scipy.linalg' in sys.modules or 'sklearn' in sys.modules))"
    )
    (data / "one.txt").write_bytes(SENTENCE)
    done = subprocess.run(
        [sys.executable, "-c", script, "tag", data / "crf", data / "one.txt"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [len(line.split()) for line in done.stdout.splitlines() if line] == [3, 3, 3, 3]


def test_version_and_no_arguments(run) -> None:
    assert run("--version") == (0, f"labelwright {labelwright.__version__}\n", "")
    assert run()[1] == run("--help")[1]


# -- tagging ---------------------------------------------------------------------------------------


def test_tag_appends_one_column_and_changes_nothing_else(run, data: Path, tmp_path: Path) -> None:
    for name in ("words.txt", "test.txt"):
        code, out, err = run("tag", data / "crf", data / name)
        assert (code, err) == (0, "")
        before = (data / name).read_text().splitlines()
        after = out.splitlines()
        assert [line.rpartition(" ")[0] for line in after] == before
        assert run("tag", data / "crf", data / name, "-o", tmp_path / "out.gz")[0] == 0
        assert read_columns(tmp_path / "out.gz").raw.text.decode() == out


def test_tag_agrees_with_python(run, data: Path) -> None:
    _, out, _ = run("tag", data / "crf", "-", stdin=(data / "words.txt").read_bytes())
    words = read_columns(data / "words.txt", label=False)
    expected = labelwright.load(data / "crf").predict(words.X)
    assert read_columns(io.BytesIO(out.encode())).y == expected


def test_probabilities_nbest_and_json(run, data: Path) -> None:
    _, out, _ = run("tag", data / "crf", "--probabilities", stdin=SENTENCE)
    rows = [line.split() for line in out.splitlines() if line]
    assert all(len(row) == 4 and 0 <= float(row[3]) <= 1 for row in rows)
    _, out, _ = run("tag", data / "crf", "--nbest", 3, stdin=SENTENCE)
    shares = [float(line.split()[3]) for line in out.splitlines() if line.startswith("# nbest")]
    assert len(shares) == 3
    assert shares == sorted(shares, reverse=True)
    _, out, _ = run(
        "tag", data / "crf", "--json", "--nbest", 2, "--probabilities", stdin=SENTENCE * 2
    )
    first, second = map(json.loads, out.splitlines())
    assert first == second
    assert first["tokens"] == ["He", "saw", "her", "brother"]
    assert first["nbest"][0] == {"labels": first["labels"], "probability": first["probability"]}
    assert {"start", "end", "type", "text", "probability"} == set(first["spans"][0])
    assert len(first["probabilities"]) == 4


def test_known_labels_and_constraints(run, data: Path) -> None:
    known = b"He PRP _\nsaw VBD _\nher PRP$ B-NP\nbrother NN B-NP\n\n"
    _, out, _ = run("tag", data / "crf", "--known", "chunk", stdin=known)
    assert [line.split()[-1] for line in out.splitlines() if line][2:] == ["B-NP", "B-NP"]
    hinted = b"0 He PRP _\n1 saw VBD _\n2 her PRP$ B-NP\n3 brother NN B-NP\n\n"
    _, out, _ = run(
        "tag", data / "crf", "--columns", "n,word,pos,hint", "--known", "hint", stdin=hinted
    )
    assert [line.split()[-1] for line in out.splitlines() if line][2:] == ["B-NP", "B-NP"]
    assert (
        run("tag", data / "crf", "--constraints", "scheme", "--decoder", "viterbi", stdin=SENTENCE)[
            0
        ]
        == 0
    )
    refused(
        run("tag", data / "crf", "--known", "chunk", stdin=known.replace(b"B-NP", b"B-XX")),
        "no label 'B-XX' in this model",
    )


@pytest.mark.slow
def test_a_stream_is_answered_while_it_flows(data: Path) -> None:
    child = process("tag", data / "crf")
    assert child.stdin is not None
    assert child.stdout is not None
    for _ in range(3):
        child.stdin.write(SENTENCE)
        child.stdin.flush()
        answer = [child.stdout.readline() for _ in range(5)]
        assert [len(line.split()) for line in answer] == [3, 3, 3, 3, 0]
    child.stdin.close()
    assert child.stdout.read() == b""
    assert child.wait(timeout=30) == 0
    child.stdout.close()
    assert child.stderr is not None
    assert child.stderr.read() == b""
    child.stderr.close()


@pytest.mark.slow
def test_a_broken_pipe_is_no_error(data: Path, tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_bytes(SENTENCE * 20000)
    child = process("tag", data / "crf", tmp_path / "many.txt")
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == b""
    child.communicate()
    assert child.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_the_output(data: Path) -> None:
    with open("/dev/full", "wb") as full:
        child = process("tag", data / "crf", data / "words.txt", stdout=full)
        _, err = child.communicate()
    assert child.returncode == 2
    one_line(err.decode(), "no space left on device")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["train", "{data}/test.txt", "-o", "{out}", "--iterations", "2", "--min-count", "99"], 0),
        (["tag", "{data}/crf", "nowhere"], 2),
    ],
)
def test_messages_on_a_full_disk_change_no_exit_status(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    out = tmp_path / "model"
    with open("/dev/full", "wb") as full:
        given = [each.format(data=data, out=out) for each in arguments]
        child = subprocess.run([*COMMAND, *given], stderr=full, stdout=subprocess.PIPE, check=False)
    assert (child.returncode, child.stdout) == (code, b"")
    assert out.exists() == (code == 0)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs sh")
@pytest.mark.parametrize(
    ("arguments", "closed", "code", "message"),
    [
        (["tag", "crf", "words.txt"], ">&-", 2, "<stdout>: cannot write: it is closed"),
        (["inspect", "crf"], ">&-", 2, "<stdout>: cannot write: it is closed"),
        (["tag", "crf"], "<&-", 2, "<stdin>: cannot read: it is closed"),
        (["train", "-", "-o", "{out}"], "<&-", 2, "<stdin>: cannot read: it is closed"),
        (["tag", "crf", "words.txt", "-o", "{out}"], "<&- >&- 2>&-", 0, ""),
        (["train", "test.txt", "-o", "{out}", "--iterations", "2", "-v"], "<&- >&- 2>&-", 0, ""),
        (["tag", "crf", "nowhere"], "2>&-", 2, ""),
    ],
)
def test_streams_that_are_closed(
    data: Path, tmp_path: Path, arguments: list[str], closed: str, code: int, message: str
):
    out = tmp_path / "out"
    given = [each.format(out=out) for each in arguments]
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *given]
    done = subprocess.run(command, cwd=data, capture_output=True)
    assert done.returncode == code
    assert done.stderr.decode() == (f"labelwright: {message}\n" if message else "")
    assert out.exists() == (code == 0)


def test_unusual_sentences(run, data: Path) -> None:
    for words in (["He PRP"], ["He PRP"] * 10_000, ["\x00\x01 ☃", "qzx 🦀"]):
        text = "\n".join(words) + "\n\n"
        code, out, err = run("tag", data / "crf", "--json", stdin=text.encode())
        assert (code, err) == (0, "")
        assert len(json.loads(out)["labels"]) == len(words)


def test_conllu(run, data: Path, tmp_path: Path) -> None:
    line = "{}\t{}\t_\t{}" + "\t_" * 6 + "\n"
    text = "# text = He ran\n" + line.format(1, "He", "PRON") + line.format(2, "ran", "VERB") + "\n"
    (tmp_path / "t.conllu").write_text(text * 5)
    assert run("train", tmp_path / "t.conllu", "-o", tmp_path / "m", "-q") == (0, "", "")
    (tmp_path / "u.conllu").write_text(text.replace("PRON", "_").replace("VERB", "_"))
    assert run("tag", tmp_path / "m", tmp_path / "u.conllu") == (0, text, "")
    _, out, _ = run("eval", tmp_path / "m", tmp_path / "t.conllu", "--json")
    assert json.loads(out)["token_accuracy"] == 1.0
    columns = ["--columns", "form,lemma,upos"]
    assert run("train", tmp_path / "t.conllu", "-o", tmp_path / "m", "-q", *columns) == (0, "", "")
    assert run("eval", tmp_path / "m", tmp_path / "t.conllu")[0] == 0
    assert run("tag", tmp_path / "m", tmp_path / "u.conllu") == (0, text, "")


# -- scores ----------------------------------------------------------------------------------------


def test_eval_of_a_file_and_of_a_model_agree(run, data: Path, tmp_path: Path) -> None:
    run("tag", data / "crf", data / "test.txt", "-o", tmp_path / "tagged")
    code, out, _ = run("eval", data / "test.txt", tmp_path / "tagged", "--json")
    assert code == 0
    report = json.loads(out)
    of_model = json.loads(run("eval", data / "crf", data / "test.txt", "--json")[1])
    decoding = of_model.pop("decoding")
    assert of_model == report
    assert (decoding["decoder"], decoding["sentences"], decoding["exact"], decoding["gap"]) == (
        "viterbi",
        50,
        50,
        0,
    )
    assert 0.8 < report["f1"] < 1
    assert report["signature"].startswith("f1|reading:conlleval|scheme:iob2|")
    code, out, _ = run("eval", data / "crf", data / "test.txt", "--strict")
    assert code == 0
    assert "reading:strict" in out
    assert "token accuracy" in out


def test_eval_names_labels_that_the_model_lacks(run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text((data / "test.txt").read_text().replace("I-NP", "I-XP"))
    code, out, err = run("eval", data / "crf", tmp_path / "test.txt")
    assert (code, out[:5]) == (0, "chunk")
    line = (
        f"{tmp_path / 'test.txt'}: column chunk: labels that the training data lack, and no model "
        "predicts: I-XP"
    )
    one_line(err, line)
    options = ["-o", tmp_path / "m", "--iterations", "1", "-q"]
    code, _, again = run("train", data / "train.txt", *options, "--dev", tmp_path / "test.txt")
    assert (code, again) == (0, err.replace(": column chunk", ""))
    assert run("train", data / "train.txt", *options, "--dev", data / "test.txt")[2] == ""


def test_a_file_without_empty_lines_is_one_sentence(run, data: Path, tmp_path: Path) -> None:
    lines = (data / "train.txt").read_text().split("\n")
    (tmp_path / "one.txt").write_text("".join(f"{line}\n" for line in lines if line))
    line = f"{tmp_path / 'one.txt'}: all {sum(map(bool, lines)):,} tokens are one sentence"
    for command in (["train"], ["eval", data / "crf"], ["tag", data / "crf"]):
        options = ["-o", tmp_path / "m", "--iterations", "1", "-q"] if command == ["train"] else []
        code, _, err = run(*command, tmp_path / "one.txt", *options)
        assert code == 0
        one_line(err, line)


def test_control_characters_do_not_reach_the_terminal(run, tmp_path: Path) -> None:
    red, turned = "\x1b[31m\x07", "\u202eabc\x9b"
    sentences = [f"He{red}{n % 3} PRP B-X{turned}\nsaw{turned} V{red} O\n\n" for n in range(12)]
    (tmp_path / "a.txt").write_text("".join(sentences))
    (tmp_path / "b.txt").write_text("".join(sentences).replace("B-X", "B-Y"))
    a, b, m = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "m"
    reports = [
        ["train", a, "-o", m, "--dev", b, "--iterations", 9, "--columns", "word,pos,chunk", "-v"],
        ["inspect", m],
        ["eval", m, b, "--errors"],
        ["explain", m, b],
        ["explain", m, b, "--sentence", 0, "--token", 0],
        ["errors", m, b],
        ["rank", m, b],
        ["doubts", b, "--folds", 2, "--iterations", 2],
        ["compare", b, a, b],
        ["tag", m, b, "--rule", f"at_most(1, '{red}')"],
    ]
    shown = ""
    for arguments in reports:
        code, out, err = run(*arguments)
        assert (code, "Traceback" in err) == (2 if "--rule" in arguments else 0, False), err
        assert not set("\r\x07\x1b\x9b\u202e") & set(out + err), arguments[0]
        shown += out
    assert "He\\x1b[31m\\x07" in shown
    assert "X\\u202eabc\\x9b" in shown
    assert run("tag", m, a)[1] == a.read_text().replace(
        "\x9b\n", "\x9b B-X" + turned + "\n"
    ).replace(" O\n", " O O\n")
    assert red in json.loads(run("explain", m, b, "--json")[1])["sentences"][0]["words"][0]


def test_compare(run, data: Path, tmp_path: Path) -> None:
    run("tag", data / "crf", data / "test.txt", "-o", tmp_path / "a")
    code, out, _ = run("compare", data / "test.txt", tmp_path / "a", data / "crf", "--samples", 50)
    assert code == 0
    assert "McNemar" in out
    assert "bootstrap" in out
    code, out, _ = run(
        "compare", data / "test.txt", data / "test.txt", tmp_path / "a", "--json", "--samples", 50
    )
    found = json.loads(out)
    assert found["a"]["f1"] == 1.0
    assert found["bootstrap"]["delta"] < 0


def test_wrong_predictions_are_scored(run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("a X B-NP\nb X O\n")
    for text in ("O\nB-NP\n", "a X B-PP\nb X I-PP\n", "a X X B-NP\nb X X O\n"):
        (tmp_path / "pred").write_text(text)
        assert run("eval", tmp_path / "gold", tmp_path / "pred")[0] == 0


# -- the other commands ----------------------------------------------------------------------------


def test_inspect(run, data: Path) -> None:
    code, out, _ = run("inspect", data / "crf", "--top", 2)
    assert code == 0
    for part in (
        "template:default",
        "200 sentences",
        "strongest transitions",
        "B-NP → I-NP",
        "loss",
    ):
        assert part in out
    facts = json.loads(run("inspect", data / "crf", "--json", "--top", 2)[1])
    assert facts["labels"][0] == "B-NP"
    assert len(facts["features"]["state"]["B-NP"]) == 2
    assert facts["training"]["label"] == "chunk"
    assert run("inspect", data / "crf", "--template")[1].startswith("B\nU")


def test_inspect_shows_the_label_and_the_best_iteration(run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("B-NP He\nB-VP ran\n")
    options = [
        "--columns",
        "chunk,word",
        "--label",
        "chunk",
        "--iterations",
        5,
        "--dev",
        tmp_path / "one.txt",
    ]
    _, _, err = run("train", tmp_path / "one.txt", "-o", tmp_path / "m", *options)
    assert " 2 labels; 1 sentence, 5 iterations" in err
    _, out, _ = run("inspect", tmp_path / "m")
    for part in ("label           chunk, column 1 of chunk,word\n", "1 sentence, 2 tokens\n"):
        assert part in out
    assert re.search(r"best iteration  \d+, F1 100.00 on the development data\n", out)
    refused(
        run("tag", tmp_path / "m", stdin=SENTENCE.replace(b"\n", b" X\n", 4)),
        "the model reads 1 column (word), or 2 with the label, got 3",
    )


def test_convert_schemes_there_and_back(run, data: Path, tmp_path: Path) -> None:
    source = data / "test.txt"
    for scheme in ("bioes", "iob1", "ioe2"):
        there, back = tmp_path / f"{scheme}.xz", tmp_path / f"{scheme}.txt"
        assert run("convert", source, there, "--to-scheme", scheme, "-q") == (0, "", "")
        assert run(
            "convert", there, back, "--from-scheme", scheme, "--to-scheme", "iob2", "-q"
        ) == (0, "", "")
        assert back.read_bytes() == source.read_bytes()


def test_convert_repairs_and_refuses(run, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("a B-NP\nb I-PP\nc I-PP\n\nd O\ne I-NP\n\nf B-NP\ng I-NP\n")
    refused(
        run(
            "convert",
            tmp_path / "broken",
            tmp_path / "out",
            "--from-scheme",
            "iob2",
            "--to-scheme",
            "bioes",
        ),
        "broken: sentence 0, token 1: I-PP cannot follow B-NP in iob2 (2 such places)",
        "--repair",
    )
    assert not (tmp_path / "out").exists()
    code, out, _ = run("convert", tmp_path / "broken", "-", "--to-scheme", "iob2", "--repair")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()[:3]] == ["B-NP", "B-PP", "I-PP"]


def test_convert_between_columns_and_conllu(run, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.conllu.gz"
    assert run("convert", data / "words.txt", target, "--columns", "form,upos", "-q") == (0, "", "")
    assert len(read_conllu(target)) == 50
    assert run("convert", target, tmp_path / "back", "--keep", "form,upos", "-q") == (0, "", "")
    assert (tmp_path / "back").read_text() == (data / "words.txt").read_text()


def test_convert_models_of_crfsuite(run, tmp_path: Path) -> None:
    X, y = [[{"w": "a"}, {"w": "b"}], [{"w": "b"}]], [["B-X", "O"], ["O"]]
    ours, there, back, other = (
        tmp_path / name for name in ("m", "m.crfsuite", "back", "other.crfsuite")
    )
    labelwright.CRF(n_jobs=1, max_iter=5).fit(X, y).save(ours)
    code, out, err = run("convert", ours, there)
    assert (code, out) == (0, "")
    assert (
        "m.crfsuite: 2 labels, 2 features\nnot carried over: settings, training record, label "
        "scheme (iob2)\n"
    ) in err
    assert run("convert", there, back, "-q") == (0, "", "")
    assert run("convert", back, other, "-q") == (0, "", "")
    assert there.read_bytes() == other.read_bytes()
    assert labelwright.load(there).predict(X) == labelwright.load(back).predict(X) == y
    code, out, _ = run("inspect", there)
    assert code == 0
    assert "imported from  CRFsuite\n" in out


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--quick"], []])
def test_demo_runs_and_knows_her(run, options: list[str]) -> None:
    code, out, err = run("demo", *options)
    assert (code, err) == (0, "")
    given, seen = out.split("   He gave her flowers .\n")[1].split("   He saw her brother .\n")
    assert given.splitlines()[2].endswith("%   [NP He] [VP gave] [NP her] [NP flowers] .")
    assert "so `her` is a phrase of its own." in given
    assert seen.splitlines()[2].endswith("%   [NP He] [VP saw] [NP her brother] .")
    assert "so `her` belongs to what follows." in seen
    assert "labelwright train train.txt" in out
    assert "words a second,\n   not counting the time to start and to compile." in out


NAMES = {"O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"}


def test_the_demo_writes_files_over_no_others(run, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    for _ in range(2):  # its own files may be there
        code, out, err = run("demo", "--write", folder)
        assert (code, err) == (0, "")
        assert out.startswith(
            f"{folder}: train.txt (35 sentences), dev.txt (10 sentences), test.txt"
        )
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    parts = [
        labelwright.read_columns(folder / name, names="word,pos,chunk")
        for name in ("train.txt", "new.txt")
    ]
    assert [len(part) for part in parts] == [35, 5]
    texts = [labelwright.read_doccano(folder / name) for name in ("lives.jsonl", "lives-dev.jsonl")]
    assert [len(text) for text in texts] == [244, 68]
    assert all({label for labels in text.y for label in labels} == NAMES for text in texts)
    assert out.endswith(
        "lives.jsonl (122 texts), lives-dev.jsonl (34 texts), lives-new.txt (16 texts)\n"
    )
    (folder / "train.txt").unlink()
    (folder / "test.txt").write_text("mine O\n")
    refused(
        run("demo", "--write", folder),
        f"{folder / 'test.txt'}: is there already, with other content; name another folder",
    )
    assert not (folder / "train.txt").exists()
    assert (folder / "test.txt").read_text() == "mine O\n"
    assert (folder / "dev.txt").read_bytes() == written["dev.txt"]


def test_warmup_says_that_there_is_nothing_to_do(run) -> None:
    code, out, err = run("warmup", "--cache", "somewhere", "--cpu", "generic")
    assert (code, err) == (0, "")
    assert out == (
        "nothing to do: kernels are compiled when labelwright is built; leave warmup out\n"
    )


def test_ctrl_c_while_the_command_line_is_imported() -> None:
    program = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from labelwright.__main__ import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "labelwright: interrupted\n")
