"""The record of training of a tagger, `training_`: what every road to a tagger (`fit`,
`partial_fit`, a model file, the file of another program) says of its training, and how a record in
a model file is checked.

A record is a dictionary that may hold more than is named here.  What reads the record of any tagger
reads it as a `TrainingRecord`, which has a value for each field."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.calibrated import kinds_of
from labelwright.corpus.tokenizer import tokenizer_of
from labelwright.errors import OptionError
from labelwright.modelfile import BITS, LARGEST_COUNT, LARGEST_WEIGHT, HeaderReader, is_number
from labelwright.wording import counted

Array = NDArray[Any]


class TrainingRecord(NamedTuple):
    """What is known of the training of any tagger; None is unknown, as most is of a model that
    another program has trained."""

    sentences: int | None = None
    tokens: int | None = None
    iterations: int | None = None
    loss: float | None = None  # a memory-based tagger has none
    seconds: float | None = None
    stopped: str | None = None  # why training ended; `partial_fit` has no end
    labelwright: str | None = None  # the version that trained it
    imported_from: str | None = None  # the other program

    @classmethod
    def of(cls, training: Mapping[str, Any]) -> Self:
        """The record in a dictionary such as `training_`.

        >>> TrainingRecord.of({"sentences": 2, "seconds": 0.25, "of a plugin": 1}).seconds
        0.25
        """
        return cls(**{name: training[name] for name in cls._fields if name in training})

    def counts(self, **things: str) -> list[str]:
        """The known numbers among these fields, each with what it counts.

        >>> TrainingRecord(sentences=2).counts(sentences="sentence", iterations="pass")
        ['2 sentences']
        """
        known = {name: getattr(self, name) for name in things}
        return [counted(n, things[name]) for name, n in known.items() if n is not None]

    def time(self) -> list[str]:
        """How long training took, where that is known.

        >>> TrainingRecord(seconds=0.25).time(), TrainingRecord().time()
        (['0.2 s'], [])
        """
        return [] if self.seconds is None else [f"{self.seconds:.1f} s"]


# -- the record in a model file --------------------------------------------------------------------

# what the record of a trained linear tagger has at least
FITTED = ("sentences", "tokens", "iterations", "loss")
TIMED = ("seconds", "labelwright")  # what a record that says why training ended has, too
REMEMBERED = ("sentences", "tokens", *TIMED)  # what that of a memory-based tagger has


def read_record(
    header: HeaderReader,
    needed: Sequence[str] = (),
    of_iteration: Sequence[str] = ("loss",),
    of_layers: bool = False,
    weights: Array | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The record of training, and that of its iterations.

    needed : what it must hold, unless it is empty (a model that was not trained), or of another
        program and has none
    of_iteration : what the record of each iteration must hold
    of_layers : whether it is that of a cascade, which is never empty and holds scores of several
        layers
    weights : those of a tagger, which its calibration must leave finite"""
    training = header.part("training")
    for name in ("training", "history"):
        header.check_plain(name, but=("loss", "norm", "merit"))
    _check_fields(training, OF_LAYERS if of_layers else TRAINING)
    imported = "imported_from" in training and not any(name in training for name in needed)
    if of_layers or (len(training) and not imported):
        _require(training, needed)
    if "stopped" in training and needed:
        _require(training, TIMED)
    if weights is not None:
        check_calibration(training, weights)
    history = header.parts("history")
    for record in history:
        _require(record, of_iteration)
        _check_fields(record, ITERATION)
    numbered = [{"iteration": n, **record} for n, record in enumerate(history, 1)]
    return dict(training), numbered


def check_calibration(training: HeaderReader, weights: Array) -> None:
    """The calibration of a model: a temperature above 0 that leaves its weights finite, and maps
    that rise, with as many numbers that are right as are said."""
    if training.get("calibration") is None:
        return
    record = training.part("calibration")
    temperature, largest, most = (
        record["temperature"],
        float(np.abs(weights).max(initial=0.0)),
        LARGEST_WEIGHT,
    )
    if (
        not is_number(temperature)
        or not 0 < temperature <= most
        or not largest / temperature <= most
    ):
        raise record.refuse("temperature", "a number above 0 that fits the weights")
    for fields in map(record.part, kinds_of(record)):
        n = len(fields.listed("said"))
        for name in ("said", "right"):
            numbers = fields.listed(name)
            if (
                not numbers
                or not all(is_number(p) and 0 <= p <= 1 for p in numbers)
                or len(numbers) != n
            ):
                raise fields.refuse(name, "as many numbers between 0 and 1")
            if any(a > b for a, b in pairwise(numbers)):
                raise fields.refuse(name, "numbers that never fall")


# A schema names fields and how each is checked; a field with a star must be there.  Fields that are
# not named may hold anything that JSON has, but no number that is not finite.
Check = Callable[[HeaderReader, str], Any]
whole, text, names = HeaderReader.whole, HeaderReader.text, HeaderReader.names


def _require(fields: HeaderReader, needed: Sequence[str]) -> None:
    for name in needed:
        fields[name]  # an error where it is missing


def _check_fields(fields: HeaderReader, schema: Mapping[str, Check]) -> None:
    _require(fields, [name.rstrip("*") for name in schema if name.endswith("*")])
    for name, check in schema.items():
        if name.rstrip("*") in fields:
            check(fields, name.rstrip("*"))


def real(fields: HeaderReader, name: str) -> None:
    fields.number(name, -LARGEST_COUNT, LARGEST_COUNT)


def loss(fields: HeaderReader, name: str) -> None:
    """A number that need not be finite, since training may have failed."""
    if type(fields[name]) is not float:
        real(fields, name)


def flag(fields: HeaderReader, name: str) -> None:
    fields.one_of(name, (False, True))


def maybe(check: Check) -> Check:
    """The same, or null."""
    return lambda fields, name: fields[name] is None or check(fields, name)


def each(check: Check) -> Check:
    """An object all of whose fields are alike."""
    return lambda fields, name: [check(fields.part(name), key) for key in fields.part(name)]


def record(schema: Mapping[str, Check]) -> Check:
    return lambda fields, name: _check_fields(fields.part(name), schema)


def records(schema: Mapping[str, Check]) -> Check:
    def check(fields: HeaderReader, name: str) -> None:
        for part in fields.parts(name):
            _check_fields(part, schema)

    return check


def _tokenizer(training: HeaderReader, name: str) -> None:
    """The tokenizer of a model that was trained on text."""
    try:
        tokenizer_of(training[name])
    except OptionError as error:
        raise training.refuse(name, str(error)) from None


def _compressed(training: HeaderReader, name: str) -> None:
    training.part(name).number("prune", 0.0, LARGEST_COUNT)
    training.part(name).one_of("bits", BITS)


def _convergence(training: HeaderReader, name: str) -> None:
    """What a perceptron knows about the data."""
    record(CONVERGENCE)(training, name)
    if "mistake_bound" in training.part(name):
        _require(training.part(name), ("theorem",))


def _best(fields: HeaderReader, name: str) -> None:
    """Where development data chose the weights: the iteration and its score."""
    (real if name == "best_dev" else whole)(fields, name)
    _require(fields, ("best_dev", "best_iteration"))


CONVERGENCE: dict[str, Check] = {
    "separable*": real,
    "strictly_separable": real,
    "margin": maybe(real),
    "theorem": maybe(whole),
    "mistake_bound": maybe(real),
    "latent": record(
        {
            **dict.fromkeys(("plain_margin*", "margin_bound*", "expansion*"), real),
            "mistake_bound*": maybe(real),
        }
    ),
}
BEST: dict[str, Check] = {"best_dev": _best, "best_iteration": _best}
TRAINING: dict[str, Check] = {
    **dict.fromkeys(
        ("sentences", "tokens", "features", "weights", "arcs", "iterations", "mistakes"), whole
    ),
    "mixed_partitions": whole,
    "loss": maybe(loss),
    "seconds": real,
    **dict.fromkeys(("stopped", "labelwright", "imported_from", "seen"), text),
    "interrupted": flag,
    **BEST,
    "columns": maybe(names),
    "label": maybe(text),
    "tokenizer": _tokenizer,
    "compressed": _compressed,
    "dev": real,
    "restarts": records({"loss*": loss, "merit*": loss}),
    "search": record({"settings*": whole, "tried": whole, "score*": real, "stopped*": text}),
    "pruning": record(dict.fromkeys(("kept*", "cutoff", "most", "candidates*"), real)),
    "convergence": _convergence,
    "joint": record({"iterations*": whole, "loss*": loss, "stopped*": text, **BEST}),
    "calibration": maybe(
        record(
            {
                "temperature*": real,
                "sentences*": whole,
                "left_out": each(whole),
                **dict.fromkeys(("log_likelihood_per_token*", "seconds"), real),
                "method": text,
            }
        )
    ),
}
OF_LAYERS: dict[str, Check] = TRAINING | {
    "dev": record({"before": each(real), "after": each(real)})
}
ITERATION: dict[str, Check] = {
    **dict.fromkeys(("iteration", "evaluations", "mistakes"), whole),
    **dict.fromkeys(("loss", "norm"), loss),
    **dict.fromkeys(("seconds", "dev", "separable"), real),
}
