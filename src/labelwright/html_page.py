"""Self-contained pages for a browser, made of few parts: elements, tables, bars, marked words.

Style and program are in the file, too, so that it needs no network; light or dark as the reader's system is.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

NUMBER = re.compile(r"[-+]?[\d.,]*( %)?")  # cells that stand to the right


class Html(str):
    """Text that is HTML already; all other text is escaped."""


def tag(kind: str, /, *children: Any, **attributes: Any) -> Html:
    """An element; what is None is left out, and `data_kind` is the attribute data-kind.

    >>> tag("b", "a < b", None, tag("i", 1), class_="x", hidden=True, title=None)
    '<b class="x" hidden>a &lt; b<i>1</i></b>'
    """
    words = [kind]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is not None and value is not False:
            words.append(key if value is True else f'{key}="{escape(str(value))}"')
    inside = "".join(each if isinstance(each, Html) else escape(str(each)) for each in children if each is not None)
    return Html(f"<{' '.join(words)}>{inside}" + ("" if kind == "input" else f"</{kind}>"))


def cells(row: Iterable[Any], kind: str = "td") -> list[Html]:
    """The cells of a row; numbers stand to the right."""
    return [tag(kind, cell, class_="n" if NUMBER.fullmatch(str(cell)) else None) for cell in row]


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], **attributes: Any) -> Html:
    """A table of plain rows."""
    return tag("table", tag("tr", *cells(head, "th")), *(tag("tr", *cells(row)) for row in rows), **attributes)


def bar(share: float, kind: str = "") -> Html:
    """A bar as wide as a share of all of it."""
    return tag("i", class_=f"bar {kind}".rstrip(), style=f"width:{100 * share:.1f}%")


def marked(words: Sequence[str], start: int, end: int, note: str = "", kind: str | None = None) -> Html:
    """A sentence in which some words are marked, with a note that is not part of the text."""
    mark = tag("mark", " ".join(words[start:end]), class_=kind, data_note=note or None)
    return tag("span", " ".join(words[:start]), " ", mark, " ", " ".join(words[end:]))


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
:root { color-scheme: light dark; --page: #fff; --panel: #f6f8fa; --text: #1b1f24; --quiet: #57606a; --line: #d8dee4;
  --link: #0a58ca; --bar: #9ec5fe; --good: #1a7f37; --good-back: #dafbe1; --bad: #b3261e; --bad-back: #ffe2e0;
  --mark: #fff3cd; --edge: #c69026; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --panel: #161b22; --text: #e6edf3; --quiet: #9198a1;
  --line: #30363d; --link: #79b8ff; --bar: #1f4a80; --good: #56d364; --good-back: #12361f; --bad: #ff9a94;
  --bad-back: #4a1512; --mark: #40361a; --edge: #c79a2b; } }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0 auto; max-width: 1180px; padding: 1.2rem; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 0 0 .4rem; }
h3 { font-size: .9rem; margin: 1.1rem 0 .35rem; }
p { margin: .3rem 0; }
.quiet, header p { color: var(--quiet); }
.panel { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .8rem; min-width: 0; }
.scroll { overflow: auto; max-height: 26rem; }
table { border-collapse: collapse; font-size: .87rem; }
th { color: var(--quiet); font-weight: 500; }
th, td { padding: .14rem .6rem .14rem 0; text-align: left; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
mark { padding: .05rem .25rem; border-radius: 4px; color: inherit; background: var(--mark); }
mark[data-note]::after { content: attr(data-note); margin-left: .3rem; font-size: .8em; font-weight: 600; }
mark.gold { background: var(--good-back); } mark.predicted { background: var(--bad-back); }
mark.gold::after { color: var(--good); } mark.predicted::after { color: var(--bad); }
.bar { display: block; height: 4px; background: var(--bar); border-radius: 2px; margin-top: 2px; }
button, select, input { font: inherit; color: var(--text); background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; padding: .2rem .45rem; }
button { cursor: pointer; }
"""
