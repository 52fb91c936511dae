"""Kinds of values that only some settings of taggers take: numbers by label, one value for each column, phrases."""

import re
from collections.abc import Hashable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from labelwright.corpus.compressed import decompressed
from labelwright.corpus.limits import MOST_HELD, read_at_most
from labelwright.errors import LabelwrightError, OptionError, unreadable
from labelwright.features.builtin import BUILTIN
from labelwright.features.template import NAME
from labelwright.settings import (
    NOT_NEGATIVE,
    Above,
    AtLeast,
    Bounds,
    Choice,
    Kind,
    Limit,
    Number,
    Place,
    Switch,
    Text,
    Whole,
)
from labelwright.wording import shown

POSITIVE_NUMBER = Number(Bounds(Above(0)))
POSITIVE = Whole(Bounds(AtLeast(1)))
MOST_LATENT = 1_000_000  # states of a label; the limit of arcs is reached far earlier


class TemplateName(Text):
    """The name of a built-in template, the path of a file, its text, or a parsed template."""

    metavar = "NAME|FILE"

    def complaint(self, value: Any) -> str | None:
        return None  # whatever reads it says what is wrong

    def from_recipe(self, value: Any, place: Place) -> Any:
        if not isinstance(value, str):
            raise OptionError(f"{place.name}: expected a string, got {shown(value, 60)}")
        return value

    def files(self, value: Any, place: Place) -> list[str]:
        return [value] if isinstance(value, str) else []

    def is_stored(self, value: Any) -> bool:
        return isinstance(value, str) and (value in BUILTIN or "\n" in value)  # anything else may be a path


class SchemeName(Text):
    """The name of a label scheme, or "scheme": that of the labels."""

    metavar = "scheme"

    def complaint(self, value: Any) -> str | None:
        if isinstance(value, str):
            return None  # whether the labels follow it is known only when they are read
        return f"expected 'scheme' or the name of a label scheme, got {shown(value, 60)}"


class Threads(Whole):
    """A number of threads."""

    expected = "a number of threads, or -1 for one per core"

    def __init__(self) -> None:
        self.bounds = Bounds(Limit("", lambda value: value == -1 or value >= 1))

    def is_stored(self, value: Any) -> bool:
        return False  # how many threads run is for the user to say


def _by_label(text: str, number: str, option: str) -> dict[str, str]:
    """The numbers, texts of this form, that LABEL=N,LABEL=N,... has for each label, which may hold commas."""
    pairs = re.findall(rf"(.+?)=({number})(?:,|$)", text)
    if not pairs or ",".join(f"{label}={found}" for label, found in pairs) != text.rstrip(","):
        raise ValueError(text)
    labels = [label for label, _ in pairs]
    for label in labels:
        if labels.count(label) > 1:
            raise OptionError(f"{option}: two numbers for the label {label!r}, expected one")
    return dict(pairs)


class StatesByLabel(Kind):
    """One number of latent states for all labels, or one for each label: 4, or B-NP=3,O=2."""

    expected = "a number, or numbers by label as in B-NP=3,O=2"
    metavar = "N"

    def complaint(self, value: Any) -> str | None:
        by_label = isinstance(value, Mapping) and len(value) > 0
        if not by_label and (not isinstance(value, Integral) or isinstance(value, bool)):
            return f"expected a whole number or a table of one for each label, got {shown(value, 60)}"
        for size in value.values() if by_label else [value]:
            if not POSITIVE.accepts(size):
                return f"expected 1 or more states per label, got {shown(size, 60)}"
            if size > MOST_LATENT:
                return f"expected at most {MOST_LATENT:,} states per label, got {shown(size, 60)}"
        return None

    def from_text(self, text: str) -> int | dict[str, int]:
        """The numbers that a text means.

        >>> StatesByLabel().from_text("4"), StatesByLabel().from_text("B-NP=3,O=2")
        (4, {'B-NP': 3, 'O': 2})
        """
        try:
            return int(text)
        except ValueError:
            pass
        return {label: int(number) for label, number in _by_label(text, r"-?\d+", "--latent").items()}


class WeightsByLabel(Kind):
    """Weights of labels, B-PER=2,O=0.5, or "balanced"."""

    expected = "'balanced', or weights by label as in B-PER=2,O=0.5"
    metavar = "LABEL=X,...|balanced"
    repeated = True

    def complaint(self, value: Any) -> str | None:
        if isinstance(value, str):
            return None if value == "balanced" else f"expected {self.expected}, got {value!r}"
        if not isinstance(value, Mapping):
            return f"expected 'balanced' or a table of weights by label, got {shown(value, 40)}"
        wrong = next((label for label, weight in value.items() if not POSITIVE_NUMBER.accepts(weight)), None)
        return None if wrong is None else f"{wrong!r}: expected a number above 0, got {shown(value[wrong], 60)}"

    def from_texts(self, texts: list[str], flag: str) -> Any:
        """The weights that several options mean together.

        >>> WeightsByLabel().from_texts(["B-PER=2,O=0.5", "I-PER=3"], "--class-weight")
        {'B-PER': 2.0, 'O': 0.5, 'I-PER': 3.0}
        """
        if set(texts) == {"balanced"}:
            return "balanced"
        if "balanced" in texts:
            raise OptionError(f"{flag}: 'balanced' gives every label its weight; leave the others out")
        weights: dict[str, float] = {}
        for text in texts:
            try:
                given = {label: float(number) for label, number in _by_label(text, r"[-+.\deE]+", flag).items()}
            except OptionError:  # which says more
                raise
            except ValueError:
                raise OptionError(f"{flag}: expected {self.expected}, got {text!r}") from None
            twice = next((label for label in given if weights.get(label, given[label]) != given[label]), None)
            if twice is not None:
                raise OptionError(f"{flag}: two numbers for the label {twice!r}, expected one")
            weights |= given
        return weights


class LabelPairs(Kind):
    """Pairs of labels; in options and recipes "B-PER B-PER"."""

    expected = "pairs of labels, as in 'O I-PER'"
    metavar = "'LABEL LABEL'"
    repeated = True

    def accepts(self, value: Any) -> bool:
        return _is_list(value) and all(
            _is_list(pair) and len(pair) == 2 and all(isinstance(label, Hashable) for label in pair) for pair in value
        )

    def from_texts(self, texts: list[str], flag: str) -> Any:
        for text in texts:
            if len(text.split()) != 2:
                raise OptionError(f"{flag}: expected two labels separated by a space, got {text!r}")
        return [tuple(text.split()) for text in texts]

    def from_recipe(self, value: Any, place: Place) -> Any:
        texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
        return self.from_texts(value, place.name) if texts else value


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


class NumberOrName(Kind):
    """A number, or one of some names."""

    def __init__(self, number: Number, expected: str, *names: str):
        self.number, self.names = number, names
        self.expected = f"{expected}, or {' or '.join(map(repr, names))}"
        self.metavar = "|".join(("X", *names))

    def accepts(self, value: Any) -> bool:
        return value in self.names if isinstance(value, str) else self.number.accepts(value)

    def from_text(self, text: str) -> float | str:
        return text if text in self.names else float(text)


class Verbosity(Kind):
    """How much is said: a whole number, or true for 1."""

    expected = "true, false or a whole number"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Integral) or Switch().accepts(value)


class NameByColumn(Choice):
    """One of several names, or one of them for each column."""

    metavar = "NAME"

    def complaint(self, value: Any) -> str | None:
        names = [value] if isinstance(value, str) or not hasattr(value, "__len__") else value
        wrong = [name for name in names if not isinstance(name, str) or name not in self.choices]
        return f"expected {self.expected}, got {shown(wrong[0], 60)}" if wrong else None

    def from_text(self, text: str) -> str | list[str]:
        """The names that a text means.

        >>> NameByColumn(["overlap", "mvdm"]).from_text("overlap,mvdm")
        ['overlap', 'mvdm']
        """
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise ValueError(text)
        return parts if len(parts) > 1 else parts[0]


class NameOrNumbers(Choice):
    """One of several names, or a number for each column."""

    metavar = "NAME"

    def complaint(self, value: Any) -> str | None:
        if isinstance(value, str):
            return super().complaint(value)
        listed = value if hasattr(value, "__len__") else [None]
        if isinstance(value, Mapping) or not all(Number().accepts(number) for number in listed):
            return f"expected a name, or a number for each column, got {shown(value, 60)}"
        return None

    def from_text(self, text: str) -> str | list[float]:
        """The name or the numbers that a text means.

        >>> NameOrNumbers(["gain-ratio"]).from_text("0.5,1")
        [0.5, 1.0]
        """
        parts = [part.strip() for part in text.split(",")]
        try:
            return [float(part) for part in parts]
        except ValueError:
            if len(parts) == 1:
                return parts[0]
            raise OptionError(f"--weights: expected a name, or numbers separated by commas, got {text!r}") from None


class Decay(Kind):
    """The numbers (a, b) of exponential decay; b is 1 where there is one number."""

    expected = "two numbers of 0 or more, as in 1,0.5"
    metavar = "A[,B]"

    def accepts(self, value: Any) -> bool:
        pair = hasattr(value, "__len__") and not isinstance(value, str) and len(value) == 2
        return pair and all(NOT_NEGATIVE.accepts(number) for number in value)

    def from_text(self, text: str) -> tuple[float, ...]:
        """The numbers that a text means.

        >>> Decay().from_text("0.5"), Decay().from_text("0.5,2")
        ((0.5, 1.0), (0.5, 2.0))
        """
        numbers = tuple(float(part) for part in text.split(","))
        return (*numbers, 1.0) if len(numbers) == 1 else numbers

    def from_recipe(self, value: Any, place: Place) -> Any:
        if isinstance(value, list):
            return tuple(value) if len(value) != 1 else (value[0], 1.0)
        return (value, 1.0) if NOT_NEGATIVE.accepts(value) else value


class WholeNumbers(Kind):
    """A list of whole numbers."""

    expected = "a list of whole numbers"

    def accepts(self, value: Any) -> bool:
        return hasattr(value, "__iter__") and not isinstance(value, str | Mapping)


class Shares(Kind):
    """A number of 0 or more for each of some layers."""

    expected = "a table of numbers by layer"

    def complaint(self, value: Any) -> str | None:
        if not isinstance(value, Mapping):
            return f"expected {self.expected}, got {shown(value, 60)}"
        wrong = next((name for name, share in value.items() if not NOT_NEGATIVE.accepts(share)), None)
        return None if wrong is None else f"{wrong}: expected a number of 0 or more, got {shown(value[wrong], 60)}"


class LinesOfFile(list[str]):
    """The lines of a file that are not blank, and its path."""

    def __init__(self, path: str, place: str):
        self.path = path
        try:
            text = decompressed(read_at_most(path, MOST_HELD), path, Path(path).suffix).decode("utf-8-sig")
        except LabelwrightError:
            raise
        except (OSError, ValueError) as error:
            raise unreadable(OptionError, f"{place}: {path}", error) from None
        super().__init__(line.strip() for line in text.split("\n") if line.strip())
        if not self:
            raise OptionError(f"{place}: {path} is empty; leave it out")


class TableOfFile(dict[str, str]):
    """The words of a file with their clusters, and its path: a word and its cluster on each line, or the bit string,
    the word and its count, as programs for Brown clustering write them."""

    def __init__(self, path: str, place: str):
        super().__init__()
        self.path = path
        for number, line in enumerate(LinesOfFile(path, place), start=1):
            fields = line.split("\t") if "\t" in line else line.split()
            brown = len(fields) == 3 and set(fields[0]) <= {"0", "1"} and fields[2].isdecimal()
            if len(fields) != 2 and not brown:
                raise OptionError(f"{path}: line {number}: expected a word and its cluster, got {line!r:.40}")
            word, cluster = (fields[1], fields[0]) if brown else fields
            self[word] = cluster


class FilesByName(Kind):
    """Tables by name; in options NAME=FILE, in a recipe also the name of a file in the place of a table."""

    metavar = "NAME=FILE"
    repeated = True

    def read(self, table: Any, place: str, folder: Path) -> Any:
        """A table as it was given, or that of the file which it names."""
        raise NotImplementedError

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Mapping)

    def from_texts(self, texts: list[str], flag: str) -> Any:
        tables: dict[str, Any] = {}
        for text in texts:
            name, _, path = text.partition("=")
            if not re.fullmatch(NAME, name) or not path:
                raise OptionError(f"{flag}: expected NAME=FILE with a name of letters and digits, got {text!r}")
            if name in tables:
                raise OptionError(f"{flag}: two files are named {name!r}; give each a name of its own")
            tables[name] = self.read(path, f"{flag} {name}", Path())
        return tables

    def from_recipe(self, value: Any, place: Place) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: self.read(table, f"{place.name}: {name}", place.folder) for name, table in value.items()}

    def files(self, value: Any, place: Place) -> list[str]:
        """The files that tables name, or that they were read from."""
        tables = list(value.values()) if isinstance(value, Mapping) else []
        named = [str(place.folder / table) for table in tables if isinstance(table, str)]
        return named + [table.path for table in tables if isinstance(table, LinesOfFile | TableOfFile)]

    def is_stored(self, value: Any) -> bool:
        return False  # they are stored with the features


class Phrases(FilesByName):
    """Lists of phrases by name; files have a phrase on each line."""

    expected = "a table of phrases by name"

    def read(self, table: Any, place: str, folder: Path) -> Any:
        phrases = LinesOfFile(str(folder / table), place) if isinstance(table, str) else table
        if not isinstance(phrases, list) or not all(isinstance(phrase, str) and phrase.strip() for phrase in phrases):
            raise OptionError(f"{place}: expected a file, or a list of phrases, got {shown(phrases, 60)}")
        return phrases


class WordClusters(FilesByName):
    """Clusters of words by the name of the clustering."""

    expected = "a table of word clusters by name"

    def read(self, table: Any, place: str, folder: Path) -> Any:
        return TableOfFile(str(folder / table), place) if isinstance(table, str) else table


class VectorFile(Text):
    """The path of a file with word vectors; in Python also {word: numbers}."""

    expected = "a file, or {word: numbers}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str | Mapping | Path) or hasattr(value, "rows")

    def from_recipe(self, value: Any, place: Place) -> Any:
        return str(place.folder / value) if isinstance(value, str) else value

    def files(self, value: Any, place: Place) -> list[str]:
        return [str(place.folder / value)] if isinstance(value, str) else []

    def is_stored(self, value: Any) -> bool:
        return False  # they are stored with the features
