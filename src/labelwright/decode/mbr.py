"""Minimum Bayes risk: the candidate with the highest expected gain (Sun & Tsujii 2009, equation 13)."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.spans import spans_of
from labelwright.decode.checks import check_whole
from labelwright.decode.costs import Costs, cheapest, cost_matrix, refuse_with_costs
from labelwright.decode.exact import labellings
from labelwright.decode.ldi import candidates as ldi_candidates
from labelwright.decode.record import Decoding, judged
from labelwright.errors import OptionError
from labelwright.structures.lattice import Lattice, label_marginals, posterior
from labelwright.structures.states import StateSpace

Labels = Sequence[str]
Gain = Callable[[Labels, Labels], float]
N_CANDIDATES = 30
MOST_CANDIDATES = 2000  # all are compared with all


def chunk_f1(texts: Sequence[Labels]) -> NDArray[np.float64]:
    """F1 between the chunks of every two labellings [n, n]; 1 when neither has any.

    >>> chunk_f1([["B-NP", "O"], ["B-NP", "B-NP"]]).round(2).tolist()
    [[1.0, 0.67], [0.67, 1.0]]
    """
    chunks = [frozenset(spans_of(labels)) for labels in texts]
    gains = np.ones((len(texts), len(texts)))
    for i, a in enumerate(chunks):
        for j, b in enumerate(chunks[:i]):
            if a or b:
                gains[i, j] = gains[j, i] = 2 * len(a & b) / (len(a) + len(b))
    return gains


def token_accuracy(texts: Sequence[Labels]) -> NDArray[np.float64]:
    """The share of tokens on which every two labellings agree [n, n]."""
    codes = np.unique(np.array(texts), return_inverse=True)[1].reshape(len(texts), -1)
    return np.stack([(codes == one).mean(axis=1) for one in codes])


def _cheapest(lattice: Lattice, space: StateSpace, costs: Costs) -> Decoding:
    """The labelling whose expected cost, the sum over its tokens, is lowest."""
    sums = posterior(lattice)
    codes = cheapest(label_marginals(sums.nodes, lattice.graph), cost_matrix(costs, space.labels), lattice)
    decoding = judged(
        Decoding([space.labels[y] for y in codes.tolist()], 0.0, None, False, None), lattice, codes, sums.log_z
    )
    assert decoding.log_probability is not None
    return decoding._replace(score=decoding.log_probability + sums.log_z)


GAINS = {"f1": chunk_f1, "accuracy": token_accuracy}


def mbr(
    lattice: Lattice,
    space: StateSpace,
    probabilities: bool = True,
    gain: str | Gain = "f1",
    n: int = N_CANDIDATES,
    candidates: str = "nbest",
    max_expansions: int | None = None,
    time_limit: float | None = None,
    costs: Costs | None = None,
) -> Decoding:
    """Re-rank the n best labellings, or with candidates="ldi" those of LDI, by expected gain.

    With costs of wrong labels (decode.costs): the labelling of the lowest expected cost among all."""
    if costs is not None:
        given = {"gain": gain != "f1", "n": n != N_CANDIDATES, "candidates": candidates != "nbest"}
        refuse_with_costs([name for name, other in given.items() if other])
        return _cheapest(lattice, space, costs)
    if not callable(gain) and gain not in GAINS:
        raise OptionError(f"gain: expected one of {', '.join(GAINS)}, or a function of two labellings, got {gain!r}")
    check_whole("n", n, 0 if candidates == "ldi" else 1, None if candidates == "ldi" else MOST_CANDIDATES)
    if candidates == "ldi":
        listed = ldi_candidates(lattice, n, time_limit=time_limit)
        most_probable = np.argsort(-listed.log_probabilities, kind="stable")[:MOST_CANDIDATES]
        codes, log_p = list(listed.labels[most_probable]), listed.log_probabilities[most_probable]
        log_z, latent = listed.log_z, listed.latent_paths
        proven = 0
    elif candidates == "nbest":
        searched = labellings(lattice, n, max_expansions, time_limit)
        codes, log_z, latent, proven = searched.labels, searched.log_z, None, searched.proven
        log_p = np.minimum(0.0, np.array(searched.log_weights) - log_z)
    else:
        raise OptionError(f"candidates: expected 'nbest' or 'ldi', got {candidates!r}")
    if not codes:
        return Decoding([], -np.inf, -np.inf, False, None)
    texts = [[space.labels[y] for y in c] for c in codes]
    if callable(gain):
        gains = np.array([[gain(chosen, other) for other in texts] for chosen in texts], np.float64)
    else:
        gains = GAINS[gain](texts)
    best = int(np.argmax(gains @ np.exp(log_p - log_p.max())))  # long sentences: all may underflow
    exact = proven > 0 and log_p[best] == log_p.max()
    return Decoding(
        texts[best],
        float(log_p[best]) + log_z,
        float(log_p[best]),
        bool(exact),
        0.0 if exact else None,
        latent_paths=latent,
        label_paths=len(codes),
        mass=min(1.0, float(np.exp(log_p).sum())),
    )
