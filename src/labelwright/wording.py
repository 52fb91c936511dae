"""What people read: numbers and names as sentences show them, and records as plain values."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

# What other programs call settings, and our options and settings for them.
ELSEWHERE = {
    "c1": ["l1"],
    "c2": ["l2"],
    "epochs": ["iterations", "max_iter"],
    "max-iter": ["iterations"],
}
# Codes that move a terminal's cursor or turn the direction of a line; tabs and line ends are part
# of tables.
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
    near = [each for each in ELSEWHERE.get(name, ()) if each in names] or get_close_matches(
        name, list(names), 1, alike
    )
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def like_label(name: str, labels: Iterable[Any]) -> str:
    """The labels that a name may mean, to stand behind a message: those of a type, or one that is
    spelt alike.

    >>> like_label("NP", ["B-NP", "I-NP", "O"])
    "; did you mean 'B-NP' or 'I-NP'?"
    >>> like_label("B-NPP", ["B-NP", "O"]), like_label("X", ["O"])
    ("; did you mean 'B-NP'?", '')
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
    """Rows as lines with aligned columns: those of these numbers to the left, the others to the
    right.

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
