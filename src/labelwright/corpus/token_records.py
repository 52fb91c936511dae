"""Records with a list of tokens and lists of the same length for their tags: JSON lines, and the
tables of datasets.

    {"tokens": ["He", "ran"], "pos_tags": ["PRP", "VBD"], "ner_tags": [0, 0]}

Tags may be numbers, where the names of the numbers are known.  JSON lines are read with their
places, and written again with further fields.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from labelwright.corpus.compressed import Source, first_line_of, name_of, read_bytes
from labelwright.corpus.labels import is_text, why_unwritable
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import (
    Column,
    Corpus,
    check_label,
    check_names,
    in_lists,
    intern_labels,
    intern_values,
)
from labelwright.corpus.tabular import column_of, columns_in, is_frame, is_missing, text_column
from labelwright.errors import CorpusError
from labelwright.wording import shortened, some_of

BOM = b"\xef\xbb\xbf"
WORDS = ("tokens", "words")  # fields with the tokens; in a corpus their name is `word`
LABELS = ("tags", "labels", "ner_tags")  # fields with the labels, the likeliest first
ENDINGS = ("_tags", "_labels")  # of other fields with labels
INFO = "dataset_info.json"  # of Hugging Face's datasets, in the folder of the data

Names = Sequence[str] | str | None


class JsonLines(NamedTuple):
    """A file of JSON lines: its objects, and the lines that they stand in."""

    source: str
    lines: list[bytes]
    numbers: list[int]  # [N]  the line of each object, from 0
    objects: list[dict[str, Any]]  # [N]
    first_line: int = 1  # of these lines in the file

    def place(self, n: int) -> str:
        """Where an object stands, for messages."""
        return f"{self.source}:{self.numbers[n] + self.first_line}"

    def extended(self, additions: Sequence[Mapping[str, Any]]) -> bytes:
        """The file with further fields [N] at the end of each object; all else stays as it is, byte
        for byte."""
        lines = list(self.lines)
        for number, item, added in zip(self.numbers, self.objects, additions, strict=True):
            line = lines[number].rstrip()
            is_new = not item or set(item) & set(added)
            body = (
                dumped({**item, **added})
                if is_new
                else line[:-1].rstrip() + b", " + dumped(added)[1:]
            )
            lines[number] = body + lines[number][len(line) :]
        return b"\n".join(lines)


def dumped(
    value: Any, indent: int | None = None, separators: tuple[str, str] | None = None
) -> bytes:
    """A value as JSON in UTF-8; a lone surrogate of a text is escaped as it came."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return text.encode("utf-8", "backslashreplace")


def parse_json_lines(text: bytes, source: str, first_line: int = 1) -> JsonLines:
    """The objects of a file of JSON lines, or of a piece of it; blank lines are skipped."""
    lines = text.split(b"\n")
    numbers, objects = [], []
    for number, line in enumerate(lines):
        stripped = (line.removeprefix(BOM) if number + first_line == 1 else line).strip()
        if stripped:
            item = parsed(stripped, f"{source}:{number + first_line}")
            if not isinstance(item, dict):
                got = "an array" if isinstance(item, list) else f"{item!r:.40}"
                raise CorpusError(
                    f"{source}:{number + first_line}: expected one JSON object per line, got {got}"
                )
            numbers.append(number)
            objects.append(item)
    return JsonLines(source, lines, numbers, objects, first_line)


def parsed(text: bytes, place: str) -> Any:
    """The value that a JSON text holds."""
    try:
        return json.loads(text.decode())
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{place}: byte {error.start + 1} (0x{text[error.start]:02x}) is not UTF-8; convert "
            "the file first"
        ) from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column" if error.lineno > 1 else "column"
        raise CorpusError(f"{place}: not JSON: {error.msg.lower()} at {at} {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise CorpusError(
            f"{place}: not JSON that can be read: {str(error).splitlines()[0].lower()}"
        ) from None


def first_object(text: bytes) -> dict[str, Any] | None:
    """The JSON object in the first line that is not blank, if there is one."""
    start = len(text) - len(text.removeprefix(BOM).lstrip())
    if text[start : start + 1] != b"{":
        return None
    end = text.find(b"\n", start)
    try:
        item = parsed(text[start : end if end >= 0 else len(text)], "")
    except CorpusError:
        return None
    return item if isinstance(item, dict) else None


# -- records ---------------------------------------------------------------------------------------


class TokenRecords(NamedTuple):
    """The fields of records, before they become columns."""

    source: str
    names: Collection[str]  # of all fields
    values: Callable[[str], list[Any]]  # [N] of a field; made when asked for: records may have many
    lists: Sequence[str]  # the fields that hold lists
    place: Callable[[int], str]  # where record n stands
    class_names: Mapping[str, list[str]]  # of fields whose tags are numbers


def read_jsonl(
    path: Source, columns: Names = None, label: str | bool | None = None, label_names: Names = None
) -> Corpus:
    """Read JSON lines with `tokens` (or `words`) and tags for them.

    path : a path, plain or compressed, or a binary file object
    columns : the fields to read; by default the tokens, which become the column `word`, and the
        label
    label : the field of the labels; by default `tags`, `labels` or `ner_tags`, and False means none
    label_names : the names of labels that are numbers; by default those that dataset_info.json in
        the same folder, or a first line {"names": [...]}, has for them

    >>> import io
    >>> corpus = read_jsonl(io.BytesIO(b'{"tokens": ["He", "ran"], "tags": ["PRP", "VBD"]}\\n'))
    >>> corpus.X, corpus.y
    ([['He', 'ran']], [['PRP', 'VBD']])
    """
    return corpus_of(records_of(json_lines(path)), columns, label, label_names)


def is_dataset(X: Any) -> bool:
    """Is it a dataset of Hugging Face?  The package is not imported: a dataset is known by what it
    offers."""
    return hasattr(X, "column_names") and hasattr(X, "features")


def listed(X: Any) -> Any:
    """Sentences as users give them, so that they can be read twice: a dataset as a Corpus, all else
    by `in_lists`."""
    if not is_dataset(X):
        return in_lists(X)
    lists = [name for name, value in next(iter(X), {}).items() if isinstance(value, list)]
    place, class_names = "dataset: row {}".format, class_names_of(X.features.to_dict())
    records = TokenRecords(
        "dataset", X.column_names, lambda name: list(X[name]), lists, place, class_names
    )
    return corpus_of(records, None, None, None)


def json_lines(path: Source) -> JsonLines:
    source = name_of(path)
    lines = parse_json_lines(read_bytes(path), source, first_line_of(path))
    if not lines.objects:
        raise CorpusError(f"{source}: no sentences, expected one JSON object per line")
    return lines


def without_header(lines: JsonLines) -> tuple[JsonLines, dict[str, list[str]]]:
    """The sentences of a file, and the names of labels that its first object has where it is no
    sentence."""
    first = lines.objects[0]
    if any(name in first for name in WORDS):
        return lines, {}
    names = first.get("names", first.get("label_names"))
    class_names = class_names_of(first.get("features"))
    if _are_names(names):
        class_names[""] = names
    if not class_names or len(lines.objects) == 1:
        return lines, {}
    return lines._replace(numbers=lines.numbers[1:], objects=lines.objects[1:]), class_names


def records_of(lines: JsonLines) -> TokenRecords:
    """The fields of all sentences; one that a sentence lacks is None there."""
    lines, class_names = without_header(lines)
    # a description of the dataset, beside its file
    info, path = None, Path(lines.source).parent / INFO
    if Path(lines.source).is_file() and path.is_file():
        with suppress(OSError):
            info = parsed(path.read_bytes(), str(path))
    class_names = (
        class_names_of(info.get("features") if isinstance(info, dict) else None) | class_names
    )
    names = dict.fromkeys(chain.from_iterable(lines.objects))
    listed = {
        name for item in lines.objects for name, value in item.items() if isinstance(value, list)
    }
    lists = [name for name in names if name in listed]
    values = lambda name: [item.get(name) for item in lines.objects]  # noqa: E731
    return TokenRecords(lines.source, names, values, lists, lines.place, class_names)


def class_names_of(features: Any) -> dict[str, list[str]]:
    """The names of numbered labels by field, as Hugging Face's datasets describe them."""
    class_names = {}
    for name, feature in features.items() if isinstance(features, dict) else ():
        inner = feature[0] if isinstance(feature, list) and feature else feature
        inner = inner.get("feature", inner) if isinstance(inner, dict) else {}
        names = inner.get("names") if isinstance(inner, dict) else None
        if _are_names(names):
            class_names[name] = names
    return class_names


def _are_names(names: Any) -> TypeGuard[list[str]]:
    return isinstance(names, list) and bool(names) and all(isinstance(name, str) for name in names)


# -- from fields to columns ------------------------------------------------------------------------


def corpus_of(
    records: TokenRecords, columns: Names, label: str | bool | None, label_names: Names
) -> Corpus:
    """The corpus that these fields of records make."""
    names = _listed(columns)
    words = _words(records, names)
    label_field = (
        None
        if label is False
        else _label(records, label if isinstance(label, str) else None, words)
    )
    fields = [words, *(field_named(records, name) for name in names[1:])]
    if label_field is not None and label_field not in fields:
        fields.append(label_field)
    shown = ["word" if name == words else name for name in fields]
    sentences = _lists(records, words)
    lengths = list(map(len, sentences))
    class_names: dict[str, Sequence[str]] = dict(records.class_names)
    given = _listed(label_names) or records.class_names.get("")
    if label_field is not None and given:
        class_names[label_field] = given
    interned = []
    for name in fields:
        lists = sentences if name == words else _lists(records, name, lengths)
        interned.append(_column(records, name, lists, class_names.get(name), name == label_field))
    check_names(shown, len(fields), records.source)
    shown_label = None if label_field is None else shown[fields.index(label_field)]
    return Corpus(tuple(shown), tuple(interned), offsets_from(lengths), shown_label, records.source)


def _listed(names: Names) -> list[str]:
    return (
        [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names or ())
    )


def _words(records: TokenRecords, names: Sequence[str]) -> str:
    for name in (*names[:1], *WORDS):
        if name in records.names:
            return name
    got = _named(records.names) or "none"
    raise CorpusError(
        f"{records.place(0)}: no field {' or '.join(WORDS)} with the tokens, got {got}"
    )


def field_named(records: TokenRecords, name: str) -> str:
    """A field by its name; `word` stands for the tokens."""
    if name in records.names:
        return name
    if name == "word" or name in WORDS:
        return _words(records, [])
    raise CorpusError(
        f"{records.source}: no field {name!r}, expected one of {_named(records.lists)}"
    )


def _named(names: Iterable[str]) -> str:
    """Names of fields in a message, which has one line whatever they are."""
    return some_of(shortened(name, 40) if name.isprintable() else f"{name!r:.40}" for name in names)


def _label(records: TokenRecords, given: str | None, words: str) -> str | None:
    if given is not None:
        return field_named(records, given)
    lists = records.lists
    for name in LABELS:
        if name in lists:
            return name
    others = [
        name for name in lists if name != words and name.endswith(ENDINGS) and name.isprintable()
    ]
    if len(others) > 1:
        raise CorpusError(
            f"{records.source}: which field has the labels: {_named(others)}? Name it with --label"
        )
    return others[0] if others else None


def _lists(
    records: TokenRecords, name: str, lengths: Sequence[int] | None = None
) -> list[list[Any]]:
    """The values [N] of a field, which are lists; where lengths are given, they have one entry for
    each token."""
    values = records.values(name)
    for n, value in enumerate(values):
        if not isinstance(value, list):
            expected = "a list of tokens" if lengths is None else f"a list of {lengths[n]}"
            raise CorpusError(
                f"{records.place(n)}: {name}: expected {expected}, got {_shown(value)}"
            )
        if lengths is not None and len(value) != lengths[n]:
            got = f"expected {lengths[n]} entries, one per token, got {len(value)}"
            raise CorpusError(f"{records.place(n)}: {name}: {got}")
    return values


def _column(
    records: TokenRecords,
    name: str,
    values: list[list[Any]],
    class_names: Sequence[str] | None,
    is_label: bool,
) -> Column:
    """A field as a column: strings as they are, numbers by their names."""
    given = list(chain.from_iterable(values))
    flat = given

    def refuse(is_wrong: Callable[[Any], bool], expected: str) -> None:
        places = ((n, t) for n, value in enumerate(values) for t in range(len(value)))
        for (n, t), item, named in zip(places, given, flat, strict=True):
            if is_wrong(named):
                raise CorpusError(
                    f"{records.place(n)}: {name}: entry {t}: expected {expected}, got "
                    f"{_shown(item)}"
                )

    if set(map(type, given)) == {int}:
        if class_names is None and is_label:
            raise CorpusError(
                f"{records.source}: {name}: the labels are numbers; name them with --label-names "
                f"O,B-PER,... (in Python: label_names; of a dataset: a ClassLabel), or by a {INFO} "
                "in the same folder"
            )
        known = None if class_names is None else dict(enumerate(class_names))
        flat = [str(number) if known is None else known.get(number) for number in given]
        refuse(lambda named: named is None, f"numbers of 0 to {len(known or ()) - 1}")
    refuse(lambda item: type(item) is not str, "strings")
    column = intern_values(flat, values, records.source)
    if not all(map(is_text, column.values)):
        refuse(lambda item: not is_text(item), "Unicode text")
    if is_label and any(map(why_unwritable, column.values)):
        refuse(lambda item: why_unwritable(item) is not None, "a label without tabs or newlines")
    return column


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value!r:.40}"


# -- corpora from data frames of pandas or Polars, or tables of pyarrow: one row for each token ----


def read_frame(
    frame: Any,
    sentence: str | Sequence[str] = "sentence_id",
    label: str | None = None,
    columns: Sequence[str] | None = None,
    source: str = "frame",
) -> Corpus:
    """Make a corpus from a frame with a row for each token, in order.

    frame : of pandas or Polars, or a table of pyarrow
    sentence : the column that says to which sentence a row belongs, or several (document and
        sentence)
    label : the column with the labels
    columns : those that are read beside the label; by default all others
    source : what messages call the frame
    """
    if not is_frame(frame):
        kind = type(frame).__name__
        raise CorpusError(
            f"{source}: expected a data frame of pandas or Polars, or a table of pyarrow, got "
            f"{kind}"
        )
    keys = [sentence] if isinstance(sentence, str) else list(sentence)
    offsets = _offsets([column_of(frame, key, source) for key in keys], keys, source)
    present = [name for name in columns_in(frame) if name not in keys]
    check_label(label, present, source)
    names = [name for name in (present if columns is None else columns) if name != label]
    check_names(list(map(str, names)), len(names), source)
    texts = [
        text_column(column_of(frame, name, source), f"{source}: column {name}", "row")
        for name in names
    ]
    sentences = [range(b - a) for a, b in pairwise(offsets.tolist())]
    read = [intern_values(column, sentences, source) for column in texts]
    if label is not None:
        values = [None if is_missing(value) else value for value in column_of(frame, label, source)]
        read.append(intern_labels(values, sentences, source))
        names.append(label)
    return Corpus(tuple(map(str, names)), tuple(read), offsets, label, source)


def _offsets(ids: list[list[Any]], keys: list[str], source: str) -> np.ndarray:
    """Where sentences begin [N+1]: where the values of these columns change."""
    rows = list(zip(*ids, strict=True))
    if not rows:
        raise CorpusError(f"{source}: got no rows, expected one for each token")
    starts: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows):
        for key, value in zip(keys, row, strict=True):
            if is_missing(value):
                raise CorpusError(
                    f"{source}: row {number} has no {key!r}; fill it down, as in "
                    f"frame[{key!r}].ffill()"
                )
        if number and row == rows[number - 1]:
            continue
        if row in starts:
            name = ", ".join(map(str, row))
            raise CorpusError(
                f"{source}: sentence {name} begins at row {starts[row]} and again at row {number}; "
                "sort the rows by it, or name all columns that tell sentences apart: sentence=[...]"
            )
        starts[row] = number
    return np.array([*starts.values(), len(rows)], np.int64)
