"""The best label at each token by itself (BMP): fewest wrong tokens expected, whatever the labelling as a whole."""

from labelwright.decode.record import Decoding, judged
from labelwright.structures.lattice import Lattice, best_path, label_marginals, posterior
from labelwright.structures.states import StateSpace


def marginal(lattice: Lattice, space: StateSpace, probabilities: bool = True) -> Decoding:
    """The most probable label of every token."""
    sums = posterior(lattice)
    codes = label_marginals(sums.nodes, lattice.graph).argmax(axis=1).astype("int32")
    exact = not space.latent and bool((lattice.graph.label_of_node[best_path(lattice)[0]] == codes).all())
    found = Decoding([space.labels[y] for y in codes], 0.0, None, exact, 0.0 if exact else None)
    found = judged(found, lattice, codes, sums.log_z)
    assert found.log_probability is not None
    return found._replace(score=found.log_probability + sums.log_z)
