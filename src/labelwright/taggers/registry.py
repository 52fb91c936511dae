"""The taggers by name.  Nothing is imported until it is asked for.

The registry serves `labelwright.load`, `--model`, recipes and the contract test.  A third
party's tagger joins by an entry point of the group `labelwright.taggers` (its name, and
"module:Class"), or by `register`.
"""

from functools import cache
from importlib import import_module
from typing import Any

from labelwright.errors import LabelwrightError, ModelFileError, OptionError, unforeseen

GROUP = "labelwright.taggers"

# Name on the command line and in recipes -> where its class is.
TAGGERS = {
    "crf": "labelwright.taggers.crf:CRF",
    "latent-crf": "labelwright.taggers.crf:LatentCRF",
    "perceptron": "labelwright.taggers.perceptron:Perceptron",
    "latent-perceptron": "labelwright.taggers.perceptron:LatentPerceptron",
    "semi-crf": "labelwright.taggers.semi_crf:SemiCRF",
    "memory": "labelwright.taggers.memory:MemoryTagger",
    "cascade": "labelwright.taggers.cascade:Cascade",
    "ngram": "labelwright.taggers.ngram:NgramTagger",
    "lattice": "labelwright.taggers.lattice_tagger:LatticeTagger",
}

# Taggers that no command trains: they hold a classifier, or a function, that no model file can
# store.
PYTHON_ONLY = ("ngram", "lattice")

# First bytes of models of other programs -> what reads them, given the bytes and a name for errors.
FOREIGN = {
    b"lCRF": "labelwright.interchange.formats:load",
    b"#mdl#": "labelwright.interchange.wapiti:read",
    b"version: ": "labelwright.interchange.crfpp:read",
}

# Models that a file may hold but that label no sequences of tokens: rows of a table, or lattices.
CLASSIFIERS = {
    "memory-based": "labelwright.taggers.memory:MemoryBased",
    "lattice-crf": "labelwright.taggers.lattice_crf:LatticeCRF",
}


@cache
def _installed() -> dict[str, str]:
    """The taggers of other packages.  Looking for them takes a tenth of the time to the first
    answer."""
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=GROUP)}


def homes() -> dict[str, str]:
    """Every name with its "module:Class": our own taggers first, then those of others."""
    return (
        TAGGERS
        | {name: home for name, home in _installed().items() if name not in TAGGERS}
        | CLASSIFIERS
    )


def tagger_names() -> list[str]:
    """The names of all taggers."""
    return [name for name in homes() if name not in CLASSIFIERS]


def command_line_names() -> list[str]:
    """The names of the taggers that `labelwright train` can train."""
    return [name for name in tagger_names() if name not in PYTHON_ONLY]


def register(name: str, home: str) -> None:
    """Add a tagger for this process; `home` is "module:Class"."""
    TAGGERS[name] = home


def model_class(name: str) -> type[Any]:
    """The class of this name."""
    known = homes()
    if name not in known:
        raise OptionError(f"model: expected one of {', '.join(tagger_names())}, got {name!r}")
    kind: type[Any] = _imported(known[name])
    return kind


def _imported(home: str) -> Any:
    """What "module:name" names."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def class_names() -> dict[str, str]:
    """Class name, as it stands in the header of a model file -> name of the tagger; our own taggers
    go first."""
    return {home.partition(":")[2]: name for name, home in reversed(homes().items())}


def class_named(kind: Any) -> type[Any]:
    """The class that the header of a model file names; other packages are looked for where it is
    none of ours."""
    for others in (False, True):
        known = homes() if others else TAGGERS | CLASSIFIERS
        home = next((home for home in known.values() if home.partition(":")[2] == kind), None)
        if home is not None:
            found: type[Any] = _imported(home)
            return found
    raise ModelFileError(f"expected a model, got a {kind!r:.40}")


def name_of(kind: type[Any]) -> str:
    """The name under which a class, or the nearest one that it extends, is registered; else its
    class name."""
    names = class_names()
    return next(
        (names[each.__name__] for each in kind.__mro__ if each.__name__ in names), kind.__name__
    )


def load(path: Any) -> Any:
    """Read a model that its `save` wrote, or one of CRFsuite.  Nothing in the file is executed or
    trusted: whatever is wrong with it is one ModelFileError.

    path : or hf://owner/name[@revision] on the Hugging Face Hub, the bytes of a file, or a binary
        file object"""
    from labelwright import modelfile  # and NumPy, which the names of taggers do not need

    content, name = modelfile.content_of(path), modelfile.name_of(path)
    # files of labelwright begin with a number
    foreign = () if content[8:9] == b"{" else FOREIGN.items()
    reader = next((home for magic, home in foreign if content.startswith(magic)), None)
    try:
        if reader is not None:
            return _imported(reader)(content, name)
        tensors, header = modelfile.parse(content, name)
        if header.get("kind") == "checkpoint":
            raise ModelFileError(
                f"{name}: expected a model, got a checkpoint; train again with --resume to go on "
                "from it"
            )
        try:
            return class_named(header.get("kind")).unpack(tensors, header)
        except LabelwrightError as error:
            raise ModelFileError(f"{name}: {error}; copy or train it again") from error
    except LabelwrightError:
        raise
    except Exception as error:  # whatever a made file can cause that no check has foreseen
        raise unforeseen(name, error, "copy or train it again") from error
