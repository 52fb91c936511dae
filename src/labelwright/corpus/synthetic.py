"""Synthetic data with latent dependencies, from a hidden Markov model (Sun et al. 2009, section 4 and figure 2).

Each of two labels has two states, and the chain cycles through h1 h3 h4 h2, so that the labels read y1 y2 y2 y1 y1 y2
y2 y1 ...: what follows a label depends on its state, which no first-order model of labels can represent.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Corpus, compacted
from labelwright.errors import OptionError

CYCLE = (0, 2, 3, 1)  # h1 h3 h4 h2
STATES = ("h1", "h2", "h3", "h4")
UNIFORM = "uniform"


class HMM(NamedTuple):
    """A hidden Markov model whose states belong to labels."""

    labels: tuple[str, ...]  # [L]
    symbols: tuple[str, ...]  # [X]
    label_of: NDArray[np.int32]  # [S]
    start: NDArray[np.float64]  # [S]  P(state at the first token)
    transition: NDArray[np.float64]  # [S, S]  P(second | first)
    emission: NDArray[np.float64]  # [S, X]  P(symbol | state)


def make_hmm(
    p: float = 0.9, emission: float | None = 0.1, self_transitions: bool = True, start: str = STATES[0]
) -> HMM:
    """The model of figure 2: the next state of the cycle with probability p, and each of the others with the same share
    of what is left; states of y1 emit x1 with (1 + emission) / 2, those of y2 with (1 - emission) / 2.

    self_transitions : whether the state itself is among the others
    start : the first state, h1 (labels y1 y2 y2 y1) to h4, or uniform, which is the stationary distribution, too

    >>> [make_hmm(0.7, self_transitions=wanted).transition.round(2)[0].tolist() for wanted in (True, False)]
    [[0.1, 0.1, 0.7, 0.1], [0.0, 0.15, 0.7, 0.15]]
    """
    _check_model(p, emission, self_transitions, start)
    label_of = np.array([0, 0, 1, 1], np.int32)
    transition = np.full((4, 4), (1 - float(p)) / (3 if self_transitions else 2))
    for state, following in zip(CYCLE, CYCLE[1:] + CYCLE[:1], strict=True):
        if not self_transitions:
            transition[state, state] = 0.0
        transition[state, following] = p
    first = np.full(4, 0.25) if start == UNIFORM else (np.arange(4) == STATES.index(start)).astype(np.float64)
    if emission is None:
        return HMM(("y1", "y2"), ("x1",), label_of, first, transition, np.ones((4, 1)))
    likely, unlikely = (1 + float(emission)) / 2, (1 - float(emission)) / 2
    emissions = np.array([[likely, unlikely], [unlikely, likely]])[label_of]
    return HMM(("y1", "y2"), ("x1", "x2"), label_of, first, transition, emissions)


def _check_model(p: Any, emission: Any, self_transitions: Any, start: Any) -> None:
    """Refuse what makes no hidden Markov model."""
    if not _is_real(p) or not 0 < p <= 1:
        raise OptionError(f"p: expected a probability above 0 and at most 1, got {p!r}")
    if emission is not None and (not _is_real(emission) or not 0 <= emission < 1):
        raise OptionError(
            f"emission: expected a number from 0 to below 1, or None for constant symbols, got {emission!r}"
        )
    if not isinstance(self_transitions, bool | np.bool_):
        raise OptionError(f"self_transitions: expected True or False, got {self_transitions!r}")
    if start not in (*STATES, UNIFORM):
        raise OptionError(f"start: expected one of {', '.join(STATES)}, {UNIFORM}, got {start!r}")


def synthetic_hmm(
    n: int = 3000,
    length: int = 10,
    p: float = 0.9,
    emission: float | None = 0.1,
    seed: int = 0,
    self_transitions: bool = True,
    start: str = STATES[0],
) -> Corpus:
    """Draw n sequences of a hidden Markov model in which the next label depends on a latent state (see `make_hmm`).

    n : number of sequences
    length : tokens of each
    p : probability to follow the cycle of states h1 h3 h4 h2, whose labels are y1 y2 y2 y1
    emission : how informative the symbols x1 and x2 are about the labels, from 0 (nothing) to below 1; None: always x1
    seed : the same seed gives the same sequences, n only how many of them; the labels do not depend on `emission`
    self_transitions : whether the state itself is among those that share 1 - p
    start : the first state, h1 to h4, or "uniform": each of them is as probable

    >>> corpus = synthetic_hmm(100, length=6, p=1.0)
    >>> len(corpus), corpus.names, corpus.y[0]
    (100, ('symbol', 'label'), ['y1', 'y2', 'y2', 'y1', 'y1', 'y2'])
    """
    for name, value, least in (("n", n, 1), ("length", length, 1), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise OptionError(f"{name}: expected a whole number of {least} or more, got {value!r}")
    n, length, hmm = int(n), int(length), make_hmm(p, emission, self_transitions, start)
    dice = np.random.Generator(np.random.PCG64(int(seed))).random((n, length, 2))  # for states, for symbols
    transitions, emissions = np.cumsum(hmm.transition, axis=1), np.cumsum(hmm.emission, axis=1)
    paths = np.empty((n, length), np.int32)
    paths[:, 0] = _drawn(np.cumsum(hmm.start)[None], dice[:, 0, 0])
    for t in range(1, length):
        paths[:, t] = _drawn(transitions[paths[:, t - 1]], dice[:, t, 0])
    states = paths.reshape(-1)  # [T]
    symbols = _drawn(emissions[states], dice[:, :, 1].reshape(-1))  # [T]
    columns = compacted(list(hmm.symbols), symbols), compacted(list(hmm.labels), hmm.label_of[states])
    offsets = np.arange(n + 1, dtype=np.int64) * length
    further = "" if self_transitions else ", self_transitions=False"
    further += "" if start == STATES[0] else f", start={start}"
    source = f"synthetic_hmm({n}, {length}, p={p}, emission={emission}, seed={seed}{further})"
    return Corpus(("symbol", "label"), columns, offsets, "label", source)


def _drawn(cumulative: NDArray[np.float64], dice: NDArray[np.float64]) -> NDArray[np.int32]:
    """The outcomes [N] drawn by numbers [N] in [0, 1); the last of `cumulative` [N, outcomes] takes the rest."""
    outcomes: NDArray[np.int32] = np.sum(dice[:, None] >= cumulative[:, :-1], axis=1, dtype=np.int32)
    return outcomes


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
