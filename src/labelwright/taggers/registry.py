"""The taggers by name.  Nothing is imported until it is asked for.

The registry serves `labelwright.load`, `--model`, recipes, `warmup` and the contract test.  A third party's tagger
joins by an entry point of the group `labelwright.taggers` (its name, and "module:Class"), or by `register`.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from labelwright.errors import OptionError

GROUP = "labelwright.taggers"

# Name on the command line and in recipes -> where it. class is.
TAGGERS = {
    "crf": "labelwright.taggers.crf:CRF",
    "latent-crf": "labelwright.taggers.latent_crf:LatentCRF",
    "perceptron": "labelwright.taggers.perceptron:Perceptron",
    "latent-perceptron": "labelwright.taggers.perceptron:LatentPerceptron",
    "semi-crf": "labelwright.taggers.semi_crf:SemiCRF",
    "memory": "labelwright.taggers.memory:MemoryTagger",
    "cascade": "labelwright.taggers.cascade:Cascade",
    "ngram": "labelwright.taggers.ngram:NgramTagger",
}

# Models that a file may hold but that label no sequences.
CLASSIFIERS = {"memory-based": "labelwright.taggers.memory:MemoryBased"}


@cache
def _installed() -> dict[str, str]:
    """The taggers of other packages."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


def homes() -> dict[str, str]:
    """Every name wit. its "module:Class": our own taggers first, then those of others."""
    return TAGGERS | {name: home for name, home in _installed().items() if name not in TAGGERS} | CLASSIFIERS


def tagger_names() -> list[str]:
    """The names of all taggers."""
    return [name for name in homes() if name not in CLASSIFIERS]


def register(name: str, home: str) -> None:
    """Add a tagger for this process; `home` is "module:Class"."""
    TAGGERS[name] = home


def model_class(name: str) -> type[Any]:
    """The class of this name."""
    known = homes()
    if name not in known:
        raise OptionError(f"model: expected one of {', '.join(tagger_names())}, got {name!r}")
    module, _, qualified = known[name].partition(":")
    kind: type[Any] = getattr(import_module(module), qualified)
    return kind


def class_names() -> dict[str, str]:
    """Class name, as it stands in the header of a model file -> name of the tagger."""
    return {home.partition(":")[2]: name for name, home in homes().items()}


def name_of(kind: type[Any]) -> str:
    """The name under which a class is registered; it. class name where it is not."""
    return class_names().get(kind.__name__, kind.__name__)
