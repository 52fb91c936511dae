"""CRFsuite's binary models, little-endian on every machine.

    "lCRF"  size  "FOMC"  100  features  labels  attributes       48 bytes; the number of features is 0 as a rule
    offsets of FEAT, the labels, the attributes, LFRF and AFRF
    "FEAT"  size  n   n x (kind, source, target, weight)          kind 0: attribute and label, kind 1: label and label
    "CQDB"  ...                                                   the labels
    "CQDB"  ...                                                   the attributes
    "LFRF"  size  n   n x offset   (n, features) for each         the features of each label; two more offsets are 0
    "AFRF"  size  n   n x offset   (n, features) for each         the features of each attribute

Offsets count from the beginning of the file, but those within a CQDB from its own (see labelwright.interchange.cqdb).
LFRF and AFRF begin at a multiple of 4.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.labels import unwritable_label
from labelwright.corpus.offsets import offsets_from
from labelwright.errors import ModelFileError
from labelwright.interchange.chains import ChainModel
from labelwright.interchange.chunks import Chunk, File, check_pairs
from labelwright.interchange.cqdb import read_strings, write_strings
from labelwright.validation import LARGEST_WEIGHT

Array = NDArray[Any]

MAGIC, TYPE, VERSION = b"lCRF", b"FOMC", 100
HEADER, CHUNK_HEADER = 48, 12
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
STATE, TRANSITION = 0, 1
BEYOND_LABELS = 2  # references of labels that CRFsuite once had for the edges of a sentence, and leaves empty
MOST_BYTES = (1 << 32) - 1


class _Header(NamedTuple):
    n_features: int
    n_labels: int
    n_attributes: int
    features: int  # offsets
    labels: int
    attributes: int
    of_labels: int
    of_attributes: int


# -- reading ----------------------------------------------------------------------------------------------------------


def read(data: bytes, source: str) -> ChainModel:
    """The model in the bytes of a file; `source` names it in errors.  Nothing in the file is trusted."""
    file, header = _opened(data, source)
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
    state, transition = (features[features["kind"] == kind] for kind in (STATE, TRANSITION))
    return ChainModel(labels, attributes, *_columns(state), *_columns(transition))


def _opened(data: bytes, source: str) -> tuple[File, _Header]:
    """The file and its header."""
    if len(data) < HEADER:
        raise ModelFileError(f"{source}: the file was cut short after {len(data)} bytes; copy or train it again")
    if data[:4] != MAGIC or data[8:12] != TYPE:
        raise ModelFileError(f"{source}: begins with {data[:12]!r}, expected a first-order CRFsuite model")
    size, _, version, *numbers = np.frombuffer(data, "<u4", 11, 4).tolist()
    if version != VERSION:
        raise ModelFileError(f"{source}: a CRFsuite model of version {version}, expected {VERSION}; train it again")
    if size > len(data):
        raise ModelFileError(
            f"{source}: the file was cut short after {len(data):,} of {size:,} bytes; copy or train it again"
        )
    return File(data, source), _Header(*numbers)


def _read_features(file: File, header: _Header) -> Array:
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
        raise chunk.damage(f"a weight is not a number between -{LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}")
    key = (kind.astype(np.int64) * (1 << 31) + source) * header.n_labels + target
    if (key[1:] <= key[:-1]).any() and len(np.unique(key)) < n:
        raise chunk.damage("a feature occurs twice")
    return features


def _check_references(chunk: Chunk, begin: int, n_owners: int, features: Array, kind: int) -> None:
    """The lists of features that labels or attributes have must hold just the features of this kind, each one once with
    its own label or attribute: then the features alone are the model."""
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


def _columns(features: Array) -> tuple[Array, Array, Array]:
    """Source, target and weight as arrays of their own, in the byte order of this machine."""
    return tuple(  # type: ignore[return-value]
        features[name].astype(dtype)
        for name, dtype in (("source", np.int32), ("target", np.int32), ("weight", np.float64))
    )


# -- writing ----------------------------------------------------------------------------------------------------------


def write(model: ChainModel) -> bytes:
    """The bytes of a file that CRFsuite reads.  As CRFsuite itself does, it leaves out weights that are 0, and then
    attributes without weights; features are sorted, so equal models are equal files."""
    model = model.without_zeros().sorted()
    state = _as_features(STATE, model.attribute, model.label, model.weight)
    transition = _as_features(TRANSITION, model.source, model.target, model.transition)
    features = np.concatenate([state, transition])
    n_labels, n_attributes = len(model.labels), len(model.attributes)
    parts = [b"", b"FEAT" + _words(CHUNK_HEADER + features.nbytes, len(features)) + features.tobytes()]
    offsets = [HEADER]
    for table in (write_strings(model.labels, "label"), write_strings(model.attributes, "attribute")):
        offsets.append(_end(offsets, parts))
        parts.append(table)
    for magic, kind, n, more in ((b"LFRF", TRANSITION, n_labels, BEYOND_LABELS), (b"AFRF", STATE, n_attributes, 0)):
        parts[-1] += bytes(-_end(offsets, parts) % 4)
        offsets.append(_end(offsets, parts))
        first = len(state) if kind == TRANSITION else 0
        owners = features["source"][features["kind"] == kind]
        parts.append(_references(magic, offsets[-1], np.bincount(owners, minlength=n), first, more))
    size = _end(offsets, parts)
    if size > MOST_BYTES:
        raise ModelFileError(f"{size:,} bytes, more than the 4 GiB that a CRFsuite model can have; use a larger l1")
    parts[0] = MAGIC + _words(size) + TYPE + _words(VERSION, 0, n_labels, n_attributes, *offsets)
    return b"".join(parts)


def _end(offsets: list[int], parts: list[bytes]) -> int:
    """Where the last part ends, which begins at the last offset."""
    return offsets[-1] + len(parts[-1])


def _words(*numbers: int) -> bytes:
    return np.array(numbers, np.int64).astype("<u4").tobytes()


def _as_features(kind: int, source: Array, target: Array, weight: Array) -> Array:
    """Features of one kind."""
    features = np.empty(len(weight), FEATURE)
    for name, values in zip(("kind", "source", "target", "weight"), (kind, source, target, weight), strict=True):
        features[name] = values
    return features


def _references(magic: bytes, begin: int, length: Array, first: int, more: int) -> bytes:
    """A chunk at `begin` with a list of features for each owner, which has so many [n], numbered on from `first`; and
    `more` offsets that are 0."""
    n, n_features = len(length), int(length.sum())
    at = np.arange(n) + offsets_from(length)[:-1]  # where the lists begin
    lists = np.empty(n + n_features, np.int64)
    is_feature = np.ones(len(lists), np.bool_)
    is_feature[at] = False
    lists[at], lists[is_feature] = length, np.arange(first, first + n_features)
    start = CHUNK_HEADER + 4 * (n + more)
    offsets = np.concatenate([begin + start + 4 * at, np.zeros(more, np.int64)])
    size = start + 4 * len(lists)
    return magic + _words(size, n + more) + np.concatenate([offsets, lists]).astype("<u4").tobytes()
