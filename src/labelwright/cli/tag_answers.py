"""What labelwright tag asks about sentences, and how the answers are written: labels, entities, n-best lists, JSON."""

import io
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli.common import inputs_of, layer_names
from labelwright.cli.reading import ToTag
from labelwright.cli.tag_text import EntityWriter, with_offsets
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.corpus.spans import Span
    from labelwright.corpus.table import Corpus
    from labelwright.decode import Decoding

Words = Sequence[list[str] | None]  # of each sentence, where it has words
FREE = "_"  # in the column of known labels: the model may choose


class Request(NamedTuple):
    """What is asked about every sentence."""

    choices: dict[str, how.Choice]  # the decoder of every output of the model
    nbest: int | None
    probabilities: bool
    json: bool
    known: str | None  # the column of known labels
    tallies: dict[str, how.Tally]  # of what is proven, where that is asked for
    entities: EntityWriter | None = None  # of texts
    least: float | None = None  # the probability of entities that are shown


class Answer(NamedTuple):
    """All that is asked about one sentence."""

    decoding: "Decoding"
    spans: "list[Span]"
    nbest: list[tuple[list[str], float]]
    marginals: list[dict[str, float]]
    labels: list[str]  # that are shown: without entities that are not probable enough


def write_answers(model: Any, piece: ToTag, request: Request, out: BinaryIO) -> None:
    """Label one piece and write it in the form that was asked for."""
    corpus, forced = piece.corpus, None
    inputs: Any = piece.data.X if corpus is None else inputs_of(model, corpus)
    if request.known is not None and corpus is not None:
        forced = {name: _forced(corpus, request.known, part.classes_) for name, part in model.outputs.items()}
    if request.nbest is not None and piece.write and not request.json:
        raise OptionError("--nbest: this format has no place for several labellings; add --json")

    def question(name: str, tagger: Any, batch: "Batch") -> list[Answer]:
        return _answers(tagger, batch, request, request.choices[name], under_rules[name])

    under_rules = {name: choice.under(inputs) for name, choice in request.choices.items()}
    with _as_known(corpus):
        answers = model.ask(inputs, question, forced, how.schemes_of(request.choices))
    for name, tally in request.tallies.items():
        tally.add([answer.decoding for answer in answers[name]])
    if request.json:
        sentences = [None] * len(inputs) if corpus is None else inputs.column(inputs.names[0])
        facts = with_offsets(piece, _json_facts(model, sentences, answers, request))
        for fact in facts:
            out.write(json.dumps(fact, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
    elif request.entities is not None:
        spans = {name: [answer.spans for answer in rows] for name, rows in answers.items()}
        out.write(request.entities.written(piece, spans))
    elif request.nbest is not None and corpus is not None:
        _write_nbest(model, corpus, answers, request, out)
    else:
        _write_labels(piece, answers, request, out)


# -- answers ----------------------------------------------------------------------------------------------------------


def _forced(corpus: "Corpus", known: str, labels: Sequence[str]) -> list[list[Any]]:
    """What a column says of labels: a label, a set of labels, or None where the model may choose."""
    from labelwright.corpus.partial_labels import sets_among

    values = corpus.values(known)
    members = sets_among(values, frozenset(labels))
    says = {v: v if found is None else found or None for v, found in zip(values, members, strict=True)} | {FREE: None}
    return [[says[label] for label in sentence] for sentence in corpus.column(known)]


@contextmanager
def _as_known(corpus: "Corpus | None") -> Iterator[None]:
    """Errors about forced labels name the option that gives them."""
    try:
        yield
    except OptionError as error:
        name, _, rest = str(error).partition(": ")
        if name != "forced" or corpus is None:
            raise
        raise OptionError(f"--known: {corpus.source}: {rest}") from None


def _answers(
    tagger: Any, batch: "Batch", request: Request, choice: how.Choice, under_rules: dict[str, Any]
) -> list[Answer]:
    """All answers about sentences that are scored once."""
    listed = request.nbest is not None and not request.json
    decodings = [None] * len(batch) if listed else batch.decode(
        choice.decoder, probabilities=request.json or bool(request.tallies), **choice.options, **under_rules
    )  # fmt: skip
    limit = choice.options.get("max_expansions")
    nbest = batch.nbest(request.nbest, limit, **under_rules) if request.nbest is not None else [[]] * len(batch)
    sure = batch.sure
    marginals: list[Any] = [[]] * len(batch)
    if request.probabilities:
        marginals = (sure.under(**under_rules) if under_rules else sure).marginals()
    labels: list[Any] = [[] if each is None else each.labels for each in decodings]
    spans: list[Any] = [[]] * len(batch)
    if request.least is not None:
        shown = batch.confident(labels, request.least, tagger.scheme_)
        labels, spans = [row for row, _ in shown], [entities for _, entities in shown]
        if request.entities is None and tagger.scheme_ is None:  # no chunks, and so no spans in JSON
            spans = [[]] * len(batch)
    elif request.entities is not None:
        spans = batch.entities(labels)
    elif request.json:
        spans = sure.spans(labels)
    return [Answer(*parts) for parts in zip(decodings, spans, nbest, marginals, labels, strict=True)]  # type: ignore[arg-type]


# -- labels -----------------------------------------------------------------------------------------------------------


def _chosen(answer: Answer) -> list[float]:
    """The probability (or confidence) of each label that is shown; where none is (_), of the one that was left out."""
    pairs = zip(answer.marginals, answer.labels, answer.decoding.labels, strict=True)
    return [row[shown if shown in row else predicted] for row, shown, predicted in pairs]


def _write_labels(piece: ToTag, answers: dict[str, list[Answer]], request: Request, out: BinaryIO) -> None:
    """The input with the labels of all outputs at the end; in CoNLL-U each takes the place of its column."""
    from labelwright.corpus import CONLLU_NAMES, write_columns

    added: dict[str, list[Any]] = {}
    for name, rows in answers.items():
        added[name] = [[answer.labels for answer in rows]]
        if request.probabilities:
            added[name].append([[f"{p:.4f}" for p in _chosen(answer)] for answer in rows])
    corpus = piece.corpus
    if piece.write is not None or corpus is None:
        assert piece.write is not None
        out.write(piece.write(added))
    elif tuple(corpus.names) == CONLLU_NAMES:
        _write_conllu(corpus, added, out)
    else:
        write_columns(corpus, out, extra=[column for columns in added.values() for column in columns])


def _write_conllu(corpus: "Corpus", added: dict[str, list[Any]], out: BinaryIO) -> None:
    from labelwright.corpus import CONLLU_NAMES, read_conllu, write_conllu

    assert corpus.raw is not None
    text = corpus.raw.text
    for name, columns in added.items():
        if len(columns) > 1:
            raise OptionError(f"--probabilities: {corpus.source}: CoNLL-U has no column for them; add --json")
        if name and name not in CONLLU_NAMES:
            raise OptionError(f"{corpus.source}: CoNLL-U has no column for the layer {name}; add --json")
        piece = io.BytesIO()
        source = read_conllu(io.BytesIO(text), label=name) if name else corpus
        write_conllu(source, piece, extra=columns)
        text = piece.getvalue()
    out.write(text)


def _write_nbest(
    model: Any, corpus: "Corpus", answers: dict[str, list[Answer]], request: Request, out: BinaryIO
) -> None:
    separator = corpus.raw.separator.decode() if corpus.raw is not None else " "
    tokens = [separator.join(row) for row in zip(*map(corpus.tokens, corpus.names), strict=True)]
    ((name, rows),) = answers.items()
    form = ".4g" if model.outputs[name].probabilistic else ".4f"
    begin, lines = 0, list[str]()
    for n, answer in enumerate(rows):
        for rank, (labels, value) in enumerate(answer.nbest, 1):
            lines.append(f"# nbest {rank} {value:{form}}")
            for t, label in enumerate(labels):
                sure = f"{separator}{answer.marginals[t][label]:.4f}" if request.probabilities else ""
                lines.append(f"{tokens[begin + t]}{separator}{label}{sure}")
            lines.append("")
        begin += int(corpus.offsets[n + 1] - corpus.offsets[n])
    out.write("".join(f"{line}\n" for line in lines).encode())


# -- JSON -------------------------------------------------------------------------------------------------------------


def _json_facts(
    model: Any, sentences: Words, answers: dict[str, list[Answer]], request: Request
) -> Iterator[dict[str, Any]]:
    """One object for each sentence; the outputs of a cascade by layer."""
    layers = {name: _facts(model.outputs[name], sentences, rows, request) for name, rows in answers.items()}
    if layer_names(model):
        for words, *parts in zip(sentences, *layers.values(), strict=True):
            yield {"tokens": words, "layers": dict(zip(layers, parts, strict=True))}
        return
    (rows,) = layers.values()
    for words, fact in zip(sentences, rows, strict=True):
        yield fact if words is None else {"tokens": words} | fact


def _facts(tagger: Any, sentences: Words, answers: list[Answer], request: Request) -> Iterator[dict[str, Any]]:
    """What is to be said about each sentence."""
    value, values = ("probability", "probabilities") if tagger.probabilistic else ("score", "confidences")
    for words, answer in zip(sentences, answers, strict=True):
        fact: dict[str, Any] = {
            "labels": answer.labels,
            **_worth(tagger, answer.decoding),
            **how.proof(answer.decoding),
            "spans": [_span(tagger, span, words) for span in answer.spans],
        }
        if request.probabilities:
            fact[values] = [round(p, 6) for p in _chosen(answer)]
        if request.nbest is not None:
            fact["nbest"] = [{"labels": row, value: round(p, 6)} for row, p in answer.nbest]
        yield fact


def _worth(tagger: Any, decoding: "Decoding") -> dict[str, float]:
    """How good a labelling is: its probability, or its score and, from a calibrated model, the confidence in it."""
    if decoding.log_probability is not None and tagger.probabilistic:
        return {"probability": round(math.exp(decoding.log_probability), 6)}
    score = {"score": round(decoding.score, 6)}
    return score if decoding.confidence is None else score | {"confidence": round(decoding.confidence, 6)}


def _span(tagger: Any, span: "Span", words: list[str] | None) -> dict[str, Any]:
    """A span, ready for JSON."""
    from labelwright.corpus.text import joined_text

    shown: dict[str, Any] = {"start": span.start, "end": span.end, "type": span.type}
    if span.probability is not None:
        shown["probability" if tagger.probabilistic else "confidence"] = round(float(span.probability), 6)
    return shown if words is None else shown | {"text": joined_text(words[span.start : span.end])}
