"""labelwright tag: label a file or a stream."""

import io
import json
import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import typer

from labelwright.cli.common import (
    Threads,
    check_target,
    inputs_of,
    is_conllu,
    load_model,
    named_for,
    read_for,
    say,
)
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus

FREE = "_"  # in the column of known labels: the model may choose


class Request(NamedTuple):
    """What is asked about every sentence."""

    decoder: str | None
    nbest: int | None
    probabilities: bool
    json: bool
    constraints: str | None
    known: str | None


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file that `labelwright train` wrote.")],
    input: Annotated[str, typer.Argument(metavar="INPUT", help="Column file, .conllu, or - for a stream.")] = "-",
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="OUT", help="Where to write. [default: standard output]", show_default=False
        ),
    ] = "-",
    decoder: Annotated[
        str | None, typer.Option(metavar="NAME", help="viterbi (best labelling) or marginal (best label per token).")
    ] = None,
    nbest: Annotated[
        int | None, typer.Option("--nbest", metavar="N", help="The N most probable labellings of each sentence.")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="One more column: how probable the label is at this token.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per sentence.")] = False,
    constraints: Annotated[
        str | None, typer.Option(metavar="scheme", help="Only labellings that the label scheme permits.")
    ] = None,
    known: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A column of labels that are known; _ where the model chooses.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Names of all input columns, where their number does not tell."),
    ] = None,
    threads: Threads = None,
) -> None:
    """Label sentences: the input comes back byte for byte with the label as one more column at the end.

    The input has the columns that the model was trained on, with or without the label column.  A stream is answered
    sentence by sentence.  In CoNLL-U files the label takes the place of its column.

    \b
      labelwright tag model.crf test.txt -o tagged.txt
      labelwright tag model.crf < test.txt | less
      labelwright tag model.crf test.txt --columns word,pos,hint --known hint

    --nbest N writes each sentence N times, before each a comment with its rank and its probability:

    \b
      # nbest 1 0.8731
      He PRP B-NP
      ran VBD B-VP

    --json writes {"tokens", "labels", "probability", "spans": [{"start", "end", "type", "text", "probability"}]} with
    token numbers from 0 and `end` exclusive, and with --probabilities "probabilities", with --nbest "nbest":
    [{"labels", "probability"}].
    """
    if nbest is not None and nbest < 1:
        raise OptionError(f"--nbest: expected 1 or more, got {nbest}")
    if nbest is not None and decoder == "marginal" and not as_json:
        raise OptionError("--nbest: lists the best labellings as a whole, which --decoder marginal does not look for")
    if nbest is not None and is_conllu(input) and not as_json:
        raise OptionError("--nbest: CoNLL-U has no place for several labellings; add --json")
    check_target(output)
    tagger = load_model(model, threads)
    from labelwright.decode import decoder_named

    if decoder is not None:
        decoder_named(decoder)
    request = Request(decoder, nbest, probabilities, as_json, constraints, known)
    if input == "-" and output == "-":
        for piece in _stream(tagger, columns):
            _answer(tagger, piece, request, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    pieces = _stream(tagger, columns) if input == "-" else [read_for(tagger, input, columns)]
    collected = io.BytesIO()
    for piece in pieces:
        _answer(tagger, piece, request, collected)
    from labelwright.corpus.files import write_bytes

    write_bytes(output, collected.getvalue())


def _stream(model: Any, columns: str | None) -> Iterator["Corpus"]:
    """Pieces of standard input as they come."""
    from labelwright.corpus import stream_columns

    if sys.stdin.isatty():
        say("reading from the terminal: one token per line, a blank line after each sentence, Ctrl-D at the end")
    anything = False
    for piece in stream_columns(sys.stdin.buffer, names=columns, label=False):
        anything = True
        yield piece if columns else named_for(model, piece)
    if not anything:
        raise CorpusError("<stdin>: no tokens, expected one token per line and a blank line after each sentence")


def _answer(model: Any, corpus: "Corpus", request: Request, out: BinaryIO) -> None:
    """Label one piece and write it in the form that was asked for."""
    inputs = inputs_of(model, corpus)
    data = model.encode(inputs)
    limits = {"forced": _forced(corpus, request.known), "constraints": request.constraints}
    if request.json:
        _write_json(model, inputs, data, request, limits, out)
    elif request.nbest is not None:
        _write_nbest(model, corpus, data, request, limits, out)
    else:
        labels = [d.labels for d in model.decode(data, request.decoder, probabilities=False, **limits)]
        extra: list[Any] = [labels]
        if request.probabilities:
            extra.append([[f"{p:.4f}" for p in row] for row in _chosen(model, data, labels, limits)])
        _write_columns(corpus, out, extra)


def _write_columns(corpus: "Corpus", out: BinaryIO, extra: list[Any]) -> None:
    from labelwright.corpus import CONLLU_NAMES, write_columns, write_conllu

    if tuple(corpus.names) != CONLLU_NAMES:
        write_columns(corpus, out, extra=extra)
    elif len(extra) == 1:
        write_conllu(corpus, out, extra=extra)
    else:
        raise OptionError("--probabilities: CoNLL-U has no column for them; add --json")


def _forced(corpus: "Corpus", known: str | None) -> list[list[str | None]] | None:
    if known is None:
        return None
    return [[None if label == FREE else label for label in sentence] for sentence in corpus.column(known)]


def _chosen(model: Any, data: Any, labels: list[list[str]], limits: dict[str, Any]) -> list[list[float]]:
    """The marginal probability of each given label."""
    marginals = model.predict_marginals(data, **limits)
    return [
        [row[label] for row, label in zip(rows, sentence, strict=True)]
        for rows, sentence in zip(marginals, labels, strict=True)
    ]


def _write_nbest(
    model: Any, corpus: "Corpus", data: Any, request: Request, limits: dict[str, Any], out: BinaryIO
) -> None:
    separator = corpus.raw.separator.decode() if corpus.raw is not None else " "
    tokens = [separator.join(row) for row in zip(*map(corpus.tokens, corpus.names), strict=True)]
    marginals = model.predict_marginals(data, **limits) if request.probabilities else None
    begin = 0
    lines: list[str] = []
    for n, answers in enumerate(model.predict_nbest(data, request.nbest, **limits)):
        for rank, (labels, probability) in enumerate(answers, 1):
            lines.append(f"# nbest {rank} {probability:.4g}")
            for t, label in enumerate(labels):
                sure = f"{separator}{marginals[n][t][label]:.4f}" if marginals is not None else ""
                lines.append(f"{tokens[begin + t]}{separator}{label}{sure}")
            lines.append("")
        begin += int(corpus.offsets[n + 1] - corpus.offsets[n])
    out.write("".join(f"{line}\n" for line in lines).encode())


def _write_json(
    model: Any, inputs: "Corpus", data: Any, request: Request, limits: dict[str, Any], out: BinaryIO
) -> None:
    from labelwright.corpus import spans_of

    decodings = model.decode(data, request.decoder, **limits)
    labels = [d.labels for d in decodings]
    chunked = model.scheme_ is not None
    spans = model.span_probabilities(data, [spans_of(row) if chunked else [] for row in labels], **limits)
    nbest = model.predict_nbest(data, request.nbest, **limits) if request.nbest is not None else None
    chosen = _chosen(model, data, labels, limits) if request.probabilities else None
    for n, (words, decoding) in enumerate(zip(inputs.column(inputs.names[0]), decodings, strict=True)):
        answer: dict[str, Any] = {
            "tokens": words,
            "labels": decoding.labels,
            "probability": round(math.exp(decoding.log_probability), 6),
            "spans": [
                {**span._asdict(), "text": " ".join(words[span.start : span.end]), "probability": _rounded(span)}
                for span in spans[n]
            ],
        }
        if chosen is not None:
            answer["probabilities"] = [round(p, 6) for p in chosen[n]]
        if nbest is not None:
            answer["nbest"] = [{"labels": row, "probability": round(p, 6)} for row, p in nbest[n]]
        out.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


def _rounded(span: Any) -> float:
    return round(float(span.probability), 6)
