"""Models with pruned labels as tensors and a header, and back: as taggers.packing, with sparse transitions.

state.ptr [F+1]  state.column  state.weights  pruning.weights   cells of features on a label, in both models
pruning.bias [L]                                                of labels, in the zero-order model
transitions.ptr [L+1]  transitions.label  transitions           pairs of labels by their first
space.start [L]  space.arc [L, L]  space.end [L]                only where a label scheme forbids some
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError
from labelwright.scoring.candidate_scores import PrunedParameters
from labelwright.scoring.parameters import Cells, Pruning, Trained
from labelwright.structures.candidates import SparseTransitions, label_space
from labelwright.structures.states import StateSpace
from labelwright.taggers.packing import (
    Packed,
    header_of,
    pack_labels,
    read_extractor,
    read_labels,
    read_scheme,
)
from labelwright.validation import LARGEST_WEIGHT, HeaderReader, TensorReader, check_rising_within

Array = NDArray[Any]


def pack_pruned(model: Any, trained: Trained) -> Packed:
    """The tensors and the header of a model with pruned labels."""
    parameters: Any = trained.parameters
    space, parts, pruning, sparse = trained.space, parameters.slices, trained.pruning, parameters.sparse
    assert pruning is not None
    labels, kind = pack_labels(space.labels)
    tensors: dict[str, Array] = dict(labels)
    tensors |= _state_cells(parameters.cells["state"], trained.weights[parts["state"]], pruning.weights)
    tensors["pruning.bias"] = pruning.bias
    tensors |= {"transitions.ptr": sparse.ptr, "transitions.label": sparse.second}
    tensors["transitions"] = trained.weights[parts["transitions"]]
    if not (space.arc.all() and space.start.all() and space.end.all()):
        tensors |= {"space.start": space.start, "space.arc": space.arc, "space.end": space.end}
    tensors |= {f"features.{name}": tensor for name, tensor in trained.extractor.tensors().items()}
    return tensors, header_of(model) | kind | {
        "scheme": trained.scheme,
        "extractor": trained.extractor.kind,
        "features": trained.extractor.header(),
        "layers": list(parameters.cells),
        "order": parameters.order,
        "pruning": {"cutoff": pruning.cutoff, "most": pruning.most, "share": pruning.share, "prior": pruning.prior},
    }


def _state_cells(cells: Cells, weights: Array, zero_order: Array) -> dict[str, Array]:
    """The cells that have a weight in one of the models."""
    used = (weights != 0) | (zero_order != 0)
    kept = np.concatenate([[0], np.cumsum(used)])
    both = {"state.weights": weights[used], "pruning.weights": zero_order[used]}
    return {"state.ptr": kept[cells.ptr], "state.column": cells.column[used], **both}


def read_pruned(tensors: TensorReader, header: HeaderReader) -> Trained:
    """What `pack_pruned` stored, after checking that everything fits together."""
    if header.whole("order", 1, 2) == 2:
        raise ModelFileError(f"{header.place}: pruned labels of order 2 are gone; train again with order=1")
    labels = read_labels(tensors, header)
    L = len(labels)
    extractor = read_extractor(tensors, header)
    if header.names("layers") != ["state"] or tuple(extractor.cell_kinds) != ("state",):
        raise header.refuse("layers", "state")
    column = tensors.indices("state.column", np.int32, L, None)
    ptr = tensors.pointers("state.ptr", extractor.n_features, len(column))
    check_rising_within(f"{tensors.prefix}state.column", column, ptr[:-1])
    sparse = _read_transitions(tensors, L)
    parts = ("state.weights", len(column)), ("transitions", len(sparse.second))
    weights = [tensors.weights(name, np.float32, size) for name, size in parts]
    fields = header.part("pruning")
    pruning = Pruning(
        tensors.weights("pruning.weights", np.float32, len(column)),
        tensors.weights("pruning.bias", np.float32, L),
        fields.number("cutoff", 0.0, LARGEST_WEIGHT),
        fields.whole("most", 1, L),
        fields.number("share", 0.0, 1.0),
        fields.number("prior", 0.0, LARGEST_WEIGHT) if "prior" in fields else 0.0,
    )
    parameters: Any = PrunedParameters({"state": Cells(ptr, column)}, L, sparse)
    space = _read_space(tensors, labels)
    return Trained(extractor, space, parameters, np.concatenate(weights), read_scheme(header), pruning=pruning)


def _read_transitions(tensors: TensorReader, L: int) -> SparseTransitions:
    """The pairs that have a weight."""
    second = tensors.indices("transitions.label", np.int32, L, None)
    ptr = tensors.pointers("transitions.ptr", L, len(second))
    check_rising_within(f"{tensors.prefix}transitions.label", second, ptr[:-1])
    return SparseTransitions(ptr, second)


def _read_space(tensors: TensorReader, labels: list[Any]) -> StateSpace:
    """The labels, and which transitions are allowed."""
    space, L = label_space(labels), len(labels)
    if "space.arc" not in tensors:
        return space
    start, end = (tensors.array(f"space.{name}", np.bool_, L) for name in ("start", "end"))
    if not start.any() or not end.any():
        raise ModelFileError(f"tensor {tensors.prefix}space.start: expected labels that may begin and end")
    return space._replace(start=start, end=end, arc=tensors.array("space.arc", np.bool_, L, L))
