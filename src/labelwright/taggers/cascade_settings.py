"""The settings of a cascade, declared once."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from labelwright.settings import AtLeast, Below, Default, Help, OneOf, RecipeOnly
from labelwright.taggers.kinds import Shares
from labelwright.taggers.layers import LayerTables

Layers = Annotated[
    Sequence[tuple[str, Any]],
    LayerTables(),
    RecipeOnly(),
    Help(
        "Pairs of a name and a tagger, the lowest first: CRF, LatentCRF, SemiCRF; with passing best also perceptrons, "
        "with best and marginal memory-based and n-gram taggers; LatticeTagger, with joint only as the lowest. "
        "Templates read the labels below by %y[row] or %y[row,NAME]; one without it gets the usual lines."
    ),
]
Passing = Annotated[
    str,
    OneOf("best", "marginal", "joint", "sample", "nbest"),
    Help(
        "What a layer passes upwards: its best labels, all likely labels by their marginal probabilities, joint (the "
        "same, then all layers learn together), labels of a sample of labellings, or of the nbest."
    ),
]
LayerShares = Annotated[
    Mapping[str, float] | None,
    Shares(),
    RecipeOnly(),
    Help("Weight of the loss of each layer in joint training, by name."),
    Default("1 each"),
]
Jackknife = Annotated[
    bool,
    Help(
        "Train upper layers on labels of sentences that the lower layers were not trained on (5 parts); above "
        "memory-based and n-gram taggers that is always so."
    ),
]
Cut = Annotated[float, AtLeast(0), Below(1), RecipeOnly(), Help("Labels less probable than this are not passed.")]
LexiconOf = Annotated[
    str | None,
    RecipeOnly(),
    Help(
        "Name of a layer: the labels of it that each word had in training become one more column, as in NN|VB, which "
        "%each reads."
    ),
]
