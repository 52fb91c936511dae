"""Why taggers with weights label a token as they do: differences of the scores of two labellings, weight by weight."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.features.incidence import Encoded
from labelwright.inspection.explanation import (
    LOG_ODDS,
    MARGIN,
    Asked,
    Explanation,
    Flip,
    check_against,
    checked_tokens,
    ordered,
)
from labelwright.inspection.label_counts import LabelCounts, latent_counts, path_counts, segment_counts
from labelwright.inspection.occurrences import Occurrences, copies, occurrences, without
from labelwright.inspection.weighed import WeighedSentence

Array = NDArray[Any]
SLACK = 1e-9  # a bound that is so close still counts
COPIED = 1 << 21  # features of copies of a sentence that are scored together


def explain(model: Any, data: Encoded, words: Sequence[str | None], asked: Asked) -> list[Explanation]:
    """Explain the labels of one encoded sentence by a tagger with weights."""
    check_against(asked, model.classes_)
    length = int(data.offsets[-1])
    tokens = checked_tokens(asked, length)
    if not tokens:
        return []
    sentence = _Sentence(model, data, asked.constraints)
    others = sentence.alternatives(tokens, asked.against)
    explained = [sentence.explained(t, words[t], other) for t, other in zip(tokens, others, strict=True)]
    return sentence.with_flips(explained) if asked.flips else explained


class _Sentence:
    """One sentence with its best labelling."""

    def __init__(self, model: Any, data: Encoded, constraints: str | None):
        self.model, self.data, self.constraints = model, data, constraints
        self.trained, self.length = model._trained, int(data.offsets[-1])
        self.listed = occurrences(data)
        self.weighed = WeighedSentence(self.trained, self.listed, self.length)
        self.best = self._decoded(data)[0]
        self.lattice = None
        if self.trained.space.latent:
            self.lattice = model._ask(data, lambda batch: [s.lattice for s in batch], None, constraints)[0]
        self.counts = self._counts(self.best.labels)
        self.scores = self.weighed.feature_scores(self.counts)
        self.marginals = None
        if model._is_sure:
            self.marginals = model._ask(data, lambda batch: batch.sure.marginals(), None, constraints)[0]

    def _decoded(self, data: Encoded, forced: Any = None) -> list[Any]:
        decoded: list[Any] = self.model.decode(data, forced=forced, constraints=self.constraints, probabilities=False)
        return decoded

    def _counts(self, labels: list[Any]) -> LabelCounts:
        """The counts of a labelling."""
        trained = self.trained
        if trained.segments is not None:
            return segment_counts(trained.segments, labels)
        index = {label: code for code, label in enumerate(trained.space.labels)}
        codes = np.array([index[label] for label in labels], np.int64)
        if self.lattice is not None:
            return latent_counts(self.lattice, codes, self.model._by_paths)
        return path_counts(codes, trained.space.n_states, trained.parameters.order)

    # -- the runner-up ------------------------------------------------------------------------------------------------

    def alternatives(self, tokens: list[int], against: Any) -> list[Any]:
        """For each token the best labelling with another label there; None where there is none."""
        forced = [self._forced(t, against) for t in tokens]
        try:
            return self._decoded(copies(self.data, len(tokens)), forced)
        except OptionError:  # at some token no other label is possible
            return [self._alternative(known) for known in forced]

    def _alternative(self, known: list[Any]) -> Any:
        try:
            return self._decoded(self.data, [known])[0]
        except OptionError:
            return None

    def _forced(self, t: int, against: Any) -> list[Any]:
        """Known labels that leave a token the others, or the one that is asked for."""
        label = self.best.labels[t]
        wanted = [against] if against not in (None, label) else [each for each in self.model.classes_ if each != label]
        return [wanted if s == t else None for s in range(self.length)]

    def explained(self, t: int, word: str | None, other: Any) -> Explanation:
        """The explanation of one token, given the best labelling with another label there."""
        label, measure = self.best.labels[t], LOG_ODDS if self.model._probabilistic else MARGIN
        runner_up = None if other is None else other.labels[t]
        blank = Explanation(
            t,
            word,
            label,
            runner_up,
            measure,
            None,
            self._chance(t, label),
            self._chance(t, runner_up),
            self.best.labels,
            None,
            [],
        )
        if other is None:
            return blank
        contributions = self.weighed.contributions(self.counts, self.scores, self._counts(other.labels))
        return blank._replace(
            log_odds=float(self.best.score - other.score),
            runner_up_labels=other.labels,
            contributions=ordered(contributions),
        )

    def _chance(self, t: int, label: Any) -> float | None:
        """The probability of (or the confidence in) a label at a token, where there is one."""
        return None if self.marginals is None or label is None else float(self.marginals[t][label])

    # -- flips --------------------------------------------------------------------------------------------------------

    def with_flips(self, explained: list[Explanation]) -> list[Explanation]:
        """The explanations with the features whose removal changes the label; only those that weigh as much as the
        log-odds can, and these are removed, one by one, from the sentence, which is scored again."""
        odds = [each.log_odds for each in explained if each.log_odds is not None]
        flips: list[list[Flip]] = [[] for _ in explained]
        candidates = self._removable(min(odds)) if odds else []
        size = max(1, sum(len(found.feature) for found in self.listed.values()))
        step = max(1, COPIED // size)
        for begin in range(0, len(candidates), step):
            part = candidates[begin : begin + step]
            for removed, decoded in zip(part, self._decoded(without(self.data, self.listed, part)), strict=True):
                self._add_flips(flips, explained, removed, decoded.labels)
        return [each._replace(flips=list(found)) for each, found in zip(explained, flips, strict=True)]

    def _removable(self, odds: float) -> list[tuple[str, int]]:
        """The occurrences (kind and place) that weigh enough, the heaviest first."""
        lost = self.weighed.most_lost(self.counts)
        chosen = [
            (float(amounts[place]), kind, place)
            for kind, amounts in lost.items()
            for place in np.flatnonzero((amounts >= odds - SLACK) & (amounts > 0)).tolist()
        ]
        return [(kind, place) for _, kind, place in sorted(chosen, key=lambda each: -each[0])]

    def _add_flips(
        self, flips: list[list[Flip]], explained: list[Explanation], removed: tuple[str, int], labels: list[str]
    ) -> None:
        kind, place = removed
        found: Occurrences = self.listed[kind]
        for each, mine in zip(explained, flips, strict=True):
            if labels[each.token] != each.label:
                begin, _ = self.weighed.place_of(kind, int(found.row[place]))
                name = self.weighed.name(int(found.feature[place]))
                mine.append(Flip(name, kind, begin, labels[each.token]))
