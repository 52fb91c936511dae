r"""Feature templates: text -> parsed once -> immutable patterns; readers run once per distinct
value.

The language is that of CRF++ and Wapiti with a few additions. The first letter of a line says what
its features are attached to:

    U  states    B  pairs of labels    *  both    T  triples of labels (order 2)    #  comment

    %x[row,col]                     the value
    %X[row,col], %lower[row,col]    the value in lower case
    %m[row,col,"regex"]             what matched, or "";  %M  the same in lower case
    %t[row,col,"regex"]             true or false;  %T  the same
    %prefix[row,col,n]              first n letters
    %suffix[row,col,n]              last n letters
    %shape[row,col]                 McNeil-27 -> XxXxxx-dd
    %short_shape[row,col]           McNeil-27 -> XxXx-d
    %each[row,col]                  each part of a|b|c
    %y[row], %y[row,NAME], %log_y   the label of a lower layer (cascade)
    %n[row,col]                     the number
    %v[row], %a[row]                the word's vector, a row of an array
    %d[row,NAME]                    tag in a dictionary
    %c[row,NAME], %c[row,NAME,n]    the word's cluster, or n letters of it
    %byte_match, %byte_test, %byte_lower, %byte_lower_match: %m, %t, %X and %M as Wapiti reads them,
    byte by byte

Rows count from the current token; `@1` is the first token of the sentence and `@-1` the last. A `B`
alone is the plain transition, a `U` without cells a bias. Regular expressions are Wapiti's: `^`
first, `$` last, `.`, `x?` (longest first), `x*` (shortest first), and a backslash before a
character for itself or for a class: \a letter, \d digit, \l lower case, \u upper case, \p
punctuation or symbol, \s space, \w letter or digit; the capital is the complement. Everything else,
brackets too, means itself. They match letters where Wapiti matches bytes, which only the %byte_...
functions do: there `.` is one byte of UTF-8, and only ASCII has letters, digits and case.
"""

import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from labelwright.errors import TemplateError
from labelwright.features.expressions import BoundedSearch, RegexError, translate

KINDS = "UBT*"
MOST_BYTES = 1 << 24  # of a file with a template
LONGEST_LINE = 10_000  # characters
LONGEST_REGEX = 500
MOST_PATTERNS = 5_000  # of a template
MOST_CELLS = 100, 20_000  # of a line, and of a template
# places outside a sentence: up to the largest row, for each way to read a value
MOST_OUTSIDE = 1 << 22
# such as \\a in the regular expressions of a template, each expression counted once
MOST_CLASSES = 500
KEPT = 1024  # expressions that stay compiled
MOST_BLOCKS = 24  # of 256 letters for which regular expressions are compiled; then it is for all
ALL_BLOCKS = frozenset(range(0x1100))
LIMIT = 9999  # the largest row, column or affix length
# the column of the labels of lower layers; the argument of the reader is the name of the layer
BELOW = -1
# the column of the first source, until it is known how many columns the data have; -3, ... follow
FIRST_SOURCE = -2
NAME = r"[^\W\d][\w.-]*"  # of a dictionary or of clusters
NUMBERS = ("number", "vector", "array")  # functions of cells that read numbers, not strings


class Source(NamedTuple):
    """A further column, which is not one of the data."""

    kind: str  # "dictionary" or "clusters"
    name: str


class Reader(NamedTuple):
    """What is computed from one value of one column, once per distinct value."""

    column: int
    function: str  # a key of READERS
    # regular expression, affix length, name of a lower layer, or nothing
    argument: str | int | None = None


class Cell(NamedTuple):
    """One reader at one place: a row relative to the token, or an absolute one as Python counts (0
    first, -1 last)."""

    row: int
    absolute: bool
    reader: Reader


class Pattern(NamedTuple):
    """One line of a template: fixed text around cells, literals[0] cells[0] literals[1] ...
    literals[-1]."""

    kind: str  # "U" states, "B" pairs of labels, "*" both, "T" triples
    text: str  # the line as written, without comment and surrounding spaces
    literals: tuple[str, ...]  # one more than cells
    cells: tuple[Cell, ...]
    line: int  # counted from 1

    @property
    def name(self) -> str:
        """The text before the first colon, or the whole line."""
        head, colon, _ = self.literals[0].partition(":")
        return head if colon else self.text


class Template(NamedTuple):
    """A parsed template: its patterns in order, and the text they came from."""

    patterns: tuple[Pattern, ...]
    text: str
    name: str
    # the dictionaries and clusters that cells read, in order of appearance
    sources: tuple[Source, ...] = ()

    def __repr__(self) -> str:
        return f"<template {self.name!r} of {len(self.patterns)} lines>"

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that any cell reads, in increasing order."""
        return tuple(
            sorted({cell.reader.column for pattern in self.patterns for cell in pattern.cells})
        )

    @property
    def n_columns(self) -> int:
        """How many columns the data must have: the highest column read, plus one."""
        return max(self.columns, default=-1) + 1

    def resolved(self, n_columns: int) -> "Template":
        """The template for data of so many columns: those of sources come behind them."""

        def resolved(cell: Cell) -> Cell:
            column = cell.reader.column
            if column > FIRST_SOURCE:
                return cell
            return cell._replace(
                reader=cell.reader._replace(column=n_columns + FIRST_SOURCE - column)
            )

        patterns = tuple(p._replace(cells=tuple(map(resolved, p.cells))) for p in self.patterns)
        return self._replace(patterns=patterns) if self.sources else self


# --- readers: one value of a column -> what the template sees of it -------------------------------


def apply(reader: Reader, values: list[str]) -> list[str]:
    r"""Return what the reader sees of each of the distinct values of its column.

    >>> apply(Reader(0, "short_shape"), ["McNeil-2", "of"])
    ['XxXx-d', 'x']
    >>> apply(Reader(0, "match", r"\d\d?$"), ["May", "1998"])
    ['', '98']
    """
    return READERS[reader.function](values, reader.argument)


class _Searcher:
    """A regular expression over all letters seen so far, in blocks of 256: compiled again when
    another block comes, and for all of Unicode after some."""

    def __init__(self, regex: str):
        self.regex = regex
        self.compiled: tuple[frozenset[int], BoundedSearch | None] = (frozenset(), None)

    def over(self, values: Iterable[str]) -> BoundedSearch:
        """The search that serves these values."""
        text = "".join(values)
        blocks, search = self.compiled  # one pair: another thread may replace it
        needed = {0} if text.isascii() else {ord(letter) >> 8 for letter in set(text)}
        if search is None or not needed <= blocks:
            blocks |= needed
            blocks = blocks if len(blocks) <= MOST_BLOCKS else ALL_BLOCKS
            search = BoundedSearch(translate(self.regex, _letters(blocks)))
            self.compiled = blocks, search
        return search


@lru_cache(maxsize=8)
def _letters(blocks: frozenset[int]) -> str:
    """The letters of these blocks, one string for all expressions."""
    return "".join(
        chr(code) for block in sorted(blocks) for code in range(block << 8, (block + 1) << 8)
    )


_searcher = lru_cache(maxsize=KEPT)(_Searcher)


@lru_cache(maxsize=KEPT)
def _byte_searcher(regex: str) -> BoundedSearch:
    return BoundedSearch(
        translate(_letter_per_byte(regex), _letters(frozenset({0})), ascii_only=True)
    )


@lru_cache(maxsize=KEPT)
def _affix(regex: str) -> slice | None:
    """The affix that Wapiti spells ^.?.? or .?.?$: slices are ten times faster, and templates are
    full of them."""
    if re.fullmatch(r"\^(\.\?)+", regex):
        return slice(regex.count("?"))
    return slice(-regex.count("?"), None) if re.fullmatch(r"(\.\?)+\$", regex) else None


def _match(values: list[str], regex: str) -> list[str]:
    affix = _affix(regex)
    if affix is not None:
        return [value[affix] for value in values]
    search = _searcher(regex).over(values)
    return [search(value) or "" for value in values]


def _tested(search: BoundedSearch, values: Iterable[str]) -> list[str]:
    return ["false" if search(value) is None else "true" for value in values]


def _byte_match(values: list[str], regex: str) -> list[str]:
    search = _byte_searcher(regex)
    matches = (search(_letter_per_byte(value)) or "" for value in values)
    # parts are surrogates
    return [match.encode("latin-1").decode("utf-8", "surrogateescape") for match in matches]


def _byte_lower(values: list[str]) -> list[str]:
    return [value.translate(ASCII_LOWER) for value in values]


def _letter_per_byte(text: str) -> str:
    """One letter for each byte of UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return text.encode("utf-8", "surrogatepass").decode("latin-1")


class _Shapes(dict[int, str]):
    """The shape of each letter, found when it is first asked for."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        if letter.isupper() or letter.istitle():
            shape = "X"
        elif letter.islower():
            shape = "x"
        elif letter.isdecimal():
            shape = "d"
        else:
            # letters of scripts without case, and their marks, would otherwise be as many shapes as
            # words
            shape = (
                "a" if letter.isalpha() or unicodedata.category(letter).startswith("M") else letter
            )
        return self.setdefault(code, shape)


SHAPES = _Shapes()


def _shape(values: list[str], _: object) -> list[str]:
    return [value.translate(SHAPES) for value in values]


def _short_shape(values: list[str], _: object) -> list[str]:
    shapes = _shape(values, None)
    shorter = {shape: re.sub(r"(.)\1+", r"\1", shape, flags=re.DOTALL) for shape in set(shapes)}
    return [shorter[shape] for shape in shapes]


ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

READERS: dict[str, Callable[[list[str], Any], list[str]]] = {
    "value": lambda values, _: values,
    "each": lambda values, _: values,  # split into parts when they are numbered
    "below": lambda values, _: values,
    "log_below": lambda values, _: values,
    "number": lambda values, _: values,  # as taggers without weights read it
    "lower": lambda values, _: [value.lower() for value in values],
    "match": _match,
    "lower_match": lambda values, regex: [match.lower() for match in _match(values, regex)],
    "test": lambda values, regex: _tested(_searcher(regex).over(values), values),
    "prefix": lambda values, length: [value[:length] for value in values],
    "suffix": lambda values, length: [value[-length:] for value in values],
    "shape": _shape,
    "short_shape": _short_shape,
    "byte_lower": lambda values, _: _byte_lower(values),
    "byte_match": _byte_match,
    "byte_lower_match": lambda values, regex: _byte_lower(_byte_match(values, regex)),
    "byte_test": lambda values, regex: _tested(
        _byte_searcher(regex), map(_letter_per_byte, values)
    ),
}

# What is written after % -> the reader's function, and what it takes beside row and column, or
# instead of them.
SYNTAX = {
    "x": ("value", None),
    "X": ("lower", None),
    "m": ("match", "regex"),
    "M": ("lower_match", "regex"),
    "t": ("test", "regex"),
    "T": ("test", "regex"),
    "lower": ("lower", None),
    "prefix": ("prefix", "length"),
    "suffix": ("suffix", "length"),
    "shape": ("shape", None),
    "short_shape": ("short_shape", None),
    "each": ("each", None),
    "y": ("below", "layer"),
    "log_y": ("log_below", "layer"),
    "n": ("number", None),
    "v": ("vector", "row"),
    "a": ("array", "row"),
    "d": ("dictionary", "source"),
    "c": ("clusters", "source"),
    "byte_lower": ("byte_lower", None),
    "byte_match": ("byte_match", "regex"),
    "byte_lower_match": ("byte_lower_match", "regex"),
    "byte_test": ("byte_test", "regex"),
}

REGEX_READERS = {function for function, takes in SYNTAX.values() if takes == "regex"}

# --- parsing --------------------------------------------------------------------------------------


class _Line:
    """One line and its place, for error messages; how far it is read; and the sources that lines
    read."""

    def __init__(self, text: str, name: str, number: int, sources: dict[Source, int]):
        self.text, self.name, self.number, self.sources, self.at = text, name, number, sources, 0
        self.skip_blanks()

    def error(self, message: str, at: int | None = None) -> TemplateError:
        # What the user wrote is quoted; a stray control character must not break the one line of
        # the message.
        printable = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in message)
        return TemplateError(
            f"{self.name}:{self.number}:{(self.at if at is None else at) + 1}: {printable}"
        )

    def next_is(self, sign: str) -> bool:
        return self.text.startswith(sign, self.at)

    def skip_blanks(self) -> None:
        while self.next_is(" ") or self.next_is("\t"):
            self.at += 1

    def expect(self, sign: str, where: str) -> None:
        """Skip a sign and the spaces around it."""
        self.skip_blanks()
        if not self.next_is(sign):
            got = repr(self.text[self.at]) if self.at < len(self.text) else "the end of the line"
            raise self.error(f"expected {sign} {where}, got {got}")
        self.at += 1
        if sign != "]":
            self.skip_blanks()

    def argument(self) -> str:
        """What is written up to the next comma or bracket."""
        return re.split(r"[],]", self.text[self.at :], maxsplit=1)[0]

    def integer(self, what: str, signed: bool = False) -> int:
        match = re.compile(r"[+-]?[0-9]+").match(self.text, self.at)
        if match is None:
            raise self.error(
                f"the {what} must be a whole number, got {self.argument().strip()[:20]!r}"
            )
        digits = match.group()
        if digits[0] == "-" and not signed:
            raise self.error(f"the {what} cannot be negative, got {digits[:20]}")
        if len(digits.lstrip("+-0")) > len(str(LIMIT)):
            raise self.error(
                f"the {what} is too large, expected at most {LIMIT}, got {digits[:20]}"
            )
        self.at = match.end()
        return int(digits)

    def regex(self) -> str:
        if not self.next_is('"'):
            raise self.error('a regular expression must be in double quotes, as in %m[0,0,"^.?.?"]')
        quoted = re.compile(r'"((?:[^"\\]|\\.)*)"').match(self.text, self.at)
        if quoted is None:
            raise self.error(
                'the quote is not closed; write \\" for a quote inside a regular expression'
            )
        regex = quoted.group(1)
        if len(regex) > LONGEST_REGEX:
            raise self.error(
                f"a regular expression of {len(regex):,} characters, expected at most "
                f"{LONGEST_REGEX}"
            )
        try:
            translate(regex, "")
        except RegexError as problem:
            raise self.error(
                f'in the regular expression "{regex}": {problem}', self.at + 1 + problem.at
            ) from None
        self.at = quoted.end()
        return regex


def parse_template(text: str, name: str = "template") -> Template:
    """Parse the text of a template; `name` is the file that error messages speak of.

    >>> template = parse_template("B\\nU01:%x[0,0]/%suffix[-1,0,3]  # word and ending before it")
    >>> [pattern.name for pattern in template.patterns], template.n_columns
    (['B', 'U01'], 1)
    >>> template.patterns[1].cells[1]
    Cell(row=-1, absolute=False, reader=Reader(column=0, function='suffix', argument=3))
    """
    patterns = []
    sources: dict[Source, int] = {}
    for number, content in enumerate(re.split("\r\n|\r|\n", text.removeprefix("\ufeff")), start=1):
        line = _Line(content.rstrip(), name, number, sources)
        if len(line.text) > LONGEST_LINE:
            raise line.error(
                f"a line of {len(line.text):,} characters, expected at most {LONGEST_LINE:,}", 0
            )
        if line.at < len(line.text) and not line.next_is("#"):
            patterns.append(_pattern(line))
        if len(patterns) > MOST_PATTERNS:
            raise line.error(f"more than {MOST_PATTERNS:,} patterns; leave some out", 0)
    if not patterns:
        raise TemplateError(f"{name}: no pattern, expected at least one line such as U01:%x[0,0]")
    _check_size([cell for pattern in patterns for cell in pattern.cells], name)
    return Template(tuple(patterns), text, name, tuple(sources))


def _check_size(cells: Sequence[Cell], name: str) -> None:
    """Refuse more cells than can be read in a reasonable time, more places outside sentences than
    can be held, and more classes than can be compiled in a few seconds."""
    if len(cells) > MOST_CELLS[1]:
        raise TemplateError(
            f"{name}: {len(cells):,} cells, expected at most {MOST_CELLS[1]:,}; leave some lines "
            "out"
        )
    readers = {cell.reader for cell in cells}
    farthest = max((abs(cell.row) for cell in cells), default=0)
    if len(readers) * farthest > MOST_OUTSIDE:
        raise TemplateError(
            f"{name}: a row of {farthest:,} where {len(readers):,} different values are read, "
            f"expected rows up to {MOST_OUTSIDE // len(readers):,} there"
        )
    regexes = {reader.argument for reader in readers if reader.function in REGEX_READERS}
    n = sum(translate(str(regex), "").n_classes for regex in regexes)
    if n > MOST_CLASSES:
        raise TemplateError(
            f"{name}: the regular expressions have {n:,} classes such as \\a, expected at most "
            f"{MOST_CLASSES}"
        )


def _pattern(line: _Line) -> Pattern:
    start = line.at
    kind = line.text[start].upper()
    if kind not in KINDS:
        raise line.error(
            f"a pattern begins with U, B, T or *, not {line.text[start]!r}; # begins a comment"
        )
    literals = [""]
    cells: list[Cell] = []
    while line.at < len(line.text):
        if line.next_is("%"):
            if len(cells) == MOST_CELLS[0]:
                raise line.error(f"more than {MOST_CELLS[0]} cells in a line; write several lines")
            cells.append(_cell(line))
            literals.append("")
        elif line.next_is("#") and line.text[line.at - 1].isspace():
            break
        else:
            literals[-1] += line.text[line.at]
            line.at += 1
    literals[-1] = literals[-1].rstrip()
    functions, columns = (
        [cell.reader.function for cell in cells],
        {cell.reader.column for cell in cells},
    )
    if functions.count("each") > 1 or ("each" in functions and BELOW in columns):
        raise line.error("a line may hold one %each, and no %y beside it; write two lines", start)
    if set(functions) & set(NUMBERS) and (len(cells) > 1 or kind != "U" or cells[0].absolute):
        raise line.error(
            "a line with %n, %v or %a begins with U and holds nothing else, and no row with @",
            start,
        )
    if BELOW in columns and min(columns) < BELOW:
        raise line.error("a line may not hold %y beside %d or %c; write two lines", start)
    return Pattern(
        kind, line.text[start : line.at].rstrip(), tuple(literals), tuple(cells), line.number
    )


def _cell(line: _Line) -> Cell:
    """Parse %function[row,column,argument]; labels and sources have a name instead of the column,
    and the row of a source may be left out."""
    begin = line.at
    function = re.split("[^A-Za-z_]", line.text[begin + 1 :], maxsplit=1)[0]
    if function not in SYNTAX:
        known = ", ".join(f"%{key}" for key in SYNTAX)
        raise line.error(
            f"unknown function %{function[:20] or line.text[begin + 1 : begin + 2]}; known: {known}"
        )
    reads, takes = SYNTAX[function]
    line.at += 1 + len(function)
    line.expect("[", f"after %{function}")
    row, absolute = 0, line.next_is("@")
    has_row = (
        takes != "source" or absolute or re.match(r"[+-]?[0-9]", line.text[line.at :]) is not None
    )
    if has_row:
        line.at += absolute
        row = line.integer("row", signed=True)
        if absolute and row == 0:
            raise line.error(
                "no row @0; @1 is the first token of the sentence, @-1 the last", line.at - 1
            )
    if takes == "source":
        if has_row:
            line.expect(",", f"and a name, as in %{function}[{row},cities]")
        reader = _source(line, function)
    elif takes == "layer":
        if absolute:
            near = f"%{function}[{-1 if row < 0 else 1}]"
            raise line.error(
                f"%{function} reads labels near the token; use a row without @, as in {near}", begin
            )
        reader = Reader(BELOW, reads, _layer(line, f"%{function}[{row},pos]"))
    elif takes == "row":
        reader = Reader(0, reads)
    else:
        line.expect(",", "after the row")
        column = line.integer("column")
        if takes is not None:
            example = '"^.?.?"' if takes == "regex" else "3"
            line.expect(",", f"and a {takes}, as in %{function}[{row},{column},{example}]")
        place = line.at
        argument = (
            line.regex()
            if takes == "regex"
            else line.integer("length")
            if takes == "length"
            else None
        )
        if argument == 0:
            raise line.error(f"%{function} of length 0, expected 1 or more", place)
        reader = Reader(column, reads, argument)
    line.expect("]", f"to close %{function}[")
    return Cell(row - (absolute and row > 0), absolute, reader)


def _layer(line: _Line, example: str) -> str | None:
    """The name of a lower layer, where there is one."""
    line.skip_blanks()
    if not line.next_is(","):
        return None
    line.expect(",", "")
    written = line.argument()
    if not written.strip():
        raise line.error(f"expected the name of a lower layer, as in {example}, got none")
    line.at += len(written)
    return written.strip()


def _source(line: _Line, function: str) -> Reader:
    """The name of a dictionary or of clusters, and how many letters of the cluster."""
    name, length = re.compile(NAME).match(line.text, line.at), None
    if name is None:
        got = line.argument().strip()[:20]
        raise line.error(
            f"expected a name of letters and digits, as in %{function}[cities], got {got!r}"
        )
    line.at = name.end()
    line.skip_blanks()
    if function == "c" and line.next_is(","):
        line.expect(",", "")
        length = line.integer("length")
        if length == 0:
            raise line.error("%c of length 0, expected 1 or more", line.at - 1)
    source = Source(SYNTAX[function][0], name.group())
    column = FIRST_SOURCE - line.sources.setdefault(source, len(line.sources))
    return Reader(column, "value") if length is None else Reader(column, "prefix", length)
