"""Are probabilities right as often as they say?  Reliability, calibration error, Brier score, risk
and coverage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.partial_labels import left_open
from labelwright.corpus.schemes import is_chunk_label
from labelwright.corpus.spans import Span, spans_of
from labelwright.corpus.table import Corpus
from labelwright.errors import OptionError
from labelwright.wording import align, plain

Array = NDArray[Any]
BINS = 15  # at most, of at least
SMALLEST = 10  # predictions each
PRECISIONS = (0.9, 0.95, 0.99)
POINTS = 200  # of the curve of risk and coverage, at most


class Judged(NamedTuple):
    """What a model says of its predictions, and which of them are right."""

    said: Array  # [n]  probabilities
    right: Array  # [n] bool
    unit: str  # "entity", or "token" where labels make no chunks
    n_gold: int  # entities, or tokens, of the gold standard


class Bin(NamedTuple):
    """Predictions of similar probability."""

    low: float  #: the range of their probabilities
    high: float  #: its end
    said: float  #: the mean of their probabilities
    right: float  #: the share of them that is right
    n: int  #: how many they are


class Operation(NamedTuple):
    """What is kept where a precision is demanded."""

    precision: float  #: that is demanded
    #: keep what is at least so probable; None where no threshold reaches the precision
    threshold: float | None
    kept: float  #: the share of the predictions
    recall: float  #: the share of the gold standard that is found

    @property
    def shown_threshold(self) -> str:
        """The threshold in four digits, rounded down: it keeps all that the threshold keeps.

        >>> Operation(0.9, 0.65987, 0.5, 0.5).shown_threshold
        '0.6598'
        >>> Operation(0.9, 0.7, 0.5, 0.5).shown_threshold
        '0.7000'
        """
        if self.threshold is None:
            return "-"
        nearest = f"{self.threshold:.4f}"
        return nearest if float(nearest) <= self.threshold else f"{float(nearest) - 1e-4:.4f}"


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """How far probabilities can be trusted; `str(report)` is a table, `report.as_dict()` is ready
    for JSON."""

    unit: str  #: what is predicted, "entity" or "token"
    n: int  #: predictions
    n_gold: int  #: units of the gold standard
    said: float  #: mean probability
    right: float  #: share of right predictions
    ece: float  #: expected calibration error, over bins of equal size
    brier: float  #: mean squared error of the probabilities
    bins: tuple[Bin, ...]  #: the reliability table
    operations: tuple[Operation, ...]  #: what is kept, by demanded precision
    #: the share that is kept and its precision, the most probable first
    curve: tuple[tuple[float, float], ...]
    #: or "confidence", of a tagger whose scores are no probabilities by themselves
    measure: str = "probability"

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as plain dicts and lists."""
        return dict(plain(self))

    def __str__(self) -> str:
        """Return the reliability table, the errors, and what is kept at each precision."""
        units = {"entity": "entities", "token": "tokens"}[self.unit]
        if not self.n:
            return f"calibration: no {units} predicted"
        rows = [(self.measure, f"mean {self.measure}", "share right", "n")]
        for each in self.bins:
            rows.append(
                (
                    f"{each.low:.3f} to {each.high:.3f}",
                    f"{each.said:.3f}",
                    f"{each.right:.3f}",
                    str(each.n),
                )
            )
        rows.append((f"all {units}", f"{self.said:.3f}", f"{self.right:.3f}", str(self.n)))
        lines = [
            *align(rows),
            "",
            f"expected calibration error {100 * self.ece:.2f} %, Brier score {self.brier:.4f}",
        ]
        for operation in self.operations:
            kept = f"none of the {units}: no threshold reaches it"
            if operation.threshold is not None:
                recall = (
                    f"{100 * operation.recall:.1f} % of the gold ones found, threshold "
                    f"{operation.shown_threshold}"
                )
                kept = f"{100 * operation.kept:.1f} % of the {units} ({recall})"
            lines.append(f"at {100 * operation.precision:.0f} % precision you keep {kept}")
        return "\n".join(lines)


def calibration_report(
    model: Any,
    X: Any,
    y: Sequence[Sequence[str]] | None = None,
    *,
    layer: str = "",
    bins: int | None = None,
) -> CalibrationReport:
    """How well the probabilities (or confidences) of a model's entities agree with how often they
    are right on labelled sentences; of labels that make no chunks, those of the labels of tokens.

    model : a tagger with probabilities, or a calibrated one
    X, y : sentences and gold labels, or a Corpus; entities that touch a token whose label is
        unknown are left out, and of a set of labels the predicted one counts as right
    layer : which layer of a cascade; y are then the labels of that layer
    bins : their number; 15, or fewer where there are few predictions
    """
    gold = X.y if y is None and isinstance(X, Corpus) else y
    if gold is None:
        raise OptionError("calibration_report: give the true labels y")
    if layer not in model._outputs:
        raise OptionError(f"layer: expected one of {', '.join(model._outputs)}, got {layer!r}")
    tagger = model._outputs[layer]
    if not tagger._is_sure:
        raise OptionError(
            f"calibration_report: {tagger._lacks('probability')}; calibrate it first, if it can be"
        )

    def question(name: str, tagger: Any, batch: Any) -> list[tuple[list[str], list[Span]]]:
        if name != layer:
            return [([], []) for _ in batch]
        labels = [
            record.labels
            for record in batch.decode(tagger._checked_decoder(None), probabilities=False)
        ]
        return list(zip(labels, batch.entities(labels), strict=True))

    answers = model._ask_outputs(X, question)[layer]
    _check_number(answers, gold)
    agreed = []
    for number, (row, (labels, _)) in enumerate(
        zip(left_open(gold, tagger.classes_), answers, strict=True)
    ):
        if len(row) != len(labels):
            raise OptionError(
                f"y: sentence {number} has {len(row)} labels, but X has {len(labels)} tokens there"
            )
        agreed.append(agreeing(row, labels))
    return reliability(
        judged([spans for _, spans in answers], agreed, tagger.classes_), bins, measure_of(tagger)
    )


def measure_of(tagger: Any) -> str:
    """What the numbers of a tagger are: probability, or confidence."""
    return "probability" if tagger._probabilistic else "confidence"


def _check_number(entities: Sequence[Any], gold: Sequence[Any]) -> None:
    if len(entities) != len(gold):
        raise OptionError(f"y: {len(gold)} sentences, but X has {len(entities)}")


def agreeing(gold: Sequence[Any], predicted: Sequence[str]) -> list[Any]:
    """Gold labels with a label for each set of labels: the predicted one, where it is in the set;
    unknown labels stay None.

    >>> agreeing(["O", None, {"B-PER", "B-ORG"}, {"B-PER", "B-ORG"}], ["O", "O", "B-PER", "O"])
    ['O', None, 'B-PER', 'B-ORG']
    """
    return [
        (mine if mine in label else min(label, key=str))
        if isinstance(label, frozenset | set)
        else label
        for label, mine in zip(gold, predicted, strict=True)
    ]


def judged(
    entities: Sequence[Sequence[Span]], gold: Sequence[Sequence[Any]], labels: Sequence[str]
) -> Judged:
    """Which of the predicted entities are right; of tokens where the labels of the model make no
    chunks.

    gold : labels, or None where one is unknown: entities that touch such a token are left out
    """
    _check_number(entities, gold)
    chunks = all(map(is_chunk_label, labels))
    said, right, n_gold = list[float](), list[bool](), 0
    for spans, row in zip(entities, gold, strict=True):
        known_labels = ["O" if label is None else label for label in row]
        true = (
            spans_of(known_labels)
            if chunks
            else [Span(t, t + 1, label) for t, label in enumerate(row)]
        )
        unknown = {t for t, label in enumerate(row) if label is None}
        if unknown:  # nor may one be beside them: a chunk may go on there
            true, spans = (
                [
                    span
                    for span in some
                    if unknown.isdisjoint(range(span.start - chunks, span.end + chunks))
                ]
                for some in (true, spans)
            )
        known = {span[:3] for span in true}
        n_gold += len(known)
        said += [float(span.probability or 0.0) for span in spans]
        right += [span[:3] in known for span in spans]
    return Judged(
        np.array(said, np.float64),
        np.array(right, np.bool_),
        "entity" if chunks else "token",
        n_gold,
    )


def reliability(
    seen: Judged, bins: int | None = None, measure: str = "probability"
) -> CalibrationReport:
    """All figures of predictions that were judged, by their probability or confidence.

    >>> confidence, right = np.array([0.9, 0.9, 0.6, 0.6]), np.array([True, True, True, False])
    >>> seen = Judged(confidence, right, "entity", 4)
    >>> report = reliability(seen, bins=2)
    >>> round(report.ece, 3), round(report.brier, 3), report.operations[0].kept
    (0.1, 0.135, 0.5)
    """
    said, right, unit, n_gold = seen
    if not len(said):
        nothing = tuple(Operation(precision, None, 0.0, 0.0) for precision in PRECISIONS)
        return CalibrationReport(unit, 0, n_gold, 0.0, 0.0, 0.0, 0.0, (), nothing, (), measure)
    order = np.argsort(said, kind="stable")
    # bins of (nearly) equal size: adaptive ones, where most probabilities are close to 1
    table = []
    for part in np.array_split(
        order, max(1, min(BINS, len(order) // SMALLEST)) if bins is None else bins
    ):
        if len(part):
            p = said[part]
            table.append(
                Bin(
                    float(p.min()),
                    float(p.max()),
                    float(p.mean()),
                    float(right[part].mean()),
                    len(p),
                )
            )
    ece = sum(each.n * abs(each.said - each.right) for each in table) / len(said)
    brier = float(((said - right) ** 2).mean())

    # For every threshold that differs, from the highest: how much is kept [C] and how much of it is
    # right.
    falling = np.argsort(-said, kind="stable")
    # equal probabilities are kept together
    last = np.flatnonzero(np.append(np.diff(said[falling]) != 0, True))
    threshold, kept, correct = said[falling][last], last + 1, np.cumsum(right[falling])[last]
    operations = []
    for precision in PRECISIONS:  # the lowest threshold that reaches it
        good = np.flatnonzero(correct >= precision * kept)
        operation = Operation(precision, None, 0.0, 0.0)
        if len(good):
            c = good[-1]
            recall = float(correct[c] / n_gold) if n_gold else 0.0
            operation = Operation(
                precision, float(threshold[c]), float(kept[c] / len(said)), recall
            )
        operations.append(operation)
    chosen = np.unique(np.linspace(0, len(kept) - 1, min(POINTS, len(kept))).round().astype(int))
    curve = zip(
        (kept[chosen] / len(said)).tolist(), (correct[chosen] / kept[chosen]).tolist(), strict=True
    )
    figures = (
        float(said.mean()),
        float(right.mean()),
        ece,
        brier,
        tuple(table),
        tuple(operations),
        tuple(curve),
    )
    return CalibrationReport(unit, len(said), n_gold, *figures, measure)
