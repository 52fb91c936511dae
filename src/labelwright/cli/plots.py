"""Drawings, by matplotlib where it is installed (the extra `plots`)."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labelwright.cli.common import check_target
from labelwright.errors import OptionError

FORMATS = (".png", ".svg", ".pdf")


def check_plot(target: str, inputs: Iterable[str]) -> None:
    """Refuse a drawing that cannot be made, before any work is done for it."""
    if Path(target).suffix.lower() not in FORMATS:
        raise OptionError(f"{target}: expected the name of a file ending in {', '.join(FORMATS)} to draw")
    check_target(target, inputs)
    if find_spec("matplotlib") is None:
        raise OptionError("--plot: needs matplotlib; install it with: pip install 'labelwright[plots]'")


def draw_path_mass(curves: Mapping[str, Any], target: str) -> None:
    """The probability of the n best latent paths against n, a line for each file (Sun & Tsujii 2009, figure 2)."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for path, curve in curves.items():
        n = range(1, len(curve) + 1)
        (line,) = axes.plot(n, curve, linewidth=2, label=Path(path).name)
        axes.annotate(
            f"{curve[-1]:.0%}",
            (len(curve), curve[-1]),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=line.get_color(),
            annotation_clip=False,
        )
    axes.set_xlim(0, max(len(curve) for curve in curves.values()))
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("n best latent paths of a sentence")
    axes.set_ylabel("probability mass, mean over sentences")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(target, dpi=150)
