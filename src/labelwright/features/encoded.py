"""What all extractors of features share: their protocol, and a corpus as features."""

import os
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.features.incidence import Floats, Incidence, Ints, Longs

Tensors = dict[str, np.ndarray]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A corpus as features of one model: encoded once, used often.  Its length is the number of sentences."""

    incidences: dict[str, Incidence]
    offsets: Longs  # [N+1]
    owner: str  # the mark of the vocabulary that made it

    def __len__(self) -> int:
        return len(self.offsets) - 1


def new_mark() -> str:
    """A name for one vocabulary, which copies and pickles of it keep."""
    return os.urandom(8).hex()


class Extractor(Protocol):
    """Learns its vocabulary from training data, then converts any data of that kind to features."""

    kind: ClassVar[str]
    mark: str

    @property
    def n_features(self) -> int: ...

    @property
    def cell_kinds(self) -> tuple[str, ...]: ...  # what features are attached to: states, pairs, triples, segments

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]: ...

    def name(self, feature: int) -> str: ...

    def tensors(self) -> Tensors: ...

    def header(self) -> dict[str, Any]: ...

    def merged(self, new: "Extractor") -> "Extractor": ...

    def numbers_in(self, merged: Any) -> Longs: ...

    # Without the features [F] that are not used, and which of them are left: some have no vocabulary to leave.
    def reduced(self, used: Bools) -> "tuple[Extractor, Bools]": ...


def other_kind(old: Extractor, new: Extractor) -> OptionError:
    return OptionError(f"X: the model was trained on {old.kind}, got {new.kind}; give the same kind, or fit again")


def on_tokens(token_ptr: Any, feature: Any, value: Floats) -> Incidence:
    """An incidence without keys: all features are those of the tokens themselves."""
    ptr = np.asarray(token_ptr, np.int64)
    nothing: Ints = np.empty(0, np.int32)
    keys: Ints = np.empty((len(ptr) - 1, 0), np.int32)
    return Incidence(keys, np.zeros(1, np.int64), nothing, ptr, np.asarray(feature, np.int32), value)
