"""labelwright tag: label a file or a stream."""

import io
from typing import Annotated, Any

from labelwright.cli import decoding as how
from labelwright.cli.arrays import Arrays, rows_for
from labelwright.cli.common import Format, Threads, check_target, is_conllu, layer_names, load_model, refuse_inputs, say
from labelwright.cli.options import DATA, OTHER, OUTPUT, argument, option
from labelwright.cli.tag_answers import Request, Unsummed, answers_about
from labelwright.cli.tag_input import Source
from labelwright.cli.tag_output import write_answers
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
from labelwright.errors import OptionError

ModelFile = Annotated[str, argument("A model file that `labelwright train` wrote.", "MODEL")]
Input = Annotated[str, argument("Column file, .conllu, text (--text), or - for a stream.", "INPUT")]
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
AsJson = Annotated[bool, option("One JSON object per sentence.", None, OUTPUT, "--json")]
Verbose = Annotated[
    bool, option("At the end one line on stderr: how much is proven, largest gap.", None, OTHER, "--verbose", "-v")
]


HELP = """\
Label sentences: copies the input and adds a column with the predicted label.

The input has the columns that the model was trained on, with or without the label column.  A stream is answered
sentence by sentence.  Files are read, labelled and written piece by piece, so memory does not grow with them (only
Parquet and Label Studio's JSON are read whole); OUT appears when all is written, and may be INPUT itself, unless
that is plain text.  In CoNLL-U files the label replaces its column.  JSON lines and Parquet get a field
`predicted`; models for CRFsuite's data write labels alone.

\b
  labelwright tag model.crf test.txt -o tagged.txt
  labelwright tag model.crf < test.txt | less
  labelwright tag model.crf test.txt --columns word,pos,hint --known hint
  labelwright tag latent.crf test.txt --decoder ldi --n 1000 --verbose
  labelwright tag near.model test.txt --inference vote
  labelwright tag model.crf test.txt --min-confidence 0.9

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

--min-confidence P shows only entities whose probability (or confidence) is P or more, in every form of output; the
probability of a labelling in JSON stays that of the labelling with all its entities.  Calibrate the model first
(labelwright calibrate): probabilities of a model as it was trained are often too high.

--text reads plain text, which is split as the texts of the training data were, and writes one JSON object for each
entity: {"start", "end", "type", "text", "probability"}, with characters of the input counted from 0.  --to brat
writes the lines of an .ann file, --to columns tokens with their labels.  --json works as for files and adds
"offsets", the [start, end] of each token.  A cascade writes the entities of its highest layer; all layers are in
--json and --to columns.  JSON lines with a field `text` get a field `predicted`.

\b
  labelwright tag names.crf letter.txt --text
  labelwright tag names.crf letter.txt --text --to brat -o letter.ann
"""


def _tag(
    model: ModelFile,
    input: Input = "-",
    columns: Columns = None,
    format: Format = None,
    text: Text = False,
    characters: Characters = False,
    token_pattern: TokenPattern = None,
    sentences: Sentences = None,
    arrays: Arrays = None,
    known: Known = None,
    decoding: Any = None,
    output: Output = "-",
    probabilities: Probabilities = False,
    min_confidence: MinConfidence = None,
    uncalibrated: how.Uncalibrated = False,
    nbest: NBest = None,
    as_json: AsJson = False,
    to: To = None,
    threads: Threads = None,
    verbose: Verbose = False,
) -> None:
    """Label sentences: what is read (Source), asked about it (Request), and written."""
    format = text_format(text, format, to, as_json)
    _check_options(nbest, input, format, as_json)
    check_target(output, [model])
    if format == "text":  # which would be lost
        refuse_inputs(output, [input])
    tagger = load_model(model, threads, attributes=True)
    if uncalibrated:
        tagger = how.uncalibrated(tagger)
    tallies = {name: how.Tally() for name in tagger._outputs} if verbose else {}
    entities = EntityWriter(tagger, to or "jsonl") if format == "text" and not as_json and to != "columns" else None
    choices = how.chosen(tagger, decoding)
    request = Request(choices, nbest, probabilities, as_json, known, tallies, entities, min_confidence)
    _check(tagger, request)
    how.show_progress(tagger, input != "-")
    tokenizer = tokenizer_given(characters, token_pattern, sentences, tagger.tokenizer())
    source = Source(input, format, columns, known, tokenizer, rows_for(tagger, arrays))
    _run(tagger, source, request, output)


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


def _run(model: Any, source: Source, request: Request, output: str) -> None:
    """Read, label and write, piece by piece."""
    from labelwright.corpus.compressed import written

    unsummed = Unsummed()
    with written(output) as write:
        for piece in source.pieces(model):
            answers, form = answers_about(model, piece, request), io.BytesIO()
            unsummed.add(model, answers, request)
            write_answers(model, piece, answers, request, form)
            write(form.getvalue())
            del piece, answers, form  # before the next one is read
    unsummed.report()
    for name, tally in request.tallies.items():
        say(f"{name}: {tally}" if name else str(tally))
