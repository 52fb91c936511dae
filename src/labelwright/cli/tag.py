"""labelwright tag: label a file or a stream."""

import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import typer

from labelwright.cli import decoding as how
from labelwright.cli import memory
from labelwright.cli.common import (
    Threads,
    check_target,
    inputs_of,
    is_conllu,
    is_memory,
    layers_of,
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

    decoder: str
    options: dict[str, Any]  # of the decoder
    nbest: int | None
    probabilities: bool
    json: bool
    constraints: str | None
    known: str | None
    tally: how.Tally | None


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file that `labelwright train` wrote.")],
    input: Annotated[str, typer.Argument(metavar="INPUT", help="Column file, .conllu, or - for a stream.")] = "-",
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="OUT", help="Where to write. [default: standard output]", show_default=False
        ),
    ] = "-",
    decoder: how.Decoder = None,
    n: how.Paths = None,
    alpha: how.Alpha = None,
    gain: how.Gain = None,
    candidates: how.Candidates = None,
    max_expansions: how.MaxExpansions = None,
    time_limit: how.TimeLimit = None,
    inference: how.Inference = None,
    nbest: Annotated[
        int | None,
        typer.Option(
            "--nbest",
            metavar="N",
            help="The N most probable labellings of each sentence; models without probabilities: by score.",
        ),
    ] = None,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="One more column: how probable the label is at this token; perceptrons trained with --dev: how "
            "confident they are in it.",
        ),
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
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="At the end one line on stderr: how much is proven, largest gap.")
    ] = False,
) -> None:
    """Label sentences: the input comes back byte for byte with the label as one more column at the end.

    The input has the columns that the model was trained on, with or without the label column.  A stream is answered
    sentence by sentence.  In CoNLL-U files the label takes the place of its column.

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
    """
    if nbest is not None and nbest < 1:
        raise OptionError(f"--nbest: expected 1 or more, got {nbest}")
    if nbest is not None and is_conllu(input) and not as_json:
        raise OptionError("--nbest: CoNLL-U has no place for several labellings; add --json")
    check_target(output, [model])
    tagger = load_model(model, threads)
    given = {
        "n": n,
        "alpha": alpha,
        "gain": gain,
        "candidates": candidates,
        "max_expansions": max_expansions,
        "time_limit": time_limit,
    }
    if not is_memory(tagger):
        memory.refuse_inference(inference)
    if layers_of(tagger):
        import labelwright.cli.cascade as cascade

        whole = Request(decoder or "", given, nbest, probabilities, as_json, constraints, known, None)
        requests = cascade.requests(tagger, whole, verbose)
        _run(tagger, input, output, columns, lambda piece, out: cascade.answer(tagger, piece, requests, out))
        for layer, asked in requests.items():
            if asked.tally is not None:
                say(f"{layer}: {asked.tally}")
        return
    tally = how.Tally() if verbose else None
    if is_memory(tagger):
        memory.refuse_decoder(decoder, given)
        tagger = memory.Tagger(tagger, inference, constraints, show_progress=input != "-")
        memory.check_request(tagger, nbest if not as_json else None, probabilities, known, verbose)
        request = Request("", {}, nbest, False, as_json, constraints, None, tally)
    else:
        name, options = how.checked(tagger, decoder, given)
        if probabilities and not is_sure(tagger):
            raise OptionError(
                f"--probabilities: {tagger.has_scores()}; train it with --dev FILE, then it has confidences to show"
            )
        if nbest is not None and not as_json:
            _check_nbest(tagger, name, options, verbose)
        request = Request(name, options, nbest, probabilities, as_json, constraints, known, tally)
    _run(tagger, input, output, columns, lambda piece, out: _answer(tagger, piece, request, out))
    if tally is not None:
        say(str(tally))


def _check_nbest(model: Any, decoder: str, options: dict[str, Any], verbose: bool) -> None:
    """Refuse what a plain list of the best labellings has no place for; with --json there is one for both."""
    by_paths = decoder == "viterbi" and (not model.space_.latent or not model.probabilistic)
    if decoder != "exact" and not by_paths:
        raise OptionError(f"--nbest: lists the best labellings as a whole, which --decoder {decoder} does not look for")
    if "time_limit" in options:
        raise OptionError("--time-limit: does not apply to --nbest; use --max-expansions, or add --json")
    if verbose:
        raise OptionError("--verbose: sums up what a decoder proves, which --nbest does not use; add --json for both")


def _run(
    tagger: Any, input: str, output: str, columns: str | None, answer: Callable[["Corpus", BinaryIO], None]
) -> None:
    """Read, label and write, piece by piece where both ends are streams."""
    if input == "-" and output == "-":
        for piece in _stream(tagger, columns):
            answer(piece, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    pieces = _stream(tagger, columns) if input == "-" else [read_for(tagger, input, columns)]
    collected = io.BytesIO()
    for piece in pieces:
        answer(piece, collected)
    from labelwright.corpus.compressed import write_bytes

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
        words = inputs.column(inputs.names[0])
        write_json(
            ({"tokens": w} | a for w, a in zip(words, facts(model, words, data, request, limits), strict=True)), out
        )
    elif request.nbest is not None:
        _write_nbest(model, corpus, data, request, limits, out)
    else:
        _write_columns(corpus, out, added_columns(model, data, request, limits))


def added_columns(model: Any, data: Any, request: Request, limits: dict[str, Any]) -> list[Any]:
    """The labels, and how probable they are where that is asked for."""
    labels = [d.labels for d in _decoded(model, data, request, limits, request.tally is not None)]
    if not request.probabilities:
        return [labels]
    return [labels, [[f"{p:.4f}" for p in row] for row in _chosen(model, data, labels, limits)]]


def _decoded(model: Any, data: Any, request: Request, limits: dict[str, Any], probabilities: bool) -> list[Any]:
    found: list[Any] = model.decode(data, request.decoder, probabilities=probabilities, **limits, **request.options)
    if request.tally is not None:
        request.tally.add(found)
    return found


def _nbest(model: Any, data: Any, request: Request, limits: dict[str, Any]) -> list[Any]:
    found: list[Any] = model.predict_nbest(
        data, request.nbest, **limits, max_expansions=request.options.get("max_expansions")
    )
    return found


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


def is_sure(model: Any) -> bool:
    """Can it say how probable its labels are, or at least how confident it is in them?"""
    return model.probabilistic or model.temperature_ is not None


def _marginals(model: Any, data: Any, limits: dict[str, Any]) -> list[list[dict[str, float]]]:
    """How probable every label is at every token; of a calibrated model without probabilities, its confidence."""
    ask = model.predict_marginals if model.probabilistic else model.predict_confidences
    found: list[list[dict[str, float]]] = ask(data, **limits)
    return found


def _chosen(model: Any, data: Any, labels: list[list[str]], limits: dict[str, Any]) -> list[list[float]]:
    """The marginal probability of each given label, or the confidence in it."""
    marginals = _marginals(model, data, limits)
    return [
        [row[label] for row, label in zip(rows, sentence, strict=True)]
        for rows, sentence in zip(marginals, labels, strict=True)
    ]


def _write_nbest(
    model: Any, corpus: "Corpus", data: Any, request: Request, limits: dict[str, Any], out: BinaryIO
) -> None:
    separator = corpus.raw.separator.decode() if corpus.raw is not None else " "
    tokens = [separator.join(row) for row in zip(*map(corpus.tokens, corpus.names), strict=True)]
    marginals = _marginals(model, data, limits) if request.probabilities else None
    begin = 0
    lines: list[str] = []
    for n, answers in enumerate(_nbest(model, data, request, limits)):
        for rank, (labels, value) in enumerate(answers, 1):
            lines.append(f"# nbest {rank} {value:{'.4g' if model.probabilistic else '.4f'}}")
            for t, label in enumerate(labels):
                sure = f"{separator}{marginals[n][t][label]:.4f}" if marginals is not None else ""
                lines.append(f"{tokens[begin + t]}{separator}{label}{sure}")
            lines.append("")
        begin += int(corpus.offsets[n + 1] - corpus.offsets[n])
    out.write("".join(f"{line}\n" for line in lines).encode())


def facts(
    model: Any, sentences: list[list[str]], data: Any, request: Request, limits: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """What is to be said about each sentence, ready for JSON."""
    decodings = _decoded(model, data, request, limits, True)
    labels = [d.labels for d in decodings]
    spans = _spans(model, data, labels, limits)
    nbest = _nbest(model, data, request, limits) if request.nbest is not None else None
    chosen = _chosen(model, data, labels, limits) if request.probabilities else None
    value, values = ("probability", "probabilities") if model.probabilistic else ("score", "confidences")
    for n, (words, decoding) in enumerate(zip(sentences, decodings, strict=True)):
        answer: dict[str, Any] = {
            "labels": decoding.labels,
            **_worth(model, decoding),
            **how.proof(decoding),
            "spans": [_span(model, span, words) for span in spans[n]],
        }
        if chosen is not None:
            answer[values] = [round(p, 6) for p in chosen[n]]
        if nbest is not None:
            answer["nbest"] = [{"labels": row, value: round(p, 6)} for row, p in nbest[n]]
        yield answer


def write_json(answers: Iterable[dict[str, Any]], out: BinaryIO) -> None:
    """One line for each sentence."""
    for answer in answers:
        out.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")


def _spans(model: Any, data: Any, labels: list[list[str]], limits: dict[str, Any]) -> list[Any]:
    """The spans of these labellings, with what the model can say about how sure they are."""
    from labelwright.corpus import spans_of

    chunked = model.scheme_ is not None
    found: list[Any] = [spans_of(row) if chunked else [] for row in labels]
    if not is_sure(model):
        return found
    ask = model.span_probabilities if model.probabilistic else model.span_confidences
    answers: list[Any] = ask(data, found, **limits)
    return answers


def _worth(model: Any, decoding: Any) -> dict[str, float]:
    """How good a labelling is: its probability, or its score and, from a calibrated model, the confidence in it."""
    if model.probabilistic:
        return {"probability": round(math.exp(decoding.log_probability), 6)}
    score = {"score": round(decoding.score, 6)}
    return score if decoding.confidence is None else score | {"confidence": round(decoding.confidence, 6)}


def _span(model: Any, span: Any, words: list[str]) -> dict[str, Any]:
    """A span, ready for JSON."""
    shown = {"start": span.start, "end": span.end, "type": span.type}
    if is_sure(model):
        shown["probability" if model.probabilistic else "confidence"] = round(float(span.probability), 6)
    return shown | {"text": " ".join(words[span.start : span.end])}
