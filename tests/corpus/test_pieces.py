"""Files piece by piece: nothing lost, every piece with tokens, lines counted over the whole
file."""

import bz2
import gzip
import json
import lzma
import time
from pathlib import Path

import pytest

from labelwright.corpus.file_formats import pieces_of, read_corpus
from labelwright.errors import CorpusError

COLUMNS = b"\xef\xbb\xbf-DOCSTART- O\r\n\r\nHe PRP\r\nran VBD\r\n \t\r\n\r\n"
COLUMNS += b"-DOCSTART- O\n\nNo DT\n\n\nYes UH\n\n-DOCSTART- O\n\n\n"
CONLLU = b"".join(
    b"# newdoc id = %d\n1-2\tdel%s\n1\tde\tde\tADP%s\n2\tel\tel\tDET%s\n2.1\tx%s\n\n"
    % (n, b"\t_" * 8, b"\t_" * 6, b"\t_" * 6, b"\t_" * 8)
    for n in range(5)
)
JSON = (
    b'{"names": ["O", "B"]}\n\n{"tokens": ["He", "ran"], "tags": [0, 1]}\n'
    + b'{"tokens": ["No"], "tags": [1]}\n' * 4
)


@pytest.mark.parametrize("size", [1, 5, 30, 1 << 20])
@pytest.mark.parametrize(
    ("name", "text"), [("a.txt", COLUMNS), ("a.conllu", CONLLU), ("a.jsonl", JSON)]
)
def test_pieces_make_up_the_file(tmp_path: Path, name: str, text: bytes, size: int) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    pieces = list(pieces_of(str(path), size=size))
    assert b"".join(piece.getvalue() for piece in pieces) == text
    assert [piece.more for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    corpora = [read_corpus(piece)[0] for piece in pieces]
    assert all(map(len, corpora))
    (whole,) = pieces_of(str(path))
    corpus = read_corpus(whole)[0]
    assert [x for part in corpora for x in part.X] == corpus.X
    assert [y for part in corpora for y in part.y] == corpus.y
    assert size > 5 or len(pieces) > 1


@pytest.mark.parametrize("squeeze", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_in_pieces(tmp_path: Path, squeeze) -> None:
    path = tmp_path / "a"
    data = squeeze(b"He PRP\n\n" * 99) + squeeze(b"She PRP\n\n")  # two members
    path.write_bytes(data)
    assert b"".join(piece.getvalue() for piece in pieces_of(str(path), size=100)).endswith(
        b"\n\nShe PRP\n\n"
    )
    path.write_bytes(data[: len(data) // 3])
    with pytest.raises(CorpusError, match="damaged or truncated"):
        list(pieces_of(str(path), size=100))


def test_errors_name_the_line_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"He PRP\n\n" * 40 + b"ran\n\n" + b"He PRP\n\n" * 40)
    with pytest.raises(CorpusError, match=r"a.txt:81: expected 2 columns, got 1"):
        [read_corpus(piece) for piece in pieces_of(str(path), size=50)]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"tokens": ["He"]}\n' * 40 + b"{\n" + b'{"tokens": ["He"]}\n' * 40)
    with pytest.raises(CorpusError, match=r"a.jsonl:41: not JSON"):
        [read_corpus(piece) for piece in pieces_of(str(path), size=50)]
    path = tmp_path / "a.crfsuite"
    path.write_bytes(b"B\ta=b\n\n" * 40 + b"\ta=b\n")
    with pytest.raises(CorpusError, match=r"a.crfsuite:81: begins with a tab"):
        [read_corpus(piece) for piece in pieces_of(str(path), size=50)]


def test_what_has_no_pieces_comes_whole(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([{"data": {"text": "He ran."}} for _ in range(50)], indent=1))
    (piece,) = pieces_of(str(path), size=64)
    assert piece.format == "label-studio"
    for text in (b"", b"\n\n"):
        path = tmp_path / "a.txt"
        path.write_bytes(text)
        with pytest.raises(CorpusError, match="no tokens"):
            [read_corpus(piece) for piece in pieces_of(str(path))]
    with pytest.raises(CorpusError, match="none: cannot read: no such file"):
        list(pieces_of(str(tmp_path / "none")))


def test_a_file_of_one_long_line_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"He ran. " * 100_000 + b"\n")
    started = time.process_time()
    (piece,) = pieces_of(str(path), "text")
    assert len(piece.getvalue()) == 800_001
    assert time.process_time() - started < 5  # minutes, if the search began anew at each letter
