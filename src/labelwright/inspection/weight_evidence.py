"""Why taggers with weights label a token as they do: two labellings, weight by weight.

A labelling is worth the weights of the states, pairs and triples of states (or segments) that it
uses, times the values of the features there.  It uses each of them once or not at all; with latent
states, as often as its paths q are expected to, and its score is the expected score plus the
entropy of the paths:

    log sum_q exp score(q)  =  E[score(q)] + H(q)
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.errors import OptionError
from labelwright.features.incidence import NO_VALUES, Encoded, Incidence, on_tokens
from labelwright.inspection.explanation import (
    TRANSITION,
    Alternative,
    Asked,
    Contribution,
    Evidence,
    Explanation,
    contribution,
)
from labelwright.inspection.names import feature_names
from labelwright.inspection.use import OUTSIDE
from labelwright.structures.lattice import Lattice, best_path, posterior, posterior_arcs
from labelwright.structures.segments import SegmentSpace, rows_of, segments_in

Array = NDArray[Any]
SLACK = 1e-9  # a bound that is so close still counts
COPIED = 1 << 21  # features of copies of a sentence that are scored together


# -- the features of a sentence --------------------------------------------------------------------


class Occurrences(NamedTuple):
    """All features of one kind that a sentence has, row by row (rows are tokens or, of segments,
    candidates)."""

    ptr: Array  # [rows+1]
    row: Array  # [n]
    feature: Array  # [n]
    value: Array  # [n] float64
    valued: bool  # False: all values are one


def occurrences(data: Encoded) -> dict[str, Occurrences]:
    """The features of a sentence by kind: state, edge, triple, segment."""
    return {kind: _listed(incidence) for kind, incidence in data.incidences.items()}


def _listed(incidence: Incidence) -> Occurrences:
    """The features of keys and of the rows themselves, together."""
    keys, key_ptr, key_feature, ptr, feature, value = incidence
    features, values, sizes = (
        list[Array]([np.empty(0, np.int32)]),
        list[Array]([np.empty(0)]),
        list[int](),
    )
    for row, (begin, end) in enumerate(zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)):
        parts = [key_feature[key_ptr[k] : key_ptr[k + 1]] for k in keys[row].tolist() if k >= 0]
        shared = sum(map(len, parts))
        features += [*parts, feature[begin:end]]
        values += [np.ones(shared), value[begin:end] if len(value) else np.ones(end - begin)]
        sizes.append(shared + end - begin)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    together = np.concatenate(values).astype(np.float64)
    return Occurrences(
        offsets_from(sizes), rows, np.concatenate(features), together, len(value) > 0
    )


def without(
    data: Encoded, listed: dict[str, Occurrences], removed: Sequence[tuple[str, int] | None]
) -> Encoded:
    """One sentence as often as there are entries in `removed`, each without this occurrence (its
    kind and place)."""
    n, length = len(removed), int(data.offsets[-1])
    incidences = {}
    for kind, features in listed.items():
        kept = np.ones((n, len(features.feature)), np.bool_)
        for k, which in enumerate(removed):
            if which is not None and which[0] == kind:
                kept[k, which[1]] = False
        sizes = np.tile(np.diff(features.ptr), (n, 1))
        copy, place = np.nonzero(~kept)
        np.subtract.at(sizes, (copy, features.row[place]), 1)
        flat = kept.reshape(-1)
        value = (
            np.tile(features.value, n)[flat].astype(np.float32) if features.valued else NO_VALUES
        )
        incidences[kind] = on_tokens(
            offsets_from(sizes.reshape(-1)), np.tile(features.feature, n)[flat], value
        )
    return Encoded(incidences, np.arange(n + 1, dtype=np.int64) * length, data.owner)


def segment_rows(length: int, longest: int) -> list[tuple[int, int]]:
    """The first token and the end of each row of candidate segments, in the order of
    kernels.segments."""
    return [(end - d, end) for end in range(1, length + 1) for d in range(1, min(end, longest) + 1)]


# -- what a labelling uses -------------------------------------------------------------------------


class Uses(NamedTuple):
    """How often each column (state, pair, triple, type) is used at each row (token or segment),
    where it is."""

    row: Array
    column: Array
    amount: Array


class LabelCounts(NamedTuple):
    """What one labelling uses, by kind of features."""

    features: dict[str, Uses]
    transitions: dict[str, Uses]  # plain pairs, "transitions", and of order 2 "triples"
    entropy: float = 0.0  # of the latent paths


def _of_chain(**codes: Uses) -> LabelCounts:
    """Plain transitions are pairs and triples of states, too."""
    plain = {"transitions": "edge", "triples": "triple"}
    return LabelCounts(codes, {name: codes[kind] for name, kind in plain.items() if kind in codes})


def path_counts(states: Array, n_states: int, order: int) -> LabelCounts:
    """What one path of states [T] uses."""
    t, codes = np.arange(len(states)), [states.astype(np.int64)]
    for reach in range(1, order + 1):
        codes.append(codes[-1][:-1] * n_states + states[reach:])
    kinds = zip(("state", "edge", "triple"), codes, strict=False)
    return _of_chain(
        **{kind: Uses(t[len(t) - len(code) :], code, np.ones(len(code))) for kind, code in kinds}
    )


def latent_counts(lattice: Lattice, labels: Array, by_paths: bool) -> LabelCounts:
    """What the paths of a labelling [T] are expected to use; with `by_paths` what its best path
    does."""
    node, arc, graph = lattice
    clamped = Lattice(np.where(graph.label_of_node == labels[:, None], node, -np.inf), arc, graph)
    if by_paths:
        return path_counts(graph.state[best_path(clamped)[0]], graph.n_states, graph.order)
    sums = posterior(clamped)
    arcs = posterior_arcs(clamped, sums)
    arcs[0] = 0.0
    source, target = graph.ends
    token, q = np.nonzero(sums.nodes)
    t, a = np.nonzero(arcs)
    nodes, through, S = sums.nodes[token, q], arcs[t, a], graph.n_states
    first, before = sums.nodes[0][sums.nodes[0] > 0], sums.nodes[t - 1, source[a]]
    entropy = -float(first @ np.log(first)) - float(through @ np.log(through / before))
    states = Uses(token, graph.state[q], nodes)
    if graph.order == 1:
        pairs = Uses(t, source[a].astype(np.int64) * S + target[a], through)
        return _of_chain(state=states, edge=pairs)._replace(entropy=entropy)
    # [Q]  a node is a pair of states, but at the first token
    pair = graph.previous.astype(np.int64) * S + graph.state
    inner, whole = graph.previous[q] >= 0, graph.previous[source[a]] >= 0
    pairs = Uses(token[inner], pair[q][inner], nodes[inner])
    triples = Uses(t[whole], (pair[source[a]] * S + graph.state[target[a]])[whole], through[whole])
    return _of_chain(state=states, edge=pairs, triple=triples)._replace(entropy=entropy)


def segment_counts(space: SegmentSpace, labels: list[str]) -> LabelCounts:
    """What the segmentation that labels write down uses: roles of tokens, types of segments,
    transitions."""
    T, n, L = len(labels), space.n_long, space.n_types
    bounds = np.array([0, T])
    segments = segments_in(space, labels, np.arange(T), bounds)
    lengths = segments.end - segments.start
    place = np.full(T, 1)  # B I E S
    place[segments.start], place[segments.end - 1] = 0, 2
    place[segments.start[lengths == 1]] = 3
    ones, before = np.ones(len(lengths)), np.append(L, segments.kind[:-1]).astype(np.int64)
    return LabelCounts(
        {
            "state": Uses(np.arange(T), place * n + np.repeat(segments.kind, lengths), np.ones(T)),
            "segment": Uses(rows_of(segments, bounds, space.max_length), segments.kind, ones),
        },
        {"transitions": Uses(segments.start, before * (L + 1) + segments.kind, ones)},
    )


# -- the sentence ----------------------------------------------------------------------------------


class Expanded(NamedTuple):
    """The weights that the features of a sentence have, in any row and column."""

    occurrence: Array  # [n]  which occurrence has it
    key: Array  # [n]  row * width + column
    score: Array  # [n]  the weight times the value of the feature
    width: int

    def amounts(self, uses: Uses) -> Array:
        """How often a labelling uses each of them [n]."""
        known = uses.column < self.width
        key = uses.row[known].astype(np.int64) * self.width + uses.column[known]
        if not len(key):
            return np.zeros(len(self.key))
        key, which = np.unique(key, return_inverse=True)  # of order 2, several nodes have one state
        place = np.minimum(np.searchsorted(key, self.key), len(key) - 1)
        amount = np.bincount(which, uses.amount[known])
        return np.where(key[place] == self.key, amount[place], 0.0)


class WeighedSentence(Evidence):
    """The features of one sentence with their weights, and its best labelling."""

    def __init__(self, model: Any, data: Encoded, asked: Asked = Asked()):  # noqa: B008  it is a tuple
        self.model, self.data, self.asked, self.trained = model, data, asked, model._trained
        self.measure = "log-odds" if model._probabilistic else "margin"
        self.length = int(data.offsets[-1])
        self.listed = occurrences(data)
        self.weights, self.parts = self.trained.total_weights, self.trained.parameters.slices
        self.expanded = {
            kind: self._expand(kind, features) for kind, features in self.listed.items()
        }
        self.name, self._below = (
            feature_names(self.trained.extractor),
            features_below(self.trained.extractor),
        )
        segments = self.trained.segments
        self._segments = [] if segments is None else segment_rows(self.length, segments.max_length)
        self.best = self._decoded(data)[0]
        self.labels = self.best.labels
        self._lattice = (
            self._asked(lambda batch: [s.lattice for s in batch])
            if self.trained.space.latent
            else None
        )
        self.marginals = (
            self._asked(lambda batch: batch.sure.marginals()) if model._is_sure else None
        )
        self.counts = self._counts(self.labels)
        self.scores = self._scores(self.counts)

    def _asked(self, question: Any) -> Any:
        return self.model._ask(self.data, question, None, self.asked.constraints)[0]

    def _decoded(self, data: Encoded, forced: Any = None) -> list[Any]:
        constraints = self.asked.constraints
        decoded: list[Any] = self.model.decode(
            data, forced=forced, constraints=constraints, probabilities=False
        )
        return decoded

    def _expand(self, kind: str, features: Occurrences) -> Expanded:
        ptr, column = self.trained.parameters.cells[kind][:2]
        begin, size = ptr[features.feature], np.diff(ptr)[features.feature]
        occurrence = np.repeat(np.arange(len(size)), size)
        cell = np.arange(len(occurrence)) + np.repeat(begin - (np.cumsum(size) - size), size)
        width = int(column.max(initial=0)) + 1
        key = features.row[occurrence].astype(np.int64) * width + column[cell]
        return Expanded(
            occurrence,
            key,
            self.weights[self.parts[kind]][cell] * features.value[occurrence],
            width,
        )

    def _counts(self, labels: list[Any]) -> LabelCounts:
        trained = self.trained
        if trained.segments is not None:
            return segment_counts(trained.segments, labels)
        index = {label: code for code, label in enumerate(trained.space.labels)}
        codes = np.array([index[label] for label in labels], np.int64)
        if self._lattice is not None:
            return latent_counts(self._lattice, codes, self.model._by_paths)
        return path_counts(codes, trained.space.n_states, trained.parameters.order)

    def _scores(self, counts: LabelCounts) -> dict[str, Array]:
        """What every occurrence adds to the score of a labelling, by kind."""
        return {
            kind: np.bincount(
                expanded.occurrence,
                expanded.score * expanded.amounts(counts.features[kind]),
                len(self.listed[kind].feature),
            )
            for kind, expanded in self.expanded.items()
        }

    def probability(self, t: int, label: Any) -> float | None:
        return None if self.marginals is None else float(self.marginals[t][label])

    # -- the runner-up -----------------------------------------------------------------------------

    def alternatives(self, tokens: Sequence[int]) -> list[Alternative | None]:
        forced = []  # known labels that leave each token the others, or the one that is asked for
        for t in tokens:
            label, against = self.labels[t], self.asked.against
            others = (
                [against]
                if against not in (None, label)
                else [y for y in self.model.classes_ if y != label]
            )
            forced.append([others if s == t else None for s in range(self.length)])
        try:
            decoded: list[Any] = self._decoded(
                without(self.data, self.listed, [None] * len(forced)), forced
            )
        except OptionError:  # at some token no other label is possible
            decoded = [self._decoded_if_possible(known) for known in forced]
        made: list[Alternative | None] = []
        for t, other in zip(tokens, decoded, strict=True):
            if other is None:
                made.append(None)
                continue
            contributions = self._contributions(self._counts(other.labels))
            difference = float(self.best.score - other.score)
            made.append(Alternative(other.labels[t], difference, other.labels, contributions))
        return made

    def _decoded_if_possible(self, known: list[Any]) -> Any:
        try:
            return self._decoded(self.data, [known])[0]
        except OptionError:
            return None

    # -- contributions -----------------------------------------------------------------------------

    def _contributions(self, other: LabelCounts) -> list[Contribution]:
        """What tells the best labelling from another: features, transitions, biases, entropy."""
        one, scores, others = self.counts, self.scores, self._scores(other)
        made = []
        for kind, features in self.listed.items():
            for k in np.flatnonzero(scores[kind] != others[kind]).tolist():
                feature, place = int(features.feature[k]), self.place_of(kind, int(features.row[k]))
                both, below = (
                    (float(scores[kind][k]), float(others[kind][k])),
                    feature in self._below,
                )
                made.append(contribution(self.name(feature), kind, *place, *both, below))
        made += self._transitions(one, other)
        pruning = self.trained.pruning
        if pruning is not None:  # its zero-order model
            bias = pruning.prior * pruning.bias.astype(np.float64)
            sides = [bias[counts.features["state"].column].tolist() for counts in (one, other)]
            for t, (a, b) in enumerate(zip(*sides, strict=True)):
                made.append(contribution("bias of the label", "bias", t, t + 1, a, b))
        return [
            *made,
            contribution(
                "entropy of the latent paths", "entropy", None, None, one.entropy, other.entropy
            ),
        ]

    def place_of(self, kind: str, row: int) -> tuple[int, int]:
        """The first token that a row is about, and the token after the last."""
        return self._segments[row] if kind == "segment" else (row, row + 1)

    def _transitions(self, one: LabelCounts, other: LabelCounts) -> list[Contribution]:
        """Plain transitions (and triples) into each token: those of one labelling less those of the
        other."""
        sides = [self._into_tokens(counts) for counts in (one, other)]
        made = []
        for t in sorted({*sides[0], *sides[1]}):
            (a, here), (b, there) = (side.get(t, (0.0, "")) for side in sides)
            unlike = [here, f"not {there}" if there else ""] if here != there else [here]
            made.append(
                contribution(
                    ", ".join(filter(None, unlike)), TRANSITION, max(0, t - 1), t + 1, a, b
                )
            )
        return made

    def _into_tokens(self, counts: LabelCounts) -> dict[int, tuple[float, str]]:
        """For each token the score of the transitions into it, and their labels."""
        trained, scores = self.trained, dict[int, tuple[float, str]]()
        parameters = trained.parameters
        if trained.segments is not None:
            names = [*map(str, trained.segments.types), OUTSIDE]
        else:
            names = [str(trained.space.labels[code]) for code in trained.space.label_of.tolist()]
        # triples, whose names are the longer ones, come last
        for part, uses in counts.transitions.items():
            place = parameters.places(part, uses.column)
            weights = np.where(
                place >= 0, np.append(self.weights[self.parts[part]], 0.0)[place], 0.0
            )
            permitted = getattr(parameters, "has_weight", None)
            if permitted is not None and part == "transitions":
                weights = np.where(permitted[uses.column], weights, 0.0)
            shape = (parameters.n_states,) * (3 if part == "triples" else 2)
            states = np.stack(np.unravel_index(uses.column, shape), axis=1).tolist()
            for t, codes, score in zip(
                uses.row.tolist(), states, (weights * uses.amount).tolist(), strict=True
            ):
                scores[t] = scores.get(t, (0.0, ""))[0] + score, " → ".join(names[s] for s in codes)
        return scores

    # -- removed features --------------------------------------------------------------------------

    def without_each(
        self, made: Sequence[Explanation]
    ) -> Iterator[tuple[tuple[str, str, int], list[Any]]]:
        """Only features that weigh as much as the log-odds can change a label; these are removed,
        one by one, the heaviest first, and the sentence is scored again."""
        least = min((each.log_odds for each in made if each.log_odds is not None), default=np.inf)
        lost = [
            (amount, kind, k)
            for kind in self.listed
            for k, amount in enumerate(self._most_lost(kind))
        ]
        heavy = sorted(
            (each for each in lost if each[0] > 0 and each[0] >= least - SLACK),
            key=lambda each: -each[0],
        )
        step = max(1, COPIED // max(1, len(lost)))
        for begin in range(0, len(heavy), step):
            removed = [(kind, k) for _, kind, k in heavy[begin : begin + step]]
            decoded = self._decoded(without(self.data, self.listed, removed))
            for (kind, k), record in zip(removed, decoded, strict=True):
                features = self.listed[kind]
                begin_of, _ = self.place_of(kind, int(features.row[k]))
                yield (self.name(int(features.feature[k])), kind, begin_of), record.labels

    def _most_lost(self, kind: str) -> list[float]:
        """By how much, at most, the best labelling falls behind another when an occurrence is
        removed."""
        expanded, n = self.expanded[kind], len(self.listed[kind].feature)
        used = expanded.amounts(self.counts.features[kind]) > 0
        high, low = np.zeros(n), np.zeros(n)
        np.maximum.at(high, expanded.occurrence[used], expanded.score[used])
        np.minimum.at(low, expanded.occurrence, expanded.score)
        lost: list[float] = (high - low).tolist()
        return lost


def features_below(extractor: Any) -> range:
    """The features that read labels of lower layers."""
    tokens = getattr(extractor, "tokens", extractor)  # beside features of segments
    return (
        range(tokens.base.n_features, tokens.n_features) if hasattr(tokens, "above") else range(0)
    )
