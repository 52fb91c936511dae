"""What `tag` and `eval` share: the options of the decoders, and a summary of what was proven."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelwright.cli.common import counted
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.decode import Decoding

Decoder = Annotated[
    str | None,
    typer.Option(
        "--decoder",
        metavar="NAME",
        help="exact (most probable labelling, proven), viterbi (best path), marginal (best label per token), "
        "ldi (by latent paths) or mbr (highest expected gain); perceptrons have no probabilities: viterbi alone. "
        "[default: exact on latent CRFs, viterbi else]",
    ),
]
Inference = Annotated[
    str | None,
    typer.Option(
        "--inference",
        metavar="NAME",
        help="Memory-based models: csi (satisfies the most constraints, proven), vote or none. [default: as trained]",
    ),
]
Paths = Annotated[
    int | None,
    typer.Option("--n", metavar="N", help="ldi: latent paths, 0 for no limit; mbr: candidates. [default: 30]"),
]
Alpha = Annotated[
    float | None, typer.Option("--alpha", metavar="A", help="ldi: stop sooner, A above 0 and up to 1. [default: 1]")
]
Gain = Annotated[str | None, typer.Option("--gain", metavar="NAME", help="mbr: f1 or accuracy. [default: f1]")]
Candidates = Annotated[
    str | None,
    typer.Option("--candidates", metavar="NAME", help="mbr: nbest labellings, or those ldi meets. [default: nbest]"),
]
MaxExpansions = Annotated[
    int | None,
    typer.Option(
        "--max-expansions", metavar="N", help="exact, mbr: limit of the search, with a gap. [default: 100000]"
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit", metavar="S", help="exact, mbr, ldi: seconds for one sentence, with a gap. [default: none]"
    ),
]

COUNTERS = ("latent_paths", "label_paths", "mass", "expansions")


def flag(name: str) -> str:
    """A decoder's option as it is written on the command line.

    >>> flag("max_expansions")
    '--max-expansions'
    """
    return f"--{name.replace('_', '-')}"


def checked(model: Any, decoder: str | None, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The decoder's name and its options, after a check that this decoder takes them."""
    from inspect import signature

    from labelwright.decode import DECODERS, decoder_named

    name = decoder or model.default_decoder
    taken = signature(decoder_named(name)).parameters
    given = {option: value for option, value in options.items() if value is not None}
    alone = _why_alone(model)
    if alone and name != model.default_decoder:
        raise OptionError(f"--decoder {name}: {alone}; use {model.default_decoder}, or nothing")
    for option in given:
        if alone:
            raise OptionError(f"{flag(option)}: not an option of {name}, the only decoder here: {alone}")
        if option not in taken:
            takers = [other for other, function in DECODERS.items() if option in signature(function).parameters]
            by_default = " (the default of this model)" if decoder is None else ""
            raise OptionError(
                f"{flag(option)}: not an option of the decoder {name}{by_default}; use --decoder {' or '.join(takers)}"
            )
    if given.get("candidates") == "ldi" and "max_expansions" in given:
        raise OptionError("--max-expansions: limits the search for the n best, which --candidates ldi replaces")
    return name, given


def _why_alone(model: Any) -> str | None:
    """Why a model has one decoder only; None where it has them all."""
    if not model.probabilistic:
        return str(model.has_scores())
    return "a SemiCRF finds its best labelling with it, proven" if hasattr(model, "segments_") else None


class Tally:
    """What the decoder has proven so far."""

    def __init__(self) -> None:
        self.sentences = self.proven = self.unbounded = 0
        self.gap = 0.0
        self._begun = time.perf_counter()

    def add(self, decodings: Sequence["Decoding"]) -> None:
        """Count some more sentences."""
        self.sentences += len(decodings)
        self.proven += sum(d.exact for d in decodings)
        self.unbounded += sum(d.gap is None for d in decodings)
        self.gap = max([self.gap, *(d.gap for d in decodings if d.gap is not None)])

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begun

    def as_dict(self) -> dict[str, Any]:
        """The counts, ready for JSON."""
        gap = None if self.unbounded else self.gap
        return {"sentences": self.sentences, "exact": self.proven, "gap": gap, "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        share = 100 * self.proven / max(1, self.sentences)
        shown = "100" if self.proven == self.sentences else f"{min(share, 99.99):.2f}"
        gap = f"no bound on the gap of {self.unbounded:,}" if self.unbounded else f"largest gap {self.gap:.3g}"
        sentences = counted(self.sentences, "sentence")
        return f"{sentences}, {self.proven:,} proven exact ({shown} %), {gap}, {self.seconds:.2f} seconds"


def proof(decoding: "Decoding") -> dict[str, Any]:
    """What is known about one answer beside its labels, ready for JSON; counters where the decoder keeps them."""
    counted = {name: getattr(decoding, name) for name in COUNTERS}
    return {
        "exact": decoding.exact,
        "gap": decoding.gap,
        **{name: value for name, value in counted.items() if value is not None},
    }
