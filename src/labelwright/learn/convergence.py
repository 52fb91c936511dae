"""How far a perceptron separates its training data, and how many mistakes it can make (paper 003, section 3.2)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.structures.lattice import Margins

Array = NDArray[Any]
TRIED = 2000  # margins for which the bound of theorem 3 is computed


class Convergence(NamedTuple):
    """How the weights of a model separate its training sequences."""

    separable: float  # share whose best path has the gold labels and no other labels score as much
    strictly_separable: float  # share whose every gold path scores above all others (definition 2)
    margin: float | None  # smallest distance of the worst gold path above all others, for weights of norm 1
    mistake_bound: float | None  # what theorem 2 (strictly separable data) or 3 (any data) allows
    theorem: int | None


class LatentSeparability(NamedTuple):
    """What theorem 1 says of latent states where a vector U of norm 1 separates the data without them."""

    plain_margin: float  # delta of U
    expansion: float  # T = sqrt(sum m_i u_i^2): the norm of U copied to all states, where u_i has m_i copies
    margin_bound: float  # delta / T: some vector of norm 1 separates the data latently by as much
    mistake_bound: float | None  # theorem 2; None where the updates are not those of the theorem


def latent_separability(
    plain_margin: float, expansion: float, norm_of_features: float | None, start: float
) -> LatentSeparability:
    """delta / T, and 2 M^2 / (delta / T)^2 mistakes at most from zero; a start of norm a allows 2 a / (delta / T) more.

    >>> latent_separability(1.0, 2.0, 3.0, 0.0)  # 2 T^2 M^2 / delta^2
    LatentSeparability(plain_margin=1.0, expansion=2.0, margin_bound=0.5, mistake_bound=72.0)
    """
    margin, bound = plain_margin / expansion, None
    if norm_of_features is not None:
        bound = 2 * norm_of_features**2 / margin**2 + 2 * start / margin
    return LatentSeparability(plain_margin, expansion, margin, bound)


def convergence(
    margins: list[Margins], norm_of_weights: float, norm_of_features: float | None, passes: int, start: float
) -> Convergence:
    """Summarise the margins of all training sequences; without a norm of features, no theorem applies."""
    best, worst, other = (np.array(column) for column in zip(*margins, strict=True))
    margin = bound = theorem = None
    if norm_of_weights > 0:
        gaps = (worst - other) / norm_of_weights
        smallest = float(gaps.min(initial=np.inf))
        margin = smallest if np.isfinite(smallest) else None
        if norm_of_features is not None:
            bound, theorem = mistake_bound(gaps, norm_of_features, passes, start)
    return Convergence(float((best > other).mean()), float((worst > other).mean()), margin, bound, theorem)


def mistake_bound(gaps: Array, norm: float, passes: int = 1, start: float = 0.0) -> tuple[float, int]:
    """min over d of (R + D)^2 / d^2 with R = sqrt(2) M and D^2 = sum_i max(0, d - g_i)^2 (theorem 3; with D = 0 theorem
    2), and which theorem it is by.

    gaps [N] are the g_i of definition 3 for weights of norm 1; several passes are one over as many copies of the data.
    Every d gives a bound, so a grid of them does.  From a start of norm a instead of zero, k updates end at a norm of
    at least k d - a, and (k d - a)^2 <= (1 + D / R) (a^2 + k (R^2 + R D)) in the extended space of the proof.

    >>> bound, theorem = mistake_bound(np.array([0.5, 2.0, 1.0]), norm=3.0, passes=10**6)  # 2 M^2 / d^2 with d = 0.5
    >>> round(bound, 6), theorem
    (72.0, 2)
    """
    finite = np.sort(gaps[np.isfinite(gaps)])
    largest = 100 * max(2 * float(np.abs(finite).max(initial=0.0)), norm)
    smallest = float(finite[0]) if len(finite) and finite[0] > 0 else 1e-9 * largest
    tried = np.append(smallest, np.geomspace(smallest, largest, TRIED))
    below = np.searchsorted(finite, tried)
    sums, squares = (np.concatenate([[0.0], np.cumsum(finite**power)]) for power in (1, 2))
    short = np.maximum(0.0, below * tried**2 - 2 * tried * sums[below] + squares[below])
    longest, missing = max(np.sqrt(2) * norm, 1e-300), np.sqrt(passes * short)
    once = (longest + missing) ** 2 + 2 * start * tried
    bounds = (once + np.hypot(once, 2 * tried * start * np.sqrt(missing / longest))) / (2 * tried**2)
    best = int(bounds.argmin())
    return float(bounds[best]), 2 if short[best] == 0 else 3
