"""The best path: exact where every label has one state; on a latent model the best hidden path (BHP)."""

from labelwright.decode.record import Decoding
from labelwright.lattice import Lattice, best_path, posterior
from labelwright.states import StateSpace


def viterbi(lattice: Lattice, space: StateSpace, probabilities: bool = True) -> Decoding:
    """The labels of the best path, with its probability unless `probabilities` is off."""
    path, score = best_path(lattice)
    exact = space.n_states == space.n_labels
    log_probability = min(0.0, score - posterior(lattice).log_z) if probabilities else None
    labels = [space.labels[label] for label in space.label_of[path]]
    return Decoding(labels, score, log_probability, exact, 0.0 if exact else None)
