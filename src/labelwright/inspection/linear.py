"""What a linear model over chains has learnt: its strongest weights, latent states, and the probability of paths."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.paths import best_paths
from labelwright.errors import OptionError
from labelwright.inspection.names import feature_names
from labelwright.inspection.use import (
    OUTSIDE,
    SEEN,
    Counter,
    Ranked,
    StateView,
    Use,
    label_views,
    pieces,
    ranked,
    shares,
    typical_words,
)
from labelwright.inspection.weight_tables import WeightNames, weight_names
from labelwright.scoring.parameters import REACH
from labelwright.structures.lattice import Lattice, Posterior, best_path, posterior_arcs, state_marginals
from labelwright.structures.states import state_names

Array = NDArray[Any]
R = TypeVar("R")


# -- weights -------------------------------------------------------------------------------------------------------


def describe(model: Any, top: int) -> dict[str, Any]:
    """All that a model's file alone shows, ready for JSON."""
    names: WeightNames = weight_names(model._trained)
    header = model._extractor.header()
    latent = bool(model._space.latent)
    facts = {
        "view": "linear",
        "kind": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "scheme": model.scheme_,
        "labels": list(model._space.labels),
        "states": names.state,
        "columns": list(header.get("columns", [])),
        "template": header.get("template"),
        **sizes(model),
        "probabilistic": model._probabilistic,
        "paths": ("latent paths" if latent else "labellings") if model._probabilistic else None,  # with a probability
        "training": model.training_,
        "transitions": [
            {"from": from_, "to": to, "weight": w}
            for (from_, to), w in _strongest_transitions(model, "transitions", names.transition, top)
        ],
        "triples": [
            {"first": r, "second": s, "third": u, "weight": w}
            for (r, s, u), w in _strongest_transitions(model, "triples", names.transition, top)
        ],
        "features": {
            kind: _strongest(model, kind, names.segment if kind == "segment" else names.state, top)
            for kind, cells in model._parameters.cells.items()
            if len(cells.ptr)
        },
        "history": model.history_,
    }
    if latent:
        facts["latent"] = [view._asdict() for view in latent_states(model, None, top)]
    return facts


def describe_use(model: Any, corpora: Sequence[Any], top: int) -> dict[str, Any]:
    """The latent states, or the labels, by their use on data, ready for JSON."""
    use = expected_use(model, corpora)
    if model._space.latent:
        return {"latent": [view._asdict() for view in latent_states(model, use, top)]}
    return {"use": [view._asdict() for view in label_views(use, model._space.labels, top)]}


def sizes(model: Any) -> dict[str, int]:
    """How many features and weights were trained; files leave out weights that are exactly zero."""
    return {
        "n_features": model._extractor.n_features,
        "n_weights": model.training_.get("weights", len(model.weights_)),
        "n_nonzero": int(np.count_nonzero(model.weights_)),
    }


def _strongest_transitions(model: Any, part: str, names: Sequence[str], top: int) -> list[tuple[list[str], float]]:
    """The plain transitions, or (order 2) triples, with the largest weights, by the names of their states."""
    parts = model._parameters.slices
    if part not in parts:
        return []
    weights = model.weights_[parts[part]]
    shape = (len(names),) * (2 if part == "transitions" else 3)
    best = np.argsort(-np.abs(weights), kind="stable")[:top]
    states = np.stack(np.unravel_index(model._parameters.codes_of(part, best), shape), axis=1).tolist()
    return [([names[s] for s in row], float(weights[k])) for row, k in zip(states, best, strict=True)]


def _transitions(model: Any) -> Array:
    """The weight of every transition between two states [S, S]."""
    S = model._space.n_states
    weights: Array = model.weights_[model._parameters.slices["transitions"]].reshape(S, S)
    return weights


def _strongest(model: Any, kind: str, names: Sequence[str], top: int) -> dict[str, list[dict[str, Any]]]:
    """The features with the largest positive weights, for each state or (arc features) pair or triple of states."""
    cells = model._parameters.cells[kind]
    weights = model._trained.total_weights[model._parameters.slices[kind]]
    feature = np.repeat(np.arange(len(cells.ptr) - 1), np.diff(cells.ptr))
    feature_name = feature_names(model._extractor)
    strongest: dict[str, list[dict[str, Any]]] = {}
    for name, mine in _columns(cells.column, weights, kind, names, top):
        chosen = mine[np.argsort(-weights[mine], kind="stable")[:top]]
        strongest[name] = [
            {"feature": feature_name(int(feature[k])), "weight": float(weights[k])} for k in chosen if weights[k] > 0
        ]
    return strongest


def _columns(column: Array, weights: Array, kind: str, names: Sequence[str], top: int) -> list[tuple[str, Array]]:
    """The weights of every state or type, or of the strongest pairs or triples, by name."""
    if kind in ("state", "segment"):
        return [(name, np.flatnonzero(column == s)) for s, name in enumerate(names)]
    tuples, which = np.unique(column, return_inverse=True)
    best_of = np.full(len(tuples), -np.inf)
    np.maximum.at(best_of, which, weights)
    best = np.argsort(-best_of, kind="stable")[:top].tolist()
    shape = (len(names),) * (REACH[kind] + 1)
    return [
        (" → ".join(names[s] for s in np.unravel_index(tuples[k], shape)), np.flatnonzero(which == k)) for k in best
    ]


# -- latent states -------------------------------------------------------------------------------------------------


def latent_states(model: Any, use: Use | None = None, top: int = 5) -> list[StateView]:
    """Every state of the model, label by label and the most used first; with `use` as the data show them.

    Without it, the share of a state is that of the label's features whose largest weight is its own."""
    space, names = model._space, state_names(model._space)
    around = [*names, OUTSIDE]
    arcs = np.where(space.arc, _transitions(model), -np.inf) if use is None else None
    feature_name = feature_names(model._extractor)
    views = []
    for label, first, last in zip(space.labels, space.first[:-1].tolist(), space.first[1:].tolist(), strict=True):
        feature, weights = _block(model, first, last)
        share = _favoured(weights) if use is None else shares(use.states[first:last])
        relative = _against_others(weights)
        mine = []
        for h, state in enumerate(range(first, last)):
            if use is None:
                assert arcs is not None
                words: Ranked = []
                before, after = ranked(arcs[:, state], names, top), ranked(arcs[state], names, top)
            else:
                words = _words_of_state(use, first, last, state, top)
                before = ranked(shares(use.transitions[:, state]), around, top, 0.0)
                after = ranked(shares(use.transitions[state]), around, top, 0.0)
            best = np.argsort(-relative[:, h], kind="stable")[:top].tolist()
            features = [(feature_name(int(feature[k])), float(relative[k, h])) for k in best if relative[k, h] > 0]
            mine.append(StateView(names[state], label, float(share[h]), words, features, before, after))
        views += sorted(mine, key=lambda view: -view.share)
    return views


def _block(model: Any, first: int, last: int) -> tuple[Array, Array]:
    """The features that a label's states first:last have weights for [M], and these weights [M, H]."""
    cells = model._parameters.cells.get("state")
    if cells is None:
        return np.zeros(0, np.int64), np.zeros((0, last - first))
    mine = np.flatnonzero((cells.column >= first) & (cells.column < last))
    feature, row = np.unique(np.searchsorted(cells.ptr, mine, side="right") - 1, return_inverse=True)
    weights = np.zeros((len(feature), last - first))
    weights[row, cells.column[mine] - first] = model.weights_[model._parameters.slices["state"]][mine]
    return feature, weights


def _against_others(weights: Array) -> Array:
    """Each weight minus the mean of the other states' weights [M, H].

    >>> _against_others(np.array([[3.0, 1.0, 2.0]])).tolist()
    [[1.5, -1.5, 0.0]]
    """
    H = weights.shape[1]
    if H == 1:
        return weights
    others: Array = (weights.sum(axis=1, keepdims=True) - weights) / (H - 1)
    return weights - others


def _favoured(weights: Array) -> Array:
    """The share of the features whose largest weight is that of each state [H]; equal shares where there are none.

    >>> _favoured(np.array([[3.0, 1.0], [0.5, 0.0], [0.0, 2.0], [1.0, 1.0]])).round(2).tolist()
    [0.67, 0.33]
    """
    H = weights.shape[1]
    telling = weights[weights.max(axis=1, initial=-np.inf) > weights.min(axis=1, initial=np.inf)]
    counts = np.bincount(telling.argmax(axis=1), minlength=H).astype(np.float64)
    return shares(counts) if len(telling) else np.full(H, 1.0 / max(1, H))


def _words_of_state(use: Use, first: int, last: int, state: int, top: int) -> Ranked:
    """The words that tell a state from its label's others; the frequent ones where the label has no other state."""
    if last - first > 1:
        return typical_words(use.words[:, state], use.words[:, first:last].sum(axis=1), use.values, top)
    return [(word, count) for word, count in ranked(use.words[:, state], use.values, top, 0.0) if count >= SEEN]


# -- use on data ---------------------------------------------------------------------------------------------------


def expected_use(model: Any, corpora: Sequence[Any]) -> Use:
    """How often the model expects each state, each transition between two, and (of a Corpus) each word in each state;
    of a model without probabilities, how often they are on its best paths."""
    S = model._space.n_states
    counter = Counter(S)

    def use_of(sentence: Any) -> tuple[Array, Array]:
        if sentence is None:
            return np.zeros((0, S)), np.zeros((S + 1, S + 1))
        if not model._probabilistic:
            return _best_use(sentence.lattice)
        return sentence.state_marginals(), _expected_transitions(sentence.lattice, sentence.posterior())

    for corpus in corpora:
        for piece in pieces(corpus):
            answers = model._ask(piece, lambda batch: [use_of(sentence) for sentence in batch])
            tokens = np.concatenate([rows for rows, _ in answers])  # [T, S]
            counter.add(piece, tokens, sum((each for _, each in answers), np.zeros((S + 1, S + 1))))
    return counter.use


def _best_use(lattice: Lattice) -> tuple[Array, Array]:
    """The states [T, S] and transitions [S+1, S+1] of the best path."""
    graph, S = lattice.graph, lattice.graph.n_states
    states = graph.state[best_path(lattice)[0]]
    transitions = np.zeros((S + 1, S + 1))
    np.add.at(transitions, (np.append(S, states), np.append(states, S)), 1.0)
    rows: Array = np.eye(S)[states]
    return rows, transitions


def _expected_transitions(lattice: Lattice, sums: Posterior) -> Array:
    """Expected number of transitions between every two states, into the first and out of the last one [S+1, S+1]."""
    graph, S = lattice.graph, lattice.graph.n_states
    total = np.zeros((S + 1, S + 1))
    ends = state_marginals(sums.nodes[[0, -1]], graph)
    total[S, :S], total[:S, S] = ends[0], ends[1]
    if graph.order == 1:
        total[:S, :S] = posterior_arcs(lattice, sums, by_token=False).reshape(S, S)
    else:  # a node is a pair of states
        inner = graph.previous >= 0
        total[graph.previous[inner], graph.state[inner]] = sums.nodes[:, inner].sum(axis=0)
    return total


def path_mass(model: Any, X: Any, n: int = 2000) -> Array:
    """The probability of the best 1, 2, ... n paths together, mean over the sentences [n]: of latent paths, or of
    labellings where there are no latent states (Sun & Tsujii 2009, figure 2)."""
    check_paths(n)
    if not model._probabilistic:
        raise OptionError(f"path_mass: a {type(model).__name__} has scores, not probabilities: its paths have none")

    def mass_of(sentence: Any) -> Array:
        if sentence is None:
            return np.ones(n)
        return cumulated(np.exp(np.minimum(0.0, best_paths(sentence.lattice, n)[1] - sentence.log_z())), n)

    def curves(piece: Any) -> list[Array]:
        masses: list[Array] = model._ask(piece, lambda batch: [mass_of(sentence) for sentence in batch])
        return masses

    return mean_mass(map(curves, pieces(X)), n)


def check_paths(n: int) -> None:
    """Refuse a number of paths below 1."""
    if n < 1:
        raise OptionError(f"paths: expected 1 or more, got {n}")


def cumulated(probabilities: Array, n: int) -> Array:
    """The sums of the first 1, 2, ... n probabilities [n]; 1 from where a sentence has no more paths."""
    mass = np.ones(n)
    mass[: len(probabilities)] = np.minimum(1.0, np.cumsum(probabilities))
    return mass


def mean_mass(blocks: Any, n: int) -> Array:
    """The mean over all sentences [n] of blocks of curves."""
    total, sentences = np.zeros(n), 0
    for curves in blocks:
        for mass in curves:
            total += mass
            sentences += 1
    return total / max(1, sentences)
