"""spaCy's DocBin files: tokens and entities of documents, as the extra `spacy` reads them."""

from typing import TYPE_CHECKING, Any

from labelwright.corpus.compressed import Source, name_of, read_bytes
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import TokenRecords, corpus_of
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_docbin(path: Source) -> Corpus:
    """Read a DocBin (.spacy): spaCy's tokens, and its entities as labels in IOB2.

    Sentences are those of the documents, or whole documents where they are not set. A token without an annotation
    counts as outside of entities.

    path : a path, plain or compressed, or a binary file object
    """
    return corpus_of(records_of(read_bytes(path), name_of(path)), None, None, None)


def records_of(data: bytes, source: str) -> TokenRecords:
    """The sentences of a DocBin."""
    words, labels, numbers = list[list[str]](), list[list[str]](), list[int]()
    for number, doc in enumerate(_docs(data, source)):
        for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc]:
            tokens = [token for token in sentence if not token.is_space]
            words.append([token.text for token in tokens])
            labels.append([_label(token) for token in tokens])
            numbers.append(number)
    if not any(words):
        raise CorpusError(f"{source}: no tokens, expected documents of spaCy")
    fields: dict[str, list[Any]] = {"tokens": words, "tags": labels}
    return TokenRecords(source, fields, lambda n: f"{source}: document {numbers[n] + 1}", {})


def _docs(data: bytes, source: str) -> "Iterator[Any]":
    try:
        import spacy
        from spacy.tokens import DocBin
    except ImportError:
        raise OptionError(f"{source}: reading DocBin files needs spaCy: pip install 'labelwright[spacy]'") from None
    try:
        docs = DocBin().from_bytes(data)
    except Exception as error:  # of zlib, msgpack or spaCy
        raise CorpusError(f"{source}: not a DocBin of spaCy: {str(error).splitlines()[0]}") from None
    yield from docs.get_docs(spacy.blank("xx").vocab)


def _label(token: Any) -> str:
    return f"{token.ent_iob_}-{token.ent_type_}" if token.ent_iob_ in ("B", "I") else "O"
