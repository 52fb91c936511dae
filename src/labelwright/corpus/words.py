"""The words of many files, whatever their format, as one corpus with one column: what word vectors are counted on."""

import re
from collections.abc import Iterable

import numpy as np

from labelwright.corpus.file_formats import OpenFile, read_corpus
from labelwright.corpus.json_records import BOM
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.pieces import pieces_of
from labelwright.corpus.table import Column, Corpus
from labelwright.errors import CorpusError

WORD_COLUMNS = ("word", "form", "token")  # names of the column with words; where none is there, it is the first
LINES_LOOKED_AT = 1000
_LINE = re.compile(rb"\S[^\r\n]*")  # from its first letter on


def read_words(paths: Iterable[str], format: str | None = None, columns: str | None = None) -> Corpus:
    """The words of files, plain or compressed, as a corpus with one column; `-` is standard input.

    The format is told as that of training data is, but a file whose lines differ in their number of columns is text.
    Files are read piece by piece: in memory is a number for each token.
    """
    number: dict[str, int] = {}  # of each word
    names: list[str] = []
    codes, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for path in paths:
        for piece in pieces_of(path, format, named=columns is not None):
            if piece.name not in names:
                names.append(piece.name)
            corpus = _words_of(piece, format, columns)
            column = corpus.columns[0]
            own = [number.setdefault(word, len(number)) for word in column.values]
            codes.append(np.array(own, np.int32)[column.codes])
            lengths.append(np.diff(corpus.offsets))
    column = Column(list(number), np.concatenate(codes))
    source = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names)
    return Corpus(("word",), (column,), offsets_from(np.concatenate(lengths)), source=source)


def _words_of(piece: OpenFile, format: str | None, columns: str | None) -> Corpus:
    """The words of a piece of a file."""
    if piece.format == "crfsuite":
        raise CorpusError(f"{piece.name}: holds attributes (CRFsuite's data), expected words; give text or columns")
    named = format is not None or columns is not None
    if piece.format == "columns" and not named and is_running_text((piece.head or piece).getvalue()):
        piece.format = "text"
    if not piece.getvalue().removeprefix(BOM).strip() and not piece.more:
        return Corpus(("word",), (Column([], np.empty(0, np.int32)),), np.zeros(1, np.int64))
    corpus, _ = read_corpus(piece, columns, label=False)
    name = next((name for name in WORD_COLUMNS if name in corpus.names), corpus.names[0])
    return corpus.select([name])


def is_running_text(data: bytes) -> bool:
    """Whether lines are text, and not tokens with columns: they differ in their number of words, or there is only one.

    >>> is_running_text(b"He PRP\\nran VBD\\n"), is_running_text(b"He ran.\\nShe stood still.\\n")
    (False, True)
    """
    lines = [match[0] for match, _ in zip(_LINE.finditer(data), range(LINES_LOOKED_AT), strict=False)]
    widths = {len(line.split(b"\t") if b"\t" in line else line.split()) for line in lines}
    return len(widths) > 1 or (len(lines) == 1 and widths != {1})
