"""What the features and transitions of one sentence add to the score of a labelling, weight by weight."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.inspection.explanation import BIAS, ENTROPY, TRANSITION, Contribution
from labelwright.inspection.label_counts import Cells, LabelCounts
from labelwright.inspection.names import feature_names
from labelwright.inspection.occurrences import Occurrences
from labelwright.inspection.use import OUTSIDE
from labelwright.scoring.trained import Trained

Array = NDArray[Any]
LATENT_PATHS = "entropy of the latent paths"


class Expanded(NamedTuple):
    """The weights that the features of a sentence have, in any row and column."""

    occurrence: Array  # [n]  which occurrence has it
    key: Array  # [n]  row * width + column
    score: Array  # [n]  the weight times the value of the feature
    width: int


class WeighedSentence:
    """The features of one sentence with their weights."""

    def __init__(self, trained: Trained, listed: dict[str, Occurrences], length: int):
        self.trained, self.listed, self.length = trained, listed, length
        self.weights, self.parts = trained.total_weights, trained.parameters.slices
        self.expanded = {kind: self._expand(kind, found) for kind, found in listed.items()}
        self.name = feature_names(trained.extractor)
        self._below = features_below(trained.extractor)
        self._segments = segment_rows(length, trained.segments.max_length) if trained.segments is not None else None

    def _expand(self, kind: str, found: Occurrences) -> Expanded:
        ptr, column = self.trained.parameters.cells[kind][:2]
        begin, size = ptr[found.feature], np.diff(ptr)[found.feature]
        occurrence = np.repeat(np.arange(len(size)), size)
        cell = np.arange(len(occurrence)) + np.repeat(begin - (np.cumsum(size) - size), size)
        width = int(column.max(initial=0)) + 1
        key = found.row[occurrence].astype(np.int64) * width + column[cell]
        score = self.weights[self.parts[kind]][cell] * found.value[occurrence]
        return Expanded(occurrence, key, score, width)

    # -- scores -------------------------------------------------------------------------------------------------------

    def feature_scores(self, counts: LabelCounts) -> dict[str, Array]:
        """What every occurrence adds to the score of a labelling, by kind."""
        return {kind: self._scores(kind, counts.features[kind]) for kind in self.listed}

    def _scores(self, kind: str, cells: Cells) -> Array:
        expanded = self.expanded[kind]
        amount = _looked_up(expanded, cells)
        return np.bincount(expanded.occurrence, expanded.score * amount, len(self.listed[kind].feature))

    def most_lost(self, counts: LabelCounts) -> dict[str, Array]:
        """By how much, at most, a labelling falls behind another when an occurrence is removed."""
        lost = {}
        for kind, expanded in self.expanded.items():
            used = _looked_up(expanded, counts.features[kind]) > 0
            n = len(self.listed[kind].feature)
            high, low = np.zeros(n), np.zeros(n)
            np.maximum.at(high, expanded.occurrence[used], expanded.score[used])
            np.minimum.at(low, expanded.occurrence, expanded.score)
            lost[kind] = high - low
        return lost

    # -- contributions ------------------------------------------------------------------------------------------------

    def contributions(self, one: LabelCounts, scores: dict[str, Array], other: LabelCounts) -> list[Contribution]:
        """The difference of two labellings; `scores` are the feature scores of the first."""
        others = self.feature_scores(other)
        made = [
            self.contribution(kind, place, float(scores[kind][place]), float(others[kind][place]))
            for kind in self.listed
            for place in np.flatnonzero(scores[kind] != others[kind]).tolist()
        ]
        made += self._transitions(one, other) + self._biases(one, other)
        if one.entropy != other.entropy:
            difference = one.entropy - other.entropy
            made.append(Contribution(LATENT_PATHS, ENTROPY, None, None, difference, one.entropy, other.entropy))
        return made

    def contribution(self, kind: str, place: int, one: float, other: float) -> Contribution:
        found = self.listed[kind]
        begin, end = self.place_of(kind, int(found.row[place]))
        feature = int(found.feature[place])
        return Contribution(self.name(feature), kind, begin, end, one - other, one, other, feature in self._below)

    def place_of(self, kind: str, row: int) -> tuple[int, int]:
        """The first token that a row is about, and the token after the last."""
        if kind == "segment" and self._segments is not None:
            return int(self._segments[0][row]), int(self._segments[1][row])
        return row, row + 1

    def _transitions(self, one: LabelCounts, other: LabelCounts) -> list[Contribution]:
        """Plain transitions (and triples) into each token: those of one labelling less those of the other."""
        sides = [self._into_tokens(counts) for counts in (one, other)]
        made = []
        for t in sorted({*sides[0], *sides[1]}):
            (a, here), (b, there) = (side.get(t, (0.0, "")) for side in sides)
            unlike = [here, f"not {there}" if there else ""] if here != there else [here]
            name = ", ".join(filter(None, unlike))
            made.append(Contribution(name, TRANSITION, max(0, t - 1), t + 1, a - b, a, b))
        return made

    def _into_tokens(self, counts: LabelCounts) -> dict[int, tuple[float, str]]:
        """For each token the score of the transitions into it, and their labels."""
        parameters, names, scores = self.trained.parameters, self._label_names(), dict[int, tuple[float, str]]()
        for part, cells in counts.transitions.items():  # triples, whose names are the longer ones, come last
            place = parameters.places(part, cells.column)
            weights = np.where(place >= 0, np.append(self.weights[self.parts[part]], 0.0)[place], 0.0)
            permitted = getattr(parameters, "has_weight", None)
            if permitted is not None and part == "transitions":
                weights = np.where(permitted[cells.column], weights, 0.0)
            shape = (parameters.n_states,) * (3 if part == "triples" else 2)
            states = np.stack(np.unravel_index(cells.column, shape), axis=1).tolist()
            for t, codes, score in zip(cells.row.tolist(), states, (weights * cells.amount).tolist(), strict=True):
                scores[t] = scores.get(t, (0.0, ""))[0] + score, " → ".join(names[s] for s in codes)
        return scores

    def _label_names(self) -> list[str]:
        """The label (or type of segment) of each state of transitions."""
        trained = self.trained
        if trained.segments is not None:
            return [*map(str, trained.segments.types), OUTSIDE]
        return [str(trained.space.labels[code]) for code in trained.space.label_of.tolist()]

    def _biases(self, one: LabelCounts, other: LabelCounts) -> list[Contribution]:
        """What the zero-order model of a pruned one adds to labels."""
        pruning = self.trained.pruning
        if pruning is None:
            return []
        bias = pruning.prior * pruning.bias.astype(np.float64)
        a, b = bias[one.features["state"].column], bias[other.features["state"].column]
        pairs = enumerate(zip(a.tolist(), b.tolist(), strict=True))
        return [Contribution("bias of the label", BIAS, t, t + 1, x - y, x, y) for t, (x, y) in pairs if x != y]


def _looked_up(expanded: Expanded, cells: Cells) -> Array:
    """The amount of a labelling in each cell of a sentence; 0 where it has none."""
    known = cells.column < expanded.width
    key = cells.row[known].astype(np.int64) * expanded.width + cells.column[known]
    if not len(key):
        return np.zeros(len(expanded.key))
    key, which = np.unique(key, return_inverse=True)  # of order 2, several nodes have one state
    amount = np.bincount(which, cells.amount[known])
    place = np.minimum(np.searchsorted(key, expanded.key), len(key) - 1)
    return np.where(key[place] == expanded.key, amount[place], 0.0)


def features_below(extractor: Any) -> range:
    """The features that read labels of lower layers."""
    tokens = getattr(extractor, "tokens", extractor)  # beside features of segments
    if not hasattr(tokens, "above"):
        return range(0)
    return range(tokens.base.n_features, tokens.n_features)


def segment_rows(length: int, longest: int) -> tuple[Array, Array]:
    """The first token and the end of each row of candidate segments, in the order of kernels.segments."""
    bounds = [(end - d, end) for end in range(1, length + 1) for d in range(1, min(end, longest) + 1)]
    pairs = np.array(bounds, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
