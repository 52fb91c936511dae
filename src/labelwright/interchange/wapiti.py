r"""Models of Wapiti, which are text.

    #mdl#2#13           kind of model (0 maxent, 1 MEMM, 2 CRF; missing in old files), number of
                        weights
    #rdr#2/0/0          number of patterns, highest column, whether every token is a sequence (--me)
    9:u:%x[0,0],        patterns, labels and observations are netstrings: length, colon, bytes,
    1:b,                comma
    #qrk#2              labels
    1:D,
    1:N,
    #qrk#2              observations
    1:b,
    5:u:the,
    4=0x1.8p-1          weights that are not zero: number, and value as a C99 hexadecimal or a
                        decimal number

Weights are numbered by the observations in their order: one for each label (u, *), then one for
each pair (b, *).

Regular expressions and lower case are about bytes in Wapiti, hence the %byte_... functions in the
template.  They match as documented; where an optional character is given back (`a?ab` on abc),
Wapiti itself counts the length of the match wrongly, and a model with such an observation is
refused.
"""

import re

import numpy as np

from labelwright.errors import ModelFileError
from labelwright.features.incidence import Longs
from labelwright.interchange.observations import Line, Observations, checked_labels, trained_crf
from labelwright.modelfile import LARGEST_WEIGHT
from labelwright.taggers.crf import CRF

KINDS = b"ub*"
FAR = 5  # places outside the sentence from here on look the same
MEMM = 1

# %x[row,column] and %m[row,column,"regex"]
CELL = re.compile(
    r'%(?:([xX])\[(@?[^],]*),([^],]*)\]|([mMtT])\[(@?[^],]*),([^],]*),("(?:[^"\\]|\\.)*")\])',
    re.DOTALL,
)
NUMBER = re.compile(r"\s*[+-]?(?:0|[1-9][0-9]{0,3})", re.ASCII)  # a leading 0 would be octal
FUNCTIONS = {
    "x": "x",
    "X": "byte_lower",
    "m": "byte_match",
    "M": "byte_lower_match",
    "t": "byte_test",
}
WEIGHT = re.compile(rb"([0-9]{1,18})=([-+.0-9A-Za-z]{1,60})")


def looks_like(data: bytes) -> bool:
    """Do these bytes begin like a model of Wapiti?"""
    return data.startswith(b"#mdl#")


def read(data: bytes, source: str) -> CRF:
    """The model as a trained CRF that reads columns by its patterns; `source` is the file that
    errors speak of."""
    scanner = _Scanner(data, source)
    kind, n_weights = scanner.numbers(
        rb"#mdl#(?:([0-9]{1,9})#)?([0-9]{1,15})\n", "#mdl#kind#number of weights"
    )
    n_patterns, _, alone = scanner.numbers(
        rb"#rdr#([0-9]{1,9})/([0-9]{1,9})(?:/([01]))?\n", "#rdr#patterns/columns/0"
    )
    if kind == MEMM:
        raise ModelFileError(
            f"{source}: is a MEMM of Wapiti, which normalises token by token; train it as a CRF"
        )
    if kind > 2:
        raise ModelFileError(
            f"{source}: expected a CRF or maxent model of Wapiti (2 or 0), got kind {kind}"
        )
    if alone or n_patterns == 0:
        why = (
            "takes every token for a sequence (--me)"
            if alone
            else "has no patterns, its data were features already"
        )
        raise ModelFileError(
            f"{source}: the model {why}; train it again with patterns and sequences"
        )
    lines = [_line(scanner.string("pattern"), source) for _ in range(n_patterns)]
    labels = checked_labels(
        [_decoded(label, "label", source) for label in scanner.strings("label")], source, len(data)
    )
    texts = scanner.strings("observation")
    if not all(text[:1] and text[:1] in KINDS for text in texts):
        raise ModelFileError(
            f"{source}: observations: expected u, b or * first; copy or train the model again"
        )
    L = len(labels)
    sizes = {b"u": L, b"b": L**2, b"*": L + L**2}
    ends = np.cumsum([sizes[text[:1]] for text in texts], dtype=np.int64)
    first = np.concatenate([[0], ends[:-1]])
    number, weight = _weights(data[scanner.at :], n_weights, int(ends[-1]), source)
    return trained_crf(
        "Wapiti", source, labels, lines, Observations(texts, first, number, weight), _boundary
    )


def _boundary(place: int) -> str:
    return f"_x{place:+}" if abs(place) < FAR else f"_x{place:+}"[:3] + "#"


class _Scanner:
    """Reads one thing after another; whatever is not as expected is damage."""

    def __init__(self, data: bytes, source: str):
        self.data, self.source, self.at = data, source, 0

    def damage(self, expected: str) -> ModelFileError:
        line = self.data.count(b"\n", 0, self.at) + 1
        rest = self.data[self.at : self.at + 20].decode("utf-8", "replace")
        got = ascii(rest) if rest else "the end of the file"
        return ModelFileError(
            f"{self.source}:{line}: expected {expected}, got {got}; copy or train the model again"
        )

    def numbers(self, pattern: bytes, expected: str) -> list[int]:
        """The numbers of a line; 0 for those that are missing."""
        match = re.compile(pattern).match(self.data, self.at)
        if match is None:
            raise self.damage(expected)
        self.at = match.end()
        return [int(digits or 0) for digits in match.groups()]

    def string(self, what: str) -> bytes:
        """One netstring and the end of its line."""
        match = re.compile(rb"([0-9]{1,10}):").match(self.data, self.at)
        if match is None:
            raise self.damage(f"a {what} as length:text,")
        end = match.end() + int(match[1])
        if self.data[end : end + 2] != b",\n":
            raise self.damage(f"a {what} of {int(match[1])} bytes and a comma")
        self.at = end + 2
        return self.data[match.end() : end]

    def strings(self, what: str) -> list[bytes]:
        """A list of distinct strings, one at least."""
        (n,) = self.numbers(rb"#qrk#([0-9]{1,15})\n", f"#qrk# and the number of {what}s")
        strings = [self.string(what) for _ in range(n)]
        if not strings or len(set(strings)) < n:
            raise ModelFileError(
                f"{self.source}: {what}s: expected one or more, none twice; copy or train it again"
            )
        return strings


def _decoded(text: bytes, what: str, source: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ModelFileError(
            f"{source}: {what} {text!r:.60}: is not in UTF-8; train the model again in UTF-8"
        ) from None


def _line(pattern: bytes, source: str) -> Line:
    """A pattern as a line of a template."""
    text = _decoded(pattern, "pattern", source)
    if pattern[:1] not in (b"u", b"b", b"*"):
        raise ModelFileError(f"{source}: pattern {text!r:.60}: expected u, b or * first")
    literals, line, at = [], "", 0
    while (cell := text.find("%", at)) >= 0:
        match = CELL.match(text, cell)
        if match is None:
            raise ModelFileError(
                f"{source}: pattern {text!r:.60}: expected %x[row,column], or %m or %t with a "
                f"regular expression, got {text[cell:]!r:.20}"
            )
        letter, row, column = (
            (match[1], match[2], match[3]) if match[1] else (match[4], match[5], match[6])
        )
        if not NUMBER.fullmatch(row.removeprefix("@")) or not NUMBER.fullmatch(column):
            raise ModelFileError(
                f"{source}: pattern {text!r:.60}: expected rows and columns as numbers up to 9999"
            )
        regex = "" if match[1] else f",{match[7]}"
        literals.append(text[at:cell])
        function = FUNCTIONS.get(letter, "byte_test")
        line += f"{text[at:cell]}%{function}[{row.strip()},{column.strip()}{regex}]"
        at = match.end()
    return Line(text, line + text[at:], (*literals, text[at:]))


def _weights(rest: bytes, n_weights: int, n_numbers: int, source: str) -> tuple[Longs, np.ndarray]:
    """The numbers, rising, and the values of all weights that are not zero."""
    entries = rest.removesuffix(b"\n").split(b"\n") if rest else []
    if len(entries) != n_weights:
        raise ModelFileError(
            f"{source}: expected {n_weights} weights, got {len(entries)}; copy or train the model "
            "again"
        )
    number, weight = np.empty(n_weights, np.int64), np.empty(n_weights)
    for i, entry in enumerate(entries):
        number[i], weight[i] = _weight(entry, source)
    order = np.argsort(number, kind="stable")
    number, weight = number[order], weight[order]
    if (np.diff(number) == 0).any() or (n_weights and number[-1] >= n_numbers):
        raise ModelFileError(
            f"{source}: weights: expected each number once and below {n_numbers}; copy or train "
            "the model again"
        )
    return number, weight


def _weight(entry: bytes, source: str) -> tuple[int, float]:
    """Number and value, which is a C99 hexadecimal number or a decimal one."""
    try:
        number, value = WEIGHT.fullmatch(entry).groups()  # type: ignore[union-attr]
        weight = float.fromhex(value.decode()) if b"x" in value.lower() else float(value)
        if abs(weight) <= LARGEST_WEIGHT:
            return int(number), weight
    except (AttributeError, ValueError, OverflowError):  # no match, no number, too large
        pass
    shown = ascii(entry[:40].decode("utf-8", "replace"))
    raise ModelFileError(
        f"{source}: weight {shown}: expected a number and a finite value, as in 12=0x1.8p-1; copy "
        "or train it again"
    )
