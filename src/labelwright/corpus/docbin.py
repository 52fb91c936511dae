"""spaCy's DocBin files: tokens and entities of documents, as the extra `spacy` reads them."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from labelwright.corpus.compressed import Source, name_of, read_bytes
from labelwright.corpus.limits import DECOMPRESSED, check_size
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import TokenRecords, corpus_of
from labelwright.errors import CorpusError, OptionError

PIECE = 1 << 10  # bytes that are decompressed at a time: a megabyte, at most


def read_docbin(path: Source) -> Corpus:
    """Read a DocBin (.spacy): spaCy's tokens, and its entities as labels in IOB2.

    Sentences are those of the documents, or whole documents where they are not set. A token without an annotation
    counts as outside of entities.

    path : a path, plain or compressed, or a binary file object
    """
    return corpus_of(records_of(read_bytes(path), name_of(path)), None, None, None)


def records_of(data: bytes, source: str) -> TokenRecords:
    """The sentences of a DocBin."""
    DocBin, vocab = _spacy(source)
    words, labels, numbers = list[list[str]](), list[list[str]](), list[int]()
    with _explained(source):
        _check_size(data, source)
        for number, doc in enumerate(DocBin().from_bytes(data).get_docs(vocab)):
            for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc]:
                tokens = [token for token in sentence if not token.is_space]
                words.append([token.text for token in tokens])
                labels.append([_label(token) for token in tokens])
                numbers.append(number)
    if not any(words):
        raise CorpusError(f"{source}: no tokens, expected documents of spaCy")
    fields: dict[str, list[Any]] = {"tokens": words, "tags": labels}
    return TokenRecords(source, fields, [*fields], lambda n: f"{source}: document {numbers[n] + 1}", {})


def _spacy(source: str) -> tuple[Any, Any]:
    """The class of such files, and a vocabulary for their documents."""
    try:
        import spacy
        from spacy.tokens import DocBin
    except ImportError:
        raise OptionError(f"{source}: reading DocBin files needs spaCy: pip install 'labelwright[spacy]'") from None
    return DocBin, spacy.blank("xx").vocab


@contextmanager
def _explained(source: str) -> Iterator[None]:
    """Errors of zlib, msgpack and spaCy in one line; damage may only show when a token is asked for."""
    try:
        yield
    except (CorpusError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CorpusError(f"{source}: not a DocBin of spaCy, or a damaged one: {reason}") from None


def _check_size(data: bytes, source: str) -> None:
    """Refuse what is too large when decompressed, before spaCy does it at once."""
    unpacker, n_bytes = zlib.decompressobj(), 0
    for begin in range(0, len(data), PIECE):
        n_bytes += len(unpacker.decompress(data[begin : begin + PIECE]))
        check_size(n_bytes, source, held=True, what=DECOMPRESSED)


def _label(token: Any) -> str:
    return f"{token.ent_iob_}-{token.ent_type_}" if token.ent_iob_ in ("B", "I") else "O"
