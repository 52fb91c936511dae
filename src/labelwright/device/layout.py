"""Training data in time order: all first tokens, all second tokens, and so on; long sentences in blocks."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.structures import timeorder

Array = NDArray[Any]
LONG = 128  # tokens of a sentence that is cut into blocks
BLOCK = 64  # tokens of a block, or the root of the longest sentence


class Scan(NamedTuple):
    """One step from block to block, for those sentences that have so many."""

    block: Array  # [n]  whose transfer it takes
    chain: Array  # [n]  forwards: the chain that begins with the result
    into: Array  # [n]  backwards: the first row of the block,
    row: Array  # [n]  and the last row of the block before, which ends with the result


class Blocks(NamedTuple):
    """The blocks of long sentences, the longest first."""

    rows: list[Array]  # of each step of time, those of the blocks that are still going
    last: Array  # [B]  last row of each
    onward: Array  # blocks that are followed by another,
    firsts: Array  # its first row,
    before: Array  # and the row before that
    forwards: list[Scan]
    backwards: list[Scan]


class Layout(NamedTuple):
    """Sentences as chains in time order.  A chain is a sentence, or a block of one."""

    token: Array  # [T]  token of each row, counted from the first of these sentences
    steps: list[int]  # rows of step t: steps[t]:steps[t+1]
    sentence: Array  # [T]
    before: Array  # [T]  row of the token before; T at first tokens
    first: Array  # [N]  first row of each sentence,
    last: Array  # [N]  and last one
    ends: Array  # last row of each chain
    blocks: Blocks | None


def lay_out(offsets: Array, cut: bool) -> Layout:
    """Sentences offsets[n]:offsets[n+1] of at least one token; long ones in blocks where these may be `cut`."""
    lengths, T = np.diff(offsets), int(offsets[-1])
    n_blocks = np.ones_like(lengths)
    if cut and lengths.max() > LONG:
        size = max(BLOCK, int(lengths.max() ** 0.5))
        n_blocks = np.where(lengths > LONG, -(-lengths // size), 1)
    chains = offsets_from(n_blocks)
    sentence_of = np.repeat(np.arange(len(lengths)), n_blocks)
    number = np.arange(chains[-1]) - chains[sentence_of]  # of a chain in its sentence
    begin = offsets[sentence_of] + lengths[sentence_of] * number // n_blocks[sentence_of]
    bounds = np.append(begin, T)
    plan = timeorder.plan(bounds)
    row = np.empty(T, np.int64)
    row[plan.token] = np.arange(T)
    sentence = sentence_of[plan.order[plan.rank]]
    first, last = row[offsets[:-1]], row[offsets[1:] - 1]
    before = np.append(T, row)[plan.token]
    before[first] = T
    ends = row[bounds[1:] - 1]
    blocks = None
    if (n_blocks > 1).any():
        rank = np.empty_like(plan.order)
        rank[plan.order] = np.arange(len(rank))
        blocks = _blocks(plan, rank, row, bounds, chains, np.flatnonzero(n_blocks > 1))
    return Layout(plan.token, plan.steps.tolist(), sentence, before, first, last, ends, blocks)


def _blocks(plan: timeorder.Plan, rank: Array, row: Array, bounds: Array, chains: Array, long: Array) -> Blocks:
    """The blocks of long sentences."""
    sizes = np.diff(chains)[long]
    long = long[np.argsort(-sizes, kind="stable")]
    chain = np.concatenate([np.arange(chains[n], chains[n + 1]) for n in long])  # sentence by sentence
    lengths = np.diff(bounds)[chain]
    order = np.argsort(-lengths, kind="stable")
    place = np.empty(int(chains[-1]), np.int64)  # of a chain among the blocks
    place[chain[order]] = np.arange(len(order))
    going = [int((lengths > t).sum()) for t in range(int(lengths.max()))]
    rows = [int(plan.steps[t]) + rank[chain[order][:n]] for t, n in enumerate(going)]
    followed = chain[~np.isin(chain, chains[long + 1] - 1)]
    forwards, backwards = [], []
    for k in range(1, int(np.diff(chains)[long[0]])):
        of = long[np.diff(chains)[long] > k]
        for scans, source, target in (
            (forwards, chains[of] + k - 1, chains[of] + k),
            (backwards, chains[of + 1] - k, chains[of + 1] - k - 1),
        ):
            scans.append(Scan(place[source], rank[target], row[bounds[source]], row[bounds[target + 1] - 1]))
    ends = row[bounds[chain[order] + 1] - 1]
    starts = bounds[followed + 1]
    return Blocks(rows, ends, place[followed], row[starts], row[starts - 1], forwards, backwards)
