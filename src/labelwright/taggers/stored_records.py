"""The record of training in the header of a model file: what `inspect` and `calibrate` read of it is checked.

Fields that are not named here may hold anything that JSON has, but no number that is not finite.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labelwright.corpus.tokenizer import tokenizer_of
from labelwright.errors import OptionError
from labelwright.modelfile import BITS
from labelwright.validation import LARGEST_COUNT, HeaderReader, check_plain

Check = Callable[[HeaderReader, str], Any]
Schema = Mapping[str, Check]
FITTED = ("sentences", "tokens", "iterations", "loss")  # what the record of a trained linear tagger has at least
TIMED = ("seconds", "labelwright")  # what a record that says why training ended has, too
REMEMBERED = ("sentences", "tokens", *TIMED)  # what that of a memory-based tagger has


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
    _check(training, OF_LAYERS if of_layers else TRAINING)
    imported = "imported_from" in training and not any(name in training for name in needed)
    if of_layers or (len(training) and not imported):
        _require(training, needed)
    if "stopped" in training and needed:
        _require(training, TIMED)
    history = header.parts("history")
    for record in history:
        _require(record, of_iteration)
        _check(record, ITERATION)
    return dict(training), [dict(record) for record in history]


def _require(fields: HeaderReader, names: Sequence[str]) -> None:
    for name in names:
        fields[name]  # an error where it is missing


def _check(fields: HeaderReader, schema: Schema) -> None:
    """Check the fields that are there."""
    for name, check in schema.items():
        if name in fields:
            check(fields, name)


# -- what a field may be ----------------------------------------------------------------------------------------------


def _whole(fields: HeaderReader, name: str) -> None:
    fields.whole(name)


def _number(fields: HeaderReader, name: str) -> None:
    fields.number(name, -LARGEST_COUNT, LARGEST_COUNT)


def _any_number(fields: HeaderReader, name: str) -> None:
    """A loss: where training has failed it is not finite."""
    if type(fields[name]) is not float:
        fields.number(name, -LARGEST_COUNT, LARGEST_COUNT)


def _text(fields: HeaderReader, name: str) -> None:
    fields.text(name)


def _names(fields: HeaderReader, name: str) -> None:
    fields.names(name)


def _truth(fields: HeaderReader, name: str) -> None:
    fields.one_of(name, (False, True))


def _maybe(check: Check) -> Check:
    """The same, or nothing."""
    return lambda fields, name: None if fields[name] is None else check(fields, name)


def _beside(other: str, check: Check) -> Check:
    """The same, in a record that has the other field, too."""

    def check_both(fields: HeaderReader, name: str) -> None:
        check(fields, name)
        _require(fields, (other,))

    return check_both


def _part(schema: Schema, needed: Sequence[str] = ()) -> Check:
    """An object with these fields."""

    def check(fields: HeaderReader, name: str) -> None:
        _require(fields.part(name), needed)
        _check(fields.part(name), schema)

    return check


def _parts(schema: Schema, needed: Sequence[str] = ()) -> Check:
    """A list of objects with these fields."""

    def check(fields: HeaderReader, name: str) -> None:
        for part in fields.parts(name):
            _require(part, needed)
            _check(part, schema)

    return check


def _each(check: Check) -> Check:
    """An object all of whose fields are alike."""

    def check_all(fields: HeaderReader, name: str) -> None:
        for key in fields.part(name):
            check(fields.part(name), key)

    return check_all


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
    _parts({"states": _each(_whole), "kept": _truth}, ("states",))(training, name)
    if not any(part.get("kept") for part in training.parts(name)):
        raise training.refuse(name, "a round that was kept")


def _convergence(training: HeaderReader, name: str) -> None:
    """What a perceptron knows about the data."""
    fields = training.part(name)
    _check(fields, BOUNDS | {"latent": _part(BOUNDS, LATENT)})
    _require(fields, ("separable", "theorem") if "mistake_bound" in fields else ("separable",))


# -- the fields -------------------------------------------------------------------------------------------------------

BOUNDS: dict[str, Check] = {
    "separable": _number,
    "strictly_separable": _number,
    "margin": _maybe(_number),
    "mistake_bound": _maybe(_number),
    "theorem": _maybe(_whole),
    "plain_margin": _number,
    "margin_bound": _number,
    "expansion": _number,
}
LATENT = ("plain_margin", "margin_bound", "expansion", "mistake_bound")

BEST: Schema = {  # where development data chose the weights
    "best_iteration": _beside("best_dev", _whole),
    "best_dev": _beside("best_iteration", _number),
}

TRAINING: dict[str, Check] = {
    **dict.fromkeys(("sentences", "tokens", "features", "weights", "arcs", "iterations", "mistakes"), _whole),
    "loss": _maybe(_any_number),
    "seconds": _number,
    **dict.fromkeys(("stopped", "labelwright", "imported_from", "seen"), _text),
    "interrupted": _truth,
    **BEST,
    "columns": _maybe(_names),
    "label": _maybe(_text),
    "tokenizer": _tokenizer,
    "compressed": _compressed,
    "dev": _number,
    "restarts": _parts({"loss": _any_number, "merit": _any_number}, ("loss", "merit")),
    "rounds": _rounds,
    "search": _part(
        {"settings": _whole, "tried": _whole, "score": _number, "stopped": _text}, ("settings", "score", "stopped")
    ),
    "pruning": _part(dict.fromkeys(("kept", "cutoff", "most", "candidates"), _number)),
    "convergence": _convergence,
    "joint": _part(
        {"iterations": _whole, "loss": _any_number, "stopped": _text, **BEST},
        ("iterations", "loss", "stopped"),
    ),
    "calibration": _maybe(
        _part(
            {
                **dict.fromkeys(("temperature", "log_likelihood_per_token", "seconds"), _number),
                "sentences": _whole,
                "method": _text,
            },
            ("temperature", "sentences", "log_likelihood_per_token"),
        )
    ),
}

OF_LAYERS: Schema = TRAINING | {"dev": _part({"before": _each(_number), "after": _each(_number)})}

ITERATION: Schema = {
    **dict.fromkeys(("iteration", "evaluations", "mistakes"), _whole),
    **dict.fromkeys(("loss", "norm"), _any_number),
    **dict.fromkeys(("seconds", "dev", "separable"), _number),
}
