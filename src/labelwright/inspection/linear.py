"""A look inside a trained model: its strongest weights, what its latent states stand for, where its mass lies."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Corpus
from labelwright.decode.paths import best_paths
from labelwright.errors import OptionError
from labelwright.scoring.parameters import REACH
from labelwright.structures.lattice import Lattice, Posterior, best_path, posterior, posterior_arcs, state_marginals
from labelwright.structures.states import state_names
from labelwright.taggers.files import signature
from labelwright.taggers.linear import LinearModel

Array = NDArray[Any]
OUTSIDE = "(outside)"  # what stands before the first token and after the last
PIECE = 500  # sentences that are summed up at a time
SEEN = 0.5  # a word that is expected less often says nothing about a state

Ranked = list[tuple[str, float]]


class StateView(NamedTuple):
    """One latent state of a label as its weights, or its use on data, show it."""

    state: str
    label: str
    share: float  # of the label's tokens or, without data, of the label's features that favour this state
    words: Ranked  # typical words with their expected counts; empty without data
    features: Ranked  # by how much their weight exceeds the mean of the label's other states
    before: Ranked  # probability of what stands before it or, without data, weight of the transition
    after: Ranked


class Use(NamedTuple):
    """Expected counts on data, or counts on best paths (index S: outside the sentence)."""

    states: Array  # [S]
    moves: Array  # [S+1, S+1]
    words: Array  # [V, S]
    values: list[str]  # [V]


# -- any linear model ----------------------------------------------------------------------------------------------


def describe(model: LinearModel, top: int) -> dict[str, Any]:
    """All that is worth knowing about a model from its file alone, ready for JSON."""
    names = _names(model)
    parameters = model.parameters_
    header = model.extractor_.header()
    return {
        "signature": signature(model),
        "kind": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "scheme": model.scheme_,
        "labels": list(model.space_.labels),
        "states": names["state"],
        "columns": list(header.get("columns", [])),
        "template": header.get("template"),
        "n_features": model.extractor_.n_features,
        "n_weights": len(model.weights_),
        "n_nonzero": int(np.count_nonzero(model.weights_)),
        "training": model.training_,
        "transitions": [
            {"from": from_, "to": to, "weight": w} for (from_, to), w in _strongest_moves(model, "transitions", top)
        ],
        "triples": [
            {"first": r, "second": s, "third": u, "weight": w}
            for (r, s, u), w in _strongest_moves(model, "triples", top)
        ],
        "features": {
            layer: _strongest(model, layer, names.get(layer, names["state"]), top)
            for layer, cells in parameters.cells.items()
            if len(cells.ptr)
        },
        "history": model.history_,
    }


def _names(model: LinearModel) -> dict[str, list[str]]:
    """What the columns of each layer and of transitions stand for: states; of a SemiCRF roles of tokens and types."""
    segments = getattr(model, "segments_", None)
    if segments is None:
        names = state_names(model.space_)
        return {"state": names, "move": names}
    types = list(segments.types)
    return {"state": list(segments.roles), "segment": types, "move": [*types, OUTSIDE]}


def _strongest_moves(model: LinearModel, part: str, top: int) -> list[tuple[list[str], float]]:
    """The plain transitions, or (order 2) triples, with the largest weights, by the names of their states."""
    names, parts = _names(model)["move"], model.parameters_.slices
    if part not in parts:
        return []
    weights = model.weights_[parts[part]]
    shape = (len(names),) * (2 if part == "transitions" else 3)
    best = np.argsort(-np.abs(weights), kind="stable")[:top]
    moves = np.stack(np.unravel_index(best, shape), axis=1).tolist()
    return [([names[s] for s in move], float(weights[k])) for move, k in zip(moves, best, strict=True)]


def _transitions(model: LinearModel) -> Array:
    """The weight of every move between two states [S, S]."""
    S = model.space_.n_states
    weights: Array = model.weights_[model.parameters_.slices["transitions"]].reshape(S, S)
    return weights


def _strongest(model: LinearModel, layer: str, names: Sequence[str], top: int) -> dict[str, list[dict[str, Any]]]:
    """The features with the largest positive weights, for each state or (arc features) pair or triple of states."""
    cells = model.parameters_.cells[layer]
    weights = model.weights_[model.parameters_.slices[layer]]
    feature = np.repeat(np.arange(len(cells.ptr) - 1), np.diff(cells.ptr))
    found: dict[str, list[dict[str, Any]]] = {}
    if layer in ("state", "segment"):
        groups = [(name, np.flatnonzero(cells.column == s)) for s, name in enumerate(names)]
    else:
        moves, move = np.unique(cells.column, return_inverse=True)
        best_of = np.full(len(moves), -np.inf)
        np.maximum.at(best_of, move, weights)
        best = np.argsort(-best_of, kind="stable")[:top].tolist()
        shape = (len(names),) * (REACH[layer] + 1)
        groups = [
            (" → ".join(names[s] for s in np.unravel_index(moves[k], shape)), np.flatnonzero(move == k)) for k in best
        ]
    for name, mine in groups:
        chosen = mine[np.argsort(-weights[mine], kind="stable")[:top]]
        found[name] = [
            {"feature": model.extractor_.name(int(feature[k])), "weight": float(weights[k])}
            for k in chosen
            if weights[k] > 0
        ]
    return found


# -- latent states -------------------------------------------------------------------------------------------------


def latent_states(model: LinearModel, use: Use | None = None, top: int = 5) -> list[StateView]:
    """Every state of the model, label by label and the most used first; with `use` as the data show them."""
    space, names = model.space_, state_names(model.space_)
    around = [*names, OUTSIDE]
    arcs = np.where(space.arc, _transitions(model), -np.inf) if use is None else None
    views = []
    for label, first, last in zip(space.labels, space.first[:-1].tolist(), space.first[1:].tolist(), strict=True):
        feature, weights = _block(model, first, last)
        share = _favoured(weights) if use is None else _shares(use.states[first:last])
        relative = _against_others(weights)
        mine = []
        for h, state in enumerate(range(first, last)):
            if use is None:
                assert arcs is not None
                words, before, after = [], _best(arcs[:, state], names, top), _best(arcs[state], names, top)
            else:
                words = _typical_words(use, first, last, state, top)
                before = _best(_shares(use.moves[:, state]), around, top, 0.0)
                after = _best(_shares(use.moves[state]), around, top, 0.0)
            best = np.argsort(-relative[:, h], kind="stable")[:top].tolist()
            features = [
                (model.extractor_.name(int(feature[k])), float(relative[k, h])) for k in best if relative[k, h] > 0
            ]
            mine.append(StateView(names[state], label, float(share[h]), words, features, before, after))
        views += sorted(mine, key=lambda view: -view.share)
    return views


def _block(model: LinearModel, first: int, last: int) -> tuple[Array, Array]:
    """The features that a label's states first:last have weights for [M], and these weights [M, H]."""
    cells = model.parameters_.cells.get("state")
    if cells is None:
        return np.zeros(0, np.int64), np.zeros((0, last - first))
    mine = np.flatnonzero((cells.column >= first) & (cells.column < last))
    feature, row = np.unique(np.searchsorted(cells.ptr, mine, side="right") - 1, return_inverse=True)
    weights = np.zeros((len(feature), last - first))
    weights[row, cells.column[mine] - first] = model.weights_[model.parameters_.slices["state"]][mine]
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
    """The share of the features whose largest weight is that of each state [H].

    >>> _favoured(np.array([[3.0, 1.0], [0.5, 0.0], [0.0, 2.0], [1.0, 1.0]])).round(2).tolist()
    [0.67, 0.33]
    """
    telling = weights[weights.max(axis=1, initial=-np.inf) > weights.min(axis=1, initial=np.inf)]
    return _normal(np.bincount(telling.argmax(axis=1), minlength=weights.shape[1]).astype(np.float64))


def _shares(counts: Array) -> Array:
    """Counts as shares of their sum; none where nothing was counted, as of a state that is on no best path."""
    total = counts.sum()
    shares: Array = counts / total if total > 0 else np.zeros(len(counts))
    return shares


def _normal(counts: Array) -> Array:
    """Counts as shares; equal ones where nothing was counted."""
    total = counts.sum()
    shares: Array = counts / total if total > 0 else np.full(len(counts), 1.0 / max(1, len(counts)))
    return shares


def _best(values: Array, names: Sequence[str], top: int, above: float = -np.inf) -> Ranked:
    chosen = np.argsort(-values, kind="stable")[:top].tolist()
    return [(names[k], float(values[k])) for k in chosen if values[k] > above]


def _typical_words(use: Use, first: int, last: int, state: int, top: int) -> Ranked:
    """The words that tell a state from its label: count times log P(word | state) / P(word | label)."""
    mine, label = use.words[:, state], use.words[:, first:last].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        merit = mine * np.log(mine * label.sum() / (label * mine.sum()))
    if last - first == 1:
        merit = mine
    merit = np.where(np.isfinite(merit), merit, 0.0)
    best = np.argsort(-merit, kind="stable")[:top].tolist()
    return [(use.values[v], float(mine[v])) for v in best if merit[v] > 0 and mine[v] >= SEEN]


# -- use on data ---------------------------------------------------------------------------------------------------


def expected_use(model: LinearModel, corpora: Sequence[Any]) -> Use:
    """How often the model expects each state, each move between two, and (of a Corpus) each word in each state; of a
    model without probabilities, how often they are on its best paths."""
    S = model.space_.n_states
    states, moves = np.zeros(S), np.zeros((S + 1, S + 1))
    index: dict[str, int] = {}
    words = np.zeros((0, S))

    def question(n: int, lattice: Lattice) -> tuple[Array, Array]:
        if not model.probabilistic:
            return _best_use(lattice)
        sums = posterior(lattice)
        return state_marginals(sums.nodes, lattice.graph), _moves(lattice, sums)

    for corpus in corpora:
        for piece in _pieces(corpus):
            answers = model._each(piece, question, (np.zeros((0, S)), np.zeros((S + 1, S + 1))))
            for _, found in answers:
                moves += found
            tokens = np.concatenate([rows for rows, _ in answers])  # [T, S]
            states += tokens.sum(axis=0)
            if isinstance(piece, Corpus):
                name = piece.input_names[0]
                codes = np.array([index.setdefault(value, len(index)) for value in piece.values(name)], np.int64)
                words = np.concatenate([words, np.zeros((len(index) - len(words), S))])
                np.add.at(words, codes[piece.codes(name)], tokens)
    return Use(states, moves, words, list(index))


def _best_use(lattice: Lattice) -> tuple[Array, Array]:
    """The states [T, S] and moves [S+1, S+1] of the best path."""
    graph, S = lattice.graph, lattice.graph.n_states
    states = graph.state[best_path(lattice)[0]]
    moves = np.zeros((S + 1, S + 1))
    np.add.at(moves, (np.append(S, states), np.append(states, S)), 1.0)
    rows: Array = np.eye(S)[states]
    return rows, moves


def _moves(lattice: Lattice, sums: Posterior) -> Array:
    """Expected number of moves between every two states, into the first and out of the last one [S+1, S+1]."""
    graph, S = lattice.graph, lattice.graph.n_states
    total = np.zeros((S + 1, S + 1))
    ends = state_marginals(sums.nodes[[0, -1]], graph)
    total[S, :S], total[:S, S] = ends[0], ends[1]
    if graph.order == 1:
        total[:S, :S] = posterior_arcs(lattice, sums, by_token=False).reshape(S, S)
    else:  # a node is a move
        inner = graph.previous >= 0
        total[graph.previous[inner], graph.state[inner]] = sums.nodes[:, inner].sum(axis=0)
    return total


def path_mass(model: LinearModel, X: Any, n: int = 2000) -> Array:
    """The probability of the best 1, 2, ... n latent paths together, mean over the sentences [n] (Sun & Tsujii 2009,
    figure 2)."""
    if n < 1:
        raise OptionError(f"paths: expected 1 or more, got {n}")
    if not model.probabilistic:
        raise OptionError(f"path_mass: a {type(model).__name__} has scores, not probabilities: its paths have no mass")

    def question(_: int, lattice: Lattice) -> Array:
        scores = best_paths(lattice, n)[1]
        mass = np.ones(n)
        mass[: len(scores)] = np.minimum(1.0, np.cumsum(np.exp(scores - posterior(lattice).log_z)))
        return mass

    total, sentences = np.zeros(n), 0
    for piece in _pieces(X):
        for mass in model._each(piece, question, np.ones(n)):
            total += mass
            sentences += 1
    return total / max(1, sentences)


def _pieces(X: Any) -> Iterator[Any]:
    """Some sentences at a time, so that memory stays bounded."""
    for a in range(0, len(X), PIECE):
        yield X.take(slice(a, a + PIECE)) if isinstance(X, Corpus) else X[a : a + PIECE]
