"""Regular expressions of templates, which are Wapiti's, as those of Python."""

import re
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache
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

    @property
    def n_classes(self) -> int:
        """How many items are classes of letters, which take long to compile where there are many letters."""
        return sum(atom.startswith(("[", NOTHING)) for atom, _ in self.items)


def translate(regex: str, alphabet: str, ascii_only: bool = False) -> Expression:
    r"""Return the Python form of one of Wapiti's regular expressions, for texts over this alphabet.

    Python's `re` has no class for upper case; listing the letters at hand spares the 1.1 million code points.

    ascii_only : only ASCII has letters, digits and case

    >>> translate(r"^\u.*$", "aBCd").pattern
    '\\A[B-C].*?\\Z'
    """
    items = []
    at = 1 if regex.startswith("^") else 0
    while at < len(regex):
        atom, after = _atom(regex, at, alphabet, ascii_only)
        sign = regex[after : after + 1]
        sign = sign if sign in ("*", "?") else ""
        items.append((atom, sign))
        at = after + len(sign)
    return Expression(regex.startswith("^"), tuple(items))


def _atom(regex: str, at: int, alphabet: str, ascii_only: bool) -> tuple[str, int]:
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
    return (_class(escaped, alphabet, ascii_only) if escaped.lower() in CLASSES else re.escape(escaped)), at + 2


@lru_cache(maxsize=256)
def _class(name: str, alphabet: str, ascii_only: bool) -> str:
    """The Python form of a class of letters; the capital is the complement.  Made once for all expressions."""
    import numpy as np  # the help of commands does without

    belongs = (ASCII_CLASSES if ascii_only else CLASSES)[name.lower()]
    is_member = np.fromiter(map(belongs, alphabet), np.bool_, len(alphabet)) == name.islower()
    codes = np.frombuffer(alphabet.encode("utf-32-le", "surrogatepass"), "<u4")
    members = np.sort(codes[is_member].astype(np.int64), kind="stable")
    if not len(members):
        return NOTHING
    gaps = np.flatnonzero(np.diff(members) > 1)
    first, last = members[np.append(0, gaps + 1)].tolist(), members[np.append(gaps, -1)].tolist()
    return f"[{''.join(map(_run, first, last))}]"


def _run(first: int, last: int) -> str:
    return "-".join(re.escape(chr(code)) for code in sorted({first, last}))
