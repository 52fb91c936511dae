"""Settings of taggers in tables, of which constructors are made; those that several taggers share
are declared here.

_declared = chosen("order l2", COMMON | declared(l2=(float, 1.0, "penalty l2/2 |w|^2", AtLeast(0))))
"""

import inspect
import re
from collections.abc import Hashable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, get_args

from labelwright.corpus.compressed import decompressed
from labelwright.corpus.limits import MOST_HELD, read_at_most
from labelwright.errors import LabelwrightError, OptionError, unreadable
from labelwright.features.builtin import BUILTIN
from labelwright.features.template import NAME, Template
from labelwright.settings import (
    NOT_NEGATIVE,
    REQUIRED,
    Above,
    AtLeast,
    AtMost,
    Below,
    Bounds,
    Default,
    Flag,
    Group,
    Help,
    Kind,
    Limit,
    NotInherited,
    Number,
    OfTheRun,
    OneOf,
    OnlyWith,
    Place,
    PythonOnly,
    Signed,
    Switch,
    Text,
    Whole,
)
from labelwright.wording import shown

Table = Mapping[str, inspect.Parameter]


def declared(**settings: tuple[Any, ...]) -> dict[str, inspect.Parameter]:
    """A table of settings: the type, the default, the sentence and the markers of each."""
    return {
        name: _parameter(name, default, Annotated[plain, *markers, Help(text)])
        for name, (plain, default, text, *markers) in settings.items()
    }


def _parameter(
    name: str, default: Any = REQUIRED, annotation: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
    )


def chosen(names: str, table: Table, **defaults: Any) -> Table:
    """These settings of a table in this order, some of them with another default."""
    changed = {}
    for name, default in defaults.items():
        plain, *markers = get_args(table[name].annotation)
        # which is of the other default
        kept = [marker for marker in markers if not isinstance(marker, Default)]
        changed[name] = _parameter(name, default, Annotated[plain, *kept])
    return {name: changed.get(name, table[name]) for name in names.split()}


def constructor(settings: Table) -> Any:
    """The `__init__` that takes these settings and stores them.

    >>> settings = declared(l2=(float, 1.0, "penalty"), order=(int, 1, "Markov order"))
    >>> class Tagger:
    ...     __init__ = constructor(settings)
    >>> vars(Tagger(order=2))
    {'l2': 1.0, 'order': 2}
    """
    signature = inspect.Signature(list(settings.values()))

    def __init__(self: Any, *values: Any, **named: Any) -> None:  # noqa: N807
        try:
            given = signature.bind(*values, **named)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}.__init__() {error}") from None
        given.apply_defaults()
        vars(self).update(given.arguments)

    __init__.__signature__ = inspect.Signature([_parameter("self"), *settings.values()])  # type: ignore[attr-defined]
    return __init__


# -- kinds of values that only some settings take: numbers by label, phrases by name ---------------

POSITIVE_NUMBER = Number(Bounds(Above(0)))
POSITIVE = Whole(Bounds(AtLeast(1)))
MOST_LATENT = 1_000_000  # states of a label; the limit of arcs is reached far earlier


class TemplateName(Text):
    """The name of a built-in template, the path of a file, its text, or a parsed template."""

    metavar = "NAME|FILE"

    def complaint(self, value: Any) -> str | None:
        return None  # whatever reads it says what is wrong

    def from_recipe(self, value: Any, place: Place) -> Any:
        if not isinstance(value, str):
            raise OptionError(f"{place.name}: expected a string, got {shown(value, 60)}")
        return value

    def files(self, value: Any, place: Place) -> list[str]:
        return [value] if isinstance(value, str) else []

    def is_stored(self, value: Any) -> bool:
        # anything else may be a path
        return isinstance(value, str) and (value in BUILTIN or "\n" in value)


class SchemeName(Text):
    """The name of a label scheme, or "scheme": that of the labels."""

    # whether labels follow it is known when they are read
    expected = "'scheme' or the name of a label scheme"
    metavar = "scheme"


class DeviceName(Text):
    """Where training computes: the CPU, or a device that PyTorch knows."""

    expected = "cpu, cuda, cuda:1, mps, or torch (PyTorch on the CPU)"
    metavar = "cpu|cuda|mps"

    def accepts(self, value: Any) -> bool:
        return (
            isinstance(value, str) and re.fullmatch(r"cpu|torch|mps|cuda(:\d+)?", value) is not None
        )

    def is_stored(self, value: Any) -> bool:
        return False  # nor where they run


class Threads(Whole):
    """A number of threads."""

    expected = "a number of threads, or -1 for one per core"

    def __init__(self) -> None:
        super().__init__(Bounds(Limit("", lambda value: value == -1 or value >= 1)))

    def is_stored(self, value: Any) -> bool:
        return False  # how many threads run is for the user to say


def _by_label(text: str, number: str, option: str) -> dict[str, str]:
    """The numbers, texts of this form, that LABEL=N,LABEL=N,... has for each label, which may hold
    commas."""
    pairs = re.findall(rf"(.+?)=({number})(?:,|$)", text)
    if not pairs or ",".join(f"{label}={found}" for label, found in pairs) != text.rstrip(","):
        raise ValueError(text)
    labels = [label for label, _ in pairs]
    for label in labels:
        if labels.count(label) > 1:
            raise OptionError(f"{option}: two numbers for the label {label!r}, expected one")
    return dict(pairs)


class StatesByLabel(Kind):
    """One number of latent states for all labels, or one for each label: 4, or B-NP=3,O=2."""

    expected = "a number, or numbers by label as in B-NP=3,O=2"
    metavar = "N"

    def complaint(self, value: Any) -> str | None:
        by_label = isinstance(value, Mapping) and len(value) > 0
        if not by_label and (not isinstance(value, Integral) or isinstance(value, bool)):
            return (
                f"expected a whole number or a table of one for each label, got {shown(value, 60)}"
            )
        for size in value.values() if by_label else [value]:
            if not POSITIVE.accepts(size):
                return f"expected 1 or more states per label, got {shown(size, 60)}"
            if size > MOST_LATENT:
                return f"expected at most {MOST_LATENT:,} states per label, got {shown(size, 60)}"
        return None

    def from_text(self, text: str) -> int | dict[str, int]:
        """The numbers that a text means.

        >>> StatesByLabel().from_text("4"), StatesByLabel().from_text("B-NP=3,O=2")
        (4, {'B-NP': 3, 'O': 2})
        """
        try:
            return int(text)
        except ValueError:
            pass
        return {
            label: int(number) for label, number in _by_label(text, r"-?\d+", "--latent").items()
        }


class WeightsByLabel(Kind):
    """Weights of labels, B-PER=2,O=0.5, or "balanced"."""

    expected = "'balanced', or weights by label as in B-PER=2,O=0.5"
    metavar = "LABEL=X,...|balanced"
    repeated = True

    def complaint(self, value: Any) -> str | None:
        if isinstance(value, str):
            return None if value == "balanced" else f"expected {self.expected}, got {value!r}"
        if not isinstance(value, Mapping):
            return f"expected 'balanced' or a table of weights by label, got {shown(value, 40)}"
        wrong = next(
            (label for label, weight in value.items() if not POSITIVE_NUMBER.accepts(weight)), None
        )
        return (
            None
            if wrong is None
            else f"{wrong!r}: expected a number above 0, got {shown(value[wrong], 60)}"
        )

    def from_texts(self, texts: list[str], flag: str) -> Any:
        """The weights that several options mean together.

        >>> WeightsByLabel().from_texts(["B-PER=2,O=0.5", "I-PER=3"], "--class-weight")
        {'B-PER': 2.0, 'O': 0.5, 'I-PER': 3.0}
        """
        if set(texts) == {"balanced"}:
            return "balanced"
        if "balanced" in texts:
            raise OptionError(
                f"{flag}: 'balanced' gives every label its weight; leave the others out"
            )
        weights: dict[str, float] = {}
        for text in texts:
            try:
                given = {
                    label: float(number)
                    for label, number in _by_label(text, r"[-+.\deE]+", flag).items()
                }
            except OptionError:  # which says more
                raise
            except ValueError:
                raise OptionError(f"{flag}: expected {self.expected}, got {text!r}") from None
            twice = next(
                (label for label in given if weights.get(label, given[label]) != given[label]), None
            )
            if twice is not None:
                raise OptionError(f"{flag}: two numbers for the label {twice!r}, expected one")
            weights |= given
        return weights


class LabelPairs(Kind):
    """Pairs of labels; in options and recipes "B-PER B-PER"."""

    expected = "pairs of labels, as in 'O I-PER'"
    metavar = "'LABEL LABEL'"
    repeated = True

    def accepts(self, value: Any) -> bool:
        return _is_list(value) and all(
            _is_list(pair) and len(pair) == 2 and all(isinstance(label, Hashable) for label in pair)
            for pair in value
        )

    def from_texts(self, texts: list[str], flag: str) -> Any:
        for text in texts:
            if len(text.split()) != 2:
                raise OptionError(f"{flag}: expected two labels separated by a space, got {text!r}")
        return [tuple(text.split()) for text in texts]

    def from_recipe(self, value: Any, place: Place) -> Any:
        texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
        return self.from_texts(value, place.name) if texts else value


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


class NumberOrName(Kind):
    """A number, or one of some names."""

    def __init__(self, number: Number, expected: str, *names: str):
        self.number, self.names = number, names
        self.expected = f"{expected}, or {' or '.join(map(repr, names))}"
        self.metavar = "|".join(("X", *names))

    def accepts(self, value: Any) -> bool:
        return value in self.names if isinstance(value, str) else self.number.accepts(value)

    def from_text(self, text: str) -> float | str:
        return text if text in self.names else float(text)


class Verbosity(Kind):
    """How much is said: a whole number, or true for 1."""

    expected = "true, false or a whole number"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Integral) or Switch().accepts(value)


class LinesOfFile(list[str]):
    """The lines of a file that are not blank, and its path."""

    def __init__(self, path: str, place: str):
        self.path = path
        try:
            text = decompressed(read_at_most(path, MOST_HELD), path, Path(path).suffix).decode(
                "utf-8-sig"
            )
        except LabelwrightError:
            raise
        except (OSError, ValueError) as error:
            raise unreadable(OptionError, f"{place}: {path}", error) from None
        super().__init__(line.strip() for line in text.split("\n") if line.strip())
        if not self:
            raise OptionError(f"{place}: {path} is empty; leave it out")


class TableOfFile(dict[str, str]):
    """The words of a file with their clusters, and its path: a word and its cluster on each line,
    or the bit string, the word and its count, as programs for Brown clustering write them."""

    def __init__(self, path: str, place: str):
        super().__init__()
        self.path = path
        for number, line in enumerate(LinesOfFile(path, place), start=1):
            fields = line.split("\t") if "\t" in line else line.split()
            brown = len(fields) == 3 and set(fields[0]) <= {"0", "1"} and fields[2].isdecimal()
            if len(fields) != 2 and not brown:
                raise OptionError(
                    f"{path}: line {number}: expected a word and its cluster, got {line!r:.40}"
                )
            word, cluster = (fields[1], fields[0]) if brown else fields
            self[word] = cluster


class FilesByName(Kind):
    """Tables by name; in options NAME=FILE, in a recipe also the name of a file in the place of a
    table."""

    metavar = "NAME=FILE"
    repeated = True

    def read(self, table: Any, place: str, folder: Path) -> Any:
        """A table as it was given, or that of the file which it names."""
        raise NotImplementedError

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Mapping)

    def from_texts(self, texts: list[str], flag: str) -> Any:
        tables: dict[str, Any] = {}
        for text in texts:
            name, _, path = text.partition("=")
            if not re.fullmatch(NAME, name) or not path:
                raise OptionError(
                    f"{flag}: expected NAME=FILE with a name of letters and digits, got {text!r}"
                )
            if name in tables:
                raise OptionError(
                    f"{flag}: two files are named {name!r}; give each a name of its own"
                )
            tables[name] = self.read(path, f"{flag} {name}", Path())
        return tables

    def from_recipe(self, value: Any, place: Place) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {
            name: self.read(table, f"{place.name}: {name}", place.folder)
            for name, table in value.items()
        }

    def files(self, value: Any, place: Place) -> list[str]:
        """The files that tables name, or that they were read from."""
        tables = list(value.values()) if isinstance(value, Mapping) else []
        named = [str(place.folder / table) for table in tables if isinstance(table, str)]
        return named + [
            table.path for table in tables if isinstance(table, LinesOfFile | TableOfFile)
        ]

    def is_stored(self, value: Any) -> bool:
        return False  # they are stored with the features


class Phrases(FilesByName):
    """Lists of phrases by name; files have a phrase on each line."""

    expected = "a table of phrases by name"

    def read(self, table: Any, place: str, folder: Path) -> Any:
        phrases = LinesOfFile(str(folder / table), place) if isinstance(table, str) else table
        if not isinstance(phrases, list) or not all(
            isinstance(phrase, str) and phrase.strip() for phrase in phrases
        ):
            raise OptionError(
                f"{place}: expected a file, or a list of phrases, got {shown(phrases, 60)}"
            )
        return phrases


class WordClusters(FilesByName):
    """Clusters of words by the name of the clustering."""

    expected = "a table of word clusters by name"

    def read(self, table: Any, place: str, folder: Path) -> Any:
        return TableOfFile(str(folder / table), place) if isinstance(table, str) else table


class VectorFile(Text):
    """The path of a file with word vectors; in Python also {word: numbers}."""

    expected = "a file, or {word: numbers}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str | Mapping | Path) or hasattr(value, "rows")

    def from_recipe(self, value: Any, place: Place) -> Any:
        return str(place.folder / value) if isinstance(value, str) else value

    def files(self, value: Any, place: Place) -> list[str]:
        return [str(place.folder / value)] if isinstance(value, str) else []

    def is_stored(self, value: Any) -> bool:
        return False  # they are stored with the features


# -- settings of several taggers -------------------------------------------------------------------

FEATURES, TRAINING = "Features", "Training"
OF_FEATURES, OF_TRAINING, SIGNED = Group(FEATURES), Group(TRAINING), Signed()
SHARE = Number(Bounds(Above(0), AtMost(1)))

# fmt: off
COMMON = declared(
    template=(str | Template, "default",
        (
        "default, pos, chunking, ner, bioner, cws, letters, ... (labelwright templates), or a "
        "file."
        ),
        TemplateName(), OF_FEATURES),
    dictionaries=(Mapping[str, Any] | None, None,
        (
        "Phrases by name (one on each line of a file), which templates read as %d[NAME]; may be "
        "repeated."
        ),
        Phrases(), OF_FEATURES, Flag("--dictionary")),
    clusters=(Mapping[str, Mapping[str, str]] | None, None,
        (
        "Word clusters by name (a word and its cluster on each line); templates read %c[NAME]; may "
        "be repeated."
        ),
        WordClusters(), OF_FEATURES, Flag("--clusters")),
    vectors=(str | Mapping[str, Any] | None, None,
        (
        "Word vectors, a word and its numbers on each line (word2vec, GloVe); templates read "
        "%v[row]."
        ),
        VectorFile(), OF_FEATURES, Flag("--vectors", metavar="FILE")),
    order=(int, 1, (
        "Markov order: how many labels before it a label depends "
        "on."
    ), OneOf(1, 2), SIGNED, OF_FEATURES),
    cells=(str, "observed", (
        "Pairs of feature and label that have a weight: those of the training data, or "
        "all."
    ),
        OneOf("observed", "all"), SIGNED, OF_FEATURES),
    min_count=(int, 1, (
        "Leave out features that occur less "
        "often."
    ), AtLeast(1), SIGNED, OF_FEATURES),
    constraints=(str | None, None, "Permit only labellings that the label scheme allows.",
        SchemeName(), SIGNED, OF_FEATURES),
    forbidden_transitions=(Sequence[tuple[str, str]] | None, None,
        (
        "Two labels of which the second never follows the first, in training and in tagging; may "
        "be repeated."
        ),
        LabelPairs(), OF_FEATURES, Flag("--forbid")),
    required_transitions=(Sequence[tuple[str, str]] | None, None,
        (
        "Two labels of which only the second follows the first; repeated with the same first "
        "label: one of several."
        ),
        LabelPairs(), OF_FEATURES, Flag("--require")),
    max_iter=(int | None, None, "Limit of iterations, or of passes over the data.",
        AtLeast(1), OF_TRAINING, Flag("--iterations"), Default(
            "until convergence; latent-crf: "
            "150")),
    n_jobs=(int | None, None, "Threads; results stay the same.",
        Threads(), OfTheRun(), OF_TRAINING, Flag("--threads"), Default("all cores")),
    device=(str, "cpu", (
        "Train by PyTorch: cuda, cuda:1 (GPUs), mps (Macs), torch (the CPU); cpu needs "
        "none."
    ),
        DeviceName(), OfTheRun(), OF_TRAINING),
    random_state=(int | None, None, (
        "Seed of all "
        "randomness."
    ), AtLeast(0), OF_TRAINING, Flag("--seed")),
    warm_start=(bool, False, (
        "Fit again from the weights of the last "
        "fit."
    ), PythonOnly(), OfTheRun()),
    verbose=(int, 0, (
        "Show progress: a bar on a terminal, lines "
        "elsewhere."
    ), Verbosity(), PythonOnly(), OfTheRun()),
    class_weight=(str | Mapping[str, float] | None, None,
        (
        "How much a wrong label counts where this one is right: B-PER=2,O=0.5, or balanced; 1 for "
        "all others."
        ),
        WeightsByLabel(), SIGNED, OF_TRAINING,
        Flag("--class-weight", metavar="LABEL=X,...|balanced")),
)
LATENT = declared(
    n_latent=(int | Mapping[str, int], 4,
        "Latent states of each label: one number, or B-NP=3,O=2,... for all labels.",
        StatesByLabel(), SIGNED, Flag("--latent")),
    n_restarts=(int, 1, (
        "Random starts; the best on development data is kept, or the one with the lowest "
        "loss."
    ),
        AtLeast(1), NotInherited(), Flag("--restarts")),
    share=(bool, True,
        "Latent states of a label share a weight for each feature, to which each state adds a "
        "deviation; off: they are independent, as published.",
        SIGNED),
)
LOG_LINEAR = COMMON | LATENT | declared(
    l1=(float, 0.0, "Penalty l1 |w|; above 0, training uses OWL-QN.", AtLeast(0), SIGNED),
    l2=(float, 1.0, "Penalty l2/2 |w|^2.", AtLeast(0), SIGNED),
    l2_latent=(float | None, None, "Penalty l2_latent/2 |v|^2 of these deviations.",
        Above(0), SIGNED, OnlyWith("share"), Default("3 l2")),
    optimizer=(str, "lbfgs", (
        "L-BFGS, or stochastic gradient "
        "descent."
    ), OneOf("lbfgs", "sgd"), SIGNED),
    averaging=(str, "none",
        (
        "avg: with sgd, run all passes and take the mean of the weights after each of the last "
        "third."
        ),
        OneOf("none", "avg"), SIGNED),
    tol=(float, 1e-5,
        (
        "Stop when the relative improvement over 10 iterations is below X (sgd: 100 X over 5 "
        "passes)."
        ), AtLeast(0)),
    entity_rate=(float | None, None,
        (
        "With --unmarked unknown: the expected share of tokens whose label is not O, marked or "
        "not, as in 0.15."
        ),
        Above(0), Below(1), SIGNED),
    prune_labels=(float | str, "auto",
        "Many labels: a zero-order model leaves each token as many candidates as needed to include "
        "this share of the gold labels; auto: 0.999 from 200 labels on (order 2: 64), where code "
        "is compiled.",
        NumberOrName(SHARE, "a share above 0 and up to 1", "auto", "off"), SIGNED),
)
PERCEPTRON = COMMON | LATENT | declared(
    max_iter=(int | None, None, (
        "Limit of passes; without --all-passes, a pass without mistakes is the "
        "last."
    ),
        AtLeast(1), OF_TRAINING, Flag("--iterations"), Default("50")),
    averaging=(str, "avg",
        (
        "The last weights, their mean after every sentence, or mavg: passes also begin from the "
        "mean."
        ),
        OneOf("none", "avg", "mavg"), SIGNED, Flag(metavar="none|avg|mavg")),
    reset_every=(int, 4, "mavg: every K-th pass begins from the mean; 2 to 8, by development data.",
        AtLeast(1), SIGNED, OnlyWith("averaging", "mavg"), Flag(metavar="K")),
    update=(str, "perceptron",
        "perceptron: a whole step; passive-aggressive: as much as the margin needs; arow: the "
        "same, with smaller steps for weights that have changed often.",
        OneOf("perceptron", "passive-aggressive", "arow"), SIGNED, Flag(metavar="NAME")),
    margin=(float | str | None, None,
        (
        "The gold labels must score above others by X for each wrong label; auto: by the size of "
        "updates."
        ),
        NumberOrName(NOT_NEGATIVE, "a number of 0 or more", "auto"), SIGNED,
        Default("0; 1 for passive-aggressive and arow")),
    cost=(str, "augmented",
        "The margin is required for each wrong label (augmented: updates are against the labelling "
        "that violates it most; labels: against the predicted one), for the square root of their "
        "number, or once for the sentence.",
        OneOf("augmented", "labels", "root", "sentence"),
        OnlyWith("update", "passive-aggressive", "arow"), Flag(metavar="NAME")),
    aggressiveness=(float, 1.0, (
        "Aggressiveness of passive-aggressive updates: with linear slack, the largest "
        "step."
    ),
        Above(0), OnlyWith("update", "passive-aggressive"), Flag(metavar="C")),
    slack=(str, "linear", (
        "Slack of passive-aggressive updates: none (PA), linear (PA-I) or quadratic "
        "(PA-II)."
    ),
        OneOf("none", "linear", "quadratic"), OnlyWith("update", "passive-aggressive"),
        Flag(metavar="NAME")),
    variance=(float, 1.0, (
        "Variance of every weight at first: the larger, the larger the first "
        "steps."
    ),
        Above(0), OnlyWith("update", "arow")),
    gamma=(float, 1.0, (
        "Trade-off of AROW: the larger, the smaller the steps and the slower the variances "
        "fall."
    ),
        Above(0), OnlyWith("update", "arow")),
    epsilon=(float, 0.0,
        (
        "Stop after a pass with a mean loss per sentence below X (update perceptron: share of "
        "wrong labels)."
        ),
        AtLeast(0), OF_TRAINING),
    all_passes=(bool, False,
        (
        "Go on after a pass without mistakes, and without improvement on development data, up to "
        "the limit."
        ),
        OF_TRAINING),
    calibration=(bool, True, (
        "With development data: fit the temperature of confidences on them after "
        "training."
    ),
        OF_TRAINING),
    shuffle=(bool, True, "Visit the sentences of each pass in another order."),
    batch_size=(int, 1,
        "Mini-batch perceptron: the best paths of so many sentences by the same weights, on all "
        "threads, then their updates in order. 1: the perceptron, on one thread.", AtLeast(1)),
    start=(str, "auto",
        "First states: split those of a plain perceptron, likelihood: those of a latent CRF, "
        "random, or auto: split where a plain perceptron gets a third of the sentences right, else "
        "likelihood.",
        OneOf("auto", "split", "likelihood", "random")),
)
# fmt: on
