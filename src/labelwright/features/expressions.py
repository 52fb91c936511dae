"""Regular expressions of templates, which are Wapiti's, as those of Python."""

import re
import string
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

END, NOTHING = r"\Z", "(?!)"  # the end of the text, and what matches no letter

Classes = dict[str, Callable[[str], bool]]

CLASSES: Classes = {
    "a": str.isalpha,
    "d": str.isdecimal,
    "l": str.islower,
    "p": lambda letter: unicodedata.category(letter)[0] in "PS",
    "s": str.isspace,
    "u": str.isupper,
    "w": str.isalnum,
}

ASCII_CLASSES: Classes = {
    "a": frozenset(string.ascii_letters).__contains__,
    "d": frozenset(string.digits).__contains__,
    "l": frozenset(string.ascii_lowercase).__contains__,
    "p": frozenset(string.punctuation).__contains__,
    "s": frozenset(string.whitespace).__contains__,
    "u": frozenset(string.ascii_uppercase).__contains__,
    "w": frozenset(string.ascii_letters + string.digits).__contains__,
}


class RegexError(ValueError):
    """A regular expression is wrong at a place, counted from 0."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class Expression(NamedTuple):
    """A regular expression in the words of Python's."""

    anchored: bool  # it begins at the beginning of the text
    items: tuple[tuple[str, str], ...]  # the Python form of each letter or class, and the sign behind it: ?, * or none

    @property
    def pattern(self) -> str:
        """The whole expression: x* takes as few as possible, x? one if possible."""
        body = "".join(f"{atom}{'*?' if sign == '*' else sign}" for atom, sign in self.items)
        return rf"\A{body}" if self.anchored else body


def translate(regex: str, alphabet: Iterable[str], classes: Classes | None = None) -> Expression:
    r"""Return the Python form of one of Wapiti's regular expressions, for texts over this alphabet.

    Python's `re` has no class for upper case; listing the letters at hand spares the 1.1 million code points.

    >>> translate(r"^\u.*$", "aBCd").pattern
    '\\A[B-C].*?\\Z'
    """
    letters, classes = sorted(alphabet), classes or CLASSES
    known: dict[str, str] = {}  # classes by their letters
    items = []
    at = 1 if regex.startswith("^") else 0
    while at < len(regex):
        atom, after = _atom(regex, at, letters, classes, known)
        sign = regex[after : after + 1]
        sign = sign if sign in ("*", "?") else ""
        items.append((atom, sign))
        at = after + len(sign)
    return Expression(regex.startswith("^"), tuple(items))


def _atom(regex: str, at: int, letters: list[str], classes: Classes, known: dict[str, str]) -> tuple[str, int]:
    """Return the Python form of the one letter or class at this place, and the place after it."""
    letter = regex[at]
    if letter in "*?":
        raise RegexError(f"nothing before {letter} to repeat; write \\{letter} for the character itself", at)
    if letter == ".":
        return ".", at + 1
    if letter == "$" and at + 1 == len(regex):
        return END, at + 1
    if letter != "\\":
        return re.escape(letter), at + 1
    if at + 1 == len(regex):
        raise RegexError("ends in a lone backslash; write \\\\ for the character itself", at)
    escaped = regex[at + 1]
    belongs = classes.get(escaped.lower())
    if belongs is None:
        return re.escape(escaped), at + 2
    if escaped not in known:
        known[escaped] = _class([letter for letter in letters if belongs(letter) == escaped.islower()])
    return known[escaped], at + 2


def _class(members: list[str]) -> str:
    """The Python form of a class of letters, which are sorted."""
    runs: list[list[str]] = []
    for letter in members:
        if runs and ord(runs[-1][-1]) + 1 == ord(letter):
            runs[-1][1:] = [letter]
        else:
            runs.append([letter])
    return f"[{''.join('-'.join(map(re.escape, run)) for run in runs)}]" if runs else NOTHING
