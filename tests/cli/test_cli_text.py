"""Text in, entities out: labelwright train and tag on texts."""

import json
from pathlib import Path

import pytest

import labelwright
from labelwright.cli import files
from labelwright.corpus import file_formats
from labelwright.corpus.tokenizer import Tokenizer

TEXTS = [
    (
        "Ada Lovelace saw Paris. She met Alan Turing.",
        [(0, 12, "PER"), (17, 22, "LOC"), (32, 43, "PER")],
    ),
    ("They left London.", [(10, 16, "LOC")]),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with the texts as JSON lines and for BRAT, and a text to be tagged."""
    place = tmp_path_factory.mktemp("text")
    lines = [
        json.dumps({"text": text, "spans": [list(span) for span in spans]}) for text, spans in TEXTS
    ]
    (place / "texts.jsonl").write_text("\n".join(lines) + "\n")
    (place / "brat").mkdir()
    for n, (text, spans) in enumerate(TEXTS):
        (place / "brat" / f"{n}.txt").write_text(text)
        ann = [f"T{k}\t{kind} {a} {b}\t{text[a:b]}\n" for k, (a, b, kind) in enumerate(spans, 1)]
        (place / "brat" / f"{n}.ann").write_text(
            "".join([*ann, "R1\tKnows Arg1:T1 Arg2:T2\n", "#1\tAnnotatorNotes T1\tx\n"])
        )
    (place / "new.txt").write_text("Été\n\nAlan Turing left\nParis. Ada Lovelace saw\nLondon.\n")
    return place


@pytest.fixture(scope="module")
def model(place: Path) -> Path:
    from labelwright.cli import main

    train = ["train", place / "texts.jsonl", "-o", place / "m", "-q", "--iterations", 30]
    assert main([str(a) for a in train]) == 0
    return place / "m"


def ok(result) -> str:
    code, out, err = result
    assert code == 0, err
    return out


def test_entities_have_places_in_the_text(run, place: Path, model: Path) -> None:
    text = (place / "new.txt").read_text()
    entities = [
        json.loads(line) for line in ok(run("tag", model, place / "new.txt", "--text")).splitlines()
    ]
    assert [text[each["start"] : each["end"]] for each in entities] == [
        each["text"] for each in entities
    ]
    assert [each["text"] for each in entities if each["type"] == "PER"] == [
        "Alan Turing",
        "Ada Lovelace",
    ]
    assert all(list(each) == ["start", "end", "type", "text", "probability"] for each in entities)
    in_python = labelwright.load(model).predict_entities([text])[0]
    assert [each[:3] for each in in_python] == [(e["start"], e["end"], e["type"]) for e in entities]
    assert [round(each.probability, 6) for each in in_python] == [
        e["probability"] for e in entities
    ]


def test_brat_goes_out_and_in(run, place: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_bytes((place / "new.txt").read_bytes())
    ok(
        run(
            "tag", model, tmp_path / "new.txt", "--text", "--to", "brat", "-o", tmp_path / "new.ann"
        )
    )
    lines = (tmp_path / "new.ann").read_text().splitlines()
    assert lines[0] == "T1\tPER 5 16\tAlan Turing"
    assert lines[1].startswith("#1\tAnnotatorNotes T1\t0.")
    assert json.loads(ok(run("eval", model, tmp_path, "--json")))["f1"] == 1.0
    assert (
        labelwright.read_brat(tmp_path).n_tokens
        == labelwright.read_brat(tmp_path / "new.txt").n_tokens
        == 11
    )


def test_an_ann_file_is_read_with_its_text(run, place: Path, tmp_path: Path) -> None:
    ok(run("convert", place / "brat" / "0.ann", tmp_path / "out.txt"))
    assert (
        labelwright.read_columns(tmp_path / "out.txt").y
        == labelwright.read_brat(place / "brat" / "0.txt").y
    )
    (tmp_path / "lonely.ann").write_text("T1\tPER 0 3\tAda\n")
    code, _, err = run("train", tmp_path / "lonely.ann", "-o", tmp_path / "m")
    assert (code, err) == (
        2,
        f"labelwright: {tmp_path / 'lonely.txt'}: cannot read: no such file\n",
    )


def test_a_folder_of_brat_is_what_json_lines_are(place: Path) -> None:
    folder, lines = (
        labelwright.read_brat(place / "brat"),
        labelwright.read_doccano(place / "texts.jsonl"),
    )
    assert (folder.X, folder.y) == (lines.X, lines.y)
    assert len(folder) == 3
    assert folder.y[0] == ["B-PER", "I-PER", "O", "B-LOC", "O"]


def test_other_forms_of_the_answer(run, place: Path, model: Path) -> None:
    columns = ok(run("tag", model, place / "new.txt", "--text", "--to", "columns"))
    assert columns.split("\n\n")[1].splitlines()[:2] == ["Alan B-PER", "Turing I-PER"]
    facts = [
        json.loads(line)
        for line in ok(run("tag", model, place / "new.txt", "--text", "--json")).splitlines()
    ]
    assert [fact["tokens"][0] for fact in facts] == ["Été", "Alan", "Ada"]
    assert ok(run("tag", model, place / "texts.jsonl")).count('"predicted": [[') == 2


def test_json_has_the_places_of_tokens(
    run, folder: Path, place: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats.pieces_of, "__defaults__", (None, False, 300))
    text = "Ada saw London.\n\n" * 100  # several pieces
    (tmp_path / "long.txt").write_text(text)
    for name in (model, folder / "two"):
        facts = [
            json.loads(line)
            for line in ok(run("tag", name, tmp_path / "long.txt", "--text", "--json")).splitlines()
        ]
        assert len(facts) == 100
        assert all([text[a:b] for a, b in fact["offsets"]] == fact["tokens"] for fact in facts)
        assert facts[-1]["offsets"][-1][1] == len(text) - 2
    assert "offsets" not in ok(run("tag", model, place / "texts.jsonl", "--json"))


def test_several_labellings_of_a_text(run, place: Path, model: Path) -> None:
    out = ok(
        run(
            "tag",
            model,
            place / "new.txt",
            "--text",
            "--to",
            "columns",
            "--nbest",
            2,
            "--probabilities",
        )
    )
    assert out.count("# nbest 2 ") == 3
    first = json.loads(
        ok(run("tag", model, place / "new.txt", "--text", "--json", "--nbest", 2)).splitlines()[1]
    )
    assert [len(each["labels"]) for each in first["nbest"]] == [len(first["tokens"])] * 2


def test_the_tokenizer_is_saved_with_the_model(run, place: Path, tmp_path: Path) -> None:
    train = "train", place / "texts.jsonl", "-o", tmp_path / "m", "-q", "--iterations", 5
    ok(run(*train, "--characters", "--sentences", "lines"))
    tokenizer = Tokenizer(characters=True, sentences="lines")
    assert labelwright.load(tmp_path / "m").tokenizer() == tokenizer
    (tmp_path / "t.txt").write_text("Ada\nran")
    columns = ok(run("tag", tmp_path / "m", tmp_path / "t.txt", "--text", "--to", "columns"))
    assert [line.partition(" ")[0] for line in columns.splitlines()] == [
        "A",
        "d",
        "a",
        "",
        "r",
        "a",
        "n",
        "",
    ]
    columns = ok(
        run(
            "tag",
            tmp_path / "m",
            tmp_path / "t.txt",
            "--text",
            "--to",
            "columns",
            "--token-pattern",
            r"\S+",
        )
    )
    assert [line.partition(" ")[0] for line in columns.splitlines()] == ["Ada", "", "ran", ""]
    (tmp_path / "c.txt").write_text("A B\nd I\n\nr O\n")  # tokens; the tokenizer is for text
    ok(
        run(
            "train",
            tmp_path / "c.txt",
            "-o",
            tmp_path / "c",
            "-q",
            "--iterations",
            3,
            "--characters",
        )
    )
    assert labelwright.load(tmp_path / "c").tokenizer().characters


def test_the_tokenizer_is_that_of_the_training_tokens(run, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("He PRP\ndoes VBZ\nn't RB\ngo VB\n. .\n")
    (tmp_path / "t.txt").write_text("I can't go. Mr. Smith left.")
    words = lambda out: " ".join(line.partition(" ")[0] for line in out.splitlines())  # noqa: E731
    for options, name, tokens in (
        ([], "ptb", "I ca n't go .  Mr. Smith left . "),
        (["--sentences", "lines"], "ptb", "I ca n't go . Mr. Smith left . "),
        (["--tokenizer", "words"], "words", "I can't go .  Mr . Smith left . "),
    ):
        code, _, err = run(
            "train", tmp_path / "c.txt", "-o", tmp_path / "m", "--iterations", 3, *options
        )
        assert (code, "labels, tokenizer ptb; 1 sentence, " in err) == (0, name == "ptb")
        assert labelwright.load(tmp_path / "m").tokenizer().name == name
        assert (
            words(ok(run("tag", tmp_path / "m", tmp_path / "t.txt", "--text", "--to", "columns")))
            == tokens
        )
    columns = ok(
        run(
            "tag",
            tmp_path / "m",
            tmp_path / "t.txt",
            "--text",
            "--to",
            "columns",
            "--tokenizer",
            "ptb",
        )
    )
    assert words(columns).startswith("I ca n't go .")


def test_segmented_text(run, tmp_path: Path) -> None:
    characters = [
        (c, "S" if len(w) == 1 else "BE"[i])
        for w in ["中国", "人民", "是", "朋友"]
        for i, c in enumerate(w)
    ]
    (tmp_path / "c.txt").write_text("".join(f"{c} {label}\n" for c, label in characters) * 3)
    ok(run("train", tmp_path / "c.txt", "-o", tmp_path / "m", "-q", "--characters"))
    (tmp_path / "t.txt").write_text("人民是朋友\n\n中国 人民")
    assert (
        ok(run("tag", tmp_path / "m", tmp_path / "t.txt", "--text", "--to", "words"))
        == "人民 是 朋友\n中国 人民\n"
    )


@pytest.mark.parametrize("name", ["perceptron", "memory", "semi-crf", "latent-crf"])
def test_every_tagger(run, place: Path, tmp_path: Path, name: str) -> None:
    ok(run("train", place / "texts.jsonl", "-o", tmp_path / "m", "-q", "--model", name))
    out = ok(run("tag", tmp_path / "m", place / "new.txt", "--text"))
    assert "Ada Lovelace" in [json.loads(line)["text"] for line in out.splitlines()]


def test_labels_without_chunks_are_entities_of_one_token(run, tmp_path: Path) -> None:
    (tmp_path / "pos.txt").write_text("He PRP\nran VBD\n\nThey PRP\nleft VBD\n")
    ok(run("train", tmp_path / "pos.txt", "-o", tmp_path / "m", "-q"))
    (tmp_path / "t.txt").write_text("They ran")
    entities = [
        json.loads(line)
        for line in ok(run("tag", tmp_path / "m", tmp_path / "t.txt", "--text")).splitlines()
    ]
    assert [(each["start"], each["end"], each["type"]) for each in entities] == [
        (0, 4, "PRP"),
        (5, 8, "VBD"),
    ]
    assert all(each["probability"] > 0.5 for each in entities)


def test_several_texts_go_to_a_folder(run, model: Path, tmp_path: Path) -> None:
    for name, text in {
        "a.txt": "Ada saw Paris.",
        "b.txt": "They left London.",
        ".hidden": "x",
    }.items():
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    (tmp_path / "c.txt").write_text("Alan Turing left.")
    ok(run("tag", model, tmp_path / "in", tmp_path / "c.txt", "--text", "-o", tmp_path / "out"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.txt", "b.txt", "c.txt"]
    alone = ok(run("tag", model, tmp_path / "in" / "b.txt", "--text"))
    assert (tmp_path / "out" / "b.txt").read_text() == alone != ""
    ok(run("tag", model, tmp_path / "in", "--text", "--to", "brat", "-o", f"{tmp_path}/ann/"))
    assert [path.read_text()[:3] for path in sorted((tmp_path / "ann").glob("*.ann"))] == [
        "T1\t",
        "T1\t",
    ]
    ok(run("tag", model, tmp_path / "c.txt", "--text", "-o", tmp_path / "ann"))
    assert (tmp_path / "ann" / "c.txt").exists()


def test_several_inputs_that_cannot_be(run, model: Path, tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("Ada ran.")
    x, y, out = tmp_path / "x", tmp_path / "y" / "a.txt", tmp_path / "out"
    for arguments, message in (
        (
            [x, y, "-o", out],
            (
                f"-o: {x / 'a.txt'} and {y} would both be written to {out / 'a.txt'}; rename one "
                "of them"
            ),
        ),
        (
            [x],
            "-o: several inputs, or a folder, are written file by file; name a folder with -o DIR",
        ),
        ([x, y, "-o", y], "name a folder with -o DIR"),
        ([y, "-", "-o", out], "name a folder with -o DIR"),
        ([x, "-o", x], "would replace"),
        ([x, "-o", out, "--nbest", 2], "--nbest: entities have no place for several labellings"),
        ([tmp_path / "none.txt", x, "-o", out / "new"], "none.txt: cannot read: no such file"),
        ([x, "-o", y / "new"], "new: "),
    ):
        code, printed, err = run("tag", model, *arguments, "--text")
        assert (code, printed, err.count("\n")) == (2, "", 1)
        assert message in err
    assert not out.exists()


def test_little_text(run, model: Path, tmp_path: Path) -> None:
    for text in ("", "\n \n", "x"):
        (tmp_path / "t.txt").write_text(text)
        assert isinstance(ok(run("tag", model, tmp_path / "t.txt", "--text")), str)
    assert labelwright.load(model).predict_entities(["", " "]) == [[], []]
    assert labelwright.load(model).predict_entities([]) == []


def test_models_that_read_more_than_words(
    run, folder: Path, segments: Path, place: Path, tmp_path: Path
) -> None:
    needs = "; for plain text train on words and labels alone, or a cascade that predicts pos\n"
    assert run("tag", segments, place / "new.txt")[2].endswith(needs)
    assert run("tag", segments, stdin=b"He ran\nto the house\n")[2].endswith(
        f"expected 2 columns, got 3{needs}"
    )
    # a cascade finds the tags itself
    out = ok(run("tag", folder / "two", place / "new.txt", "--text"))
    assert {"start", "end", "type", "text"} <= set(json.loads(out.splitlines()[0]))


def test_bad_files(run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.txt").write_text("Ada")
    assert "no text is annotated" in run("train", tmp_path / "empty", "-o", tmp_path / "m")[2]
    (tmp_path / "empty" / "a.ann").write_text("T1\tPER 0\tAda\n")
    assert (
        "a.ann:1: expected `T1<tab>TYPE START END<tab>TEXT`, got"
        in run("train", tmp_path / "empty", "-o", tmp_path / "m")[2]
    )


def test_compare_splits_texts_as_the_models_do(place: Path, model: Path, run) -> None:
    texts, lines = place / "texts.jsonl", place / "lines"
    assert run("train", texts, "-o", lines, "-q", "--iterations", 5, "--sentences", "lines")[0] == 0
    code, out, _ = run("compare", texts, lines, lines, "--json")
    assert code == 0
    report = json.loads(run("eval", texts, lines, "--json")[1])
    assert json.loads(out)["a"]["f1"] == pytest.approx(report["f1"])
    code, _, err = run("compare", texts, lines, model)
    assert (code, err.count("\n")) == (2, 1)
    assert "split texts differently" in err


def test_compare_loads_a_model_once(
    place: Path, model: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    real = files.load_model
    monkeypatch.setattr(
        files, "load_model", lambda path, *more: loaded.append(path) or real(path, *more)
    )
    ok(run("compare", place / "texts.jsonl", model, model))
    assert loaded == [str(model)]
