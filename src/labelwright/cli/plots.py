"""Plots, by matplotlib where it is installed (the extra `plots`)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelwright.cli.files import check_target
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.evaluate import CalibrationReport
    from labelwright.evaluate.changes import LabelChange

FORMATS = (".png", ".svg", ".pdf")
BARS = 12  # changes of labels that are drawn
# distinct for colour-blind readers
COLOURS = {"right": "#0072b2", "wrong": "#d55e00", "same": "#bbbbbb"}
SCORE = "F1 of chunks, or accuracy, in percent"


def check_plot(target: str, inputs: Iterable[str]) -> None:
    """Refuse a plot that cannot be made, before any work is done for it."""
    if Path(target).suffix.lower() not in FORMATS:
        raise OptionError(
            f"{target}: expected the name of a file ending in {', '.join(FORMATS)} to draw"
        )
    check_target(target, inputs)
    if find_spec("matplotlib") is None:
        raise OptionError(
            "--plot: needs matplotlib; install it with: pip install 'labelwright[plots]'"
        )


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _label(
    axes: Any,
    title: str,
    x: str,
    y: str = "",
    percent: str = "",
    open_sides: Sequence[str] = ("top",),
) -> None:
    """Titles, and the axes (of `xy`) that are shares."""
    from matplotlib.ticker import PercentFormatter

    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[list(open_sides)].set_visible(False)
    for name in percent:
        getattr(axes, f"{name}axis").set_major_formatter(PercentFormatter(1.0))


def draw_path_mass(curves: Mapping[str, Any], paths: str, target: str) -> None:
    """The probability of the n best `paths` (labellings, or latent paths) against n, a line for
    each file (Sun & Tsujii 2009, figure 2)."""
    figure = _figure(6.4, 4.0)
    axes = figure.subplots()
    for path, curve in curves.items():
        (line,) = axes.plot(range(1, len(curve) + 1), curve, linewidth=2, label=Path(path).name)
        place: Any = {
            "xytext": (4, 0),
            "textcoords": "offset points",
            "va": "center",
            "annotation_clip": False,
        }
        axes.annotate(f"{curve[-1]:.1%}", (len(curve), curve[-1]), color=line.get_color(), **place)
    axes.set_xlim(0, max(len(curve) for curve in curves.values()))
    axes.set_ylim(0, 1)
    axes.grid(alpha=0.3)
    title, mean = (
        f"probability of the n best {paths} of a sentence",
        "probability, mean over the sentences",
    )
    _label(axes, title, f"n best {paths}", mean, "y", ("top", "right"))
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(target, dpi=150)


def draw_calibration(reports: Mapping[str, "CalibrationReport"], target: str) -> None:
    """For each output a reliability diagram, and the precision of the most probable predictions."""
    rows = max(1, len(reports))
    figure = _figure(9.6, 4.2 * rows)
    panels = figure.subplots(rows, 2, squeeze=False)
    for (reliable, kept), (name, report) in zip(panels, reports.items(), strict=False):
        place = f" of {name}" if name else ""
        _draw_reliability(
            reliable, report, f"reliability{place}: calibration error {100 * report.ece:.2f} %"
        )
        _draw_coverage(kept, report, f"precision and coverage{place}")
    figure.savefig(target, dpi=150)


def _draw_reliability(axes: Any, report: "CalibrationReport", title: str) -> None:
    """How often predictions are right against what is said of them; 95 % intervals by their
    number."""
    low = min([0.9, *(min(each.said, each.right) for each in report.bins)])
    low = max(0.0, 0.1 * math.floor(10 * low - 0.5))
    axes.plot(
        [low, 1], [low, 1], color=COLOURS["same"], linewidth=1, label="right as often as it says"
    )
    said, right = [each.said for each in report.bins], [each.right for each in report.bins]
    spread = [1.96 * math.sqrt(each.right * (1 - each.right) / each.n) for each in report.bins]
    bars = {"fmt": "o", "color": COLOURS["right"], "elinewidth": 1, "capsize": 2}
    axes.errorbar(
        said,
        right,
        spread,
        label=f"{len(report.bins)} bins of {report.n // max(1, len(said)):,}",
        **bars,
    )
    axes.set(xlim=(low, 1.01), ylim=(low, 1.01))
    axes.grid(alpha=0.3)
    x, y = f"said: {report.measure} of the {report.unit}", "right: share that is correct"
    _label(axes, title, x, y, open_sides=("top", "right"))
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _draw_coverage(axes: Any, report: "CalibrationReport", title: str) -> None:
    """Precision over the share of predictions that is kept, with the share at each precision that
    is demanded."""
    axes.plot(
        *zip(*report.curve, strict=True) if report.curve else ([], []),
        color=COLOURS["right"],
        linewidth=2,
    )
    low, lines = min([0.89, *(precision for _, precision in report.curve)]), []
    for each in report.operations:
        if each.threshold is not None:
            axes.plot(
                [0, each.kept],
                [each.precision] * 2,
                color=COLOURS["wrong"],
                linewidth=1,
                linestyle="--",
            )
            lines.append(
                f"{each.precision:.0%} precision: keep {each.kept:.1%}, {each.shown_threshold} or "
                "more"
            )
    axes.text(
        0.03, 0.03, "\n".join(lines), transform=axes.transAxes, fontsize=8, color=COLOURS["wrong"]
    )
    axes.set(xlim=(0, 1), ylim=(max(0.0, 0.1 * math.floor(10 * low)), 1.005))
    axes.grid(alpha=0.3)
    _label(
        axes,
        title,
        "kept, the most probable first",
        "precision of what is kept",
        "xy",
        ("top", "right"),
    )


def draw_training(
    histories: Mapping[str, Sequence[Mapping[str, Any]]],
    search: tuple[Sequence[Any], Any, Sequence[int]] | None,
    curve: Sequence[Any] | None,
    target: str,
) -> None:
    """The history of training, by layer: loss (or mistakes) and score on development data in each
    iteration; the scores of a search (trials, the best setting, sizes of samples); and a learning
    curve."""
    n = len(histories) + (search is not None) + (curve is not None)
    figure = _figure(0.8 + 4.8 * n, 3.8)
    panels = iter(figure.subplots(1, n, squeeze=False)[0])
    for name, history in histories.items():
        _draw_history(next(panels), name, history)
    if search is not None:
        _draw_search(next(panels), *search)
    if curve is not None:
        axes = next(panels)
        axes.plot(
            [p.n_train for p in curve],
            [100 * p.score for p in curve],
            marker="o",
            color=COLOURS["right"],
        )
        axes.grid(alpha=0.3)
        _label(axes, "learning curve", "sentences trained on", SCORE)
    figure.savefig(target, dpi=150)


def _draw_history(axes: Any, name: str, history: Sequence[Mapping[str, Any]]) -> None:
    """Loss, or the mistakes of a perceptron, and the score on development data on an axis of its
    own."""
    what = "mistakes" if "mistakes" in history[0] else "loss"
    axes.plot(
        [record["iteration"] for record in history],
        [record[what] for record in history],
        color=COLOURS["wrong"],
    )
    axes.grid(alpha=0.3)
    _label(axes, f"training of {name}" if name else "training", "iteration", what)
    axes.yaxis.label.set_color(COLOURS["wrong"])
    axes.set_ylim(bottom=0)
    scored = {record["iteration"]: 100 * record["dev"] for record in history if "dev" in record}
    if scored:
        right = axes.twinx()
        right.plot(list(scored), list(scored.values()), marker=".", color=COLOURS["right"])
        right.set_ylabel("score on development data, in percent", color=COLOURS["right"])
        right.spines[["top"]].set_visible(False)


def _draw_search(axes: Any, trials: Sequence[Any], best: Any, sizes: Sequence[int]) -> None:
    """A line for each setting over the samples; the best one is named."""
    reached: dict[int, list[Any]] = {}
    for trial in trials:
        if trial["score"] is not None:
            reached.setdefault(id(trial["setting"]), []).append(trial)
    for rows in reached.values():
        chosen = rows[0]["setting"] == best
        points = [sizes[row["step"] - 1] for row in rows], [100 * row["score"] for row in rows]
        name = ", ".join(f"{key} {value}" for key, value in best.items()) if chosen else None
        axes.plot(
            *points,
            marker="o",
            color=COLOURS["right" if chosen else "same"],
            zorder=2 + chosen,
            label=name,
        )
    axes.grid(alpha=0.3)
    _label(axes, "search", "sentences of the sample", SCORE)
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def draw_changes(
    before: Mapping[str, float],
    after: Mapping[str, float],
    by_layers: Mapping[tuple[str, str], Sequence["LabelChange"]],
    target: str,
) -> None:
    """The scores of each layer before and after joint training, and for each pair of neighbouring
    layers the most frequent changes of labels in the lower one, by their effect on the labels of
    the upper one."""
    rows = max([len(before), *(min(len(changes), BARS) for changes in by_layers.values())])
    figure = _figure(4.0 + 4.6 * len(by_layers), 1.6 + 0.32 * max(rows, 4))
    axes, *panels = figure.subplots(
        1, 1 + len(by_layers), width_ratios=[0.7, *[1.0] * len(by_layers)]
    )
    for place, name in enumerate(after):  # a line from the old score to the new one
        old, new = 100 * before[name], 100 * after[name]
        colour = COLOURS["right" if new > old else "wrong" if new < old else "same"]
        axes.plot([old, new], [place, place], color=colour, linewidth=2, zorder=1)
        axes.scatter([old], [place], color="white", edgecolor=colour, zorder=2)
        axes.scatter([new], [place], color=colour, zorder=3)
        above: Any = {
            "xytext": (0, 7),
            "textcoords": "offset points",
            "ha": "center",
            "fontsize": 8,
        }
        axes.annotate(f"{old:.2f} → {new:.2f}", ((old + new) / 2, place), **above)
    axes.set_yticks(range(len(after)), list(after))
    axes.set_ylim(-0.6, len(after) - 0.4)
    axes.margins(x=0.4)
    _label(axes, "scores before and after", SCORE, open_sides=("top", "right"))
    for axes, ((lower, upper), changes) in zip(panels, by_layers.items(), strict=True):
        _draw_bars(axes, changes[:BARS])
        title, x = f"changed labels of {lower}", f"tokens, by the effect on {upper}"
        _label(axes, title, x, open_sides=("top", "right"))
    figure.savefig(target, dpi=150)


def _draw_bars(axes: Any, changes: Sequence["LabelChange"]) -> None:
    """A bar for each change of a label, the most frequent on top."""
    if not changes:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no label changed", ha="center", va="center", transform=axes.transAxes)
        return
    left = [0] * len(changes)
    for name, text in (("right", "became right"), ("wrong", "became wrong"), ("same", "no change")):
        sizes = [getattr(change, name) for change in changes]
        axes.barh(range(len(changes)), sizes, left=left, color=COLOURS[name], label=text)
        left = [a + b for a, b in zip(left, sizes, strict=True)]
    axes.set_yticks(
        range(len(changes)), [f"{change.before} → {change.after}" for change in changes]
    )
    axes.invert_yaxis()
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
