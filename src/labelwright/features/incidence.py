"""Which features each token has, as integer arrays, the transpose of that for gradients, and what
makes them: an extractor, composed of parts."""

import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.arrays import ranges
from labelwright.corpus.offsets import offsets_from
from labelwright.errors import ModelFileError, OptionError
from labelwright.kernels import tables
from labelwright.modelfile import TensorReader, check_distinct, pack_strings, read_strings
from labelwright.structures.passing import NOTHING_BELOW, FeatureValues

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.floating]

NO_VALUES = np.empty(0, np.float32)


class Incidence(NamedTuple):
    """The features of tokens on states, on pairs or on triples.

    Templates that read the same few values share a *key* (a word type, a tag trigram): the key has
    the features, the token has the key.  Features too varied to share belong to the token itself.
    """

    keys: Ints  # [T, G]  key of each token in each group (-1 at the end, where it has fewer)
    key_ptr: Longs  # [K+1]
    key_feature: Ints  # features of key k: key_feature[key_ptr[k]:key_ptr[k+1]]
    token_ptr: Longs  # [T+1]
    token_feature: Ints  # features of token t itself
    token_value: Floats  # their values; empty when all are one

    @property
    def n_keys(self) -> int:
        return len(self.key_ptr) - 1


def with_frequent_keys(incidence: Incidence, least: int, value_of_key: int = 1) -> Incidence:
    """The same features without the keys that fewer than `least` tokens have, whose features move
    to the tokens, with this value: where rows of scores are wide, a row for every key costs more
    than it saves."""
    keys, key_ptr, key_feature, token_ptr, token_feature, token_value = incidence
    n_features = np.diff(key_ptr)
    kept = (np.bincount(keys.reshape(-1), minlength=incidence.n_keys) >= least) & (n_features > 0)
    number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    moved = np.where(kept, 0, n_features)
    ptr = offsets_from(moved[keys].sum(axis=1) + np.diff(token_ptr))
    feature = np.empty(int(ptr[-1]), np.int32)
    value = np.full(len(feature) if len(token_value) else 0, value_of_key, token_value.dtype)
    new_keys = np.full_like(keys, -1)
    on_tokens = token_ptr, token_feature, token_value
    _move_features(keys, number, key_ptr, key_feature, *on_tokens, new_keys, ptr, feature, value)
    key_feature = key_feature[np.repeat(kept, n_features)]
    key_ptr = offsets_from(n_features[kept])
    return Incidence(new_keys, key_ptr, key_feature, ptr, feature, value)


def _move_features(
    keys: Ints, number: Ints, key_ptr: Longs, key_feature: Ints, token_ptr: Longs,
    token_feature: Ints, token_value: Floats, new_keys: Ints, ptr: Longs, feature: Ints,
    value: Floats,
) -> None:  # fmt: skip
    """Move the features of keys k with number[k] < 0 to their tokens: feature[ptr[t]:ptr[t+1]] has
    those of the keys, then those of the token itself (whose values go to `value`, if any); other
    keys go to new_keys [T, G] by their number."""
    kept = number[keys] >= 0
    token, _ = np.nonzero(kept)
    new_keys[token, (np.cumsum(kept, axis=1) - 1)[kept]] = number[keys[kept]]
    sizes = np.where(kept, 0, np.diff(key_ptr)[keys])
    after = np.cumsum(sizes, axis=1)
    moved, begin = ~kept, ptr[:-1, None] + after - sizes
    feature[ranges(begin[moved], sizes[moved])] = key_feature[
        ranges(key_ptr[keys[moved]], sizes[moved])
    ]
    own = ranges(ptr[:-1] + sizes.sum(axis=1), np.diff(token_ptr))
    feature[own] = token_feature
    if len(value):
        value[own] = token_value


class Transposed(NamedTuple):
    """A transposed incidence: the owners (tokens or keys) of each item that occurs."""

    item: Ints  # [n]    keys or features
    ptr: Longs  # [n+1]
    owner: Ints  # owners of item[i]: owner[ptr[i]:ptr[i+1]]
    value: Floats  # empty when all are one


def invert(ptr: Longs, items: Ints, n_items: int) -> tuple[Longs, Ints, Ints]:
    """Transpose owner -> items to item -> owners, for all n_items; also where each entry was."""
    starts = np.zeros(n_items + 1, np.int64)
    owners = np.empty(len(items), np.int32)
    places = np.empty(len(items), np.int32)
    tables.invert(ptr, items, starts, owners, places)
    return starts, owners, places


class Transposer:
    """Transposes pieces of an incidence, one after the other; memory for all items is allocated
    once."""

    def __init__(self, n_items: int):
        self._slot_of = np.empty(n_items, np.int32)

    def transpose(self, ptr: Longs, items: Ints, value: Floats = NO_VALUES) -> Transposed:
        """Transpose owner -> items to item -> owners, keeping only items that occur."""
        place = np.arange(len(items), dtype=np.int32)
        self._slot_of[items] = place  # of equal items the last one stays
        item = np.sort(items[self._slot_of[items] == place])
        self._slot_of[item] = np.arange(len(item), dtype=np.int32)
        starts, owners, places = invert(ptr, self._slot_of[items], len(item))
        return Transposed(item, starts, owners, value[places] if len(value) else value)


def tokens_of_keys(
    incidence: Incidence, transposer: Transposer, begin: int, end: int
) -> Transposed:
    """The tokens begin..end of each key, counted from `begin`; in a file where the incidence is in
    one."""
    keys = incidence.keys[begin:end]
    present = keys >= 0
    tokens = transposer.transpose(offsets_from(present.sum(axis=1)), keys[present])
    folder = folder_of(incidence.keys)
    return tokens if folder is None else folder.mapped(tokens)


def _distinct(
    ptr: Longs, owners: Ints, item_ptr: Longs, items: Ints, n_codes: int
) -> tuple[Longs, Ints]:
    """For each k, the sorted distinct items of all its owners, as a sparse row."""
    out_ptr = np.zeros(len(ptr), np.int64)
    sizes = np.diff(item_ptr)
    parts = range(0, len(owners), 1 << 20)  # all at once would take eight bytes for each owner
    out = np.empty(sum(int(sizes[owners[k : k + (1 << 20)]].sum()) for k in parts), np.int32)
    n = tables.distinct_items(ptr, owners, item_ptr, items, n_codes, out_ptr, out)
    return out_ptr, out[:n].copy()


def observed_cells(
    incidence: Incidence, n_features: int, gold: Ints, n_codes: int
) -> tuple[Longs, Ints]:
    """Per feature the sorted gold codes (labels, pairs, triples) it is seen with; negative codes do
    not count."""
    each = np.arange(len(gold) + 1, dtype=np.int64)
    n_groups = incidence.keys.shape[1]
    key_codes = _distinct(
        *invert(each * n_groups, incidence.keys.reshape(-1), incidence.n_keys)[:2],
        each,
        gold,
        n_codes,
    )
    through_keys = _distinct(
        *invert(incidence.key_ptr, incidence.key_feature, n_features)[:2], *key_codes, n_codes
    )
    on_tokens = _distinct(
        *invert(incidence.token_ptr, incidence.token_feature, n_features)[:2], each, gold, n_codes
    )
    # A feature may occur both ways: its two lists are the items of two owners, 2f and 2f + 1.
    pairs = np.arange(0, 2 * n_features + 1, 2, dtype=np.int64)
    owners = np.arange(2 * n_features, dtype=np.int32).reshape(2, -1).T.reshape(-1)
    item_ptr = np.concatenate([through_keys[0], through_keys[0][-1] + on_tokens[0][1:]])
    return _distinct(
        pairs, owners.copy(), item_ptr, np.concatenate([through_keys[1], on_tokens[1]]), n_codes
    )


# -- extractors ------------------------------------------------------------------------------------

Tensors = dict[str, np.ndarray]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A corpus as features of one model: encoded once, used often.  Its length is the number of
    sentences."""

    incidences: dict[str, Incidence]
    offsets: Longs  # [N+1]
    owner: str  # the mark of the vocabulary that made it

    def __len__(self) -> int:
        return len(self.offsets) - 1


def new_mark() -> str:
    """A name for one vocabulary, which copies and pickles of it keep."""
    return os.urandom(8).hex()


class Part:
    """Some of the features of a model, which count from 0.  As it is, a part is no vocabulary:
    nothing is added to its features, and none is left out."""

    n_features: int = 0
    # what features are attached to: states, pairs, triples, segments
    cell_kinds: tuple[str, ...] = ("state",)

    def name(self, feature: int) -> str:
        raise IndexError(feature)

    def tensors(self) -> Tensors:
        """What a model file stores,"""
        return {}

    def header(self) -> dict[str, Any]:
        """and what its header says."""
        return {}

    def merged(self, new: Any) -> Any:
        """These features, then the further ones of the new part."""
        return self

    def numbers_in(self, merged: Any) -> Longs:
        """The numbers [F] of these features in a part that was merged from this one; -1: none."""
        return np.arange(self.n_features, dtype=np.int64)

    def reduced(self, used: Bools) -> tuple[Any, Bools]:
        """Without the features [F] that are not used, and which of them are left."""
        return self, np.ones_like(used)


class Slots(NamedTuple):
    """Where the values of token features come from."""

    # state, edge, triple -> a place among the values for each; -1: it is 1
    places: dict[str, Longs]
    values: FeatureValues


class Extractor(Part):
    """Learns its vocabulary from training data, then converts any data of that kind to features."""

    kind: ClassVar[str]
    mark: str

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        """The features of tokens, and where sentences begin [N+1]."""
        incidences, _, offsets = self.encode_with_slots(X)
        return incidences, offsets

    def encode_with_slots(self, X: Any) -> tuple[dict[str, Incidence], Slots, Longs]:
        """The features of tokens, and where their values come from: no slots if no layer below is
        read."""
        incidences, offsets = self.encode(X)
        return incidences, Slots({}, NOTHING_BELOW), offsets


class Composed(Extractor):
    """Features of several parts, one behind the other."""

    # name of each part -> what the names of its tensors begin with
    stored: ClassVar[dict[str, str]]

    @property
    def parts(self) -> list[Part]:
        return [getattr(self, name) for name in self.stored]

    def _of(self, parts: Sequence[Any]) -> Any:
        """The same with other parts."""
        return type(self)(*parts)

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return sum(part.n_features for part in self.parts)

    @property
    def cell_kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(kind for part in self.parts for kind in part.cell_kinds))

    def name(self, feature: int) -> str:
        for part in self.parts:
            if feature < part.n_features:
                return part.name(feature)
            feature -= part.n_features
        raise IndexError(feature)

    def merged(self, new: Any) -> Any:
        if type(new) is not type(self):
            raise other_kind(self, new)
        return self._of(
            [mine.merged(other) for mine, other in zip(self.parts, new.parts, strict=True)]
        )

    def numbers_in(self, merged: Any) -> Longs:
        numbers, first = [np.empty(0, np.int64)], 0
        for mine, other in zip(self.parts, merged.parts, strict=True):
            there = mine.numbers_in(other)
            numbers.append(np.where(there >= 0, first + there, -1))
            first += other.n_features
        return np.concatenate(numbers)

    def reduced(self, used: Bools) -> tuple[Any, Bools]:
        ends = np.cumsum([part.n_features for part in self.parts])
        reduced = [
            part.reduced(each)
            for part, each in zip(self.parts, np.split(used, ends[:-1]), strict=True)
        ]
        return self._of([part for part, _ in reduced]), np.concatenate(
            [left for _, left in reduced]
        )

    def tensors(self) -> Tensors:
        stored = zip(self.stored.values(), self.parts, strict=True)
        return {
            prefix + name: tensor
            for prefix, part in stored
            for name, tensor in part.tensors().items()
        }

    def header(self) -> dict[str, Any]:
        return {name: value for part in self.parts for name, value in part.header().items()}


def packed_strings(name: str, strings: Sequence[str]) -> Tensors:
    """The tensors of these strings."""
    text, offsets = pack_strings(strings)
    return {f"{name}.text": text, f"{name}.offsets": offsets}


def distinct_strings(tensors: TensorReader, name: str) -> list[str]:
    """The strings that were stored under this name, each of which occurs once."""
    strings = read_strings(tensors, name)
    check_distinct(tensors.prefix + name, strings)
    return strings


def paired_strings(tensors: TensorReader, keys: str, values: str) -> dict[str, str]:
    """Distinct strings, and the one that was stored for each."""
    known, texts = distinct_strings(tensors, keys), read_strings(tensors, values)
    if len(known) != len(texts):
        raise ModelFileError(
            f"tensor {tensors.prefix}{values}: expected {len(known)} strings, got {len(texts)}"
        )
    return dict(zip(known, texts, strict=True))


def other_kind(old: Any, new: Any) -> OptionError:
    return OptionError(
        f"X: the model was trained on {old.kind}, got {new.kind}; give the same kind, or fit again"
    )


def on_tokens(token_ptr: Any, feature: Any, value: Floats) -> Incidence:
    """An incidence without keys: all features are those of the tokens themselves."""
    ptr = np.asarray(token_ptr, np.int64)
    nothing: Ints = np.empty(0, np.int32)
    keys: Ints = np.empty((len(ptr) - 1, 0), np.int32)
    return Incidence(
        keys, np.zeros(1, np.int64), nothing, ptr, np.asarray(feature, np.int32), value
    )


# -- files in memory -------------------------------------------------------------------------------

# Encoded data may lie in temporary files that are mapped into memory: the system may take their
# pages back when memory is short, and read them again.  The files have no name, or lose it when
# they are closed: nothing is left of them when the last array is gone.

Array = NDArray[Any]
Arrays = TypeVar("Arrays")  # a NamedTuple of arrays

LEAST = 1 << 16  # bytes of an array that is worth a file


class Folder:
    """A folder for temporary files."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        if not self.path.is_dir():
            raise OptionError(
                f"memory_map: {path}: no such folder; name one on a disk with enough space"
            )

    def mapped(self, arrays: Arrays) -> Arrays:
        """The same arrays, the large ones in files."""
        return type(arrays)(*map(self._mapped, arrays))  # type: ignore[call-overload]

    def _mapped(self, array: Array) -> Array:
        if array.nbytes < LEAST or folder_of(array) is not None:
            return array
        try:
            with tempfile.TemporaryFile(prefix="labelwright-", dir=self.path) as file:
                array.tofile(file)
                file.flush()
                mapping = _Mapping(file.fileno(), array.nbytes)
        except OSError as error:
            raise OptionError(
                f"memory_map: {self.path}: {(error.strerror or str(error)).lower()}"
            ) from None
        mapping.folder = self
        return np.frombuffer(mapping, array.dtype).reshape(array.shape)


class _Mapping(mmap.mmap):
    folder: Folder


def folder_of(array: Any) -> Folder | None:
    """Where the file is that an array lies in; None for arrays in memory."""
    while array is not None and not isinstance(array, _Mapping):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return None if array is None else array.folder
