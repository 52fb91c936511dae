"""What a model has learnt, as one dict for each kind of tagger: weights, a memory, layers, or
settings alone; and weights as tables, in the spirit of sklearn-crfsuite's attributes of the same
names."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.inspection.names import feature_names
from labelwright.inspection.use import OUTSIDE, latent_states
from labelwright.scoring.parameters import Trained
from labelwright.structures.states import state_names
from labelwright.wording import plain as as_plain

Array = NDArray[Any]
ARROW = " → "
PLAIN = "transitions", "triples"  # that need no feature


# -- weights as tables -----------------------------------------------------------------------------


class StateFeature(NamedTuple):
    """The weight of a feature on a label."""

    feature: str  #: its name, as pos[0]=NNS
    #: or a latent state, B-NP#2; of a SemiCRF the place in a segment, or the type of a segment
    label: str
    weight: float  #: in the unit of scores


class TransitionFeature(NamedTuple):
    """The weight of a transition."""

    source: str  #: the label before; of a triple the two before, A → B
    target: str  #: the label after it
    weight: float  #: in the unit of scores
    feature: str | None = None  #: None: the plain transition


def state_features(trained: Trained) -> list[StateFeature]:
    """Features on states and segments, the largest weights first."""
    rows = []
    for kind in ("state", "segment"):
        rows += [
            StateFeature(feature, str(names[0]), w) for feature, names, w in _named(trained, kind)
        ]
    return sorted(rows, key=lambda row: -abs(row.weight))


def transition_features(trained: Trained) -> list[TransitionFeature]:
    """Plain transitions and triples, and features on them, the largest weights first."""
    plain = [
        (None, *row) for part in PLAIN for row in _transitions(trained, part, trained.total_weights)
    ]
    named = [row for kind in ("edge", "triple") for row in _named(trained, kind)]
    rows = [
        TransitionFeature(ARROW.join(map(str, before)), str(after), weight, feature)
        for feature, (*before, after), weight in [*plain, *named]
    ]
    return sorted(rows, key=lambda row: -abs(row.weight))


def _states(trained: Trained, kind: str, codes: Sequence[int] | Array) -> list[list[str]]:
    """What columns of a kind stand for: a state, or the states of a pair or triple; in segments the
    place of a token, a type, or two types."""
    names: list[str] = state_names(trained.space)
    if trained.segments is not None:
        types = list(trained.segments.types)
        names = {"state": list(trained.segments.roles), "segment": types}.get(
            kind, [*types, OUTSIDE]
        )
    shape = (len(names),) * {"edge": 2, "transitions": 2, "triple": 3, "triples": 3}.get(kind, 1)
    numbers = np.stack(np.unravel_index(np.asarray(codes, np.int64), shape), axis=1)
    return [[names[state] for state in row] for row in numbers.tolist()]


def _transitions(
    trained: Trained, part: str, weights: Array, top: int | None = None
) -> list[tuple[list[str], float]]:
    """Plain transitions, or triples: those whose weights are not 0, or the `top` largest."""
    parameters = trained.parameters
    if part not in parameters.slices:
        return []
    of_part = weights[parameters.slices[part]]
    chosen = (
        np.flatnonzero(of_part)
        if top is None
        else np.argsort(-np.abs(of_part), kind="stable")[:top]
    )
    states = _states(trained, part, parameters.codes_of(part, chosen))
    return list(zip(states, of_part[chosen].tolist(), strict=True))


def _cells(trained: Trained, kind: str, weights: Array) -> tuple[Array, Array, Array]:
    """The feature, the column and the weight of each cell of this kind [W]."""
    cells = trained.parameters.cells[kind]
    feature = np.repeat(np.arange(len(cells.ptr) - 1), np.diff(cells.ptr))
    return feature, cells.column, weights[trained.parameters.slices[kind]]


def _named(trained: Trained, kind: str) -> list[tuple[str, list[str], float]]:
    """The feature, the states and the weight of each cell of this kind whose weight is not 0."""
    if kind not in trained.parameters.cells:
        return []
    feature, column, weight = _cells(trained, kind, trained.total_weights)
    used, name = np.flatnonzero(weight), feature_names(trained.extractor)
    known = {f: name(f) for f in np.unique(feature[used]).tolist()}
    features = [known[f] for f in feature[used].tolist()]
    return list(
        zip(features, _states(trained, kind, column[used]), weight[used].tolist(), strict=True)
    )


# -- facts -----------------------------------------------------------------------------------------


def _facts(model: Any, view: str, labels: Sequence[Any]) -> dict[str, Any]:
    """What is shown of every tagger."""
    return {
        "view": view,
        "kind": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "scheme": model.scheme_,
        "labels": list(labels),
        "paths": None,
        "training": getattr(model, "training_", {}),
    }


def plain(model: Any) -> dict[str, Any]:
    """All that is known of a tagger of any kind."""
    return {"signature": repr(model)} | _facts(model, "plain", list(map(str, model.classes_)))


def weighted(model: Any, top: int) -> dict[str, Any]:
    """All that the file of a tagger with weights shows."""
    trained, header, weights = model._trained, model._extractor.header(), model.weights_
    transitions, triples = (_transitions(trained, part, weights, top) for part in PLAIN)
    facts = _facts(model, "linear", trained.space.labels) | {
        "states": state_names(trained.space)
        if trained.segments is None
        else list(trained.segments.roles),
        "columns": list(header.get("columns", [])),
        "template": header.get("template"),
        **sizes(model),
        "probabilistic": model._probabilistic,
        "transitions": [{"from": a, "to": b, "weight": weight} for (a, b), weight in transitions],
        "triples": [
            {"first": a, "second": b, "third": c, "weight": weight} for (a, b, c), weight in triples
        ],
        "features": {
            kind: _strongest(trained, kind, top)
            for kind, cells in trained.parameters.cells.items()
            if len(cells.ptr)
        },
        "history": model.history_,
    }
    if model._probabilistic:  # what has a probability
        facts["paths"] = "latent paths" if trained.space.latent else "labellings"
    if trained.space.latent:
        facts["latent"] = as_plain(latent_states(model, None, top))
    return facts if trained.segments is None else facts | {"segments": _segments(trained, top)}


def sizes(model: Any) -> dict[str, int]:
    """How many features and weights were trained; files leave out weights that are exactly zero."""
    return {
        "n_features": model._extractor.n_features,
        "n_weights": model.training_.get("weights", len(model.weights_)),
        "n_nonzero": int(np.count_nonzero(model.weights_)),
    }


def _strongest(trained: Trained, kind: str, top: int) -> dict[str, list[dict[str, Any]]]:
    """The features with the largest positive weights, for each state or type, or the strongest
    pairs or triples."""
    (feature, column, weight), name = (
        _cells(trained, kind, trained.total_weights),
        feature_names(trained.extractor),
    )
    if kind == "segment":
        codes = np.arange(trained.segments.n_types if trained.segments else 0)
    elif kind == "state":
        codes = np.arange(
            trained.space.n_states if trained.segments is None else len(trained.segments.roles)
        )
    else:
        codes, which = np.unique(column, return_inverse=True)
        best_of = np.full(len(codes), -np.inf)
        np.maximum.at(best_of, which, weight)
        codes = codes[np.argsort(-best_of, kind="stable")[:top]]
    strongest = {}
    for code, states in zip(codes.tolist(), _states(trained, kind, codes), strict=True):
        mine = np.flatnonzero((column == code) & (weight > 0))
        best = mine[np.argsort(-weight[mine], kind="stable")[:top]].tolist()
        rows = [{"feature": name(int(feature[k])), "weight": float(weight[k])} for k in best]
        strongest[ARROW.join(map(str, states))] = rows
    return strongest


def _segments(trained: Trained, top: int) -> dict[str, Any]:
    """The weights of segments by type: of every length, dictionary and transition, and of the
    strongest texts."""
    assert trained.segments is not None
    types, features = list(trained.segments.types), trained.extractor
    feature, column, weight = _cells(trained, "segment", trained.weights)
    first, last = features.tokens.n_features, features.always.stop  # type: ignore[attr-defined]
    table = np.zeros((last - first, len(types)))  # lengths, then dictionaries
    always = feature < last
    table[feature[always] - first, column[always]] = weight[always]
    rows = [dict(zip(types, row, strict=True)) for row in table.tolist()]
    arcs = trained.weights[trained.parameters.slices["transitions"]].reshape(
        len(types) + 1, len(types) + 1
    )
    into = [dict(zip(types, row, strict=True)) for row in arcs[:, :-1].tolist()]
    texts = {}
    for code, name in enumerate(types):  # the largest weights, whatever their sign
        mine = np.flatnonzero((column == code) & ~always & (weight != 0))
        best = mine[np.argsort(-np.abs(weight[mine]), kind="stable")[:top]].tolist()
        named = [
            (features.name(int(feature[k])).removeprefix("text="), float(weight[k])) for k in best
        ]
        texts[name] = [{"text": text, "weight": weight} for text, weight in named]
    longest = features.texts.max_length  # type: ignore[attr-defined]
    return {
        "lengths": {str(length): row for length, row in enumerate(rows[:longest], 1)},
        "dictionaries": dict(zip(features.texts.dictionaries, rows[longest:], strict=True)),  # type: ignore[attr-defined]
        "transitions": dict(zip([*types, OUTSIDE], into, strict=True)),
        "texts": texts,
    }


def remembered(
    model: Any,
    labels: Sequence[Any],
    n_classes: int,
    weights: Mapping[str, float],
    windows: Any = None,
) -> dict[str, Any]:
    """All that the file of a memory shows: of a tagger, or of a classifier, which reads no
    sentences."""
    header = {} if windows is None else windows.header()
    return _facts(model, "memory", labels) | {
        "labels_sentences": windows is not None,
        "classes": n_classes,
        "columns": header.get("inputs", []),
        "template": header.get("template"),
        "memory": model.memory_,
        "feature_weights": [{"column": name, "weight": weight} for name, weight in weights.items()],
    }


def layered(model: Any, signatures: Mapping[str, str]) -> dict[str, Any]:
    """All that a cascade's file shows: its layers (`signatures` are theirs), what they pass, and
    how training went."""
    parts = [f"{name}:{line}" for name, line in signatures.items()]
    layers = {}
    for name, layer in model.layers_.items():  # beside the others; its own `describe` shows all
        layers[name] = {
            "signature": signatures[name],
            "kind": type(layer).__name__,
            "labels": list(layer.classes_),
            "scheme": layer.scheme_,
            **(sizes(layer) if layer._sizes() else {"size": layer._summary().sizes}),
            "probabilistic": layer._probabilistic,
            "training": layer.training_,
        }
    return {
        "signature": "|".join([type(model).__name__.lower(), f"passing:{model.passing}", *parts]),
        "view": "cascade",
        "kind": type(model).__name__,
        "passing": model.passing,
        "parameters": {
            name: value for name, value in model.get_params(deep=False).items() if name != "layers"
        },
        "columns": list(model.inputs_),
        "lexicon": None
        if model.lexicon_ is None
        else {"layer": model.lexicon, "words": len(model.lexicon_.words)},
        "layers": layers,
        "training": model.training_,
        "history": model.history_,
    }
