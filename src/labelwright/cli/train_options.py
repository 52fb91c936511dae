"""The options of labelwright train that are not settings of one tagger: data, the run, output."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from labelwright.cli.options import (
    ARRAYS,
    COLUMNS,
    DATA,
    FORMAT,
    LABEL,
    LABEL_NAMES,
    MAX_INPUT,
    OUTPUT,
    SCHEME_NAMES,
    SKIP_BAD_SPANS,
    SPLITTING,
    argument,
    changed,
    option,
)
from labelwright.cli.train_search import Grid
from labelwright.settings import (
    REQUIRED,
    AtLeast,
    Bounds,
    Choice,
    Default,
    Help,
    Kind,
    Needs,
    Number,
    OptionOnly,
    Place,
    Setting,
    Text,
    Whole,
    settings_of,
)
from labelwright.taggers import declared
from labelwright.taggers.declared import FEATURES, TRAINING


class FileName(Text):
    """A file that is read."""

    def files(self, value: Any, place: Place) -> list[str]:
        return [value] if isinstance(value, str) else []


class ColumnNames(Text):
    """Names separated by commas; in a recipe also a list of them."""

    def from_recipe(self, value: Any, place: Place) -> Any:
        return ",".join(map(str, value)) if isinstance(value, list) else value


def _option(flags: str, text: str, group: str, kind: Kind | None = None, needs: str = "", **more: Any) -> Setting:
    """An option that only taggers take which declare the ability in `_training_options`."""
    setting = option(flags, text, group, kind, **more)
    return changed(setting, Needs(needs)) if needs else setting


def recipe_key(setting: Setting, kind: Kind | None = None) -> Setting:
    """The option as a key of recipes, too."""
    return replace(changed(setting, without=OptionOnly), kind=kind or setting.kind)


QUIET = option("-q --quiet", "No progress, no summary.", OUTPUT)
TRAIN = argument("train", "TRAIN", "Column file (.gz .bz2 .xz), .conllu, or -.")
TUNING = [
    _option(
        "--seed N",
        "Seed of the samples of a search.",
        TRAINING,
        Whole(Bounds(AtLeast(0))),
        "search",
        name="random_state",
    ),
    option("--search NAME=X,Y", "Try settings on growing samples, train the best.", TRAINING, Grid()),
    option("--folds K", "Cross-validate first: mean and deviation.", TRAINING, Whole(Bounds(AtLeast(2)))),
]
# What a run is asked beside the settings of its tagger, in the order of the help; first what recipes have, too.
KEYS = [
    recipe_key(option("--model NAME", "The tagger to train.", DATA, default="crf")),
    recipe_key(COLUMNS, ColumnNames()),
    recipe_key(LABEL),
    recipe_key(FORMAT),
    recipe_key(LABEL_NAMES, ColumnNames()),
    recipe_key(SKIP_BAD_SPANS),
    recipe_key(changed(SPLITTING[0], Default("as in TRAIN"))),
    *map(recipe_key, SPLITTING[1:3]),
    recipe_key(changed(SPLITTING[3], Default("split"))),
    recipe_key(option("--scheme NAME", f"Rewrite labels as {SCHEME_NAMES}.", DATA)),
    recipe_key(option("--dev FILE", "Development data: keep the best weights, stop early.", DATA), FileName()),
    recipe_key(ARRAYS, FileName()),
    recipe_key(option("--dev-arrays FILE", "The same for the development data.", DATA), FileName()),
]
OF_LABELS = [
    _option(
        "--unmarked outside|unknown",
        "What O says: outside of any span, or unknown, since only some spans are marked (crf: add --entity-rate).",
        DATA,
        Choice(["outside", "unknown"]),
        "partial_labels",
        shown="outside",
    ),
    _option(
        "--allowed-labels FILE",
        "Words, each with the labels that it may have, on lines of a file: for tokens whose label is unknown (_).",
        DATA,
        FileName(),
        "partial_labels",
    ),
    _option(
        "--sentence-weight COLUMN",
        "A column with the weight of the sentence, the same at all its tokens: it counts so many times.",
        DATA,
        needs="sample_weight",
    ),
    _option(
        "--token-weight COLUMN",
        "A column with the weight of each token: how much a wrong label counts there.",
        DATA,
        needs="sample_weight",
    ),
]
OF_TRAINING = [
    recipe_key(
        _option("--start-from MODEL", "Begin with the settings and weights of a trained model.", TRAINING, needs="init")
    ),
    _option(
        "--continue MODEL",
        "Continue training a model with the sentences of TRAIN.",
        TRAINING,
        needs="partial_fit",
        name="continue_from",
    ),
    _option("--resume", "Resume from MODEL.checkpoint, with an identical result.", TRAINING, needs="checkpoint"),
    recipe_key(
        _option(
            "--checkpoint-every SECONDS",
            "How often MODEL.checkpoint is written.",
            TRAINING,
            Number(Bounds(AtLeast(0))),
            "checkpoint",
            default=10.0,
        )
    ),
    _option(
        "--memory-map DIR",
        "Keep encoded data in temporary files in this folder, not in memory; the model is the same.",
        TRAINING,
        needs="memory_map",
    ),
    recipe_key(
        option(
            "--calibrate METHOD",
            "Calibrate the model on --dev, or by cross-fitting: temperature or isotonic.",
            TRAINING,
            Choice(["temperature", "isotonic"]),
        )
    ),
]
RUN = {
    setting.name: setting
    for setting in (
        *KEYS,
        option("--recipe FILE.toml", "Settings from a file; options override them.", DATA),
        *map(recipe_key, OF_LABELS),
        MAX_INPUT,
        *map(recipe_key, TUNING),
        option(
            "--learning-curve",
            "First train on an eighth, a quarter and half of the sentences: is more data worth it?",
            TRAINING,
        ),
        *OF_TRAINING,
        option("-o --output MODEL", "Model file to write.", OUTPUT, default=REQUIRED),
        option("--plot FILE.png", "Draw the training, the search, the learning curve.", OUTPUT),
        QUIET,
        option("-v --verbose", "One line per iteration.", OUTPUT),
    )
}


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


RARE = (  # for some formats of files, or seldom asked for
    "label_names", "skip_bad_spans", "tokenizer", "characters", "token_pattern", "sentences", "arrays", "dev_arrays",
    "learning_curve", "calibrate", "unmarked", "allowed_labels", "sentence_weight", "token_weight",
)  # fmt: skip
MOST = ("start_from", "continue_from", "resume")  # options that not all taggers have, but most
PLACES = {DATA: 0, FEATURES: 1, TRAINING: 2, OUTPUT: 4}  # of headings; the tagger's own is 3

# Options that mean something else to taggers without an ability of `_training_options`: the ability, and their help.
WITHOUT = {
    "dev": ("dev", "Development data: the trained model is scored on them."),
    "verbose": ("progress", "One line for each setting that --search tries."),
}


def for_tagger(kind: type[Any], setting: Setting) -> Setting:
    """A setting of the run, with the help that is true for this tagger."""
    ability, text = WITHOUT.get(setting.name, ("", ""))
    return changed(setting, Help(text)) if ability and ability not in kind._training_options else setting


def settings_for_all() -> list[Setting]:
    """The options that most taggers have; no tagger is imported for them."""
    run = [each for key, each in RUN.items() if (not each.has(Needs) or key in MOST) and key not in RARE]
    common = settings_of(of_most_taggers).values()
    merged = {each.name: replace(each, default=None) if each.required else each for each in common}
    return in_order([each for each in run if each.name not in merged] + list(merged.values()))


def in_order(settings: Iterable[Setting], places: Mapping[str, float] = PLACES) -> list[Setting]:
    """Settings by their headings."""
    return sorted(settings, key=lambda setting: places.get(setting.group or "", 3))
