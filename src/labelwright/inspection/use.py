"""How a tagger uses its labels and latent states: on data, or as far as their weights tell."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus
from labelwright.decode.paths import best_paths
from labelwright.errors import OptionError
from labelwright.inspection.names import feature_names
from labelwright.structures.lattice import (
    Lattice,
    Posterior,
    best_path,
    posterior_arcs,
    state_marginals,
)
from labelwright.structures.states import state_names
from labelwright.wording import plain

Array = NDArray[Any]
OUTSIDE = "(outside)"  # what precedes the first token and follows the last
PIECE = 500  # sentences that are counted at a time
SEEN = 0.5  # a word that is expected less often tells nothing about a state
NOTHING = 1e-13  # expected counts that are left out
WORDS = 1 << 31  # columns of a table of words

Ranked = list[tuple[str, float]]


class StateView(NamedTuple):
    """One label, or one latent state of a label, as its weights or its use on data show it."""

    state: str
    label: str
    # of the label's tokens (labels without latent states: of all tokens); see `latent_states`
    share: float
    words: Ranked  # typical words with their expected counts; empty without data
    features: Ranked  # by how much their weight exceeds the mean of the label's other states
    before: Ranked  # probability of what precedes it or, without data, weight of the transition
    after: Ranked


def describe_use(model: Any, corpora: Sequence[Any], top: int) -> dict[str, Any]:
    """The labels or latent states of a tagger with weights by their use on data, ready for JSON."""
    if model._trained.segments is not None:
        return answered_use(model, corpora, top, probabilistic=True)
    use = expected_use(model, corpora)
    if model._space.latent:
        return {"latent": plain(latent_states(model, use, top))}
    return {"use": plain(label_views(use, model._space.labels, top))}


def answered_use(
    model: Any, corpora: Sequence[Any], top: int, probabilistic: bool = False
) -> dict[str, Any]:
    """The same of any tagger, by its answers alone."""
    use = label_use(model, corpora, probabilistic)
    return {"use": plain(label_views(use, list(map(str, model.classes_)), top))}


# -- counts ----------------------------------------------------------------------------------------


class Counts:
    """A table of sums of which most are 0: thousands of labels take little memory."""

    def __init__(self, n_columns: int):
        self.n_columns = n_columns
        self._code: Array = np.empty(0, np.int64)
        self._value: Array = np.empty(0)

    def add(self, row: Array, column: Array, value: Array) -> None:
        """Add numbers to some cells."""
        code = np.concatenate([self._code, np.asarray(row, np.int64) * self.n_columns + column])
        self._code, place = np.unique(code, return_inverse=True)
        self._value = np.bincount(place, np.concatenate([self._value, value]), len(self._code))

    def rows(self, begin: int, end: int) -> tuple[Array, Array]:
        """The columns of some rows, and their sums."""
        a, b = np.searchsorted(self._code, [begin * self.n_columns, end * self.n_columns])
        return self._code[a:b] % self.n_columns, self._value[a:b]

    def table(self) -> Array:
        """All of a square table, zeros included."""
        table = np.zeros((self.n_columns, self.n_columns))
        table.reshape(-1)[self._code] = self._value
        return table


Cells = tuple[Array, Array, Array]  # rows, columns, and what is there


class SentenceUse(NamedTuple):
    """What one sentence uses: how much of each state its tokens are, and how often two states
    follow each other, of which S is outside the sentence."""

    n_tokens: int
    states: Cells
    transitions: Cells


class Use:
    """Expected counts on data, or counts on best paths, of S states."""

    def __init__(self, n_states: int) -> None:
        self.states = np.zeros(n_states)  # [S]
        # a row for each state: what is beside it
        self.before, self.after = Counts(n_states + 1), Counts(n_states + 1)
        self._words = Counts(WORDS)
        self._index: dict[str, int] = {}

    def add(self, sentences: Any, uses: Sequence[SentenceUse]) -> None:
        """Add some sentences."""
        begins = offsets_from([use.n_tokens for use in uses])[:-1].tolist()
        token = np.concatenate(
            [begin + use.states[0] for begin, use in zip(begins, uses, strict=True)]
        )
        state, share = (np.concatenate([use.states[k] for use in uses]) for k in (1, 2))
        first, second, often = (
            np.concatenate([use.transitions[k] for use in uses]) for k in range(3)
        )
        self.states += np.bincount(state, share, len(self.states))
        self.after.add(first, second, often)
        self.before.add(second, first, often)
        if isinstance(sentences, Corpus):  # only files have words
            name, index = sentences.input_names[0], self._index
            number = np.array(
                [index.setdefault(word, len(index)) for word in sentences.values(name)], np.int64
            )
            self._words.add(state, number[sentences.codes(name)[token]], share)

    @property
    def values(self) -> list[str]:
        """The words [V]."""
        return list(self._index)

    def words_of(self, begin: int, end: int) -> Array:
        """How often each word [V] is in one of some states."""
        return np.bincount(*self._words.rows(begin, end), len(self._index))

    def beside(self, state: int, names: Sequence[str], top: int) -> tuple[Ranked, Ranked]:
        """The most frequent states before a state, and after it, with their shares."""
        sides = [counts.rows(state, state + 1) for counts in (self.before, self.after)]
        before, after = (
            _ranked(_shares(n), [names[s] for s in others], top, 0.0) for others, n in sides
        )
        return before, after


def expected_use(model: Any, corpora: Sequence[Any]) -> Use:
    """How often the model expects each state, each transition between two, and (of a Corpus) each
    word in each state; of a model without probabilities, how often they are on its best paths."""
    S = model._space.n_states
    used = _used_candidates if model._trained.pruning is not None else _used

    def use_of(batch: Any) -> list[SentenceUse]:
        nothing = _on_path(np.empty(0, np.int64), S)
        return [
            nothing if sentence is None else used(sentence, S, model._probabilistic)
            for sentence in batch
        ]

    return _counted(S, corpora, lambda piece: model._ask(piece, use_of))


def label_use(model: Any, corpora: Sequence[Any], probabilistic: bool) -> Use:
    """How often any tagger uses its labels, by its public answers alone: words and shares by the
    marginals where it is probabilistic, else (and all transitions) on the best labellings."""
    labels, L = list(model.classes_), len(model.classes_)
    number = {label: code for code, label in enumerate(labels)}

    def use_of(piece: Any) -> list[SentenceUse]:
        uses = [
            _on_path(np.array([number[label] for label in row], np.int64), L)
            for row in model.predict(piece)
        ]
        if not probabilistic:
            return uses
        tables = [
            [[token[label] for label in labels] for token in row]
            for row in model.predict_marginals(piece)
        ]
        shares = [_cells(np.reshape(np.array(table, np.float64), (-1, L))) for table in tables]
        return [use._replace(states=states) for use, states in zip(uses, shares, strict=True)]

    return _counted(L, corpora, use_of)


def _counted(
    n_states: int, corpora: Sequence[Any], use_of: Callable[[Any], list[SentenceUse]]
) -> Use:
    use = Use(n_states)
    for corpus in corpora:
        for piece in pieces(corpus):
            use.add(piece, use_of(piece))
    return use


def _cells(table: Array) -> Cells:
    row, column = np.nonzero(table > NOTHING)
    return row, column, table[row, column]


def _on_path(path: Array, S: int) -> SentenceUse:
    T = len(path)
    steps = (
        (np.append(S, path), np.append(path, S), np.ones(T + 1)) if T else (path, path, np.empty(0))
    )
    return SentenceUse(T, (np.arange(T), path, np.ones(T)), steps)


def _used(sentence: Any, S: int, probabilistic: bool) -> SentenceUse:
    """What one sentence is expected to use; without probabilities, what its best path uses."""
    lattice = sentence.lattice
    if not probabilistic:
        return _on_path(lattice.graph.state[best_path(lattice)[0]], S)
    transitions = _expected_transitions(lattice, sentence.sums)
    return SentenceUse(len(lattice.node), _cells(sentence.state_marginals()), _cells(transitions))


def _used_candidates(sentence: Any, S: int, probabilistic: bool) -> SentenceUse:
    """The same of a sentence whose labels are pruned: of its candidates."""
    ptr, arc, before, label = sentence.pairs  # arcs by their token, with the label before
    p, token = sentence._sums.arcs[arc], np.repeat(np.arange(len(sentence)), np.diff(ptr))
    at_end = token == len(sentence) - 1
    first, second = np.append(before, label[at_end]), np.append(label, np.full(at_end.sum(), S))
    return SentenceUse(len(sentence), (token, label, p), (first, second, np.append(p, p[at_end])))


def _expected_transitions(lattice: Lattice, sums: Posterior) -> Array:
    """Expected number of transitions between every two states, into the first and out of the last
    one [S+1, S+1]."""
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


# -- labels and latent states ----------------------------------------------------------------------


def label_views(use: Use, labels: Sequence[str], top: int) -> list[StateView]:
    """Every label as the data show it, the most frequent first."""
    names, total, views = [*labels, OUTSIDE], use.words_of(0, len(labels)), []
    for k, share in enumerate(_shares(use.states).tolist()):
        typical = _typical_words(use.words_of(k, k + 1), total, use.values, top)
        views.append(
            StateView(labels[k], labels[k], share, typical, [], *use.beside(k, names, top))
        )
    return sorted(views, key=lambda view: -view.share)


def latent_states(model: Any, use: Use | None = None, top: int = 5) -> list[StateView]:
    """Every state of the model, label by label and the most used first; with `use` as the data show
    them.

    Without it, the share of a state is that of the label's features whose largest weight is its
    own."""
    space, names, feature_name = (
        model._space,
        state_names(model._space),
        feature_names(model._extractor),
    )
    S, parts = space.n_states, model._parameters.slices
    arcs = np.where(space.arc, model.weights_[parts["transitions"]].reshape(S, S), -np.inf)
    views = []
    for label, first, last in zip(
        space.labels, space.first[:-1].tolist(), space.first[1:].tolist(), strict=True
    ):
        feature, weights = _block(model, first, last)
        share = _favoured(weights) if use is None else _shares(use.states[first:last])
        others = (weights.sum(axis=1, keepdims=True) - weights) / max(1, last - first - 1)
        relative = weights - others  # [M, H]  to the mean weight of the label's other states
        mine = []
        for h, state in enumerate(range(first, last)):
            words: Ranked = []
            if use is None:
                beside = _ranked(arcs[:, state], names, top), _ranked(arcs[state], names, top)
            else:
                beside = use.beside(state, [*names, OUTSIDE], top)
                counts = use.words_of(state, state + 1)
                # what tells it from the label's other states; else its frequent words
                if last - first > 1:
                    words = _typical_words(counts, use.words_of(first, last), use.values, top)
                else:
                    words = [
                        (word, n) for word, n in _ranked(counts, use.values, top, 0.0) if n >= SEEN
                    ]
            best = np.argsort(-relative[:, h], kind="stable")[:top].tolist()
            features = [
                (feature_name(int(feature[k])), float(relative[k, h]))
                for k in best
                if relative[k, h] > 0
            ]
            mine.append(StateView(names[state], label, float(share[h]), words, features, *beside))
        views += sorted(mine, key=lambda view: -view.share)
    return views


def _block(model: Any, first: int, last: int) -> tuple[Array, Array]:
    """The features that a label's states first:last have weights for [M], and these weights [M,
    H]."""
    cells = model._parameters.cells.get("state")
    if cells is None:
        return np.zeros(0, np.int64), np.zeros((0, last - first))
    mine = np.flatnonzero((cells.column >= first) & (cells.column < last))
    feature, row = np.unique(
        np.searchsorted(cells.ptr, mine, side="right") - 1, return_inverse=True
    )
    weights = np.zeros((len(feature), last - first))
    weights[row, cells.column[mine] - first] = model.weights_[model._parameters.slices["state"]][
        mine
    ]
    return feature, weights


def _favoured(weights: Array) -> Array:
    """The share of the features whose largest weight is that of each state [H]; equal shares where
    there are none.

    >>> _favoured(np.array([[3.0, 1.0], [0.5, 0.0], [0.0, 2.0], [1.0, 1.0]])).round(2).tolist()
    [0.67, 0.33]
    """
    H = weights.shape[1]
    telling = weights[weights.max(axis=1, initial=-np.inf) > weights.min(axis=1, initial=np.inf)]
    counts = np.bincount(telling.argmax(axis=1), minlength=H).astype(np.float64)
    return _shares(counts) if len(telling) else np.full(H, 1.0 / max(1, H))


def _typical_words(mine: Array, all_: Array, values: Sequence[str], top: int) -> Ranked:
    """The words [V] that tell a state from all that it is compared with: count times log P(word |
    state) / P(word)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        merit = mine * np.log(mine * all_.sum() / (all_ * mine.sum()))
    merit = np.where(np.isfinite(merit), merit, 0.0)
    best = np.argsort(-merit, kind="stable")[:top].tolist()
    return [(values[v], float(mine[v])) for v in best if merit[v] > 0 and mine[v] >= SEEN]


def _shares(counts: Array) -> Array:
    """Counts as shares of their sum; zeros where nothing was counted, as of a state that is on no
    best path."""
    total = counts.sum()
    shares: Array = counts / total if total > 0 else np.zeros(len(counts))
    return shares


def _ranked(values: Array, names: Sequence[str], top: int, above: float = -np.inf) -> Ranked:
    """The names of the largest values."""
    chosen = np.argsort(-values, kind="stable")[:top].tolist()
    return [(names[k], float(values[k])) for k in chosen if values[k] > above]


def pieces(X: Any) -> Iterator[Any]:
    """Some sentences at a time, so that memory stays bounded."""
    for a in range(0, len(X), PIECE):
        yield X.take(slice(a, a + PIECE)) if isinstance(X, Corpus) else X[a : a + PIECE]


# -- probability of paths --------------------------------------------------------------------------


def path_mass(model: Any, X: Any, n: int = 2000) -> Array:
    """The probability of the best 1, 2, ... n paths together, mean over the sentences [n]: of
    latent paths, or of labellings where there are no latent states (Sun & Tsujii 2009, figure
    2)."""
    if n < 1:
        raise OptionError(f"paths: expected 1 or more, got {n}")
    if not model._probabilistic:
        raise OptionError(
            f"path_mass: a {type(model).__name__} has scores, not probabilities: its paths have "
            "none"
        )

    def best_of(sentence: Any) -> Array:
        if sentence is None:
            return np.ones(1)
        best: Array = np.exp(np.minimum(0.0, best_paths(sentence.lattice, n)[1] - sentence.log_z()))
        return best

    total = np.zeros(n)
    for piece in pieces(X):
        if not model._trained.space.latent:
            probabilities = [
                np.array([p for _, p in best]) for best in model.predict_nbest(piece, n)
            ]
        else:
            probabilities = model._ask(
                piece, lambda batch: [best_of(sentence) for sentence in batch]
            )
        for each in probabilities:
            mass = np.ones(n)  # also where a sentence has fewer paths
            mass[: len(each)] = np.minimum(1.0, np.cumsum(each))
            total += mass
    return total / max(1, len(X))
