"""labelwright tag: label a file or a stream."""

import io
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

from labelwright.cli import decoding as how
from labelwright.cli.common import (
    Format,
    Threads,
    check_target,
    inputs_of,
    is_conllu,
    layer_names,
    load_model,
    named_for,
    say,
)
from labelwright.cli.options import DATA, OTHER, OUTPUT, argument, option
from labelwright.cli.reading import ToTag, pieces_to_tag, reads_attributes
from labelwright.cli.tag_text import (
    Characters,
    EntityWriter,
    Sentences,
    Text,
    To,
    TokenPattern,
    text_format,
    tokenizer_given,
)
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.corpus.spans import Span
    from labelwright.corpus.table import Corpus
    from labelwright.corpus.tokenizer import Tokenizer
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


class Answer(NamedTuple):
    """All that is asked about one sentence."""

    decoding: "Decoding"
    spans: "list[Span]"
    nbest: list[tuple[list[str], float]]
    marginals: list[dict[str, float]]


@how.with_decoders
def command(
    model: Annotated[str, argument("A model file that `labelwright train` wrote.", "MODEL")],
    input: Annotated[str, argument("Column file, .conllu, text (--text), or - for a stream.", "INPUT")] = "-",
    columns: Annotated[
        str | None, option("Names of all input columns. [default: as in training, by their number]", "NAMES", DATA)
    ] = None,
    format: Format = None,
    text: Text = False,
    characters: Characters = False,
    token_pattern: TokenPattern = None,
    sentences: Sentences = None,
    known: Annotated[
        str | None, option("A column of labels that are known; _ where the model chooses.", "COLUMN", DATA)
    ] = None,
    decoding: Any = None,
    output: Annotated[
        str,
        option("Where to write. [default: standard output]", "OUT", OUTPUT, "-o", "--output", show_default=False),
    ] = "-",
    probabilities: Annotated[
        bool,
        option(
            "One more column: the probability of the label at this token; of perceptrons that were trained with --dev, "
            "the confidence in it.",
            None,
            OUTPUT,
            "--probabilities",
        ),
    ] = False,
    nbest: Annotated[
        int | None,
        option(
            "The N most probable labellings of each sentence; of models without probabilities, by score.", "N", OUTPUT
        ),
    ] = None,
    as_json: Annotated[bool, option("One JSON object per sentence.", None, OUTPUT, "--json")] = False,
    to: To = None,
    threads: Threads = None,
    verbose: Annotated[
        bool, option("At the end one line on stderr: how much is proven, largest gap.", None, OTHER, "--verbose", "-v")
    ] = False,
) -> None:
    """Label sentences: copies the input and adds a column with the predicted label.

    The input has the columns that the model was trained on, with or without the label column.  A stream is answered
    sentence by sentence.  Files are read, labelled and written piece by piece, so memory does not grow with them (only
    Parquet and Label Studio's JSON are read whole); OUT appears when all is written, and may be INPUT itself.  In
    CoNLL-U files the label replaces its column.  JSON lines and Parquet get a field `predicted`; models for CRFsuite's
    data write labels alone.

    \b
      labelwright tag model.crf test.txt -o tagged.txt
      labelwright tag model.crf < test.txt | less
      labelwright tag model.crf test.txt --columns word,pos,hint --known hint
      labelwright tag latent.crf test.txt --decoder ldi --n 1000 --verbose
      labelwright tag near.model test.txt --inference vote

    --nbest N writes each sentence N times, before each a comment with its rank and its probability:

    \b
      # nbest 1 0.8731
      He PRP B-NP
      ran VBD B-VP

    --json writes {"tokens", "labels", "probability", "exact", "gap", "spans": [{"start", "end", "type", "text",
    "probability"}]} with token numbers from 0 and `end` exclusive, and with --probabilities "probabilities", with
    --nbest "nbest": [{"labels", "probability"}].  "exact" is a proof that no labelling is more probable; "gap" bounds
    by how much another one could be, null where the decoder has no bound.  Decoders that search add what they counted:
    "latent_paths", "label_paths", "mass" (the probability of what they met), "expansions".

    Perceptrons have scores, not probabilities: comments of --nbest hold the score, JSON has "score" in place of every
    "probability" of a labelling, and "exact" is about scores.  One trained with --dev is calibrated: JSON then has a
    "confidence" for the labelling and for each span, and --probabilities gives confidences (in JSON "confidences").

    Memory-based models have scores, too: the weight of the constraints that a labelling satisfies.  "exact" says that
    none satisfies more, which --inference csi proves.  They have no decoders and no confidences, and --known is
    refused.  With --constraints scheme, every label is a candidate where those of a sentence make no valid labelling.

    A cascade adds a column for each layer, the lowest first, with --probabilities each followed by its own.  The input
    has no label column or all of them.  JSON is {"tokens", "layers": {NAME: {"labels", ...}}}; --nbest needs --json,
    and --known is refused.  Decoders are about the labels that are shown, not about those that are passed upwards.

    --text reads plain text, which is split as the texts of the training data were, and writes one JSON object for each
    entity: {"start", "end", "type", "text", "probability"}, with characters of the input counted from 0.  --to brat
    writes the lines of an .ann file, --to columns tokens with their labels, and --json works as for files.  A cascade
    writes the entities of its highest layer.  JSON lines with a field `text` get a field `predicted`.

    \b
      labelwright tag names.crf letter.txt --text
      labelwright tag names.crf letter.txt --text --to brat -o letter.ann
    """
    if nbest is not None and nbest < 1:
        raise OptionError(f"--nbest: expected 1 or more, got {nbest}")
    if nbest is not None and (format == "conllu" or is_conllu(input)) and not as_json:
        raise OptionError("--nbest: CoNLL-U has no place for several labellings; add --json")
    format = text_format(text, format, to)
    check_target(output, [model])
    tagger = load_model(model, threads, attributes=True)
    tallies = {name: how.Tally() for name in tagger.outputs} if verbose else {}
    entities = EntityWriter(tagger, to or "jsonl") if format == "text" and not as_json and to != "columns" else None
    request = Request(how.chosen(tagger, decoding), nbest, probabilities, as_json, known, tallies, entities)
    _check(tagger, request)
    how.show_progress(tagger, input != "-")
    tokenizer = tokenizer_given(characters, token_pattern, sentences, tagger.tokenizer())
    _run(tagger, request, input, output, columns, format, tokenizer)
    for name, tally in request.tallies.items():
        say(f"{name}: {tally}" if name else str(tally))


# -- checks -----------------------------------------------------------------------------------------------------------


def _check(model: Any, request: Request) -> None:
    """Refuse what the model has no answer to, before any sentence is read."""
    from labelwright.taggers.base import FORCED

    if layer_names(model):
        if request.known is not None:
            raise OptionError("--known: not for a cascade, whose layers all find their own labels")
        if request.nbest is not None and not request.json:
            raise OptionError("--nbest: a cascade has a list for each layer; add --json")
    for name, tagger in model.outputs.items():
        with how.of_layer(name):
            if request.known is not None and FORCED not in tagger.can:
                raise OptionError(f"--known: {tagger.lacks(FORCED)}: it chooses among proposals of its own")
            if request.probabilities and not tagger.is_sure:
                raise OptionError(f"--probabilities: {how.why_unsure(tagger)}")
            if request.nbest is not None and not request.json:
                _check_nbest(tagger, request.choices[name], bool(request.tallies))


def _check_nbest(tagger: Any, choice: how.Choice, verbose: bool) -> None:
    """Refuse what a plain list of the best labellings has no place for; with --json there is one for both."""
    if not tagger.ranks(choice.decoder):
        flag = f"{tagger.decoder_flag} {choice.decoder}"
        raise OptionError(f"--nbest: lists the best labellings as a whole, which {flag} does not look for")
    if "time_limit" in choice.options:
        raise OptionError("--time-limit: does not apply to --nbest; use --max-expansions, or add --json")
    if verbose:
        raise OptionError("--verbose: sums up what a decoder proves, which --nbest does not use; add --json for both")


# -- reading and writing ----------------------------------------------------------------------------------------------


def _run(
    model: Any,
    request: Request,
    input: str,
    output: str,
    columns: str | None,
    format: str | None,
    tokenizer: "Tokenizer | None",
) -> None:
    """Read, label and write, piece by piece."""
    from labelwright.corpus.compressed import written

    is_stream = input == "-" and format in (None, "columns") and not reads_attributes(model)
    pieces: Iterator[ToTag]
    if _is_empty(input):
        pieces = iter(())
    elif is_stream:
        if tokenizer is not None:
            raise OptionError("<stdin>: read as columns, which has tokens; for plain text add --text")
        pieces = _stream(model, columns, format)
    else:
        pieces = _warned(model, pieces_to_tag(model, input, format, columns, request.known, tokenizer))
    with written(output) as write:
        for piece in pieces:
            answered = io.BytesIO()
            _answer(model, piece, request, answered)
            write(answered.getvalue())
            del piece, answered  # before the next one is read


def _is_empty(input: str) -> bool:
    """Is it a file of no bytes?  Nothing is to be labelled, whatever its format."""
    return os.path.isfile(input) and os.path.getsize(input) == 0


def _warned(model: Any, pieces: Iterator[ToTag]) -> Iterator[ToTag]:
    """The pieces of a file; what a user should know about it is told by the first."""
    for n, piece in enumerate(pieces):
        if n == 0 and piece.corpus is not None and not (piece.split and piece.more):  # which may be a headline
            how.warn(model, piece.corpus, piece.more)
        yield piece
        del piece


def _stream(model: Any, columns: str | None, format: str | None) -> Iterator[ToTag]:
    """Pieces of standard input as they come."""
    from labelwright.corpus import stream_columns

    if sys.stdin.isatty():
        say("reading from the terminal: one token per line, a blank line after each sentence, Ctrl-D at the end")
    for n, piece in enumerate(stream_columns(sys.stdin.buffer, names=columns, label=False)):
        if n == 0 and columns is None and format is None:
            _check_stream(piece)
        yield ToTag(piece if columns else named_for(model, piece))


def _check_stream(first: "Corpus") -> None:
    """Refuse a stream that has another format than columns."""
    from labelwright.corpus.file_formats import format_of

    format = "columns" if first.raw is None else format_of(first.source, first.raw.text)
    if format != "columns":
        raise CorpusError(f"{first.source}: looks like {format}, not like columns; add --format {format}")


def _answer(model: Any, piece: ToTag, request: Request, out: BinaryIO) -> None:
    """Label one piece and write it in the form that was asked for."""
    corpus, forced = piece.corpus, None
    inputs: Any = piece.data.X if corpus is None else inputs_of(model, corpus)
    if request.known is not None and corpus is not None:
        forced = dict.fromkeys(model.outputs, _forced(corpus, request.known))
    if request.nbest is not None and (piece.write or request.entities) and not request.json:
        raise OptionError("--nbest: this format has no place for several labellings; add --json")

    def question(name: str, tagger: Any, batch: "Batch") -> list[Answer]:
        return _answers(tagger, batch, request, request.choices[name], under_rules[name])

    under_rules = {name: choice.under(inputs) for name, choice in request.choices.items()}
    answers = model.ask(inputs, question, forced, how.schemes_of(request.choices))
    for name, tally in request.tallies.items():
        tally.add([answer.decoding for answer in answers[name]])
    if request.json:
        sentences = [None] * len(inputs) if corpus is None else inputs.column(inputs.names[0])
        _write_json(model, sentences, answers, request, out)
    elif request.entities is not None:
        spans = {name: [answer.spans for answer in rows] for name, rows in answers.items()}
        out.write(request.entities.written(piece, spans))
    elif request.nbest is not None and corpus is not None:
        _write_nbest(model, corpus, answers, request, out)
    else:
        _write_labels(piece, answers, request, out)


def _forced(corpus: "Corpus", known: str) -> list[list[str | None]]:
    return [[None if label == FREE else label for label in sentence] for sentence in corpus.column(known)]


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
    spans: list[Any] = [[]] * len(batch)
    if request.entities is not None:
        from labelwright.taggers.texts import text_spans

        spans = text_spans(tagger, batch, [decoding.labels for decoding in decodings])  # type: ignore[union-attr]
    elif request.json:
        spans = sure.spans([decoding.labels for decoding in decodings])  # type: ignore[union-attr]
    return [Answer(*parts) for parts in zip(decodings, spans, nbest, marginals, strict=True)]  # type: ignore[arg-type]


def _chosen(answer: Answer) -> list[float]:
    """The probability (or confidence) of each predicted label."""
    return [row[label] for row, label in zip(answer.marginals, answer.decoding.labels, strict=True)]


def _write_labels(piece: ToTag, answers: dict[str, list[Answer]], request: Request, out: BinaryIO) -> None:
    """The input with the labels of all outputs at the end; in CoNLL-U each takes the place of its column."""
    from labelwright.corpus import CONLLU_NAMES, write_columns

    added: dict[str, list[Any]] = {}
    for name, rows in answers.items():
        added[name] = [[answer.decoding.labels for answer in rows]]
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


def _write_json(
    model: Any, sentences: Words, answers: dict[str, list[Answer]], request: Request, out: BinaryIO
) -> None:
    """One line for each sentence; the outputs of a cascade by layer."""
    facts: Iterable[dict[str, Any]]
    layers = {name: _facts(model.outputs[name], sentences, rows, request) for name, rows in answers.items()}
    if layer_names(model):
        facts = (
            {"tokens": words, "layers": dict(zip(layers, parts, strict=True))}
            for words, *parts in zip(sentences, *layers.values(), strict=True)
        )
    else:
        (rows,) = layers.values()
        facts = (
            fact if words is None else {"tokens": words} | fact for words, fact in zip(sentences, rows, strict=True)
        )
    for fact in facts:
        out.write(json.dumps(fact, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


def _facts(tagger: Any, sentences: Words, answers: list[Answer], request: Request) -> Iterator[dict[str, Any]]:
    """What is to be said about each sentence."""
    value, values = ("probability", "probabilities") if tagger.probabilistic else ("score", "confidences")
    for words, answer in zip(sentences, answers, strict=True):
        fact: dict[str, Any] = {
            "labels": answer.decoding.labels,
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
