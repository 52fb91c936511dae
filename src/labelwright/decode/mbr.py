"""Minimum Bayes risk: the candidate with the highest expected gain (Sun & Tsujii 2009, equation
13)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.spans import spans_of
from labelwright.decode.exact import labellings
from labelwright.decode.paths import candidates as ldi_candidates
from labelwright.decode.paths import scored
from labelwright.decode.record import Decoding, Known, check_whole
from labelwright.errors import OptionError
from labelwright.structures.lattice import Lattice, best_path, label_marginals
from labelwright.structures.states import StateSpace
from labelwright.wording import like_label, some_of

Labels = Sequence[str]
Gain = Callable[[Labels, Labels], float]
N_CANDIDATES = 30
MOST_CANDIDATES = 2000  # all are compared with all
Array = NDArray[Any]
ANY = "*"
Costs = Mapping[tuple[str, str], float] | str


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


GAINS = {"f1": chunk_f1, "accuracy": token_accuracy}


def mbr(
    lattice: Lattice,
    space: StateSpace,
    known: Known | None = None,
    probabilities: bool = True,
    gain: str | Gain = "f1",
    n: int = N_CANDIDATES,
    candidates: str = "nbest",
    max_expansions: int | None = None,
    time_limit: float | None = None,
    costs: Costs | None = None,
) -> Decoding:
    """Re-rank the n best labellings, or with candidates="ldi" those of LDI, by expected gain.

    With costs of wrong labels (decode.costs): the labelling of the lowest expected cost among
    all."""
    if costs is not None:
        given = {"gain": gain != "f1", "n": n != N_CANDIDATES, "candidates": candidates != "nbest"}
        refuse_with_costs([name for name, other in given.items() if other])
        known = known or Known(lattice)
        shares = label_marginals(known.sums.nodes, lattice.graph)
        return scored(cheapest(shares, cost_matrix(costs, space.labels), lattice), space, known)
    if not callable(gain) and gain not in GAINS:
        raise OptionError(
            f"gain: expected one of {', '.join(GAINS)}, or a function of two labellings, got "
            f"{gain!r}"
        )
    check_whole(
        "n", n, 0 if candidates == "ldi" else 1, None if candidates == "ldi" else MOST_CANDIDATES
    )
    if candidates == "ldi":
        listed = ldi_candidates(lattice, n, time_limit=time_limit)
        most_probable = np.argsort(-listed.log_probabilities, kind="stable")[:MOST_CANDIDATES]
        codes, log_p = list(listed.labels[most_probable]), listed.log_probabilities[most_probable]
        log_z, latent = listed.log_z, listed.latent_paths
        proven = 0
    elif candidates == "nbest":
        searched = labellings(lattice, n, max_expansions, time_limit)
        log_z = (known or Known(lattice)).sums.log_z
        codes, latent, proven = searched.labels, None, searched.proven
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


# -- costs of wrong labels -------------------------------------------------------------------------


def refuse_with_costs(given: Iterable[str]) -> None:
    """Refuse options that choose among candidates."""
    for name in given:
        raise OptionError(
            f"{name}: costs choose among all labellings, without candidates; leave {name} out"
        )


def cost_matrix(costs: Costs, labels: Sequence[str]) -> Array:
    """The cost [L, L] of predicting the second label where the first is right: 0 for the right one,
    1 for another where nothing else is said.

    costs : {(right, predicted): cost}, or as a text B-PER>O=5,*>B-LOC=2; * is any label, and later
        entries go before earlier ones

    >>> cost_matrix("A>B=5", ["A", "B"]).tolist()
    [[0.0, 5.0], [1.0, 0.0]]
    """
    matrix = 1.0 - np.eye(len(labels))
    for (right, predicted), cost in _entries(costs).items():
        if not isinstance(cost, Real) or isinstance(cost, bool) or not 0 <= float(cost) < np.inf:
            raise OptionError(
                f"costs: {right}>{predicted}: expected a number of 0 or more, got {cost!r}"
            )
        rows, columns = _places(right, labels), _places(predicted, labels)
        matrix[np.ix_(rows, columns)] = np.where(rows[:, None] == columns, 0.0, float(cost))
    return matrix


def costs_among(
    costs: Costs, labels: Sequence[str], some: Sequence[str]
) -> dict[tuple[str, str], float]:
    """The costs between some of the labels of a model.

    >>> costs_among("*>B=5,C>A=2", ["A", "B", "C"], ["A", "B"])
    {('A', 'A'): 0.0, ('A', 'B'): 5.0, ('B', 'A'): 1.0, ('B', 'B'): 0.0}
    """
    matrix, code = cost_matrix(costs, labels), {label: code for code, label in enumerate(labels)}
    return {
        (right, predicted): float(matrix[code[right], code[predicted]])
        for right in some
        for predicted in some
    }


def _entries(costs: Costs) -> Mapping[tuple[str, str], float]:
    """Costs by pairs of labels."""
    if not isinstance(costs, str):
        if not isinstance(costs, Mapping) or not all(
            isinstance(key, tuple) and len(key) == 2 for key in costs
        ):
            raise OptionError(f"costs: expected {{(right, predicted): cost}}, got {costs!r:.60}")
        return costs
    found = re.findall(r"([^>]+)>(.+?)=([\d.eE+-]+)(?:,|$)", costs)
    if not found or ",".join(f"{a}>{b}={c}" for a, b, c in found) != costs.rstrip(","):
        raise OptionError(
            f"costs: expected RIGHT>PREDICTED=X,... as in B-PER>O=5,*>B-LOC=2, got {costs!r}"
        )
    try:
        return {(a, b): float(c) for a, b, c in found}
    except ValueError:
        raise OptionError(f"costs: expected a number after =, got {costs!r}") from None


def _places(label: str, labels: Sequence[str]) -> Array:
    if label == ANY:
        return np.arange(len(labels))
    if label not in labels:
        has = f"which has {some_of(labels)}"
        raise OptionError(
            f"costs: no label {label!r} in this model, {has}{like_label(label, labels)}"
        )
    return np.array([list(labels).index(label)])


def cheapest(marginals: Array, matrix: Array, lattice: Lattice) -> Array:
    """The labels [T] with the lowest expected cost among the labellings that the lattice allows (by
    forced labels, the label scheme, forbidden transitions), from the probabilities of labels [T,
    L]: the best path by costs."""
    label = lattice.graph.label_of_node
    costs = (marginals @ matrix)[:, label]
    node = np.where(lattice.node > -np.inf, -costs, -np.inf)
    arc = np.where(lattice.arc > -np.inf, 0.0, -np.inf)
    codes: Array = label[best_path(Lattice(node, arc, lattice.graph))[0]]
    return codes
