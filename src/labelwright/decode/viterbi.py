"""The best path: exact where every label has one state; on a latent model the best hidden path (BHP)."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from labelwright.decode.record import Decoding, judged
from labelwright.structures.lattice import Lattice, Posterior, best_path, label_marginals, posterior
from labelwright.structures.states import StateSpace

Array = NDArray[Any]


def viterbi(
    lattice: Lattice,
    space: StateSpace,
    probabilities: bool = True,
    path: Callable[[], tuple[Array, float]] | None = None,
    sums: Callable[[], Posterior] | None = None,
) -> Decoding:
    """The labels of the best path, with the probability of the labelling unless `probabilities` is off.

    `path` and `sums` give the best path and the sums over all paths, where they are known."""
    nodes, score = path() if path is not None else best_path(lattice)
    codes = lattice.graph.label_of_node[nodes]
    exact = not space.latent
    decoding = Decoding([space.labels[y] for y in codes.tolist()], score, None, exact, 0.0 if exact else None)
    if not probabilities:
        return decoding
    return judged(decoding, lattice, codes, sums().log_z if sums is not None else None)


# -- the best label at each token by itself ---------------------------------------------------------------------------


def marginal(
    lattice: Lattice,
    space: StateSpace,
    probabilities: bool = True,
    path: Callable[[], tuple[Array, float]] | None = None,
    sums: Callable[[], Posterior] | None = None,
) -> Decoding:
    """The most probable label of every token.

    `path` and `sums` give the best path and the sums over all paths, where they are known."""
    known = sums() if sums is not None else posterior(lattice)
    codes = label_marginals(known.nodes, lattice.graph).argmax(axis=1).astype("int32")
    nodes = (path() if path is not None else best_path(lattice))[0]
    exact = not space.latent and bool((lattice.graph.label_of_node[nodes] == codes).all())
    decoding = Decoding([space.labels[y] for y in codes.tolist()], 0.0, None, exact, 0.0 if exact else None)
    decoding = judged(decoding, lattice, codes, known.log_z)
    assert decoding.log_probability is not None
    return decoding._replace(score=decoding.log_probability + known.log_z)
