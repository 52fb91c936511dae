"""What labelwright tag asks about sentences, and the answers in the form that was asked for: columns, n best
labellings, entities of texts, JSON."""

import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli.files import inputs_of, layer_names
from labelwright.cli.show import warn
from labelwright.cli.tag_input import ToTag
from labelwright.errors import OptionError
from labelwright.wording import counted

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.corpus.spans import Span
    from labelwright.corpus.table import Corpus
    from labelwright.corpus.tokenizer import Entity
    from labelwright.decode import Decoding

FREE = "_"  # in the column of known labels: the model may choose
Words = Sequence[list[str] | None]  # of each sentence, where it has words


class Request(NamedTuple):
    """What is asked about every sentence."""

    choices: dict[str, how.Choice]  # the decoder of every output of the model
    nbest: int | None
    probabilities: bool
    json: bool
    known: str | None  # the column of known labels
    tallies: dict[str, how.Tally]  # of what is proven, where that is asked for
    entities: "EntityWriter | None" = None  # of texts
    least: float | None = None  # the probability of entities that are shown
    distinct: str | None = None  # of the n best: the label that stands for nothing
    annotated: bool = False  # whether annotated texts get one more annotation


class Answer(NamedTuple):
    """All that is asked about one sentence."""

    decoding: "Decoding"
    spans: "list[Span]"
    nbest: list[tuple[list[str], float]]
    marginals: list[dict[str, float]]
    labels: list[str]  # that are shown: without entities that are not probable enough


def answers_about(model: Any, piece: ToTag, request: Request) -> dict[str, list[Answer]]:
    """All that is asked about one piece, by output."""
    corpus, forced = piece.corpus, None
    request = request._replace(annotated=piece.split is not None and piece.write is not None and not request.json)
    inputs: Any = piece.data.X if corpus is None else inputs_of(model, corpus)
    if request.known is not None and corpus is not None:
        forced = {name: _forced(corpus, request.known, part.classes_) for name, part in model._outputs.items()}
    if request.nbest is not None and piece.write and not request.json:
        raise OptionError("--nbest: this format has no place for several labellings; add --json")

    def question(name: str, tagger: Any, batch: "Batch") -> list[Answer]:
        return _answers(tagger, ruled[name](batch), request, request.choices[name])

    ruled = {name: choice.under_rules(inputs) for name, choice in request.choices.items()}
    with _as_known(corpus):
        answers: dict[str, list[Answer]] = model._ask_outputs(inputs, question, forced, how.schemes_of(request.choices))
    for name, tally in request.tallies.items():
        tally.add([answer.decoding for answer in answers[name]])
    return answers


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


def _answers(tagger: Any, batch: "Batch", request: Request, choice: how.Choice) -> list[Answer]:
    """All answers about sentences that are scored once."""
    listed = request.nbest is not None and not request.json
    decodings: list[Any] = [None] * len(batch)
    if not listed:
        decodings = batch.decode(choice.decoder, probabilities=request.json or bool(request.tallies), **choice.options)
    nbest: list[Any] = [[]] * len(batch)
    if request.nbest is not None:
        nbest = batch.nbest(request.nbest, choice.options.get("max_expansions"), request.distinct)
    marginals = batch.sure.marginals() if request.probabilities else [[]] * len(batch)
    labels, spans = _shown(tagger, batch, request, [[] if each is None else each.labels for each in decodings])
    return [Answer(*parts) for parts in zip(decodings, spans, nbest, marginals, labels, strict=True)]


def _shown(
    tagger: Any, batch: "Batch", request: Request, labels: list[list[str]]
) -> tuple[list[list[str]], "list[list[Span]]"]:
    """The labels and the spans that are shown."""
    nothing: list[list[Span]] = [[]] * len(batch)
    of_texts = request.entities is not None or request.annotated
    if request.least is not None:
        shown = batch.confident(labels, request.least, tagger.scheme_)
        chunks = of_texts or tagger.scheme_ is not None  # without, no spans in JSON
        return [row for row, _ in shown], [entities for _, entities in shown] if chunks else nothing
    if of_texts:
        return labels, batch.entities(labels)
    return labels, batch.sure.spans(labels) if request.json else nothing


class Unsummed:
    """Counts the sentences whose probabilities under the rules are not known."""

    def __init__(self) -> None:
        self.sentences = 0

    def add(self, model: Any, answers: dict[str, list[Answer]], request: Request) -> None:
        """Count those among some answers."""
        if not request.json and request.entities is None:  # which show probabilities without being asked
            return
        for name, rows in answers.items():
            if request.choices[name].rules and model._outputs[name]._is_sure:
                self.sentences += sum(_lacks_probability(row, request.json) for row in rows)

    def report(self) -> None:
        """One line, where there are any."""
        if self.sentences:
            warn(
                f"{counted(self.sentences, 'sentence')} without probabilities: the rules leave too many possibilities "
                "there; give fewer rules, or name fewer labels in them"
            )


def _lacks_probability(answer: Answer, is_json: bool) -> bool:
    if is_json and answer.decoding.log_probability is None and answer.decoding.confidence is None:
        return True
    return any(span.probability is None for span in answer.spans)


# -- writing ----------------------------------------------------------------------------------------------------------


def write_answers(model: Any, piece: ToTag, answers: dict[str, list[Answer]], request: Request, out: BinaryIO) -> None:
    """Write the answers about one piece in the form that was asked for."""
    corpus = piece.corpus
    if request.json:
        words: Words = [None] * len(next(iter(answers.values())))
        if corpus is not None:
            inputs = inputs_of(model, corpus)
            words = inputs.column(inputs.names[0])
        for fact in _with_offsets(piece, _json_facts(model, words, answers, request)):
            out.write(json.dumps(fact, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
    elif request.entities is not None:
        spans = {name: [answer.spans for answer in rows] for name, rows in answers.items()}
        out.write(request.entities.written(piece, spans))
    elif request.nbest is not None and corpus is not None:
        _write_nbest(model, corpus, answers, request, out)
    elif piece.split is not None and piece.write is not None:
        spans = {name: [answer.spans for answer in rows] for name, rows in answers.items()}
        out.write(piece.write({name: [piece.split.entities(rows)] for name, rows in spans.items()}))
    else:
        _write_labels(piece, answers, request, out)


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
    ((name, rows),) = answers.items()
    columns = [*map(corpus.tokens, corpus.names)]
    separator = _separator(
        corpus, columns, [label for answer in rows for labels, _ in answer.nbest for label in labels]
    )
    tokens = [separator.join(row) for row in zip(*columns, strict=True)]
    form = ".4g" if model._outputs[name]._probabilistic else ".4f"
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


def _separator(corpus: "Corpus", columns: list[list[str]], labels: list[str]) -> str:
    """What separates the columns of a file with these labels; refuses what would be read back differently."""
    from labelwright.corpus.columns import separator_for
    from labelwright.corpus.labels import check_column, check_written

    separator = corpus.raw.separator.decode() if corpus.raw is not None else separator_for([*columns, labels])
    for column in columns if corpus.raw is None else ():
        check_column(column, corpus.offsets, corpus.source, separator, is_label=False)
    check_written(labels, corpus.source, separator)
    return separator


# -- JSON -------------------------------------------------------------------------------------------------------------


def _json_facts(
    model: Any, sentences: Words, answers: dict[str, list[Answer]], request: Request
) -> Iterator[dict[str, Any]]:
    """One object for each sentence; the outputs of a cascade by layer."""
    layers = {name: _facts(model._outputs[name], sentences, rows, request) for name, rows in answers.items()}
    if layer_names(model):
        for words, *parts in zip(sentences, *layers.values(), strict=True):
            yield {"tokens": words, "layers": dict(zip(layers, parts, strict=True))}
        return
    (rows,) = layers.values()
    for words, fact in zip(sentences, rows, strict=True):
        yield fact if words is None else {"tokens": words} | fact


def _facts(tagger: Any, sentences: Words, answers: list[Answer], request: Request) -> Iterator[dict[str, Any]]:
    """What is to be said about each sentence."""
    value, values = ("probability", "probabilities") if tagger._probabilistic else ("score", "confidences")
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


def _worth(tagger: Any, decoding: "Decoding") -> dict[str, float | None]:
    """How good a labelling is: its probability, or its score and, from a calibrated model, the confidence in it."""
    if tagger._probabilistic:
        log_p = decoding.log_probability
        return {"probability": None if log_p is None else round(math.exp(log_p), 6)}
    score: dict[str, float | None] = {"score": round(decoding.score, 6)}
    return score | {"confidence": _rounded(decoding.confidence)} if tagger._is_sure else score


def _rounded(p: float | None) -> float | None:
    """A number for JSON; null where rules leave too many labellings for sums."""
    return None if p is None else round(float(p), 6)


def _span(tagger: Any, span: "Span", words: list[str] | None) -> dict[str, Any]:
    """A span, ready for JSON."""
    from labelwright.corpus.tokenizer import joined_text

    shown: dict[str, Any] = {"start": span.start, "end": span.end, "type": span.type}
    if tagger._is_sure:
        shown["probability" if tagger._probabilistic else "confidence"] = _rounded(span.probability)
    return shown if words is None else shown | {"text": joined_text(words[span.start : span.end])}


# -- texts ------------------------------------------------------------------------------------------------------------


def _with_offsets(piece: ToTag, facts: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """What is said about each sentence of plain text, with the places of its tokens in the input."""
    if piece.split is None or piece.write is not None:  # those of several texts would not say which text they are of
        return facts
    places = [[[piece.begin + a, piece.begin + b] for a, b in tokens] for tokens in piece.split.places]
    return ({"tokens": fact["tokens"], "offsets": offsets} | fact for fact, offsets in zip(facts, places, strict=True))


class EntityWriter:
    """Writes the entities of a text, piece after piece."""

    def __init__(self, model: Any, target: str):
        name, self._tagger = list(model._outputs.items())[-1]
        self.output, self._target = name, target  # of a cascade the highest layer
        self._n = 0  # entities so far

    def written(self, piece: ToTag, spans: Mapping[str, Sequence[Sequence["Span"]]]) -> bytes:
        """The entities that the spans of a piece are."""
        from labelwright.corpus.annotations import brat_lines
        from labelwright.corpus.labels import check_written
        from labelwright.corpus.token_records import dumped

        assert piece.split is not None
        if self._target == "words":
            return "".join(f"{' '.join(row)}\n" for row in piece.split.segmented(spans[self.output]) if row).encode()
        by_text = piece.split.entities(spans[self.output], piece.begin)
        entities = [entity for of_text in by_text for entity in of_text]
        first = self._n + 1 if piece.begin else 1  # of this text
        self._n = first - 1 + len(entities)
        if self._target == "brat":
            check_written((entity.type for entity in entities), piece.data.source)
            return brat_lines(entities, first).encode()
        return b"".join(dumped(self._shown(each)) + b"\n" for each in entities)

    def _shown(self, entity: "Entity") -> dict[str, Any]:
        """An entity, ready for JSON."""
        shown = entity._asdict()
        probability = shown.pop("probability")
        if probability is None:
            return shown
        return shown | {"probability" if self._tagger._probabilistic else "confidence": round(float(probability), 6)}
