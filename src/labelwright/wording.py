"""What people read: numbers and names as sentences show them, records as plain values, and the parts of HTML pages.

A page is one file: style and program are in it, so that it needs no network; light or dark as the reader's system is.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

# What other programs call settings, and our options and settings for them.
ELSEWHERE = {"c1": ["l1"], "c2": ["l2"], "epochs": ["iterations", "max_iter"], "max-iter": ["iterations"]}
# Codes that move a terminal's cursor or turn the direction of a line; tabs and line ends are part of tables.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """A text for people, with control characters escaped."""
    return _CONTROLS.sub(lambda match: repr(match[0])[1:-1], text)


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "sentence"), counted(2400, "sentence"), counted(2, "pass")
    ('1 sentence', '2,400 sentences', '2 passes')
    """
    return f"{number:,} {what if number == 1 else plural(what)}"


def plural(what: str) -> str:
    """Several of them.

    >>> plural("iteration"), plural("pass")
    ('iterations', 'passes')
    """
    return f"{what}{'es' if what.endswith('s') else 's'}"


def percent(share: float) -> str:
    """A share in percent; only all of it is 100 %, only nothing 0 %.

    >>> percent(1.0), percent(0.70034), percent(0.99999), percent(0.0)
    ('100 %', '70.03 %', '99.99 %', '0 %')
    """
    if share in (0.0, 1.0):
        return f"{100 * share:.0f} %"
    return f"{min(99.99, max(0.01, 100 * share)):.2f} %"


def duration(seconds: float) -> str:
    """A time to read.

    >>> duration(3.2), duration(200), duration(8000)
    ('3 s', '3 min', '2.2 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def either(names: Iterable[str]) -> str:
    """Names to choose from.

    >>> either(["a"]), either(["a", "b"]), either(["a", "b", "c"])
    ('a', 'a or b', 'a, b or c')
    """
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def shown(value: Any, most: int = 40) -> str:
    """A value in a message; Python refuses to print a whole number of thousands of digits.

    >>> shown("a"), shown(10**5000)
    ("'a'", 'a value of type int')
    """
    try:
        return repr(value)[:most]
    except Exception:
        return f"a value of type {type(value).__name__}"


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters.

    >>> shortened("dictionary", 8), shortened("word", 8)
    ('dicti...', 'word')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def did_you_mean(name: str, known: Iterable[Any], alike: float = 0.7) -> str:
    """The one likely correction of a misspelt name, to stand behind a message.

    >>> did_you_mean("colums", ["columns", "label"]), did_you_mean("colour", ["columns", "label"])
    ("; did you mean 'columns'?", '')
    """
    from difflib import get_close_matches

    names = {str(each).lstrip("-"): each for each in known}  # all options begin alike
    name = name.lstrip("-")
    near = [each for each in ELSEWHERE.get(name, ()) if each in names] or get_close_matches(name, list(names), 1, alike)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def like_label(name: str, labels: Iterable[Any]) -> str:
    """The labels that a name may mean, to stand behind a message: those of a type, or one that is spelt alike.

    >>> like_label("NP", ["B-NP", "I-NP", "O"]), like_label("B-NPP", ["B-NP", "O"]), like_label("X", ["O"])
    ("; did you mean 'B-NP' or 'I-NP'?", "; did you mean 'B-NP'?", '')
    """
    names = [str(label) for label in labels]
    of_type = [repr(label) for label in names if label.endswith(f"-{name}")]
    return f"; did you mean {either(of_type)}?" if of_type else did_you_mean(str(name), names)


def some_of(names: Iterable[Any], most: int = 20) -> str:
    """The first of many names.

    >>> some_of("abc", 2), some_of("ab")
    ('a, b, ...', 'a, b')
    """
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")


def in_context(words: Sequence[str], start: int, end: int, around: int) -> str:
    """Some words with so many on either side.

    >>> in_context("a b c d e".split(), 1, 2, 1)
    'a b c ...'
    """
    before, after = max(0, start - around), end + around
    text = " ".join(words[before:after])
    return f"{'... ' if before else ''}{text}{' ...' if after < len(words) else ''}"


def align(rows: Sequence[Sequence[str]], left: Container[int] = (0,)) -> list[str]:
    """Rows as lines with aligned columns: those of these numbers to the left, the others to the right.

    >>> align([("name", "n"), ("a", "12")])
    ['name   n', 'a     12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def plain(value: Any) -> Any:
    """Records as dicts and tuples as lists, all the way down: ready for JSON.

    >>> from labelwright.corpus.spans import Span
    >>> plain({"x": (1, Span(0, 2, "LOC"))})
    {'x': [1, {'start': 0, 'end': 2, 'type': 'LOC', 'probability': None}]}
    """
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


# -- HTML pages --------------------------------------------------------------------------------------------------------

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
