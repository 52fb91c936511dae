"""Checks of the options of decoders."""

from collections.abc import Collection
from typing import Any

import numpy as np

from labelwright.errors import OptionError

MOST = 100_000  # of best paths or labellings: more might not fit into memory


def check_decoder(name: str, known: Collection[str]) -> None:
    """Refuse the name of a decoder that there is not."""
    if name not in known:
        raise OptionError(f"decoder: expected one of {', '.join(known)}, got {name!r}")


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number in these bounds."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        bounds = f"{least} or more" if most is None else f"{least} to {most:,}"
        raise OptionError(f"{name}: expected a whole number, {bounds}, got {value!r}")


def check_seconds(value: Any) -> None:
    """Refuse what is not a length of time."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if value is not None and not (number and value >= 0):
        raise OptionError(f"time_limit: expected 0 seconds or more, got {value!r}")
