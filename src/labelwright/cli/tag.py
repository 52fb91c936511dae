"""labelwright tag: label a file or a stream."""

import io
import os
from itertools import chain, islice
from typing import Any

from labelwright.cli import decoding as how
from labelwright.cli.files import check_target, is_conllu, layer_names, load_model, refuse_inputs, rows_for
from labelwright.cli.options import (
    ALL_COLUMNS,
    ARRAYS,
    DATA,
    FORMAT,
    MAX_INPUT,
    OUTPUT,
    POSITIVE,
    SPLITTING,
    THREADS,
    UNCALIBRATED,
    Command,
    argument,
    option,
)
from labelwright.cli.show import say
from labelwright.cli.tag_input import Source, tokenizer_given, with_targets
from labelwright.cli.tag_output import EntityWriter, Request, Unsummed, answers_about, write_answers
from labelwright.errors import OptionError
from labelwright.settings import AtLeast, AtMost, Bounds, Choice, Number

HELP = """\
Label sentences: copies the input and adds a column with the predicted label (a cascade: one for each layer).

\b
  labelwright tag model.crf test.txt -o tagged.txt
  labelwright tag model.crf < test.txt | less
  labelwright tag model.crf test.txt --columns word,pos,hint --known hint
  labelwright tag latent.crf test.txt --decoder ldi --n 1000 --verbose
  labelwright tag names.crf letters/ more.txt --text -o out/
  labelwright tag names.crf letter.txt --text --to brat -o letter.ann

File formats: `labelwright convert --help`. Calibrate a model before you rely on --min-confidence: `labelwright
calibrate --help`. The documentation, in the folder docs of the source, shows what --json, --nbest and --probabilities
write, and describes plain text and decoders.
"""
OPTIONS = [
    argument("model", "MODEL", "A model file that `labelwright train` wrote."),
    argument("input", "INPUT", "Column files, .conllu, text (--text), folders; - is a stream.", None, several=True),
    ALL_COLUMNS,
    FORMAT,
    option("--text", "INPUT is plain text: write its entities, with places in characters.", DATA),
    *SPLITTING,
    ARRAYS,
    option(
        "--known COLUMN", "A column of labels that are known, or sets of them (A|B); _ where the model chooses.", DATA
    ),
    MAX_INPUT,
    *how.OPTIONS,
    option("-o --output OUT", "Where to write.", OUTPUT, default="-", shown="standard output"),
    option(
        "--probabilities",
        "One more column: the probability of the label at this token; of perceptrons that were trained with --dev, the "
        "confidence in it.",
        OUTPUT,
    ),
    option(
        "--min-confidence P",
        "Leave out entities less probable than P: their labels become O (or _, where labels make no chunks).",
        OUTPUT,
        Number(Bounds(AtLeast(0), AtMost(1))),
        not_with="nbest",
    ),
    UNCALIBRATED,
    option(
        "--nbest N",
        "The N most probable labellings of each sentence; of models without probabilities, by score.",
        OUTPUT,
        POSITIVE,
    ),
    option(
        "--distinct LABEL",
        "--nbest: sum labellings that are the same without LABEL.",
        OUTPUT,
        only_with="nbest",
    ),
    option("--json", "One JSON object per sentence.", OUTPUT),
    option(
        "--to NAME",
        "Text: jsonl, brat, columns or words (segmented).",
        OUTPUT,
        Choice(("jsonl", "brat", "columns", "words")),
        not_with="json",
        shown="jsonl",
    ),
    THREADS,
    option("-v --verbose", "At the end one line on stderr: how much is proven, largest gap."),
]


def _tag(o: Any) -> None:
    """Label sentences: what is read (Source), asked about it (Request), and written."""
    format = text_format(o)
    if o.to is not None and format != "text":
        raise OptionError("--to: says what the entities of a text are written as; add --text")
    paths = with_targets(o.input or ["-"], o.output, format, o.to)
    for source, target in paths:
        if o.nbest is not None and (format == "conllu" or is_conllu(source)) and not o.json:
            raise OptionError("--nbest: CoNLL-U has no place for several labellings; add --json")
        if target == o.output or os.path.isdir(o.output):  # else in a new folder
            check_target(target, [o.model])
        if format == "text":  # which would be lost
            refuse_inputs(target, [source])
    model = how.uncalibrated(load_model(o.model, o.n_jobs, attributes=True), o.uncalibrated)
    tallies = {name: how.Tally() for name in model._outputs} if o.verbose else {}
    of_text = format == "text" and not o.json and o.to != "columns"
    entities = EntityWriter(model, o.to or "jsonl") if of_text else None
    choices = how.chosen(model, how.decoding_of(o))
    request = Request(
        choices, o.nbest, o.probabilities, o.json, o.known, tallies, entities, o.min_confidence, o.distinct
    )
    _check(model, request)
    how.show_progress(model, bool(o.input) and o.input != ["-"])
    tokenizer, rows, unsummed = tokenizer_given(model.tokenizer(), o), rows_for(model, o.arrays), Unsummed()
    for path, target in paths:
        _run(model, Source(path, format, o.columns, o.known, tokenizer, rows), request, target, unsummed)
    unsummed.report()
    for name, tally in tallies.items():
        say(f"{name}: {tally}" if name else str(tally))


tag_command = Command(HELP, OPTIONS, _tag)


def text_format(o: Any) -> str | None:
    """The format of the input, with --text among its options."""
    if o.text and o.format not in (None, "text"):
        raise OptionError(f"--text: the input is plain text, but --format says {o.format}; leave one of both out")
    return "text" if o.text else o.format


def _run(model: Any, source: Source, request: Request, output: str, unsummed: Unsummed) -> None:
    """Read, label and write, piece by piece."""
    from labelwright.corpus.compressed import written

    pieces = source.pieces(model)
    pieces = chain(list(islice(pieces, 1)), pieces)  # what cannot be read leaves no folder behind
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    with written(output) as write:
        for piece in pieces:
            answers, form = answers_about(model, piece, request), io.BytesIO()
            unsummed.add(model, answers, request)
            write_answers(model, piece, answers, request, form)
            write(form.getvalue())
            del piece, answers, form  # before the next one is read


# -- checks -----------------------------------------------------------------------------------------------------------


def _check(model: Any, request: Request) -> None:
    """Refuse what the model has no answer to, before any sentence is read."""
    from labelwright.taggers.base import FORCED

    listed = request.nbest is not None and not request.json
    if request.nbest is not None and request.entities is not None:
        raise OptionError("--nbest: entities have no place for several labellings; add --json or --to columns")
    if request.least is not None:
        how.check_sure(model, "--min-confidence")
    if request.probabilities:
        how.check_sure(model, "--probabilities")
    if layer_names(model) and request.known is not None:
        raise OptionError("--known: not for a cascade, whose layers all find their own labels")
    if layer_names(model) and listed:
        raise OptionError("--nbest: a cascade has a list for each layer; add --json")
    for name, tagger in model._outputs.items():
        with how.of_layer(name):
            if request.known is not None and FORCED not in tagger.can:
                raise OptionError(f"--known: {tagger._lacks(FORCED)}: it chooses among proposals of its own")
            if listed:
                _check_nbest(tagger, request.choices[name], bool(request.tallies))


def _check_nbest(tagger: Any, choice: how.Choice, verbose: bool) -> None:
    """Refuse what a plain list of the best labellings has no place for; with --json there is one for both."""
    if not tagger._ranks(choice.decoder):
        flag = f"{tagger._decoder_flag} {choice.decoder}"
        raise OptionError(f"--nbest: lists the best labellings as a whole, which {flag} does not look for")
    if "time_limit" in choice.options:
        raise OptionError("--time-limit: does not apply to --nbest; use --max-expansions, or add --json")
    if verbose:
        raise OptionError("--verbose: sums up what a decoder proves, which --nbest does not use; add --json for both")
