"""The format of a file by its name and its contents."""

import gzip
import json

import pytest

from labelwright.corpus.file_formats import FORMATS, FileOptions, format_of, opened, read_corpus
from labelwright.errors import OptionError

ATTRIBUTES = b"A\tw=a\tx=b\nB\tw=b\nA\tw=c\n"
TASKS = json.dumps([{"data": {"text": "Ada"}, "annotations": []}]).encode()


@pytest.mark.parametrize(
    ("name", "data", "format"),
    [
        ("a.txt", b"", "columns"),
        ("a.txt", b"He PRP\n", "columns"),
        ("a.txt", b"{ ( O\n} ) O\n", "columns"),
        ("a.txt", b"{}\n", "columns"),
        ("a.txt", b"[ ( O\n] ) O\n", "columns"),
        ("a.txt", b"[1]\n", "columns"),
        ("a.conllu", b"1\tHe\n", "conllu"),
        ("a.conllu.gz", b"", "conllu"),
        ("a.txt", ATTRIBUTES, "crfsuite"),
        ("a.crfsuite", b"A\tx\n", "crfsuite"),
        ("a", b'\xef\xbb\xbf\n{"tokens": ["a"]}', "jsonl"),
        ("a", b'{"words": ["a"], "text": "a"}', "jsonl"),
        ("a.jsonl", b"", "jsonl"),
        ("a.ndjson", b'{"names": ["O"]}\n', "jsonl"),
        ("a.JSONL.bz2", b"{", "jsonl"),
        ("a", b'{"text": "a", "label": []}', "doccano"),
        ("a.jsonl", b'{"text": "a"}', "doccano"),
        ("a", b'{"text": "a"}', "columns"),
        ("a", TASKS, "label-studio"),
        ("a.json", b"\n " + json.dumps(json.loads(TASKS), indent=2).encode(), "label-studio"),
        ("a.json", b"[]", "jsonl"),
        ("a", b"PAR1....", "parquet"),
        ("a.parquet", b"", "parquet"),
    ],
)
def test_recognised(name, data, format):
    assert format_of(name, data) == format


def test_named_columns_are_columns():
    assert format_of("a.txt", ATTRIBUTES, named=True) == "columns"


def test_opened_files_are_read_again_and_again(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"tokens": ["a"], "tags": ["X"], "predicted": ["Y"]}\n'))
    file = opened(str(path))
    assert opened(file) is file
    assert file.read() == file.read()
    assert read_corpus(file)[0].y == [["X"]]
    assert read_corpus(file, predicted=True)[0].y == [["Y"]]
    with pytest.raises(
        OptionError, match=f"format: expected one of {', '.join(FORMATS)}, got 'json'; did you mean"
    ):
        opened(str(path), "json")


def test_texts_have_no_columns(tmp_path):
    path = tmp_path / "a"
    path.write_text('{"text": "Ada ran", "label": [[0, 3, "PER"], [1, 3, "PER"]], "predicted": []}')
    file = opened(str(path))
    with pytest.raises(
        OptionError, match=r"columns: .* annotated texts have the columns word and label"
    ):
        read_corpus(file, "word")
    corpus, notes = read_corpus(file, options=FileOptions(skip_bad_spans=True))
    assert corpus.y == [["B-PER", "O"]]
    assert notes == [
        f"1 annotation left out; {path}:1: the annotation 1:3 (PER) cuts the token 'Ada'"
    ]
    assert read_corpus(file, label=False)[0].label is None
    assert read_corpus(file, predicted=True)[0].y == [["O", "O"]]
