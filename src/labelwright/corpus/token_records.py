"""Records with a list of tokens and lists of the same length for their tags: JSON lines, and the tables of datasets.

    {"tokens": ["He", "ran"], "pos_tags": ["PRP", "VBD"], "ner_tags": [0, 0]}

Tags may be numbers, where the names of the numbers are known.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from labelwright.corpus.compressed import Source, first_line_of, name_of, read_bytes
from labelwright.corpus.json_records import JsonLines, parse_json_lines, parsed
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Column, Corpus, check_names, in_lists, intern_values
from labelwright.corpus.writable import is_text, why_unwritable
from labelwright.errors import CorpusError
from labelwright.wording import shortened, some_of

WORDS = ("tokens", "words")  # fields with the tokens; in a corpus their name is `word`
LABELS = ("tags", "labels", "ner_tags")  # fields with the labels, the likeliest first
ENDINGS = ("_tags", "_labels")  # of other fields with labels
INFO = "dataset_info.json"  # of Hugging Face's datasets, in the folder of the data

Names = Sequence[str] | str | None


class Fields(Mapping[str, list[Any]]):
    """The values [N] of each field, put together when they are asked for: each record may bring names of its own.

    names : those of all fields
    values : makes the values of one
    """

    def __init__(self, names: Iterable[str], values: Callable[[str], list[Any]]):
        self._names, self._values = dict.fromkeys(names), values
        self._made = dict[str, list[Any]]()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._values(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class TokenRecords(NamedTuple):
    """The fields of records, before they become columns."""

    source: str
    fields: Mapping[str, list[Any]]  # [N] values of each field
    lists: Sequence[str]  # the fields that hold lists
    place: Callable[[int], str]  # where record n stands
    class_names: Mapping[str, list[str]]  # of fields whose tags are numbers


def read_jsonl(
    path: Source, columns: Names = None, label: str | bool | None = None, label_names: Names = None
) -> Corpus:
    """Read JSON lines with `tokens` (or `words`) and tags for them.

    path : a path, plain or compressed, or a binary file object
    columns : the fields to read; by default the tokens, which become the column `word`, and the label
    label : the field of the labels; by default `tags`, `labels` or `ner_tags`, and False means none
    label_names : the names of labels that are numbers; by default those that dataset_info.json in the same folder, or a
        first line {"names": [...]}, has for them

    >>> import io
    >>> corpus = read_jsonl(io.BytesIO(b'{"tokens": ["He", "ran"], "tags": ["PRP", "VBD"]}\\n'))
    >>> corpus.X, corpus.y
    ([['He', 'ran']], [['PRP', 'VBD']])
    """
    return corpus_of(records_of(json_lines(path)), columns, label, label_names)


def is_dataset(X: Any) -> bool:
    """Is it a dataset of Hugging Face?  The package is not imported: a dataset is known by what it offers."""
    return hasattr(X, "column_names") and hasattr(X, "features")


def listed(X: Any) -> Any:
    """Sentences as users give them, so that they can be read twice: a dataset as a Corpus, all else by `in_lists`."""
    if not is_dataset(X):
        return in_lists(X)
    fields = Fields(X.column_names, lambda name: list(X[name]))
    lists = [name for name, value in next(iter(X), {}).items() if isinstance(value, list)]
    class_names = class_names_of(X.features.to_dict())
    records = TokenRecords("dataset", fields, lists, lambda n: f"dataset: row {n}", class_names)
    return corpus_of(records, None, None, None)


def json_lines(path: Source) -> JsonLines:
    """The objects of a file of JSON lines."""
    source = name_of(path)
    lines = parse_json_lines(read_bytes(path), source, first_line_of(path))
    if not lines.objects:
        raise CorpusError(f"{source}: no sentences, expected one JSON object per line")
    return lines


def without_header(lines: JsonLines) -> tuple[JsonLines, dict[str, list[str]]]:
    """The sentences of a file, and the names of labels that its first object has where it is no sentence."""
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
    names = dict.fromkeys(chain.from_iterable(lines.objects))
    fields = Fields(names, lambda name: [item.get(name) for item in lines.objects])
    listed = {name for item in lines.objects for name, value in item.items() if isinstance(value, list)}
    lists = [name for name in names if name in listed]
    return TokenRecords(lines.source, fields, lists, lines.place, {**_described(lines.source), **class_names})


def _described(source: str) -> dict[str, list[str]]:
    """The names of numbered labels that a description of the dataset has, in the folder of its file."""
    path = Path(source).parent / INFO
    if not Path(source).is_file() or not path.is_file():
        return {}
    try:
        info = parsed(path.read_bytes(), str(path))
    except OSError:
        return {}
    return class_names_of(info.get("features") if isinstance(info, dict) else None)


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


# -- from fields to columns -------------------------------------------------------------------------------------------


def corpus_of(records: TokenRecords, columns: Names, label: str | bool | None, label_names: Names) -> Corpus:
    """The corpus that these fields of records make."""
    names = _listed(columns)
    words = _words(records, names)
    label_field = None if label is False else _label(records, label if isinstance(label, str) else None, words)
    fields = [words, *(field_named(records, name) for name in names[1:])] if names else [words]
    if label_field is not None and label_field not in fields:
        fields.append(label_field)
    lengths = _lengths(records, words)
    class_names: dict[str, Sequence[str]] = dict(records.class_names)
    given = _listed(label_names) or records.class_names.get("")
    if label_field is not None and given:
        class_names[label_field] = given
    interned = {
        name: _column(records, name, lengths, class_names.get(name), name == label_field)
        for name in dict.fromkeys(fields)
    }
    shown = ["word" if name == words else name for name in fields]
    check_names(shown, len(fields), records.source)
    shown_label = None if label_field is None else shown[fields.index(label_field)]
    return Corpus(
        tuple(shown), tuple(interned[name] for name in fields), offsets_from(lengths), shown_label, records.source
    )


def _listed(names: Names) -> list[str]:
    if names is None:
        return []
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _words(records: TokenRecords, names: Sequence[str]) -> str:
    """The field with the tokens."""
    for name in (*names[:1], *WORDS):
        if name in records.fields:
            return name
    got = _named(records.fields) or "none"
    raise CorpusError(f"{records.place(0)}: no field {' or '.join(WORDS)} with the tokens, got {got}")


def field_named(records: TokenRecords, name: str) -> str:
    """A field by its name; `word` stands for the tokens."""
    if name in records.fields:
        return name
    if name == "word" or name in WORDS:
        return _words(records, [])
    raise CorpusError(f"{records.source}: no field {name!r}, expected one of {_named(records.lists)}")


def _named(names: Iterable[str]) -> str:
    """Names of fields in a message, which has one line whatever they are."""
    return some_of(shortened(name, 40) if name.isprintable() else f"{name!r:.40}" for name in names)


def _label(records: TokenRecords, given: str | None, words: str) -> str | None:
    """The field with the labels."""
    if given is not None:
        return field_named(records, given)
    lists = records.lists
    for name in LABELS:
        if name in lists:
            return name
    others = [name for name in lists if name != words and name.endswith(ENDINGS) and name.isprintable()]
    if len(others) > 1:
        raise CorpusError(f"{records.source}: which field has the labels: {_named(others)}? Name it with --label")
    return others[0] if others else None


def _lengths(records: TokenRecords, words: str) -> list[int]:
    """How many tokens each sentence has."""
    lengths = []
    for n, value in enumerate(records.fields[words]):
        if not isinstance(value, list):
            raise CorpusError(f"{records.place(n)}: {words}: expected a list of tokens, got {_shown(value)}")
        lengths.append(len(value))
    return lengths


def _column(
    records: TokenRecords, name: str, lengths: Sequence[int], class_names: Sequence[str] | None, is_label: bool
) -> Column:
    """A field as a column: strings as they are, numbers by their names."""
    values = records.fields[name]
    _check_lengths(records, name, lengths)
    flat = list(chain.from_iterable(values))
    if set(map(type, flat)) == {int}:
        if class_names is None and is_label:
            raise CorpusError(
                f"{records.source}: {name}: the labels are numbers; name them with --label-names O,B-PER,... (in "
                f"Python: label_names; of a dataset: a ClassLabel), or by a {INFO} in the same folder"
            )
        flat = [_name_of(number, class_names) for number in flat]
        if None in flat:
            last = len(class_names or ()) - 1
            _refuse(records, name, lambda item: _name_of(item, class_names) is None, f"numbers of 0 to {last}")
    elif not all(type(item) is str for item in flat):
        _refuse(records, name, lambda item: type(item) is not str, "strings")
    column = intern_values(flat, values, records.source)
    if not all(map(is_text, column.values)):
        _refuse(records, name, lambda item: not is_text(item), "Unicode text")
    if is_label and any(why_unwritable(value) for value in column.values):

        def unwritable(item: Any) -> bool:
            label = item if isinstance(item, str) else _name_of(item, class_names)
            return label is not None and why_unwritable(label) is not None

        _refuse(records, name, unwritable, "a label without tabs or newlines")
    return column


def _check_lengths(records: TokenRecords, name: str, lengths: Sequence[int]) -> None:
    """Refuse a field that has not one entry for each token."""
    for n, (value, length) in enumerate(zip(records.fields[name], lengths, strict=True)):
        if not isinstance(value, list):
            raise CorpusError(f"{records.place(n)}: {name}: expected a list of {length}, got {_shown(value)}")
        if len(value) != length:
            raise CorpusError(f"{records.place(n)}: {name}: expected {length} entries, one per token, got {len(value)}")


def _name_of(number: int, class_names: Sequence[str] | None) -> str | None:
    if class_names is None:
        return str(number)
    return class_names[number] if 0 <= number < len(class_names) else None


def _refuse(records: TokenRecords, name: str, is_wrong: Callable[[Any], bool], expected: str) -> None:
    """Raise the error that names the first wrong entry."""
    for n, value in enumerate(records.fields[name]):
        for t, item in enumerate(value):
            if is_wrong(item):
                raise CorpusError(f"{records.place(n)}: {name}: entry {t}: expected {expected}, got {_shown(item)}")


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value!r:.40}"
