"""CRFsuite's data files: in each line a label and the attributes of a token, and a blank line after
each sentence.

    B-NP<TAB>w[0]=He<TAB>w[1]=ran<TAB>length:2
    B-VP<TAB>w[-1]=He<TAB>w[0]=ran<TAB>length:3

A number behind a colon is the value of an attribute; others have the value 1. `\\:` is a colon and
`\\\\` a backslash in a name. What stands behind a colon and is no number belongs to the name
(CRFsuite would read it as the value 0).
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from labelwright.corpus.compressed import decoded
from labelwright.corpus.limits import LONGEST_VALUE, too_long
from labelwright.corpus.schemes import is_chunk_label
from labelwright.corpus.table import Column, Corpus
from labelwright.corpus.token_records import BOM
from labelwright.errors import CorpusError

LARGEST = float(np.finfo(np.float32).max)  # value of an attribute
VALUE_RANGE = "a number up to 3.4e38"
MOST_VALUED = 1 << 20  # texts of attributes with values that are remembered
LOOKED_AT = 1000  # lines from which the format is recognised

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_JOINED = re.compile(r".[=:].")  # a name and a value
_ESCAPED = re.compile(r"\\([\\:])")


class AttributeLines(NamedTuple):
    """The sentences of a file as numbers."""

    names: dict[str, int]  # attributes and their numbers
    attribute: "array[int]"  # [M] int32
    value: "array[float] | None"  # [M]  None where all are 1
    ends: "array[int]"  # [T+1] int64  where the attributes of each token begin
    labels: Corpus  # the sentences with one column, `label`


class _Fields(dict[str, int]):
    """The numbers of all texts of fields that were seen; a new one is parsed once."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, int] = {}
        self.forget()

    def forget(self) -> None:
        self.clear()
        self.attribute, self.value = array("i"), array("d")  # by number of the text
        self.n_valued = 0  # texts whose value is not 1

    def __missing__(self, text: str) -> int:
        name, value = attribute_of(text)
        self.attribute.append(self.names.setdefault(name, len(self.names)))
        self.value.append(value)
        self.n_valued += value != 1.0
        number = self[text] = len(self.value) - 1
        return number


def attribute_of(text: str) -> tuple[str, float]:
    """The name and the value of an attribute as it stands in a file.

    >>> attribute_of("w=dog"), attribute_of("length:3"), attribute_of("time=12\\\\:30"), attribute_of("url=http://x")
    (('w=dog', 1.0), ('length', 3.0), ('time=12:30', 1.0), ('url=http://x', 1.0))
    """
    value = 1.0
    at = _last_colon(text) if ":" in text else -1
    if at >= 0 and (at + 1 == len(text) or _NUMBER.fullmatch(text, at + 1)):
        value = float(text[at + 1 :] or 1)
        text = text[:at]
    return _unescaped(text), value


def _last_colon(text: str) -> int:
    """Where the last colon is that is not escaped; -1 where there is none."""
    return _ESCAPED.sub("  ", text).rfind(":")


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def parse_attribute_lines(text: bytes, source: str, first_line: int = 1) -> AttributeLines:
    """The sentences of a file in CRFsuite's format, or of a piece of it, which begins at this
    line."""
    # texts of labels, and the labels they are
    fields, texts, names = _Fields(), dict[str, int](), dict[str, int]()
    codes, ends, offsets = array("i"), array("q", [0]), array("q", [0])
    attribute = array("i")
    value: array[float] | None = None
    for first, lines in _blocks(text, source, first_line):
        numbers: list[int] = []
        for line_number, line in enumerate(lines, first):
            if line:
                label, *rest = line.split("\t")
                if label not in texts:
                    if _last_colon(label) >= 0:
                        why = "write a colon as \\:, since a value would follow it"
                        raise CorpusError(f"{source}:{line_number}: label {label!r}: {why}")
                    texts[label] = names.setdefault(_unescaped(label), len(names))
                codes.append(texts[label])
                numbers += [fields[field] for field in rest]
                ends.append(len(attribute) + len(numbers))
            elif offsets[-1] < len(codes):
                offsets.append(len(codes))
        chosen = np.array(numbers, np.int32)
        values = np.array(fields.value)[chosen]
        if not (np.abs(values) <= LARGEST).all():
            rows = (
                (n, field) for n, line in enumerate(lines, first) for field in line.split("\t")[1:]
            )
            n, field = next(
                (n, field) for n, field in rows if not abs(attribute_of(field)[1]) <= LARGEST
            )
            raise CorpusError(
                f"{source}:{n}: attribute {field!r}: expected {VALUE_RANGE} as the value"
            )
        if value is None and (values != 1.0).any():
            value = array("d", [1.0]) * len(attribute)
        attribute.frombytes(np.array(fields.attribute, np.int32)[chosen].tobytes())
        if value is not None:
            value.frombytes(values.tobytes())
        if fields.n_valued > MOST_VALUED:  # these may be all different
            fields.forget()
    if offsets[-1] < len(codes):
        offsets.append(len(codes))
    if not codes:
        raise CorpusError(
            f"{source}: no tokens, expected lines with a label and attributes, separated by tabs"
        )
    if not attribute and first_line == 1:
        raise CorpusError(
            f"{source}: no attributes, expected some after the label of each line, separated by "
            "tabs"
        )
    column = Column(list(names), np.array(codes, np.int32))
    labels_alone = Corpus(("label",), (column,), np.array(offsets, np.int64), "label", source)
    return AttributeLines(fields.names, attribute, value, ends, labels_alone)


def _blocks(
    text: bytes, source: str, first: int = 1, size: int = 1 << 22
) -> Iterator[tuple[int, list[str]]]:
    """The lines of a text, some at a time, with the number of the first; blank ones are empty."""
    start = len(BOM) if first == 1 and text.startswith(BOM) else 0
    while start < len(text):
        end = text.find(b"\n", start + size) + 1 or len(text)
        lines = decoded(text[start:end], source, first).removesuffix("\n").split("\n")
        yield (
            first,
            [_checked(line.removesuffix("\r"), first + k, source) for k, line in enumerate(lines)],
        )
        start, first = end, first + len(lines)


def _checked(line: str, number: int, source: str) -> str:
    """A line that begins with a label and has no empty fields, or nothing where it is blank."""
    if len(line) > LONGEST_VALUE and (longest := max(map(len, line.split("\t")))) > LONGEST_VALUE:
        raise too_long(f"{source}:{number}", longest)
    if line[:1] in ("\t", " ", "@"):
        if not line.strip("\t "):
            return ""
        if line[0] == "\t":
            raise CorpusError(f"{source}:{number}: begins with a tab, expected the label before it")
        if line.startswith("@weight:"):
            raise CorpusError(
                f"{source}:{number}: weights of sentences (@weight) are not supported; remove the "
                "declaration"
            )
    if "\t\t" in line or line.endswith("\t"):
        return "\t".join(field for field in line.split("\t") if field)
    return line


# -- what a file is --------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """What the first lines of a file tell of its format."""

    is_attributes: bool  # it is a file of CRFsuite's: no other reading makes sense
    may_be: bool  # it could be one
    in_doubt: bool = False  # it is likely one, but has the two columns of most column files


def evidence_of(text: bytes) -> Evidence:
    """Whether a file is one of CRFsuite's: tabs alone separate the fields, the first repeats few
    values, and the others are attributes (name=value or name:number).  Where all lines have as many
    fields, each of them must be one.

    Most files with two columns have a word and its label.  One is in doubt where the first has
    chunk labels (B-X, I-X, O, ...) and the second attributes."""
    head = text.removeprefix(BOM)[: 1 << 20]
    whole = head.split(b"\n", LOOKED_AT)[:LOOKED_AT]
    lines = [
        line.decode("utf-8", "replace").rstrip("\r")
        for line in (whole[:-1] if len(head) == 1 << 20 else whole)
    ]
    rows = [line.split("\t") for line in lines if line]
    if not rows or any(len(row) < 2 or not row[0] or row[0] != row[0].strip(" ") for row in rows):
        return Evidence(False, False)
    labels = {row[0] for row in rows}
    few = len(labels) <= max(5, len(rows) // 2)  # values repeat, as labels do
    sizes = {len(row) for row in rows}
    if sizes == {2}:
        attributes = sum(
            _JOINED.search(field) is not None and not is_chunk_label(field) for _, field in rows
        )
        in_doubt = few and all(map(is_chunk_label, labels)) and attributes >= 0.9 * len(rows)
        return Evidence(False, in_doubt, in_doubt)
    if len(sizes) > 1:
        alike = _share([field for row in rows for field in row[1:]]) >= 0.5
    else:
        alike = all(_share(column) >= 0.9 for column in list(zip(*rows, strict=True))[1:])
    return Evidence(few and alike, few and (len(sizes) > 1 or alike))


def refuse_doubt(evidence: Evidence, source: str) -> None:
    """Refuse a file of two columns that is likely one of CRFsuite's."""
    if evidence.in_doubt:
        raise CorpusError(
            f"{source}: looks like CRFsuite's data, a label and an attribute in each line, but "
            "could be two columns; add --format crfsuite or --format columns (in Python: "
            "read_crfsuite, or name the columns)"
        )


def _share(fields: Sequence[str]) -> float:
    """How many of the fields look like attributes: a name and a value, joined by a sign of equality
    or a colon."""

    def has_value(field: str) -> bool:
        # longer ones are refused by every reader
        at = _last_colon(field) if len(field) <= LONGEST_VALUE else -1
        return at > 0 and _NUMBER.fullmatch(field, at + 1) is not None

    return sum("=" in field[1:] or has_value(field) for field in fields) / max(1, len(fields))
