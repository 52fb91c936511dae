"""Features as dicts of names and values, one dict for each token."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, chain
from typing import Any, ClassVar

import numpy as np

from labelwright.corpus.attribute_lines import LARGEST
from labelwright.corpus.offsets import offsets_from
from labelwright.errors import CorpusError
from labelwright.features.attributes import SEPARATOR, Collected
from labelwright.features.encoded import Bools, Extractor, Tensors, new_mark, on_tokens, other_kind
from labelwright.features.incidence import NO_VALUES, Floats, Incidence, Ints, Longs
from labelwright.modelfile import pack_strings, read_strings
from labelwright.validation import HeaderReader, TensorReader, check_distinct

NONE = -1  # the number of a feature that is unknown,
AMOUNT = -2  # of one whose value is another number than one,
REFUSED = -3  # and of what is no feature
REMEMBERED = 1 << 17  # names with values whose numbers are remembered


class DictFeatures:
    """Features as sklearn-crfsuite takes them: {name: value}; a string makes the feature `name=value`, a number is the
    value.

    separator : stands between name and value; ":" in models of CRFsuite
    string_names : the names whose values were strings, so that `joined_by` knows where name and value meet; None where
        that is not known
    """

    kind: ClassVar[str] = "dicts"
    cell_kinds = ("state",)

    def __init__(
        self,
        names: list[str],
        separator: str = SEPARATOR,
        string_names: Iterable[str] | None = None,
        mark: str | None = None,
    ):
        self.names, self.separator, self.mark = names, separator, mark or new_mark()
        self.string_names = None if string_names is None else dict.fromkeys(map(str, string_names))
        self._index = {name: i for i, name in enumerate(names)}
        self._forget()

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
            seen = np.bincount(incidence.token_feature, minlength=len(names))
            if not (seen >= min_count).any() and not may_be_empty:
                raise CorpusError(f"no feature occurs {min_count} times in the training data; lower min_count")
            incidence = _renumbered(incidence, np.where(seen >= min_count, np.cumsum(seen >= min_count) - 1, -1))
            names = [name for name, n in zip(names, seen, strict=True) if n >= min_count]
        return cls(names, collected.separator, collected.string_names), {"state": incidence}, collected.offsets

    @property
    def n_features(self) -> int:
        return len(self.names)

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        if isinstance(X, Collected):
            names = DictFeatures(list(X.names), X.separator, X.string_names).joined_by(self.separator)
            number = np.array([self._index.get(name, -1) for name in names], np.int64)
            return {"state": _renumbered(X.incidence, number)}, X.offsets
        read = self._read_plain(X)
        if read is not None:
            return read
        collected = Collected.of(X, self.separator, self._index)
        return {"state": collected.incidence}, collected.offsets

    def _read_plain(self, X: Any) -> tuple[dict[str, Incidence], Longs] | None:
        """The features of lists of plain dicts of strings and numbers; None for all else, and what is to be refused.

        Names with their values are looked up as they are, without a loop in Python: the text of a feature is put
        together only where it is new.  That takes a quarter of the time of `Collected`, which numbers features of
        training data."""
        if type(X) is not list or not all(type(sentence) is list for sentence in X):
            return None
        tokens: list[Any] = X[0] if len(X) == 1 else list(chain.from_iterable(X))
        if not set(map(type, tokens)) <= {dict}:
            return None
        known = self._remembered if self._remembered.left > 0 else self._forget()
        ends = np.fromiter(accumulate(map(len, tokens), initial=0), np.int64, len(tokens) + 1)
        try:
            items = chain.from_iterable(map(dict.items, tokens))
            feature = np.fromiter(map(known.__getitem__, items), np.int32, int(ends[-1]))
        except TypeError:  # a value that cannot be looked up, such as a list
            return None
        values: Floats = NO_VALUES
        lowest = int(feature.min(initial=0))
        if lowest == REFUSED:
            return None
        if lowest == AMOUNT:
            values = _amounts(feature, list(chain.from_iterable(map(dict.items, tokens))), known)
        if lowest < 0:
            kept = feature >= 0
            ends = offsets_from(kept)[ends]
            feature, values = feature[kept], values[kept] if len(values) else values
        return {"state": on_tokens(ends, feature, values)}, offsets_from([len(sentence) for sentence in X])

    def _forget(self) -> "_Remembered":
        self._remembered = _Remembered(self._index, self.separator)
        return self._remembered

    def joined_by(self, separator: str) -> list[str]:
        """The names of the features [F] with another separator between names and string values.

        >>> DictFeatures(["word==", "a=b"], string_names=["word"]).joined_by(":")
        ['word:=', 'a=b']
        """
        if separator == self.separator or not self.string_names:
            return self.names
        heads = _without_extensions(name + self.separator for name in self.string_names)
        return [self._rejoined(name, heads, separator) for name in self.names]

    def _rejoined(self, name: str, heads: list[str], separator: str) -> str:
        """The name with another separator behind the head that it begins with, if any: of sorted heads none of which
        begins with another, only the last one up to the name can be that."""
        head = heads[bisect_right(heads, name) - 1]
        if not name.startswith(head):
            return name
        return head.removesuffix(self.separator) + separator + name[len(head) :]

    def merged(self, new: Extractor) -> "DictFeatures":
        """These features, then the further ones of the new extractor."""
        if not isinstance(new, DictFeatures):
            raise other_kind(self, new)
        names = dict.fromkeys([*self.names, *new.joined_by(self.separator)])
        known = self.string_names is not None and new.string_names is not None
        string_names = {**(self.string_names or {}), **(new.string_names or {})} if known else None
        return DictFeatures(list(names), self.separator, string_names)

    def numbers_in(self, merged: "DictFeatures") -> Longs:
        """The numbers [F] of these features in an extractor that was merged from this one."""
        return np.arange(self.n_features, dtype=np.int64)

    def reduced(self, used: Bools) -> "tuple[DictFeatures, Bools]":
        """Without the features [F] that are not used, and which of them are left."""
        names = [name for name, keep in zip(self.names, used.tolist(), strict=True) if keep]
        return DictFeatures(names, self.separator, self.string_names), used

    def name(self, feature: int) -> str:
        return self.names[feature]

    def tensors(self) -> Tensors:
        tensors: Tensors = {}
        tensors["names.text"], tensors["names.offsets"] = pack_strings(self.names)
        if self.string_names is not None:
            tensors["string_names.text"], tensors["string_names.offsets"] = pack_strings(list(self.string_names))
        return tensors

    def header(self) -> dict[str, Any]:
        return {"separator": self.separator}

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "DictFeatures":
        names = read_strings(tensors, "names")
        check_distinct(f"{tensors.prefix}names", names)
        string_names = read_strings(tensors, "string_names") if "string_names.text" in tensors else None
        separator = header.text("separator") if "separator" in header else SEPARATOR  # files of 0.1.0 have none
        if not separator:
            raise header.refuse("separator", "one character or more")
        return cls(names, separator, string_names)


def _without_extensions(texts: Iterable[str]) -> list[str]:
    """The texts, sorted, without those that begin with another one."""
    shortest: list[str] = []
    for text in sorted(texts):
        if not shortest or not text.startswith(shortest[-1]):
            shortest.append(text)
    return shortest


class _Remembered(dict[tuple[Any, Any], int]):
    """The numbers of features by their names and values, as far as these were asked for; NONE: unknown, or none.

    True and numbers of one are equal, and so are False and numbers of zero, which add nothing."""

    def __init__(self, index: dict[str, int], separator: str):
        self.index, self.separator, self.left = index, separator, REMEMBERED

    def __missing__(self, item: tuple[Any, Any]) -> int:
        name, value = item
        kind = type(value)
        if type(name) is not str or kind not in (str, bool, int, float):
            return REFUSED
        if kind is str:
            number = self.index.get(f"{name}{self.separator}{value}", NONE)
        elif value == 0:
            number = NONE
        elif value == 1:
            number = self.index.get(name, NONE)
        else:
            return AMOUNT if -LARGEST <= value <= LARGEST else REFUSED
        self.left -= 1
        return self.setdefault(item, number)


def _amounts(feature: Ints, items: list[tuple[str, Any]], known: _Remembered) -> Floats:
    """The values of features [n]; writes the numbers of those that have another value than one."""
    values = np.ones(len(feature))
    for place in np.flatnonzero(feature == AMOUNT).tolist():
        name, value = items[place]
        feature[place], values[place] = known[name, 1], value
    return values


def _renumbered(incidence: Incidence, number: Longs) -> Incidence:
    """The features by new numbers [F]; without those that have none (-1)."""
    feature = number[incidence.token_feature]
    kept = feature >= 0
    value = incidence.token_value[kept] if len(incidence.token_value) else NO_VALUES
    ptr = np.concatenate([[0], np.cumsum(kept)])[incidence.token_ptr]
    return on_tokens(ptr, feature[kept], value)
