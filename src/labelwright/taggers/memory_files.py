"""Memory-based models as tensors and a header, and back; what the search needs is stored as it is."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError
from labelwright.kernels.neighbours import Distances, Groups, Trie
from labelwright.memory.igtree import IGTree
from labelwright.memory.instances import Instances
from labelwright.memory.store import Memory
from labelwright.memory.trie import Grouped
from labelwright.memory.windows import restored
from labelwright.modelfile import pack_strings, unpack_strings
from labelwright.taggers.memory import MemoryBased, MemoryTagger

Array = NDArray[Any]
Tensors = dict[str, Array]
PLAIN = str | int | float | bool
PARTS: dict[str, Any] = {"distances": Distances, "grouped": Grouped, "groups": Groups, "trie": Trie}  # of a Memory


def packed(model: MemoryBased | MemoryTagger) -> tuple[Tensors, dict[str, Any]]:
    """The tensors of a model, and what its header says beside what all headers say."""
    learner = model.learner_ if isinstance(model, MemoryTagger) else model
    tensors: Tensors = {"targets": learner.targets_, "codes": learner.data_.codes, "weights": learner.feature_weights_}
    for i, values in enumerate(learner.data_.values):
        tensors[f"values{i}.text"], tensors[f"values{i}.offsets"] = pack_strings([_text(value) for value in values])
    tensors["seen.text"], tensors["seen.offsets"] = pack_strings([_text(label) for label in learner.seen_])
    index = learner.index_
    if isinstance(index, IGTree):
        tensors |= {f"tree.{name}": array for name, array in index._asdict().items()}
    else:
        tensors["order"] = index.order
        for part in PARTS:
            tensors |= {f"{part}.{name}": array for name, array in getattr(index, part)._asdict().items()}
        tensors |= {f"column{i}.code_of": code_of for i, code_of in enumerate(index.code_of)}
    header: dict[str, Any] = {"columns": len(learner.data_.values), "names": learner.names_}
    if isinstance(model, MemoryTagger):
        tensors["grams"] = model.grams_
        tensors["labels.text"], tensors["labels.offsets"] = pack_strings(model.labels_)
        header |= {"windows": model.windows_.header(), "scheme": model.scheme_, "mark": model.mark_}
    return tensors, header


def restore(model: MemoryBased | MemoryTagger, tensors: Tensors, header: dict[str, Any]) -> None:
    """Give an untrained model what `packed` took from a trained one."""
    learner = model
    if isinstance(model, MemoryTagger):
        learner = model.learner_ = model._learner()
        model.grams_, model.labels_ = tensors["grams"], _strings(tensors, "labels")
        model.windows_ = restored(header["windows"])
        model.scheme_, model.mark_ = header["scheme"], header["mark"]
    assert isinstance(learner, MemoryBased)
    read: dict[str, Any] = {}  # a value that several columns have is one object
    values = tuple(
        [read[text] if text in read else read.setdefault(text, json.loads(text)) for text in _strings(tensors, name)]
        for name in (f"values{i}" for i in range(header["columns"]))
    )
    learner.data_ = Instances(values, tensors["codes"])
    learner.targets_, learner.feature_weights_ = tensors["targets"], tensors["weights"]
    learner.n_features_in_, learner.names_ = len(values), header.get("names")
    learner._name_classes([json.loads(text) for text in _strings(tensors, "seen")])
    if "tree.code" in tensors:
        learner.index_ = IGTree(**{name: tensors[f"tree.{name}"] for name in IGTree._fields})
        return
    parts = (kind(**{name: tensors[f"{part}.{name}"] for name in kind._fields}) for part, kind in PARTS.items())
    code_of = [tensors[f"column{i}.code_of"] for i in range(len(values))]
    learner.index_ = Memory(tensors["order"], code_of, *parts)


def _text(value: Any) -> str:
    """A value as JSON, which keeps strings and numbers apart."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, PLAIN):
        raise ModelFileError(
            f"the model holds a value of type {type(value).__name__}, and a file only strings and numbers; pickle it"
        )
    return json.dumps(value)


def _strings(tensors: Tensors, name: str) -> list[str]:
    return unpack_strings(tensors[f"{name}.text"], tensors[f"{name}.offsets"])
