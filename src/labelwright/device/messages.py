"""Sums over all paths of chains on a device, in scaled probability space (structures.timeorder has the recurrences).

What comes from the left and what comes from the right of a token are kept without its own factor psi_t:

    left_t = (psi_{t-1} left_{t-1}) E_t        left_0 = 1        P(q at t) ~ left_t(q) psi_t(q) right_t(q)
    right_{t-1} = E_t (psi_t right_t)          right_T = 1       P(r, s at t-1, t) ~ left psi(r) E(r, s) psi right(s)

Every probability is normalised by its own sum, so that rows may have any scale, and neither direction waits for the
other.  psi <= 1, and E is divided by the number of states: no number grows.

A long sentence is cut into blocks.  Block k maps what comes from its left to what comes to the next one by a matrix
M_k [Q, Q]; all of these are made at once, from Q starts each.  A scan over the blocks gives each its left and right,
and then they are chains as any other.
"""

from functools import partial
from typing import Any, NamedTuple

from labelwright.device.layout import Blocks, Layout
from labelwright.device.place import Place, Tensor, torch

AGREE = 1e-3  # the largest relative difference of messages between two blocks
RESCALE = 2  # steps after which rows are scaled
CHUNK = 4096  # rows whose counts are added up before they become part of a long sum
MOST_NODES = 64  # of chains that are cut into blocks: the work of these grows with the nodes


class First:
    """Chains of first order: S states are the nodes, S x S arcs [r, s]."""

    def __init__(self, S: int):
        self.n_states, self.n_nodes, self.arcs = S, S, (S, S)

    def forwards(self, x: Tensor, E: Tensor, out: Tensor) -> None:
        """out[n, m, s] = sum_r x[n, m, r] E[n, r, s]; E [S, S] serves all n."""
        if E.dim() == 2:
            torch.mm(x.reshape(-1, self.n_nodes), E, out=out.view(-1, self.n_nodes))
        else:
            torch.bmm(x, E, out=out)

    def backwards(self, x: Tensor, E: Tensor, out: Tensor) -> None:
        """out[n, m, r] = sum_s E[n, r, s] x[n, m, s]."""
        self.forwards(x, E.transpose(-1, -2), out)

    def counts(self, a: Tensor, b: Tensor) -> Tensor:
        """sum_n a[c, n, r] b[c, n, s] [c, S, S]."""
        return torch.bmm(a.transpose(1, 2), b)

    def outer(self, a: Tensor, b: Tensor) -> Tensor:
        """a[n, r] b[n, s] [n, S, S]."""
        return a[:, :, None] * b[:, None, :]


class Second:
    """Chains of second order: nodes are pairs (r, s) in a grid [S+1, S], where r = S stands for none; arcs
    [s, r, u]."""

    def __init__(self, S: int):
        self.n_states, self.n_nodes, self.arcs = S, (S + 1) * S, (S, S + 1, S)

    def _grid(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.n_states + 1, self.n_states)

    def forwards(self, x: Tensor, E: Tensor, out: Tensor) -> None:
        grid = self._grid(out)
        grid[..., -1, :] = 0
        grid[..., :-1, :] = torch.einsum(f"nmrs,{'n' * (E.dim() - 3)}sru->nmsu", self._grid(x), E)

    def backwards(self, x: Tensor, E: Tensor, out: Tensor) -> None:
        inner = self._grid(x)[..., :-1, :]
        self._grid(out).copy_(torch.einsum(f"nmsu,{'n' * (E.dim() - 3)}sru->nmrs", inner, E))

    def counts(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("cnrs,cnsu->csru", self._grid(a), self._grid(b)[..., :-1, :])

    def outer(self, a: Tensor, b: Tensor) -> Tensor:
        return self._grid(a).transpose(1, 2)[..., None] * self._grid(b)[:, :-1, None, :]


class Sums(NamedTuple):
    """What comes from both sides of every token."""

    left: Tensor  # [T, Q]
    right: Tensor  # [T, Q]
    scale: Tensor  # [T]  by which left was divided,
    right_scale: Tensor  # [T]  and right; 0 where blocks do not fit together
    mass: Tensor  # [T]  the sum of left psi right

    @property
    def least(self) -> Tensor:
        """The smallest of the numbers of a token that must not vanish [T]."""
        return torch.minimum(self.right_scale, self.scale * self.mass)


def sums(place: Place, shape: First | Second, passes: list[Tensor], E: Tensor, layout: Layout) -> list[Sums]:
    """Both messages of all tokens, for each psi [T, Q] of `passes`; E [*arcs] serves all tokens, or is [T, *arcs]."""
    every = []
    for psi in passes:
        made = Sums(torch.empty_like(psi), torch.empty_like(psi), *psi.new_ones(3, len(psi)))
        made.left[: layout.steps[1]] = 1
        made.right.index_fill_(0, layout.ends, 1)
        every.append(made)
    both = list(zip(passes, every, strict=True))
    if layout.blocks is not None:
        for psi, made in both:
            transfer = layout.blocks, *_transfers(shape, psi, E, layout.blocks, place.wide)
            scans = (
                partial(_scan_forwards, made.left, *transfer),
                partial(_scan_backwards, shape, E, made.right, *transfer),
            )
            place.at_once(scans)
    work = [partial(_from_left, shape, psi, E, layout.steps, made) for psi, made in both]
    place.at_once(work + [partial(_from_right, shape, psi, E, layout.steps, made) for psi, made in both])
    for psi, made in both:
        if layout.blocks is not None:
            _join(shape, psi, E, layout.blocks, made)
        torch.sum((psi * made.left).mul_(made.right), 1, out=made.mass)
    return every


def _at(E: Tensor, rows: Any, shared: int) -> Tensor:
    """The arcs into these rows."""
    if E.dim() == shared:
        return E
    return E[rows] if isinstance(rows, slice) else E.index_select(0, rows)


def _from_left(shape: First | Second, psi: Tensor, E: Tensor, steps: list[int], made: Sums) -> None:
    left, shared = made.left, len(shape.arcs)
    for t in range(1, len(steps) - 1):
        before, here, end = steps[t - 1], steps[t], steps[t + 1]
        x = psi[before : before + end - here] * left[before : before + end - here]
        shape.forwards(x[:, None], _at(E, slice(here, end), shared), left[here:end, None])
        if t % RESCALE == 0:
            scale = made.scale[here:end, None]
            torch.amax(left[here:end], 1, keepdim=True, out=scale)
            left[here:end].div_(scale)


def _from_right(shape: First | Second, psi: Tensor, E: Tensor, steps: list[int], made: Sums) -> None:
    right, shared = made.right, len(shape.arcs)
    for t in range(len(steps) - 2, 0, -1):
        before, here, end = steps[t - 1], steps[t], steps[t + 1]
        stop = before + end - here
        x = psi[here:end] * right[here:end]
        shape.backwards(x[:, None], _at(E, slice(here, end), shared), right[before:stop, None])
        if t % RESCALE == 0:
            scale = made.right_scale[before:stop, None]
            torch.amax(right[before:stop], 1, keepdim=True, out=scale)
            right[before:stop].div_(scale)


def _join(shape: First | Second, psi: Tensor, E: Tensor, blocks: Blocks, made: Sums) -> None:
    """The scale from each block to the next; the scans of both directions must agree with the messages of blocks."""
    last, first = (psi.index_select(0, rows) for rows in (blocks.before, blocks.firsts))
    into, arcs = torch.empty_like(first)[:, None], _at(E, blocks.firsts, len(shape.arcs))
    left, right = made.left.index_select(0, blocks.firsts), made.right.index_select(0, blocks.before)
    shape.forwards((last * made.left.index_select(0, blocks.before))[:, None], arcs, into)
    scale = into[:, 0].sum(1) / left.sum(1)
    wrong = (into[:, 0] - scale[:, None] * left).abs_().amax(1) / (scale * left.amax(1))
    made.scale.index_copy_(0, blocks.firsts, scale)
    shape.backwards((first * made.right.index_select(0, blocks.firsts))[:, None], arcs, into)
    scale = into[:, 0].sum(1) / right.sum(1)
    wrong += (into[:, 0] - scale[:, None] * right).abs_().amax(1) / (scale * right.amax(1))
    made.right_scale.index_copy_(0, blocks.before, scale * (wrong < AGREE))


def _transfers(shape: First | Second, psi: Tensor, E: Tensor, blocks: Blocks, wide: Any) -> tuple[Tensor, Tensor]:
    """The transfer matrices of all blocks [B, Q, Q], and the logarithms [B, Q] by which their rows were scaled."""
    B, Q, shared = len(blocks.last), shape.n_nodes, len(shape.arcs)
    M = torch.eye(Q, dtype=psi.dtype, device=psi.device).repeat(B, 1, 1)
    logs = torch.zeros(B, Q, dtype=wide, device=psi.device)
    least = torch.finfo(psi.dtype).tiny
    for t, rows in enumerate(blocks.rows[1:], 1):
        n = len(rows)
        x = psi.index_select(0, blocks.rows[t - 1][:n])[:, None] * M[:n]
        shape.forwards(x, _at(E, rows, shared), M[:n])
        if t % RESCALE == 0:
            scale = M[:n].amax(2, keepdim=True).clamp_min_(least)
            M[:n].div_(scale)
            logs[:n] += scale[..., 0].to(wide).log()
    M *= psi.index_select(0, blocks.last)[:, None]
    onward = M.index_select(0, blocks.onward)
    out = torch.empty_like(onward)
    shape.forwards(onward, _at(E, blocks.firsts, shared), out)
    M.index_copy_(0, blocks.onward, out)
    return M, logs


def _scan_forwards(left: Tensor, blocks: Blocks, M: Tensor, logs: Tensor) -> None:
    """left of the first rows of blocks: u_{k+1} = u_k M_k."""
    u = M.new_ones(len(blocks.forwards[0].block), M.shape[1])
    for scan in blocks.forwards:
        score = u[: len(scan.block)].to(logs.dtype).log() + logs.index_select(0, scan.block)
        score = (score - score.amax(1, keepdim=True)).exp().to(M.dtype)
        u = torch.bmm(score[:, None], M.index_select(0, scan.block))[:, 0]
        u = u / u.amax(1, keepdim=True)
        left.index_copy_(0, scan.chain, u)  # chains are the first rows


def _scan_backwards(shape: First | Second, E: Tensor, right: Tensor, blocks: Blocks, M: Tensor, logs: Tensor) -> None:
    """right of the last rows of blocks: E z_{k+1}, where z_k = M_k z_{k+1}."""
    z = M.new_ones(len(blocks.backwards[0].block), M.shape[1])
    for scan in blocks.backwards:
        score = torch.bmm(M.index_select(0, scan.block), z[: len(scan.block), :, None])[..., 0].to(logs.dtype).log()
        score += logs.index_select(0, scan.block)
        z = (score - score.amax(1, keepdim=True)).exp().to(M.dtype)
        out = torch.empty_like(z)[:, None]
        shape.backwards(z[:, None], _at(E, scan.into, len(shape.arcs)), out)
        right.index_copy_(0, scan.row, (out / out.amax(2, keepdim=True))[:, 0])


class Counts(NamedTuple):
    """Expected minus observed counts."""

    nodes: Tensor  # [T, Q]
    arcs: Tensor  # [*arcs] in sum, or [T, *arcs] where each token has its own


def add_posteriors(
    shape: First | Second,
    psi: Tensor,
    E: Tensor,
    made: Sums,
    weight: Tensor,
    failed: Tensor,
    layout: Layout,
    sign: int,
    counts: Counts,
) -> None:
    """Add the probabilities of nodes and arcs, `sign` times `weight` [T]; not of rows that failed [T, 1]."""
    share = weight / made.mass
    here = (psi * made.left).masked_fill_(failed, 0)  # [T, Q]
    counts.nodes.add_((here * made.right).mul_(share[:, None]).masked_fill_(failed, 0), alpha=sign)
    before = torch.cat([here, here.new_zeros(1, here.shape[1])]).index_select(0, layout.before)
    after = (psi * made.right).mul_((share / made.scale)[:, None]).masked_fill_(failed, 0)
    if E.dim() > len(shape.arcs):
        counts.arcs.addcmul_(shape.outer(before, after), E, value=sign)
        return
    whole = len(before) // CHUNK * CHUNK
    for a, b, size in ((0, whole, CHUNK), (whole, len(before), len(before) - whole)):
        if b > a:
            parts = shape.counts(before[a:b].view(-1, size, shape.n_nodes), after[a:b].view(-1, size, shape.n_nodes))
            counts.arcs.add_(parts.sum(0, dtype=counts.arcs.dtype) * E, alpha=sign)
