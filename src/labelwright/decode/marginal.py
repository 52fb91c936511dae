"""The best label at each token by itself (BMP): fewest wrong tokens expected, whatever the labelling as a whole."""

from labelwright.decode.record import Decoding
from labelwright.kernels import chain
from labelwright.lattice import Lattice, best_path, label_marginals, posterior
from labelwright.states import StateSpace


def marginal(lattice: Lattice, space: StateSpace, probabilities: bool = True) -> Decoding:
    """The most probable label of every token; exact only when it is also the best path."""
    sums = posterior(lattice)
    chosen = label_marginals(sums.states, space).argmax(axis=1)
    path = space.first[chosen]
    score = float(chain.path_score(lattice.node, lattice.arc, path))
    best, _ = best_path(lattice)
    exact = bool((space.label_of[best] == chosen).all())
    labels = [space.labels[label] for label in chosen]
    return Decoding(labels, score, min(0.0, score - sums.log_z), exact, 0.0 if exact else None)
