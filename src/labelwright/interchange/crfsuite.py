"""CRFsuite's binary models, little-endian on every machine.

    "lCRF"  size  "FOMC"  100  features  labels  attributes    48 bytes; the number of features is 0
                                                               as a rule
    offsets of FEAT, the labels, the attributes, LFRF and AFRF
    "FEAT"  size  n   n x (kind, source, target, weight)       kind 0: attribute and label,
                                                               kind 1: label and label
    "CQDB"  ...                                                the labels
    "CQDB"  ...                                                the attributes
    "LFRF"  size  n   n x offset   (n, features) for each      the features of each label; two more
                                                               offsets are 0
    "AFRF"  size  n   n x offset   (n, features) for each      the features of each attribute

Offsets count from the beginning of the file, but those within a CQDB from its own.  LFRF and AFRF
begin at a multiple of 4.  A CQDB is a table of strings with numbers, found by hash or by number:

    "CQDB"  size  flag  byte order  n  offset of the array   24 bytes
    256 x (offset, slots) of the hash tables                 2,048 bytes
    n x (number, length, UTF-8, NUL)                         the strings; the length counts the NUL
    256 x slots x (hash, offset of the string)               two slots for each string; 0: empty
    n x offset of the string                                 by number

Hashes are those of Bob Jenkins' lookup3 over the bytes and the NUL; the last 8 bits choose a table,
the others a slot, and collisions take the next free slot.  Reading goes by the last array alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.labels import unwritable_label
from labelwright.corpus.offsets import offsets_from
from labelwright.errors import ModelFileError
from labelwright.interchange.chains import ChainModel, check_pairs
from labelwright.modelfile import LARGEST_WEIGHT

Array = NDArray[Any]
Words = NDArray[np.uint32]

MAGIC, TYPE, VERSION = b"lCRF", b"FOMC", 100
HEADER, CHUNK_HEADER = 48, 12
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
STATE, TRANSITION = 0, 1
# references of labels that CRFsuite once had for the edges of a sentence, and leaves empty
BEYOND_LABELS = 2
MOST_BYTES = (1 << 32) - 1
BYTE_ORDER = 0x62445371
N_TABLES = 256
FIRST_STRING = 24 + 8 * N_TABLES
BLOCK = 12  # bytes that the hash takes at a time
MIXING = 4, 6, 8, 16, 19, 4  # rotations of lookup3 after each block but the last,
FINAL = 14, 11, 25, 16, 4, 14, 24  # and after the last


class Chunk(NamedTuple):
    """The bytes of a file, or of one chunk of it, its name and size among them.  Every place is
    checked before it is read."""

    data: bytes
    name: str  # for error messages
    source: str

    def damage(self, what: str) -> ModelFileError:
        return ModelFileError(
            f"{self.source}: {self.name}: {what}; the file is damaged, copy or train it again"
        )

    def words(self, offset: int, n: int, what: str) -> Array:
        """n numbers of 32 bits at this offset."""
        return self.records(offset, n, np.dtype("<u4"), what)

    def records(self, offset: int, n: int, dtype: np.dtype[Any], what: str) -> Array:
        """n records of this type at this offset."""
        if not 0 <= offset <= len(self.data) or n > (len(self.data) - offset) // dtype.itemsize:
            raise self.damage(f"{what} ends behind the end")
        return np.frombuffer(self.data, dtype, n, offset)

    def chunk(self, offset: int, magic: bytes, name: str) -> "Chunk":
        """The chunk at this offset of a file, which must begin with these bytes."""
        rest = self._replace(name=name)
        size = int(rest.words(offset, 2, "chunk")[1])
        if self.data[offset : offset + 4] != magic:
            raise rest.damage(f"begins with {self.data[offset : offset + 4]!r}, expected {magic!r}")
        if not 8 <= size <= len(self.data) - offset:
            raise rest.damage(f"{size:,} bytes, but the file has {len(self.data) - offset:,} there")
        return rest._replace(data=self.data[offset : offset + size])


class _Header(NamedTuple):
    n_features: int
    n_labels: int
    n_attributes: int
    features: int  # offsets
    labels: int
    attributes: int
    of_labels: int
    of_attributes: int


# -- reading ---------------------------------------------------------------------------------------


def read(data: bytes, source: str) -> ChainModel:
    """The model in the bytes of a file; `source` names it in errors.  Nothing in the file is
    trusted."""
    header = _read_header(data, source)
    file = Chunk(data, "file", source)
    check_pairs(header.n_labels, source, len(data))
    labels = read_strings(file, header.labels, header.n_labels, "label")
    attributes = read_strings(file, header.attributes, header.n_attributes, "attribute")
    if not labels:
        raise ModelFileError(f"{source}: a CRFsuite model without labels; train it again")
    reason = unwritable_label(labels)
    if reason is not None:
        raise ModelFileError(f"{source}: {reason}; rename it and train it again")
    features = _read_features(file, header)
    of_labels = file.chunk(header.of_labels, b"LFRF", "features of labels")
    of_attributes = file.chunk(header.of_attributes, b"AFRF", "features of attributes")
    _check_references(of_labels, header.of_labels, len(labels), features, TRANSITION)
    _check_references(of_attributes, header.of_attributes, len(attributes), features, STATE)
    # in the byte order of this machine
    types = {"source": np.int32, "target": np.int32, "weight": np.float64}
    parts = (features[features["kind"] == kind] for kind in (STATE, TRANSITION))
    return ChainModel(
        labels, attributes, *(part[name].astype(types[name]) for part in parts for name in types)
    )


def _read_header(data: bytes, source: str) -> _Header:
    if len(data) < HEADER:
        raise ModelFileError(
            f"{source}: the file was cut short after {len(data)} bytes; copy or train it again"
        )
    if data[:4] != MAGIC or data[8:12] != TYPE:
        raise ModelFileError(
            f"{source}: begins with {data[:12]!r}, expected a first-order CRFsuite model"
        )
    size, _, version, *numbers = np.frombuffer(data, "<u4", 11, 4).tolist()
    if version != VERSION:
        raise ModelFileError(
            f"{source}: a CRFsuite model of version {version}, expected {VERSION}; train it again"
        )
    if size > len(data):
        raise ModelFileError(
            f"{source}: the file was cut short after {len(data):,} of {size:,} bytes; copy or "
            "train it again"
        )
    return _Header(*numbers)


def _read_features(file: Chunk, header: _Header) -> Array:
    """The features, each one once, with a label or an attribute that exists and a finite weight."""
    chunk = file.chunk(header.features, b"FEAT", "features")
    n = int(chunk.words(8, 1, "header")[0])
    if header.n_features not in (0, n):
        raise chunk.damage(f"holds {n:,} features, but the file has {header.n_features:,}")
    features = chunk.records(CHUNK_HEADER, n, FEATURE, "list of features")
    kind, source, target = (features[name] for name in ("kind", "source", "target"))
    if kind.max(initial=0) > TRANSITION:
        raise chunk.damage("a feature is neither of an attribute nor a transition")
    n_sources = np.array([header.n_attributes, header.n_labels])[kind]
    if (source >= n_sources).any() or (target >= header.n_labels).any():
        raise chunk.damage("a feature names an attribute or a label that does not exist")
    if not (np.abs(features["weight"]) <= LARGEST_WEIGHT).all():
        raise chunk.damage(
            f"a weight is not a number between -{LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}"
        )
    key = (kind.astype(np.int64) * (1 << 31) + source) * header.n_labels + target
    if (key[1:] <= key[:-1]).any() and len(np.unique(key)) < n:
        raise chunk.damage("a feature occurs twice")
    return features


def _check_references(chunk: Chunk, begin: int, n_owners: int, features: Array, kind: int) -> None:
    """The lists of features that labels or attributes have must hold just the features of this
    kind, each one once with its own label or attribute: then the features alone are the model."""
    n = int(chunk.words(8, 1, "header")[0])
    if n < n_owners:
        raise chunk.damage(f"holds {n:,} lists, expected {n_owners:,}")
    offset = chunk.words(CHUNK_HEADER, n, "list of offsets")[:n_owners].astype(np.int64) - begin
    words = chunk.words(0, len(chunk.data) // 4, "chunk")
    if (offset % 4 != 0).any() or (offset < 0).any() or (offset // 4 >= len(words)).any():
        raise chunk.damage("a list begins outside it")
    length = words[offset // 4].astype(np.int64)
    expected = int((features["kind"] == kind).sum())
    if length.sum() != expected or (offset // 4 + 1 + length > len(words)).any():
        raise chunk.damage(f"lists {int(length.sum()):,} features, expected {expected:,}")
    at = np.arange(expected) + np.repeat(offset // 4 + 1 - offsets_from(length)[:-1], length)
    feature = words[at]
    if feature.max(initial=0) >= max(1, len(features)):
        raise chunk.damage("lists a feature that does not exist")
    owner = np.repeat(np.arange(n_owners), length)
    if (features["kind"][feature] != kind).any() or (features["source"][feature] != owner).any():
        raise chunk.damage("lists a feature that belongs elsewhere")
    if np.bincount(feature, minlength=1).max() > 1:
        raise chunk.damage("lists a feature twice")


def read_strings(file: Chunk, offset: int, n: int, what: str) -> list[str]:
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
    if begin.min() < FIRST_STRING or begin.max() + 8 > len(table.data):
        raise table.damage("a string lies outside it")
    octets = np.frombuffer(table.data, np.uint8)
    number, length = octets[begin[:, None] + np.arange(8)].view("<u4").astype(np.int64).T
    if (number != np.arange(n)).any():
        raise table.damage("a string has another number than its place")
    if length.min() < 1 or (begin + 8 + length).max() > len(table.data):
        raise table.damage("a string lies outside it")
    if int(length.sum()) > len(table.data):  # each within the table, but all over each other
        raise table.damage("strings overlap")
    if octets[begin + 7 + length].any():
        raise table.damage("a string does not end with NUL")
    at = np.arange(int(length.sum())) + np.repeat(begin + 8 - offsets_from(length)[:-1], length)
    try:
        strings = octets[at[:-1]].tobytes().decode().split("\0")
    except UnicodeDecodeError:
        raise table.damage(f"a {what} is not UTF-8") from None
    if len(strings) != n:
        raise table.damage(f"a {what} has a NUL character within it")
    if len(set(strings)) != n:
        raise table.damage(f"a {what} occurs twice")
    return strings


# -- writing ---------------------------------------------------------------------------------------


def write(model: ChainModel) -> bytes:
    """The bytes of a file that CRFsuite reads.  As CRFsuite itself does, it leaves out weights that
    are 0, and then attributes without weights; features are sorted, so equal models are equal
    files."""
    model = model.tidied()
    n_states, n_labels, n_attributes = len(model.weight), len(model.labels), len(model.attributes)
    features = np.empty(n_states + len(model.transition), FEATURE)
    features["kind"] = np.arange(len(features)) >= n_states
    features["source"] = np.concatenate([model.attribute, model.source])
    features["target"] = np.concatenate([model.label, model.target])
    features["weight"] = np.concatenate([model.weight, model.transition])
    content = b"FEAT" + _words(CHUNK_HEADER + features.nbytes, len(features)) + features.tobytes()
    offsets = [HEADER]
    for strings, what in ((model.labels, "label"), (model.attributes, "attribute")):
        offsets.append(HEADER + len(content))
        content += write_strings(strings, what)
    transitions, states = (
        np.bincount(model.source, minlength=n_labels),
        np.bincount(model.attribute),
    )
    for magic, lengths, first, more in (
        (b"LFRF", transitions, n_states, BEYOND_LABELS),
        (b"AFRF", states, 0, 0),
    ):
        content += bytes(-len(content) % 4)
        offsets.append(HEADER + len(content))
        content += _references(magic, offsets[-1], lengths, first, more)
    size = HEADER + len(content)
    if size > MOST_BYTES:
        raise ModelFileError(
            f"{size:,} bytes, more than the 4 GiB that a CRFsuite model can have; use a larger l1"
        )
    return (
        MAGIC + _words(size) + TYPE + _words(VERSION, 0, n_labels, n_attributes, *offsets) + content
    )


def _words(*numbers: int) -> bytes:
    return np.array(numbers, np.int64).astype("<u4").tobytes()


def _references(magic: bytes, begin: int, length: Array, first: int, more: int) -> bytes:
    """A chunk at `begin` with a list of features for each owner, of these lengths [n] and numbered
    from `first`; and `more` offsets that are 0."""
    n, n_features = len(length), int(length.sum())
    at = np.arange(n) + offsets_from(length)[:-1]  # where the lists begin
    lists = np.insert(np.arange(first, first + n_features), offsets_from(length)[:-1], length)
    start = CHUNK_HEADER + 4 * (n + more)
    offsets = np.concatenate([begin + start + 4 * at, np.zeros(more, np.int64)])
    size = start + 4 * len(lists)
    return magic + _words(size, n + more) + np.concatenate([offsets, lists]).astype("<u4").tobytes()


def write_strings(strings: Sequence[str], what: str) -> bytes:
    """The table of these strings; errors call one `what`."""
    n, joined = len(strings), "\0".join([*strings, ""])
    if joined.count("\0") > n:
        string = next(string for string in strings if "\0" in string)
        raise ModelFileError(
            f"the {what} {string!a:.60} has a NUL character, which ends a string in CRFsuite's "
            "files"
        )
    try:
        text = np.frombuffer(joined.encode(), np.uint8)
    except UnicodeEncodeError as error:
        string = joined[: error.end].split("\0")[-1]
        raise ModelFileError(
            f"the {what} {string!a:.60} is no valid Unicode, and cannot be written"
        ) from None
    length = np.diff(np.flatnonzero(text == 0), prepend=-1)
    # [n, 8]  number and length
    heads = np.stack([np.arange(n), length], axis=1).astype("<u4").view(np.uint8)
    records = np.insert(text, np.repeat(offsets_from(length)[:-1], 8), heads.reshape(-1))
    begin = FIRST_STRING + offsets_from(length + 8)
    n_slots, slots = _hash_tables(hashes(text, length), begin[:-1])
    after = int(begin[-1])
    tables = np.stack(
        [np.where(n_slots > 0, after + 8 * offsets_from(n_slots)[:-1], 0), n_slots], axis=1
    )
    array_at = after + 4 * slots.size if n else 0
    header = _words(after + 4 * slots.size + 4 * n, 0, BYTE_ORDER, n, array_at)
    before, *behind = (numbers.astype("<u4").tobytes() for numbers in (tables, slots, begin[:-1]))
    return b"".join([b"CQDB", header, before, records.tobytes(), *behind])


def _hash_tables(values: Words, begin: Array) -> tuple[Array, Array]:
    """The number of slots of each table [256], and all slots [2n, 2]: each string has the first
    free one from its hash on, in a circle within the table, one string after the other."""
    table = (values % N_TABLES).astype(np.int64)
    n_slots = 2 * np.bincount(table, minlength=N_TABLES)
    first = offsets_from(n_slots)
    home = first[table] + (values >> np.uint32(8)) % n_slots[table]
    first_slot, taken, place = first.tolist(), bytearray(int(first[-1])), []
    for slot, t in zip(home.tolist(), table.tolist(), strict=True):
        while taken[slot]:
            slot = slot + 1 if slot + 1 < first_slot[t + 1] else first_slot[t]
        taken[slot] = 1
        place.append(slot)
    slots = np.zeros((2 * len(values), 2), np.int64)
    slots[place, 0], slots[place, 1] = values, begin
    return n_slots, slots


def hashes(text: Array, length: Array) -> Words:
    """The hash of every string [n]; `text` holds their bytes one after the other, `length` [n]
    counts them.

    a, b, c begin as a constant plus the length.  Each block of 12 bytes is added to them as three
    words, and then they are mixed; the last block is padded with zeros, and mixed in its own way.
    """
    n_blocks = -(-length // BLOCK)
    padded = np.zeros(int(n_blocks.sum()) * BLOCK, np.uint8)
    runs = np.stack([length, n_blocks * BLOCK - length], axis=1).reshape(-1)
    padded[np.repeat(np.tile([True, False], len(length)), runs)] = text
    # [3, blocks]
    words = np.ascontiguousarray(padded.view("<u4").astype(np.uint32).reshape(-1, 3).T)
    order = np.argsort(-n_blocks, kind="stable")  # those with a further block come first
    # a, b, c [3, n]
    state = np.repeat((length.astype(np.uint32) + np.uint32(0xDEADBEEF))[order][None], 3, axis=0)
    at, n_left = offsets_from(n_blocks)[:-1][order], n_blocks[order]
    for k in range(int(n_blocks.max(initial=1)) - 1):
        n = int(np.searchsorted(-n_left, -(k + 1)))  # strings with more than k + 1 blocks
        x, z, y = state[:, :n] + words[:, at[:n] + k]
        for bits in MIXING:
            x, y, z = z, (x - y) ^ _rotated(y, bits), y + z
        state[:, :n] = x, z, y
    z, y, x = state + words[:, at + n_left - 1]
    for bits in FINAL:
        x, y, z = z, (x ^ y) - _rotated(y, bits), y
    values = np.empty(len(length), np.uint32)
    values[order] = y
    return values


def _rotated(x: Words, bits: int) -> Words:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
