"""CQDB, the string table within CRFsuite's models: strings with numbers, found by hash or by number.

    "CQDB"  size  flag  byte order  n  offset of the array        24 bytes
    256 x (offset, slots) of the hash tables                      2,048 bytes
    n x (number, length, UTF-8, NUL)                              the strings; the length counts the NUL
    256 x slots x (hash, offset of the string)                    two slots for each string; 0 is an empty one
    n x offset of the string                                      by number

All numbers are 32 bits, little-endian; offsets count from the beginning of the table.  Hashes are those of Bob Jenkins'
lookup3 over the bytes and the NUL; the last 8 bits choose a table, the others a slot, and collisions take the next free
slot.  Reading goes by the last array alone.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.errors import ModelFileError
from labelwright.interchange.chunks import Chunk, File

Array = NDArray[Any]
Words = NDArray[np.uint32]

BYTE_ORDER = 0x62445371
N_TABLES = 256
HEADER = 24
FIRST_STRING = HEADER + 8 * N_TABLES
BLOCK = 12  # bytes that the hash takes at a time
MIXING = 4, 6, 8, 16, 19, 4  # rotations of lookup3 after each block but the last,
FINAL = 14, 11, 25, 16, 4, 14, 24  # and after the last


# -- reading ----------------------------------------------------------------------------------------------------------


def read_strings(file: File, offset: int, n: int, what: str) -> list[str]:
    """The n strings of the table at this offset, by number; errors call one `what`."""
    table = file.chunk(offset, b"CQDB", f"{what}s")
    _, order, stored, at = table.words(8, 4, "header").tolist()
    if order != BYTE_ORDER:
        raise table.damage(f"byte order {order:#x}, expected {BYTE_ORDER:#x}")
    if stored != n:
        raise table.damage(f"holds {stored:,} strings, but the file has {n:,} {what}s")
    if n == 0:
        return []
    begin = table.words(at, n, "array of offsets").astype(np.int64)
    number, length = _heads(table, begin)
    _check_strings(table, begin, number, length)
    at = np.arange(int(length.sum())) + np.repeat(begin + 8 - offsets_from(length)[:-1], length)
    try:
        strings = np.frombuffer(table.data, np.uint8)[at[:-1]].tobytes().decode().split("\0")
    except UnicodeDecodeError:
        raise table.damage(f"a {what} is not UTF-8") from None
    if len(strings) != n:
        raise table.damage(f"a {what} has a NUL character within it")
    if len(set(strings)) != n:
        raise table.damage(f"a {what} occurs twice")
    return strings


def _heads(table: Chunk, begin: Array) -> tuple[Array, Array]:
    """Number and length of the strings at these offsets [n]."""
    if begin.min() < FIRST_STRING or begin.max() + 8 > len(table.data):
        raise table.damage("a string lies outside it")
    octets = np.frombuffer(table.data, np.uint8)
    heads = np.ascontiguousarray(octets[begin[:, None] + np.arange(8)]).view("<u4").astype(np.int64)
    return heads[:, 0], heads[:, 1]


def _check_strings(table: Chunk, begin: Array, number: Array, length: Array) -> None:
    if (number != np.arange(len(number))).any():
        raise table.damage("a string has another number than its place")
    if length.min() < 1 or (begin + 8 + length).max() > len(table.data):
        raise table.damage("a string lies outside it")
    if int(length.sum()) > len(table.data):  # each within the table, but all over each other
        raise table.damage("strings overlap")
    if np.frombuffer(table.data, np.uint8)[begin + 7 + length].any():
        raise table.damage("a string does not end with NUL")


# -- writing ----------------------------------------------------------------------------------------------------------


def write_strings(strings: Sequence[str], what: str) -> bytes:
    """The table of these strings; errors call one `what`."""
    n, text = len(strings), _encoded(strings, what)
    length = np.diff(np.flatnonzero(text == 0), prepend=-1)
    begin = FIRST_STRING + offsets_from(length + 8)
    tables, slots = _hash_tables(hashes(text, length), begin[:-1])
    after = int(begin[-1])
    tables[:, 0] = np.where(tables[:, 1] > 0, after + 8 * offsets_from(tables[:, 1])[:-1], 0)
    array_at = after + 4 * slots.size if n else 0
    header = np.array([after + 4 * slots.size + 4 * n, 0, BYTE_ORDER, n, array_at], np.int64)
    parts = [header, tables, _records(text, length), slots, begin[:-1]]
    return b"CQDB" + b"".join(p.tobytes() if p.dtype == np.uint8 else p.astype("<u4").tobytes() for p in parts)


def _encoded(strings: Sequence[str], what: str) -> Array:
    """The strings as bytes, with a NUL after each."""
    joined = "\0".join([*strings, ""])
    if joined.count("\0") > len(strings):
        string = next(string for string in strings if "\0" in string)
        raise ModelFileError(f"the {what} {string!a:.60} has a NUL character, which ends a string in CRFsuite's files")
    try:
        return np.frombuffer(joined.encode(), np.uint8)
    except UnicodeEncodeError as error:
        string = joined[: error.end].split("\0")[-1]
        raise ModelFileError(f"the {what} {string!a:.60} is no valid Unicode, and cannot be written") from None


def _records(text: Array, length: Array) -> Array:
    """The strings, each after its number and its length, as bytes."""
    begin = offsets_from(length + 8)
    heads = np.stack([np.arange(len(length)), length], axis=1).astype("<u4").view(np.uint8)  # [n, 8]
    places = begin[:-1, None] + np.arange(8)
    records = np.empty(int(begin[-1]), np.uint8)
    is_text = np.ones(len(records), np.bool_)
    is_text[places] = False
    records[is_text] = text
    records[places] = heads
    return records


def _hash_tables(values: Words, begin: Array) -> tuple[Array, Array]:
    """What refers to the tables [256, 2], offsets still missing, and all their slots [2n, 2]."""
    table = (values % N_TABLES).astype(np.int64)
    n_slots = 2 * np.bincount(table, minlength=N_TABLES)
    first = offsets_from(n_slots)
    home = first[table] + (values >> np.uint32(8)) % n_slots[table]
    place = _free_slots(home.tolist(), table.tolist(), first.tolist())
    slots = np.zeros((2 * len(values), 2), np.int64)
    slots[place, 0], slots[place, 1] = values, begin
    return np.stack([np.zeros(N_TABLES, np.int64), n_slots], axis=1), slots


def _free_slots(home: list[int], table: list[int], first: list[int]) -> list[int]:
    """The first free slot from `home` on, in a circle within the table, for one string after the other."""
    taken = bytearray(first[-1])
    place = []
    for slot, t in zip(home, table, strict=True):
        while taken[slot]:
            slot += 1
            if slot == first[t + 1]:
                slot = first[t]
        taken[slot] = 1
        place.append(slot)
    return place


def hashes(text: Array, length: Array) -> Words:
    """The hash of every string [n]; `text` holds their bytes one after the other, `length` [n] counts them.

    a, b, c begin as a constant plus the length.  Each block of 12 bytes is added to them as three words, and then they
    are mixed; the last block is padded with zeros, and mixed in its own way.
    """
    n_blocks = -(-length // BLOCK)
    words = _blocks(text, length, n_blocks)
    first = offsets_from(n_blocks)[:-1]
    order = np.argsort(-n_blocks, kind="stable")  # those with a further block come first
    state = np.repeat((length.astype(np.uint32) + np.uint32(0xDEADBEEF))[order][None], 3, axis=0)  # a, b, c [3, n]
    at, n_left = first[order], n_blocks[order]
    for k in range(int(n_blocks.max(initial=1)) - 1):
        n = int(np.searchsorted(-n_left, -(k + 1)))  # strings with more than k + 1 blocks
        state[:, :n] = _mixed(state[:, :n] + words[:, at[:n] + k])
    last = _finished(state + words[:, at + n_left - 1])
    values = np.empty(len(length), np.uint32)
    values[order] = last
    return values


def _blocks(text: Array, length: Array, n_blocks: Array) -> Words:
    """All strings in blocks of three words [3, blocks], padded with zeros."""
    padded = np.zeros(int(n_blocks.sum()) * BLOCK, np.uint8)
    runs = np.stack([length, n_blocks * BLOCK - length], axis=1).reshape(-1)
    padded[np.repeat(np.tile([True, False], len(length)), runs)] = text
    return np.ascontiguousarray(padded.view("<u4").astype(np.uint32).reshape(-1, 3).T)


def _rotated(x: Words, bits: int) -> Words:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def _mixed(state: Words) -> Words:
    x, z, y = state
    for bits in MIXING:
        x, y, z = z, (x - y) ^ _rotated(y, bits), y + z
    return np.stack([x, z, y])


def _finished(state: Words) -> Words:
    x: Words
    y: Words
    z: Words
    z, y, x = state
    for bits in FINAL:
        x, y, z = z, (x ^ y) - _rotated(y, bits), y
    return y
