"""The report of an experiment: one list of blocks, written as Markdown, as a page, and as JSON."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import labelwright
from labelwright.html_page import html_page
from labelwright.reproduce.experiment import AS_PUBLISHED, OURS, Experiment, Findings, Row
from labelwright.reproduce.figures import can_draw, draw
from labelwright.reproduce.remarks import REMARKS
from labelwright.storage import replace_file

TIMES = ("time", "train time")  # metrics in seconds
EFFORT = (*TIMES, "iterations", "sequences")  # metrics that are not to be reached
TOLERANCE = 0.05  # points that are no miss
KEPT = {True: "kept", False: "not kept", None: "not measured"}


class Heading(NamedTuple):
    text: str


class Text(NamedTuple):
    text: str


class Bullets(NamedTuple):
    lines: Sequence[str]


class Grid(NamedTuple):
    head: Sequence[str]
    lines: Sequence[Sequence[str]]


class Picture(NamedTuple):
    file: Path
    caption: str


Block = Heading | Text | Bullets | Grid | Picture


class Run(NamedTuple):
    """How the results of a report were made."""

    command: str
    seconds: float
    machines: Sequence[str]
    quick: bool = False


def write_report(experiment: Experiment, findings: Findings, folder: Path, run: Run) -> list[Path]:
    """Write NAME.results.json, NAME.md, NAME.html and the figures (NAME.quick.* of a quick run); return their paths."""
    name = f"{experiment.name}{'.quick' if run.quick else ''}"
    pictures = [folder / f"{name}.{figure.name}.png" for figure in findings.figures] if can_draw() else []
    for figure, path in zip(findings.figures, pictures, strict=False):
        draw(figure, path)
    blocks = list(_blocks(experiment, findings, pictures, run))
    title = f"{experiment.title} ({experiment.paper})"
    contents = {
        f"{name}.results.json": json.dumps(results(experiment, findings, run), indent=1, ensure_ascii=False) + "\n",
        f"{name}.md": markdown(title, blocks),
        f"{name}.html": page(title, blocks),
    }
    for file, text in contents.items():
        replace_file(folder / file, text.encode())
    return [folder / file for file in contents] + pictures


def results(experiment: Experiment, findings: Findings, run: Run) -> dict[str, Any]:
    """What NAME.results.json holds."""
    return {
        "experiment": experiment.name,
        "version": labelwright.__version__,
        "machine": "; ".join(run.machines),
        "quick": run.quick,
        "rows": [_record(row, run.command) for row in findings.rows],
        "claims": [claim._asdict() for claim in findings.claims],
        "notes": [*experiment.readings, *findings.notes, *_remarks(experiment, run)],
    }


def _record(row: Row, command: str) -> dict[str, Any]:
    """A row with rounded numbers."""

    def short(value: float | None) -> float | None:
        return None if value is None else round(float(value), 4)

    numbers = {name: short(getattr(row, name)) for name in ("ours", "spread", "seconds")}
    return asdict(row) | numbers | {"command": command, "seeds": list(row.seeds) or [0]}


def _blocks(experiment: Experiment, findings: Findings, pictures: Sequence[Path], run: Run) -> Iterable[Block]:
    """What the report says, in its order."""
    if run.quick:
        yield Text("A quick run on small parts of the data, with fewer iterations: **these figures mean nothing.**")
    minutes = f"{run.seconds / 60:.0f} minutes" if run.seconds >= 120 else f"{run.seconds:.0f} seconds"
    made = f"labelwright {labelwright.__version__}, {'; '.join(run.machines)}; {minutes} in all"
    yield Text(f"{made}, by `{run.command}`.")
    yield Text("A cell is ours ± half the spread over seeds, and in brackets the figure of the paper.")
    yield from _tables(findings.rows, published=True)
    if findings.claims:
        yield Heading("What the paper says, and whether it holds here")
        lines = [[claim.text, KEPT[claim.kept], claim.evidence] for claim in findings.claims]
        yield Grid(("claim", "here", "evidence"), lines)
    if not run.quick:
        yield from _misses(findings.rows)
    if _remarks(experiment, run):
        yield Heading("What was checked")
        yield Bullets(_remarks(experiment, run))
    yield from _tables(findings.rows, published=False)
    for figure, path in zip(findings.figures, pictures, strict=False):
        yield Heading(figure.name.replace("-", " ").capitalize())
        yield Picture(path, figure.caption)
    if findings.figures and not pictures:
        yield Text("No figures: matplotlib is missing (pip install 'labelwright[plots]').")
    notes = [*experiment.readings, *findings.notes]
    if notes:
        yield Heading("How it was read and run")
        yield Bullets(notes)


def _tables(rows: Sequence[Row], published: bool) -> Iterable[Block]:
    """The tables that have figures of the paper, or those that have none."""
    with_paper = {row.table for row in rows if row.paper is not None}
    for table in dict.fromkeys(row.table for row in rows):
        if (table in with_paper) == published:
            yield Heading(table)
            yield _grid([row for row in rows if row.table == table])


def _remarks(experiment: Experiment, run: Run) -> Sequence[str]:
    """What was checked about the misses of a full run."""
    return [] if run.quick else REMARKS.get(experiment.name, [])


def _misses(rows: Sequence[Row]) -> Iterable[Block]:
    """By how much figures are below the paper's."""
    gaps = {
        (row.table, row.system, row.metric, row.variant): row.ours - row.paper
        for row in rows
        if row.comparable and row.metric not in EFFORT and row.paper is not None and row.ours is not None
    }
    places = dict.fromkeys(place[:3] for place, gap in gaps.items() if place[3] == AS_PUBLISHED and gap < -TOLERANCE)
    lines = [
        [
            *place,
            *(f"{round(gaps[*place, v], 2) + 0:+.2f}" if (*place, v) in gaps else "" for v in (AS_PUBLISHED, OURS)),
        ]
        for place in places
    ]
    if lines:
        yield Heading("Figures below the paper's")
        if len({place[0] for place in places}) == 1:
            lines = [line[1:] for line in lines]
        yield Grid(("table", "system", "metric", AS_PUBLISHED, OURS)[-len(lines[0]) :], lines)


def _grid(rows: Sequence[Row]) -> Grid:
    """A table of the paper: a line for each system and variant, a column for each metric."""
    metrics = list(dict.fromkeys(row.metric for row in rows))
    lines = []
    for system, variant in dict.fromkeys((row.system, row.variant) for row in rows):
        mine = {row.metric: row for row in rows if (row.system, row.variant) == (system, variant)}
        cells = [_cell(mine[metric]) if metric in mine else "" for metric in metrics]
        settings = next((row.settings for row in mine.values() if row.settings), "")
        lines.append([system, variant, *cells, settings])
    head = ["system", "variant", *metrics, "settings"]
    if not any(line[-1] for line in lines):
        head, lines = head[:-1], [line[:-1] for line in lines]
    return Grid(head, lines)


def _cell(row: Row) -> str:
    shown = "-" if row.ours is None else _number(row.ours, row.metric)
    if row.spread is not None and row.metric not in TIMES:
        shown += f" ± {row.spread / 2:.2f}"
    return shown if row.paper is None else f"{shown} ({_number(row.paper, row.metric)})"


def _number(value: float, metric: str) -> str:
    """A figure as its table shows it.

    >>> _number(91.1666, "F1"), _number(4000, "time"), _number(0.031, "time"), _number(10800, "train time")
    ('91.17', '4,000 s', '0.03 s', '3 h')
    """
    if metric == "iterations" or metric.startswith("only "):
        return f"{value:,.0f}"
    if metric.startswith("p,"):
        return f"{value:.2g}"
    if metric == "train time" and value >= 3600:
        return f"{value / 3600:.3g} h"
    if metric in TIMES:
        return f"{value:,.0f} s" if value >= 10 else f"{value:.2f} s"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


# -- as Markdown, and as a page ---------------------------------------------------------------------------------------


def markdown(title: str, blocks: Iterable[Block]) -> str:
    """The report as Markdown; pictures are files beside it."""
    parts = [f"# {title}"]
    for block in blocks:
        match block:
            case Heading(text):
                parts.append(f"## {text}")
            case Text(text):
                parts.append(text)
            case Bullets(lines):
                parts.append("\n".join(f"- {line}" for line in lines))
            case Grid(head, lines):
                rows = [head, ["---"] * len(head), *lines]
                parts.append(
                    "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
                )
            case Picture(file, caption):
                parts.append(f"![{caption}]({file.name})\n\n{caption}")
    return "\n\n".join(parts) + "\n"


def page(title: str, blocks: Iterable[Block]) -> str:
    """The report as one file for a browser, pictures included."""
    parts = [f"<h1>{escape(title)}</h1>"]
    for block in blocks:
        match block:
            case Heading(text):
                parts.append(f"<h2>{escape(text)}</h2>")
            case Text(text):
                parts.append(f"<p>{_code(text)}</p>")
            case Bullets(lines):
                parts.append("<ul>" + "".join(f"<li>{_code(line)}</li>" for line in lines) + "</ul>")
            case Grid(head, lines):
                parts.append(f'<div class="wide"><table>{_line("th", head)}')
                parts.append("".join(_line("td", line) for line in lines) + "</table></div>")
            case Picture(file, caption):
                data = base64.b64encode(file.read_bytes()).decode()
                parts.append(f'<figure><img src="data:image/png;base64,{data}" alt="{escape(caption)}">')
                parts.append(f"<figcaption>{escape(caption)}</figcaption></figure>")
    return html_page(title, STYLE, "\n".join(parts))


def _line(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _code(text: str) -> str:
    """Text with its parts in backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


STYLE = """
h2 { font-size: 1.05rem; margin: 1.6rem 0 .5rem; }
th, td { text-align: left; padding: .28rem .7rem .28rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:nth-child(n+3) { font-variant-numeric: tabular-nums; }
code { background: var(--panel); padding: .1rem .3rem; border-radius: 4px; font-size: .9em; }
.wide { overflow-x: auto; }
figure { margin: 0; } img { max-width: 100%; background: #fff; border-radius: 6px; }
figcaption { color: var(--quiet); font-size: .87rem; }
"""
