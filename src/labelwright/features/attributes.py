"""The features of a token as attributes with values: what dicts, lists of strings and their
nestings mean.

    {"word": "dog", "length": 3, "title": True}      word=dog: 1, length: 3, title: 1
    ["noun", "animal"]                               noun: 1, animal: 1
    {"next": {"word": "barks"}, "tags": ["n", "v"]}  next:word=barks: 1, tags:n: 1, tags:v: 1
    {"vector": [0.5, 2.0]}                           vector:0: 0.5, vector:1: 2

CRFsuite's Python interface joins a name and its value by ":", and gives False the value 0:
`separator=":"` does so.
"""

import itertools
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, islice
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from labelwright.corpus.attribute_lines import (
    LARGEST,
    VALUE_RANGE,
    AttributeLines,
    parse_attribute_lines,
)
from labelwright.corpus.compressed import Source, first_line_of, name_of, read_bytes
from labelwright.corpus.limits import LONGEST_VALUE, too_long
from labelwright.corpus.offsets import offsets_from
from labelwright.errors import CorpusError
from labelwright.features.incidence import (
    NO_VALUES,
    Bools,
    Extractor,
    Floats,
    Incidence,
    Ints,
    Longs,
    Tensors,
    distinct_strings,
    new_mark,
    on_tokens,
    other_kind,
    packed_strings,
)
from labelwright.modelfile import HeaderReader, TensorReader, read_strings
from labelwright.wording import shown

SEPARATOR = "="  # between a name and its value
MOST_LEVELS = 20  # of dicts within dicts
NONE = -1  # the number of a feature that is unknown,
AMOUNT = -2  # and below: of one whose value is another number than one,
REFUSED = -(1 << 31)  # and of what is no string or number of a plain dict
AT_ONCE = 4096  # tokens with plain dicts whose features are added together
REMEMBERED = 1 << 17  # names with values whose numbers are remembered


class AttributeList(list[tuple[str, float]]):
    """The attributes of a token, already converted."""


def attributes_of(
    item: Any, separator: str = SEPARATOR, strings: dict[str, None] | None = None
) -> AttributeList:
    """The attributes of a token; TypeError or ValueError where it cannot be read as one.  `strings`
    collects the names that have strings as values."""
    attributes = AttributeList()
    if isinstance(item, str | bytes):
        raise ValueError(
            f"expected a dict of features or a list of attributes, got the string {shown(item)}"
        )
    if not isinstance(item, Iterable):
        raise TypeError(
            f"expected a dict of features or a list of attributes, got {type(item).__name__}"
        )
    _add(attributes, item, "", separator, strings, 0)
    return attributes


def _add(
    out: AttributeList,
    item: Any,
    prefix: str,
    separator: str,
    strings: dict[str, None] | None,
    level: int,
) -> None:
    """Append what a dict or a collection of strings holds."""
    if level > MOST_LEVELS:
        raise ValueError(f"{prefix!r}: nested more than {MOST_LEVELS} levels deep")
    if not isinstance(item, Mapping):
        out.extend((prefix + _text(name, prefix), 1.0) for name in item)
        return
    for key, value in item.items():
        name = prefix + (key if type(key) is str else _text(key, prefix))
        kind = type(value)
        if isinstance(value, str | bytes):
            if strings is not None:
                strings[name] = None
            out.append((f"{name}{separator}{_text(value, name)}", 1.0))
        elif kind is float or kind is int:
            out.append((name, float(value)))
        elif kind is bool or kind is np.bool_:
            if value or separator != SEPARATOR:
                out.append((name, float(value)))
        elif kind is np.ndarray and not value.ndim:
            _add(out, {name: value.item()}, "", separator, strings, level + 1)
        elif _is_numbers(value):
            numbers = np.asarray(value, np.float64).reshape(-1).tolist()
            out.extend((f"{name}:{d}", x) for d, x in enumerate(numbers))
        elif isinstance(value, AbstractSet) and any(isinstance(x, Real | np.bool_) for x in value):
            raise TypeError(
                f"feature {name!r}: expected a list or an array of numbers, got a set, which has "
                "no order"
            )
        elif isinstance(value, Mapping | list | tuple | AbstractSet | np.ndarray):
            _add(out, value, f"{name}:", separator, strings, level + 1)
        else:
            try:
                out.append((name, float(value)))
            except (TypeError, ValueError, OverflowError):
                raise TypeError(
                    f"feature {name!r}: expected a string, number, boolean, or a dict or list of "
                    f"them, got {kind.__name__}"
                ) from None


def _is_numbers(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub"
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(x, Real | np.bool_) for x in value)
    )


def _text(name: Any, where: str) -> str:
    """The name of an attribute."""
    if isinstance(name, str):
        return str(name)
    if isinstance(name, bytes):
        return name.decode("utf-8")
    inside = f" in {where.rstrip(':')!r}" if where else ""
    raise TypeError(
        f"expected the name of an attribute{inside}, a string, got {type(name).__name__} "
        f"{shown(name)}"
    )


# -- numbers of attributes -------------------------------------------------------------------------


class Numbers(defaultdict[str, int]):
    """The numbers of attributes; a new one gets the next number."""

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        super().__init__(None, known or {})
        self.default_factory = self.__len__

    def __reduce__(self) -> tuple[Any, ...]:
        """As a plain dict, since the factory is the dict itself."""
        return Numbers, (dict(self),)


class _Remembered(dict[tuple[Any, Any], int]):
    """The numbers of features by their names and values, as far as these were asked for: the text
    of a feature is put together only where it is new.

    True and numbers of one are equal, and so are False and numbers of zero, which add nothing to a
    score: once an attribute was False, a zero of it has no feature either."""

    def __init__(
        self, names: dict[str, int], separator: str, strings: dict[str, None] | None = None
    ):
        self.names, self.separator, self.strings, self.left = names, separator, strings, REMEMBERED
        self.learns = isinstance(names, Numbers)
        # number and value of features whose value is not one
        self.amounts: dict[int, tuple[int, float]] = {}
        self._codes = itertools.count(-AMOUNT)  # several threads may ask at once

    def __reduce__(self) -> tuple[Any, ...]:
        return _Remembered, (self.names, self.separator, self.strings)

    def number_of(self, name: str) -> int:
        return self.names[name] if self.learns else self.names.get(name, NONE)

    def renewed(self) -> "_Remembered":
        """This, or a new one if it is time to forget."""
        return self if self.left > 0 else _Remembered(self.names, self.separator, self.strings)

    def __missing__(self, item: tuple[Any, Any]) -> int:
        name, value = item
        kind = type(value)
        if type(name) is not str or kind not in (str, bool, int, float):
            return REFUSED
        if kind is str:
            if self.strings is not None:
                self.strings[name] = None
            number = self.number_of(f"{name}{self.separator}{value}")
        elif value == 1:
            number = self.number_of(name)
        elif value == 0 and (not self.learns or (kind is bool and self.separator == SEPARATOR)):
            number = NONE
        elif -LARGEST <= value <= LARGEST:
            number = -next(self._codes)
            self.amounts[number] = self.number_of(name), float(value)
        else:
            return REFUSED
        self.left -= 1
        # where False has no feature
        is_zero = number != NONE and value == 0 and self.separator == SEPARATOR
        return number if is_zero else self.setdefault(item, number)


class _Rows(NamedTuple):
    """The features of tokens, as sparse rows."""

    ends: Longs  # [T+1]
    feature: Ints
    value: Floats  # empty where all are one


def _codes_of(tokens: list[Any], known: _Remembered) -> Ints | None:
    """The numbers of the features of plain dicts of strings and numbers; None for all else, and
    what is to be refused.

    There is no loop in Python, which takes a seventh of the time of `attributes_of`."""
    if not set(map(type, tokens)) <= {dict}:
        return None
    try:
        codes = np.fromiter(
            map(known.__getitem__, chain.from_iterable(map(dict.items, tokens))), np.int32
        )
    except TypeError:  # a value that cannot be looked up, such as a list
        return None
    return None if len(codes) and codes.min() == REFUSED else codes


def _rows_of(feature: Ints, sizes: Any, known: _Remembered) -> _Rows:
    """The features of tokens, given their codes and how many of these each token has."""
    ends = offsets_from(sizes)
    value: Floats = NO_VALUES
    lowest = int(feature.min(initial=0))
    if lowest <= AMOUNT:
        value, places = np.ones(len(feature)), np.flatnonzero(feature <= AMOUNT)
        codes, place = np.unique(feature[places], return_inverse=True)
        numbers, amounts = zip(*(known.amounts[code] for code in codes.tolist()), strict=True)
        feature[places], value[places] = (
            np.array(numbers, np.int32)[place],
            np.array(amounts)[place],
        )
    if lowest < 0:
        kept = feature >= 0
        ends = offsets_from(kept)[ends]
        feature, value = feature[kept], value[kept] if len(value) else value
    return _Rows(ends, feature, value)


class Collected:
    """The attributes of sentences as numbers, collected one sentence at a time: feature dicts need
    not be in memory together.

    separator : stands between a name and its value, where that is a string
    index : the numbers of known attributes; others are left out.  Without it every attribute gets a
        number
    """

    def __init__(self, separator: str = SEPARATOR, index: dict[str, int] | None = None):
        self.separator = separator
        self.names: dict[str, int] = Numbers() if index is None else index
        self.string_names: dict[str, None] | None = (
            {} if index is None and separator == SEPARATOR else None
        )
        self._known = _Remembered(self.names, separator, self.string_names)
        self._feature, self._ends, self._offsets = array("i"), array("q", [0]), array("q", [0])
        self._value: array[float] | None = None  # once one of them is not 1
        # of plain dicts whose features are still to be added
        self._codes, self._sizes = list[Ints](), array("q")

    @classmethod
    def of(
        cls, X: Iterable[Any], separator: str = SEPARATOR, index: dict[str, int] | None = None
    ) -> "Collected":
        """The attributes of all sentences."""
        if not isinstance(X, Iterable):
            raise CorpusError(f"X: expected a list of sentences, got {type(X).__name__}")
        collected = cls(separator, index)
        for sentence in X:
            collected.append(sentence)
        collected._settle()
        # nothing is remembered
        collected._known = _Remembered(collected.names, separator, collected.string_names)
        return collected

    @classmethod
    def from_lines(cls, lines: AttributeLines) -> "Collected":
        """The attributes of a file in CRFsuite's format."""
        collected = cls()
        collected.names.update(lines.names)
        collected.string_names = None  # a line does not tell where name and value meet
        collected._feature, collected._value = lines.attribute, lines.value
        collected._ends, collected._offsets = lines.ends, array("q", lines.labels.offsets.tobytes())
        return collected

    def append(self, sentence: Iterable[Any]) -> None:
        """Add a sentence: dicts, or collections of strings, for its tokens; or attributes that are
        converted already. A sentence that cannot be read is not added."""
        if isinstance(sentence, str | bytes) or not isinstance(sentence, Iterable):
            raise CorpusError(
                f"X: sentence {len(self)}: expected a list of tokens, got {type(sentence).__name__}"
            )
        before = len(self.names), len(self.string_names or ())
        try:
            tokens = sentence if isinstance(sentence, list) else list(sentence)
            codes = _codes_of(tokens, self._known)
            rows = self._rows(tokens) if codes is None else None
            longest = self._longest_name(before[0])
            if longest > LONGEST_VALUE:
                raise too_long(f"X: sentence {len(self)}", longest)
        except BaseException:
            self._forget(*before)
            raise
        self._offsets.append(self._offsets[-1] + len(tokens))
        if codes is not None:
            self._codes.append(codes)
            self._sizes.extend(map(len, tokens))
        if rows is not None or len(self._sizes) >= AT_ONCE:
            self._settle()
        if rows is not None:
            self._add(rows)

    def _settle(self) -> None:
        """Add the features of plain dicts, many at once."""
        if self._codes:
            self._add(_rows_of(np.concatenate(self._codes), self._sizes, self._known))
            self._codes, self._sizes, self._known = [], array("q"), self._known.renewed()

    def _longest_name(self, n_names: int) -> int:
        """The length of the longest name but the first n."""
        return max(map(len, islice(reversed(self.names), len(self.names) - n_names)), default=0)

    def _forget(self, n_names: int, n_strings: int) -> None:
        while self._known.learns and len(self.names) > n_names:
            self.names.popitem()
        while self.string_names and len(self.string_names) > n_strings:
            self.string_names.popitem()
        self._known.clear()

    def _add(self, rows: _Rows) -> None:
        """Add the features of tokens."""
        if len(rows.value) and self._value is None:
            self._value = array("d", [1.0]) * len(self._feature)
        if self._value is not None:
            self._value.frombytes(
                (rows.value if len(rows.value) else np.ones(len(rows.feature))).tobytes()
            )
        self._ends.frombytes((rows.ends[1:] + len(self._feature)).tobytes())
        self._feature.frombytes(rows.feature.tobytes())

    def _rows(self, tokens: list[Any]) -> _Rows:
        """The features of tokens of any kind."""
        feature, value, ends = list[int](), list[float](), [0]
        for t, token in enumerate(tokens):
            place = f"X: sentence {len(self)}, token {t}"
            try:
                is_read = type(token) is AttributeList
                attributes = (
                    token if is_read else attributes_of(token, self.separator, self.string_names)
                )
            except (TypeError, ValueError) as error:
                raise CorpusError(f"{place}: {error}") from None
            except OverflowError:  # of whole numbers
                raise CorpusError(
                    f"{place}: a number is too large; expected {VALUE_RANGE}"
                ) from None
            for name, amount in attributes:
                if not abs(amount) <= LARGEST:
                    raise CorpusError(
                        f"{place}: feature {name!r} is {amount}; expected {VALUE_RANGE}"
                    )
                number = self._known.number_of(name)
                if number != NONE:
                    feature.append(number)
                    value.append(amount)
            ends.append(len(feature))
        values = np.array(value) if any(amount != 1.0 for amount in value) else NO_VALUES
        return _Rows(np.array(ends, np.int64), np.array(feature, np.int32), values)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getstate__(self) -> dict[str, Any]:
        self._settle()  # pickles hold nothing that is remembered
        return self.__dict__

    def __iter__(self) -> Iterator[Any]:
        raise CorpusError(
            "X: this tagger cannot read attributes, only columns or dicts; use a CRF or a "
            "perceptron"
        )

    @property
    def n_tokens(self) -> int:
        return self._offsets[-1]

    @property
    def offsets(self) -> Longs:
        """Where the tokens of each sentence begin [N+1]."""
        return np.array(self._offsets, np.int64)

    @property
    def incidence(self) -> Incidence:
        """The attributes of all tokens, as features of the tokens themselves."""
        self._settle()
        value = NO_VALUES if self._value is None else np.array(self._value, np.float64)
        return on_tokens(np.array(self._ends, np.int64), np.array(self._feature, np.int32), value)

    def take(self, chosen: Bools) -> "Collected":
        """The sentences that are chosen [N], with the same attributes."""
        self._settle()
        part = Collected(self.separator, self.names)
        part.string_names = self.string_names
        lengths, ends = np.diff(self.offsets), np.array(self._ends, np.int64)
        tokens = np.repeat(chosen, lengths)
        features = np.repeat(tokens, np.diff(ends))
        part._feature = array("i", np.array(self._feature, np.int32)[features].tobytes())
        part._ends = array("q", offsets_from(np.diff(ends)[tokens]).tobytes())
        part._offsets = array("q", offsets_from(lengths[chosen]).tobytes())
        if self._value is not None:
            part._value = array("d", np.array(self._value)[features].tobytes())
        return part


# -- extractor -------------------------------------------------------------------------------------


class DictFeatures(Extractor):
    """Features as sklearn-crfsuite takes them: {name: value}; a string makes the feature
    `name=value`, a number is the value.

    separator : stands between name and value; ":" in models of CRFsuite
    string_names : the names whose values were strings, so that `joined_by` knows where name and
        value meet; None where that is not known
    """

    kind: ClassVar[str] = "dicts"

    def __init__(
        self,
        names: list[str],
        separator: str = SEPARATOR,
        string_names: Iterable[str] | None = None,
        mark: str | None = None,
    ):
        self.names, self.separator, self.mark, self.n_features = (
            names,
            separator,
            mark or new_mark(),
            len(names),
        )
        self.string_names = None if string_names is None else dict.fromkeys(map(str, string_names))
        self._index = {name: i for i, name in enumerate(names)}
        self._known = _Remembered(self._index, separator)

    def __reduce__(self) -> tuple[Any, ...]:
        """What a pickle holds: nothing that is remembered."""
        return DictFeatures, (self.names, self.separator, self.string_names, self.mark)

    @classmethod
    def learn(
        cls, X: Any, template: Any, min_count: int, may_be_empty: bool = False, given: Any = None
    ) -> tuple["DictFeatures", dict[str, Incidence], Longs]:
        collected = X if isinstance(X, Collected) else Collected.of(X)
        incidence, names = collected.incidence, list(collected.names)
        if min_count > 1:
            kept = np.bincount(incidence.token_feature, minlength=len(names)) >= min_count
            if not kept.any() and not may_be_empty:
                raise CorpusError(
                    f"no feature occurs {min_count} times in the training data; lower min_count"
                )
            incidence = _renumbered(incidence, np.where(kept, np.cumsum(kept) - 1, -1))
            names = [name for name, keep in zip(names, kept.tolist(), strict=True) if keep]
        return (
            cls(names, collected.separator, collected.string_names),
            {"state": incidence},
            collected.offsets,
        )

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        if isinstance(X, Collected):
            names = DictFeatures(list(X.names), X.separator, X.string_names).joined_by(
                self.separator
            )
            number = np.array([self._index.get(name, -1) for name in names], np.int64)
            return {"state": _renumbered(X.incidence, number)}, X.offsets
        if type(X) is list and all(type(sentence) is list for sentence in X):
            known = self._known = self._known.renewed()
            tokens = X[0] if len(X) == 1 else list(chain.from_iterable(X))
            if (codes := _codes_of(tokens, known)) is not None:
                rows = _rows_of(codes, list(map(len, tokens)), known)
                return {"state": on_tokens(*rows)}, offsets_from([len(sentence) for sentence in X])
        collected = Collected.of(X, self.separator, self._index)
        return {"state": collected.incidence}, collected.offsets

    def joined_by(self, separator: str) -> list[str]:
        """The names of the features [F] with another separator between names and string values.

        >>> DictFeatures(["word==", "a=b"], string_names=["word"]).joined_by(":")
        ['word:=', 'a=b']
        """
        if separator == self.separator or not self.string_names:
            return self.names
        heads: list[str] = []  # sorted, without those that begin with another one
        for text in sorted(name + self.separator for name in self.string_names):
            if not heads or not text.startswith(heads[-1]):
                heads.append(text)
        names = []
        # only the last head up to the name can be that which it begins with
        for name in self.names:
            head = heads[bisect_right(heads, name) - 1]
            rest = name.removeprefix(head)
            names.append(
                name if rest == name else head.removesuffix(self.separator) + separator + rest
            )
        return names

    def merged(self, new: Extractor) -> "DictFeatures":
        if not isinstance(new, DictFeatures):
            raise other_kind(self, new)
        names = dict.fromkeys([*self.names, *new.joined_by(self.separator)])
        known = self.string_names is not None and new.string_names is not None
        string_names = {**(self.string_names or {}), **(new.string_names or {})} if known else None
        return DictFeatures(list(names), self.separator, string_names)

    def reduced(self, used: Bools) -> "tuple[DictFeatures, Bools]":
        names = [name for name, keep in zip(self.names, used.tolist(), strict=True) if keep]
        return DictFeatures(names, self.separator, self.string_names), used

    def name(self, feature: int) -> str:
        return self.names[feature]

    def tensors(self) -> Tensors:
        strings = (
            {}
            if self.string_names is None
            else packed_strings("string_names", list(self.string_names))
        )
        return packed_strings("names", self.names) | strings

    def header(self) -> dict[str, Any]:
        return {"separator": self.separator}

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "DictFeatures":
        names = distinct_strings(tensors, "names")
        string_names = (
            read_strings(tensors, "string_names") if "string_names.text" in tensors else None
        )
        # files of 0.1.0 have none
        separator = header.text("separator") if "separator" in header else SEPARATOR
        if not separator:
            raise header.refuse("separator", "one character or more")
        return cls(names, separator, string_names)


def _renumbered(incidence: Incidence, number: Longs) -> Incidence:
    """The features by new numbers [F]; without those that have none (-1)."""
    feature = number[incidence.token_feature]
    kept = feature >= 0
    value = incidence.token_value[kept] if len(incidence.token_value) else NO_VALUES
    return on_tokens(offsets_from(kept)[incidence.token_ptr], feature[kept], value)


# -- files -----------------------------------------------------------------------------------------


class AttributeData(NamedTuple):
    """Sentences as attributes with values, and their labels: what `fit` takes, and development
    data."""

    X: Collected
    y: list[list[str]]


def read_crfsuite(path: Source) -> AttributeData:
    """Read a data file of CRFsuite's: in each line a label and the attributes of a token, separated
    by tabs.

    path : a path, plain or compressed, or a binary file object

    >>> import io
    >>> X, y = read_crfsuite(io.BytesIO(b"B-NP\\tw=He\\tlength:2\\nB-VP\\tw=ran\\n"))
    >>> list(X.names), y
    (['w=He', 'length', 'w=ran'], [['B-NP', 'B-VP']])
    """
    lines = parse_attribute_lines(read_bytes(path), name_of(path), first_line_of(path))
    return AttributeData(Collected.from_lines(lines), lines.labels.y)
