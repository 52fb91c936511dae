"""labelwright tag: label a file or a stream."""

import io
import os
from itertools import chain, islice
from typing import Annotated, Any

from labelwright.cli import decoding as how
from labelwright.cli import tag_text as texts
from labelwright.cli.arrays import Arrays, rows_for
from labelwright.cli.common import Format, Threads, check_target, is_conllu, layer_names, load_model, refuse_inputs, say
from labelwright.cli.options import DATA, OTHER, OUTPUT, argument, option
from labelwright.cli.tag_answers import Request, Unsummed, answers_about
from labelwright.cli.tag_input import Source, with_targets
from labelwright.cli.tag_output import write_answers
from labelwright.errors import OptionError

ModelFile = Annotated[str, argument("A model file that `labelwright train` wrote.", "MODEL")]
Input = Annotated[list[str] | None, argument("Column files, .conllu, text (--text), folders; - is a stream.", "INPUT")]
Columns = Annotated[
    str | None, option("Names of all input columns. [default: as in training, by their number]", "NAMES", DATA)
]
Known = Annotated[
    str | None,
    option("A column of labels that are known, or sets of them (A|B); _ where the model chooses.", "COLUMN", DATA),
]
Output = Annotated[
    str, option("Where to write. [default: standard output]", "OUT", OUTPUT, "-o", "--output", show_default=False)
]
Probabilities = Annotated[
    bool,
    option(
        "One more column: the probability of the label at this token; of perceptrons that were trained with --dev, "
        "the confidence in it.",
        None,
        OUTPUT,
        "--probabilities",
    ),
]
MinConfidence = Annotated[
    float | None,
    option(
        "Leave out entities less probable than P: their labels become O (or _, where labels make no chunks).",
        "P",
        OUTPUT,
    ),
]
NBest = Annotated[
    int | None,
    option("The N most probable labellings of each sentence; of models without probabilities, by score.", "N", OUTPUT),
]
Distinct = Annotated[str | None, option("--nbest: sum labellings that are the same without LABEL.", "LABEL", OUTPUT)]
AsJson = Annotated[bool, option("One JSON object per sentence.", None, OUTPUT, "--json")]
Verbose = Annotated[
    bool, option("At the end one line on stderr: how much is proven, largest gap.", None, OTHER, "--verbose", "-v")
]


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


def _tag(
    model: ModelFile,
    input: Input = None,
    columns: Columns = None,
    format: Format = None,
    text: texts.Text = False,
    tokenizer: texts.TokenizerName = None,
    characters: texts.Characters = False,
    token_pattern: texts.TokenPattern = None,
    sentences: texts.Sentences = None,
    arrays: Arrays = None,
    known: Known = None,
    decoding: Any = None,
    output: Output = "-",
    probabilities: Probabilities = False,
    min_confidence: MinConfidence = None,
    uncalibrated: how.Uncalibrated = False,
    nbest: NBest = None,
    distinct: Distinct = None,
    as_json: AsJson = False,
    to: texts.To = None,
    threads: Threads = None,
    verbose: Verbose = False,
) -> None:
    """Label sentences: what is read (Source), asked about it (Request), and written."""
    format = texts.text_format(text, format, to, as_json)
    paths = with_targets(input or ["-"], output, format, to)
    for source, target in paths:
        _check_options(nbest, source, format, as_json)
        if target == output or os.path.isdir(output):  # else in a new folder
            check_target(target, [model])
        if format == "text":  # which would be lost
            refuse_inputs(target, [source])
    tagger = load_model(model, threads, attributes=True)
    if uncalibrated:
        tagger = how.uncalibrated(tagger)
    tallies = {name: how.Tally() for name in tagger._outputs} if verbose else {}
    of_text = format == "text" and not as_json and to != "columns"
    entities = texts.EntityWriter(tagger, to or "jsonl") if of_text else None
    choices = how.chosen(tagger, decoding)
    request = Request(choices, nbest, probabilities, as_json, known, tallies, entities, min_confidence, distinct)
    _check(tagger, request)
    how.show_progress(tagger, bool(input) and input != ["-"])
    splitter = texts.tokenizer_given(tagger.tokenizer(), tokenizer, characters, token_pattern, sentences)
    rows, unsummed = rows_for(tagger, arrays), Unsummed()
    for source, target in paths:
        _run(tagger, Source(source, format, columns, known, splitter, rows), request, target, unsummed)
    unsummed.report()
    for name, tally in tallies.items():
        say(f"{name}: {tally}" if name else str(tally))


command = how.with_decoders(_tag, HELP)


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_options(nbest: int | None, input: str, format: str | None, as_json: bool) -> None:
    """Refuse options that do not go together, whatever the model."""
    if nbest is not None and nbest < 1:
        raise OptionError(f"--nbest: expected 1 or more, got {nbest}")
    if nbest is not None and (format == "conllu" or is_conllu(input)) and not as_json:
        raise OptionError("--nbest: CoNLL-U has no place for several labellings; add --json")


def _check(model: Any, request: Request) -> None:
    """Refuse what the model has no answer to, before any sentence is read."""
    from labelwright.taggers.base import FORCED

    if request.nbest is not None and request.entities is not None:
        raise OptionError("--nbest: entities have no place for several labellings; add --json or --to columns")
    if request.distinct is not None and request.nbest is None:
        raise OptionError("--distinct: says which of the N best labellings count as one; add --nbest N")
    if request.least is not None:
        _check_least(model, request)
    if layer_names(model):
        if request.known is not None:
            raise OptionError("--known: not for a cascade, whose layers all find their own labels")
        if request.nbest is not None and not request.json:
            raise OptionError("--nbest: a cascade has a list for each layer; add --json")
    for name, tagger in model._outputs.items():
        with how.of_layer(name):
            if request.known is not None and FORCED not in tagger.can:
                raise OptionError(f"--known: {tagger._lacks(FORCED)}: it chooses among proposals of its own")
            if request.probabilities and not tagger._is_sure:
                raise OptionError(f"--probabilities: {how.why_unsure(tagger)}")
            if request.nbest is not None and not request.json:
                _check_nbest(tagger, request.choices[name], bool(request.tallies))


def _check_least(model: Any, request: Request) -> None:
    """Refuse a least probability that is none, or that has nothing to be compared with."""
    assert request.least is not None
    if not 0 <= request.least <= 1:
        raise OptionError(f"--min-confidence: expected a number from 0 to 1, got {request.least:g}")
    if request.nbest is not None:
        raise OptionError("--min-confidence: --nbest lists whole labellings; leave one of both out")
    for name, tagger in model._outputs.items():
        with how.of_layer(name):
            if not tagger._is_sure:
                raise OptionError(f"--min-confidence: {how.why_unsure(tagger)}")


def _check_nbest(tagger: Any, choice: how.Choice, verbose: bool) -> None:
    """Refuse what a plain list of the best labellings has no place for; with --json there is one for both."""
    if not tagger._ranks(choice.decoder):
        flag = f"{tagger._decoder_flag} {choice.decoder}"
        raise OptionError(f"--nbest: lists the best labellings as a whole, which {flag} does not look for")
    if "time_limit" in choice.options:
        raise OptionError("--time-limit: does not apply to --nbest; use --max-expansions, or add --json")
    if verbose:
        raise OptionError("--verbose: sums up what a decoder proves, which --nbest does not use; add --json for both")


# -- reading, answering, writing --------------------------------------------------------------------------------------


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
