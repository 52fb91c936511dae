"""The record of training in the header of a model file: what `inspect` and `calibrate` read of it is checked.

A schema names fields and what they hold: int, float, str, bool, LOSS (a number that need not be finite, since training
may have failed), [schema], {field: schema}, EACH(schema) (an object with any fields), MAYBE(schema) (or null), or a
function that checks.  A field with a star must be there.  Fields that are not named may hold anything that JSON has,
but no number that is not finite.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from labelwright.corpus.tokenizer import tokenizer_of
from labelwright.errors import OptionError
from labelwright.modelfile import BITS
from labelwright.validation import LARGEST_COUNT, HeaderReader, check_plain

FITTED = ("sentences", "tokens", "iterations", "loss")  # what the record of a trained linear tagger has at least
TIMED = ("seconds", "labelwright")  # what a record that says why training ended has, too
REMEMBERED = ("sentences", "tokens", *TIMED)  # what that of a memory-based tagger has
LOSS = "loss"


class MAYBE(NamedTuple):
    """The same, or null."""

    schema: Any


class EACH(NamedTuple):
    """An object all of whose fields are alike."""

    schema: Any


def read_record(
    header: HeaderReader,
    needed: Sequence[str] = (),
    of_iteration: Sequence[str] = ("loss",),
    of_layers: bool = False,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The record of training, and that of its iterations.

    needed : what it must hold, unless it is empty (a model that was not trained), or of another program and has none
    of_iteration : what the record of each iteration must hold
    of_layers : whether it is that of a cascade, which is never empty and holds scores of several layers"""
    training = header.part("training")
    for name in ("training", "history"):
        check_plain(header, name, but=("loss", "norm", "merit"))
    _check_fields(training, OF_LAYERS if of_layers else TRAINING)
    imported = "imported_from" in training and not any(name in training for name in needed)
    if of_layers or (len(training) and not imported):
        _require(training, needed)
    if "stopped" in training and needed:
        _require(training, TIMED)
    history = header.parts("history")
    for record in history:
        _require(record, of_iteration)
        _check_fields(record, ITERATION)
    return dict(training), [dict(record) for record in history]


def _require(fields: HeaderReader, names: Sequence[str]) -> None:
    for name in names:
        fields[name]  # an error where it is missing


def _check_fields(fields: HeaderReader, schema: Mapping[str, Any]) -> None:
    _require(fields, [name.rstrip("*") for name in schema if name.endswith("*")])
    for name, what in schema.items():
        if name.rstrip("*") in fields:
            _check(fields, name.rstrip("*"), what)


def _check(fields: HeaderReader, name: str, what: Any) -> None:
    """Refuse a field that does not hold what its schema says."""
    if what is int:
        fields.whole(name)
    elif what is float or (what is LOSS and type(fields[name]) is not float):
        fields.number(name, -LARGEST_COUNT, LARGEST_COUNT)
    elif what is str:
        fields.text(name)
    elif what is bool:
        fields.one_of(name, (False, True))
    elif what == [str]:
        fields.names(name)
    elif isinstance(what, list):
        for part in fields.parts(name):
            _check_fields(part, what[0])
    elif isinstance(what, dict):
        _check_fields(fields.part(name), what)
    elif isinstance(what, MAYBE):
        if fields[name] is not None:
            _check(fields, name, what.schema)
    elif isinstance(what, EACH):
        for key in fields.part(name):
            _check(fields.part(name), key, what.schema)
    elif what is not LOSS:
        what(fields, name)


def _tokenizer(training: HeaderReader, name: str) -> None:
    """The tokenizer of a model that was trained on text."""
    try:
        tokenizer_of(training[name])
    except OptionError as error:
        raise training.refuse(name, str(error)) from None


def _compressed(training: HeaderReader, name: str) -> None:
    training.part(name).number("prune", 0.0, LARGEST_COUNT)
    training.part(name).one_of("bits", BITS)


def _rounds(training: HeaderReader, name: str) -> None:
    """The rounds of splitting and merging, one of which was kept."""
    _check(training, name, [{"states*": EACH(int), "kept": bool}])
    if not any(part.get("kept") for part in training.parts(name)):
        raise training.refuse(name, "a round that was kept")


def _convergence(training: HeaderReader, name: str) -> None:
    """What a perceptron knows about the data."""
    latent = {f"{field}*": float for field in ("plain_margin", "margin_bound", "expansion")}
    bounds = {"strictly_separable": float, "margin": MAYBE(float), "theorem": MAYBE(int)}
    bound = {"mistake_bound": MAYBE(float)}
    _check(
        training, name, {"separable*": float, **bounds, **bound, "latent": {**latent, "mistake_bound*": MAYBE(float)}}
    )
    if "mistake_bound" in training.part(name):
        _require(training.part(name), ("theorem",))


def _best(fields: HeaderReader, name: str) -> None:
    """Where development data chose the weights: the iteration and its score."""
    _check(fields, name, float if name == "best_dev" else int)
    _require(fields, ("best_dev", "best_iteration"))


BEST = {"best_dev": _best, "best_iteration": _best}
TRAINING: dict[str, Any] = {
    **dict.fromkeys(("sentences", "tokens", "features", "weights", "arcs", "iterations", "mistakes"), int),
    "loss": MAYBE(LOSS),
    "seconds": float,
    **dict.fromkeys(("stopped", "labelwright", "imported_from", "seen"), str),
    "interrupted": bool,
    **BEST,
    "columns": MAYBE([str]),
    "label": MAYBE(str),
    "tokenizer": _tokenizer,
    "compressed": _compressed,
    "dev": float,
    "restarts": [{"loss*": LOSS, "merit*": LOSS}],
    "rounds": _rounds,
    "search": {"settings*": int, "tried": int, "score*": float, "stopped*": str},
    "pruning": dict.fromkeys(("kept", "cutoff", "most", "candidates"), float),
    "convergence": _convergence,
    "joint": {"iterations*": int, "loss*": LOSS, "stopped*": str, **BEST},
    "calibration": MAYBE(
        {
            "temperature*": float,
            "sentences*": int,
            **dict.fromkeys(("log_likelihood_per_token*", "seconds"), float),
            "method": str,
        }
    ),
}

OF_LAYERS: dict[str, Any] = TRAINING | {"dev": {"before": EACH(float), "after": EACH(float)}}

ITERATION: dict[str, Any] = {
    **dict.fromkeys(("iteration", "evaluations", "mistakes"), int),
    **dict.fromkeys(("loss", "norm"), LOSS),
    **dict.fromkeys(("seconds", "dev", "separable"), float),
}
