"""Latent-dynamic inference (Sun & Tsujii 2009, figure 3): labellings from the best latent paths, one by one."""

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.decode.checks import check_seconds, check_whole
from labelwright.decode.paths import SuffixPool, ranked
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.kernels import paths as kernels
from labelwright.kernels.tables import BASE
from labelwright.structures.lattice import Lattice, posterior
from labelwright.structures.states import StateSpace

Array = NDArray[Any]
N_PATHS = 30  # the paper's LDI-A
SLICE = 500  # latent paths between two looks at the clock
MAX_SUFFIXES = 20_000_000  # with no limit on n, the search stops here (about a gigabyte) without a proof,
MAX_LABELS = 100_000_000  # or when the labellings have so many labels together


class Listed(NamedTuple):
    """The labellings of LDI with their exact probabilities, in the order of its search."""

    labels: Array  # [M, T]
    log_probabilities: Array  # [M]
    log_z: float
    latent_paths: int
    mass: float


def candidates(lattice: Lattice, n: int = N_PATHS, alpha: float = 1.0, time_limit: float | None = None) -> Listed:
    """Run LDI: n latent paths at most (0: no limit); alpha below 1 loosens the stopping rule (equation 9)."""
    check_whole("n", n, 0)
    n = min(n, 1 << 60)
    if not isinstance(alpha, int | float | np.floating) or not 0 < alpha <= 1:
        raise OptionError(f"alpha: expected a number above 0 and up to 1, got {alpha!r}")
    check_seconds(time_limit)
    graph, T = lattice.graph, len(lattice.node)
    searched, pool = ranked(lattice), SuffixPool.empty(64 + 4 * T)
    log_z = posterior(lattice).log_z
    labels, log_p, slots = np.empty((32, T), np.int32), np.empty(32), np.full(128, -1, np.int32)
    begun = time.monotonic()
    while True:
        taken = int(pool.counts[kernels.TAKEN])
        stop = n if time_limit is None else taken + SLICE if n == 0 else min(n, taken + SLICE)
        status = kernels.latent_dynamic_inference(
            searched, graph.contexts, pool, graph.label_of_node, log_z, stop, alpha, labels, log_p, slots, BASE
        )
        if status == kernels.DONE or (status == kernels.LIMIT and stop == n):
            break
        if time_limit is not None and time.monotonic() - begun >= time_limit:
            break
        if pool.counts[kernels.MADE] + 2 > len(pool.heap):
            if len(pool.heap) >= MAX_SUFFIXES:
                break
            pool = pool.grown(2 * len(pool.heap))
        if pool.counts[kernels.LABELLINGS] == len(labels):
            if labels.size >= MAX_LABELS:
                break
            labels = np.concatenate([labels, np.empty_like(labels)])
            log_p = np.concatenate([log_p, np.empty_like(log_p)])
            slots = np.full(4 * len(labels), -1, np.int32)
    m = int(pool.counts[kernels.LABELLINGS])
    return Listed(labels[:m], log_p[:m], log_z, int(pool.counts[kernels.TAKEN]), float(pool.last[1]))


def ldi(
    lattice: Lattice,
    space: StateSpace,
    probabilities: bool = True,
    n: int = N_PATHS,
    alpha: float = 1.0,
    time_limit: float | None = None,
) -> Decoding:
    """The best labelling of LDI's list; `exact` when no unseen labelling can be more probable."""
    listed = candidates(lattice, n, alpha, time_limit)
    if len(listed.labels) == 0:
        return Decoding([], -np.inf, -np.inf, False, None)
    best = int(listed.log_probabilities.argmax())
    log_p = float(listed.log_probabilities[best])
    unseen = max(0.0, 1.0 - listed.mass)
    exact = bool(np.exp(log_p) >= unseen)
    return Decoding(
        [space.labels[y] for y in listed.labels[best]],
        log_p + listed.log_z,
        log_p,
        exact,
        0.0 if exact else unseen - float(np.exp(log_p)),
        latent_paths=listed.latent_paths,
        label_paths=len(listed.labels),
        mass=min(1.0, listed.mass),
    )
