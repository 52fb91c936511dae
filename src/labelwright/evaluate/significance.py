"""Is one tagger significantly better than another?  Paired tests on the same sentences."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from labelwright.corpus.offsets import offsets_from
from labelwright.errors import OptionError
from labelwright.evaluate.counts import (
    Counts,
    Labels,
    Rules,
    Tokens,
    count_system,
    intern,
    matched,
    rules_for,
    units_of,
)
from labelwright.evaluate.report import Report, percent, report_of
from labelwright.wording import align, plain

EXACT_UP_TO = 1000  # disagreements; beyond that the chi-square approximation is as good
BLOCK = 1 << 22  # draws held in memory at once by the bootstrap
DIGITS = 12  # to which differences of scores are equal: those after them are rounding


class McNemar(NamedTuple):
    """How often exactly one of two systems is right, and how probable so uneven a split is if they
    are equally good."""

    unit: str  #: "token", "sentence" or "chunk" (gold chunks found or not)
    only_a: int  #: a right, b wrong
    only_b: int  #: b right, a wrong
    #: the smaller of the two when exact, else chi-square with continuity correction
    statistic: float
    p_value: float  #: two-sided
    exact: bool  #: binomial test, not its chi-square approximation


class Bootstrap(NamedTuple):
    """The distribution of the difference of two scores when sentences are resampled."""

    metric: str  #: "f1", "accuracy" or "sentence"
    delta: float  #: score of b minus score of a
    #: 95 % interval around delta; without 0 exactly where p_value is below 0.05
    interval: tuple[float, float]
    #: two-sided: how often chance alone shifts the difference as far as it is from 0
    p_value: float
    samples: int  #: how many samples of sentences were drawn


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems side by side; `str(comparison)` is a table, `as_dict()` is ready for JSON."""

    a: Report  #: the scores of the first prediction
    b: Report  #: the scores of the second
    mcnemar: McNemar  #: the test on tokens
    bootstrap: Bootstrap  #: the test over sentences
    names: tuple[str, str]  #: what the two are called in the table

    def as_dict(self) -> dict[str, Any]:
        """Return both reports and both tests as plain dicts, numbers and strings."""
        return (
            {"names": list(self.names)}
            | dict(plain(self))
            | {"a": self.a.as_dict(), "b": self.b.as_dict()}
        )

    def __str__(self) -> str:
        """Return the scores of both, their differences, and the results of the tests."""
        rows = [("", *self.names, "difference")]
        for name in ("precision", "recall", "f1", "token_accuracy", "sentence_accuracy"):
            left, right = getattr(self.a, name), getattr(self.b, name)
            if left is not None:
                rows.append(
                    (name.replace("_", " "), percent(left), percent(right), _signed(right - left))
                )
        test, drawn = self.mcnemar, self.bootstrap
        low, high = map(_signed, drawn.interval)
        way = "exact binomial" if test.exact else f"chi-square {test.statistic:.2f}"
        return "\n".join(
            [
                *align(rows),
                "",
                f"McNemar ({test.unit}s): right only in {self.names[0]} {test.only_a}, only in "
                f"{self.names[1]} {test.only_b}; p = {_probability(test.p_value)} ({way})",
                f"bootstrap ({drawn.metric}): difference {_signed(drawn.delta)}, 95 % interval "
                f"{low} to {high}; p = {_probability(drawn.p_value)} ({drawn.samples} samples)",
                self.a.signature,
            ]
        )


def mcnemar(
    gold: Labels,
    a: Labels,
    b: Labels,
    unit: str = "token",
    reading: str = "conlleval",
    scheme: str | None = None,
) -> McNemar:
    """Test whether a and b are right equally often (McNemar 1947): n units only one gets right, k
    of them a alone.

    Exact: p = 2 sum_{i <= min(k, n-k)} C(n, i) / 2^n.
    Else (n large): chi2 = (|n - 2k| - 1)^2 / n with one degree.

    gold : true labels, a list for each sentence
    a, b : labels that two systems predict
    unit : token, sentence or chunk
    reading, scheme : as for `evaluate`

    >>> mcnemar([["N", "V", "N"]], [["N", "V", "V"]], [["N", "V", "N"]])
    McNemar(unit='token', only_a=0, only_b=1, statistic=0.0, p_value=1.0, exact=True)
    """
    if unit not in RIGHT:
        raise OptionError(f"unit: got {unit!r}, expected one of {', '.join(RIGHT)}")
    return mcnemar_of(*_read(gold, a, b, reading, scheme)[:2], unit)


def paired_bootstrap(
    gold: Labels,
    a: Labels,
    b: Labels,
    metric: str | None = None,
    samples: int = 10_000,
    random_state: int | np.random.Generator | None = 0,
    reading: str = "conlleval",
    scheme: str | None = None,
) -> Bootstrap:
    """Resample the sentences with replacement, the same for both systems, and observe the
    difference.

    The p-value is that of the shifted distribution (Riezler and Maxwell 2005): the share of
    samples, the observed one included, whose difference lies as far from the observed difference as
    that lies from 0.  The interval is what this test does not reject: the observed difference plus
    and minus the distance that fewer than 5 % of the samples exceed. `metric` is "f1" (of chunks),
    "accuracy" (of tokens) or "sentence"; by default f1 where there are chunks.

    gold : true labels, a list for each sentence
    a, b : labels that two systems predict
    metric : the score whose difference is tested
    samples : how many are drawn
    random_state : a seed, or a generator of NumPy
    reading, scheme : as for `evaluate`

    >>> paired_bootstrap([["N", "V"]] * 9, [["N", "N"]] * 9, [["N", "V"]] * 9, samples=100).delta
    0.5
    """
    return bootstrap_of(*_read(gold, a, b, reading, scheme)[2:], metric, samples, random_state)


def compare(
    gold: Labels,
    a: Labels,
    b: Labels,
    reading: str = "conlleval",
    scheme: str | None = None,
    samples: int = 10_000,
    random_state: int | np.random.Generator | None = 0,
    names: tuple[str, str] = ("a", "b"),
) -> Comparison:
    """Score two systems on the same sentences and test their difference both ways.

    gold : true labels, a list for each sentence
    a, b : labels that two systems predict
    reading, scheme : as for `evaluate`
    samples : of the bootstrap
    random_state : seed of the bootstrap, or a generator of NumPy
    names : what the two are called in the table
    """
    tokens, rules, one, other = _read(gold, a, b, reading, scheme)
    bootstrap = bootstrap_of(one, other, None, samples, random_state)
    return Comparison(
        report_of(one), report_of(other), mcnemar_of(tokens, rules, "token"), bootstrap, names
    )


def _read(
    gold: Labels, a: Labels, b: Labels, reading: str, scheme: str | None
) -> tuple[Tokens, Rules, Counts, Counts]:
    tokens = intern(gold, a=a, b=b)
    rules = rules_for(tokens, reading, scheme)
    return tokens, rules, count_system(tokens, rules, 1), count_system(tokens, rules, 2)


def mcnemar_of(tokens: Tokens, rules: Rules, unit: str) -> McNemar:
    """Run McNemar's test on systems 1 and 2 of interned labels."""
    right_a, right_b = RIGHT[unit](tokens, rules, 1), RIGHT[unit](tokens, rules, 2)
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    n, fewer = only_a + only_b, min(only_a, only_b)
    if n <= EXACT_UP_TO:
        p_value = min(1.0, 2 * sum(math.comb(n, i) for i in range(fewer + 1)) / 2**n)
        return McNemar(unit, only_a, only_b, float(fewer), p_value, exact=True)
    statistic = max(abs(only_a - only_b) - 1, 0) ** 2 / n
    return McNemar(
        unit, only_a, only_b, statistic, math.erfc(math.sqrt(statistic / 2)), exact=False
    )


def intervals(
    counts: Counts, samples: int = 1000, random_state: int | np.random.Generator | None = 0
) -> dict[str, Any]:
    """95 % confidence intervals of all scores of a prediction, by the names that `Report.as_dict`
    has for the scores: the range of 95 % of the samples when sentences are drawn with replacement
    (percentile bootstrap).

    counts : as `count` returns them
    samples : how many are drawn
    random_state : a seed, or a generator of NumPy

    >>> from labelwright.evaluate import count
    >>> found = intervals(count([["B-NP", "O"], ["B-NP", "O"]], [["B-NP", "O"], ["O", "O"]]))
    >>> found["chunks"]["recall"], found["token_accuracy"]
    ([0.0, 1.0], [0.5, 1.0])
    """
    C, n = len(counts.types), len(counts.tokens)
    sums = np.zeros((samples, C + 1, 3))  # gold, predicted, correct; the last row is of all types
    of_tokens = np.stack(
        [counts.correct_tokens, counts.tokens, counts.correct_tokens == counts.tokens], axis=1
    )
    accuracies, of_type = (
        np.zeros((samples, 3)),
        [np.flatnonzero(counts.type == c) for c in range(C)],
    )
    for rows, weights in _resampled(n, samples, random_state) if n else ():
        for c, pairs in enumerate(of_type):
            sums[rows, c] = weights[:, counts.sentence[pairs]] @ counts.chunks[pairs]
        accuracies[rows] = weights @ of_tokens
    sums[:, C] = sums.sum(axis=1)
    gold, predicted, right = np.moveaxis(sums, 2, 0)
    shares = [
        _quantiles(right, predicted),
        _quantiles(right, gold),
        _quantiles(2 * right, gold + predicted),
    ]
    names = "precision", "recall", "f1"
    *types, whole = [
        dict(zip(names, row, strict=True)) for row in np.stack(shares, axis=1).tolist()
    ]
    return {
        "chunks": None if counts.reading == "token" else whole,
        "per_label" if counts.reading == "token" else "per_type": dict(
            zip(counts.types, types, strict=True)
        ),
        "token_accuracy": _quantiles(accuracies[:, :1], accuracies[:, 1:2])[0].tolist(),
        "sentence_accuracy": _quantiles(accuracies[:, 2:], np.full((samples, 1), max(1, n)))[
            0
        ].tolist(),
    }


def _quantiles(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """The interval [C, 2] of shares of samples [samples, C]."""
    shares = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    return np.moveaxis(np.quantile(shares, [0.025, 0.975], axis=0), 0, 1)


def bootstrap_of(
    a: Counts,
    b: Counts,
    metric: str | None,
    samples: int,
    random_state: int | np.random.Generator | None,
) -> Bootstrap:
    """Resample the per-sentence counts of two systems."""
    chunked = a.reading != "token"
    metric = metric or ("f1" if chunked else "accuracy")
    if metric not in STATISTICS:
        raise OptionError(f"metric: got {metric!r}, expected one of {', '.join(STATISTICS)}")
    if metric == "f1" and not chunked:
        raise OptionError(
            "metric: 'f1' needs chunk labels such as B-NP; use 'accuracy' or 'sentence'"
        )
    if samples < 1:
        raise OptionError(f"samples: got {samples}, expected at least 1")
    # Every metric is (numerator / denominator) of sums over sentences, so a sample is its weights
    # times these columns.
    # [N, 4]
    columns = np.stack([*STATISTICS[metric](a), *STATISTICS[metric](b)], axis=1).astype(np.float64)
    delta = float(np.round(_difference(columns.sum(axis=0)[None])[0], DIGITS))
    deltas = np.empty(samples)
    for rows, weights in _resampled(len(columns), samples, random_state):
        deltas[rows] = _difference(weights @ columns)
    # Interval and p-value come from the same distances [samples + 1]; the last is that of the
    # observed sample from 0.
    distances = np.sort(np.abs(np.append(np.round(deltas - delta, DIGITS), delta)))
    p_value = np.count_nonzero(distances >= abs(delta)) / (samples + 1)
    # at least abs(delta) unless fewer than 5 % are
    reach = float(distances[samples - samples // 20])
    return Bootstrap(metric, delta, (delta - reach, delta + reach), p_value, samples)


def _resampled(
    n: int, samples: int, random_state: int | np.random.Generator | None
) -> Iterator[tuple[slice, np.ndarray]]:
    """How often each of n sentences is in each sample, some samples at a time [B, N]."""
    rows = max(1, min(samples, BLOCK // max(1, n)))
    generator = np.random.default_rng(random_state)
    for start in range(0, samples, rows):
        size = min(rows, samples - start)
        drawn = generator.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=n * size).reshape(size, n)
        yield slice(start, start + size), weights.astype(np.float64)


def _difference(sums: np.ndarray) -> np.ndarray:
    """Return [B] score of b minus score of a from [B, 4] numerators and denominators; 0 / 0 counts
    as 0."""
    top, bottom = sums[:, 0::2], sums[:, 1::2]
    scores = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    return np.asarray(scores[:, 1] - scores[:, 0])


def _signed(share: float) -> str:
    """Write a difference of shares in percentage points, with its sign."""
    return f"{100 * share:+.2f}"


def _probability(p_value: float) -> str:
    """Write a p-value with four decimals, or as a power of ten if it is smaller."""
    return f"{p_value:.4f}" if p_value >= 0.0001 else f"{p_value:.1e}"


def _right_sentences(tokens: Tokens, rules: Rules, system: int) -> np.ndarray:
    """Return [N] whether every label of the sentence is right."""
    wrong = offsets_from(tokens.codes[0] != tokens.codes[system])
    return np.asarray(wrong[tokens.offsets[1:]] == wrong[tokens.offsets[:-1]])


def _gold_chunks_found(tokens: Tokens, rules: Rules, system: int) -> np.ndarray:
    """Return for every gold chunk, in order, whether the prediction has it."""
    if rules.roles is None:
        raise OptionError(
            "unit: 'chunk' needs chunk labels such as B-NP; use 'token' or 'sentence'"
        )
    return matched(units_of(tokens, rules, 0), units_of(tokens, rules, system))


# Whether the system is correct on each unit of McNemar's test.
RIGHT: dict[str, Callable[[Tokens, Rules, int], np.ndarray]] = {
    "token": lambda tokens, rules, system: tokens.codes[0] == tokens.codes[system],
    "sentence": _right_sentences,
    "chunk": _gold_chunks_found,
}

# The numerator and denominator of each metric, [N] each.
STATISTICS: dict[str, Callable[[Counts], tuple[np.ndarray, np.ndarray]]] = {
    "f1": lambda c: (2 * c.by_sentence()[:, 2], c.by_sentence()[:, :2].sum(axis=1)),
    "accuracy": lambda c: (c.correct_tokens, c.tokens),
    "sentence": lambda c: (c.correct_tokens == c.tokens, np.ones_like(c.tokens)),
}
