"""Models as tensors and a header, and back: what all kinds share, and linear taggers whole.

    labels, labels.first [L+1]                        the labels, and the states of each
    space.start [S]  space.arc [S, S]  space.end [S]  which states may begin, follow, end
    KIND.ptr [F+1]  KIND.column  KIND.weights         cells of features on a state, edge, triple
                                                      (or segment)
    transitions [S * S]  triples [S * S * S]          weights of plain transitions; the latter of
                                                      order 2
    features.*                                        what the extractor of features stores

Models with pruned labels have one state for each label, the tensors of the space only where a label
scheme forbids some transitions, weights of the zero-order model, and sparse transitions:

    pruning.weights  pruning.bias [L]         for the cells of features on a state; and of labels
    transitions.ptr [L+1]  transitions.label  pairs of labels by their first

Strings are stored as NAME.text (UTF-8) and NAME.offsets.  Weights that are exactly zero are left
out.  Nothing that `unpack` is given is trusted: TensorReader and HeaderReader
(labelwright.modelfile) check all that they read.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.corpus.labels import READ_LABEL, label_type, text_of, unwritable_label
from labelwright.corpus.schemes import SCHEMES
from labelwright.errors import ModelFileError
from labelwright.features.builtin import BUILTIN
from labelwright.features.extract import EXTRACTORS, Extractor
from labelwright.features.segments import SegmentFeatures
from labelwright.features.template import parse_template
from labelwright.modelfile import (
    LARGEST_WEIGHT,
    HeaderReader,
    TensorReader,
    check_distinct,
    pack_strings,
    read_strings,
)
from labelwright.scoring.parameters import REACH, Cells, Parameters, Pruning, Trained
from labelwright.settings import settings_of
from labelwright.structures.candidates import SparseTransitions, label_space
from labelwright.structures.states import MAX_ARCS, StateSpace, assembled

Array = NDArray[Any]
Packed = tuple[dict[str, Array], dict[str, Any]]
PLAIN = ("transitions", "triples")  # plain transitions of order 1 and 2


# -- what all models share -------------------------------------------------------------------------


def header_of(model: Any) -> dict[str, Any]:
    """What the header of every model file has: kind, version, signature, settings, and the record
    of training."""
    return {
        "kind": type(model).__name__,
        "labelwright": __version__,
        "signature": model._signature(),
        "parameters": {
            name: as_json(value)
            for name, value in storable(model.get_params(False), type(model)).items()
        },
        "training": getattr(model, "training_", {}),
        "history": getattr(model, "history_", []),
    }


def storable(values: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Those of these values that are settings of a tagger which its file may hold: none that names
    a file to read."""
    settings = settings_of(kind)
    return {
        name: values[name]
        for name in values
        if name in settings and settings[name].kind.is_stored(values[name])
    }


def as_json(value: Any) -> Any:
    """A setting as JSON; templates and phrases of dictionaries are stored with the features."""
    if isinstance(value, Mapping):
        return {str(k): as_json(v) for k, v in value.items() if isinstance(v, Real)} or None
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [as_json(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else None


def constructed(kind: type[Any], header: HeaderReader, **given: Any) -> Any:
    """An untrained model with the settings of a header; those in `given` are taken as they are.
    Files of version 0.1.0 name files and say how many threads run, too, and their latent states
    share nothing."""
    fields, declared = header.part("parameters"), settings_of(kind)
    stored = {
        name: tuple(value)
        if isinstance(value, list) and isinstance(declared[name].default, tuple)
        else value
        for name, value in storable(fields, kind).items()
    }
    if "share" in declared and "share" not in fields:
        stored["share"] = False
    model = kind(**stored | given)
    model._check_parameters()
    return model


def read_scheme(header: HeaderReader) -> str | None:
    """The label scheme, or None."""
    scheme: str | None = header.one_of("scheme", (None, *SCHEMES))
    return scheme


def pack_labels(labels: Sequence[Any]) -> Packed:
    """Labels as text, and the header field that says what they are where they are no strings."""
    text, offsets = pack_strings(text_of(labels))
    kind = label_type(labels)
    return {"labels.text": text, "labels.offsets": offsets}, {} if kind == "str" else {
        "label_type": kind
    }


def read_labels(tensors: TensorReader, header: HeaderReader) -> list[Any]:
    """Labels: one at least, none twice."""
    labels: list[Any] = read_strings(tensors, "labels")
    if not labels:
        raise tensors.refuse("labels", "one label or more")
    if "label_type" in header:
        kind = header.one_of("label_type", tuple(READ_LABEL))
        try:
            labels = [READ_LABEL[kind](label) for label in labels]
        except ValueError as error:
            raise ModelFileError(f"tensor {tensors.prefix}labels: {error}") from None
    check_distinct(tensors.prefix + "labels", labels)
    return labels


def check_token_labels(tensors: TensorReader, labels: Sequence[Any]) -> None:
    """Refuse labels of tokens that no column file can hold, as `fit` does; labels of arcs may be
    anything."""
    reason = unwritable_label(text_of(labels))
    if reason is not None:
        raise ModelFileError(f"tensor {tensors.prefix}labels: {reason}")


def with_text_labels(model: Any) -> Any:
    """The same model with strings for labels, as files have them."""
    if all(label_type(layer.classes_) == "str" for layer in model._outputs.values()):
        return model
    tensors, header = model.pack()
    header = json.loads(json.dumps(header))  # as a file has it
    for part in (
        header,
        *(layer["model"] for layer in header.get("layers", ()) if isinstance(layer, dict)),
    ):
        part.pop("label_type", None)
    return type(model).unpack(tensors, header)


def template_setting(features: HeaderReader) -> dict[str, Any]:
    """The template as a setting: by its text, unless it is built in, since its file may be gone or
    changed."""
    if features.get("template") is None:
        return {}
    name, text = map(features.part("template").text, ("name", "text"))
    return {"template": name if name in BUILTIN else parse_template(text, name)}


# -- linear taggers --------------------------------------------------------------------------------


class Shape(NamedTuple):
    """How large the parts of the weight vector are."""

    # kind of cells -> what their columns count: states, pairs, triples, ...
    columns: dict[str, int]
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
        sparse = parameters.sparse
        tensors |= {
            "transitions.ptr": sparse.ptr,
            "transitions.label": sparse.second,
            "pruning.bias": pruning.bias,
        }
        header["pruning"] = {
            name: getattr(pruning, name) for name in ("cutoff", "most", "share", "prior")
        }
    tensors |= {f"features.{name}": tensor for name, tensor in trained.extractor.tensors().items()}
    return tensors, header | {
        "scheme": trained.scheme,
        "extractor": trained.extractor.kind,
        "features": trained.extractor.header(),
        "layers": list(parameters.cells),
        "order": 1 if pruning is not None else space.graph.order,
    }


def read_trained(
    tensors: TensorReader,
    header: HeaderReader,
    shape_of: Callable[[Trained, HeaderReader], tuple[Shape, Trained]],
) -> Trained:
    """What `pack_linear` stored, after checking that everything fits together.

    shape_of : gives the sizes that follow from the space and the extractor; taggers with a
        structure of their own read it there"""
    space, extractor = _read_space(tensors, header), _read_extractor(tensors, header)
    nothing = Parameters({}, space.n_states, space.graph.order)
    known = Trained(extractor, space, nothing, np.empty(0, np.float32), read_scheme(header))
    shape, known = shape_of(known, header)
    kinds = header.names("layers")
    if sorted(kinds) != sorted(extractor.cell_kinds) or not set(kinds) <= set(shape.columns):
        raise header.refuse("layers", ", ".join(extractor.cell_kinds))
    # First, since it shows that the file is as large as its header says.
    plain = [
        _read_weights(tensors, name, shape.n_states ** (2 + i))
        for i, name in enumerate(PLAIN[: shape.order])
    ]
    cells = {
        name: _read_cells(tensors, name, extractor.n_features, shape.columns[name])
        for name in kinds
    }
    weights = [_read_weights(tensors, f"{name}.weights", len(cells[name].column)) for name in kinds]
    parameters = Parameters(cells, shape.n_states, shape.order)
    return known._replace(parameters=parameters, weights=np.concatenate([*weights, *plain]))


def chain_shape(trained: Trained, header: HeaderReader) -> tuple[Shape, Trained]:
    """The sizes of a tagger over a chain of states."""
    S, order = trained.space.n_states, trained.space.graph.order
    return Shape(
        {name: S ** (reach + 1) for name, reach in REACH.items() if reach <= order}, S, order
    ), trained


def check_first_order(trained: Trained, header: HeaderReader) -> None:
    """Refuse a file of order 2 for a tagger that has none."""
    if trained.space.graph.order != 1:
        raise header.refuse("order", "1")


def _read_space(tensors: TensorReader, header: HeaderReader) -> StateSpace:
    """The state space; its size is that of tensors that the file holds, checked before anything is
    made of it."""
    order = header.whole("order", 1, 2) if "order" in header else 1
    labels = read_labels(tensors, header)
    first = tensors.pointers("labels.first", len(labels), None, least=1, dtype=np.int32)
    S = int(first[-1])
    start, end = (tensors.array(f"space.{name}", np.bool_, S) for name in ("start", "end"))
    arc = tensors.array("space.arc", np.bool_, S, S)
    if S ** (order + 1) > MAX_ARCS:
        raise ModelFileError(
            f"tensor {tensors.prefix}labels.first: {S:,} states are too many for order {order}"
        )
    if not start.any() or not end.any() or (order == 2 and not arc.any()):
        raise tensors.refuse("space.start", "states that may begin, follow and end")
    if order == 2:
        _read_weights(tensors, "triples", S**3)
        twin = np.repeat(first[:-1], np.diff(first))  # [S]  the first state of the same label
        if (start != start[twin]).any() or (arc != arc[np.ix_(twin, twin)]).any():
            raise ModelFileError(
                f"tensor {tensors.prefix}space.arc: of order 2, states of a label must be alike"
            )
    return assembled(tuple(labels), first, start, arc, end, order)


def _read_extractor(tensors: TensorReader, header: HeaderReader) -> Extractor:
    extractors = EXTRACTORS | {SegmentFeatures.kind: SegmentFeatures}
    kind = extractors[header.one_of("extractor", tuple(extractors))]
    extractor: Extractor = kind.restore(tensors.part("features."), header.part("features"))
    return extractor


def _read_cells(tensors: TensorReader, name: str, n: int, below: int) -> Cells:
    """The columns of each of so many features, or labels."""
    column = tensors.indices(f"{name}.column", np.int32, below, None)
    return Cells(tensors.pointers(f"{name}.ptr", n, len(column)), column)


def _read_weights(tensors: TensorReader, name: str, n: int) -> Array:
    """Weights as they were stored: float32 as trained here, or float64 from another program."""
    dtype = np.float64 if tensors[name].dtype == np.float64 else np.float32
    return tensors.weights(name, dtype, n)


def read_pruned(tensors: TensorReader, header: HeaderReader) -> Trained:
    """What `pack_linear` stored of a model with pruned labels, after checking that everything fits
    together."""
    if header.whole("order", 1, 2) == 2:
        raise ModelFileError(
            f"{header.place}: pruned labels of order 2 are gone; train again with order=1"
        )
    labels = read_labels(tensors, header)
    L, extractor, fields = len(labels), _read_extractor(tensors, header), header.part("pruning")
    if header.names("layers") != ["state"] or tuple(extractor.cell_kinds) != ("state",):
        raise header.refuse("layers", "state")
    cells = _read_cells(tensors, "state", extractor.n_features, L)
    tensors.rising("state.column", cells.ptr[:-1])
    second = tensors.indices("transitions.label", np.int32, L, None)
    sparse = SparseTransitions(tensors.pointers("transitions.ptr", L, len(second)), second)
    tensors.rising("transitions.label", sparse.ptr[:-1])
    parts = ("state.weights", len(cells.column)), ("transitions", len(second))
    weights = np.concatenate([tensors.weights(name, np.float32, size) for name, size in parts])
    pruning = Pruning(
        weights=tensors.weights("pruning.weights", np.float32, len(cells.column)),
        bias=tensors.weights("pruning.bias", np.float32, L),
        cutoff=fields.number("cutoff", 0.0, LARGEST_WEIGHT),
        most=fields.whole("most", 1, L),
        share=fields.number("share", 0.0, 1.0),
        prior=fields.number("prior", 0.0, LARGEST_WEIGHT) if "prior" in fields else 0.0,
    )
    space = label_space(labels)
    if "space.arc" in tensors:
        start, end = (tensors.array(f"space.{name}", np.bool_, L) for name in ("start", "end"))
        if not start.any() or not end.any():
            raise tensors.refuse("space.start", "labels that may begin and end")
        space = space._replace(start=start, end=end, arc=tensors.array("space.arc", np.bool_, L, L))
    return Trained(
        extractor,
        space,
        Parameters({"state": cells}, L, sparse=sparse),
        weights,
        read_scheme(header),
        pruning=pruning,
    )
