"""The simplest tagger to write: one that gives scores of labels and transitions, and inherits every
answer."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.answers.chains import CHAIN_DECODERS, Chains, decoder_options
from labelwright.corpus.token_records import listed
from labelwright.errors import OptionError
from labelwright.scoring.assembly import bounds_of
from labelwright.structures.states import StateSpace, state_space
from labelwright.taggers.arguments import Known, Question, permitted_labels
from labelwright.taggers.base import FORCED, NBEST, PROBABILITY, RULES, Tagger

Array = NDArray[Any]
R = TypeVar("R")


class LabelScores(NamedTuple):
    """Scores of labels and transitions: logarithms of probabilities, up to a constant for each
    sentence."""

    labels: Array  # [T, S]  of every state at every token
    transitions: Array  # [S, S]
    offsets: Array  # [N+1]  where the sentences begin
    space: StateSpace


@dataclass(frozen=True, slots=True, eq=False)
class ScoredSentences:
    """Sentences that one tagger has scored; the length is their number."""

    scores: LabelScores
    owner: Any  # the labels of one fit

    def __len__(self) -> int:
        return len(self.scores.offsets) - 1


class ChainTagger(Tagger):
    """A tagger over a chain of labels; subclasses learn (labels_, scheme_), and score sentences
    (`label_scores`)."""

    can: ClassVar[frozenset[str]] = frozenset({PROBABILITY, NBEST, FORCED, RULES})
    decoders: ClassVar[tuple[str, ...]] = CHAIN_DECODERS

    labels_: list[str]

    def label_scores(self, X: Any) -> LabelScores:
        """The scores of sentences."""
        raise NotImplementedError

    def _is_fitted(self) -> bool:
        return "labels_" in self.__dict__

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of first appearance in the training data."""
        self._check_fitted()
        return list(self.labels_)

    def encode(self, X: Any) -> ScoredSentences:
        """Score sentences once; every method but `fit` takes the result in place of X."""
        self._check_fitted()
        if isinstance(X, ScoredSentences):
            if X.owner is not self.labels_:
                raise OptionError(
                    "the encoded data belong to another model; encode them with this one"
                )
            return X
        sentences = listed(X)
        if isinstance(sentences, list | tuple) and not any(map(len, sentences)):
            L, none = len(self.labels_), np.zeros(len(sentences) + 1, np.int64)
            scores = LabelScores(
                np.empty((0, L)), np.zeros((L, L)), none, state_space(self.labels_)
            )
            return ScoredSentences(scores, self.labels_)
        return ScoredSentences(self.label_scores(sentences), self.labels_)

    def _ask(
        self, X: Any, question: Question[R], forced: Known = None, constraints: str | None = None
    ) -> list[R]:
        node, transitions, offsets, space = self.encode(X).scores
        permitted = permitted_labels(forced, offsets, space.labels)
        if constraints is not None:
            space = space.constrained(self._scheme(constraints))
            transitions = np.where(space.arc, transitions, -np.inf)
        node = np.array(node, np.float64)
        tokens = np.diff(offsets) > 0
        node[np.ix_(offsets[:-1][tokens], np.flatnonzero(~space.start))] = -np.inf
        node[np.ix_(offsets[1:][tokens] - 1, np.flatnonzero(~space.end))] = -np.inf
        arc = np.ascontiguousarray(transitions, np.float64).reshape(1, -1)
        chains = Chains(node, arc, bounds_of(offsets), space, self.scheme_)
        if permitted is not None:
            chains.restrict(permitted[:, space.label_of])
        return question(
            Batch(
                chains.sentences, probabilistic=self._probabilistic, calibration=self._calibration
            )
        )

    def _decoder_options(self, decoder: str) -> list[str]:
        return decoder_options(decoder)
