"""Decoders: from a lattice to a labelling, all with one record as their answer."""

from collections.abc import Callable

from labelwright.decode.exact import exact
from labelwright.decode.ldi import ldi
from labelwright.decode.marginal import marginal
from labelwright.decode.mbr import mbr
from labelwright.decode.record import Decoding
from labelwright.decode.viterbi import viterbi
from labelwright.errors import OptionError

DECODERS: dict[str, Callable[..., Decoding]] = {
    "viterbi": viterbi,
    "marginal": marginal,
    "ldi": ldi,
    "exact": exact,
    "mbr": mbr,
}


def decoder_named(name: str) -> Callable[..., Decoding]:
    """The decoder of this name."""
    if name not in DECODERS:
        raise OptionError(f"decoder: expected one of {', '.join(DECODERS)}, got {name!r}")
    return DECODERS[name]


__all__ = ["DECODERS", "Decoding", "decoder_named"]
