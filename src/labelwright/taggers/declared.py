"""Settings that several taggers share, each declared here once; constructors give them a place and a default."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from labelwright.features.template import Template as Parsed
from labelwright.settings import (
    Above,
    AtLeast,
    Below,
    Default,
    Flag,
    Group,
    Help,
    NotInherited,
    OfTheRun,
    OneOf,
    OnlyWith,
    PythonOnly,
    Signed,
)
from labelwright.taggers.kinds import (
    LabelPairs,
    NumberOrAuto,
    Phrases,
    SchemeName,
    ShareOrName,
    StatesByLabel,
    TemplateName,
    Threads,
    VectorFile,
    Verbosity,
    WeightsByLabel,
    WordClusters,
)

FEATURES, TRAINING = "Features", "Training"

# -- features and structure -------------------------------------------------------------------------------------------

Template = Annotated[
    str | Parsed,
    TemplateName(),
    Group(FEATURES),
    Help("default, pos, chunking, ner, bioner, cws, letters, ... (labelwright templates), or a file."),
]
Dictionaries = Annotated[
    Mapping[str, Any] | None,
    Phrases(),
    Group(FEATURES),
    Flag("--dictionary"),
    Help("Phrases by name (one on each line of a file), which templates read as %d[NAME]; may be repeated."),
]
Clusters = Annotated[
    Mapping[str, Mapping[str, str]] | None,
    WordClusters(),
    Group(FEATURES),
    Flag("--clusters"),
    Help("Word clusters by name (a word and its cluster on each line); templates read %c[NAME]; may be repeated."),
]
Vectors = Annotated[
    str | Mapping[str, Any] | None,
    VectorFile(),
    Group(FEATURES),
    Flag("--vectors", metavar="FILE"),
    Help("Word vectors, a word and its numbers on each line (word2vec, GloVe); templates read %v[row]."),
]
Order = Annotated[
    int, OneOf(1, 2), Signed(), Group(FEATURES), Help("Markov order: how many labels before it a label depends on.")
]
Cells = Annotated[
    str,
    OneOf("observed", "all"),
    Signed(),
    Group(FEATURES),
    Help("Pairs of feature and label that have a weight: those of the training data, or all."),
]
MinCount = Annotated[int, AtLeast(1), Signed(), Group(FEATURES), Help("Leave out features that occur less often.")]
Constraints = Annotated[
    str | None,
    SchemeName(),
    Signed(),
    Group(FEATURES),
    Help("Permit only labellings that the label scheme allows."),
]

ForbiddenTransitions = Annotated[
    Sequence[tuple[str, str]] | None,
    LabelPairs(),
    Group(FEATURES),
    Flag("--forbid"),
    Help("Two labels of which the second never follows the first, in training and in tagging; may be repeated."),
]
RequiredTransitions = Annotated[
    Sequence[tuple[str, str]] | None,
    LabelPairs(),
    Group(FEATURES),
    Flag("--require"),
    Help("Two labels of which only the second follows the first; repeated with the same first label: one of several."),
]

# -- training ---------------------------------------------------------------------------------------------------------

MaxIter = Annotated[
    int | None,
    AtLeast(1),
    Group(TRAINING),
    Flag("--iterations"),
    Help("Limit of iterations, or of passes over the data."),
    Default("until convergence"),
]
MaxPasses = Annotated[
    int | None,
    AtLeast(1),
    Group(TRAINING),
    Flag("--iterations"),
    Help("Limit of passes; without --all-passes, a pass without mistakes is the last."),
    Default("50"),
]
Jobs = Annotated[
    int | None,
    Threads(),
    OfTheRun(),
    Group(TRAINING),
    Flag("--threads"),
    Help("Threads; results stay the same."),
    Default("all cores"),
]
Seed = Annotated[int | None, AtLeast(0), Group(TRAINING), Flag("--seed"), Help("Seed of all randomness.")]
WarmStart = Annotated[bool, PythonOnly(), OfTheRun(), Help("Fit again from the weights of the last fit.")]
Verbose = Annotated[
    int, Verbosity(), PythonOnly(), OfTheRun(), Help("Show progress: a bar on a terminal, lines elsewhere.")
]

ClassWeight = Annotated[
    str | Mapping[str, float] | None,
    WeightsByLabel(),
    Signed(),
    Group(TRAINING),
    Flag("--class-weight", metavar="LABEL=X,...|balanced"),
    Help("How much a wrong label counts where this one is right: B-PER=2,O=0.5, or balanced; 1 for all others."),
]

# -- log-linear models ------------------------------------------------------------------------------------------------

L1 = Annotated[float, AtLeast(0), Signed(), Help("Penalty l1 |w|; above 0, training uses OWL-QN.")]
L2 = Annotated[float, AtLeast(0), Signed(), Help("Penalty l2/2 |w|^2.")]
Optimizer = Annotated[str, OneOf("lbfgs", "sgd"), Signed(), Help("L-BFGS, or stochastic gradient descent.")]
SgdAveraging = Annotated[
    str,
    OneOf("none", "avg"),
    Signed(),
    Help("avg: with sgd, run all passes and take the mean of the weights after each of the last third."),
]
Tol = Annotated[
    float,
    AtLeast(0),
    Help("Stop when the relative improvement over 10 iterations is below X (sgd: 100 X over 5 passes)."),
]

EntityRate = Annotated[
    float | None,
    Above(0),
    Below(1),
    Signed(),
    Help("With --unmarked unknown: the expected share of tokens whose label is not O, marked or not, as in 0.15."),
]
PruneLabels = Annotated[
    float | str,
    ShareOrName("auto", "off"),
    Signed(),
    Help(
        "Many labels: a zero-order model leaves each token as many candidates as needed to include this share of the "
        "gold labels; auto: 0.999 from 200 labels on (order 2: 64), where code is compiled."
    ),
]

# -- latent states ----------------------------------------------------------------------------------------------------

Latent = Annotated[
    int | Mapping[str, int],
    StatesByLabel(),
    Signed(),
    Flag("--latent"),
    Help("Latent states of each label: one number, or B-NP=3,O=2,... for all labels."),
]
LatentStart = Annotated[
    str,
    OneOf("random", "split-merge"),
    Signed(),
    Help(
        "random weights, or split-merge: start with one state for each label, split all in two, merge the splits that "
        "raise the likelihood least, and repeat; --latent is then the most that a label may get."
    ),
]
SplitRounds = Annotated[
    int,
    AtLeast(1),
    OnlyWith("start", "split-merge"),
    Flag(metavar="N"),
    Help("split-merge: rounds at most; one without improvement (development data, or loss of lbfgs) is the last."),
]
MergeShare = Annotated[
    float,
    AtLeast(0),
    OnlyWith("start", "split-merge"),
    Flag(metavar="X"),
    Help("split-merge: the share of the splits that a round takes back."),
]
Restarts = Annotated[
    int,
    AtLeast(1),
    NotInherited(),
    Flag("--restarts"),
    Help("Random starts; the best on development data is kept, or the one with the lowest loss."),
]

# -- perceptrons ------------------------------------------------------------------------------------------------------

Averaging = Annotated[
    str,
    OneOf("none", "avg", "mavg"),
    Signed(),
    Flag(metavar="none|avg|mavg"),
    Help("The last weights, their mean after every sentence, or mavg: passes also begin from the mean."),
]
ResetEvery = Annotated[
    int,
    AtLeast(1),
    Signed(),
    OnlyWith("averaging", "mavg"),
    Flag(metavar="K"),
    Help("mavg: every K-th pass begins from the mean; 2 to 8, by development data."),
]
Update = Annotated[
    str,
    OneOf("perceptron", "passive-aggressive", "arow"),
    Signed(),
    Flag(metavar="NAME"),
    Help(
        "perceptron: a whole step; passive-aggressive: as much as the margin needs; arow: the same, with smaller steps "
        "for weights that have changed often."
    ),
]
Margin = Annotated[
    float | str | None,
    NumberOrAuto(),
    Signed(),
    Help("The gold labels must score above others by X for each wrong label; auto: by the size of updates."),
    Default("0; 1 for passive-aggressive and arow"),
]
AutoMargin = Annotated[
    float | str | None,
    NumberOrAuto(),
    Signed(),
    Help("The gold labels must score above others by X for each wrong label; auto: by the size of updates."),
]
Cost = Annotated[
    str,
    OneOf("augmented", "labels", "root", "sentence"),
    OnlyWith("update", "passive-aggressive", "arow"),
    Flag(metavar="NAME"),
    Help(
        "The margin is required for each wrong label (augmented: updates are against the labelling that violates it "
        "most; labels: against the predicted one), for the square root of their number, or once for the sentence."
    ),
]
Aggressiveness = Annotated[
    float,
    Above(0),
    OnlyWith("update", "passive-aggressive"),
    Flag(metavar="C"),
    Help("Aggressiveness of passive-aggressive updates: with linear slack, the largest step."),
]
Slack = Annotated[
    str,
    OneOf("none", "linear", "quadratic"),
    OnlyWith("update", "passive-aggressive"),
    Flag(metavar="NAME"),
    Help("Slack of passive-aggressive updates: none (PA), linear (PA-I) or quadratic (PA-II)."),
]
Variance = Annotated[
    float,
    Above(0),
    OnlyWith("update", "arow"),
    Help("Variance of every weight at first: the larger, the larger the first steps."),
]
Gamma = Annotated[
    float,
    Above(0),
    OnlyWith("update", "arow"),
    Help("Trade-off of AROW: the larger, the smaller the steps and the slower the variances fall."),
]
Epsilon = Annotated[
    float,
    AtLeast(0),
    Group(TRAINING),
    Help("Stop after a pass with a mean loss per sentence below X (update perceptron: share of wrong labels)."),
]
AllPasses = Annotated[
    bool,
    Group(TRAINING),
    Help("Go on after a pass without mistakes, and without improvement on development data, up to the limit."),
]
Calibration = Annotated[
    bool,
    Group(TRAINING),
    Help("With development data: fit the temperature of confidences on them after training."),
]
Shuffle = Annotated[bool, Help("Visit the sentences of each pass in another order.")]
BatchSize = Annotated[
    int,
    AtLeast(1),
    Help(
        "Mini-batch perceptron: the best paths of so many sentences by the same weights, on all threads, then their "
        "updates in order. 1: the perceptron, on one thread."
    ),
]
Start = Annotated[
    str,
    OneOf("auto", "split", "likelihood", "random"),
    Help(
        "First states: split those of a plain perceptron, likelihood: those of a latent CRF, random, or auto: split "
        "where a plain perceptron gets a third of the sentences right, else likelihood."
    ),
]
