"""A CRF of order 1 as other programs store it: labels, attributes, and a weight for pairs of
them."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.labels import text_of
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import detect_scheme
from labelwright.errors import ModelFileError
from labelwright.features.attributes import DictFeatures
from labelwright.features.incidence import Incidence
from labelwright.scoring.parameters import Cells, Parameters, Trained
from labelwright.structures.states import MAX_ARCS, state_space
from labelwright.taggers.crf import CRF

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

MOST_PAIRS = 1 << 22, 16  # of labels: a constant, and a factor for each byte of the file
SEPARATOR = ":"  # between name and string value, as CRFsuite's Python bindings join them


class ChainModel(NamedTuple):
    """Weights of attributes with labels, and of transitions between labels; all others are 0."""

    labels: list[str]  # [L]
    attributes: list[str]  # [F]
    attribute: Ints  # of each state weight
    label: Ints
    weight: Floats
    source: Ints  # of each transition: label before,
    target: Ints  # label after
    transition: Floats

    def tidied(self) -> "ChainModel":
        """The same model without weights that are 0 and attributes that have no weight; the weights
        by attribute and label, and by source and target."""
        state, transition = (
            np.lexsort((self.label, self.attribute)),
            np.lexsort((self.target, self.source)),
        )
        state, transition = (
            state[self.weight[state] != 0],
            transition[self.transition[transition] != 0],
        )
        used, attribute = np.unique(self.attribute[state], return_inverse=True)
        return ChainModel(
            self.labels,
            [self.attributes[i] for i in used.tolist()],
            attribute.astype(np.int32),
            self.label[state],
            self.weight[state],
            self.source[transition],
            self.target[transition],
            self.transition[transition],
        )


_NONE: Ints = np.empty(0, np.int32)
EMPTY = ChainModel([], [], _NONE, _NONE, np.empty(0), _NONE, _NONE, np.empty(0))


def check_pairs(n_labels: int, source: str, n_bytes: int) -> None:
    """Refuse more labels than a file of this size can have weights of pairs for: models with many
    labels are large."""
    most = min(MAX_ARCS, MOST_PAIRS[0] + MOST_PAIRS[1] * n_bytes)
    if n_labels**2 > most:
        raise ModelFileError(
            f"{source}: {n_labels:,} labels in a file of {n_bytes:,} bytes make more than {most:,} "
            "pairs of labels"
        )


# -- to a tagger -----------------------------------------------------------------------------------


def imported_crf(
    program: str,
    labels: Sequence[str],
    extractor: Any,
    cells: dict[str, Cells],
    weights: Sequence[Floats],
    n_weights: int,
    **settings: Any,
) -> CRF:
    """A trained CRF with the weights of another program: of each kind of cells, then of transitions
    [L * L].

    The scheme is that of the labels; where two are possible, transitions with a positive weight
    show which."""
    L = len(labels)
    likely = np.argwhere(weights[-1].reshape(L, L) > 0).tolist()
    scheme = detect_scheme(labels, pairs={(labels[r], labels[s]): 1 for r, s in likely})
    crf = CRF(**settings)
    crf._trained = Trained(
        extractor, state_space(labels), Parameters(cells, L), np.concatenate(weights), scheme
    )
    crf.training_ = {
        "imported_from": program,
        "features": extractor.n_features,
        "weights": n_weights,
    }
    crf.history_ = []
    return crf


def to_crf(model: ChainModel) -> CRF:
    """A trained CRF with these weights.  It reads feature dicts as CRFsuite's Python bindings do: a
    string value makes the attribute `name:value`, a number is the value of the attribute `name`."""
    model = model.tidied()
    L, F = len(model.labels), len(model.attributes)
    cells = Cells(offsets_from(np.bincount(model.attribute, minlength=F)), model.label)
    transitions = np.zeros((L, L))
    transitions[model.source, model.target] = model.transition
    weights = [model.weight, transitions.reshape(-1)]
    extractor, n_weights = (
        DictFeatures(model.attributes, SEPARATOR),
        len(model.weight) + len(model.transition),
    )
    return imported_crf("CRFsuite", model.labels, extractor, {"state": cells}, weights, n_weights)


# -- from a tagger ---------------------------------------------------------------------------------


def from_crf(tagger: Any) -> ChainModel:
    """The weights of a trained tagger of order 1 without latent states; whatever cannot be held is
    one ModelFileError.

    Feature dicts keep their meaning: their string values are joined to the name by ":", as
    CRFsuite's Python bindings do, so these take the same dicts.  Features of a template become
    attributes by their names (`U1:the`), and columns of arrays become `x[0]`, `x[1]`, ...: no other
    program makes these of itself, so give it what `attributes` returns.
    """
    trained = checked(tagger)
    labels, parameters = text_of(trained.space.labels), trained.parameters
    cells, parts, L = parameters.cells["state"], parameters.slices, len(labels)
    every = np.arange(parts["transitions"].stop - parts["transitions"].start)
    source, target = np.divmod(
        parameters.codes_of("transitions", every).astype(np.int32), np.int32(L)
    )
    return ChainModel(
        labels,
        _names(trained),
        np.repeat(np.arange(len(cells.ptr) - 1, dtype=np.int32), np.diff(cells.ptr)),
        cells.column,
        trained.weights[parts["state"]].astype(np.float64),
        source,
        target,
        trained.weights[parts["transitions"]].astype(np.float64),
    ).tidied()


def not_carried(tagger: Any) -> list[str]:
    """What a ChainModel of this tagger does without, for people."""
    extractor, scheme = tagger._extractor, tagger.scheme_
    lost = [] if "imported_from" in tagger.training_ else ["settings", "training record"]
    if scheme is not None:
        lost.append(f"label scheme ({scheme})")
    if not tagger._probabilistic:
        lost.append("confidences (its scores are no log-probabilities)")
    if extractor.kind == "columns":
        lost.append(
            "template (labelwright.interchange.chains.attributes makes the attributes of a "
            "sentence)"
        )
    if (
        isinstance(extractor, DictFeatures)
        and extractor.separator != SEPARATOR
        and extractor.string_names is None
    ):
        lost.append(
            f"string values (an old model file: attributes stay name{extractor.separator}value)"
        )
    return lost


def attributes(tagger: Any, X: Any) -> list[list[dict[str, float]]]:
    """The attributes of every token of sentences with their values, by the names that `from_crf`
    gives them."""
    names = _names(checked(tagger))
    data = tagger.encode(X)
    if data.offsets[-1] == 0:
        return [[] for _ in range(len(data))]
    tokens = [
        _attributes_of(data.incidences["state"], t, names) for t in range(int(data.offsets[-1]))
    ]
    return [tokens[a:b] for a, b in pairwise(data.offsets.tolist())]


def _attributes_of(x: Incidence, t: int, names: Sequence[str]) -> dict[str, float]:
    values: dict[str, float] = defaultdict(float)
    for k in x.keys[t][x.keys[t] >= 0].tolist():
        for f in x.key_feature[x.key_ptr[k] : x.key_ptr[k + 1]].tolist():
            values[names[f]] += 1.0
    for i in range(x.token_ptr[t], x.token_ptr[t + 1]):
        values[names[x.token_feature[i]]] += float(x.token_value[i]) if len(x.token_value) else 1.0
    return dict(values)


def _names(trained: Trained) -> list[str]:
    """The names of all features [F]."""
    extractor = trained.extractor
    if isinstance(extractor, DictFeatures):
        names = extractor.joined_by(SEPARATOR)
    else:
        names = [extractor.name(f) for f in range(extractor.n_features)]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ModelFileError(
            f"two features would be the attribute {twice!r}; rename one, and train again"
        )
    return names


def checked(tagger: Any, form: str = "a CRFsuite model", holds: Sequence[str] = ()) -> Trained:
    """What a tagger has learnt, unless it is more than labels, attributes, their weights, and what
    else this form holds."""
    tagger._check_fitted()
    trained = vars(tagger).get("_trained")
    if not isinstance(trained, Trained):
        raise ModelFileError(f"a {type(tagger).__name__}: {form} cannot hold this; use a CRF")
    space, parts = trained.space, trained.parameters.cells
    is_free = space.arc.all() and space.start.all() and space.end.all()
    for is_there, what, remedy in (
        (trained.segments is not None, "segments", "use a CRF"),
        (space.graph.order != 1, f"order {space.graph.order}", "train with order=1"),
        (space.latent, "latent states", "use a CRF"),
        (trained.pruning is not None, "pruned labels", "train with prune_labels='off'"),
        (
            len(parts) > 1,
            "features on pairs of labels",
            "use a template without lines that begin with B",
        ),
        (
            trained.extractor.kind == "layered",
            "features on the labels of another layer",
            "export a tagger of one layer",
        ),
        (not is_free, "forbidden transitions", "train without constraints"),
    ):
        if is_there and what not in holds:
            raise ModelFileError(f"{what}: {form} cannot hold this; {remedy}")
    return trained
