"""Which features each token has, as integer arrays, and the same turned around for gradients."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.kernels import tables

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.floating]

NO_VALUES = np.empty(0, np.float32)


class Incidence(NamedTuple):
    """Features of the tokens of one layer.

    Templates that read the same few values share a *key* (a word type, a tag trigram): the key has the features, the
    token has the key.  What is too varied to share hangs on the token itself.
    """

    keys: Ints  # [T, G]  key of each token in each group (-1 behind, where it has fewer)
    key_ptr: Longs  # [K+1]
    key_feature: Ints  # features of key k: key_feature[key_ptr[k]:key_ptr[k+1]]
    token_ptr: Longs  # [T+1]
    token_feature: Ints  # features of token t itself
    token_value: Floats  # their values; empty when all are one

    @property
    def n_keys(self) -> int:
        return len(self.key_ptr) - 1


def with_frequent_keys(incidence: Incidence, least: int) -> Incidence:
    """The same features, those of keys that fewer than `least` tokens have on the tokens themselves: where rows of
    scores are wide, a row for every key costs more than it saves."""
    keys, key_ptr, key_feature, token_ptr, token_feature, token_value = incidence
    n_features = np.diff(key_ptr)
    kept = (np.bincount(keys.reshape(-1), minlength=incidence.n_keys) >= least) & (n_features > 0)
    number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    moved = np.where(kept, 0, n_features)
    ptr = np.concatenate([[0], np.cumsum(moved[keys].sum(axis=1) + np.diff(token_ptr))]).astype(np.int64)
    feature = np.empty(int(ptr[-1]), np.int32)
    value = np.ones(len(feature) if len(token_value) else 0, token_value.dtype)
    new_keys = np.full_like(keys, -1)
    own = token_ptr, token_feature, token_value
    tables.move_features(keys, number, key_ptr, key_feature, *own, new_keys, ptr, feature, value)
    key_feature = key_feature[np.repeat(kept, n_features)]
    key_ptr = np.concatenate([[0], np.cumsum(n_features[kept])]).astype(np.int64)
    return Incidence(new_keys, key_ptr, key_feature, ptr, feature, value)


class Turned(NamedTuple):
    """An incidence seen from the other end: owners (tokens or keys) of each item that occurs."""

    item: Ints  # [n]    keys or features
    ptr: Longs  # [n+1]
    owner: Ints  # owners of item[i]: owner[ptr[i]:ptr[i+1]]
    value: Floats  # empty when all are one


def invert(ptr: Longs, items: Ints, n_items: int) -> tuple[Longs, Ints, Ints]:
    """Owner -> items turned into item -> owners, for all n_items; also where each incidence stood."""
    starts = np.zeros(n_items + 1, np.int64)
    owners = np.empty(len(items), np.int32)
    places = np.empty(len(items), np.int32)
    tables.invert(ptr, items, starts, owners, places)
    return starts, owners, places


class Turner:
    """Turns pieces of an incidence around, one after the other; memory for all items is taken only once."""

    def __init__(self, n_items: int):
        self._slot_of = np.empty(n_items, np.int32)
        self._stamp = np.full(n_items, -1, np.int32)
        self._turns = 0

    def turn(self, ptr: Longs, items: Ints, value: Floats = NO_VALUES) -> Turned:
        """Owner -> items turned around, keeping only items that occur."""
        found = np.empty(min(len(items), len(self._stamp)), np.int32)
        n = tables.distinct(items, self._stamp, self._turns, found)
        self._turns += 1
        item = np.sort(found[:n])
        starts = np.zeros(n + 1, np.int64)
        owners, places = np.empty(len(items), np.int32), np.empty(len(items), np.int32)
        tables.turn_part(ptr, items, self._slot_of, item, starts, owners, places)
        return Turned(item, starts, owners, value[places] if len(value) else value)


def tokens_of_keys(incidence: Incidence, turner: Turner, begin: int, end: int) -> Turned:
    """The tokens begin..end of each key, counted from `begin`."""
    keys = incidence.keys[begin:end]
    there = keys >= 0
    return turner.turn(np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int64), keys[there])


def keys_of_features(incidence: Incidence, turner: Turner) -> Turned:
    """The keys that have each feature."""
    return turner.turn(incidence.key_ptr, incidence.key_feature)


def tokens_of_features(incidence: Incidence, turner: Turner, begin: int, end: int) -> Turned:
    """The tokens begin..end that have each feature themselves, counted from `begin`."""
    ptr = incidence.token_ptr[begin : end + 1]
    items = slice(ptr[0], ptr[-1])
    value = incidence.token_value[items] if len(incidence.token_value) else incidence.token_value
    return turner.turn(ptr - ptr[0], incidence.token_feature[items], value)


def _distinct(ptr: Longs, owners: Ints, item_ptr: Longs, items: Ints, n_codes: int) -> tuple[Longs, Ints]:
    """For each k, the sorted distinct items of all its owners, as a sparse row."""
    out_ptr = np.zeros(len(ptr), np.int64)
    out = np.empty(int((item_ptr[owners + 1] - item_ptr[owners]).sum()), np.int32)
    n = tables.distinct_items(ptr, owners, item_ptr, items, n_codes, out_ptr, out)
    return out_ptr, out[:n].copy()


def observed_cells(incidence: Incidence, n_features: int, gold: Ints, n_codes: int) -> tuple[Longs, Ints]:
    """Per feature the sorted gold codes (labels, pairs, triples) it is seen with; negative codes do not count."""
    each = np.arange(len(gold) + 1, dtype=np.int64)
    n_groups = incidence.keys.shape[1]
    key_ptr, key_token, _ = invert(each * n_groups, incidence.keys.reshape(-1), incidence.n_keys)
    key_codes = _distinct(key_ptr, key_token, each, gold, n_codes)
    ptr, keys, _ = invert(incidence.key_ptr, incidence.key_feature, n_features)
    through_keys = _distinct(ptr, keys, *key_codes, n_codes)
    ptr, tokens, _ = invert(incidence.token_ptr, incidence.token_feature, n_features)
    own = _distinct(ptr, tokens, each, gold, n_codes)
    # A feature may be met both ways: its two lists are the items of two owners, 2f and 2f + 1.
    pairs = np.arange(0, 2 * n_features + 1, 2, dtype=np.int64)
    owners = np.arange(2 * n_features, dtype=np.int32).reshape(2, -1).T.reshape(-1)
    item_ptr = np.concatenate([through_keys[0], through_keys[0][-1] + own[0][1:]])
    return _distinct(pairs, owners.copy(), item_ptr, np.concatenate([through_keys[1], own[1]]), n_codes)
