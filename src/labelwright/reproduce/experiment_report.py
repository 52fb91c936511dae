"""The report of an experiment: blocks of Markdown, of which a page is made; the same as JSON; its
figures, drawn by matplotlib where it is installed (the extra `plots`)."""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from statistics import mean
from typing import Any

import labelwright
from labelwright.pages import html_page
from labelwright.reproduce.work import HOLDS, Figure, Findings, Row, Work
from labelwright.storage import replace_file

TIMES = ("time", "train time")  # metrics in seconds
EFFORT = (*TIMES, "iterations", "sequences")  # metrics that are not to be reached
TOLERANCE = 0.05  # points that are no miss
MISS = " ▼"
LAST = "Pairs"  # how the titles of long tables of tests begin
KEPT = (
    "A difference is *kept* where the mean over seeds has the paper's direction and a paired "
    "bootstrap on F1 (10,000 samples of sentences, runs with seed 0) finds it there with p < 0.05; "
    "for word accuracy, McNemar's test on letters decides. Elsewhere that test is shown beside it. "
    "It counts tokens (our choice, the papers do not name the unit), and can favour the other "
    "system."
)


def write_report(work: Work, findings: Findings, command: str) -> list[Path]:
    """Write NAME.results.json, NAME.md, NAME.html and the figures (NAME.quick.* of a quick run);
    return their paths.

    command : that made the results"""
    experiment, name, folder = work.experiment, work.folder.name, work.folder.parent
    pictures = (
        [folder / f"{name}.{figure.name}.png" for figure in findings.figures] if can_draw() else []
    )
    for figure, path in zip(findings.figures, pictures, strict=False):
        _draw(figure, path)
    title = f"{experiment.title} ({experiment.paper})"
    blocks = [f"# {title}", *_blocks(work, findings, pictures, command)]
    contents = {
        f"{name}.results.json": json.dumps(
            _results(work, findings, command), indent=1, ensure_ascii=False
        )
        + "\n",
        f"{name}.md": "\n\n".join(blocks) + "\n",
        f"{name}.html": html_page(
            title, STYLE, "\n".join(_html(block, folder) for block in blocks)
        ),
    }
    for file, text in contents.items():
        replace_file(folder / file, text.encode())
    return [folder / file for file in contents] + pictures


def _results(work: Work, findings: Findings, command: str) -> dict[str, Any]:
    """What NAME.results.json holds: rows with rounded numbers, claims and notes."""
    experiment, rows = work.experiment, []
    for row in findings.rows:
        short = {name: _rounded(getattr(row, name)) for name in ("ours", "spread", "seconds")}
        rows.append(row._asdict() | short | {"command": command, "seeds": list(row.seeds)})
    return {
        "experiment": experiment.name,
        "version": labelwright.__version__,
        "machine": "; ".join(sorted(work.machines)),
        "quick": work.quick,
        "rows": rows,
        "claims": [claim._asdict() for claim in findings.claims],
        "notes": [
            *experiment.readings,
            *findings.notes,
            *([] if work.quick else experiment.remarks),
        ],
    }


def _rounded(value: float | None) -> float | None:
    """Four decimals; of small numbers, such as p-values, four digits.

    >>> _rounded(44163643.61234), _rounded(0.000123456)
    (44163643.6123, 0.0001235)
    """
    return None if value is None else round(value, 4) if abs(value) >= 1 else float(f"{value:.4g}")


# -- blocks ----------------------------------------------------------------------------------------


def _html(block: str, folder: Path) -> str:
    """A block of Markdown as HTML: a heading, a table, a list, a picture (which goes into the
    page), or text."""
    mark, _, rest = block.partition(" ")
    if mark in ("#", "##"):
        return f"<h{len(mark)}>{escape(rest)}</h{len(mark)}>"
    if mark == "|":
        head, _, *lines = [line[2:-2].split(" | ") for line in block.split("\n")]
        tagged = [("th", head), *(("td", line) for line in lines)]
        rows = [
            "".join(f"<{tag}>{_inline(cell)}</{tag}>" for cell in cells) for tag, cells in tagged
        ]
        return (
            f'<div class="wide"><table>{"".join(f"<tr>{row}</tr>" for row in rows)}</table></div>'
        )
    if mark == "-":
        return f"<ul>{''.join(f'<li>{_inline(line[2:])}</li>' for line in block.splitlines())}</ul>"
    picture = re.match(r"!\[(.*)\]\((.*)\)", block)
    if picture:
        caption, data = (
            escape(picture[1]),
            base64.b64encode((folder / picture[2]).read_bytes()).decode(),
        )
        image = f'<img src="data:image/png;base64,{data}" alt="{caption}">'
        return f"<figure>{image}\n<figcaption>{caption}</figcaption></figure>"
    return f"<p>{_inline(block)}</p>"


def _inline(text: str) -> str:
    """Text with its parts in backticks as code, and those in asterisks emphasised.

    >>> _inline("`a * b` is *kept*, 2 * 3 * 4")
    '<code>a * b</code> is <em>kept</em>, 2 * 3 * 4'
    """
    parts, emphasis = escape(text.replace("\\|", "|")).split("`"), r"(\*+)(?! )([^*]+)(?<! )\1"
    return "".join(
        f"<code>{p}</code>" if i % 2 else re.sub(emphasis, r"<em>\2</em>", p)
        for i, p in enumerate(parts)
    )


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    marked = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *marked])


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _blocks(
    work: Work, findings: Findings, pictures: Sequence[Path], command: str
) -> Iterator[str]:
    """What the report says, in its order."""
    experiment = work.experiment
    if work.quick:
        yield (
            "A quick run on small parts of the data, with fewer iterations: **these figures mean "
            "nothing.**"
        )
    seconds = sum(result["step_seconds"] for result in work.results.values())
    minutes = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
    machines = "; ".join(sorted(work.machines))
    yield (
        f"labelwright {labelwright.__version__}, {machines}; {minutes}, summed over all steps, by "
        f"`{command}`."
    )
    yield (
        "A cell is ours ± half the spread over seeds, and in brackets the figure of the paper;"
        f"{MISS} marks those more than {TOLERANCE} below it, where the data are the paper's."
    )
    with_paper = {row.table for row in findings.rows if row.paper is not None}
    yield from _tables(row for row in findings.rows if row.table in with_paper)
    if findings.claims:
        yield "## What the paper says, and whether it holds here"
        if any(claim.kept not in HOLDS.values() for claim in findings.claims):
            yield KEPT
        yield _table(["claim", "here", "evidence"], findings.claims)
    if experiment.remarks and not work.quick:
        yield from ("## What was checked", _bullets(experiment.remarks))
    others = [row for row in findings.rows if row.table not in with_paper]
    yield from _tables(row for row in others if not row.table.startswith(LAST))
    for figure, path in zip(findings.figures, pictures, strict=False):
        yield f"## {figure.name.replace('-', ' ').capitalize()}"
        yield f"![{figure.caption}]({path.name})\n\n{figure.caption}"
    if findings.figures and not pictures:
        yield "No figures: matplotlib is missing (pip install 'labelwright[plots]')."
    if notes := [*experiment.readings, *findings.notes]:
        yield from ("## How it was read and run", _bullets(notes))
    yield from _tables(row for row in others if row.table.startswith(LAST))


def _tables(rows: Iterable[Row]) -> Iterator[str]:
    """The tables of these rows: a line for each system and variant, a column for each metric."""
    rows = list(rows)
    for table in dict.fromkeys(row.table for row in rows):
        of_table = [row for row in rows if row.table == table]
        metrics = list(dict.fromkeys(row.metric for row in of_table))
        lines: dict[tuple[str, str], dict[str, Row]] = {}
        for row in of_table:
            lines.setdefault((row.system, row.variant), {})[row.metric] = row
        last = ["settings"] if any(row.settings for row in of_table) else []
        cells = [
            [
                *place,
                *(_cell(line[metric]) if metric in line else "" for metric in metrics),
                *(next(iter(line.values())).settings for _ in last),
            ]
            for place, line in lines.items()
        ]
        yield f"## {table}"
        yield _table(["system", "variant", *metrics, *last], cells)


def _cell(row: Row) -> str:
    shown = _number(row.ours, row.metric)
    if row.spread is not None and row.metric not in TIMES:
        shown += f" ± {_number(row.spread / 2, row.metric)}"
    if row.paper is None:
        return shown
    is_miss = row.comparable and row.metric not in EFFORT and row.ours < row.paper - TOLERANCE
    return f"{shown} ({_number(row.paper, row.metric)}){MISS if is_miss else ''}"


def _number(value: float, metric: str) -> str:
    """A figure as its table shows it.

    >>> _number(91.1666, "F1"), _number(4000, "time")
    ('91.17', '4,000 s')
    >>> _number(0.031, "time"), _number(10800, "train time")
    ('0.03 s', '3 h')
    """
    if metric in ("iterations", "mistakes") or metric.startswith("only "):
        return f"{value:,.0f}"
    if metric.startswith("p,"):
        return f"{value:.2g}"
    if metric == "train time" and value >= 3600:
        return f"{value / 3600:.3g} h"
    if metric in TIMES:
        return f"{value:,.0f} s" if value >= 10 else f"{value:.2f} s"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


STYLE = """
h2 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
th, td { text-align: left; padding: .28rem .7rem .28rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td:nth-child(n+3) { font-variant-numeric: tabular-nums; }
code { background: var(--panel); padding: .1rem .3rem; border-radius: 4px; font-size: .9em; }
.wide { overflow-x: auto; }
figure { margin: 0; } img { max-width: 100%; background: #fff; border-radius: 6px; }
figcaption { color: var(--quiet); font-size: .87rem; }
"""

# -- figures ---------------------------------------------------------------------------------------

MARKERS = "os^Dv<>*"
IN_A_ROW = 3  # panels
DENSE = 60  # points of a curve from which on they are not marked


def can_draw() -> bool:
    """Whether figures can be drawn here."""
    return find_spec("matplotlib") is not None


def _draw(figure: Figure, target: Path) -> None:
    """Draw the panels of a figure, up to three side by side."""
    from matplotlib.figure import Figure as Drawing

    n_columns = min(len(figure.panels), IN_A_ROW)
    n_rows = -(-len(figure.panels) // n_columns)
    drawing = Drawing(figsize=(5.2 * n_columns, 3.9 * n_rows), layout="constrained")
    for number, panel in enumerate(figure.panels, start=1):
        axes = drawing.add_subplot(n_rows, n_columns, number)
        for (name, (x, runs)), sign in zip(panel.curves.items(), cycle(MARKERS), strict=False):
            marker = "" if len(x) > DENSE and not panel.points else sign
            line = "none" if panel.points else "-"
            columns = list(zip(*runs, strict=True))
            (drawn,) = axes.plot(
                x,
                list(map(mean, columns)),
                marker=marker,
                markersize=4,
                linestyle=line,
                linewidth=1.8,
                label=name,
            )
            if len(runs) > 1:
                low, high = list(map(min, columns)), list(map(max, columns))
                axes.fill_between(x, low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)
            for point in panel.paper.get(name, ()):
                axes.plot(
                    *point, "*", markersize=13, color=drawn.get_color(), markeredgecolor="black"
                )
        if any(panel.paper.values()):
            axes.plot(
                [],
                [],
                "*",
                markersize=13,
                color="white",
                markeredgecolor="black",
                label="the paper",
            )
        if panel.log_x:
            axes.set_xscale("log")
        axes.set_xlabel(panel.x_label)
        axes.set_ylabel(panel.y_label)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if any(panel.curves) or any(panel.paper.values()):  # a single curve has no name
            # above the axes
            axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    drawing.savefig(target, dpi=140)
