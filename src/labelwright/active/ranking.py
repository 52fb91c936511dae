"""Unlabelled sentences in the order in which to label them."""

from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.active.diversity import bags_of, diverse_order
from labelwright.active.uncertainty import MEASURES, check_measure
from labelwright.corpus.token_records import listed
from labelwright.decode.record import check_whole
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch


class RankedSentence(NamedTuple):
    """A sentence that is to be labelled, with what the tagger would say."""

    sentence: int  # its number among those that were given
    score: float  # how uncertain the tagger is, by the measure that was asked for
    labels: list[str]


def rank(
    model: Any, X: Any, by: str = "sequence", *, top: int | None = None, diverse: bool = False, layer: str | None = None
) -> list[RankedSentence]:
    """The sentences of X in the order in which to label them, the most uncertain first; those without tokens are left
    out.

    by : the measure of uncertainty, one of labelwright.active.MEASURES
    top : only so many
    diverse : each sentence shall also be unlike those before it (by its words): uncertainty x dissimilarity
    layer : of a cascade, the layer that is asked [the highest]

    >>> from labelwright import CRF
    >>> crf = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
    >>> [(each.sentence, each.labels) for each in rank(crf, [["he"], ["his", "sister"]])]
    [(1, ['B', 'I']), (0, ['B'])]
    """
    if top is not None:
        check_whole("top", top, 1)
    X, asked = listed(X), chosen_output(model, layer)
    check_measure(model._outputs[asked], by)
    bags = bags_of(X) if diverse else []

    def question(name: str, tagger: Any, batch: "Batch") -> list[tuple[float, list[str]]]:
        if name != asked:
            return []
        labels = [d.labels for d in batch.decode(tagger._default_decoder, probabilities=False)]
        return list(zip(MEASURES[by](tagger, batch), labels, strict=True))

    answers = model._ask_outputs(X, question)[asked]
    items = [RankedSentence(n, score, labels) for n, (score, labels) in enumerate(answers) if labels]
    if diverse:
        order = diverse_order([item.score for item in items], [bags[item.sentence] for item in items], top)
        return [items[n] for n in order]
    return sorted(items, key=lambda item: -item.score)[:top]


def chosen_output(model: Any, layer: str | None) -> str:
    """The output of a model that is asked: a layer of a cascade, by default the highest; other taggers have one."""
    if not hasattr(model, "_ask_outputs"):
        raise OptionError(f"model: expected a tagger of sentences, got {type(model).__name__}")
    names = list(model._outputs)
    if layer is None:
        return str(names[-1])
    if layer not in names or not layer:
        known = f"expected one of {', '.join(names)}" if names[0] else "this model has no layers"
        raise OptionError(f"layer: got {layer!r}, {known}")
    return layer
