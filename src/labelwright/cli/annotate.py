"""labelwright annotate: label sentences in the browser."""

import logging
import os
from contextlib import suppress
from typing import Any

from labelwright.cli import options as usual
from labelwright.cli.files import check_target, layer_names, load_model, split_names
from labelwright.cli.options import DATA, argument, command, option
from labelwright.cli.show import say
from labelwright.cli.tag_input import tokenizer_given
from labelwright.errors import CorpusError, OptionError
from labelwright.settings import AtLeast, AtMost, Bounds, Texts, Whole
from labelwright.wording import counted

MODEL = "Model"


@command(
    argument(
        "texts",
        "TEXTS",
        "Plain text, JSON lines with `text`, or Label Studio's tasks.",
        several=True,
    ),
    option(
        "-o --output FILE",
        (
            "Where answers go: JSON lines, which train and doccano read; `convert` makes Label "
            "Studio's tasks."
        ),
    ),
    option(
        "--labels TYPES", "The types to mark, as in PER,LOC; more can be added on the page.", DATA
    ),
    option(
        "--seed-words TYPE=WORDS",
        "Words to mark from the start: PER=Ada,Alan; repeatable.",
        DATA,
        Texts(),
    ),
    *usual.SPLITTING,
    usual.MAX_INPUT,
    option(
        "--model MODEL", "A model to begin with, trained on words.", MODEL, shown="none: from zero"
    ),
    option("--save MODEL", "Keep the learnt model in this file.", MODEL),
    option(
        "--port PORT",
        "The port on this machine; 0 for any free one.",
        kind=Whole(Bounds(AtLeast(0), AtMost(65535))),
        default=8000,
    ),
)
def annotate_command(o: Any) -> None:
    """Label sentences in the browser, while a model learns and chooses what to label next.

    \b
      labelwright annotate letters.txt -o letters.jsonl --labels PER,LOC
      labelwright annotate letters.txt -o letters.jsonl --model a.crf --save b.crf
      labelwright train letters.jsonl -o names.crf --template ner

    Open the address that is shown. Each answer is on the disk before the next sentence is shown:
    whatever happens, start the same command again and go on. The file has one line for each
    sentence that was labelled.

    It needs FastAPI and uvicorn: pip install 'labelwright[serve]'.
    """
    from labelwright.corpus.compressed import CODECS

    if o.output is None:
        raise OptionError("-o: missing; name the file for your answers, as in -o answers.jsonl")
    is_named = o.output != "-" and os.path.basename(o.output)
    if o.output.lower().endswith(tuple(CODECS)) or not is_named:
        raise OptionError(
            f"-o: {o.output}: expected the name of a file that is not compressed, as in "
            "answers.jsonl"
        )
    check_target(o.output, [*o.texts, o.model])
    if o.save is not None:
        check_target(o.save, [*o.texts, o.output], for_model=True)
    from labelwright.corpus.tokenizer import Tokenizer
    from labelwright.serve.app import require_extra, run
    from labelwright.serve.batching import Limits
    from labelwright.serve.labelled_file import LabelledFile
    from labelwright.serve.labelling import Labelling, checked_type
    from labelwright.serve.labelling_app import make_labelling_app
    from labelwright.serve.learner import sentences_in

    require_extra()
    base, tokenizer = None, Tokenizer()
    if o.model is not None:
        base, tokenizer = _base(o.model)
    tokenizer = tokenizer_given(tokenizer, o) or tokenizer
    sentences = [each for path in o.texts for each in sentences_in(_texts(path), tokenizer, path)]
    if not sentences:
        raise CorpusError(f"{', '.join(o.texts)}: no sentences, expected text")
    types = [checked_type(name) for name in split_names(o.labels)]
    seeds = dict(pair for given in o.seed_words or () for pair in _seeds(given))
    file = LabelledFile(o.output)
    for note in file.notes:
        say(f"labelwright: {note}")
    labelling = Labelling(sentences, file, types, seeds, tokenizer, base, o.save)

    def ready(address: str) -> None:
        done = len(file.answers)
        say(
            f"{counted(len(labelling.texts), 'sentence')}, {done:,} answered; open {address} "
            "(Ctrl-C stops)"
        )

    if not os.environ.get("LABELWRIGHT_DEBUG"):  # tracebacks, as of a start that Ctrl-C has ended
        logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    with suppress(KeyboardInterrupt):  # uvicorn passes the signal on once everything is answered
        run(make_labelling_app(labelling), "127.0.0.1", o.port, Limits(), ready)
    if problem := labelling.state()["problem"]:
        say(f"labelwright: {problem}")
    say(f"{o.output}: {counted(len(file.answers), 'answer')}")


def _base(path: str) -> tuple[bytes, Any]:
    """The bytes of a model to begin with, and how it splits texts; one that cannot learn from
    answers is refused."""
    from labelwright.modelfile import content_of
    from labelwright.taggers.arguments import check_reads_words
    from labelwright.taggers.base import PROBABILITY

    model = load_model(path)
    check_reads_words(model)
    needed = {"partial_fit", "partial_labels"}
    if layer_names(model) or PROBABILITY not in model.can or not needed <= model._training_options:
        what = "cannot go on learning from answers that are partly unknown, with probabilities"
        raise OptionError(f"--model: {path}: a {type(model).__name__} {what}; use a CRF")
    if model.scheme_ is None:
        raise OptionError(
            f"--model: {path}: its labels mark no spans (B-PER, I-PER, O), which are labelled here"
        )
    return content_of(path), model.tokenizer()


def _texts(path: str) -> list[str]:
    """The texts of a file, which is plain text unless it holds JSON or annotations of BRAT."""
    from labelwright.corpus.file_formats import TEXTS, format_of, opened, texts_of
    from labelwright.corpus.token_records import first_object

    file = opened(path, None if os.path.isdir(path) else "text")
    data = file.getvalue()
    first = first_object(data)
    if file.format == "text" and (first is not None or data.lstrip()[:1] == b"["):
        found = format_of(file.name, data)  # the file may be a pipe, which is read only once
        if found not in ("columns", "crfsuite"):
            file.format = found
        elif first is not None and "text" in first:
            file.format = "doccano"
    if file.format not in TEXTS:
        raise CorpusError(
            f"{file.name}: holds {file.format}, expected text: plain, or JSON with `text`"
        )
    return [each.text for each in texts_of(file)]


def _seeds(given: str) -> list[tuple[str, str]]:
    kind, equals, words = given.partition("=")
    if not equals or not kind.strip() or not split_names(words):
        raise OptionError(
            f"--seed-words: {given!r:.60}: expected a type and its words, as in PER=Ada,Alan"
        )
    from labelwright.serve.labelling import checked_type

    return [(word, checked_type(kind.strip())) for word in split_names(words) if word]
