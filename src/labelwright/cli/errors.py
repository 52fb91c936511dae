"""labelwright errors: what a model, or a file of predictions, gets wrong."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from labelwright.cli import decoding as how
from labelwright.cli.arrays import Arrays
from labelwright.cli.common import (
    Columns,
    Format,
    Json,
    Label,
    LabelNames,
    SkipBadSpans,
    Strict,
    StrictScheme,
    Threads,
    check_target,
    counted,
    heading,
    read_labelled,
    say,
    show,
    show_json,
    write_page,
)
from labelwright.cli.eval import Sources, scored_on
from labelwright.cli.options import DATA, OUTPUT, argument, option
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.evaluate import ErrorAnalysis

CHOICE = "Which examples"


@how.with_decoders
def command(
    gold: Annotated[str, argument("A model file, or the true labels.", "MODEL|GOLD")],
    predicted: Annotated[str, argument("The true labels, or predictions.", "TEST|PREDICTED")],
    columns: Columns = None,
    label: Label = None,
    format: Format = None,
    label_names: LabelNames = None,
    skip_bad_spans: SkipBadSpans = False,
    arrays: Arrays = None,
    train: Annotated[
        str | None,
        option("Training data: tokens that are not in them are unseen. [default: what the model knows]", "FILE", DATA),
    ] = None,
    strict: Strict = False,
    scheme: StrictScheme = None,
    kind: Annotated[
        str | None, option("missed, invented, type, boundary, type+boundary; several by commas.", "NAMES", CHOICE)
    ] = None,
    type: Annotated[str | None, option("Errors that concern these types or labels.", "NAMES", CHOICE)] = None,
    search: Annotated[str | None, option("Errors whose phrase has this text.", "TEXT", CHOICE)] = None,
    examples: Annotated[int, option("Examples to show.", "N", CHOICE)] = 10,
    decoding: Any = None,
    top: Annotated[int, option("Rows of each table.", "N", OUTPUT)] = 10,
    as_json: Json = False,
    html: Annotated[str | None, option("Write a page to look through all errors in a browser.", "FILE", OUTPUT)] = None,
    threads: Threads = None,
) -> None:
    """See what goes wrong: kinds of errors, confused types, phrases that are missed or invented, unseen tokens, and
    examples with the probability of the gold and of the predicted label.

    \b
      labelwright errors model.crf test.txt
      labelwright errors model.crf test.txt --html errors.html
      labelwright errors model.crf test.txt --kind type --type ORG --examples 50
      labelwright errors gold.txt tagged.txt --train train.txt

    Probabilities need a model that has them; unseen tokens need a model that knows its words, or --train.
    """
    from labelwright.corpus.file_formats import FileOptions

    for flag, number in (("--top", top), ("--examples", examples)):
        if number < 0:
            raise OptionError(f"{flag}: expected a whole number of 0 or more, got {number}")
    if html is not None:
        check_target(html, [gold, predicted, *([train] if train else [])])
    files = FileOptions(format, label_names, skip_bad_spans)
    trained_on = None if train is None else read_labelled(train, columns, label, options=files)
    tested = scored_on(Sources(gold, predicted, columns, label, files, threads, arrays), decoding, strict, scheme)
    analyses = tested.errors(trained_on)
    kinds = _named("--kind", kind, [name for each in analyses.values() for name in each.kinds])
    types = _named("--type", type, [name for each in analyses.values() for name in each.per_type])
    chosen = {name: _chosen(analysis, kinds, types, search or "") for name, analysis in analyses.items()}
    if html is not None:
        _write_page(html, chosen, f"Errors: {gold}, {predicted}")
    if as_json:
        show_json(chosen.get("", {"layers": chosen}))
    elif html is None:
        _show(chosen, top, examples)


def _named(flag: str, given: str | None, known: list[str]) -> list[str]:
    """The names that an option gives, each of which some output must know."""
    names = [part.strip() for part in given.split(",")] if given else []
    for name in names:
        if name not in known:
            raise OptionError(f"{flag}: no {name!r} here, expected one of {', '.join(dict.fromkeys(known))}")
    return names


def _chosen(analysis: "ErrorAnalysis", kinds: list[str], types: list[str], search: str) -> dict[str, Any]:
    """The analysis as a dict, with the chosen errors alone; its counts are those of all errors."""
    here = [kind for kind in kinds if kind in analysis.kinds], [name for name in types if name in analysis.per_type]
    none = (kinds and not here[0]) or (types and not here[1])  # another layer of the cascade has them
    errors = [] if none else analysis.select(*here, search)
    return analysis.as_dict() | {"errors": replace(analysis, errors=errors).as_dict()["errors"]}


def _write_page(path: str, chosen: dict[str, dict[str, Any]], title: str) -> None:
    from labelwright.evaluate.error_views import page

    if not write_page(path, page(chosen, title)):
        return
    say(f"{path}: {counted(sum(len(each['errors']) for each in chosen.values()), 'error')}; open it in a browser")


def _show(chosen: dict[str, dict[str, Any]], top: int, examples: int) -> None:
    """The text for every output."""
    from labelwright.evaluate.error_views import text_of

    for number, (name, facts) in enumerate(chosen.items()):
        if number:
            show()
        if name:
            heading(name)
        for line in text_of(facts, top, examples):
            show(line)
