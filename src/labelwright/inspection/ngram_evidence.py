"""Why taggers over label n-grams label a token as they do: the predictions that overlap there, and
what they weigh.

csi: the weight of the satisfied constraints of one labelling minus that of the other.  vote: the
votes for one label minus those for the other.  none: the share of the classes with one label minus
that of those with the other.

A memory adds its nearest neighbours, with the training sentences they come from, and the values
without which it would answer otherwise.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.csi import csi
from labelwright.inspection.explanation import (
    Alternative,
    Asked,
    Contribution,
    Evidence,
    Explanation,
    contribution,
    gram_text,
)
from labelwright.memory.instances import Instances
from labelwright.memory.weights import entries_of
from labelwright.memory.windows import OUTSIDE, lines_of
from labelwright.structures.proposals import Distributions, Proposals

Array = NDArray[Any]
MEASURES = {"csi": "weight", "vote": "votes", "none": "share"}
REMOVED = "\0"  # a value that no memory holds
COPIED = 1 << 16  # tokens of copies of a sentence that are labelled together
SOURCES = 3  # sentences that are shown for neighbours with the same values


class Predictions(NamedTuple):
    """What is predicted for one sentence, and what inference makes of it."""

    distributions: Distributions
    proposals: Proposals
    labels: list[Any]
    score: float


class ProposedSentence(Evidence):
    """The predictions for one sentence, and the labelling that inference makes of them."""

    can_flip = False

    def __init__(
        self, model: Any, predictions: Predictions, words: Sequence[str | None], asked: Asked
    ):
        self.model, self.words, self.asked = model, words, asked
        self.distributions, self.proposals, self.labels, self.score = predictions
        self.measure, self.half = MEASURES[model.inference], self.proposals.order // 2
        index = {label: code for code, label in enumerate(model.labels_)}
        self.codes = np.array([index[label] for label in self.labels], np.int32)
        self.against = None if asked.against is None else index[asked.against]

    def alternatives(self, tokens: Sequence[int]) -> list[Alternative | None]:
        find = {"csi": self._by_constraints, "vote": self._by_votes, "none": self._by_shares}[
            self.model.inference
        ]
        return [find(t) for t in tokens]

    # -- csi ---------------------------------------------------------------------------------------

    def _by_constraints(self, t: int) -> Alternative | None:
        """The best labelling among those with another candidate at this token; where there is none,
        with what any class of the distributions names there."""
        mine, size = int(self.codes[t]), int(self.proposals.sizes[t])
        others = [code for code in self.proposals.domains[t, :size].tolist() if code != mine]
        others = others or [code for code in self._named(t) if code != mine]
        if self.against is not None and self.against != mine:
            others = [self.against]
        if not others:
            return None
        domains, sizes = self.proposals.domains, self.proposals.sizes.copy()
        missing = max(0, len(others) - domains.shape[1])
        domains = np.pad(domains, ((0, 0), (0, missing)), constant_values=-1)
        domains[t, : len(others)], sizes[t] = others, len(others)
        changed = self.proposals._replace(domains=domains, sizes=sizes)
        best = csi(changed, self.model._allowed(self.asked.constraints))
        if best.scores[0] == -np.inf:
            return None
        labels = [self.model.labels_[code] for code in best.labels.tolist()]
        return Alternative(
            labels[t], float(self.score - best.scores[0]), labels, self._constraints(best.labels)
        )

    def _named(self, t: int) -> dict[int, float]:
        """The labels that the distributions of the tokens around name for a token, with their
        shares."""
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
            one, two = (
                float(weights[s, i, j] * (codes[tokens] == gram).all())
                for codes in (self.codes, other)
            )
            name = f"{gram_text(self._gram(gram))} by {self._word(s)}"
            made.append(contribution(name, "constraint", tokens.start, tokens.stop, one, two))
        return made

    # -- votes and shares --------------------------------------------------------------------------

    def _by_votes(self, t: int) -> Alternative | None:
        """The label with the most votes besides the one that won; where all vote for that, what
        others name."""
        named = [(s, int(self.proposals.grams[s, t - s + self.half])) for s in self._around(t)]
        votes = [
            (f"{self.model.labels_[label]} by {self._word(s)}", label, 1.0)
            for s, label in named
            if label >= 0
        ]
        return self._by_sums(
            t, votes, self._named(t) if len({label for _, label, _ in votes}) == 1 else None
        )

    def _by_shares(self, t: int) -> Alternative | None:
        """The label with the largest share of the classifier's distribution besides the one that
        won."""
        grams = [(self.model.grams_[c], share) for c, share in self._shares(t).items()]
        votes = [
            (f"class {gram_text(self._gram(gram))}", int(gram[self.half]), share)
            for gram, share in grams
        ]
        return self._by_sums(t, votes)

    def _by_sums(
        self, t: int, votes: list[tuple[str, int, float]], others: dict[int, float] | None = None
    ) -> Alternative | None:
        """The label with the largest sum of votes (who, for which label, how much) besides the one
        that won."""
        mine, sums = int(self.codes[t]), dict[int, float]()
        for _, label, vote in votes:
            sums[label] = sums.get(label, 0.0) + vote
        rivals = {label: weight for label, weight in (others or sums).items() if label != mine}
        if self.against is not None and self.against != mine:
            rivals = {self.against: 1.0}
        if not rivals:
            return None
        rival = max(rivals, key=lambda label: rivals[label])
        made = []
        for who, label, vote in votes:
            made.append(
                contribution(
                    who, "constraint", t, t + 1, vote * (label == mine), vote * (label == rival)
                )
            )
        return Alternative(
            self.model.labels_[rival], sums.get(mine, 0.0) - sums.get(rival, 0.0), None, made
        )

    def _shares(self, t: int) -> dict[int, float]:
        """The share of each class in the distribution of a token, the largest first."""
        a, b = self.distributions.ptr[t : t + 2].tolist()
        weights = self.distributions.weights[a:b]
        shares = dict(
            zip(
                self.distributions.classes[a:b].tolist(),
                (weights / weights.sum()).tolist(),
                strict=True,
            )
        )
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    # -- details -----------------------------------------------------------------------------------

    def details(self, t: int) -> dict[str, Any]:
        """The predictions that cover a token, with the distribution of its own."""
        grams, sure = self.proposals.grams, self.proposals.confidence
        proposals = [
            {
                "token": s,
                "word": self.words[s],
                "labels": self._gram(grams[s]),
                "confidence": float(sure[s]),
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

    def _word(self, s: int) -> str:
        return f"token {s}" if self.words[s] is None else f"{self.words[s]!r}"


# -- memories --------------------------------------------------------------------------------------


class RememberedSentence(ProposedSentence):
    """The same by a memory, which has instances: those of the sentence, and those it was trained
    on."""

    def __init__(
        self,
        model: Any,
        predictions: Predictions,
        words: Sequence[str | None],
        asked: Asked,
        instances: Instances,
    ):
        super().__init__(model, predictions, words, asked)
        self.instances, self.can_flip = instances, asked.constraints is None
        self.names, self._bounds = list(model.windows_.names), _bounds(model)

    def details(self, t: int) -> dict[str, Any]:
        """The predictions, what is read of the token, and its neighbours."""
        one = self.instances._replace(codes=self.instances.codes[t : t + 1])
        values = [
            known[code] for known, code in zip(one.values, one.codes[0].tolist(), strict=True)
        ]
        near = self._neighbours(one, values) if self.model.algorithm == "ib1" else None
        return super().details(t) | {
            "values": dict(zip(self.names, values, strict=True)),
            "neighbours": near,
        }

    def _neighbours(self, one: Instances, values: list[Any]) -> list[dict[str, Any]]:
        """The nearest neighbours of one instance, with what is different in them, the heaviest
        columns first, and the sentences that they come from."""
        learner, names = self.model.learner_, self.names
        weights = learner.feature_weights_.tolist()
        heaviest = sorted(range(len(names)), key=lambda i: -weights[i])
        rows: dict[Any, dict[str, Any]] = {}
        for near in learner.neighbours(one)[0]:
            row = rows.setdefault(
                (near.distance, near.label, near.values),
                {
                    "distance": near.distance,
                    "labels": self._gram(self.model.grams_[near.label]),
                    "instances": [],
                    "values": dict(zip(names, near.values, strict=True)),
                    "differs": {
                        names[i]: near.values[i] for i in heaviest if near.values[i] != values[i]
                    },
                },
            )
            row["instances"].append(near.instance)
        for row in rows.values():
            row["places"] = [
                _place(self.model, self._bounds, instance)
                for instance in row["instances"][:SOURCES]
            ]
        return list(rows.values())

    def without_each(
        self, made: Sequence[Explanation]
    ) -> Iterator[tuple[tuple[str, str, int], list[Any]]]:
        """Each value (token and column) near these tokens: the memory is asked again without it."""
        instances, T = self.instances, len(self.words)
        numeric = getattr(self.model.learner_.index_, "numeric", ())
        columns = [f for f in range(len(instances.values)) if f not in numeric]
        near = {
            s
            for each in made
            for s in range(each.token - 2 * self.half, each.token + 2 * self.half + 1)
        }
        removed = [(s, f) for s in sorted(near & set(range(T))) for f in columns]
        codes = instances.codes[[s for s, _ in removed]]
        codes[np.arange(len(removed)), [f for _, f in removed]] = [
            len(instances.values[f]) for _, f in removed
        ]
        values = tuple(
            known if f in numeric else [*known, REMOVED] for f, known in enumerate(instances.values)
        )
        answers, whole = self._answers(Instances(values, codes)), self._answers(instances)
        step = max(1, COPIED // T)
        for begin in range(0, len(removed), step):
            part = removed[begin : begin + step]
            copies = _spliced(whole, answers, begin, [s for s, _ in part])
            decoded = self.model._decoded_all(copies, np.arange(len(part) + 1) * T)
            for (s, f), labels in zip(part, decoded, strict=True):
                yield (
                    (f"{self.names[f]}={instances.values[f][instances.codes[s, f]]}", "value", s),
                    labels,
                )

    def _answers(self, instances: Instances) -> Distributions:
        """What the memory says of instances."""
        answers = self.model._asked().answers(instances)
        classes = np.array(self.model.learner_.seen_, np.int32)
        return Distributions(
            classes[answers.best], answers.ptr, classes[answers.classes], answers.votes
        )


def _spliced(
    whole: Distributions, answers: Distributions, begin: int, tokens: list[int]
) -> Distributions:
    """One sentence as often as there are tokens, with the answer for each token replaced by answers
    begin, ..."""
    T, n = len(whole.best), len(tokens)
    row = np.tile(np.arange(T), n)  # of all answers, those of the sentence first
    row[np.arange(n) * T + tokens] = T + begin + np.arange(n)
    best, classes, weights = (
        np.concatenate([getattr(each, name) for each in (whole, answers)])
        for name in ("best", "classes", "weights")
    )
    ptr = np.append(whole.ptr, whole.ptr[-1] + answers.ptr[1:])
    new_ptr, entry = entries_of(ptr, row)
    return Distributions(best[row], new_ptr, classes[entry], weights[entry])


def _place(model: Any, bounds: Array | None, instance: int) -> dict[str, Any]:
    """The number of the training sentence of an instance, its place there, and the words, as far as
    a memory still holds them; None where they are not known."""
    if bounds is None:
        return {"sentence": None, "token": None, "words": None}
    number = int(np.searchsorted(bounds, instance, side="right")) - 1
    begin, end = bounds[number : number + 2].tolist()
    words, data, column = None, model.learner_.data_, _column(model, 0)
    if column is not None:
        words = [str(data.values[column][code]) for code in data.codes[begin:end, column].tolist()]
    return {"sentence": number, "token": instance - begin, "words": words}


def _bounds(model: Any) -> Array | None:
    """Where training sentences begin [N+1]: at instances whose label n-gram, or window, begins
    outside."""
    half, learner = model.grams_.shape[1] // 2, model.learner_
    column = _column(model, -1)
    if half:
        starts = model.grams_[np.array(learner.seen_)[learner.targets_], half - 1] < 0
    elif column is not None:
        values = learner.data_.values[column]
        starts = learner.data_.codes[:, column] == (
            values.index(OUTSIDE) if OUTSIDE in values else -1
        )
    if (not half and column is None) or not starts[0]:
        return None
    return np.append(np.flatnonzero(starts), len(learner.targets_))


def _column(model: Any, row: int) -> int | None:
    """The column of instances that holds the word at this row; None where there is none."""
    for number, line in enumerate(
        [] if model.windows_.template is None else lines_of(model.windows_.template)
    ):
        cell = line.cells[0]
        read = (cell.row, cell.absolute, cell.reader.column, cell.reader.function)
        if len(line.cells) == 1 and read == (row, False, 0, "value"):
            return number
    return None
