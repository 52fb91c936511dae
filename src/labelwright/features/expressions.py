"""Regular expressions of templates, which are Wapiti's, as those of Python."""

import re
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

from labelwright.errors import CorpusError

END, NOTHING = r"\Z", "(?!)"  # the end of the text, and what matches no letter

CLASSES: dict[str, Callable[[str], bool]] = {
    "a": str.isalpha,
    "d": str.isdecimal,
    "l": str.islower,
    "p": lambda letter: unicodedata.category(letter)[0] in "PS",
    "s": str.isspace,
    "u": str.isupper,
    "w": str.isalnum,
}


class RegexError(ValueError):
    """A regular expression is wrong at a place, counted from 0."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class Expression(NamedTuple):
    """A regular expression in the words of Python's."""

    anchored: bool  # it begins at the beginning of the text
    # the Python form of each letter or class, and the sign behind it: ?, * or none
    items: tuple[tuple[str, str], ...]

    @property
    def pattern(self) -> str:
        """The whole expression: x* takes as few as possible, x? one if possible."""
        body = "".join(f"{atom}{'*?' if sign == '*' else sign}" for atom, sign in self.items)
        return rf"\A{body}" if self.anchored else body

    @property
    def n_classes(self) -> int:
        """How many items are classes of letters, which take long to compile where there are many
        letters."""
        return sum(atom.startswith(("[", NOTHING)) for atom, _ in self.items)


def translate(regex: str, alphabet: str, ascii_only: bool = False) -> Expression:
    r"""Return the Python form of one of Wapiti's regular expressions, for texts over this alphabet.

    Python's `re` has no class for upper case; listing the letters at hand spares the 1.1 million
    code points.

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
        raise RegexError(
            f"nothing before {letter} to repeat; write \\{letter} for the character itself", at
        )
    if letter == ".":
        return ".", at + 1
    if letter == "$" and at + 1 == len(regex):
        return END, at + 1
    if letter != "\\":
        return re.escape(letter), at + 1
    if at + 1 == len(regex):
        raise RegexError("ends in a lone backslash; write \\\\ for the character itself", at)
    escaped = regex[at + 1]
    return (
        _class(escaped, alphabet, ascii_only) if escaped.lower() in CLASSES else re.escape(escaped)
    ), at + 2


@lru_cache(maxsize=256)
def _class(name: str, alphabet: str, ascii_only: bool) -> str:
    """The Python form of a class of letters; the capital is the complement.  Made once for all
    expressions."""
    import numpy as np  # the help of commands does without

    belongs = CLASSES[name.lower()]
    if ascii_only:  # where only six characters are spaces
        of_kind, spaces = belongs, string.whitespace if name.lower() == "s" else alphabet
        belongs = lambda letter: letter.isascii() and of_kind(letter) and letter in spaces  # noqa: E731
    is_member = np.fromiter(map(belongs, alphabet), np.bool_, len(alphabet)) == name.islower()
    codes = np.frombuffer(alphabet.encode("utf-32-le", "surrogatepass"), "<u4")
    members = np.sort(codes[is_member].astype(np.int64), kind="stable")
    if not len(members):
        return NOTHING
    gaps = np.flatnonzero(np.diff(members) > 1)
    first, last = members[np.append(0, gaps + 1)].tolist(), members[np.append(gaps, -1)].tolist()
    runs = [
        "-".join(re.escape(chr(code)) for code in sorted(set(run)))
        for run in zip(first, last, strict=True)
    ]
    return f"[{''.join(runs)}]"


# -- searching in bounded time ---------------------------------------------------------------------

# An expression is a sequence of letters and classes, each once, optional (x?, longest first) or
# repeated (x*, shortest first).  Python's `re` finds the same match, but tries every way to cut a
# text: k stars on a text of n letters take n^k steps, and k optional letters 2^k.  Where that may
# be many, the search here remembers which place in the text was tried with which item of the
# expression, and takes at most n times k steps.

# of texts that are left to Python's search, where that is fast
LENGTHS = (4, 8, 16, 24, 32, 64, 128, 256, 512, 1024)
MOST_CLASSES = 16  # in an expression that is left to it: each is compiled anew, all letters of it
MOST_PLACES = 1 << 26  # pairs of an item and a place in a text, each of which takes a byte
# of Python's search, for each letter and item: it is that much faster than the search here
STEPS = 256


class BoundedSearch:
    """An expression that is searched in time proportional to the length of the text.

    >>> from labelwright.features.expressions import translate
    >>> search = BoundedSearch(translate("a*a*a*a*a*b", "ab"))
    >>> search("xaab"), search("a" * 2000)
    ('aab', None)
    """

    def __init__(self, expression: Expression):
        self._expression = expression
        lengths = takewhile(lambda n: self._steps(n) <= STEPS, LENGTHS)
        self._longest = max(lengths, default=0)  # text for Python's search
        if expression.n_classes > MOST_CLASSES:
            self._longest = 0
        self._compiled = re.compile(expression.pattern, re.DOTALL) if self._longest else None
        # what matches one letter, None for the end of the text, and the sign
        self._items: list[tuple[Any, str]] = []

    def __call__(self, text: str) -> str | None:
        """What matched, or None."""
        if self._compiled is not None and len(text) <= self._longest:
            match = self._compiled.search(text)
            return match.group() if match else None
        return self._search(text)

    def _steps(self, n: int) -> float:
        """An upper bound on what Python's search tries in a text of n letters, for each letter and
        item."""
        signs = [sign for _, sign in self._expression.items]
        starts, optional = 0 if self._expression.anchored else 1, signs.count("?")
        ways = float(n + 1) ** min(starts + signs.count("*"), 20) * min(
            2.0**optional, (optional + 1.0) ** min(n, 60)
        )
        return ways / ((n + 1) * (len(signs) + 1))

    def _search(self, text: str) -> str | None:
        """The first match, as a search that goes back finds it: what failed once is not tried
        again."""
        if not self._items:
            atoms = self._expression.items
            self._items = [
                (None if x == END else re.compile(x, re.DOTALL).match, sign) for x, sign in atoms
            ]
        if len(self._items) * (len(text) + 1) > MOST_PLACES:
            raise CorpusError(
                f"a value of {len(text):,} characters is too long for a regular expression of "
                f"{len(self._items)} items; expected at most "
                f"{MOST_PLACES // len(self._items) - 1:,}"
            )
        failed = bytearray(len(self._items) * (len(text) + 1))
        for start in range(1 if self._expression.anchored else len(text) + 1):
            end = self._match(text, start, failed)
            if end is not None:
                return text[start:end]
        return None

    def _match(self, text: str, start: int, failed: bytearray) -> int | None:
        """Where the match that begins at `start` ends; `failed` marks pairs of item and place that
        lead to none."""
        width = len(text) + 1
        waiting = [(0, start)]  # items and places to be tried, the next one last
        while waiting:
            k, at = waiting.pop()
            if k == len(self._items):
                return at
            if failed[k * width + at]:
                continue
            failed[k * width + at] = True
            matches, sign = self._items[k]
            if matches is None:
                fits, sign = at == len(text), "end"
            else:
                fits = at < len(text) and matches(text, at) is not None
            waiting += _choices(k, at, fits, sign)
        return None


def _choices(k: int, at: int, fits: bool, sign: str) -> list[tuple[int, int]]:
    """What may follow item k at a place, the best choice last."""
    if sign == "*":  # shortest first
        return [(k, at + 1), (k + 1, at)] if fits else [(k + 1, at)]
    if sign == "?":  # longest first
        return [(k + 1, at), (k + 1, at + 1)] if fits else [(k + 1, at)]
    return [(k + 1, at if sign == "end" else at + 1)] if fits else []
