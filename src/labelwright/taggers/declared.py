"""Settings of taggers in tables, of which constructors are made; those that several taggers share are declared here.

_declared = chosen("order l2", COMMON | declared(l2=(float, 1.0, "penalty l2/2 |w|^2", AtLeast(0))))
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args

from labelwright.features.template import Template
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
    NotInherited,
    Number,
    OfTheRun,
    OneOf,
    OnlyWith,
    PythonOnly,
    Signed,
)
from labelwright.taggers.kinds import (
    LabelPairs,
    NumberOrName,
    Phrases,
    SchemeName,
    StatesByLabel,
    TemplateName,
    Threads,
    VectorFile,
    Verbosity,
    WeightsByLabel,
    WordClusters,
)

Table = Mapping[str, inspect.Parameter]


def declared(**settings: tuple[Any, ...]) -> dict[str, inspect.Parameter]:
    """A table of settings: the type, the default, the sentence and the markers of each."""
    return {
        name: _parameter(name, default, Annotated[plain, *markers, Help(text)])
        for name, (plain, default, text, *markers) in settings.items()
    }


def _parameter(name: str, default: Any = REQUIRED, annotation: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


def chosen(names: str, table: Table, **defaults: Any) -> Table:
    """These settings of a table in this order, some of them with another default."""
    changed = {}
    for name, default in defaults.items():
        plain, *markers = get_args(table[name].annotation)
        kept = [marker for marker in markers if not isinstance(marker, Default)]  # which is of the other default
        changed[name] = _parameter(name, default, Annotated[plain, *kept])
    return {name: changed.get(name, table[name]) for name in names.split()}


def constructor(settings: Table) -> Any:
    """The `__init__` that takes these settings and stores them.

    >>> class Tagger:
    ...     __init__ = constructor(declared(l2=(float, 1.0, "penalty"), order=(int, 1, "Markov order")))
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


# -- settings of several taggers --------------------------------------------------------------------------------------

FEATURES, TRAINING = "Features", "Training"
OF_FEATURES, OF_TRAINING, SIGNED = Group(FEATURES), Group(TRAINING), Signed()
SHARE = Number(Bounds(Above(0), AtMost(1)))

# fmt: off
COMMON = declared(
    template=(str | Template, "default",
        "default, pos, chunking, ner, bioner, cws, letters, ... (labelwright templates), or a file.",
        TemplateName(), OF_FEATURES),
    dictionaries=(Mapping[str, Any] | None, None,
        "Phrases by name (one on each line of a file), which templates read as %d[NAME]; may be repeated.",
        Phrases(), OF_FEATURES, Flag("--dictionary")),
    clusters=(Mapping[str, Mapping[str, str]] | None, None,
        "Word clusters by name (a word and its cluster on each line); templates read %c[NAME]; may be repeated.",
        WordClusters(), OF_FEATURES, Flag("--clusters")),
    vectors=(str | Mapping[str, Any] | None, None,
        "Word vectors, a word and its numbers on each line (word2vec, GloVe); templates read %v[row].",
        VectorFile(), OF_FEATURES, Flag("--vectors", metavar="FILE")),
    order=(int, 1, "Markov order: how many labels before it a label depends on.", OneOf(1, 2), SIGNED, OF_FEATURES),
    cells=(str, "observed", "Pairs of feature and label that have a weight: those of the training data, or all.",
        OneOf("observed", "all"), SIGNED, OF_FEATURES),
    min_count=(int, 1, "Leave out features that occur less often.", AtLeast(1), SIGNED, OF_FEATURES),
    constraints=(str | None, None, "Permit only labellings that the label scheme allows.",
        SchemeName(), SIGNED, OF_FEATURES),
    forbidden_transitions=(Sequence[tuple[str, str]] | None, None,
        "Two labels of which the second never follows the first, in training and in tagging; may be repeated.",
        LabelPairs(), OF_FEATURES, Flag("--forbid")),
    required_transitions=(Sequence[tuple[str, str]] | None, None,
        "Two labels of which only the second follows the first; repeated with the same first label: one of several.",
        LabelPairs(), OF_FEATURES, Flag("--require")),
    max_iter=(int | None, None, "Limit of iterations, or of passes over the data.",
        AtLeast(1), OF_TRAINING, Flag("--iterations"), Default("until convergence")),
    n_jobs=(int | None, None, "Threads; results stay the same.",
        Threads(), OfTheRun(), OF_TRAINING, Flag("--threads"), Default("all cores")),
    random_state=(int | None, None, "Seed of all randomness.", AtLeast(0), OF_TRAINING, Flag("--seed")),
    warm_start=(bool, False, "Fit again from the weights of the last fit.", PythonOnly(), OfTheRun()),
    verbose=(int, 0, "Show progress: a bar on a terminal, lines elsewhere.", Verbosity(), PythonOnly(), OfTheRun()),
    class_weight=(str | Mapping[str, float] | None, None,
        "How much a wrong label counts where this one is right: B-PER=2,O=0.5, or balanced; 1 for all others.",
        WeightsByLabel(), SIGNED, OF_TRAINING, Flag("--class-weight", metavar="LABEL=X,...|balanced")),
)
LATENT = declared(
    n_latent=(int | Mapping[str, int], 4,
        "Latent states of each label: one number, or B-NP=3,O=2,... for all labels.",
        StatesByLabel(), SIGNED, Flag("--latent")),
    n_restarts=(int, 1, "Random starts; the best on development data is kept, or the one with the lowest loss.",
        AtLeast(1), NotInherited(), Flag("--restarts")),
)
LOG_LINEAR = COMMON | LATENT | declared(
    l1=(float, 0.0, "Penalty l1 |w|; above 0, training uses OWL-QN.", AtLeast(0), SIGNED),
    l2=(float, 1.0, "Penalty l2/2 |w|^2.", AtLeast(0), SIGNED),
    optimizer=(str, "lbfgs", "L-BFGS, or stochastic gradient descent.", OneOf("lbfgs", "sgd"), SIGNED),
    averaging=(str, "none",
        "avg: with sgd, run all passes and take the mean of the weights after each of the last third.",
        OneOf("none", "avg"), SIGNED),
    tol=(float, 1e-5,
        "Stop when the relative improvement over 10 iterations is below X (sgd: 100 X over 5 passes).", AtLeast(0)),
    entity_rate=(float | None, None,
        "With --unmarked unknown: the expected share of tokens whose label is not O, marked or not, as in 0.15.",
        Above(0), Below(1), SIGNED),
    prune_labels=(float | str, "auto",
        "Many labels: a zero-order model leaves each token as many candidates as needed to include this share of the "
        "gold labels; auto: 0.999 from 200 labels on (order 2: 64), where code is compiled.",
        NumberOrName(SHARE, "a share above 0 and up to 1", "auto", "off"), SIGNED),
    start=(str, "random",
        "random weights, or split-merge: start with one state for each label, split all in two, merge the splits that "
        "raise the likelihood least, and repeat; --latent is then the most that a label may get.",
        OneOf("random", "split-merge"), SIGNED),
    split_rounds=(int, 3,
        "split-merge: rounds at most; one without improvement (development data, or loss of lbfgs) is the last.",
        AtLeast(1), OnlyWith("start", "split-merge"), Flag(metavar="N")),
    merge_share=(float, 0.5, "split-merge: the share of the splits that a round takes back.",
        AtLeast(0), OnlyWith("start", "split-merge"), Flag(metavar="X")),
)
PERCEPTRON = COMMON | LATENT | declared(
    max_iter=(int | None, None, "Limit of passes; without --all-passes, a pass without mistakes is the last.",
        AtLeast(1), OF_TRAINING, Flag("--iterations"), Default("50")),
    averaging=(str, "avg",
        "The last weights, their mean after every sentence, or mavg: passes also begin from the mean.",
        OneOf("none", "avg", "mavg"), SIGNED, Flag(metavar="none|avg|mavg")),
    reset_every=(int, 4, "mavg: every K-th pass begins from the mean; 2 to 8, by development data.",
        AtLeast(1), SIGNED, OnlyWith("averaging", "mavg"), Flag(metavar="K")),
    update=(str, "perceptron",
        "perceptron: a whole step; passive-aggressive: as much as the margin needs; arow: the same, with smaller steps "
        "for weights that have changed often.",
        OneOf("perceptron", "passive-aggressive", "arow"), SIGNED, Flag(metavar="NAME")),
    margin=(float | str | None, None,
        "The gold labels must score above others by X for each wrong label; auto: by the size of updates.",
        NumberOrName(NOT_NEGATIVE, "a number of 0 or more", "auto"), SIGNED,
        Default("0; 1 for passive-aggressive and arow")),
    cost=(str, "augmented",
        "The margin is required for each wrong label (augmented: updates are against the labelling that violates it "
        "most; labels: against the predicted one), for the square root of their number, or once for the sentence.",
        OneOf("augmented", "labels", "root", "sentence"), OnlyWith("update", "passive-aggressive", "arow"),
        Flag(metavar="NAME")),
    aggressiveness=(float, 1.0, "Aggressiveness of passive-aggressive updates: with linear slack, the largest step.",
        Above(0), OnlyWith("update", "passive-aggressive"), Flag(metavar="C")),
    slack=(str, "linear", "Slack of passive-aggressive updates: none (PA), linear (PA-I) or quadratic (PA-II).",
        OneOf("none", "linear", "quadratic"), OnlyWith("update", "passive-aggressive"), Flag(metavar="NAME")),
    variance=(float, 1.0, "Variance of every weight at first: the larger, the larger the first steps.",
        Above(0), OnlyWith("update", "arow")),
    gamma=(float, 1.0, "Trade-off of AROW: the larger, the smaller the steps and the slower the variances fall.",
        Above(0), OnlyWith("update", "arow")),
    epsilon=(float, 0.0,
        "Stop after a pass with a mean loss per sentence below X (update perceptron: share of wrong labels).",
        AtLeast(0), OF_TRAINING),
    all_passes=(bool, False,
        "Go on after a pass without mistakes, and without improvement on development data, up to the limit.",
        OF_TRAINING),
    calibration=(bool, True, "With development data: fit the temperature of confidences on them after training.",
        OF_TRAINING),
    shuffle=(bool, True, "Visit the sentences of each pass in another order."),
    batch_size=(int, 1,
        "Mini-batch perceptron: the best paths of so many sentences by the same weights, on all threads, then their "
        "updates in order. 1: the perceptron, on one thread.", AtLeast(1)),
    start=(str, "auto",
        "First states: split those of a plain perceptron, likelihood: those of a latent CRF, random, or auto: split "
        "where a plain perceptron gets a third of the sentences right, else likelihood.",
        OneOf("auto", "split", "likelihood", "random")),
)
# fmt: on
