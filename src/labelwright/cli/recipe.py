"""From options and recipes to an untrained model: which words there are, of which type, and what takes them."""

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from labelwright.cli.common import FLAGS
from labelwright.errors import OptionError

# The models there are: name on the command line -> name in labelwright.
MODELS = {
    "crf": "CRF",
    "latent-crf": "LatentCRF",
    "perceptron": "Perceptron",
    "latent-perceptron": "LatentPerceptron",
    "semi-crf": "SemiCRF",
    "memory": "MemoryTagger",
    "cascade": "Cascade",
}

# From which models each can start.  Weights of perceptrons and of log-linear models are of different sizes; a state can
# be split, but several made one would lose what they know, which only a CRF, with its one optimum, finds again.
STARTS = {
    "crf": ("crf", "latent-crf"),
    "latent-crf": ("crf", "latent-crf"),
    "perceptron": ("perceptron",),
    "latent-perceptron": ("perceptron", "latent-perceptron"),
    "semi-crf": (),
    "memory": (),
    "cascade": (),
}

# Words that mean something only where another word has one of these values.
ONLY_WITH: dict[str, tuple[str, tuple[str, ...]]] = {
    "reset_every": ("averaging", ("mavg",)),
    "aggressiveness": ("update", ("passive-aggressive",)),
    "decay": ("votes", ("exponential-decay",)),
    "mvdm_threshold": ("metric", ("mvdm", "jeffrey", "jensen-shannon")),
    "k": ("algorithm", ("ib1",)),
    "metric": ("algorithm", ("ib1",)),
    "votes": ("algorithm", ("ib1",)),
}

# Words that a model has no use for, but that do no harm.
HARMLESS = {"memory": ("random_state",)}

# What a recipe may say about the data and the run; everything else are constructor words.
DATA_WORDS: dict[str, Any] = {"columns": str, "label": str, "scheme": str, "dev": str}
RUN_WORDS: dict[str, Any] = {"model": str, "start_from": str, "checkpoint_every": float, "search": bool}
MODEL_WORDS: dict[str, Any] = {
    "template": str,
    "order": int,
    "cells": str,
    "min_count": int,
    "l1": float,
    "l2": float,
    "optimizer": str,
    "averaging": str,
    "reset_every": int,
    "update": str,
    "margin": float | str,
    "aggressiveness": float,
    "shuffle": bool,
    "max_iter": int,
    "tol": float,
    "constraints": str,
    "n_jobs": int,
    "random_state": int,
    "n_latent": int | dict,
    "start": str,
    "n_restarts": int,
    "max_length": int,
    "dictionaries": dict,
}
CASCADE_WORDS: dict[str, Any] = {
    "layers": list,
    "passing": str,
    "shares": dict,
    "jackknife": bool,
    "cut": float,
    "lexicon": str,
}
MEMORY_WORDS: dict[str, Any] = {
    "k": int,
    "metric": str | list,
    "mvdm_threshold": int,
    "weights": str | list,
    "votes": str,
    "decay": float | list,
    "algorithm": str,
    "ngram": int,
    "inference": str,
    "weighting": str,
    "lengths": list,
}
WORDS = MODEL_WORDS | CASCADE_WORDS | MEMORY_WORDS | DATA_WORDS | RUN_WORDS
RECIPE_WORDS = ("dictionaries", "layers", "shares", "cut", "lexicon", "lengths")  # which no option says
NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
    int | dict: "a whole number or a table of one for each label",
    float | str: "a number or 'auto'",
    float | list: "a number, or two in a list",
    str | list: "a name, or a list with one value for each column",
}
PLAINER = {"layers": "tables, [[layers]]", "lengths": "a list of whole numbers"}  # than the name of their type


class Run(NamedTuple):
    """What is asked of a training run beside the words of the model."""

    recipe: str | None
    given: tuple[str, ...]  # words that come from options, not from the recipe
    resume: bool
    plot: str | None
    quiet: bool
    verbose: bool


def untrained(words: dict[str, Any], recipe: str | None) -> tuple[Any, Any]:
    """A new model with these words, and the one to start from, whose words it takes where none are given."""
    start = words.get("start_from")
    name = words.get("model", "crf")
    if name not in MODELS:
        raise OptionError(f"--model: expected one of {', '.join(MODELS)}, got {name!r}")
    if words.get("search"):
        raise OptionError(f"--search: looks for settings of memory-based models; not for --model {name}")
    from labelwright.taggers import files

    old = None if start is None else files.load(start)
    if old is not None:
        name = _name_with_start(words, old)
    kept = {} if old is None else _settings(old, files.MODELS[MODELS[name]])
    return configured(name, words, recipe, kept), old


def configured(
    name: str, words: dict[str, Any], recipe: str | None, kept: dict[str, Any] | None = None, open: Container[str] = ()
) -> Any:
    """A new model with these words and, where they say nothing, with those that are kept; `open` are still to be
    chosen."""
    from labelwright.taggers import files

    kind = files.MODELS[MODELS[name]]
    own = [word for word in MODEL_WORDS | CASCADE_WORDS | MEMORY_WORDS if word not in HARMLESS.get(name, ())]
    parameters = {word: words[word] for word in own if word in words}
    taken = kind._parameter_names()
    for word in parameters:
        if word not in taken:
            takers = [other for other in MODELS if word in files.MODELS[MODELS[other]]._parameter_names()]
            raise OptionError(f"{flag(word)}: not for --model {name}, only for {' or '.join(takers)}")
    if "dictionaries" in parameters:
        assert recipe is not None
        parameters["dictionaries"] = read_dictionaries(recipe, recipe, parameters["dictionaries"])
    model = kind(**(kept or {}) | parameters)
    for word, other, values in without_use(model, parameters):
        if other not in open:
            wanted = f"{flag(other)} {' or '.join(values)}"
            raise OptionError(f"{flag(word)}: only with {wanted}, got {getattr(model, other)!r}")
    return model


def without_use(model: Any, words: Iterable[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Which of these words mean nothing to a model: each with the word that should have one of these values."""
    for word, (other, values) in ONLY_WITH.items():
        if word in words:
            found = getattr(model, other)
            if not set([found] if isinstance(found, str) else found) & set(values):
                yield word, other, values


def dictionary_files(recipe: str | None, words: dict[str, Any]) -> list[str]:
    """The files among the dictionaries of a recipe, or of one of its layers."""
    phrases = words.get("dictionaries", {})
    return [str(Path(recipe or "").parent / value) for value in phrases.values() if isinstance(value, str)]


def read_dictionaries(recipe: str, place: str, given: dict[str, Any]) -> dict[str, list[str]]:
    """The phrases of each dictionary: a list, or a file with one on a line, named from the recipe's folder on."""
    found: dict[str, list[str]] = {}
    for name, phrases in given.items():
        if isinstance(phrases, str):
            path = Path(recipe).parent / phrases
            try:
                lines = path.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "not UTF-8"
                raise OptionError(f"{place}: dictionaries: {name}: cannot read {path}: {reason}") from None
            phrases = [line.strip() for line in lines if line.strip()]
        if not isinstance(phrases, list) or not all(isinstance(phrase, str) and phrase.strip() for phrase in phrases):
            raise OptionError(
                f"{place}: dictionaries: {name}: expected a file, or a list of phrases, got {phrases!r:.60}"
            )
        found[name] = phrases
    return found


def _name_with_start(words: dict[str, Any], old: Any) -> str:
    """What to train from another model: what it is, unless something else was asked for that can start from it."""
    there = next((name for name, kind in MODELS.items() if kind == type(old).__name__), type(old).__name__)
    name: str = words.get("model", there)
    if not STARTS.get(there):
        raise OptionError(
            f"--start-from: {words['start_from']} is a {there}, from which no model can start; leave it out"
        )
    if not STARTS[name]:
        raise OptionError(f"--start-from: a {name} starts from nothing; leave it out")
    if there not in STARTS[name]:
        from labelwright.taggers.files import MODELS as KINDS

        alike = KINDS[MODELS[name]].probabilistic == old.probabilistic
        why = "its labels have several states each" if alike else "its weights are of another size"
        raise OptionError(
            f"--start-from: {words['start_from']} is a {there}: {why}; --model {name} can start from a "
            f"{' or '.join(STARTS[name])}"
        )
    return name


def _settings(old: Any, kind: type[Any]) -> dict[str, Any]:
    """The settings of a model that another kind takes over; what it left at its default is the new kind's default."""
    defaults = type(old)().get_params()
    taken = kind._parameter_names()
    return {
        word: value
        for word, value in old.get_params(deep=False).items()
        if word in taken and word != "n_restarts" and value != defaults[word]
    }


def flag(word: str) -> str:
    return word if word in RECIPE_WORDS else FLAGS.get(word, f"--{word.replace('_', '-')}")


def place_of(word: str, run: Run) -> str:
    """Where a word was said."""
    return flag(word) if word in run.given else f"{run.recipe}: {word}"


def read_recipe(path: str) -> dict[str, Any]:
    """The words of a recipe, each of the right type."""
    import tomllib

    try:
        with open(path, "rb") as file:
            words = tomllib.load(file)
    except OSError as error:
        raise OptionError(f"{path}: cannot read this recipe: {(error.strerror or str(error)).lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: not TOML: {error}") from None
    if isinstance(words.get("columns"), list):
        words["columns"] = ",".join(map(str, words["columns"]))
    for name, value in words.items():
        if name not in WORDS:
            raise OptionError(f"{path}: no word {name!r}, expected some of {', '.join(WORDS)}")
        check_word(path, name, value)
    return words


def check_word(place: str, name: str, value: Any) -> None:
    """Refuse a value of another type than the word has."""
    wanted = WORDS[name]
    fits = isinstance(value, wanted | int if wanted in (float, float | str, float | list) else wanted)
    if isinstance(value, bool) != (wanted is bool) or not fits:
        raise OptionError(f"{place}: {name}: expected {PLAINER.get(name, NAMES[wanted])}, got {value!r}")


def margin_number(text: str) -> float | str:
    """A number, or "auto"."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--margin: expected a number or auto, got {text!r}") from None


def latent_numbers(text: str) -> int | dict[str, int]:
    """One number of latent states, or one for each label.

    >>> latent_numbers("4"), latent_numbers("B-NP=3,O=2")
    (4, {'B-NP': 3, 'O': 2})
    """
    import re

    try:
        return int(text)
    except ValueError:
        pass
    found = re.findall(r"(.+?)=(-?\d+)(?:,|$)", text)  # a label may hold commas
    if not found or ",".join(f"{label}={number}" for label, number in found) != text.rstrip(","):
        raise OptionError(f"--latent: expected a number, or numbers by label as in B-NP=3,O=2, got {text!r}")
    labels = [label for label, _ in found]
    for label in labels:
        if labels.count(label) > 1:
            raise OptionError(f"--latent: two numbers for the label {label!r}, expected one")
    return {label: int(number) for label, number in found}


def by_column(flag: str, text: str, what: str) -> str | list[Any]:
    """One name, or names or numbers by column as in overlap,mvdm or 0.5,1.

    >>> by_column("--metric", "mvdm", "names"), by_column("--metric", "overlap,mvdm", "names")
    ('mvdm', ['overlap', 'mvdm'])
    >>> by_column("--weights", "gain-ratio", "numbers"), by_column("--weights", "0.5,1", "numbers")
    ('gain-ratio', [0.5, 1.0])
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1 and (what == "names" or not _numbers(parts)):
        return parts[0]
    found = parts if what == "names" else _numbers(parts)
    if not found or not all(parts):
        raise OptionError(f"{flag}: expected a name, or {what} with a comma between them, got {text!r}")
    return found


def decay_numbers(text: str) -> list[Any]:
    """One or two numbers.

    >>> decay_numbers("0.5"), decay_numbers("0.5,2")
    ([0.5], [0.5, 2.0])
    """
    found = _numbers(text.split(","))
    if len(found) not in (1, 2):
        raise OptionError(f"--decay: expected a number, or two as in 1,0.5, got {text!r}")
    return found


def _numbers(parts: list[str]) -> list[Any]:
    """All parts as numbers, or nothing where one is none."""
    try:
        return [float(part) for part in parts]
    except ValueError:
        return []
