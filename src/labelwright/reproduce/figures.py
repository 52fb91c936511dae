"""Figures of the papers, drawn by matplotlib where it is installed (the extra `plots`)."""

from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

from labelwright.reproduce.experiment import Figure

MARKERS = "os^Dv<>*"
IN_A_ROW = 3  # panels
DENSE = 60  # points of a curve from which on they are not marked


def can_draw() -> bool:
    """Whether figures can be drawn here."""
    return find_spec("matplotlib") is not None


def draw(figure: Figure, target: Path) -> None:
    """Draw the panels of a figure, up to three side by side."""
    from matplotlib.figure import Figure as Drawing

    n_columns = min(len(figure.panels), IN_A_ROW)
    n_rows = -(-len(figure.panels) // n_columns)
    drawing = Drawing(figsize=(5.2 * n_columns, 3.9 * n_rows), layout="constrained")
    for number, panel in enumerate(figure.panels, start=1):
        axes = drawing.add_subplot(n_rows, n_columns, number)
        for curve, sign in zip(panel.curves, cycle(MARKERS), strict=False):
            marker = "" if len(curve.x) > DENSE and not panel.points else sign
            line = "none" if panel.points else "-"
            axes.plot(curve.x, curve.y, marker=marker, markersize=4, linestyle=line, linewidth=1.8, label=curve.name)
        if panel.log_x:
            axes.set_xscale("log")
        axes.set_xlabel(panel.x_label)
        axes.set_ylabel(panel.y_label)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if len(panel.curves) > 1 or panel.curves[0].name:
            axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)  # above the axes
    drawing.savefig(target, dpi=140)
