"""Decoders: from a lattice to a labelling, all with one record as their answer."""

from collections.abc import Callable

from labelwright.decode.exact import exact
from labelwright.decode.mbr import mbr
from labelwright.decode.paths import ldi, marginal, viterbi
from labelwright.decode.record import Decoding

DECODERS: dict[str, Callable[..., Decoding]] = {
    "viterbi": viterbi,
    "marginal": marginal,
    "ldi": ldi,
    "exact": exact,
    "mbr": mbr,
}
RULED_DECODERS = ("viterbi", "exact", "csi")  # those that keep users' rules

__all__ = ["DECODERS", "RULED_DECODERS", "Decoding"]
