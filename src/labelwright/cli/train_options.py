"""The options of labelwright train that are not settings of one tagger: data, the run, output."""

import inspect
from dataclasses import replace
from typing import Annotated, Any

import typer

from labelwright.cli.arrays import HELP as ARRAYS_HELP
from labelwright.cli.common import FORMAT_HELP, SCHEME_NAMES
from labelwright.cli.options import DATA, OUTPUT
from labelwright.cli.train_grid import Grid
from labelwright.settings import (
    AtLeast,
    Default,
    Flag,
    Group,
    Help,
    Needs,
    OneOf,
    OptionOnly,
    Place,
    Setting,
    Text,
    settings_of,
)
from labelwright.taggers import declared


class FileName(Text):
    """A file that is read."""

    metavar = "FILE"

    def files(self, value: Any, place: Place) -> list[str]:
        return [value] if isinstance(value, str) else []


class ColumnNames(Text):
    """Names separated by commas; in a recipe also a list of them."""

    metavar = "NAMES"

    def from_recipe(self, value: Any, place: Place) -> Any:
        return ",".join(map(str, value)) if isinstance(value, list) else value


def of_files(
    *,
    model: Annotated[str, Group(DATA), Flag(metavar="NAME"), Help("The tagger to train.")] = "crf",
    columns: Annotated[
        str | None, ColumnNames(), Group(DATA), Help("Names of the columns, as in word,pos,chunk.")
    ] = None,
    label: Annotated[str | None, Group(DATA), Help("The label column."), Default("the last")] = None,
    format: Annotated[str | None, Group(DATA), Flag(metavar="NAME"), Help(FORMAT_HELP)] = None,
    label_names: Annotated[
        str | None, ColumnNames(), Group(DATA), Help("Names of labels that are numbers in JSON or Parquet.")
    ] = None,
    skip_bad_spans: Annotated[
        bool, Group(DATA), Help("Leave out annotations of texts that cut a token or overlap."), Default("")
    ] = False,
) -> None:
    """The tagger, and how the training file is read."""


def of_texts(
    *,
    tokenizer: Annotated[str | None, Group(DATA), Help("Text: words, or ptb (do n't)."), Default("as in TRAIN")] = None,
    characters: Annotated[
        bool, Group(DATA), Help("Text: every character is a token, as for Chinese."), Default("")
    ] = False,
    token_pattern: Annotated[
        str | None, Group(DATA), Flag(metavar="REGEX"), Help("Text: a regular expression that matches the tokens.")
    ] = None,
    sentences: Annotated[
        str | None,
        Group(DATA),
        Flag(metavar="NAME"),
        Help("Text: split (by punctuation), lines or none."),
        Default("split"),
    ] = None,
) -> None:
    """How texts are split."""


def of_further_data(
    *,
    scheme: Annotated[str | None, Group(DATA), Help(f"Rewrite labels as {SCHEME_NAMES}.")] = None,
    dev: Annotated[
        str | None, FileName(), Group(DATA), Help("Development data: keep the best weights, stop early.")
    ] = None,
    arrays: Annotated[str | None, FileName(), Group(DATA), Help(ARRAYS_HELP)] = None,
    dev_arrays: Annotated[str | None, FileName(), Group(DATA), Help("The same for the development data.")] = None,
    recipe: Annotated[
        str | None,
        OptionOnly(),
        Group(DATA),
        Flag(metavar="FILE.toml"),
        Help("Settings from a file; options override them."),
    ] = None,
) -> None:
    """Labels, and files beside the training file."""


def of_labels(
    *,
    unmarked: Annotated[
        str | None,
        OneOf("outside", "unknown"),
        Needs("partial_labels"),
        Group(DATA),
        Help(
            "What O says: outside of any span, or unknown, since only some spans are marked (crf: add --entity-rate)."
        ),
        Default("outside"),
    ] = None,
    allowed_labels: Annotated[
        str | None,
        FileName(),
        Needs("partial_labels"),
        Group(DATA),
        Help(
            "Words, each with the labels that it may have, on lines of a file: for tokens whose label is unknown (_)."
        ),
    ] = None,
    sentence_weight: Annotated[
        str | None,
        Needs("sample_weight"),
        Group(DATA),
        Flag(metavar="COLUMN"),
        Help("A column with the weight of the sentence, the same at all its tokens: it counts so many times."),
    ] = None,
    token_weight: Annotated[
        str | None,
        Needs("sample_weight"),
        Group(DATA),
        Flag(metavar="COLUMN"),
        Help("A column with the weight of each token: how much a wrong label counts there."),
    ] = None,
) -> None:
    """What the training file says of its labels beside them."""


def of_tuning(
    *,
    random_state: Annotated[
        int | None,
        Needs("search"),
        AtLeast(0),
        Group(declared.TRAINING),
        Flag("--seed"),
        Help("Seed of the samples of a search."),
    ] = None,
    search: Annotated[
        dict[str, Any] | None,
        Grid(),
        Group(declared.TRAINING),
        Help("Try settings on growing samples, train the best."),
    ] = None,
    folds: Annotated[
        int | None,
        AtLeast(2),
        Group(declared.TRAINING),
        Flag(metavar="K"),
        Help("Cross-validate first: mean and deviation."),
    ] = None,
    learning_curve: Annotated[
        bool,
        OptionOnly(),
        Group(declared.TRAINING),
        Help("First train on an eighth, a quarter and half of the sentences: is more data worth it?"),
        Default(""),
    ] = False,
) -> None:
    """What is tried before the model is trained."""


def of_calibration(
    *,
    calibrate: Annotated[
        str | None,
        OneOf("temperature", "isotonic"),
        Group(declared.TRAINING),
        Flag(metavar="METHOD"),
        Help("Calibrate the model on --dev, or by cross-fitting: temperature or isotonic."),
    ] = None,
) -> None:
    """What is fitted after the model is trained."""


def of_training(
    *,
    start_from: Annotated[
        str | None,
        Needs("init"),
        Group(declared.TRAINING),
        Flag(metavar="MODEL"),
        Help("Begin with the settings and weights of a trained model."),
    ] = None,
    continue_from: Annotated[
        str | None,
        Needs("partial_fit"),
        OptionOnly(),
        Group(declared.TRAINING),
        Flag("--continue", metavar="MODEL"),
        Help("Continue training a model with the sentences of TRAIN."),
    ] = None,
    resume: Annotated[
        bool,
        Needs("checkpoint"),
        OptionOnly(),
        Group(declared.TRAINING),
        Help("Resume from MODEL.checkpoint, with an identical result."),
        Default(""),
    ] = False,
    checkpoint_every: Annotated[
        float,
        Needs("checkpoint"),
        AtLeast(0),
        Group(declared.TRAINING),
        Flag(metavar="SECONDS"),
        Help("How often MODEL.checkpoint is written."),
    ] = 10.0,
    memory_map: Annotated[
        str | None,
        Needs("memory_map"),
        OptionOnly(),
        Group(declared.TRAINING),
        Flag(metavar="DIR"),
        Help("Keep encoded data in temporary files in this folder, not in memory; the model is the same."),
    ] = None,
) -> None:
    """How training begins, and what it keeps on disk."""


def of_output(
    *,
    output: Annotated[
        str, OptionOnly(), Group(OUTPUT), Flag("-o", "--output", metavar="MODEL"), Help("Model file to write.")
    ],
    plot: Annotated[
        str | None,
        OptionOnly(),
        Group(OUTPUT),
        Flag(metavar="FILE.png"),
        Help("Draw the training, the search, the learning curve."),
    ] = None,
    quiet: Annotated[
        bool, OptionOnly(), Group(OUTPUT), Flag("-q", "--quiet"), Help("No progress, no summary."), Default("")
    ] = False,
    verbose: Annotated[
        bool, OptionOnly(), Group(OUTPUT), Flag("-v", "--verbose"), Help("One line per iteration."), Default("")
    ] = False,
) -> None:
    """What is written."""


def of_most_taggers(
    *,
    template: declared.Template,
    dictionaries: declared.Dictionaries,
    clusters: declared.Clusters,
    vectors: declared.Vectors,
    order: declared.Order,
    cells: declared.Cells,
    min_count: declared.MinCount,
    constraints: declared.Constraints,
    max_iter: declared.MaxIter,
    n_jobs: declared.Jobs,
    random_state: declared.Seed,
    l1: declared.L1 = 0.0,
    l2: declared.L2 = 1.0,
) -> None:
    """The settings that most taggers have, for the help of all of them; constructors have the other defaults."""


# What a run is asked beside the settings of its tagger, in the order of the help.
RUN = {
    name: setting
    for part in (of_files, of_texts, of_further_data, of_labels, of_tuning, of_training, of_calibration, of_output)
    for name, setting in settings_of(part).items()
}

# Options that mean something else to taggers without an ability of `_training_options`: the ability, and their help.
WITHOUT = {
    "dev": ("dev", "Development data: the trained model is scored on them."),
    "verbose": ("progress", "One line for each setting that --search tries."),
}


def for_tagger(kind: type[Any], setting: Setting) -> Setting:
    """A setting of the run, with the help that is true for this tagger."""
    ability, text = WITHOUT.get(setting.name, ("", ""))
    if not ability or ability in kind._training_options:
        return setting
    markers = tuple(Help(text) if isinstance(marker, Help) else marker for marker in setting.markers)
    return replace(setting, markers=markers)


TRAIN = inspect.Parameter(
    "train",
    inspect.Parameter.KEYWORD_ONLY,
    annotation=Annotated[
        str,
        typer.Argument(
            metavar="TRAIN", show_default=False, rich_help_panel=DATA, help="Column file (.gz .bz2 .xz), .conllu, or -."
        ),
    ],
)
RARE = (  # for some formats of files, or seldom asked for
    "label_names", "skip_bad_spans", "tokenizer", "characters", "token_pattern", "sentences", "arrays", "dev_arrays",
    "learning_curve", "calibrate", "unmarked", "allowed_labels", "sentence_weight", "token_weight",
)  # fmt: skip
MOST = ("start_from", "continue_from", "resume")  # options that not all taggers have, but most
PLACES = {DATA: 0, declared.FEATURES: 1, declared.TRAINING: 2, OUTPUT: 4}  # of headings; the tagger's own is 3
