"""Settings that several taggers share, each declared here once; constructors give them a place and a default."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from labelwright.features.template import Template as Parsed
from labelwright.settings import (
    Above,
    AtLeast,
    Below,
    Flag,
    Group,
    Help,
    NotInherited,
    OfTheRun,
    OneOf,
    OnlyWith,
    PythonOnly,
    Signed,
    option,
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
    Help("default, pos, chunking, ner, bioner, cws, letters, ... (labelwright templates), or a file."),
    option(TemplateName(), Group(FEATURES)),
]
Dictionaries = Annotated[
    Mapping[str, Any] | None,
    Help("Phrases by name (one on each line of a file), which templates read as %d[NAME]; may be repeated."),
    option(Phrases(), Group(FEATURES), flag="--dictionary"),
]
Clusters = Annotated[
    Mapping[str, Mapping[str, str]] | None,
    Help("Word clusters by name (a word and its cluster on each line); templates read %c[NAME]; may be repeated."),
    option(WordClusters(), Group(FEATURES), flag="--clusters"),
]
Vectors = Annotated[
    str | Mapping[str, Any] | None,
    Help("Word vectors, a word and its numbers on each line (word2vec, GloVe); templates read %v[row]."),
    option(VectorFile(), Group(FEATURES), flag="--vectors", metavar="FILE"),
]
Order = Annotated[
    int, OneOf(1, 2), Signed(), Group(FEATURES), Help("Markov order: how many labels before it a label depends on.")
]
Cells = Annotated[
    str,
    Help("Pairs of feature and label that have a weight: those of the training data, or all."),
    option(OneOf("observed", "all"), Signed(), Group(FEATURES)),
]
MinCount = Annotated[int, AtLeast(1), Signed(), Group(FEATURES), Help("Leave out features that occur less often.")]
Constraints = Annotated[
    str | None,
    Help("Permit only labellings that the label scheme allows."),
    option(SchemeName(), Signed(), Group(FEATURES)),
]

ForbiddenTransitions = Annotated[
    Sequence[tuple[str, str]] | None,
    Help("Two labels of which the second never follows the first, in training and in tagging; may be repeated."),
    option(LabelPairs(), Group(FEATURES), flag="--forbid"),
]
RequiredTransitions = Annotated[
    Sequence[tuple[str, str]] | None,
    Help("Two labels of which only the second follows the first; repeated with the same first label: one of several."),
    option(LabelPairs(), Group(FEATURES), flag="--require"),
]

# -- training ---------------------------------------------------------------------------------------------------------

MaxIter = Annotated[
    int | None,
    Help("Limit of iterations, or of passes over the data."),
    option(AtLeast(1), Group(TRAINING), flag="--iterations", default="until convergence"),
]
MaxPasses = Annotated[
    int | None,
    Help("Limit of passes; without --all-passes, a pass without mistakes is the last."),
    option(AtLeast(1), Group(TRAINING), flag="--iterations", default="50"),
]
Jobs = Annotated[
    int | None,
    Help("Threads; results stay the same."),
    option(Threads(), OfTheRun(), Group(TRAINING), flag="--threads", default="all cores"),
]
Seed = Annotated[int | None, AtLeast(0), Group(TRAINING), Flag("--seed"), Help("Seed of all randomness.")]
WarmStart = Annotated[bool, PythonOnly(), OfTheRun(), Help("Fit again from the weights of the last fit.")]
Verbose = Annotated[
    int, Verbosity(), PythonOnly(), OfTheRun(), Help("Show progress: a bar on a terminal, lines elsewhere.")
]

ClassWeight = Annotated[
    str | Mapping[str, float] | None,
    Help("How much a wrong label counts where this one is right: B-PER=2,O=0.5, or balanced; 1 for all others."),
    option(WeightsByLabel(), Signed(), Group(TRAINING), flag="--class-weight", metavar="LABEL=X,...|balanced"),
]

# -- log-linear models ------------------------------------------------------------------------------------------------

L1 = Annotated[float, AtLeast(0), Signed(), Help("Penalty l1 |w|; above 0, training uses OWL-QN.")]
L2 = Annotated[float, AtLeast(0), Signed(), Help("Penalty l2/2 |w|^2.")]
Optimizer = Annotated[str, OneOf("lbfgs", "sgd"), Signed(), Help("L-BFGS, or stochastic gradient descent.")]
SgdAveraging = Annotated[
    str,
    Help("avg: with sgd, run all passes and take the mean of the weights after each of the last third."),
    option(OneOf("none", "avg"), Signed()),
]
Tol = Annotated[
    float,
    AtLeast(0),
    Help("Stop when the relative improvement over 10 iterations is below X (sgd: 100 X over 5 passes)."),
]

EntityRate = Annotated[
    float | None,
    Help("With --unmarked unknown: the expected share of tokens whose label is not O, marked or not, as in 0.15."),
    option(Above(0), Below(1), Signed()),
]
PruneLabels = Annotated[
    float | str,
    Help(
        "Many labels: a zero-order model leaves each token as many candidates as needed to include this share of the "
        "gold labels; auto: 0.999 from 200 labels on (order 2: 64), where code is compiled."
    ),
    option(ShareOrName("auto", "off"), Signed()),
]

# -- latent states ----------------------------------------------------------------------------------------------------

Latent = Annotated[
    int | Mapping[str, int],
    Help("Latent states of each label: one number, or B-NP=3,O=2,... for all labels."),
    option(StatesByLabel(), Signed(), flag="--latent"),
]
LatentStart = Annotated[
    str,
    Help(
        "random weights, or split-merge: start with one state for each label, split all in two, merge the splits that "
        "raise the likelihood least, and repeat; --latent is then the most that a label may get."
    ),
    option(OneOf("random", "split-merge"), Signed()),
]
SplitRounds = Annotated[
    int,
    Help("split-merge: rounds at most; one without improvement (development data, or loss of lbfgs) is the last."),
    option(AtLeast(1), OnlyWith("start", "split-merge"), metavar="N"),
]
MergeShare = Annotated[
    float,
    Help("split-merge: the share of the splits that a round takes back."),
    option(AtLeast(0), OnlyWith("start", "split-merge"), metavar="X"),
]
Restarts = Annotated[
    int,
    Help("Random starts; the best on development data is kept, or the one with the lowest loss."),
    option(AtLeast(1), NotInherited(), flag="--restarts"),
]

# -- perceptrons ------------------------------------------------------------------------------------------------------

Averaging = Annotated[
    str,
    Help("The last weights, their mean after every sentence, or mavg: passes also begin from the mean."),
    option(OneOf("none", "avg", "mavg"), Signed(), metavar="none|avg|mavg"),
]
ResetEvery = Annotated[
    int,
    Help("mavg: every K-th pass begins from the mean; 2 to 8, by development data."),
    option(AtLeast(1), Signed(), OnlyWith("averaging", "mavg"), metavar="K"),
]
Update = Annotated[
    str,
    Help(
        "perceptron: a whole step; passive-aggressive: as much as the margin needs; arow: the same, with smaller steps "
        "for weights that have changed often."
    ),
    option(OneOf("perceptron", "passive-aggressive", "arow"), Signed(), metavar="NAME"),
]
Margin = Annotated[
    float | str | None,
    Help("The gold labels must score above others by X for each wrong label; auto: by the size of updates."),
    option(NumberOrAuto(), Signed(), default="0; 1 for passive-aggressive and arow"),
]
AutoMargin = Annotated[
    float | str | None,
    Help("The gold labels must score above others by X for each wrong label; auto: by the size of updates."),
    option(NumberOrAuto(), Signed()),
]
Cost = Annotated[
    str,
    Help(
        "The margin is required for each wrong label (augmented: updates are against the labelling that violates it "
        "most; labels: against the predicted one), for the square root of their number, or once for the sentence."
    ),
    option(
        OneOf("augmented", "labels", "root", "sentence"),
        OnlyWith("update", "passive-aggressive", "arow"),
        metavar="NAME",
    ),
]
Aggressiveness = Annotated[
    float,
    Help("Aggressiveness of passive-aggressive updates: with linear slack, the largest step."),
    option(Above(0), OnlyWith("update", "passive-aggressive"), metavar="C"),
]
Slack = Annotated[
    str,
    Help("Slack of passive-aggressive updates: none (PA), linear (PA-I) or quadratic (PA-II)."),
    option(OneOf("none", "linear", "quadratic"), OnlyWith("update", "passive-aggressive"), metavar="NAME"),
]
Variance = Annotated[
    float,
    Help("Variance of every weight at first: the larger, the larger the first steps."),
    option(Above(0), OnlyWith("update", "arow")),
]
Gamma = Annotated[
    float,
    Help("Trade-off of AROW: the larger, the smaller the steps and the slower the variances fall."),
    option(Above(0), OnlyWith("update", "arow")),
]
Epsilon = Annotated[
    float,
    Help("Stop after a pass with a mean loss per sentence below X (update perceptron: share of wrong labels)."),
    option(AtLeast(0), Group(TRAINING)),
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
