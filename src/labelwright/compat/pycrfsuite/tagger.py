"""CRFsuite's tagger: opens a model file, labels one sequence after the other, and shows what the
model holds."""

import contextlib
import math
import operator
import os
import re
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from labelwright.answers.batch import Batch
from labelwright.errors import CorpusError, ModelFileError
from labelwright.features.attributes import AttributeList, attributes_of
from labelwright.features.incidence import Encoded
from labelwright.interchange import crfsuite
from labelwright.interchange.chains import ChainModel, to_crf
from labelwright.taggers.crf import CRF

HEADER_SIZE = 48
# the last fields of the header
OFFSETS = "off_features", "off_labels", "off_attrs", "off_labelrefs", "off_attrrefs"
HEADING = re.compile(r"(FILEHEADER|LABELS|ATTRIBUTES|TRANSITIONS|STATE_FEATURES) = {$")
FIELD = re.compile(r"(\w+): (.*)$")
FEATURE = re.compile(r"\(\d+\) (.+) --> (.+): ([+-]?\d+\.\d+)$")


# -- items -----------------------------------------------------------------------------------------


class ItemSequence:
    """The features of one sentence, converted once.

    An item is a dict {name: value} or a collection of strings.  A string value makes the attribute
    `name:value`, a number or boolean is the value of the attribute, and dicts, lists, tuples and
    sets are read with `name:` in front.

    >>> ItemSequence([["foo"], {"bar": {"baz": 1}}]).items()
    [{'foo': 1.0}, {'bar:baz': 1.0}]
    """

    __slots__ = ("attributes",)

    def __init__(self, pyseq: "Iterable[Any] | ItemSequence"):
        if isinstance(pyseq, ItemSequence):
            self.attributes: list[AttributeList] = pyseq.attributes
            return
        try:
            self.attributes = [attributes_of(item, ":") for item in pyseq]
        except (TypeError, ValueError) as error:
            raise item_error(error) from None

    def items(self) -> list[dict[str, float]]:
        """The attributes of every item, with their values."""
        return [dict(item) for item in self.attributes]

    def __len__(self) -> int:
        return len(self.attributes)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


class ItemError(TypeError, ValueError):
    """An item that cannot be read."""


def items_of(xseq: "Iterable[Any] | ItemSequence") -> list[Any]:
    """The items of a sequence, converted where it was an ItemSequence."""
    return xseq.attributes if isinstance(xseq, ItemSequence) else list(xseq)  # type: ignore[return-value]


def text_of(label: Any) -> str:
    """A label, which may be given as bytes."""
    if isinstance(label, bytes):
        return label.decode()
    if not isinstance(label, str):
        raise TypeError(f"expected a label that is a string, got {type(label).__name__} {label!r}")
    return label


def item_error(error: Exception) -> ItemError:
    """What is wrong with an item, without the name that other interfaces give to the sequence."""
    return ItemError(str(error).removeprefix("X: sentence 0, "))


# -- models ----------------------------------------------------------------------------------------


class Tagger:
    """Labels sequences with a model file of CRFsuite's, wherever it was trained."""

    def __init__(self) -> None:
        self._model: ChainModel | None = None
        self._size = 0
        self._offsets: dict[str, str] = {}
        self._crf: CRF | None = None
        self._data: Encoded | None = None  # the current sequence
        self._scored: Batch | None = None

    # -- opening and closing -----------------------------------------------------------------------

    def open(self, name: str) -> "contextlib.closing[Tagger]":
        """Open a model file; the result can be used in a `with` statement."""
        with open(name, "rb") as file:
            data = file.read()
        return self._open(data, f"model file {name!r}")

    def open_inmemory(self, value: bytes) -> "contextlib.closing[Tagger]":
        """Open a model from the bytes of its file."""
        if not isinstance(value, bytes):
            raise TypeError(f"expected bytes, got {type(value).__name__}")
        return self._open(value, "model")

    def _open(self, data: bytes, what: str) -> "contextlib.closing[Tagger]":
        if data[:4] != b"lCRF":
            raise ValueError(f"Invalid {what}")
        if len(data) <= HEADER_SIZE:
            raise ValueError(f"The {what} doesn't have a complete header")
        try:
            self._model = crfsuite.read(data, what)
        except ModelFileError as error:
            raise ValueError(f"Error opening {error}") from None
        self._crf, self._size = to_crf(self._model).set_params(n_jobs=1), len(data)
        self._offsets = dict(
            zip(OFFSETS, map(str, struct.unpack("<5I", data[28:HEADER_SIZE])), strict=True)
        )
        self._data, self._scored = None, None
        return contextlib.closing(self)

    def close(self) -> None:
        """Close the model."""
        self._model = self._crf = self._scored = None

    def _opened(self) -> tuple[ChainModel, CRF]:
        if self._model is None or self._crf is None:
            raise ValueError("The tagger is not opened")
        return self._model, self._crf

    # -- answers -----------------------------------------------------------------------------------

    def labels(self) -> list[str]:
        """All labels of the model."""
        return list(self._opened()[0].labels)

    def set(self, xseq: "Iterable[Any] | ItemSequence") -> None:
        """Set the sequence that `tag`, `probability` and `marginal` are asked about."""
        self._data, self._scored = self._encoded(xseq), None

    def _encoded(self, xseq: "Iterable[Any] | ItemSequence") -> Encoded:
        _, crf = self._opened()
        try:
            return crf.encode([items_of(xseq)])
        except CorpusError as error:
            raise item_error(error) from None

    def tag(self, xseq: "Iterable[Any] | ItemSequence | None" = None) -> list[str]:
        """The best labels of a sequence; without one, of the sequence that was set last."""
        _, crf = self._opened()
        data = self._data if xseq is None else self._encoded(xseq)  # threads may share a tagger
        if xseq is not None:
            self._data, self._scored = data, None
        return [] if data is None else crf.predict(data)[0]

    def probability(self, yseq: Sequence[str]) -> float:
        """The probability of these labels for the sequence that was set last."""
        labels = [text_of(label) for label in yseq]
        if len(labels) != self._n_items:
            raise ValueError(
                f"The numbers of items and labels differ: |x| = {self._n_items}, |y| = "
                f"{len(labels)}"
            )
        self._check_labels(labels)
        return math.exp(self._batch().log_probabilities([labels])[0]) if labels else 0.0

    def marginal(self, y: str, pos: int) -> float:
        """The probability of a label at one position of the sequence that was set last."""
        y, pos = text_of(y), operator.index(pos)
        self._check_labels([y])
        if not 0 <= pos < self._n_items:
            raise ValueError(f"The position, {pos} is out of range of {self._n_items}")
        return self._batch().marginals()[0][pos][y]

    def marginals(self, xseq: "Iterable[Any] | ItemSequence") -> list[dict[str, float]]:
        """The probability of every label at every position of a sequence (labelwright's own
        addition)."""
        self.set(xseq)
        return self._batch().marginals()[0]

    @property
    def _n_items(self) -> int:
        self._opened()
        return 0 if self._data is None else int(self._data.offsets[-1])

    def _check_labels(self, labels: list[str]) -> None:
        for label in labels:
            if label not in self._opened()[0].labels:
                raise RuntimeError(f"Failed to convert into label identifier: {label}")

    def _batch(self) -> Batch:
        """The current sequence, scored."""
        if self._scored is None:
            self._scored = self._opened()[1].scored(self._data)
        return self._scored

    # -- what the model holds ----------------------------------------------------------------------

    def info(self) -> "ParsedDump":
        """Labels, attributes and weights of the model."""
        model = self._model
        if model is None:
            raise RuntimeError("Tagger is closed")
        labels, attributes = (
            {name: str(i) for i, name in enumerate(x)} for x in (model.labels, model.attributes)
        )
        header = {
            "magic": "lCRF",
            "size": str(self._size),
            "type": "FOMC",
            "version": "100",
            "num_features": "0",
        }
        header |= {
            "num_labels": str(len(labels)),
            "num_attrs": str(len(attributes)),
            **self._offsets,
        }
        arrays = model.source.tolist(), model.target.tolist(), model.transition.tolist()
        transitions = {
            (model.labels[a], model.labels[b]): w for a, b, w in zip(*arrays, strict=True)
        }
        arrays = model.attribute.tolist(), model.label.tolist(), model.weight.tolist()
        states = {
            (model.attributes[a], model.labels[y]): w for a, y, w in zip(*arrays, strict=True)
        }
        return ParsedDump(header, labels, attributes, transitions, states)

    def dump(self, filename: str | None = None) -> None:
        """Write the model as text, to a file or to the standard output."""
        info = self.info()
        sections: dict[str, list[str]] = {
            "FILEHEADER": [f"{name}: {value}" for name, value in info.header.items()],
            "LABELS": [f"{i:>5}: {name}" for name, i in info.labels.items()],
            "ATTRIBUTES": [f"{i:>5}: {name}" for name, i in info.attributes.items()],
            "TRANSITIONS": [f"(1) {a} --> {b}: {w:f}" for (a, b), w in info.transitions.items()],
            "STATE_FEATURES": [
                f"(0) {a} --> {y}: {w:f}" for (a, y), w in info.state_features.items()
            ],
        }
        text = ""
        for name, lines in sections.items():
            text += "\n".join([f"{name} = {{", *(f"  {line}" for line in lines), "}", "", ""])
        if filename is None:
            sys.stdout.write(text)
        else:
            with open(os.fspath(filename), "w", encoding="utf-8", newline="\n") as file:
                file.write(text)


# -- what a model holds ----------------------------------------------------------------------------


@dataclass
class ParsedDump:
    """The contents of a model."""

    header: dict[str, str] = field(default_factory=dict)  # facts about the file
    labels: dict[str, str] = field(default_factory=dict)  # {name: number}
    attributes: dict[str, str] = field(default_factory=dict)
    # {(label before, label): weight}
    transitions: dict[tuple[str, str], float] = field(default_factory=dict)
    # {(attribute, label): weight}
    state_features: dict[tuple[str, str], float] = field(default_factory=dict)


class CRFsuiteDumpParser:
    """Reads a dump line by line into `result`."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.result = ParsedDump()

    def feed(self, line: str) -> None:
        line = line.lstrip().rstrip("\r\n")  # names may end with spaces
        heading = HEADING.match(line)
        if heading:
            self.state = heading[1]
        elif line == "}":
            self.state = None
        elif line and self.state is not None:
            names: Any = getattr(self.result, self.state.lower().removeprefix("file"))
            is_weight = self.state in ("TRANSITIONS", "STATE_FEATURES")
            parsed = (FEATURE if is_weight else FIELD).match(line)
            if parsed is None:
                raise ValueError(f"not a line of {self.state}: {line!r}")
            if is_weight:
                names[parsed[1], parsed[2]] = float(parsed[3])
            elif self.state == "FILEHEADER":
                names[parsed[1]] = parsed[2]
            else:
                names[parsed[2]] = parsed[1]
