"""How many examples property tests draw.

An ordinary run draws a fifth of the number that a test names, LABELWRIGHT_TESTS=all that number,
the same every time; LABELWRIGHT_TESTS=nightly ten times as many, and new ones in every run.
"""

import os

from hypothesis import settings

SHARES = {"test": 0.2, "all": 1.0, "nightly": 10.0}
RUN = os.environ.get("LABELWRIGHT_TESTS") or "test"
assert RUN in SHARES, f"LABELWRIGHT_TESTS: expected one of {', '.join(SHARES)}, got {RUN!r}"


def n_drawn(n: int) -> int:
    """The number of examples in this run where a test names n."""
    return max(5, round(n * SHARES[RUN]))


def drawn(n: int, parent: settings | None = None) -> settings:
    """Draw examples, n by name, with the other settings of `parent`."""
    return settings(parent, max_examples=n_drawn(n))


def load_profile() -> None:
    """Set what holds for all property tests of this run."""
    nightly = RUN == "nightly"
    settings.register_profile(
        "labelwright",
        max_examples=n_drawn(100),
        derandomize=not nightly,
        deadline=None,
        database=None,
        print_blob=True,
    )
    settings.load_profile("labelwright")
