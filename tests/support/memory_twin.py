"""Memory-based learning as its definition reads: every instance is measured for every query, and
nothing is clever.

One twin of MemoryBased and of TiMBL; distances are summed over columns in the order of gain ratio /
number of values.
"""

import math
from collections import Counter
from typing import Any, NamedTuple

EPSILON = 2.0**-52  # distances and votes that differ by less are equal
BINS = 20

# distances, the nearest first, and how often each class is found there
Groups = list[tuple[float, Counter]]


class Found(NamedTuple):
    """What the twin says of one query."""

    label: Any
    votes: dict[Any, float]
    distance: float  # of the nearest instance; igtree: the weights of the columns left
    tied: list[Any]  # the classes that had most votes at k
    asked: int  # how many distances voted: k, or k + 1 where that decided a tie

    @property
    def shares(self) -> dict[Any, float]:
        total = sum(self.votes.values())
        return {label: vote / total for label, vote in self.votes.items()}


# -- weights of columns ----------------------------------------------------------------------------


def entropy(counts):
    total = sum(counts)
    return -sum(n / total * math.log2(n / total) for n in counts if n)


def bins(numbers):
    """The bin of each number: the distinct numbers in order, cut into 20 parts of as equal sizes as
    can be."""
    distinct = sorted(set(numbers))
    size, larger = divmod(len(distinct), BINS)
    place = [b for b in range(BINS) for _ in range(size + (b < larger))]
    return [place[distinct.index(number)] for number in numbers]


def weight(column, y, name):
    """One feature weight of a column of values."""
    n, of_class, of_value, together = (
        len(y),
        Counter(y),
        Counter(column),
        Counter(zip(column, y, strict=True)),
    )
    if name == "none":
        return 1.0
    if name in ("information-gain", "gain-ratio"):
        within = sum(
            m / n * entropy([together[v, c] for c in of_class]) for v, m in of_value.items()
        )
        gain, bits = entropy(of_class.values()) - within, entropy(of_value.values())
        if name == "information-gain":
            return gain
        return gain / bits if bits else 0.0
    chi = sum(
        (together[v, c] - a * b / n) ** 2 / (a * b / n)
        for v, a in of_value.items()
        for c, b in of_class.items()
    )
    freedom = min(len(of_class), len(of_value)) - 1
    if name == "chi-squared":
        return chi
    return chi / (n * freedom) if freedom else 0.0


# -- votes -----------------------------------------------------------------------------------------


def grouped(measured) -> Groups:
    """Pairs of a distance and a class, put together where distances are equal."""
    groups: Groups = []
    for d, label in sorted(measured, key=lambda pair: pair[0]):
        if not groups or d - groups[-1][0] >= EPSILON:
            groups.append((d, Counter()))
        groups[-1][1][label] += 1
    return groups


def count(groups, k, votes, decay=(1.0, 1.0)):
    """The votes of each class at the k nearest distances; those that decay are taken over the
    nearest one's."""
    nearest, farthest = groups[0][0], groups[:k][-1][0]
    total = Counter()
    for d, classes in groups[:k]:
        each = 1.0
        if votes == "inverse-distance":
            each = 1 / (d + EPSILON)
        elif votes == "inverse-linear" and farthest > nearest:
            each = (farthest - d) / (farthest - nearest)
        elif votes == "exponential-decay":
            each = math.exp(-decay[0] * (d ** decay[1] - nearest ** decay[1]))
        for label, n in classes.items():
            if each > 0:
                total[label] += n * each
    return total


def best(votes, frequency):
    """All classes that have most votes, then that one of them which is more frequent, or was seen
    first."""
    most = max(votes.values())
    tied = [label for label in frequency if label in votes and most - votes[label] < EPSILON]
    return tied, max(tied, key=lambda label: frequency[label])  # the first of equals


def decide(groups, k, votes, decay, frequency):
    """The k nearest distances vote; a tie asks one more distance, and if that does not help,
    frequency decides."""
    here = count(groups, k, votes, decay)
    tied, label = best(here, frequency)
    if len(tied) > 1 and len(groups) > k:
        more = count(groups, k + 1, votes, decay)
        decided, winner = best(more, frequency)
        if len(decided) == 1:
            return Found(winner, more, groups[0][0], tied, k + 1)
    return Found(label, here, groups[0][0], tied, min(k, len(groups)))


# -- the learner -----------------------------------------------------------------------------------


class Twin:
    """The words are those of MemoryBased."""

    def __init__(
        self,
        X,
        y,
        k=1,
        metric="overlap",
        mvdm_threshold=1,
        weights="gain-ratio",
        votes="none",
        decay=(1.0, 1.0),
        algorithm="ib1",
    ):
        self.X, self.y, self.k = X, y, k
        self.votes, self.decay, self.threshold = votes, decay, mvdm_threshold
        self.algorithm = algorithm
        self.columns = list(zip(*X, strict=True))
        F = len(self.columns)
        self.metric = [metric] * F if isinstance(metric, str) else list(metric)
        self.frequency = Counter(y)  # in order of first appearance
        counted = [bins(list(map(float, c))) if m == "numeric" else c for c, m in self._pairs()]
        named = isinstance(weights, str)
        self.weights = (
            [weight(column, y, weights) for column in counted] if named else list(weights)
        )
        telling = [
            weight(column, y, "gain-ratio") / len(set(own))
            for column, (own, _) in zip(counted, self._pairs(), strict=True)
        ]
        self.order = sorted(range(F), key=lambda i: -telling[i])
        self.tree_order = sorted(range(F), key=lambda i: -self.weights[i])
        self.classes = [
            {v: Counter(c for u, c in zip(column, y, strict=True) if u == v) for v in set(column)}
            for column in self.columns
        ]

    def _pairs(self):
        return list(zip(self.columns, self.metric, strict=True))

    def value_distance(self, i, asked, known):
        """How far a query's value of column i is from one that was seen in training."""
        if asked == known:
            return 0.0
        if self.metric[i] == "numeric":
            numbers = [float(v) for v in self.columns[i]]
            width = max(numbers) - min(numbers)
            return abs(float(asked) - float(known)) / width if width else 1.0
        if self.metric[i] == "overlap" or asked not in self.classes[i]:
            return 1.0
        p, q = self.classes[i][asked], self.classes[i][known]
        n, m = p.total(), q.total()
        if min(n, m) < self.threshold:
            return 1.0
        return sum(APART[self.metric[i]](p[c] / n, q[c] / m) for c in self.frequency) / 2

    def distance(self, query, row):
        total = 0.0
        for i in self.order:
            total += self.weights[i] * self.value_distance(i, query[i], row[i])
        return total

    def groups(self, query):
        return grouped(
            (self.distance(query, row), label) for row, label in zip(self.X, self.y, strict=True)
        )

    def classify(self, query):
        if self.algorithm == "igtree":
            return self._descend(query)
        return decide(self.groups(query), self.k, self.votes, self.decay, self.frequency)

    def _descend(self, query):
        """IGTree: follow the query's values as long as an exception to what is known so far lies
        ahead."""
        rows, level = list(range(len(self.y))), 0
        while level < len(self.tree_order):
            below = [
                n
                for n in rows
                if self.X[n][self.tree_order[level]] == query[self.tree_order[level]]
            ]
            if not below or not self._kept(below, level + 1, self._class(rows)):
                break
            rows, level = below, level + 1
        left = sum(self.weights[i] for i in self.tree_order[level:])
        return Found(self._class(rows), Counter(self.y[n] for n in rows), left, [], 0)

    def _class(self, rows):
        return best(Counter(self.y[n] for n in rows), self.frequency)[1]

    def _kept(self, rows, level, above):
        """A node stays in the tree if its class is not that of the node above, or if a node below
        it stays."""
        own = self._class(rows)
        if own != above or level == len(self.tree_order):
            return own != above
        parts = {}
        for n in rows:
            parts.setdefault(self.X[n][self.tree_order[level]], []).append(n)
        return any(self._kept(part, level + 1, own) for part in parts.values())


def _jeffrey(p, q):
    return (p - q) * math.log2(p / q) if p and q else p + q


def _jensen_shannon(p, q):
    return p * math.log2(2 * p / (p + q)) + q * math.log2(2 * q / (p + q)) if p and q else p + q


APART = {"mvdm": lambda p, q: abs(p - q), "jeffrey": _jeffrey, "jensen-shannon": _jensen_shannon}
