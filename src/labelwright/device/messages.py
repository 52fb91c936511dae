"""Sums over all paths of chains on a device, in scaled probability space (structures.timeorder has
the recurrences).

What comes from the left and what comes from the right of a token are kept without its own factor
psi_t:

    left_t ~ (psi_{t-1} left_{t-1}) E_t        left_0 = 1
    right_{t-1} ~ E_t (psi_t right_t)          right_T = 1

    P(q at t) ~ left_t(q) psi_t(q) right_t(q)
    P(r, s at t-1, t) ~ left psi(r) E(r, s) psi right(s)

Every probability is normalised by its own sum, so that neither direction waits for the other.  The
largest number of a row is made 1; psi <= 1, and E is divided by the number of states: none grows.

A long sentence is cut into blocks.  Block k maps what comes from its left to what comes to the next
one by a matrix M_k [Q, Q]; all of these are made at once, from Q starts each.  A scan over the
blocks gives each its left and right, and then they are chains as any other.
"""

from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from labelwright.device.layout import Blocks, Layout
from labelwright.device.place import Place, Tensor, torch

CHUNK = 4096  # rows whose counts are added up before they become part of a long sum
MOST_NODES = 64  # of chains that are cut into blocks: the work of these grows with the nodes
AGREE = 1e-3  # the largest relative difference of messages between two blocks


class Shape:
    """Nodes and arcs.  Of order 1, states and pairs [r, s]; of order 2, pairs in a grid [S+1, S],
    whose last row is that of first tokens, and triples [s, r, u]."""

    def __init__(self, order: int, S: int, own: bool):
        self.order, self.own = order, own  # has every token its own arcs?
        self.grid: tuple[int, ...] = (S,) if order == 1 else (S + 1, S)
        self.arcs: tuple[int, ...] = (S, S) if order == 1 else (S, S + 1, S)
        self.n_nodes, self.n_arcs = prod(self.grid), prod(self.arcs)

    def arcs_of(self, codes: Tensor) -> Tensor:
        """Numbers of pairs [r, s] or triples [r, s, u] in a row as those of arcs,"""
        if self.order == 1:
            return codes.unflatten(-1, self.arcs)
        inner = codes.unflatten(-1, (self.arcs[0],) * 3).transpose(-3, -2)
        return torch.nn.functional.pad(inner, (0, 0, 0, 1))

    def codes_of(self, arcs: Tensor) -> Tensor:
        """and back."""
        return (
            arcs.flatten(-2) if self.order == 1 else arcs[..., :-1, :].transpose(-3, -2).flatten(-3)
        )

    def into(self, E: Tensor, rows: Any) -> Tensor:
        """The arcs into some rows."""
        if not self.own:
            return E
        return E[rows] if isinstance(rows, slice) else E.index_select(0, rows)

    def forwards(self, x: Tensor, E: Tensor) -> Tensor:
        """sum_r x[n, m, r] E[n, r, s] [n, m, S]; E without n serves all."""
        if self.order == 1:
            return torch.matmul(x, E)
        made = torch.einsum(f"nmrs,{'n' * self.own}sru->nmsu", x.unflatten(-1, self.grid), E)
        return torch.nn.functional.pad(made, (0, 0, 0, 1)).flatten(-2)

    def backwards(self, x: Tensor, E: Tensor) -> Tensor:
        """sum_s E[n, r, s] x[n, m, s] [n, m, S]."""
        if self.order == 1:
            return torch.matmul(x, E.mT)
        inner = x.unflatten(-1, self.grid)[..., :-1, :]
        return torch.einsum(f"nmsu,{'n' * self.own}sru->nmrs", inner, E).flatten(-2)

    def counts(self, a: Tensor, b: Tensor) -> Tensor:
        """sum_n a[c, n, r] b[c, n, s] [c, *arcs]."""
        if self.order == 1:
            return torch.bmm(a.mT, b)
        return torch.einsum(
            "cnrs,cnsu->csru", a.unflatten(-1, self.grid), b.unflatten(-1, self.grid)[..., :-1, :]
        )

    def outer(self, a: Tensor, b: Tensor) -> Tensor:
        """a[n, r] b[n, s] [n, *arcs]."""
        if self.order == 1:
            return a[:, :, None] * b[:, None]
        return a.unflatten(-1, self.grid).mT[..., None] * b.unflatten(-1, self.grid)[:, :-1, None]


class Sums(NamedTuple):
    """What comes from both sides of every token."""

    left: Tensor  # [T, Q]
    right: Tensor  # [T, Q]
    scale: Tensor  # [T]  by which left was divided,
    right_scale: Tensor  # [T]  and right; 0 where blocks do not fit together
    mass: Tensor  # [T]  the sum of left psi right


def sums(place: Place, shape: Shape, passes: list[Tensor], E: Tensor, layout: Layout) -> list[Sums]:
    """Both messages of all tokens, for each psi [T, Q] of `passes`; E [*arcs] serves all tokens, or
    is [T, *arcs]."""
    every = [Sums(*psi.new_ones(2, *psi.shape), *psi.new_ones(3, len(psi))) for psi in passes]
    both, blocks = list(zip(passes, every, strict=True)), layout.blocks
    if blocks is not None:
        for psi, made in both:
            transfer = blocks, *_transfers(shape, psi, E, blocks, place.wide)
            right = partial(_scan_right, shape, E, made, layout.before, *transfer)
            place.at_once((partial(_scan_left, made, *transfer), right))
    steps = [
        (slice(a, a + c - b), slice(b, c))
        for a, (b, c) in zip(layout.steps, pairwise(layout.steps[1:]), strict=False)
    ]
    onwards, back = [(x, y, y) for x, y in steps], [(y, x, y) for x, y in reversed(steps)]
    work = [
        partial(_run, shape, shape.forwards, psi, E, onwards, made.left, made.scale)
        for psi, made in both
    ]
    work += [
        partial(_run, shape, shape.backwards, psi, E, back, made.right, made.right_scale)
        for psi, made in both
    ]
    place.at_once(tuple(work))
    for psi, made in both:
        if blocks is not None:
            _join(shape, psi, E, blocks.first, layout.before.index_select(0, blocks.first), made)
        torch.sum((psi * made.left).mul_(made.right), 1, out=made.mass)
    return every


def _run(
    shape: Shape,
    product: Any,
    psi: Tensor,
    E: Tensor,
    steps: list[Any],
    message: Tensor,
    scale: Tensor,
) -> None:
    """Fill messages and their scales, step by step: from rows to rows, by the arcs into rows."""
    for source, target, into in steps:
        sums = product((psi[source] * message[source])[:, None], shape.into(E, into))[:, 0]
        torch.amax(sums, 1, out=scale[target])
        torch.div(sums, scale[target, None], out=message[target])


def _transfers(
    shape: Shape, psi: Tensor, E: Tensor, blocks: Blocks, wide: Any
) -> tuple[Tensor, Tensor]:
    """The transfer matrices of all blocks [B, Q, Q], and the logarithms [B, Q] by which their rows
    were scaled."""
    M = torch.eye(shape.n_nodes, dtype=psi.dtype, device=psi.device).repeat(len(blocks.last), 1, 1)
    logs, least = torch.zeros_like(M[:, 0], dtype=wide), torch.finfo(psi.dtype).tiny
    for before, rows in pairwise(blocks.rows):
        n = len(rows)
        made = shape.forwards(psi.index_select(0, before[:n])[:, None] * M[:n], shape.into(E, rows))
        scale = made.amax(2, keepdim=True).clamp_min_(least)
        torch.div(made, scale, out=M[:n])
        logs[:n] += scale[..., 0].to(wide).log()
    M *= psi.index_select(0, blocks.last)[:, None]
    M.index_copy_(
        0,
        blocks.onward,
        shape.forwards(M.index_select(0, blocks.onward), shape.into(E, blocks.first)),
    )
    return M, logs


def _scan_left(made: Sums, blocks: Blocks, M: Tensor, logs: Tensor) -> None:
    """left of the first rows of blocks: u_{k+1} = u_k M_k."""
    u = M.new_ones(len(blocks.forwards[0][0]), M.shape[1])
    for block, row in blocks.forwards:
        u = _shifted(u[: len(block)].to(logs.dtype).log() + logs.index_select(0, block), M)
        u = torch.bmm(u[:, None], M.index_select(0, block))[:, 0]
        u = u / u.amax(1, keepdim=True)
        made.left.index_copy_(0, row, u)


def _scan_right(
    shape: Shape, E: Tensor, made: Sums, before: Tensor, blocks: Blocks, M: Tensor, logs: Tensor
) -> None:
    """right of the last rows of blocks: E z_{k+1}, where z_k = M_k z_{k+1}."""
    z = M.new_ones(len(blocks.backwards[0][0]), M.shape[1])
    for block, row in blocks.backwards:
        z = torch.bmm(M.index_select(0, block), z[: len(block), :, None])[..., 0]
        z = _shifted(z.to(logs.dtype).log() + logs.index_select(0, block), M)
        right = shape.backwards(z[:, None], shape.into(E, row))[:, 0]
        made.right.index_copy_(0, before.index_select(0, row), right / right.amax(1, keepdim=True))


def _shifted(score: Tensor, like: Tensor) -> Tensor:
    """The exponentials of scores [n, Q], the largest of which is 1."""
    return (score - score.amax(1, keepdim=True)).exp().to(like.dtype)


def _join(shape: Shape, psi: Tensor, E: Tensor, first: Tensor, before: Tensor, made: Sums) -> None:
    """The scales from each block to the next: their messages must agree with what the scans
    said."""
    ways = (
        (shape.forwards, before, first, made.left, made.scale),
        (shape.backwards, first, before, made.right, made.right_scale),
    )
    for product, source, target, message, scale in ways:
        x = (psi.index_select(0, source) * message.index_select(0, source))[:, None]
        there, told = product(x, shape.into(E, first))[:, 0], message.index_select(0, target)
        ratio = there.sum(1) / told.sum(1)
        agree = (there - ratio[:, None] * told).abs().amax(1) < AGREE * there.amax(1)
        scale.index_copy_(0, target, ratio * agree)


class Counts(NamedTuple):
    """Expected minus observed counts."""

    nodes: Tensor  # [T, Q]
    arcs: Tensor  # [*arcs] in sum, or [T, *arcs] where each token has its own


def add_posteriors(
    shape: Shape,
    psi: Tensor,
    E: Tensor,
    made: Sums,
    weight: Tensor,
    failed: Tensor,
    before: Tensor,
    counts: Counts,
) -> None:
    """Add the probabilities of nodes and arcs, `weight` [T] times; not of rows that failed [T,
    1]."""
    share = (weight / made.mass).to(psi.dtype)
    here = (psi * made.left).masked_fill_(failed, 0)
    counts.nodes.add_((here * made.right).mul_(share[:, None]).masked_fill_(failed, 0))
    source = torch.cat([here, torch.zeros_like(here[:1])]).index_select(0, before)
    target = (psi * made.right).mul_((share / made.scale)[:, None]).masked_fill_(failed, 0)
    if shape.own:
        counts.arcs.addcmul_(shape.outer(source, target), E)
        return
    whole = len(source) // CHUNK * CHUNK
    for part, size in ((slice(whole), CHUNK), (slice(whole, None), len(source) - whole)):
        if len(source[part]):
            sums = shape.counts(*(x[part].unflatten(0, (-1, size)) for x in (source, target)))
            counts.arcs.add_(sums.sum(0, dtype=counts.arcs.dtype) * E)
