"""How often a tagger uses each label or state on data, with the words and the neighbours of each."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Corpus

Array = NDArray[Any]
OUTSIDE = "(outside)"  # what precedes the first token and follows the last
PIECE = 500  # sentences that are counted at a time
SEEN = 0.5  # a word that is expected less often tells nothing about a state

Ranked = list[tuple[str, float]]


class StateView(NamedTuple):
    """One label, or one latent state of a label, as its weights or its use on data show it."""

    state: str
    label: str
    share: float  # of the label's tokens (labels without latent states: of all tokens); see `latent_states`
    words: Ranked  # typical words with their expected counts; empty without data
    features: Ranked  # by how much their weight exceeds the mean of the label's other states
    before: Ranked  # probability of what precedes it or, without data, weight of the transition
    after: Ranked


class Use(NamedTuple):
    """Expected counts on data, or counts on best paths (index S: outside the sentence)."""

    states: Array  # [S]
    transitions: Array  # [S+1, S+1]
    words: Array  # [V, S]
    values: list[str]  # [V]


class Counter:
    """Sums up the use of S states, piece by piece."""

    def __init__(self, n_states: int) -> None:
        self.states = np.zeros(n_states)  # [S]
        self.transitions = np.zeros((n_states + 1, n_states + 1))
        self._words = np.zeros((0, n_states))  # [V, S]
        self._index: dict[str, int] = {}

    def add(self, sentences: Any, tokens: Array, transitions: Array) -> None:
        """Add some sentences: how much of each token [T, S] is in each state, and the transitions [S+1, S+1]."""
        self.states += tokens.sum(axis=0)
        self.transitions += transitions
        if not isinstance(sentences, Corpus):  # only files have words
            return
        name = sentences.input_names[0]
        index = self._index
        codes = np.array([index.setdefault(value, len(index)) for value in sentences.values(name)], np.int64)
        self._words = np.concatenate([self._words, np.zeros((len(index) - len(self._words), tokens.shape[1]))])
        np.add.at(self._words, codes[sentences.codes(name)], tokens)

    @property
    def use(self) -> Use:
        return Use(self.states, self.transitions, self._words, list(self._index))


def label_use(model: Any, corpora: Sequence[Any], labels: Sequence[str], probabilistic: bool) -> Use:
    """How often any tagger uses its labels, by its public answers alone: words and shares by the marginals where it is
    probabilistic, else (and all transitions) on the best labellings."""
    number, L = {label: code for code, label in enumerate(labels)}, len(labels)
    counter = Counter(L)
    for corpus in corpora:
        for piece in pieces(corpus):
            best = [[number[label] for label in row] for row in model.predict(piece)]
            transitions = np.zeros((L + 1, L + 1))
            for row in best:
                if row:
                    np.add.at(transitions, ([L, *row], [*row, L]), 1.0)
            if probabilistic:
                answers = [token for sentence in model.predict_marginals(piece) for token in sentence]
                tokens = np.array([[token[label] for label in labels] for token in answers])
            else:
                tokens = np.eye(L)[[code for row in best for code in row]]
            counter.add(piece, tokens.reshape(-1, L), transitions)
    return counter.use


def label_views(use: Use, labels: Sequence[str], top: int) -> list[StateView]:
    """Every label as the data show it, the most frequent first."""
    around, total = [*labels, OUTSIDE], use.words.sum(axis=1)
    views = []
    for k, share in enumerate(shares(use.states).tolist()):
        words = typical_words(use.words[:, k], total, use.values, top)
        before = ranked(shares(use.transitions[:, k]), around, top, 0.0)
        after = ranked(shares(use.transitions[k]), around, top, 0.0)
        views.append(StateView(labels[k], labels[k], share, words, [], before, after))
    return sorted(views, key=lambda view: -view.share)


def typical_words(mine: Array, all_: Array, values: Sequence[str], top: int) -> Ranked:
    """The words [V] that tell a state from all that it is compared with: count times log P(word | state) / P(word)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        merit = mine * np.log(mine * all_.sum() / (all_ * mine.sum()))
    merit = np.where(np.isfinite(merit), merit, 0.0)
    best = np.argsort(-merit, kind="stable")[:top].tolist()
    return [(values[v], float(mine[v])) for v in best if merit[v] > 0 and mine[v] >= SEEN]


def shares(counts: Array) -> Array:
    """Counts as shares of their sum; zeros where nothing was counted, as of a state that is on no best path."""
    total = counts.sum()
    result: Array = counts / total if total > 0 else np.zeros(len(counts))
    return result


def ranked(values: Array, names: Sequence[str], top: int, above: float = -np.inf) -> Ranked:
    """The names of the largest values."""
    chosen = np.argsort(-values, kind="stable")[:top].tolist()
    return [(names[k], float(values[k])) for k in chosen if values[k] > above]


def pieces(X: Any) -> Iterator[Any]:
    """Some sentences at a time, so that memory stays bounded."""
    for a in range(0, len(X), PIECE):
        yield X.take(slice(a, a + PIECE)) if isinstance(X, Corpus) else X[a : a + PIECE]
