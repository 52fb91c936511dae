"""What a tagger gets wrong: every error with its kind, its sentence and its probabilities, and
counts of them.

labels -> units (chunks, or tokens where there are no chunks) -> errors, each a pair of units that
belong together
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from labelwright.corpus.spans import Span
from labelwright.corpus.table import Corpus, taken
from labelwright.corpus.tokenizer import joined_text
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate.counts import Rules, Score, Tokens, Units, matched, score_of, units_of
from labelwright.evaluate.error_views import page, text_of
from labelwright.wording import plain

Words = list[list[str]]  # [N][T]
CHUNK_KINDS = {
    "missed": "a gold chunk without a predicted counterpart",
    "invented": "a predicted chunk without a gold counterpart",
    "type": "right boundaries, wrong type",
    "boundary": "right type, wrong boundaries",
    "type+boundary": "the chunks overlap; type and boundaries are wrong",
}
TOKEN_KINDS = {"label": "a wrong label"}
WORD_KEYS = ("word", "w", "form", "token", "w[0]")  # of feature dicts that hold the word itself


class Error(NamedTuple):
    """One error: a gold chunk, a predicted one, or two that overlap; of single tokens, their
    labels."""

    kind: str  #: a key of CHUNK_KINDS or TOKEN_KINDS
    sentence: int  #: from 0
    gold: Span | None  #: with the probability that the model gives it; None where nothing is there
    predicted: Span | None  #: the predicted chunk, None where a gold chunk was missed
    text: str  #: the words of the gold chunk, or else of the predicted one
    unseen: bool | None  #: is one of its tokens missing from the training data?  None: not known

    @property
    def type(self) -> str:
        """The gold type; the predicted one where there is none."""
        return self.either.type

    @property
    def either(self) -> Span:
        """The gold chunk, or the predicted one where there is none."""
        return next(span for span in (self.gold, self.predicted) if span is not None)


class Confusion(NamedTuple):
    """How often one type was predicted in place of another."""

    gold: str  #: the true type (or label)
    predicted: str  #: the predicted one
    n: int  #: how often


class Phrase(NamedTuple):
    """A phrase with errors of one kind."""

    text: str  #: its words
    gold: str | None  #: its type; None where it is invented
    predicted: str | None  #: None where it is missed
    n: int  #: errors
    #: how often the phrase has this gold type (where it is invented, how often it is predicted as
    #: such)
    total: int


class Boundary(NamedTuple):
    """Words by which predicted chunks are longer or shorter than gold chunks of the same type."""

    place: str  #: "added before", "left out before", "added after", "left out after"
    text: str  #: the words
    n: int  #: how often


@dataclass(frozen=True, slots=True)
class ErrorAnalysis:
    """All errors of one prediction; `str(analysis)` is a text, `as_dict()` is ready for JSON,
    `html()` is a page."""

    unit: str  #: "chunk" or "token"
    n_sentences: int  #: all sentences, also those without errors
    n_tokens: int  #: all tokens
    total: Score  #: precision, recall and F1 of all chunks (or tokens)
    kinds: dict[str, int]  #: number of errors of each kind
    #: of each type: gold, predicted, correct, and errors of each kind
    per_type: dict[str, dict[str, int]]
    confusions: list[Confusion]  #: the most frequent first, as in the lists below
    phrases: dict[str, list[Phrase]]  #: by kind of error; empty where the words are not known
    boundaries: list[Boundary]  #: words by which boundaries are wrong
    #: "seen" and "unseen": chunks without and with a token that is new
    vocabulary: dict[str, Score] | None
    errors: list[Error]  #: in the order of the sentences
    sentences: dict[int, list[str]]  #: the words of the sentences that have errors

    def select(
        self, kinds: Iterable[str] = (), types: Iterable[str] = (), text: str = ""
    ) -> list[Error]:
        """The errors of these kinds that concern these types, and whose phrase has this text (in
        any case).

        kinds : such as missed or boundary; none: all
        types : chunk types or labels; none: all
        text : part of the phrase
        """
        kinds, types = set(kinds), set(types)
        for name, given, known in (("kind", kinds, self.kinds), ("type", types, self.per_type)):
            for value in sorted(given - set(known)):
                raise OptionError(f"{name}: no {value!r} here, expected one of {', '.join(known)}")
        return [
            error
            for error in self.errors
            if (not kinds or error.kind in kinds)
            and (
                not types
                or types & {span.type for span in (error.gold, error.predicted) if span is not None}
            )
            and text.lower() in error.text.lower()
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain dicts, lists, numbers and strings."""
        meanings = {kind: (CHUNK_KINDS | TOKEN_KINDS)[kind] for kind in self.kinds}
        sentences = {str(number): words for number, words in self.sentences.items()}
        return dict(plain(self)) | {
            "n_errors": len(self.errors),
            "meanings": meanings,
            "sentences": sentences,
        }

    def html(self, title: str = "Errors") -> str:
        """Return a page to look through the errors in a browser, without anything outside it.

        title : of the page
        """
        return page({"": self.as_dict()}, title)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in self.kinds.items() if n)
        return (
            f"<ErrorAnalysis: {len(self.errors):,} errors{f' ({kinds})' if kinds else ''}; print "
            "it for the tables>"
        )

    def __str__(self) -> str:
        return "\n".join(text_of(self.as_dict()))


def analysis_of(
    tokens: Tokens,
    rules: Rules,
    X: Any = None,
    *,
    model: Any = None,
    layer: str = "",
    train: Any = None,
) -> ErrorAnalysis:
    """All errors of system 1 against the gold standard; see `Report.errors` for what X, model and
    train add."""
    types = tokens.labels if rules.roles is None else list(rules.roles.types)
    gold, predicted = units_of(tokens, rules, 0), units_of(tokens, rules, 1)
    words = words_of(X, tokens)
    unseen = None if words is None else _unseen(words, model, train)
    right = matched(gold, predicted)
    wrong = (
        _by_sentence(tokens, types, gold, ~right),
        _by_sentence(tokens, types, predicted, ~matched(predicted, gold)),
    )
    flat = None if words is None else [word for sentence in words for word in sentence]
    errors = []
    for n in sorted({*wrong[0], *wrong[1]}):
        for ours, theirs in paired(wrong[0].get(n, []), wrong[1].get(n, [])):
            spans, begin = (
                [span for span in (ours, theirs) if span is not None],
                int(tokens.offsets[n]),
            )
            start, end = min(span.start for span in spans), max(span.end for span in spans)
            text = (
                ""
                if flat is None
                else joined_text(flat[begin + spans[0].start : begin + spans[0].end])
            )
            new = None if unseen is None else bool(unseen[begin + start : begin + end].any())
            errors.append(
                Error(
                    "label" if rules.roles is None else kind_of(ours, theirs),
                    n,
                    ours,
                    theirs,
                    text,
                    new,
                )
            )
    if model is not None and X is not None and errors and model._outputs[layer]._is_sure:
        errors = _with_probabilities(errors, X, model, layer, chunks=rules.roles is not None)
    kinds = Counter(error.kind for error in errors)
    both = [
        (error.gold.type, error.predicted.type)
        for error in errors
        if error.gold and error.predicted
    ]
    confused = Counter((one, other) for one, other in both if one != other)
    known = TOKEN_KINDS if rules.roles is None else CHUNK_KINDS
    return ErrorAnalysis(
        unit="token" if rules.roles is None else "chunk",
        n_sentences=len(tokens.offsets) - 1,
        n_tokens=len(tokens.codes[0]),
        total=score_of(len(gold.first), len(predicted.first), int(right.sum())),
        kinds={kind: kinds[kind] for kind in known},
        per_type=_per_type(types, gold, predicted, right, errors, list(known)),
        confusions=[Confusion(*each) for each in _ranked(confused)],
        phrases={}
        if words is None
        else _phrases(errors, list(known), types, (gold, predicted), words),
        boundaries=[] if words is None else _boundaries(errors, words),
        vocabulary=None if unseen is None else _vocabulary(unseen, gold, predicted, right),
        errors=errors,
        sentences={}
        if words is None
        else {n: list(words[n]) for n in sorted({error.sentence for error in errors})},
    )


def _by_sentence(
    tokens: Tokens, types: list[str], units: Units, chosen: np.ndarray
) -> dict[int, list[Span]]:
    """The chosen units as spans of their sentences."""
    spans: dict[int, list[Span]] = defaultdict(list)
    places = np.searchsorted(tokens.offsets, units.first[chosen], side="right") - 1
    begins = tokens.offsets[places]
    columns = places, units.first[chosen] - begins, units.end[chosen] - begins, units.type[chosen]
    for sentence, start, end, kind in zip(*(column.tolist() for column in columns), strict=True):
        spans[sentence].append(Span(start, end, types[kind]))
    return spans


# -- errors ----------------------------------------------------------------------------------------


def kind_of(gold: Span | None, predicted: Span | None) -> str:
    """The kind of an error.

    >>> kind_of(Span(0, 2, "ORG"), Span(0, 2, "LOC")), kind_of(Span(0, 2, "ORG"), Span(1, 2, "ORG"))
    ('type', 'boundary')
    """
    if gold is None or predicted is None:
        return "invented" if gold is None else "missed"
    if gold[:2] == predicted[:2]:
        return "type"
    return "boundary" if gold.type == predicted.type else "type+boundary"


def paired(
    gold: Sequence[Span], predicted: Sequence[Span]
) -> list[tuple[Span | None, Span | None]]:
    """Gold and predicted spans that belong together, each used once: those that overlap, first
    those with the same boundaries, then those of the same type, then those that share the most
    tokens; what is left has no partner.

    >>> gold, predicted = [Span(0, 3, "ORG")], [Span(0, 2, "LOC"), Span(2, 3, "ORG")]
    >>> paired(gold, predicted)  # doctest: +NORMALIZE_WHITESPACE
    [(Span(start=0, end=3, type='ORG', probability=None), Span(start=2, end=3, type='ORG',
    probability=None)),
     (None, Span(start=0, end=2, type='LOC', probability=None))]
    """
    candidates = []
    for i, ours in enumerate(gold):
        for j, theirs in enumerate(predicted):
            shared = min(ours.end, theirs.end) - max(ours.start, theirs.start)
            if shared > 0:
                candidates.append((ours[:2] != theirs[:2], ours.type != theirs.type, -shared, i, j))
    pairs: list[tuple[Span | None, Span | None]] = []
    left, left_too = set(range(len(gold))), set(range(len(predicted)))
    for *_, i, j in sorted(candidates):
        if i in left and j in left_too:
            pairs.append((gold[i], predicted[j]))
            left.remove(i)
            left_too.remove(j)
    pairs += [(gold[i], None) for i in left] + [(None, predicted[j]) for j in left_too]
    return sorted(pairs, key=lambda pair: min(span.start for span in pair if span is not None))


def _with_probabilities(
    errors: list[Error], X: Any, model: Any, layer: str, chunks: bool
) -> list[Error]:
    """The errors with the probability (or calibrated confidence) that a model gives to both sides
    of each.  Only sentences with errors are scored."""
    by_sentence: dict[int, list[Error]] = defaultdict(list)
    for error in errors:
        by_sentence[error.sentence].append(error)
    some = isinstance(X, Corpus | list | tuple | np.ndarray)  # of which a part can be taken
    rows = list(by_sentence) if some else list(range(len(X)))

    def question(name: str, tagger: Any, batch: Any) -> list[list[Error]]:
        if name != layer:
            return [[] for _ in batch]
        sure, asked = (
            batch.sure,
            [by_sentence.get(row, []) for row in rows[batch.first : batch.first + len(batch)]],
        )
        answers: list[list[Error]] = [[] for _ in asked]
        for answer, sentence, part in zip(answers, sure.sentences, asked, strict=True):
            table = None if chunks or not part else sure.label_probabilities(sentence)
            for error in part:
                gold, predicted = (
                    _with_probability(sure, sentence, table, span)
                    for span in (error.gold, error.predicted)
                )
                answer.append(error._replace(gold=gold, predicted=predicted))
        return answers

    answers = model._ask_outputs(taken(X, rows) if some else X, question)[layer]
    return [error for part in answers for error in part]


def _with_probability(batch: Any, sentence: Any, table: Any, span: Span | None) -> Span | None:
    """A span with its probability, from those of labels [T, L] where it is a label."""
    if span is None:
        return None
    labels = list(map(str, sentence.labels))
    if span.type not in (sentence.span_types if table is None else labels):
        return span._replace(probability=0.0)
    p = (
        batch.probabilities_of(sentence, [span])[0]
        if table is None
        else table[span.start, labels.index(span.type)]
    )
    return span._replace(probability=min(1.0, max(0.0, float(p))))


# -- words -----------------------------------------------------------------------------------------


def words_of(X: Any, tokens: Tokens | None = None) -> Words | None:
    """The words of sentences: the first column, strings, or what feature dicts call the word; None
    where there are no words.  With `tokens`, they must be as many as the labels."""
    words: Words | None = None
    if isinstance(X, Corpus):
        words = X.column(X.input_names[0]) if X.input_names else None
    elif hasattr(X, "__getitem__"):  # attributes of CRFsuite's data have none
        listed = [list(map(_word, s)) if isinstance(s, list | tuple) else [None] for s in X]
        words = None if any(None in sentence for sentence in listed) else listed  # type: ignore[assignment]
    if (
        words is not None
        and tokens is not None
        and [len(s) for s in words] != np.diff(tokens.offsets).tolist()
    ):
        raise CorpusError(
            "X: its sentences are not as long as their labels; give the sentences that were "
            "labelled"
        )
    return words


def _word(token: Any) -> str | None:
    if isinstance(token, str):
        return token
    if isinstance(token, Mapping):
        return next((token[key] for key in WORD_KEYS if isinstance(token.get(key), str)), None)
    return (
        token[0]
        if isinstance(token, tuple | list) and token and isinstance(token[0], str)
        else None
    )


def _unseen(words: Words, model: Any, train: Any) -> np.ndarray | None:
    """Which tokens [T] have a word that is not in the training data; None where that is not
    known."""
    distinct = list(dict.fromkeys(word for sentence in words for word in sentence))
    if train is not None:
        trained_on = words_of(train)
        if trained_on is None:
            raise CorpusError("train: has no words, only features; give sentences of words")
        vocabulary = {word for sentence in trained_on for word in sentence}
        seen: list[bool] | None = [word in vocabulary for word in distinct]
    else:
        seen = None if model is None else model.knows(distinct)
    if seen is None:
        return None
    known = dict(zip(distinct, seen, strict=True))
    return np.array([not known[word] for sentence in words for word in sentence], np.bool_)


# -- counts of errors ------------------------------------------------------------------------------


def _per_type(
    types: list[str],
    gold: Units,
    predicted: Units,
    right: np.ndarray,
    errors: list[Error],
    kinds: list[str],
) -> dict[str, dict[str, int]]:
    """For each type the units of both sides, the correct ones, and the errors by kind."""
    C = len(types)
    columns = [
        np.bincount(of, minlength=C).tolist()
        for of in (gold.type, predicted.type, gold.type[right])
    ]
    by_kind = Counter((error.type, error.kind) for error in errors)
    rows = {}
    for name, *numbers in sorted(zip(types, *columns, strict=True)):
        if numbers[0] or numbers[1]:
            rows[name] = dict(zip(("gold", "predicted", "correct"), numbers, strict=True))
            rows[name] |= {kind: by_kind[name, kind] for kind in kinds}
    return rows


def _ranked(counts: Mapping[Any, int]) -> list[tuple[Any, ...]]:
    """What is counted and how often, the most frequent first, equals in the order of the
    alphabet."""
    ranked = sorted(
        counts.items(), key=lambda item: (-item[1], tuple(part or "" for part in item[0]))
    )
    return [(*key, n) for key, n in ranked]


def _phrases(
    errors: list[Error], kinds: list[str], types: list[str], sides: Sequence[Units], words: Words
) -> dict[str, list[Phrase]]:
    """The phrases with errors of each kind, and how often gold or predicted units are the same
    phrase."""
    flat, texts = [word for sentence in words for word in sentence], []
    for units in sides:
        places = zip(*(column.tolist() for column in units), strict=True)
        texts.append(Counter((joined_text(flat[a:b]), types[kind]) for a, b, kind in places))
    counts: dict[str, Counter[Any]] = {kind: Counter() for kind in kinds}
    for error in errors:
        gold, predicted = (span and span.type for span in (error.gold, error.predicted))
        counts[error.kind][error.text, gold, predicted] += 1
    return {
        kind: [
            Phrase(
                text,
                gold,
                predicted,
                n,
                texts[0][text, gold] if gold is not None else texts[1][text, predicted],
            )
            for text, gold, predicted, n in _ranked(counted)
        ]
        for kind, counted in counts.items()
    }


def _boundaries(errors: list[Error], words: Words) -> list[Boundary]:
    counts: Counter[tuple[str, str]] = Counter()
    for error in errors:
        if error.kind == "boundary" and error.gold is not None and error.predicted is not None:
            gold, predicted, sentence = error.gold, error.predicted, words[error.sentence]
            for place, a, b in (
                ("added before", predicted.start, gold.start),
                ("left out before", gold.start, predicted.start),
                ("left out after", predicted.end, gold.end),
                ("added after", gold.end, predicted.end),
            ):
                if a < b:
                    counts[place, joined_text(sentence[a:b])] += 1
    return [Boundary(*each) for each in _ranked(counts)]


def _vocabulary(
    unseen: np.ndarray, gold: Units, predicted: Units, right: np.ndarray
) -> dict[str, Score]:
    """The scores of units whose words are all known, and of those with a word that is not."""
    before = np.concatenate([[0], np.cumsum(unseen)])
    new, new_too = (before[units.end] > before[units.first] for units in (gold, predicted))
    return {
        "seen": score_of(int((~new).sum()), int((~new_too).sum()), int((right & ~new).sum())),
        "unseen": score_of(int(new.sum()), int(new_too.sum()), int((right & new).sum())),
    }
