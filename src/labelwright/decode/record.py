"""What every decoder answers."""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import split_label
from labelwright.errors import OptionError
from labelwright.pages import hues_of, mark, tag
from labelwright.parallel import computed_once
from labelwright.structures.lattice import (
    Lattice,
    Posterior,
    best_path,
    labelling_weight,
    posterior,
)

MOST = 100_000  # of best paths or labellings: more might not fit into memory


class Known:
    """A lattice with its best path and its sums over all paths, each computed when it is first
    asked for."""

    solved: Any = None  # what the decoder exact found, where it was asked for a batch

    def __init__(self, lattice: Lattice):
        self.lattice = lattice

    @computed_once
    def path(self) -> tuple[NDArray[Any], float]:
        """The nodes [T] of the best path, and its score."""
        return best_path(self.lattice)

    @computed_once
    def sums(self) -> Posterior:
        return posterior(self.lattice)


class Decoding(NamedTuple):
    """One labelling of one sequence and what is known about it."""

    labels: list[str]  #: one for each token
    score: float  #: of the labelling, before normalisation
    log_probability: float | None  #: log P(labels | sentence); None on models without probabilities
    exact: bool  #: proven to be the most probable labelling
    #: 0 when exact; an upper bound on the probability missed; None where the decoder has none
    gap: float | None
    latent_paths: int | None = None  #: latent paths that the decoder ldi looked at
    label_paths: int | None = None  #: labellings met by the decoder ldi
    mass: float | None = None  #: the probability of the labellings that the decoder met
    expansions: int | None = None  #: steps of the search for an exact answer
    confidence: float | None = None  #: of a calibrated model without probabilities
    #: with rules: "optimal", "time limit" or "limit" (of what could be proven)
    status: str | None = None
    #: with rules: "automaton", "search" (of the n best labellings) or "solver"
    method: str | None = None

    def __repr__(self) -> str:
        known = [f"{name}={value!r}" for name, value in self._asdict().items() if value is not None]
        return f"Decoding({', '.join(known)})"

    def _repr_html_(self) -> str:
        """The labels in the colours of their types, and how sure they are."""
        types = [split_label(label)[1] or label for label in self.labels]
        hues, drawn = hues_of(types), list[str]()
        for label, kind in zip(self.labels, types, strict=True):
            drawn.append(label if label == "O" else mark(label, "", None, {"": hues[kind]}))
        sure = (
            None
            if self.log_probability is None
            else f"probability {float(np.exp(self.log_probability)):.4g}"
        )
        sure = f"confidence {self.confidence:.4g}" if self.confidence is not None else sure
        proof = (
            "proven best"
            if self.exact
            else None
            if self.gap is None
            else f"gap at most {self.gap:.4g}"
        )
        about = ", ".join(each for each in (sure, proof) if each)
        return tag("div", *(part for each in drawn for part in (each, " ")), tag("small", about))


class Ranked(NamedTuple):
    """Labellings, the best first, with their weights: logarithms up to log Z, or plain scores."""

    codes: list[NDArray[Any]]  # each [T]
    weights: list[float]


class NoSumsError(OptionError):
    """The rules on a sentence leave too many possibilities for sums over all of them."""


def impossible(sentence: int) -> OptionError:
    """The error for a sentence without any labelling that is allowed."""
    return OptionError(
        f"sentence {sentence}: no labelling satisfies the forced labels and the constraints"
    )


def judged(decoding: Decoding, known: Known, codes: NDArray[Any]) -> Decoding:
    """The record with the labelling's probability; half of the mass is a proof, since no other can
    have more."""
    weight = labelling_weight(known.lattice, codes)
    log_p = min(0.0, weight - known.sums.log_z) if weight > -np.inf else -np.inf
    if decoding.exact:
        return decoding._replace(log_probability=log_p)
    p = float(np.exp(log_p))
    return decoding._replace(log_probability=log_p, exact=p >= 0.5, gap=max(0.0, 1.0 - 2.0 * p))


# -- checks of options -----------------------------------------------------------------------------


def check_decoder(name: str, known: Collection[str]) -> None:
    if name not in known:
        raise OptionError(f"decoder: expected one of {', '.join(known)}, got {name!r}")


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number in these bounds."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        bounds = f"{least} or more" if most is None else f"{least} to {most:,}"
        raise OptionError(f"{name}: expected a whole number, {bounds}, got {value!r}")


def check_seconds(value: Any) -> None:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(
        value, bool
    )
    if value is not None and not (number and value >= 0):
        raise OptionError(f"time_limit: expected 0 seconds or more, got {value!r}")
