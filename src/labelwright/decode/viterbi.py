"""The best path: exact where every label has one state; on a latent model the best hidden path (BHP)."""

from labelwright.decode.record import Decoding, judged
from labelwright.lattice import Lattice, best_path
from labelwright.states import StateSpace


def viterbi(lattice: Lattice, space: StateSpace, probabilities: bool = True) -> Decoding:
    """The labels of the best path, with the probability of the labelling unless `probabilities` is off."""
    path, score = best_path(lattice)
    codes = space.label_of[path]
    if not space.latent:
        found = Decoding([space.labels[y] for y in codes], score, None, True, 0.0)
        return judged(found, lattice, codes, space) if probabilities else found
    found = Decoding([space.labels[y] for y in codes], score, None, False, None)
    return judged(found, lattice, codes, space) if probabilities else found
