"""labelwright doubts: labels of the training data that look wrong.

As for `train`, the command is made for the tagger that is asked for, with the same options for data and settings.
"""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from labelwright.cli.common import aligned, check_target, counted, say, show, show_json
from labelwright.cli.options import DATA, OUTPUT, GroupedCommand, command_of
from labelwright.cli.reading import has_attributes
from labelwright.cli.recipe import Request, offered, read_recipe, request, tagger
from labelwright.cli.train import asked_tagger, command_class, read_data
from labelwright.cli.train_options import PLACES, RUN, TRAIN, for_tagger
from labelwright.errors import OptionError
from labelwright.settings import AtLeast, Default, Flag, Group, Help, OneOf, OptionOnly, Setting, settings_of
from labelwright.taggers import registry
from labelwright.wording import shortened

if TYPE_CHECKING:
    from labelwright.active.annotator_files import ToAnnotate
    from labelwright.active.suspicious import Doubt, Doubts
    from labelwright.corpus.spans import Span
    from labelwright.corpus.table import Corpus

SHOWN = 20  # doubts of the table, where no number is asked for
AROUND = 4  # words of context on either side
WIDTH = 90  # characters of a whole sentence in the table
HEADS = ("sentence", "P(gold)", "gold", "suggested", "P", "text")
LOOKING = "Doubts"
ABOUT = """Find labels of the training data that look wrong: the data are cut into folds, each fold is labelled by a
model that is trained on the others, and labels come first which this model finds improbable while it is sure of
another one.  Options for data and settings are those of `labelwright train`.

\b
  labelwright doubts train.txt --template ner
  labelwright doubts train.txt --template ner --top 100 -o look.txt
  labelwright doubts train.txt --model semi-crf --folds 10 --json
  labelwright doubts train.txt --apply look.txt -o corrected.txt

A doubt is a span to which the model prefers another, or none, or a probable span where none is annotated (--by span);
or a token with a label to which it prefers another (--by token).  -o writes the sentences with doubts, the most
doubtful first: as columns, the file with four more columns (the predicted label, the probability of the annotated
label, the number of the doubt on its tokens, _ on others, and the number of the sentence in TRAIN).  Correct the label
column there, and --apply puts these labels back into TRAIN.  Labels that no other fold has get probability 0.
Of labels that are known in part, those that are unknown (_) are never doubted, and sets (B-PER|B-ORG) by the
probability of the whole set.  Settings of a recipe for a search or development data are not used.
"""


def of_doubts(
    *,
    by: Annotated[
        str | None,
        OneOf("span", "token", "sentence"),
        OptionOnly(),
        Group(LOOKING),
        Flag(metavar="NAME"),
        Help("span, token or sentence."),
        Default("span where labels follow a scheme, otherwise token"),
    ] = None,
    folds: Annotated[int, AtLeast(2), Group(LOOKING), Flag(metavar="K"), Help("Folds of the cross-validation.")] = 5,
    layer: Annotated[
        str | None,
        OptionOnly(),
        Group(LOOKING),
        Help("The layer of a cascade whose labels are looked at."),
        Default("the highest"),
    ] = None,
    top: Annotated[
        int | None, AtLeast(1), OptionOnly(), Group(LOOKING), Help("The first N doubts."), Default("all")
    ] = None,
    apply: Annotated[
        str | None,
        OptionOnly(),
        Group(LOOKING),
        Flag(metavar="FILE"),
        Help("Look for no doubts: FILE, which -o wrote, is corrected; write TRAIN with its labels to -o, as columns."),
    ] = None,
    output: Annotated[
        str | None,
        OptionOnly(),
        Group(OUTPUT),
        Flag("-o", "--output", metavar="FILE"),
        Help("Write the sentences with doubts, for annotators."),
    ] = None,
    to: Annotated[
        str | None,
        OptionOnly(),
        Group(OUTPUT),
        Help("What -o writes: columns, jsonl, doccano or label-studio."),
        Default("as the name of FILE says"),
    ] = None,
    as_json: Annotated[
        bool, OptionOnly(), Group(OUTPUT), Flag("--json"), Help("Print JSON instead of text."), Default("")
    ] = False,
    quiet: Annotated[
        bool, OptionOnly(), Group(OUTPUT), Flag("-q", "--quiet"), Help("No progress, no summary."), Default("")
    ] = False,
) -> None:
    """What is asked beside the data and the settings of the tagger."""


OWN = settings_of(of_doubts)
NOT_USED = ("dev", "search", "learning_curve", "start_from", "calibrate")  # of recipes


def command_for(given: Sequence[str]) -> tuple[Callable[..., None], type[GroupedCommand]]:
    """The command for the tagger that these arguments ask for."""
    name = asked_tagger(given)
    kind = registry.model_class(name)
    of_data = {
        key: for_tagger(kind, setting)
        for key, setting in RUN.items()
        if ((setting.group == DATA and key != "dev") or key == "random_state") and offered(kind, setting)
    }
    of_tagger = {key: setting for key, setting in settings_of(kind).items() if setting.in_options}
    settings: dict[str, Setting] = {**of_data, **of_tagger, **OWN}
    shown = sorted(settings.values(), key=lambda s: 0.5 if s.group == LOOKING else PLACES.get(s.group or "", 3))

    def run(train: str, **values: Any) -> None:
        _doubts(train, name, {key: value for key, value in values.items() if value not in (None, [])})

    return command_of(run, [TRAIN], shown, f"Settings of {name}", ABOUT), command_class(name)


def _doubts(source: str, name: str, options: dict[str, Any]) -> None:
    """Cross-validate, and show or write what is doubtful."""
    from labelwright.active.annotator_files import annotator_file, format_for
    from labelwright.active.suspicious import doubts

    recipe = options.get("recipe")
    asked = request(name, {**RUN, **OWN}, options, recipe, read_recipe(recipe) if recipe else {})
    asked = asked._replace(values={key: value for key, value in asked.values.items() if key not in NOT_USED})
    output, top = asked.get("output"), asked.get("top")
    format = _checked_format(asked, [source, *asked.files()])
    if asked.get("apply") is not None:
        _apply(source, asked)
        return
    model = tagger(asked, {})
    data = _read(source, asked)
    with asked.named():
        result = doubts(
            model,
            data,
            by=asked.get("by"),
            folds=asked.get("folds", 5),
            layer=asked.get("layer"),
            random_state=asked.get("random_state"),
            progress=None if asked.get("quiet") else _Progress(asked.get("folds", 5)),
        )
    chosen = result.doubts[:top]
    column = _column(data, asked)
    if output is not None:
        names = [each for each in data.names if each != column]
        items = _items(data, result, chosen, column)
        _write(output, annotator_file(items, names, format_for(output, format)))
        if output != "-" and not asked.get("quiet"):
            say(f"{output}: {counted(len(chosen), 'doubt')} in {counted(len(items), 'sentence')}")
    if asked.get("as_json"):
        show_json({"by": result.by, "sentences": len(data), "doubts": [_fact(data, each) for each in chosen]})
    elif output is None:
        _show(data, result, chosen[: top or SHOWN], top)


def _column(data: "Corpus", asked: Request) -> str:
    """The column whose labels are looked at."""
    return data.label if data.label is not None else str(asked.get("layer") or list(asked.table["layers"])[-1]["name"])


def _apply(source: str, asked: Request) -> None:
    """Write the data with corrected labels."""
    from labelwright.active.annotator_files import corrected, read_corrections
    from labelwright.corpus import write_columns

    path, output = str(asked.get("apply")), asked.get("output")
    if output is None:
        raise OptionError("--apply: add -o FILE for the corrected data, or -o - for standard output")
    if asked.get("to") not in (None, "columns"):
        raise OptionError("--to: not with --apply, which writes columns; leave it out")
    check_target(output, [path])
    data = _read(source, asked)
    column = _column(data, asked)
    made = corrected(data, read_corrections(path, len(data.names)), column)
    changed = sum(old != new for old, new in zip(data.tokens(column), made.tokens(column), strict=True))
    buffer = io.BytesIO()
    write_columns(made, buffer)
    _write(output, buffer.getvalue())
    if output != "-" and not asked.get("quiet"):
        say(f"{output}: {counted(changed, 'label')} of {counted(made.n_tokens, 'token')} changed")


def _checked_format(asked: Request, inputs: Sequence[str]) -> str | None:
    """The format that -o writes, after a check that it can be written."""
    from labelwright.active.annotator_files import format_for

    output, to = asked.get("output"), None if asked.get("to") is None else str(asked.get("to"))
    format_for("", to)
    if to is not None and output is None:
        raise OptionError("--to: says what -o writes; add -o FILE, or -o - for standard output")
    if output is not None:
        check_target(output, inputs)
    return to


def _read(source: str, asked: Request) -> "Corpus":
    schemes = asked.kind._label_columns(asked.table)
    data, _ = read_data(source, asked, schemes)
    if has_attributes(data):
        raise OptionError(f"{source}: CRFsuite's data have no words to show; use labelwright.active.doubts in Python")
    corpus: Corpus = data
    return corpus


class _Progress:
    """One line for each fold on stderr."""

    def __init__(self, folds: int):
        self.folds, self.done = folds, 0

    def __call__(self, part: Any) -> None:
        self.done += 1
        sizes = f"{part.n_train:,} + {part.n_test:,} sentences"
        say(f"fold {self.done}/{self.folds}  {sizes}  {counted(part.n_doubts, 'doubt')}  {part.seconds:.2f} s")


# -- files ------------------------------------------------------------------------------------------------------------


def _items(data: "Corpus", result: "Doubts", chosen: "Sequence[Doubt]", column: str) -> "list[ToAnnotate]":
    """The sentences of the chosen doubts, the most doubtful first."""
    from labelwright.active.annotator_files import ToAnnotate

    by_sentence: dict[int, list[tuple[int, Doubt]]] = {}
    for number, each in enumerate(chosen, 1):
        by_sentence.setdefault(each.sentence, []).append((number, each))
    numbers = list(by_sentence)
    some = data.take(numbers)
    gold = some.column(column)
    rows = zip(*(some.column(name) for name in data.names if name != column), strict=True)
    items = []
    for number, labels, columns in zip(numbers, gold, rows, strict=True):
        held, marks = result.sentences[number], ["_"] * len(labels)
        for rank, each in reversed(by_sentence[number]):
            start, end = each.place
            marks[start:end] = [str(rank)] * (end - start)
        listed = [each.as_dict() for _, each in by_sentence[number]]
        p = [None if value is None else round(value, 6) for value in held.probabilities]
        facts = {"sentence": number, "predicted": held.labels, "probabilities": p, "doubts": listed}
        more = [held.labels, ["_" if value is None else f"{value:.4f}" for value in p], marks]
        more.append([str(number)] * len(labels))
        items.append(ToAnnotate(list(zip(*columns, strict=True)), labels, facts, more))
    return items


def _write(path: str, data: bytes) -> None:
    from labelwright.corpus.compressed import written

    with written(path) as write:
        write(data)


# -- text -------------------------------------------------------------------------------------------------------------


def _fact(data: "Corpus", doubt: "Doubt") -> dict[str, Any]:
    """A doubt, ready for JSON, with its words."""
    words = _words(data, doubt)
    start, end = doubt.place
    return doubt.as_dict() | {"text": " ".join(words[start:end]), "tokens": words}


def _words(data: "Corpus", doubt: "Doubt") -> list[str]:
    begin, end = data.offsets[doubt.sentence : doubt.sentence + 2].tolist()
    column = data.columns[data.names.index(data.input_names[0])]
    return [column.values[code] for code in column.codes[begin:end].tolist()]


def _show(data: "Corpus", result: "Doubts", chosen: "Sequence[Doubt]", top: int | None) -> None:
    """A table of doubts, each with some words around it."""
    if not chosen:
        show("no doubts: the models agree with every label")
        return
    rows = [_row(result.by, each, _words(data, each)) for each in chosen]
    for line in aligned([HEADS if result.by != "sentence" else (*HEADS[:2], HEADS[-1]), *rows], {0, 1}):
        show(line)
    if len(chosen) < len(result.doubts):
        more = counted(len(result.doubts) - len(chosen), "further doubt")
        show(f"{more}; {'' if top else '--top N shows N, '}-o FILE writes them")


def _row(by: str, doubt: "Doubt", words: Sequence[str]) -> tuple[str, ...]:
    """A doubt in the table; of one about a sentence as a whole there is nothing to suggest."""
    first = (f"{doubt.sentence:,}", f"{doubt.probability:.4f}")
    if by == "sentence":
        return (*first, shortened(" ".join(words), WIDTH))
    suggested = (_named(doubt.suggested), f"{doubt.suggested_probability:.3f}")
    return (*first, _named(doubt.gold), *suggested, _context(words, doubt))


def _named(span: "Span | None") -> str:
    return "-" if span is None else span.type


def _context(words: Sequence[str], doubt: "Doubt") -> str:
    """The words of a doubt in brackets, with some before and after it; where a span has other bounds than the suggested
    one, those of the suggestion are in braces."""
    words = list(words)
    start, end = doubt.place
    for span, (left, right) in ((doubt.suggested, "{}"), (doubt.gold, "[]")):
        other = doubt.gold if span is doubt.suggested else None
        if span is not None and (other is None or span[:2] != other[:2]):
            words[span.start] = f"{left}{words[span.start]}"
            words[span.end - 1] += right
    before, after = max(0, start - AROUND), min(len(words), end + AROUND)
    text = " ".join(words[before:after])
    return f"{'... ' if before else ''}{text}{' ...' if after < len(words) else ''}"
