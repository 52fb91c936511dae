"""Training data in time order: all first tokens, all second tokens, and so on; long sentences in
blocks."""

from typing import NamedTuple

import numpy as np

from labelwright.corpus.offsets import offsets_from
from labelwright.device.place import Array, Tensor
from labelwright.structures import timeorder

LONG = 128  # a sentence of more tokens is cut into blocks
BLOCK = 64  # tokens of a block, or the root of the longest sentence


class Blocks(NamedTuple):
    """The blocks of long sentences, the longest first; a step from block to block is for those
    sentences with so many, and has a block and a first row for each of them."""

    rows: list[Array]  # of each step of time, those of the blocks that are still going
    last: Array  # [B]  last row of each
    onward: Array  # blocks that are followed by another,
    first: Array  # and its first row
    forwards: list[tuple[Array, Array]]  # a block, and the row that follows it
    backwards: list[tuple[Array, Array]]  # a block, and its row


class Layout(NamedTuple):
    """Sentences as chains in time order.  A chain is a sentence, or a block of one."""

    token: Array  # [T]  token of each row, counted from the first of these sentences
    steps: list[int]  # rows of step t: steps[t]:steps[t+1]
    sentence: Array  # [T]
    before: Tensor  # [T]  row of the token before; T at first tokens
    last: Array  # [N]  last row of each sentence
    blocks: Blocks | None


def lay_out(offsets: Array, cut: bool) -> Layout:
    """Sentences offsets[n]:offsets[n+1] of at least one token; long ones in blocks where these may
    be `cut`."""
    lengths, T = np.diff(offsets), int(offsets[-1])
    longest = int(lengths.max())
    sizes = (
        np.where(lengths > LONG, -(-lengths // max(BLOCK, int(longest**0.5))), 1)
        if cut
        else np.ones_like(lengths)
    )
    chains = offsets_from(sizes)  # of each sentence
    owner = np.repeat(np.arange(len(lengths)), sizes)
    number = np.arange(chains[-1]) - chains[owner]
    bounds = np.append(offsets[owner] + lengths[owner] * number // sizes[owner], T)
    plan = timeorder.plan(bounds)
    row = np.empty(T, np.int64)
    row[plan.token] = np.arange(T)
    before = np.append(T, row)[plan.token]
    before[row[offsets[:-1]]] = T
    blocks = _blocks(plan.steps, row, bounds, chains) if len(owner) > len(lengths) else None
    return Layout(
        plan.token,
        plan.steps.tolist(),
        owner[plan.order[plan.rank]],
        before,
        row[offsets[1:] - 1],
        blocks,
    )


def _blocks(steps: Array, row: Array, bounds: Array, chains: Array) -> Blocks:
    """The blocks of sentences n, which have the chains chains[n]:chains[n+1]; tokens of c:
    bounds[c]:bounds[c+1]."""
    sizes, lengths, first = np.diff(chains), np.diff(bounds), row[bounds[:-1]]
    chain = np.flatnonzero(np.repeat(sizes > 1, sizes))
    chain = chain[np.argsort(-lengths[chain], kind="stable")]
    block = np.zeros(len(lengths), np.int64)
    block[chain] = np.arange(len(chain))
    rows = [steps[t] + first[chain[lengths[chain] > t]] for t in range(lengths[chain[0]])]
    long = np.argsort(-sizes, kind="stable")[: int((sizes > 1).sum())]
    begin, end, forwards, backwards = chains[long], chains[long + 1], [], []
    for k in range(1, int(sizes.max())):
        n = int((sizes > k).sum())
        forwards.append((block[begin[:n] + k - 1], first[begin[:n] + k]))
        backwards.append((block[end[:n] - k], first[end[:n] - k]))
    onward = chain[~np.isin(chain, end - 1)]
    return Blocks(
        rows, row[bounds[chain + 1] - 1], block[onward], first[onward + 1], forwards, backwards
    )
