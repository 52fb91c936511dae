"""`tag` piece by piece: the same bytes as in one piece, in every format; nothing half-written; its
input is safe."""

import json
import os
from pathlib import Path

import pytest
from command import one_line, refused

from labelwright import load
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, file_formats, write_conllu


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few sentences."""
    monkeypatch.setattr(file_formats.pieces_of, "__defaults__", (None, False, 300))


@pytest.fixture(scope="module")
def inputs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sentences in several formats, and a model for CRFsuite's data."""
    folder = tmp_path_factory.mktemp("pieces")
    corpus = builtin_corpus(60, random_state=5, columns=["word", "pos", "chunk"])
    words, tags = corpus.column("word"), corpus.column("pos")
    rows = list(zip(words, tags, corpus.column("chunk"), strict=True))
    (folder / "a.txt").write_text(
        "-DOCSTART- O O\r\n\r\n"
        + "".join(
            "".join(f"{w} {p}  {c} \n" for w, p, c in zip(*r, strict=True)) + " \n\n" for r in rows
        )
        + "-DOCSTART- O O\n\n"
    )
    (folder / "a.jsonl").write_text(
        "".join(json.dumps({"tokens": w, "pos": p}) + "\n" for w, p, _ in rows)
    )
    (folder / "a.crfsuite").write_text(
        "".join(
            "".join(f"{c}\tw={w}\tp={p}\n" for w, p, c in zip(*r, strict=True)) + "\n" for r in rows
        )
    )
    write_conllu(corpus.renamed(["form", "xpos", "upos"], "upos"), folder / "a.conllu")
    train = ["train", "-q", "--iterations", "5", "-o"]
    assert main([*train, str(folder / "attributes"), str(folder / "a.crfsuite")]) == 0
    assert (
        main(
            [
                *train,
                str(folder / "conllu"),
                str(folder / "a.conllu"),
                "--columns",
                "form,xpos,upos",
            ]
        )
        == 0
    )
    return folder


CASES = [
    ("crf", "a.txt", []),
    ("crf", "a.txt", ["--json", "--probabilities"]),
    ("crf", "a.txt", ["--nbest", "2"]),
    ("crf", "a.txt", ["--probabilities", "--known", "chunk"]),
    ("crf", "a.jsonl", []),
    ("attributes", "a.crfsuite", ["--probabilities"]),
    ("conllu", "a.conllu", []),
]


@pytest.mark.parametrize(("model", "name", "options"), CASES)
def test_the_same_bytes(
    run, data: Path, inputs: Path, monkeypatch, model: str, name: str, options: list[str]
) -> None:
    arguments = ["tag", (data if model == "crf" else inputs) / model, inputs / name, *options]
    code, whole, err = run(*arguments)
    assert (code, err) == (0, "")
    monkeypatch.setattr(file_formats.pieces_of, "__defaults__", (None, False, 300))
    assert len(list(file_formats.pieces_of(str(inputs / name)))) > 5
    assert run(*arguments) == (0, whole, "")


@pytest.mark.usefixtures("small")
def test_output_may_be_the_input(run, data: Path, inputs: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes((inputs / "a.txt").read_bytes())
    _, out, _ = run("tag", data / "crf", path)
    assert run("tag", data / "crf", path, "-o", path)[0] == 0
    assert path.read_bytes().decode() == out
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.usefixtures("small")
def test_nothing_half_written(run, data: Path, inputs: Path, tmp_path: Path) -> None:
    text = (inputs / "a.txt").read_bytes()
    path, out = tmp_path / "a.txt", tmp_path / "out.txt"
    path.write_bytes(text + b"\nwrong\n")
    out.write_bytes(b"old")
    code, _, err = run("tag", data / "crf", path, "-o", out)
    assert code == 2
    line = text.count(b"\n") + 2
    one_line(err, f"a.txt:{line}: expected 3 columns, got 1")
    assert out.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "out.txt"]


@pytest.mark.usefixtures("small")
def test_a_warning_about_the_first_piece_says_so(run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("xyz XYZ\n" * 100 + "\n" + "zyx XYZ\n\n" * 50)
    code, _, err = run("tag", data / "crf", tmp_path / "a.txt")
    assert code == 0
    one_line(
        err, "a.txt, first ", ": 100 % of the words (column word, first 'xyz') were never seen"
    )


def test_training_with_encoded_data_in_files(run, data: Path, tmp_path: Path) -> None:
    train = [
        "train",
        data / "train.txt",
        "--columns",
        "word,pos,chunk",
        "--iterations",
        5,
        "-q",
        "-o",
    ]
    assert run(*train, tmp_path / "plain") == (0, "", "")
    (tmp_path / "files").mkdir()
    assert run(*train, tmp_path / "mapped", "--memory-map", tmp_path / "files") == (0, "", "")
    plain, mapped = (load(tmp_path / name) for name in ("plain", "mapped"))
    assert (plain.weights_ == mapped.weights_).all()
    assert os.listdir(tmp_path / "files") == []
    refused(
        run(*train, tmp_path / "m", "--memory-map", tmp_path / "none"),
        "--memory-map: ",
        "none: no such folder",
    )
    refused(
        run(*train[:4], "-o", tmp_path / "m", "--model", "memory", "--memory-map", tmp_path),
        "--memory-map",
    )
