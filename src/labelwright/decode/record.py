"""What every decoder answers."""

from typing import NamedTuple


class Decoding(NamedTuple):
    """One labelling of one sequence and what is known about it."""

    labels: list[str]
    score: float
    log_probability: float | None  # None on models without probabilities
    exact: bool  # proven to be the most probable labelling
    gap: float | None  # 0 when exact; an upper bound on the probability missed; None where the decoder has none
    latent_paths: int | None = None  # counters, where a decoder keeps them
    label_paths: int | None = None
    mass: float | None = None
    expansions: int | None = None
