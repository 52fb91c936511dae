"""Further scores of one prediction: partial matches, and every document by itself.

Chunks are paired as `errors` pairs them: each with one at most, first those with the same
boundaries, then those of the same type, then those that share the most tokens.  The kinds of errors
are all that partial scores need:

              correct            incorrect             partial             missed   spurious
    strict    correct            all other pairs                           missed   invented
    exact     correct + type     boundary (+ type)                         missed   invented
    partial   correct + type                           boundary (+ type)   missed   invented
    type      correct + boundary type (+ boundary)                         missed   invented
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from labelwright.errors import OptionError
from labelwright.evaluate.counts import Rules, Score, Tokens, count_system, score_of
from labelwright.evaluate.errors import ErrorAnalysis
from labelwright.wording import align


class PartialScore(NamedTuple):
    """Precision, recall and F1 of chunks, some of which are half right, as in MUC and SemEval 2013
    (task 9.1)."""

    precision: float  #: (correct + partial / 2) / all predicted chunks
    recall: float  #: (correct + partial / 2) / all gold chunks
    f1: float  #: harmonic mean of both
    correct: int  #: pairs that are right
    incorrect: int  #: pairs that are wrong
    partial: int  #: pairs that count half
    missed: int  #: gold chunks without a partner
    spurious: int  #: predicted chunks without a partner


class DocumentScore(NamedTuple):
    """The scores of one document."""

    first: int  #: its first sentence, from 0
    n_sentences: int  #: number of sentences
    n_tokens: int  #: number of tokens
    chunks: Score | None  #: of all its chunks together; None where labels are no chunk labels
    token_accuracy: float  #: share of tokens with the correct label


def partial_scores(analysis: ErrorAnalysis) -> dict[str, PartialScore]:
    """The scores strict, exact (boundaries alone), partial (other boundaries count half) and type
    (any overlap)."""
    if analysis.unit != "chunk":
        raise OptionError(
            "partial: the labels are no chunk labels such as B-NP, and no token is partly right"
        )
    kinds, right = analysis.kinds, analysis.total.correct
    apart = kinds["boundary"] + kinds["type+boundary"]
    pairs = {  # correct, incorrect, partial
        "strict": (right, kinds["type"] + apart, 0),
        "exact": (right + kinds["type"], apart, 0),
        "partial": (right + kinds["type"], 0, apart),
        "type": (right + kinds["boundary"], kinds["type"] + kinds["type+boundary"], 0),
    }
    scores = {}
    for name, (correct, incorrect, partial) in pairs.items():
        # in halves, so that what is counted is whole
        score = score_of(
            2 * analysis.total.gold, 2 * analysis.total.predicted, 2 * correct + partial
        )
        counts = correct, incorrect, partial, kinds["missed"], kinds["invented"]
        scores[name] = PartialScore(*score[:3], *counts)
    return scores


def document_scores(tokens: Tokens, rules: Rules, documents: Sequence[int]) -> list[DocumentScore]:
    """The scores of documents that begin with these sentences; what is before the first is a
    document, too."""
    counts, n = count_system(tokens, rules, 1), len(tokens.offsets) - 1
    begins = sorted({0, *map(int, documents)})
    if begins[0] < 0 or begins[-1] >= n:
        raise OptionError(
            f"documents: expected numbers of sentences from 0 to {n - 1}, got {begins[-1]}"
        )
    by_sentence, scores = counts.by_sentence(), []
    for a, b in pairwise([*begins, n]):
        n_tokens = int(counts.tokens[a:b].sum())
        chunks = None if rules.roles is None else score_of(*by_sentence[a:b].sum(axis=0).tolist())
        accuracy = int(counts.correct_tokens[a:b].sum()) / max(n_tokens, 1)
        scores.append(DocumentScore(a, b - a, n_tokens, chunks, accuracy))
    return scores


def document_lines(scores: Sequence[DocumentScore]) -> list[str]:
    """A table of documents; the number of a document counts from 1."""
    rows: list[tuple[str, ...]] = [
        ("document", "precision", "recall", "f1", "token accuracy", "sentences", "tokens")
    ]
    for number, score in enumerate(scores, 1):
        shares = [*(score.chunks[:3] if score.chunks else ("", "", "")), score.token_accuracy]
        shown = [share if isinstance(share, str) else f"{100 * share:.2f}" for share in shares]
        rows.append((str(number), *shown, str(score.n_sentences), str(score.n_tokens)))
    return align(rows)


def partial_lines(scores: dict[str, PartialScore]) -> list[str]:
    """A table of partial scores."""
    rows: list[tuple[str, ...]] = [("match", *PartialScore._fields)]
    for name, score in scores.items():
        rows.append((name, *(f"{100 * share:.2f}" for share in score[:3]), *map(str, score[3:])))
    return align(rows)
