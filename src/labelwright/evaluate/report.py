"""Scores from counts: precision, recall and F1 of chunks, accuracy of tokens and sentences, and a
table."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from labelwright import __version__
from labelwright.errors import OptionError
from labelwright.evaluate.counts import (
    Counts,
    Labels,
    Rules,
    Score,
    Tokens,
    count_system,
    intern,
    rules_for,
    score_of,
)
from labelwright.evaluate.error_views import ConfusionMatrix, confusion_matrix
from labelwright.evaluate.errors import ErrorAnalysis, analysis_of
from labelwright.evaluate.matches import (
    DocumentScore,
    PartialScore,
    document_scores,
    partial_scores,
)
from labelwright.wording import align, plain


class Macro(NamedTuple):
    """Macro averages over all types (or labels) of the gold standard and the prediction."""

    precision: float  #: mean of the precisions of all types
    recall: float  #: mean of their recalls
    f1: float  #: mean of their F1


@dataclass(frozen=True, slots=True)
class Report:
    """All scores of one prediction; `str(report)` is a table, `report.as_dict()` is ready for
    JSON."""

    #: of all chunks together; None where labels are no chunk labels, like recall and f1
    precision: float | None
    recall: float | None  #: share of the gold chunks that were predicted
    f1: float | None  #: harmonic mean of precision and recall
    chunks: Score | None  #: the same three with their counts
    macro: Macro  #: over types, or over labels where there are no chunks
    per_type: dict[str, Score]  #: chunk types; empty where there are none
    per_label: dict[str, Score]  #: labels of tokens; only where there are no chunks
    token_accuracy: float  #: share of tokens with the correct label
    sentence_accuracy: float  #: sentences with every label correct
    n_sentences: int  #: number of sentences
    n_tokens: int  #: number of tokens
    reading: str  #: how chunks were read from labels: conlleval, strict or token
    scheme: str | None  #: the label scheme, None where labels follow none
    signature: str  #: how the score was computed, in one reproducible string
    #: what `errors` looks at
    labels: tuple[Tokens, Rules] | None = field(default=None, repr=False, compare=False)

    @property
    def score(self) -> float:
        """The one number to watch: F1 of chunks, or the token accuracy where there are no
        chunks."""
        return self.token_accuracy if self.f1 is None else self.f1

    def errors(
        self, X: Any = None, *, model: Any = None, layer: str = "", train: Any = None
    ) -> ErrorAnalysis:
        """What goes wrong: kinds of errors, confused types, phrases, unseen tokens, every error in
        its sentence.

        X : the sentences, for their words and for the probabilities of the model
        model : the tagger that predicted the labels; it adds probabilities, and which words it
            knows, as far as it can
        layer : the layer of a cascade that predicted them
        train : the training sentences; tokens that are not in them are unseen
        """
        return analysis_of(*self._labels("errors"), X, model=model, layer=layer, train=train)

    def partial(self) -> dict[str, PartialScore]:
        """Scores that forgive wrong boundaries or types, as in MUC and SemEval 2013: strict, exact
        (boundaries alone), partial (other boundaries count half) and type (right type, any
        overlap).

        >>> report = evaluate([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])
        >>> {name: score.f1 for name, score in report.partial().items()}
        {'strict': 0.0, 'exact': 0.0, 'partial': 0.5, 'type': 1.0}
        """
        return partial_scores(analysis_of(*self._labels("partial")))

    def confusion(self) -> ConfusionMatrix:
        """How often each type was predicted for each gold one; of labels where there are no
        chunks."""
        return confusion_matrix(analysis_of(*self._labels("confusion")).as_dict())

    def by_document(self, documents: Any) -> list[DocumentScore]:
        """The scores of every document.

        documents : the first sentence of each, from 0; or the Corpus, which has them
        """
        return document_scores(
            *self._labels("by_document"), getattr(documents, "documents", documents)
        )

    def _labels(self, asked: str) -> tuple[Tokens, Rules]:
        if self.labels is None:
            raise OptionError(
                f"{asked}: this report has counts alone; make it with evaluate(gold, predicted)"
            )
        return self.labels

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as plain dicts, numbers and strings."""
        return {
            name: value
            for name, value in plain(replace(self, labels=None)).items()
            if name != "labels"
        }

    def __repr__(self) -> str:
        score = "accuracy" if self.chunks is None else "F1"
        unit = "label" if self.chunks is None else "chunk"
        sizes = f"{_counted(self.n_tokens, 'token')}, {_counted(self.n_sentences, 'sentence')}"
        return (
            f"<Report: {score} {percent(self.score)} of {unit}s, {sizes}; print it for the table>"
        )

    def __str__(self) -> str:
        """Return the table: one line per type, the averages, then tokens and sentences."""
        kind = "label" if self.chunks is None else "chunk"
        rows: list[tuple[str, ...]] = [
            (kind, "precision", "recall", "f1", "gold", "predicted", "correct")
        ]
        for name, score in (self.per_label if self.chunks is None else self.per_type).items():
            rows.append((name or "(no type)", *map(percent, score[:3]), *map(str, score[3:])))
        rows.append(("macro average", *map(percent, self.macro), "", "", ""))
        if self.chunks is not None:
            rows.append(
                ("micro average", *map(percent, self.chunks[:3]), *map(str, self.chunks[3:]))
            )
        return "\n".join(
            [
                *align(rows),
                "",
                f"token accuracy {percent(self.token_accuracy)} "
                f"({_counted(self.n_tokens, 'token')}), sentence accuracy "
                f"{percent(self.sentence_accuracy)} ({_counted(self.n_sentences, 'sentence')})",
                self.signature,
            ]
        )


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def evaluate(
    gold: Labels, predicted: Labels, reading: str = "conlleval", scheme: str | None = None
) -> Report:
    """Score predicted labels against gold labels; see `count` for the readings.

    gold : true labels, a list for each sentence
    predicted : predicted labels, of the same lengths
    reading : conlleval, strict or token
    scheme : the label scheme; None: as the gold labels tell

    >>> report = evaluate([["B-NP", "I-NP", "O", "B-PP"]], [["B-NP", "I-NP", "I-NP", "B-PP"]])
    >>> report.precision, report.recall, report.f1, report.token_accuracy
    (0.5, 0.5, 0.5, 0.75)
    """
    tokens = intern(gold, predicted=predicted)
    rules = rules_for(tokens, reading, scheme)
    return replace(report_of(count_system(tokens, rules, 1)), labels=(tokens, rules))


def report_of(counts: Counts) -> Report:
    """Sum the counts of all sentences into scores.

    counts : as `count` returns them
    """
    by_type = counts.by_type()  # [C, 3]
    totals = sorted(zip(counts.types, by_type.tolist(), strict=True))
    scores = {name: score_of(*numbers) for name, numbers in totals if numbers[0] or numbers[1]}
    chunked = counts.reading != "token"
    chunks = score_of(*by_type.sum(axis=0).tolist()) if chunked else None
    metric = "f1" if chunked else "accuracy"
    scheme = f"|scheme:{counts.scheme or 'mixed'}" if chunked else ""
    n_sentences, n_tokens = len(counts.tokens), int(counts.tokens.sum())
    return Report(
        precision=chunks and chunks.precision,
        recall=chunks and chunks.recall,
        f1=chunks and chunks.f1,
        chunks=chunks,
        macro=Macro(
            *(
                sum(score[place] for score in scores.values()) / max(len(scores), 1)
                for place in range(3)
            )
        ),
        per_type=scores if chunked else {},
        per_label={} if chunked else scores,
        token_accuracy=int(counts.correct_tokens.sum()) / max(n_tokens, 1),
        sentence_accuracy=int((counts.correct_tokens == counts.tokens).sum()) / max(n_sentences, 1),
        n_sentences=n_sentences,
        n_tokens=n_tokens,
        reading=counts.reading,
        scheme=counts.scheme,
        signature=f"{metric}|reading:{counts.reading}{scheme}|labelwright:{__version__}",
    )


def percent(share: float) -> str:
    """Write a share as a percentage with two decimals."""
    return f"{100 * share:.2f}"
