"""labelwright warmup: kept for one version, for scripts and images that call it."""

from typing import Any

from labelwright.cli.options import command, option
from labelwright.cli.show import show


@command(
    option("--cache DIR", "Ignored."),
    option("--only tag", "Ignored."),
    option("--cpu native|generic", "Ignored."),
)
def warmup_command(_: Any) -> None:
    """Do nothing: kernels are compiled when labelwright is built."""
    show("nothing to do: kernels are compiled when labelwright is built; leave warmup out")
