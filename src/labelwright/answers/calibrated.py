"""What held-out data say about probabilities: a temperature of all scores, and monotone maps of
what comes of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
GROUPS = 50  # of observations, at most: the knots of a map
SMALLEST = 10  # observations of a group
LEAST = 5 * SMALLEST  # observations that a map needs
BELOW_1 = float(np.nextafter(1.0, 0.0))
SHRINK = 0.01  # how much of the uncalibrated probability a map keeps, so that it rises everywhere


class MonotoneMap(NamedTuple):
    """Isotonic regression: what is said, and how often that is right.  Between the knots the map is
    linear, and flat after the last but for what it keeps of the uncalibrated probability.  0 and 1
    stay what they are, so what is impossible or certain (by known labels) stays so."""

    said: tuple[float, ...]  # rising, between 0 and 1
    right: tuple[float, ...]  # rising

    def __call__(self, probability: Array) -> Array:
        """The calibrated probabilities.

        >>> calibrated = MonotoneMap((0.5, 0.9), (0.4, 0.8))
        >>> calibrated(np.array([0.0, 0.5, 0.7, 0.999, 1.0])).round(3).tolist()
        [0.0, 0.4, 0.6, 0.801, 1.0]
        """
        highest = min(1.0, self.right[-1] + SHRINK * (1.0 - self.said[-1]))
        mapped = np.interp(probability, (0.0, *self.said, 1.0), (0.0, *self.right, highest))
        return np.where(probability >= 1.0, 1.0, mapped)

    def threshold(self, least: float) -> float:
        """The smallest probability that is mapped to `least` or more.

        >>> MonotoneMap((0.5, 0.9), (0.4, 0.8)).threshold(0.6)
        0.7
        """
        said, right = (0.0, *self.said, 1.0), (0.0, *self.right, 1.0)
        i = int(np.searchsorted(right, least))
        if i in (0, len(right)):
            return 0.0 if i == 0 else least
        share = (least - right[i - 1]) / (right[i] - right[i - 1])
        return said[i - 1] + share * (said[i] - said[i - 1])

    @classmethod
    def fit(cls, said: Array, right: Array) -> "MonotoneMap":
        """The map of least squared error among those that never fall, over groups of equal size:
        probabilities [n] and whether each was right [n], n at least `LEAST`.

        >>> cls = MonotoneMap.fit(np.repeat([0.6, 0.9], 50), np.arange(100) % 2 == 0)
        >>> cls(np.array([0.6, 0.9])).round(2).tolist()
        [0.5, 0.5]
        """
        order = np.argsort(said, kind="stable")
        n_groups = max(1, min(GROUPS, len(order) // SMALLEST))
        parts = np.array_split(order, n_groups)
        means = np.clip([said[part].mean() for part in parts], 1e-9, 1 - 1e-9)
        knots, group = np.unique(means.round(12), return_inverse=True)  # ties are one group
        sizes = np.bincount(group, [len(part) for part in parts])
        shares = np.bincount(group, [right[part].sum() for part in parts]) / sizes
        values = (1 - SHRINK) * pooled(shares, sizes) + SHRINK * knots
        return cls(tuple(knots.tolist()), tuple(values.tolist()))


class Calibration(NamedTuple):
    """Scores are divided by the temperature; probabilities of spans and of labels of tokens then go
    through maps."""

    temperature: float
    span: MonotoneMap | None = None
    token: MonotoneMap | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Calibration":
        """What the record of a model holds, after it was checked."""
        maps = {
            kind: MonotoneMap(tuple(record[kind]["said"]), tuple(record[kind]["right"]))
            for kind in kinds_of(record)
        }
        return cls(float(record["temperature"]), **maps)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        maps = {"span": self.span, "token": self.token}
        stored = {
            kind: {"said": list(m.said), "right": list(m.right)}
            for kind, m in maps.items()
            if m is not None
        }
        return {"temperature": self.temperature, **stored}

    def span_probability(self, probability: float) -> float:
        """The calibrated probability of a span, given that at this temperature."""
        return probability if self.span is None else float(self.span(np.array(probability)))

    def span_threshold(self, least: float) -> float:
        """The smallest probability of a span at this temperature whose calibrated one is `least` or
        more."""
        return least if self.span is None else self.span.threshold(least)

    def token_probabilities(self, rows: Array) -> Array:
        """The calibrated probabilities of all labels at all tokens [T, L], which add up to 1: the
        likeliest label has what the map says, or more where it would no longer be the likeliest;
        the others share the rest."""
        if self.token is None:
            return rows
        likeliest = np.arange(rows.shape[1]) == rows.argmax(axis=1)[:, None]
        others = np.where(likeliest, 0.0, self.token(rows))
        rest, second = others.sum(axis=1), others.max(axis=1)
        top = self.token(np.minimum(rows.max(axis=1), BELOW_1))  # 1 by rounding is not certain
        with np.errstate(invalid="ignore"):
            least = (1 - SHRINK) * second / (rest + second) + SHRINK * top / (rest + top)
            top = np.where(rest > 0, np.maximum(top, least), 1.0)
            shares = np.where(rest > 0, (1 - top) / rest, 0.0)
        return np.where(likeliest, top[:, None], others * shares[:, None])


def kinds_of(record: Mapping[str, Any]) -> list[str]:
    """The maps that a record holds."""
    return [kind for kind in ("span", "token") if record.get(kind) is not None]


def pooled(values: Array, weights: Array) -> Array:
    """Pool adjacent violators: the values nearest to these, by weighted squares, that never fall.

    >>> pooled(np.array([0.1, 0.5, 0.3, 0.9]), np.ones(4)).tolist()
    [0.1, 0.4, 0.4, 0.9]
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        block = (value, weight, 1)
        while blocks and blocks[-1][0] >= block[0]:
            mean, before, n = blocks.pop()
            total = before + block[1]
            block = ((mean * before + block[0] * block[1]) / total, total, n + block[2])
        blocks.append(block)
    return np.repeat([mean for mean, _, _ in blocks], [n for _, _, n in blocks])
