"""Binary files of sentences: Parquet, as Hugging Face's datasets have it (a column with lists of
tokens, others with tags), and spaCy's DocBin (tokens and entities of documents)."""

import io
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from labelwright.corpus.compressed import Source, name_of, read_bytes
from labelwright.corpus.limits import DECOMPRESSED, check_size
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import (
    Names,
    TokenRecords,
    class_names_of,
    corpus_of,
    dumped,
    parsed,
)
from labelwright.errors import CorpusError, OptionError

MAGIC = b"PAR1"
METADATA = b"huggingface"  # where datasets describe their features


def read_parquet(
    path: Source, columns: Names = None, label: str | bool | None = None, label_names: Names = None
) -> Corpus:
    """Read a Parquet file with a column of tokens and columns of tags; the arguments are those of
    `read_jsonl`.

    Names of numbered labels are also taken from the description that Hugging Face's datasets store
    in the file. Needs pyarrow (labelwright[parquet]).

    path : a path, or a binary file object
    columns : the columns to read
    label : the column of the labels
    label_names : the names of labels that are numbers
    """
    return corpus_of(parquet_records(read_table(path), name_of(path)), columns, label, label_names)


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise OptionError(
            "Parquet files need pyarrow: pip install 'labelwright[parquet]'"
        ) from None
    return pyarrow, parquet


def read_table(path: Source) -> Any:
    """The table of a Parquet file; its parts have a limit together, first by what the file says of
    them.

    What it says of single columns is not asked for: where that is damaged, pyarrow ends the
    process.
    """
    arrow, parquet = _arrow()
    source, parts, n_bytes = name_of(path), [], 0
    data = arrow.BufferReader(read_bytes(path))
    try:
        file = parquet.ParquetFile(data)
        stated = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
        check_size(
            sum(max(part.total_byte_size, part.num_rows) for part in stated),
            source,
            True,
            DECOMPRESSED,
        )
        for n in range(file.num_row_groups):
            parts.append(file.read_row_group(n))
            n_bytes += parts[-1].nbytes
            check_size(n_bytes, source, True, DECOMPRESSED)
        table = arrow.concat_tables(parts) if parts else None
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise CorpusError(
            f"{source}: not a Parquet file, or a damaged one ({_reason(error)})"
        ) from None
    if table is None or not table.num_rows:
        raise CorpusError(f"{source}: no rows, expected one sentence in each")
    return table


def _reason(error: BaseException) -> str:
    return (str(error).splitlines() or ["unreadable"])[0].rstrip(".")


def parquet_records(table: Any, source: str) -> TokenRecords:
    """The columns of a table as fields of records."""
    types = _arrow()[0].types
    is_list = types.is_list, types.is_large_list, types.is_fixed_size_list
    lists = [field.name for field in table.schema if any(test(field.type) for test in is_list)]
    if len(set(lists)) < len(lists):
        raise CorpusError(f"{source}: several columns have the same name, expected each name once")

    def values(name: str) -> list[Any]:
        try:  # text in it may be no UTF-8, and a date none of Python's
            return list(table.column(name).to_pylist())
        except (_arrow()[0].ArrowException, ValueError, OverflowError) as error:
            mend = f"cannot be read ({_reason(error)}); write the column as strings in UTF-8"
            raise CorpusError(f"{source}: {name!r:.40}: {mend}") from None

    class_names = class_names_of(_description(table).get("info", {}).get("features"))
    return TokenRecords(
        source, lists, values, lists, lambda n: f"{source}: row {n + 1}", class_names
    )


def _description(table: Any) -> dict[str, Any]:
    """What Hugging Face's datasets say of the columns."""
    try:
        description = parsed((table.schema.metadata or {}).get(METADATA, b"{}"), "")
    except CorpusError:
        return {}
    is_known = isinstance(description, dict) and isinstance(description.get("info", {}), dict)
    return description if is_known else {}


def extended(table: Any, additions: Sequence[Mapping[str, Any]]) -> bytes:
    """The Parquet file with further columns, one value [N] for each row; a column of the same name
    is replaced."""
    arrow, parquet = _arrow()
    description = _description(table)
    features = description.get("info", {}).get("features")
    for name in additions[0]:
        column = arrow.array([added[name] for added in additions])
        number = table.schema.get_field_index(name)
        table = (
            table.append_column(name, column)
            if number < 0
            else table.set_column(number, name, column)
        )
        if isinstance(features, dict):
            kind = {"dtype": str(column.type.value_type), "_type": "Value"}
            features[name] = {"feature": kind, "_type": "Sequence"}
    if isinstance(features, dict):
        table = table.replace_schema_metadata(
            {**table.schema.metadata, METADATA: dumped(description)}
        )
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


# -- DocBin ----------------------------------------------------------------------------------------

PIECE = 1 << 10  # bytes that are decompressed at a time: a megabyte, at most


def read_docbin(path: Source) -> Corpus:
    """Read a DocBin (.spacy): spaCy's tokens, and its entities as labels in IOB2.

    Sentences are those of the documents, or whole documents where they are not set. A token without
    an annotation counts as outside of entities.

    path : a path, plain or compressed, or a binary file object
    """
    return corpus_of(docbin_records(read_bytes(path), name_of(path)), None, None, None)


def docbin_records(data: bytes, source: str) -> TokenRecords:
    """The sentences of a DocBin."""
    try:
        import spacy
        from spacy.tokens import DocBin
    except ImportError:
        raise OptionError(
            f"{source}: reading DocBin files needs spaCy: pip install 'labelwright[spacy]'"
        ) from None
    words, labels, numbers = list[list[str]](), list[list[str]](), list[int]()
    try:
        unpacker, n_bytes = zlib.decompressobj(), 0
        for begin in range(0, len(data), PIECE):  # spaCy decompresses all at once
            n_bytes += len(unpacker.decompress(data[begin : begin + PIECE]))
            check_size(n_bytes, source, held=True, what=DECOMPRESSED)
        for number, doc in enumerate(DocBin().from_bytes(data).get_docs(spacy.blank("xx").vocab)):
            for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc]:
                tokens = [token for token in sentence if not token.is_space]
                words.append([token.text for token in tokens])
                labels.append(
                    [
                        f"{t.ent_iob_}-{t.ent_type_}" if t.ent_iob_ in ("B", "I") else "O"
                        for t in tokens
                    ]
                )
                numbers.append(number)
    except (CorpusError, MemoryError):
        raise
    except Exception as error:
        # of zlib, msgpack and spaCy; damage may only show when a token is asked for
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CorpusError(f"{source}: not a DocBin of spaCy, or a damaged one: {reason}") from None
    if not any(words):
        raise CorpusError(f"{source}: no tokens, expected documents of spaCy")
    fields: dict[str, list[Any]] = {"tokens": words, "tags": labels}
    place = lambda n: f"{source}: document {numbers[n] + 1}"  # noqa: E731
    return TokenRecords(source, fields, fields.__getitem__, [*fields], place, {})
