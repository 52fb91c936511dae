"""HTML: elements, marked spans, charts, and the one builder of pages, which are made of sections.

A page is one file: style and program are in it, so that it needs no network; light or dark as the
reader's system is. Spans are drawn alike in pages and notebooks.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

NUMBER = re.compile(r"[-+]?[\d.,]*( %)?")  # cells that stand to the right
# of types: those of the page of `labelwright serve`
HUES = 25, 255, 145, 310, 75, 200, 350, 115, 280, 50, 170, 225
WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 420, 250, 52, 40, 8  # of a chart
STEPS = 1.0, 2.0, 2.5, 5.0, 10.0  # between two ticks of an axis


class Html(str):
    """Text that is HTML already, which notebooks draw; all other text is escaped."""

    def _repr_html_(self) -> str:
        return str(self)


def tag(kind: str, /, *children: Any, **attributes: Any) -> Html:
    """An element; what is None is left out, and `data_kind` is the attribute data-kind.

    >>> tag("b", "a < b", None, tag("i", 1), class_="x", hidden=True, title=None)
    '<b class="x" hidden>a &lt; b<i>1</i></b>'
    """
    words = [kind]
    for key, value in attributes.items():
        key = key if key == "viewBox" else key.rstrip("_").replace("_", "-")
        if value is not None and value is not False:
            words.append(key if value is True else f'{key}="{escape(str(value))}"')
    inside = "".join(
        each if isinstance(each, Html) else escape(str(each))
        for each in children
        if each is not None
    )
    return Html(f"<{' '.join(words)}>{inside}" + ("" if kind == "input" else f"</{kind}>"))


def cells(row: Iterable[Any], kind: str = "td") -> list[Html]:
    """The cells of a row; numbers stand to the right."""
    return [tag(kind, cell, class_="n" if NUMBER.fullmatch(str(cell)) else None) for cell in row]


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], **attributes: Any) -> Html:
    """A table of plain rows, which scrolls where it is too wide."""
    top = tag("tr", *(tag("th", name, scope="col") for name in head)) if head else None
    return tag(
        "div",
        tag("table", top, *(tag("tr", *cells(row)) for row in rows), **attributes),
        class_="scroll",
    )


def bar(share: float, kind: str = "") -> Html:
    """A bar as wide as a share of all of it."""
    return tag("i", class_=f"bar {kind}".rstrip(), style=f"width:{100 * share:.1f}%")


# -- spans -----------------------------------------------------------------------------------------


def hues_of(types: Iterable[str]) -> dict[str, int]:
    """The hue of each type: that of its hash, or the next free one."""
    hues, used = dict[str, int](), set[int]()
    for name in sorted({*types}):
        slot = 7
        for letter in name:
            slot = (slot * 31 + ord(letter)) % 2**32
        slot %= len(HUES)
        while slot in used and len(used) < len(HUES):
            slot = (slot + 1) % len(HUES)
        used.add(slot)
        hues[name] = HUES[slot]
    return hues


def mark(
    text: str, kind: str, probability: float | None = None, hues: Mapping[str, int] | None = None
) -> Html:
    """A text in the colour of its type, with the type and its probability, on light and dark ground
    alike.

    >>> mark("Ada", "PER", 0.98)  # doctest: +ELLIPSIS
    '<mark style="...">Ada<small style="...">PER 0.98</small></mark>'
    """
    hue = (hues or hues_of([kind]))[kind]
    style = f"background:oklch(.7 .14 {hue}/.3);color:inherit;padding:.05em .3em;border-radius:.3em"
    note = f"{kind} {'' if probability is None else brief(probability)}".strip()
    return tag(
        "mark",
        text,
        tag("small", note, style="margin-left:.35em;font-weight:600") if note else None,
        style=style,
    )


def brief(probability: float) -> str:
    """A probability in two digits.

    >>> brief(0.983), brief(0.999), brief(0.0)
    ('0.98', '> 0.99', '< 0.01')
    """
    return (
        "> 0.99" if probability > 0.99 else "< 0.01" if probability < 0.01 else f"{probability:.2f}"
    )


def marked(
    text: str, spans: Iterable[Any], hues: Mapping[str, int] | None = None, kind: str = "span"
) -> Html:
    """A text in which spans (start, end in characters, type, probability) are marked; those inside
    others are left out.

    >>> from labelwright.corpus.tokenizer import Entity
    >>> marked("Ada ran.", [Entity(0, 3, "PER", "Ada", 0.98)])  # doctest: +ELLIPSIS
    '<span><mark style="...">Ada<small style="...">PER 0.98</small></mark> ran.</span>'
    """
    spans, parts, at = list(spans), list[Any](), 0
    hues = hues or hues_of(span.type for span in spans)
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= at:
            parts += [
                text[at : span.start],
                mark(text[span.start : span.end], span.type, span.probability, hues),
            ]
            at = span.end
    return tag(kind, *parts, text[at:])


def marked_words(
    words: Sequence[str],
    spans: Iterable[Any],
    hues: Mapping[str, int] | None = None,
    kind: str = "span",
) -> Html:
    """Words in which spans of tokens are marked."""
    begin = [0]
    for word in words:
        begin.append(begin[-1] + len(word) + 1)
    placed = [
        _Placed(begin[each.start], begin[each.end] - 1, each.type, each.probability)
        for each in spans
    ]
    return marked(" ".join(words), placed, hues, kind)


class _Placed(NamedTuple):
    start: int
    end: int
    type: str
    probability: float | None


# -- charts ----------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A line through points, or points with what they may be off."""

    points: Sequence[tuple[float, float]]
    kind: str = "line"  # "line", "dashed", or "dots"
    spread: Sequence[float] = ()  # to both sides of each point


def chart(
    title: str,
    x: str,
    y: str,
    curves: Sequence[Curve],
    least: tuple[float | None, float | None] = (None, None),
    most: tuple[float | None, float | None] = (None, None),
) -> Html:
    """A chart with two axes, drawn as SVG.

    x, y : what stands below and above the axes
    least, most : where the axes begin and end; None: with the points
    """
    bounds = []
    for axis in (0, 1):
        numbers = [point[axis] for curve in curves for point in curve.points]
        low = min(numbers) if least[axis] is None else least[axis]
        high = max(numbers) if most[axis] is None else most[axis]
        bounds.append((low, high if high > low else low + 1.0))  # type: ignore[operator]
    (x0, x1), (y0, y1) = bounds

    def across(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - ABOVE) * (value - x0) / (x1 - x0), 1)  # type: ignore[operator]

    def up(value: float) -> float:
        share = (min(max(value, y0), y1) - y0) / (y1 - y0)  # type: ignore[type-var, operator]
        return round(HEIGHT - BELOW - (HEIGHT - BELOW - ABOVE) * share, 1)

    drawn = []
    for value, shown in _ticks(x0, x1):  # type: ignore[arg-type]
        drawn += [
            tag(
                "line",
                x1=across(value),
                x2=across(value),
                y1=ABOVE,
                y2=HEIGHT - BELOW,
                class_="grid",
            )
        ]
        drawn += [tag("text", shown, x=across(value), y=HEIGHT - BELOW + 15, text_anchor="middle")]
    for value, shown in _ticks(y0, y1):  # type: ignore[arg-type]
        drawn += [tag("line", x1=LEFT, x2=WIDTH - ABOVE, y1=up(value), y2=up(value), class_="grid")]
        drawn += [tag("text", shown, x=LEFT - 6, y=up(value) + 4, text_anchor="end")]
    for curve in curves:
        places = [(across(a), up(b)) for a, b in curve.points]
        for (a, b), (_, value), off in zip(places, curve.points, curve.spread, strict=False):
            drawn.append(
                tag("line", x1=a, x2=a, y1=up(value - off), y2=up(value + off), class_="spread")
            )
            drawn.append(tag("circle", cx=a, cy=b, r=4, class_="dot"))
        if curve.kind != "dots":
            drawn.append(
                tag("polyline", points=" ".join(f"{a},{b}" for a, b in places), class_=curve.kind)
            )
    drawn.append(
        tag(
            "text", x, x=(LEFT + WIDTH) // 2, y=HEIGHT - 5, text_anchor="middle", class_="axis-name"
        )
    )
    size = f"0 0 {WIDTH} {HEIGHT}"
    svg = tag("svg", *drawn, viewBox=size, role="img", aria_label=f"{title}: {y} against {x}")
    return tag(
        "figure", tag("figcaption", tag("b", title), tag("span", f" {y}", class_="quiet")), svg
    )


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round numbers between two, five or so.

    >>> _ticks(0.0, 1.0)
    [(0.0, '0'), (0.2, '0.2'), (0.4, '0.4'), (0.6, '0.6'), (0.8, '0.8'), (1.0, '1')]
    >>> _ticks(0.0, 50000.0)[1]
    (10000.0, '10,000')
    """
    scale = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(scale * part for part in STEPS if scale * part >= (high - low) / 5 * (1 - 1e-9))
    numbers = [
        round(k * step, 12)
        for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]
    return [
        (number, f"{number:,.6g}" if abs(number) < 1e6 else f"{number:.3g}") for number in numbers
    ]


def span_of_score(low: float, value: float, high: float) -> Html:
    """A score from 0 to 1 and its interval, as a dot and a line."""
    line = tag("i", style=f"left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%")
    return tag(
        "div",
        line,
        tag("b", style=f"left:{100 * value:.1f}%"),
        class_="interval",
        aria_hidden="true",
    )


# -- pages -----------------------------------------------------------------------------------------


class Section(NamedTuple):
    """A part of a page under a heading."""

    title: str
    outputs: Mapping[str, Html | None]  # by layer, of a cascade; None: nothing to show
    program: str = ""


def page(title: str, about: Sequence[Any], sections: Iterable[Section]) -> str:
    """A page of sections; with several, links lead to them, and of a cascade one layer is shown at
    a time.

    about : what is said below the title, in paragraphs"""
    sections = [
        each for each in sections if any(drawn is not None for drawn in each.outputs.values())
    ]
    names = list(dict.fromkeys(name for each in sections for name in each.outputs))
    choice = (
        tag("label", "layer", tag("select", *(tag("option", name) for name in names)))
        if len(names) > 1
        else None
    )
    parts = [tag("header", tag("h1", title), *(tag("p", line) for line in about), choice)]
    if len(sections) > 1:
        links = [tag("a", each.title, href=f"#part-{n}") for n, each in enumerate(sections)]
        parts.append(tag("nav", *links, aria_label="Sections"))
    for n, each in enumerate(sections):
        heading = tag("h2", each.title) if len(sections) > 1 else None
        layers = [
            tag("div", drawn, class_="layer", data_name=name, hidden=name != names[0])
            for name, drawn in each.outputs.items()
            if drawn is not None
        ]
        parts.append(tag("section", heading, *layers, id=f"part-{n}"))
    return html_page(
        title, "", "\n".join(parts), "".join([LAYERS, *(each.program for each in sections)])
    )


def html_page(title: str, style: str, body: str, script: str = "") -> str:
    """A page with a style and a program of its own, after the style of all pages."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}{style}</style>
</head>
<body>
{body}
<script>"use strict";{script}</script>
</body>
</html>
"""


STYLE = """
:root { color-scheme: light dark;
  --page: #fff; --panel: #f6f8fa; --text: #1b1f24; --quiet: #57606a; --line: #d8dee4;
  --link: #0a58ca; --bar: #9ec5fe; --good: #1a7f37; --bad: #b3261e; --mark: #fff3cd;
  --edge: #c69026; }
@media (prefers-color-scheme: dark) { :root {
  --page: #0d1117; --panel: #161b22; --text: #e6edf3; --quiet: #9198a1; --line: #30363d;
  --link: #79b8ff; --bar: #1f4a80; --good: #56d364; --bad: #ff9a94; --mark: #40361a;
  --edge: #c79a2b; } }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html { scroll-padding-top: 3rem; }
body { margin: 0 auto; max-width: 1180px; padding: 1.2rem;
  background: var(--page); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
.panel h2, .why h2 { font-size: 1rem; margin: 0 0 .4rem; }
h3 { font-size: .9rem; margin: 1.1rem 0 .35rem; overflow-wrap: anywhere; }
.panel > h3:first-child { margin-top: 0; }
p { margin: .3rem 0; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.quiet, header p { color: var(--quiet); }
nav { position: sticky; top: 0; z-index: 3; display: flex; gap: .2rem 1.1rem; flex-wrap: wrap;
  padding: .5rem 0; margin-top: .6rem; background: var(--page);
  border-bottom: 1px solid var(--line); }
.panel { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: .8rem; min-width: 0; }
.bar { display: block; height: 4px; background: var(--bar); border-radius: 2px; margin-top: 2px; }
.bar.against { background: var(--bad); }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(320px, 100%), 1fr));
  gap: .8rem; margin-bottom: 1rem; }
.panel.wide { grid-column: 1 / -1; }
.scroll { overflow: auto; max-height: 26rem; }
table { border-collapse: collapse; font-size: .87rem; } .panel table { width: 100%; }
th { color: var(--quiet); font-weight: 500; position: sticky; top: 0; background: var(--page); }
.panel th { background: var(--panel); } th:nth-child(n+2) { text-align: right; }
.plain th { text-align: left; }
th, td { padding: .14rem .6rem .14rem 0; text-align: left; }
td { border-top: 1px solid var(--line); white-space: nowrap; }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 6rem; }
.wraps .n { text-align: left; }
.wraps td { white-space: normal; overflow-wrap: anywhere; vertical-align: top; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font: .92em ui-monospace, monospace; overflow-wrap: anywhere; }
mark { line-height: 1.7; box-decoration-break: clone; -webkit-box-decoration-break: clone; }
button, select, input { font: inherit; color: var(--text); background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; padding: .2rem .45rem; max-width: 100%; }
button { cursor: pointer; }
label, output { font-size: .78rem; color: var(--quiet); display: grid; gap: .15rem;
  max-width: 13rem; }
.headline { font-size: 1.05rem; } .headline b { font-size: 1.9rem; letter-spacing: -.02em; }
.ends { display: flex; justify-content: space-between; }
.interval { position: relative; min-width: 9rem; height: 1rem;
  background: linear-gradient(var(--line), var(--line)) center / 100% 1px no-repeat; }
.interval i, .interval b { position: absolute; top: 50%; height: 4px; margin-top: -2px;
  border-radius: 2px; background: var(--link); opacity: .55; }
.interval b { width: 8px; height: 8px; margin: -4px 0 0 -4px; border-radius: 50%; opacity: 1; }
figure { margin: 0; min-width: 0; max-width: 36rem; }
figcaption { font-size: .87rem; margin-bottom: .3rem; } figcaption b { font-weight: 600; }
svg { display: block; width: 100%; height: auto; font: 11px system-ui, sans-serif;
  fill: var(--quiet); }
.grid { stroke: var(--line); } .line, .dashed { fill: none; stroke: var(--link); stroke-width: 2; }
.dashed { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 4 4; }
.dot { fill: var(--link); }
.spread { stroke: var(--link); stroke-width: 1.5; }
.panel .confusion { width: auto; --share: 0; }
.confusion td { text-align: center; font-variant-numeric: tabular-nums;
  border: 1px solid var(--panel); padding: .3rem .5rem; }
.confusion th { text-align: right !important; position: static; }
.confusion tr:first-child th { text-align: center !important; }
.confusion .right { background: rgb(46 160 67 / calc(var(--share) * .55)); }
.confusion .wrong { background: rgb(215 58 73 / calc(var(--share) * .75 + .06)); }
.pick { cursor: pointer; } .pick:hover td, .pick:focus td, td.pick:hover { color: var(--link); }
td.pick:hover { text-decoration: underline; color: inherit; }
form { display: flex; flex-wrap: wrap; gap: .6rem; align-items: end; position: sticky; top: 0;
  z-index: 2; background: var(--page); padding: .6rem 0; border-bottom: 1px solid var(--line); }
nav ~ section form { top: 2.4rem; }
article { padding: .55rem 0; border-bottom: 1px solid var(--line); break-inside: avoid; }
.about { font-size: .8rem; color: var(--quiet); display: flex; gap: .8rem; }
.about b { color: var(--text); }
.side { overflow-wrap: anywhere; display: grid; grid-template-columns: 5.2rem 1fr; }
.side > small { color: var(--quiet); } .more { margin: 1rem 0; }
.tokens { display: flex; flex-wrap: wrap; gap: .3rem; }
.tokens + template + *, .panel + .panel.sentence { margin-top: .8rem; }
.tokens span { align-self: center; }
.tokens button { background: none; text-align: left; line-height: 1.3; }
.tokens small { display: block; color: var(--quiet); font-size: .75rem; } s { color: var(--bad); }
.tokens button:hover { border-color: var(--link); }
.tokens button[aria-pressed=true] { outline: 2px solid var(--link); }
.tokens .doubtful { background: var(--mark); border-color: var(--edge); }
.tokens .doubtful small { color: var(--text); }
.why { margin-top: 1rem; border-top: 1px solid var(--line); padding-top: .8rem; overflow-x: auto; }
.why b { font-weight: 650; } .why td { border: 0; white-space: nowrap; }
pre { margin: .2rem 0; overflow-x: auto; }
.axis { position: relative; width: 16rem; height: .8rem;
  background: linear-gradient(var(--line), var(--line)) center / 1px 100% no-repeat; }
.axis .bar { position: absolute; top: 0; bottom: 0; height: auto; margin: 0; }
.axis .for { left: 50%; background: var(--good); }
.axis .against { right: 50%; background: var(--bad); }
@media (max-width: 40rem) { .axis { width: 7rem; } body { padding: .8rem; }
  nav, form, nav ~ section form { position: static; } .side { grid-template-columns: 1fr; } }
@media print { :root { color-scheme: light; } body { max-width: none; padding: 0; }
  nav, form, .more { display: none; } .scroll { max-height: none; overflow: visible; }
  .panel, figure { break-inside: avoid; } h2 { break-after: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""

LAYERS = """
const choice = document.querySelector("header select");
if (choice) choice.onchange = () => document.querySelectorAll(".layer").forEach(layer => {
  layer.hidden = layer.dataset.name !== choice.value;
});
"""
