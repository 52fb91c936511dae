"""What a model answers about the sentences of some requests, as dicts ready for JSON."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.corpus.table import Corpus
from labelwright.corpus.tokenizer import joined_text
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.inspection.explanation import sentence_facts
from labelwright.serve.bodies import Asked, Explained, Options, check_size
from labelwright.taggers.arguments import rule_sentences, split_for
from labelwright.taggers.base import NBEST, PROBABILITY

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.corpus.spans import Span

Facts = dict[str, Any]
ORACLE = "oracle"  # a decoder that needs the true labels
DIGITS = 6  # of probabilities, as `tag --json` writes them

AT_ONCE = 2048  # tokens that a model is asked about at once
AT_ONCE_SLOWLY = 256  # with options that take long


class Source(NamedTuple):
    """The sentences of one request."""

    words: list[list[Any]]  # [N][T]  words, or tuples of columns
    texts: list[str] | None = None
    places: list[list[tuple[int, int]]] | None = None  # [N][T]  where each token stands in its text
    text_of: list[int] | None = None  # [N]


class Answer(NamedTuple):
    """All that is asked about one sentence."""

    decoding: Decoding
    spans: "list[Span]"
    nbest: "list[tuple[list[str], float, list[Span]]]"
    marginals: list[dict[str, float]]
    states: list[dict[str, float]]


# -- reading ---------------------------------------------------------------------------------------


def read(model: Any, asked: Asked, max_tokens: int) -> Source:
    """The sentences of a request, as the model reads them."""
    if asked.texts is not None:
        split = split_for(model, asked.texts)
        source = Source(split.words, split.texts, split.places, split.text_of)
    else:
        columns = max(1, len(model.reads().columns))
        source = Source([_columns(row, columns, n) for n, row in enumerate(asked.tokens or ())])
    check_size(list(map(len, source.words)), max_tokens)
    return source


def _columns(tokens: list[Any], n: int, number: int) -> list[Any]:
    """The tokens of a sentence with as many columns as the model reads."""
    if n == 1 and all(type(token) is str for token in tokens):
        return tokens
    rows = [(token,) if isinstance(token, str) else tuple(token) for token in tokens]
    for t, row in enumerate(rows):
        if len(row) != n:
            what = "a word" if n == 1 else f"a list of {n} columns"
            raise OptionError(
                f"tokens[{number}][{t}]: the model reads {what} at each token, got {len(row)}"
            )
    return rows if n > 1 else [word for (word,) in rows]


# -- questions -------------------------------------------------------------------------------------


def state_names(tagger: Any) -> list[str]:
    """The names of the latent states of a tagger that knows their probabilities; none for all
    others."""
    try:
        names: list[str] = tagger._state_names()
    except OptionError:
        return []
    return names if PROBABILITY in tagger.can and len(names) > len(tagger.classes_) else []


class Question:
    """What is asked about every sentence; what a model has no answer to is refused before."""

    def __init__(self, model: Any, options: Options):
        from labelwright.constraints import read_rule

        self.model, self.options = model, options
        self.rules = [read_rule(rule) for rule in options.rules]
        self.output, top = list(model._outputs.items())[-1]  # of a cascade the highest layer
        self.decoders: dict[str, str] = {}
        for name, tagger in model._outputs.items():
            self.decoders[name] = tagger._checked_decoder(options.decoder)
        if self.decoders[self.output] == ORACLE:
            raise OptionError("decoder: the oracle needs the true labels; name another decoder")
        if self.rules:
            top._check_rules(self.decoders[self.output])
        if options.marginals and not top._is_sure:
            raise OptionError(
                f"marginals: {top._lacks(PROBABILITY)}; calibrate it, or ask for nbest"
            )
        if options.nbest is not None and NBEST not in top.can:
            raise OptionError(f"nbest: {top._lacks(NBEST)}")
        if options.states and self.rules:
            raise OptionError("states: not together with rules")
        self.states = state_names(top) if options.states else []

    @property
    def at_once(self) -> int:
        """The tokens that are asked about before it is seen who still waits."""
        if self.rules:
            return 1  # each sentence may take all the time that is left
        if self.options.nbest or self.options.decoder:
            return AT_ONCE_SLOWLY
        return AT_ONCE

    def ask(self, sentences: list[list[Any]], seconds: float) -> dict[str, list[Answer]]:
        """The answers about all sentences, which are scored once, by output.

        seconds : that the solver of rules may take for a sentence"""
        limits: dict[str, Any] = {"time_limit": max(0.0, seconds)} if self.rules else {}
        words = rule_sentences(sentences) if self.rules else None

        def question(name: str, tagger: Any, batch: "Batch") -> list[Answer]:
            if name != self.output:
                records = batch.decode(self.decoders[name])
                return [Answer(record, [], [], [], []) for record in records]
            ruled = batch.under(self.rules, words) if self.rules else batch
            return self._answers(ruled, limits)

        answers: dict[str, list[Answer]] = self.model._ask_outputs(sentences, question)
        return answers

    def _answers(self, batch: "Batch", limits: dict[str, Any]) -> list[Answer]:
        o, nothing = self.options, [[]] * len(batch)  # type: tuple[Options, list[Any]]
        records = batch.decode(self.decoders[self.output], **limits)
        spans = batch.sure.spans([record.labels for record in records]) if o.spans else nothing
        nbest = _nbest(batch, o.nbest, o.spans) if o.nbest is not None else nothing
        marginals = batch.sure.marginals() if o.marginals else nothing
        states: list[Any] = nothing
        if self.states:
            states = []
            for s in batch.sure:
                rows = [] if s is None else s.state_marginals().tolist()  # type: ignore[union-attr]
                states.append([dict(zip(self.states, row, strict=True)) for row in rows])
        return [
            Answer(*parts) for parts in zip(records, spans, nbest, marginals, states, strict=True)
        ]


def _nbest(batch: "Batch", n: int, spans: bool) -> list[list[tuple[list[str], float, Any]]]:
    """The n best labellings of each sentence with their spans."""
    listed = batch.nbest(n)
    by_rank: list[list[Any]] = []
    for rank in range(max(map(len, listed), default=0)):
        labellings = [rows[min(rank, len(rows) - 1)][0] for rows in listed]
        by_rank.append(batch.sure.spans(labellings) if spans else [[]] * len(listed))
    return [
        [(labels, value, by_rank[rank][number]) for rank, (labels, value) in enumerate(rows)]
        for number, rows in enumerate(listed)
    ]


# -- facts -----------------------------------------------------------------------------------------


def sentence_fact(
    question: Question, source: Source, n: int, answers: dict[str, list[Answer]], row: int
) -> Facts:
    """The facts about sentence n of a request, whose answers stand in this row."""
    fact = _sentence(question, source, n, answers[question.output][row])
    if len(answers) > 1:
        below = {name: rows[row].decoding.labels for name, rows in answers.items()}
        fact["layers"] = {name: {"labels": labels} for name, labels in below.items()}
    return fact


def _sentence(question: Question, source: Source, n: int, answer: Answer) -> Facts:
    """One sentence: its place, its labels and how sure they are."""
    decoding, words = answer.decoding, source.words[n]
    text, places = None, None
    if source.texts is not None and source.places is not None and source.text_of is not None:
        text, places = source.texts[source.text_of[n]], source.places[n]
    log_p = decoding.log_probability
    fact: Facts = {"text": None, "document": n, "start": None, "end": None}
    if text is not None and places is not None:
        begin, end = (places[0][0], places[-1][1]) if places else (0, 0)
        fact = {"text": text[begin:end], "document": source.text_of[n], "start": begin, "end": end}  # type: ignore[index]
        fact["tokens"] = [{"text": text[a:b], "start": a, "end": b} for a, b in places]
    else:
        shown = [word if isinstance(word, str) else word[0] for word in words]
        fact["tokens"] = [{"text": word, "start": None, "end": None} for word in shown]

    def spans(given: "Sequence[Span]") -> list[Facts]:
        return [_span(span, fact["tokens"], text) for span in given]

    fact |= {
        "labels": decoding.labels,
        "probability": None if log_p is None else _rounded(math.exp(log_p)),
        "log_probability": _rounded(log_p),
        "confidence": _rounded(decoding.confidence),
        "exact": decoding.exact,
        "gap": _rounded(decoding.gap),
        "spans": spans(answer.spans),
        "nbest": [],
        "marginals": [_row(row) for row in answer.marginals],
        "states": [_row(row) for row in answer.states],
    }
    probable = question.model._outputs[question.output]._probabilistic
    for labels, value, given in answer.nbest:
        values = {
            "probability": _rounded(value) if probable else None,
            "score": None if probable else _rounded(value),
        }
        fact["nbest"].append({"labels": labels, **values, "spans": spans(given)})
    return fact


def _span(span: "Span", tokens: list[Facts], text: str | None) -> Facts:
    first, last = span.start, span.end - 1
    begin, end = tokens[first]["start"], tokens[last]["end"]
    words = (
        joined_text([token["text"] for token in tokens[first : last + 1]])
        if text is None
        else text[begin:end]
    )
    fact = {"label": span.type, "first": first, "last": last, "start": begin, "end": end}
    return fact | {"text": words, "probability": _rounded(span.probability)}


def _row(row: dict[str, float]) -> dict[str, float]:
    return {name: round(p, DIGITS) for name, p in row.items()}


def _rounded(p: float | None) -> float | None:
    """A number for JSON, which has no infinities."""
    return None if p is None or not math.isfinite(p) else round(float(p), DIGITS)


def explained(model: Any, source: Source, asked: Explained) -> Facts:
    """Why a token has its label: the facts of `explain --json` for it, with the words of its
    sentence; of a cascade those of the highest layer, and of each layer below `layers`."""
    number, token = asked
    if number >= len(source.words):
        last = len(source.words) - 1
        what = f"one from 0 to {last}" if source.words else "none, since there are no sentences"
        raise OptionError(f"sentence: expected {what}, got {number}")
    words = source.words[number]
    if token >= len(words):
        what = f"one from 0 to {len(words) - 1}" if words else "none, since the sentence is empty"
        raise OptionError(f"token: expected {what}, got {token}")
    names = list(model.reads().columns) or ["word"]
    one = Corpus.from_sequences([words], names=names)
    facts = sentence_facts(model, one, 0, token)
    layers = {name: tokens[0] for name, tokens in facts["layers"].items()}
    fact = {"sentence": number, "words": facts["words"], **layers[list(layers)[-1]]}
    if source.places is not None:
        fact["start"], fact["end"] = source.places[number][token]
    return fact | ({"layers": layers} if len(layers) > 1 else {})


def unseen_tokens(model: Any, sentences: Sequence[Sequence[Any]]) -> int | None:
    """How many tokens have a word that the training data lack; None where the model does not
    tell."""
    words = [
        token if isinstance(token, str) else token[0]
        for sentence in sentences
        for token in sentence
    ]
    distinct = list(dict.fromkeys(words))
    known = model.knows(distinct) if distinct else []
    if known is None:
        return None
    unseen = {word for word, is_known in zip(distinct, known, strict=True) if not is_known}
    return sum(word in unseen for word in words)


def sureness(record: Decoding) -> float | None:
    """How sure a model is of a labelling, per token, so that long sentences are not less sure:
    P(labels) ** (1 / T)."""
    log_p = record.log_probability
    if log_p is None and record.confidence:
        log_p = math.log(record.confidence)
    return None if log_p is None or not record.labels else math.exp(log_p / len(record.labels))
