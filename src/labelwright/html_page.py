"""Self-contained pages for a browser: the facts as JSON, the style and the script all in one file."""

import json
from html import escape
from typing import Any


def html_page(title: str, style: str, body: str, script: str, data: Any) -> str:
    """A page whose script reads `data` from the element with the id "data"."""
    facts = json.dumps(data, ensure_ascii=False, default=float, separators=(",", ":")).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{facts}</script>
<script>{script}</script>
</body>
</html>
"""
