"""The best path: exact where every label has one state; on a latent model the best hidden path (BHP)."""

from labelwright.decode.record import Decoding, judged
from labelwright.structures.lattice import Lattice, best_path
from labelwright.structures.states import StateSpace


def viterbi(lattice: Lattice, space: StateSpace, probabilities: bool = True) -> Decoding:
    """The labels of the best path, with the probability of the labelling unless `probabilities` is off."""
    path, score = best_path(lattice)
    codes = lattice.graph.label_of_node[path]
    exact = not space.latent
    found = Decoding([space.labels[y] for y in codes], score, None, exact, 0.0 if exact else None)
    return judged(found, lattice, codes) if probabilities else found
