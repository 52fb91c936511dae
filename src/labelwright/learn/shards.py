"""How sentences are cut into pieces of work: shards, whose rows are in memory together, and batches."""

from typing import Any, NamedTuple

from numpy.typing import NDArray

from labelwright.parallel import sentence_ranges

Array = NDArray[Any]

PIECES = 8  # of a shard


class Sizes(NamedTuple):
    """How much may be in one piece of work, and in memory together."""

    batch_tokens: int
    batch_numbers: int
    arc_numbers: int
    shard_numbers: int
    shard_batches: int


class Batch(NamedTuple):
    """Some sentences: one piece of work."""

    number: int
    rows: dict[str, Any]  # their rows of every kind among those of the shard: a slice, or numbers
    data: Any  # what else the expectations need of them


class Shard(NamedTuple):
    """A run of sentences whose rows are in memory together."""

    number: int
    rows: dict[str, tuple[int, int]]  # all its rows of every kind
    pieces: list[dict[str, tuple[int, int]]]  # the same in pieces of whole sentences
    batches: list[Batch]


def even_number(tokens: int, most: int) -> int:
    """Into how many batches of at most about `most` tokens to cut: a multiple of four where there are more than two, so
    that threads are done together."""
    n = max(1, -(-tokens // most))
    return n if n < 3 else -(-n // 4) * 4


def pieces_of(
    starts: dict[str, Array], begin: int, end: int, offsets: Array
) -> tuple[dict[str, tuple[int, int]], list[dict[str, tuple[int, int]]]]:
    """The rows of sentences begin:end, and the same in pieces; sentence n has the rows starts[name][n:n+2]."""
    tokens = max(1, int(offsets[end] - offsets[begin]) // PIECES)
    cuts = [(begin + a, begin + b) for a, b in sentence_ranges(offsets[begin : end + 1], tokens)]
    made = [{name: (int(x[a]), int(x[b])) for name, x in starts.items()} for a, b in [(begin, end), *cuts]]
    return made[0], made[1:]
