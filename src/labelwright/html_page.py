"""Self-contained pages for a browser: the facts as JSON, the style and the script all in one file.

All pages share the palette, light or dark as the reader's system is, and two lines of script: the facts as `facts`, and
`make` for elements.
"""

import json
from html import escape
from typing import Any


def html_page(title: str, style: str, body: str, script: str, data: Any) -> str:
    """A page with a style and a script of its own, after those of all pages; the script knows `data` as `facts`."""
    facts = json.dumps(data, ensure_ascii=False, default=float, separators=(",", ":")).replace("<", "\\u003c")
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
<script type="application/json" id="data">{facts}</script>
<script>{SCRIPT}{script}</script>
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
table { border-collapse: collapse; font-size: .87rem; }
th { color: var(--quiet); font-weight: 500; }
button, select, input { font: inherit; color: var(--text); }
button { cursor: pointer; }
"""

SCRIPT = """
"use strict";
const facts = JSON.parse(document.getElementById("data").textContent);
// An element with its text; `how` is its class, or an object of attributes.
function make(tag, text, how) {
  const element = Object.assign(document.createElement(tag), typeof how === "string" ? {className: how} : how);
  if (text !== undefined && text !== null) element.textContent = text;
  return element;
}
"""
