"""Why taggers over label n-grams label a token as they do: the predictions that overlap there, and what they weigh.

csi: the weight of the satisfied constraints of one labelling minus that of the other.  vote: the votes for one label
minus those for the other.  none: the share of the classes with one label minus that of those with the other.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.csi import csi
from labelwright.inspection.explanation import (
    CONSTRAINT,
    SHARE,
    VOTES,
    WEIGHT,
    Asked,
    Contribution,
    Explanation,
    check_against,
    checked_tokens,
    ordered,
)
from labelwright.structures.distributions import Distributions
from labelwright.structures.proposals import Proposals

Array = NDArray[Any]
MEASURES = {"csi": WEIGHT, "vote": VOTES, "none": SHARE}


class RunnerUp(NamedTuple):
    """The best alternative at one token, and why the label is preferred to it."""

    label: int
    difference: float
    labels: Array | None  # the whole labelling, where there is one
    contributions: list[Contribution]


class Predictions(NamedTuple):
    """What is predicted for one sentence, and what inference makes of it."""

    distributions: Distributions
    proposals: Proposals
    labels: list[Any]
    score: float


def explain(model: Any, predictions: Predictions, words: Sequence[str | None], asked: Asked) -> list[Explanation]:
    """Explain the labels of one sentence by a tagger over label n-grams."""
    check_against(asked, model.labels_)
    sentence = _Sentence(model, predictions, words, asked)
    return [sentence.explained(t) for t in checked_tokens(asked, len(words))]


class _Sentence:
    """The predictions for one sentence, and the labelling that inference makes of them."""

    def __init__(self, model: Any, predictions: Predictions, words: Sequence[str | None], asked: Asked):
        self.model, self.words, self.asked = model, words, asked
        self.distributions, self.proposals, self.labels, self.score = predictions
        self.half = self.proposals.order // 2
        index = {label: code for code, label in enumerate(model.labels_)}
        self.codes = np.array([index[label] for label in self.labels], np.int32)
        self.against = None if asked.against is None else index[asked.against]

    def explained(self, t: int) -> Explanation:
        """The explanation of one token."""
        find = {"csi": self._by_constraints, "vote": self._by_votes, "none": self._by_shares}[self.model.inference]
        found, names = find(t), self.model.labels_
        blank = Explanation(
            token=t,
            word=self.words[t],
            label=self.labels[t],
            runner_up=None,
            measure=MEASURES[self.model.inference],
            log_odds=None,
            probability=None,
            runner_up_probability=None,
            labels=self.labels,
            runner_up_labels=None,
            contributions=[],
            details=self._details(t),
        )
        if found is None:
            return blank
        return blank._replace(
            runner_up=names[found.label],
            log_odds=found.difference,
            runner_up_labels=None if found.labels is None else [names[code] for code in found.labels.tolist()],
            contributions=ordered(found.contributions),
        )

    # -- csi ----------------------------------------------------------------------------------------------------------

    def _by_constraints(self, t: int) -> RunnerUp | None:
        """The best labelling among those with another candidate at this token."""
        others = self._others(t)
        if not others:
            return None
        wide = max(len(others), self.proposals.domains.shape[1])
        domains = np.full((len(self.codes), wide), -1, np.int32)
        domains[:, : self.proposals.domains.shape[1]] = self.proposals.domains
        sizes = self.proposals.sizes.copy()
        domains[t, : len(others)], sizes[t] = others, len(others)
        changed = self.proposals._replace(domains=domains, sizes=sizes)
        best = csi(changed, self.model._allowed(self.asked.constraints))
        if best.scores[0] == -np.inf:
            return None
        difference = float(self.score - best.scores[0])
        return RunnerUp(int(best.labels[t]), difference, best.labels, self._constraints(best.labels))

    def _others(self, t: int) -> list[int]:
        """The other candidates of a token; where there are none, what any class of the distributions names there."""
        mine, size = int(self.codes[t]), int(self.proposals.sizes[t])
        if self.against is not None and self.against != mine:
            return [self.against]
        others = [code for code in self.proposals.domains[t, :size].tolist() if code != mine]
        return others or [code for code in self._named(t) if code != mine]

    def _named(self, t: int) -> dict[int, float]:
        """The labels that the distributions of the tokens around name for a token, with their shares."""
        named: dict[int, float] = {}
        for s in self._around(t):
            for c, share in self._shares(s).items():
                label = int(self.model.grams_[c, t - s + self.half])
                if label >= 0:
                    named[label] = named.get(label, 0.0) + share
        return named

    def _around(self, t: int) -> range:
        """The tokens whose prediction covers this one."""
        return range(max(0, t - self.half), min(len(self.words), t + self.half + 1))

    def _constraints(self, other: Array) -> list[Contribution]:
        """Every constraint that only one of the two labellings satisfies."""
        made = []
        weights, grams = self.proposals.weights, self.proposals.grams
        for s, i, j in np.argwhere(weights > 0).tolist():
            gram, tokens = grams[s, i : j + 1], slice(s + i - self.half, s + j - self.half + 1)
            holds = bool((self.codes[tokens] == gram).all()), bool((other[tokens] == gram).all())
            if holds[0] != holds[1]:
                weight = float(weights[s, i, j])
                one, two = (weight if each else 0.0 for each in holds)
                name = f"{self._names(gram)} by {self._word(s)}"
                made.append(Contribution(name, CONSTRAINT, tokens.start, tokens.stop, one - two, one, two))
        return made

    # -- votes --------------------------------------------------------------------------------------------------------

    def _by_votes(self, t: int) -> RunnerUp | None:
        """The label with the most votes besides the one that won."""
        votes = self._votes(t)
        mine = int(self.codes[t])
        counts = {label: sum(1 for _, each in votes if each == label) for _, label in votes}
        runner_up = self._second(mine, counts if len(counts) > 1 else self._named(t))
        if runner_up is None:
            return None
        made = []
        for s, label in votes:
            one, two = float(label == mine), float(label == runner_up)
            name = f"{self._names(np.array([label]))} by {self._word(s)}"
            made.append(Contribution(name, CONSTRAINT, t, t + 1, one - two, one, two))
        return RunnerUp(runner_up, float(counts.get(mine, 0) - counts.get(runner_up, 0)), None, made)

    def _votes(self, t: int) -> list[tuple[int, int]]:
        """The tokens whose prediction covers this one, and the label that each names."""
        named = [(s, int(self.proposals.grams[s, t - s + self.half])) for s in self._around(t)]
        return [(s, label) for s, label in named if label >= 0]

    def _second(self, mine: int, weights: dict[int, float] | dict[int, int]) -> int | None:
        if self.against is not None and self.against != mine:
            return self.against
        others = {label: weight for label, weight in weights.items() if label != mine}
        return max(others, key=lambda label: others[label]) if others else None

    # -- shares -------------------------------------------------------------------------------------------------------

    def _by_shares(self, t: int) -> RunnerUp | None:
        """The label with the largest share of the classifier's distribution besides the one that won."""
        mine, shares = int(self.codes[t]), self._shares(t)
        middle = {c: int(self.model.grams_[c, self.half]) for c in shares}
        totals: dict[int, float] = {}
        for c, share in shares.items():
            totals[middle[c]] = totals.get(middle[c], 0.0) + share
        runner_up = self._second(mine, totals)
        if runner_up is None:
            return None
        made = []
        for c, share in shares.items():
            one, two = share * (middle[c] == mine), share * (middle[c] == runner_up)
            made.append(
                Contribution(f"class {self._names(self.model.grams_[c])}", CONSTRAINT, t, t + 1, one - two, one, two)
            )
        return RunnerUp(runner_up, totals.get(mine, 0.0) - totals.get(runner_up, 0.0), None, made)

    def _shares(self, t: int) -> dict[int, float]:
        """The share of each class in the distribution of a token, the largest first."""
        a, b = self.distributions.ptr[t : t + 2].tolist()
        weights = self.distributions.weights[a:b]
        shares = dict(zip(self.distributions.classes[a:b].tolist(), (weights / weights.sum()).tolist(), strict=True))
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    # -- details ------------------------------------------------------------------------------------------------------

    def _details(self, t: int) -> dict[str, Any]:
        """The predictions that cover a token, with the distribution of its own."""
        proposals = [
            {
                "token": s,
                "word": self.words[s],
                "labels": self._gram(self.proposals.grams[s]),
                "confidence": float(self.proposals.confidence[s]),
            }
            for s in self._around(t)
        ]
        a, b = self.distributions.ptr[t : t + 2].tolist()
        votes = float(self.distributions.weights[a:b].sum())
        classes = [
            {"labels": self._gram(self.model.grams_[c]), "share": share, "votes": share * votes}
            for c, share in self._shares(t).items()
        ]
        return {"inference": self.model.inference, "proposals": proposals, "classes": classes}

    def _gram(self, gram: Array) -> list[Any]:
        """Labels; None outside the sentence."""
        return [self.model.labels_[code] if code >= 0 else None for code in gram.tolist()]

    def _names(self, gram: Array) -> str:
        return " ".join("_" if label is None else str(label) for label in self._gram(gram))

    def _word(self, s: int) -> str:
        return f"token {s}" if self.words[s] is None else f"{self.words[s]!r}"
