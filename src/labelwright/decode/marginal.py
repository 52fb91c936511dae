"""The best label at each token by itself (BMP): fewest wrong tokens expected, whatever the labelling as a whole."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from labelwright.decode.record import Decoding, judged
from labelwright.structures.lattice import Lattice, Posterior, best_path, label_marginals, posterior
from labelwright.structures.states import StateSpace

Array = NDArray[Any]


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
