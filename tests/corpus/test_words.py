"""Words of files in several formats, as one corpus."""

import gzip

import pytest

from labelwright.corpus.file_formats import read_words
from labelwright.errors import CorpusError

FILES = {
    "columns.txt": b"He PRP B-NP\nran VBD B-VP\n\nStop VB B-VP\n",
    "one.txt": b"He\nran\n\nStop\n",
    "text.txt": b"He ran. Stop!\n\nShe stood.\n",
    "en.conllu": b"1\tHe\the\tPRON\t_\t_\t0\troot\t_\t_\n2\tran\trun\tVERB\t_\t_\t1\tdep\t_\t_\n\n",
    "tokens.jsonl": b'{"tokens": ["He", "ran"], "ner_tags": ["O", "O"]}\n',
    "texts.jsonl": b'{"text": "He ran.", "label": [[0, 2, "PER"]]}\n',
}
WORDS = {
    "columns.txt": [["He", "ran"], ["Stop"]],
    "one.txt": [["He", "ran"], ["Stop"]],
    "text.txt": [["He", "ran", "."], ["Stop", "!"], ["She", "stood", "."]],
    "en.conllu": [["He", "ran"]],
    "tokens.jsonl": [["He", "ran"]],
    "texts.jsonl": [["He", "ran", "."]],
}


@pytest.fixture
def folder(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_words_of_every_format(name, folder):
    assert WORDS[name] == read_words([str(folder / name)]).X


def test_files_are_joined_and_words_have_one_number(folder):
    (folder / "more.txt.gz").write_bytes(gzip.compress(FILES["text.txt"]))
    (folder / "empty.txt").write_bytes(b"")
    corpus = read_words([str(folder / name) for name in ("one.txt", "empty.txt", "more.txt.gz")])
    assert WORDS["one.txt"] + WORDS["text.txt"] == corpus.X
    assert len(corpus.values("word")) == len(set(corpus.values("word")))


def test_the_format_and_the_columns_can_be_named(folder):
    assert read_words([str(folder / "one.txt")], format="text").X == [["He", "ran"], ["Stop"]]
    assert read_words([str(folder / "columns.txt")], columns="pos,word,label").X == [
        ["PRP", "VBD"],
        ["VB"],
    ]
    with pytest.raises(CorpusError, match="columns"):
        read_words([str(folder / "text.txt")], format="columns")


def test_attributes_are_no_words(tmp_path):
    (tmp_path / "a.crfsuite").write_bytes(b"O\tw=He\tp=PRP\n")
    with pytest.raises(CorpusError, match="holds attributes"):
        read_words([str(tmp_path / "a.crfsuite")])
