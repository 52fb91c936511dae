"""labelwright vectors and labelwright dictionary: what they write is what train reads."""

import gzip
import io
import json
import sys

import pytest

import labelwright
from labelwright.cli import main
from labelwright.corpus import builtin_corpus, write_columns


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.txt"
    write_columns(builtin_corpus(40, columns=["word", "pos", "chunk"]), path)
    return path


def test_vectors_and_clusters_go_into_a_tagger(train, tmp_path, capsys):
    vectors, clusters, model = (str(tmp_path / name) for name in ("v.txt.gz", "c.txt", "m.crf"))
    made = ["--clusters", clusters, "--words", "60", "--dimensions", "5", "--bits", "3"]
    assert main(["vectors", str(train), "-o", vectors, *made]) == 0
    assert "60 words, 5 dimensions" in capsys.readouterr().err
    given = [
        "--vectors",
        vectors,
        "--clusters",
        f"c={clusters}",
        "--threads",
        "1",
        "--iterations",
        "3",
        "-q",
    ]
    assert main(["train", str(train), "-o", model, *given]) == 0
    extractor = labelwright.load(model)._extractor
    names = [extractor.name(f) for f in range(extractor.n_features)]
    assert {"Uv[0]:4", "Uv[0]:unknown"} <= set(names)
    assert len({name for name in names if name.startswith("Uc.c[0]:")}) > 4


def test_the_same_command_writes_the_same_file(train, tmp_path):
    for name in ("a.txt", "b.txt"):
        assert (
            main(["vectors", str(train), "-o", str(tmp_path / name), "--dimensions", "4", "-q"])
            == 0
        )
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "b.txt").read_bytes()


def test_text_from_standard_input_to_standard_output(monkeypatch, capfdbinary):
    text = b"The dog ran. The cat ran.\n\nA dog sat still. A cat sat still.\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(text))))
    assert main(["vectors", "-", "-o", "-", "--dimensions", "2", "-q"]) == 0
    header, *lines = capfdbinary.readouterr().out.decode().splitlines()
    assert header.split() == [str(len(lines)), "2"]
    rows = {word: numbers for word, *numbers in map(str.split, lines)}
    assert rows["dog"] == rows["cat"] != rows["ran"]


@pytest.fixture
def entities(tmp_path):
    path = tmp_path / "ner.txt"
    path.write_text(
        "New I-LOC\nYork I-LOC\nsays O\nAda I-PER\n\nAda I-PER\nAda B-PER\nleft O\nYork I-LOC\n"
    )
    return path


def test_a_dictionary_of_labelled_phrases(entities, capsys):
    assert main(["dictionary", str(entities)]) == 0
    assert capsys.readouterr().out == "Ada\nNew York\nYork\n"
    assert (
        main(["dictionary", str(entities), "--type", "LOC", "-o", str(entities.parent / "loc.txt")])
        == 0
    )
    assert (entities.parent / "loc.txt").read_text() == "New York\nYork\n"
    assert "2 phrases" in capsys.readouterr().err
    assert main(["dictionary", str(entities), "--json", "--min-count", "2"]) == 0
    assert json.loads(capsys.readouterr().out) == {"types": {"LOC": {}, "PER": {"Ada": 3}}}


def test_phrases_that_would_be_read_as_others_are_left_out(tmp_path, capsys):
    path, written = tmp_path / "ner.txt", tmp_path / "places.txt"
    path.write_text("10\u00a0Downing Street\tB-LOC\n\nNew\tB-LOC\nYork\tI-LOC\n\nNew York\tB-LOC\n")
    assert main(["dictionary", str(path), "--columns", "word,label", "-o", str(written)]) == 0
    assert written.read_text() == "New York\n"
    assert "2 phrases left out" in capsys.readouterr().err
