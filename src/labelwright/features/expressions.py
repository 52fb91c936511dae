"""Regular expressions of templates, which are Wapiti's, as those of Python."""

import re
import string
import unicodedata
from collections.abc import Callable, Iterable

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


def translate(regex: str, alphabet: Iterable[str], classes: Classes | None = None) -> str:
    r"""Return the Python form of one of Wapiti's regular expressions, for texts over this alphabet.

    Python's `re` has no class for upper case; listing the letters at hand spares the 1.1 million code points.

    >>> translate(r"^\u.*$", "aBcD")
    '\\A[BD].*?\\Z'
    """
    letters, classes = sorted(alphabet), classes or CLASSES
    pieces = []
    at = 0
    if regex.startswith("^"):
        pieces.append(r"\A")
        at = 1
    while at < len(regex):
        atom, after = _atom(regex, at, letters, classes)
        if regex[after : after + 1] in ("*", "?"):
            atom += "*?" if regex[after] == "*" else "?"
            after += 1
        pieces.append(atom)
        at = after
    return "".join(pieces)


def _atom(regex: str, at: int, letters: list[str], classes: Classes) -> tuple[str, int]:
    """Return the Python form of the one letter or class at this place, and the place after it."""
    letter = regex[at]
    if letter in "*?":
        raise RegexError(f"nothing before {letter} to repeat; write \\{letter} for the character itself", at)
    if letter == ".":
        return ".", at + 1
    if letter == "$" and at + 1 == len(regex):
        return r"\Z", at + 1
    if letter != "\\":
        return re.escape(letter), at + 1
    if at + 1 == len(regex):
        raise RegexError("ends in a lone backslash; write \\\\ for the character itself", at)
    escaped = regex[at + 1]
    belongs = classes.get(escaped.lower())
    if belongs is None:
        return re.escape(escaped), at + 2
    wanted = escaped.islower()
    members = "".join(re.escape(letter) for letter in letters if belongs(letter) == wanted)
    return f"[{members}]" if members else "(?!)", at + 2
