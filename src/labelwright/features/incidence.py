"""Which features each token has, as integer arrays, and the transpose of that for gradients."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.features.mapped import folder_of
from labelwright.kernels import tables

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.floating]

NO_VALUES = np.empty(0, np.float32)


class Incidence(NamedTuple):
    """The features of tokens on states, on pairs or on triples.

    Templates that read the same few values share a *key* (a word type, a tag trigram): the key has the features, the
    token has the key.  Features too varied to share belong to the token itself.
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
    """The same features without the keys that fewer than `least` tokens have, whose features move to the tokens, with
    this value: where rows of scores are wide, a row for every key costs more than it saves."""
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
    tables.move_features(keys, number, key_ptr, key_feature, *on_tokens, new_keys, ptr, feature, value)
    key_feature = key_feature[np.repeat(kept, n_features)]
    key_ptr = offsets_from(n_features[kept])
    return Incidence(new_keys, key_ptr, key_feature, ptr, feature, value)


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
    """Transposes pieces of an incidence, one after the other; memory for all items is allocated once."""

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


def tokens_of_keys(incidence: Incidence, transposer: Transposer, begin: int, end: int) -> Transposed:
    """The tokens begin..end of each key, counted from `begin`; in a file where the incidence is in one."""
    keys = incidence.keys[begin:end]
    present = keys >= 0
    tokens = transposer.transpose(offsets_from(present.sum(axis=1)), keys[present])
    folder = folder_of(incidence.keys)
    return tokens if folder is None else folder.mapped(tokens)


def _distinct(ptr: Longs, owners: Ints, item_ptr: Longs, items: Ints, n_codes: int) -> tuple[Longs, Ints]:
    """For each k, the sorted distinct items of all its owners, as a sparse row."""
    out_ptr = np.zeros(len(ptr), np.int64)
    sizes = np.diff(item_ptr)
    parts = range(0, len(owners), 1 << 20)  # all at once would take eight bytes for each owner
    out = np.empty(sum(int(sizes[owners[k : k + (1 << 20)]].sum()) for k in parts), np.int32)
    n = tables.distinct_items(ptr, owners, item_ptr, items, n_codes, out_ptr, out)
    return out_ptr, out[:n].copy()


def observed_cells(incidence: Incidence, n_features: int, gold: Ints, n_codes: int) -> tuple[Longs, Ints]:
    """Per feature the sorted gold codes (labels, pairs, triples) it is seen with; negative codes do not count."""
    each = np.arange(len(gold) + 1, dtype=np.int64)
    n_groups = incidence.keys.shape[1]
    key_codes = _distinct(
        *invert(each * n_groups, incidence.keys.reshape(-1), incidence.n_keys)[:2], each, gold, n_codes
    )
    through_keys = _distinct(*invert(incidence.key_ptr, incidence.key_feature, n_features)[:2], *key_codes, n_codes)
    on_tokens = _distinct(*invert(incidence.token_ptr, incidence.token_feature, n_features)[:2], each, gold, n_codes)
    # A feature may occur both ways: its two lists are the items of two owners, 2f and 2f + 1.
    pairs = np.arange(0, 2 * n_features + 1, 2, dtype=np.int64)
    owners = np.arange(2 * n_features, dtype=np.int32).reshape(2, -1).T.reshape(-1)
    item_ptr = np.concatenate([through_keys[0], through_keys[0][-1] + on_tokens[0][1:]])
    return _distinct(pairs, owners.copy(), item_ptr, np.concatenate([through_keys[1], on_tokens[1]]), n_codes)
