"""Models as tensors and a header, and back: what all kinds share, and linear taggers whole.

    labels, labels.first [L+1]                      the labels, and the states of each
    space.start [S]  space.arc [S, S]  space.end [S]   which states may begin, follow, end
    KIND.ptr [F+1]  KIND.column  KIND.weights       cells of features on a state, edge, triple (or segment)
    transitions [S * S]  triples [S * S * S]        weights of plain transitions; the latter of order 2
    features.*                                      what the extractor of features stores

Models with pruned labels have one state for each label, the tensors of the space only where a label scheme forbids some
transitions, weights of the zero-order model, and sparse transitions:

    pruning.weights  pruning.bias [L]               for the cells of features on a state; and of labels
    transitions.ptr [L+1]  transitions.label        pairs of labels by their first

Strings are stored as NAME.text (UTF-8) and NAME.offsets.  Weights that are exactly zero are left out.  Nothing that
`unpack` is given is trusted: see labelwright.validation.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.answers.calibrated import kinds_of
from labelwright.corpus.labels import READ_LABEL, label_type, text_of, unwritable_label
from labelwright.corpus.schemes import SCHEMES
from labelwright.errors import ModelFileError
from labelwright.features.builtin import BUILTIN
from labelwright.features.extract import EXTRACTORS, Extractor, read_template
from labelwright.features.segments import SegmentFeatures
from labelwright.modelfile import pack_strings, read_strings
from labelwright.scoring.candidate_scores import PrunedParameters
from labelwright.scoring.parameters import REACH, Cells, Parameters, Pruning, Trained
from labelwright.settings import settings_of
from labelwright.structures.candidates import SparseTransitions, label_space
from labelwright.structures.states import MAX_ARCS, StateSpace, assembled
from labelwright.taggers.stored_records import FITTED as FITTED
from labelwright.taggers.stored_records import REMEMBERED as REMEMBERED
from labelwright.taggers.stored_records import TIMED as TIMED
from labelwright.taggers.stored_records import read_record as read_record
from labelwright.validation import (
    LARGEST_WEIGHT,
    HeaderReader,
    TensorReader,
    check_distinct,
    check_pointers,
    check_rising_within,
    is_number,
)

Array = NDArray[Any]
Packed = tuple[dict[str, Array], dict[str, Any]]
PLAIN = ("transitions", "triples")  # plain transitions of order 1 and 2


# -- what all models share ----------------------------------------------------------------------------------------


def header_of(model: Any) -> dict[str, Any]:
    """What the header of every model file has: kind, version, signature, settings, and the record of training."""
    return {
        "kind": type(model).__name__,
        "labelwright": __version__,
        "signature": model._signature(),
        "parameters": {name: as_json(value) for name, value in stored_settings(model).items()},
        "training": getattr(model, "training_", {}),
        "history": getattr(model, "history_", []),
    }


def stored_settings(model: Any) -> dict[str, Any]:
    """The settings that a model file holds."""
    return storable(model.get_params(deep=False), type(model))


def storable(values: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Those of these values that are settings of a tagger which its file may hold: none that names a file to read."""
    settings = settings_of(kind)
    return {name: values[name] for name in values if name in settings and settings[name].kind.is_stored(values[name])}


def as_json(value: Any) -> Any:
    """A setting as JSON; templates and phrases of dictionaries are stored with the features."""
    if isinstance(value, Mapping):
        return {str(k): as_json(v) for k, v in value.items() if isinstance(v, Real)} or None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple) and value and all(isinstance(pair, list | tuple) for pair in value):
        return [[as_json(item) for item in pair] for pair in value]
    return value if isinstance(value, bool | int | float | str | None) else None


def constructed(kind: type[Any], header: HeaderReader, **given: Any) -> Any:
    """An untrained model with the settings of a header; those in `given` are taken as they are."""
    fields = header.part("parameters")
    model = kind(**settings_in(fields, kind) | given)
    check_run(fields)
    model._check_parameters()
    return model


def settings_in(fields: HeaderReader, kind: type[Any]) -> dict[str, Any]:
    """The settings of a header; files of earlier versions name files and say how many threads run, too."""
    return storable(fields, kind)


def check_run(fields: HeaderReader) -> None:
    """Settings of a run that models do not check before they need them."""
    if fields.get("random_state") is not None:
        fields.whole("random_state")
    if fields.get("template") is not None:
        fields.text("template")


def read_scheme(header: HeaderReader) -> str | None:
    """The label scheme, or None."""
    scheme: str | None = header.one_of("scheme", (None, *SCHEMES))
    return scheme


def pack_labels(labels: Sequence[Any]) -> Packed:
    """Labels as text, and the header field that says what they are where they are no strings."""
    text, offsets = pack_strings(text_of(labels))
    kind = label_type(labels)
    return {"labels.text": text, "labels.offsets": offsets}, {} if kind == "str" else {"label_type": kind}


def read_labels(tensors: TensorReader, header: HeaderReader) -> list[Any]:
    """Labels: one at least, none twice."""
    labels: list[Any] = read_strings(tensors, "labels")
    if not labels:
        raise ModelFileError(f"tensor {tensors.prefix}labels: expected one label or more")
    if "label_type" in header:
        kind = header.one_of("label_type", tuple(READ_LABEL))
        try:
            labels = [READ_LABEL[kind](label) for label in labels]
        except ValueError as error:
            raise ModelFileError(f"tensor {tensors.prefix}labels: {error}") from None
    check_distinct(tensors.prefix + "labels", labels)
    return labels


def check_token_labels(tensors: TensorReader, labels: Sequence[Any]) -> None:
    """Refuse labels of tokens that no column file can hold, as `fit` does; labels of arcs may be anything."""
    reason = unwritable_label(text_of(labels))
    if reason is not None:
        raise ModelFileError(f"tensor {tensors.prefix}labels: {reason}")


def with_text_labels(model: Any) -> Any:
    """The same model with strings for labels, as files have them."""
    if all(label_type(layer.classes_) == "str" for layer in model._outputs.values()):
        return model
    tensors, header = model.pack()
    header = json.loads(json.dumps(header))  # as a file has it
    for part in (header, *(layer["model"] for layer in header.get("layers", ()) if isinstance(layer, dict))):
        part.pop("label_type", None)
    return type(model).unpack(tensors, header)


def template_setting(features: HeaderReader) -> dict[str, Any]:
    """The template as a setting: by its text, unless it is built in, since its file may be gone or changed."""
    if features.get("template") is None:
        return {}
    stored = features.part("template")
    return {"template": stored.text("name") if stored.text("name") in BUILTIN else read_template(stored)}


# -- linear taggers -------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """How large the parts of the weight vector are."""

    columns: dict[str, int]  # kind of cells -> what their columns count: states, pairs, triples, ...
    n_states: int  # of plain transitions
    order: int


def pack_linear(model: Any, trained: Trained) -> Packed:
    """The tensors and the header of a tagger with features, cells and weights."""
    space, parameters, pruning = trained.space, trained.parameters, trained.pruning
    parts = parameters.slices
    tensors, kind = pack_labels(space.labels)
    tensors |= {name: trained.weights[parts[name]] for name in PLAIN if name in parts}
    for name, cells in parameters.cells.items():
        weights = {f"{name}.weights": trained.weights[parts[name]]}
        weights |= {} if pruning is None else {"pruning.weights": pruning.weights}
        used = np.any([array != 0 for array in weights.values()], axis=0)
        kept = np.concatenate([[0], np.cumsum(used)])
        tensors |= {f"{name}.ptr": kept[cells.ptr], f"{name}.column": cells.column[used]}
        tensors |= {key: array[used] for key, array in weights.items()}
    if pruning is None or not (space.arc.all() and space.start.all() and space.end.all()):
        tensors |= {"space.start": space.start, "space.arc": space.arc, "space.end": space.end}
    header = header_of(model) | kind
    if pruning is None:
        tensors["labels.first"] = space.first
    else:
        sparse = parameters.sparse  # type: ignore[attr-defined]
        tensors |= {"transitions.ptr": sparse.ptr, "transitions.label": sparse.second, "pruning.bias": pruning.bias}
        header["pruning"] = {name: getattr(pruning, name) for name in ("cutoff", "most", "share", "prior")}
    tensors |= {f"features.{name}": tensor for name, tensor in trained.extractor.tensors().items()}
    return tensors, header | {
        "scheme": trained.scheme,
        "extractor": trained.extractor.kind,
        "features": trained.extractor.header(),
        "layers": list(parameters.cells),
        "order": 1 if pruning is not None else space.graph.order,
    }


def read_trained(
    tensors: TensorReader, header: HeaderReader, shape_of: Callable[[Trained, HeaderReader], tuple[Shape, Trained]]
) -> Trained:
    """What `pack_linear` stored, after checking that everything fits together.

    shape_of : gives the sizes that follow from the space and the extractor; taggers with a structure of their own read
        it there"""
    space = read_space(tensors, header)
    nothing = Parameters({}, space.n_states, space.graph.order)
    known = Trained(read_extractor(tensors, header), space, nothing, np.empty(0, np.float32), read_scheme(header))
    shape, known = shape_of(known, header)
    parameters, weights = read_parameters(tensors, header, known.extractor, shape)
    return known._replace(parameters=parameters, weights=weights)


def chain_shape(trained: Trained, header: HeaderReader) -> tuple[Shape, Trained]:
    """The sizes of a tagger over a chain of states."""
    S, order = trained.space.n_states, trained.space.graph.order
    return Shape({name: S ** (reach + 1) for name, reach in REACH.items() if reach <= order}, S, order), trained


def check_first_order(trained: Trained, header: HeaderReader) -> None:
    """Refuse a file of order 2 for a tagger that has none."""
    if trained.space.graph.order != 1:
        raise header.refuse("order", "1")


def read_space(tensors: TensorReader, header: HeaderReader) -> StateSpace:
    """The state space; its size is that of tensors that the file holds, checked before anything is made of it."""
    order = header.whole("order", 1, 2) if "order" in header else 1
    labels = read_labels(tensors, header)
    first = tensors.array("labels.first", np.int32, len(labels) + 1)
    S = int(first[-1])
    check_pointers(f"{tensors.prefix}labels.first", first, S, least=1)
    start, end = (tensors.array(f"space.{name}", np.bool_, S) for name in ("start", "end"))
    arc = tensors.array("space.arc", np.bool_, S, S)
    if S ** (order + 1) > MAX_ARCS:
        raise ModelFileError(f"tensor {tensors.prefix}labels.first: {S:,} states are too many for order {order}")
    if not start.any() or not end.any() or (order == 2 and not arc.any()):
        raise ModelFileError(f"tensor {tensors.prefix}space.start: expected states that may begin, follow and end")
    if order == 2:
        _read_weights(tensors, "triples", S**3)
        twin = np.repeat(first[:-1], np.diff(first))  # [S]  the first state of the same label
        if (start != start[twin]).any() or (arc != arc[np.ix_(twin, twin)]).any():
            raise ModelFileError(f"tensor {tensors.prefix}space.arc: of order 2, states of a label must be alike")
    return assembled(tuple(labels), first, start, arc, end, order)


def read_extractor(tensors: TensorReader, header: HeaderReader) -> Extractor:
    """The extractor of features."""
    extractors = EXTRACTORS | {SegmentFeatures.kind: SegmentFeatures}
    kind = extractors[header.one_of("extractor", tuple(extractors))]
    extractor: Extractor = kind.restore(tensors.part("features."), header.part("features"))
    return extractor


def read_parameters(
    tensors: TensorReader, header: HeaderReader, extractor: Extractor, shape: Shape
) -> tuple[Parameters, Array]:
    """The cells of all features, and the weight vector."""
    kinds = header.names("layers")
    if sorted(kinds) != sorted(extractor.cell_kinds) or not set(kinds) <= set(shape.columns):
        raise header.refuse("layers", ", ".join(extractor.cell_kinds))
    # First, since it shows that the file is as large as its header says.
    plain = [_read_weights(tensors, name, shape.n_states ** (2 + i)) for i, name in enumerate(PLAIN[: shape.order])]
    cells, weights = {}, []
    for name in kinds:
        column = tensors.indices(f"{name}.column", np.int32, shape.columns[name], None)
        cells[name] = Cells(tensors.pointers(f"{name}.ptr", extractor.n_features, len(column)), column)
        weights.append(_read_weights(tensors, f"{name}.weights", len(column)))
    return Parameters(cells, shape.n_states, shape.order), np.concatenate([*weights, *plain])


def _read_weights(tensors: TensorReader, name: str, n: int) -> Array:
    """Weights as they were stored: float32 as trained here, or float64 from another program."""
    dtype = np.float64 if tensors[name].dtype == np.float64 else np.float32
    return tensors.weights(name, dtype, n)


def read_pruned(tensors: TensorReader, header: HeaderReader) -> Trained:
    """What `pack_linear` stored of a model with pruned labels, after checking that everything fits together."""
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
    space = _pruned_space(tensors, labels)
    return Trained(extractor, space, parameters, np.concatenate(weights), read_scheme(header), pruning=pruning)


def _read_transitions(tensors: TensorReader, L: int) -> SparseTransitions:
    """The pairs that have a weight."""
    second = tensors.indices("transitions.label", np.int32, L, None)
    ptr = tensors.pointers("transitions.ptr", L, len(second))
    check_rising_within(f"{tensors.prefix}transitions.label", second, ptr[:-1])
    return SparseTransitions(ptr, second)


def _pruned_space(tensors: TensorReader, labels: list[Any]) -> StateSpace:
    """The labels, and which transitions are allowed."""
    space, L = label_space(labels), len(labels)
    if "space.arc" not in tensors:
        return space
    start, end = (tensors.array(f"space.{name}", np.bool_, L) for name in ("start", "end"))
    if not start.any() or not end.any():
        raise ModelFileError(f"tensor {tensors.prefix}space.start: expected labels that may begin and end")
    return space._replace(start=start, end=end, arc=tensors.array("space.arc", np.bool_, L, L))


# -- calibration ------------------------------------------------------------------------------------------------------


def check_calibration(training: HeaderReader, weights: Array) -> None:
    """The calibration of a model: a temperature above 0 that leaves its weights finite, and maps that rise."""
    if training.get("calibration") is None:
        return
    temperature = training.part("calibration")["temperature"]
    largest = float(np.abs(weights).max(initial=0.0))
    most = LARGEST_WEIGHT
    if not is_number(temperature) or not 0 < temperature <= most or not largest / temperature <= most:
        raise training.part("calibration").refuse("temperature", "a number above 0 that fits the weights")
    for kind in kinds_of(training.part("calibration")):
        _check_map(training.part("calibration").part(kind))


def _check_map(fields: HeaderReader) -> None:
    """A monotone map of probabilities: numbers that rise, as many that are right as are said."""
    said, right = fields.listed("said"), fields.listed("right")
    for name, numbers in (("said", said), ("right", right)):
        if not numbers or not all(is_number(p) and 0 <= p <= 1 for p in numbers) or len(numbers) != len(said):
            raise fields.refuse(name, "as many numbers between 0 and 1")
        if any(a > b for a, b in pairwise(numbers)):
            raise fields.refuse(name, "numbers that never fall")
