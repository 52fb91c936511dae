"""Figures of the papers, drawn by matplotlib where it is installed (the extra `plots`)."""

from importlib.util import find_spec
from pathlib import Path

from labelwright.reproduce.experiment import Figure

MARKERS = "os^Dv<>*"
DENSE = 60  # points of a curve from which on they are not marked


def can_draw() -> bool:
    """Whether figures can be drawn here."""
    return find_spec("matplotlib") is not None


def draw(figure: Figure, target: Path) -> None:
    """Draw the panels of a figure side by side."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(5.2 * len(figure.panels), 3.9), layout="constrained")
    for axes, panel in zip(drawing.subplots(1, len(figure.panels), squeeze=False)[0], figure.panels, strict=True):
        for number, curve in enumerate(panel.curves):
            marker = "" if len(curve.x) > DENSE and not panel.points else MARKERS[number % len(MARKERS)]
            line = "none" if panel.points else "-"
            axes.plot(curve.x, curve.y, marker=marker, markersize=4, linestyle=line, linewidth=1.8, label=curve.name)
        if panel.log_x:
            axes.set_xscale("log")
        axes.set_xlabel(panel.x_label)
        axes.set_ylabel(panel.y_label)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if len(panel.curves) > 1 or panel.curves[0].name:
            axes.legend(frameon=False, fontsize=8)
    drawing.savefig(target, dpi=140)
