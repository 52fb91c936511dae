"""Built-in templates by name, and the one function that finds and checks every template."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from labelwright.corpus.limits import read_at_most
from labelwright.errors import TemplateError, unreadable
from labelwright.features.template import BELOW, MOST_BYTES, Template, parse_template
from labelwright.wording import did_you_mean

# Lines U01 to U32 of the template `chunking`: words, tags, their n-grams, affixes and tests.
CHUNKING = r"""
%x[-2,0] %x[-1,0] %x[0,0] %x[1,0] %x[2,0] %x[-2,1] %x[-1,1] %x[0,1] %x[1,1] %x[2,1]
%x[-1,0]/%x[0,0] %x[0,0]/%x[1,0] %x[-2,1]/%x[-1,1] %x[-1,1]/%x[0,1] %x[0,1]/%x[1,1] %x[1,1]/%x[2,1]
%x[-2,1]/%x[-1,1]/%x[0,1] %x[-1,1]/%x[0,1]/%x[1,1] %x[0,1]/%x[1,1]/%x[2,1]
%m[0,0,"^.?"] %m[0,0,"^.?.?"] %m[0,0,"^.?.?.?"] %m[0,0,"^.?.?.?.?"]
%m[0,0,".?$"] %m[0,0,".?.?$"] %m[0,0,".?.?.?$"] %m[0,0,".?.?.?.?$"]
%t[0,0,"^\u*$"] %t[0,0,"^\u"] %t[0,0,"\d"] %t[0,0,"\p"] %t[0,0,"^\a*$"]
"""


def template(
    source: str | os.PathLike[str] | Template,
    n_columns: int,
    below: bool = False,
    check: bool = True,
) -> Template:
    """Return the template that a built-in name, a file, a text or a Template means, checked against
    the number of input columns and, for lines that read labels, whether there is a layer `below`;
    or unchecked.

    A built-in name wins over a file of that name (`./words` is the file); a text has a line break
    or a `%`.

    >>> [pattern.text for pattern in template("words", n_columns=1).patterns[:3]]
    ['B', 'Uw[-2]:%x[-2,0]', 'Uw[-1]:%x[-1,0]']
    >>> template("U:%x[0,0]/%x[0,1]", n_columns=2).columns
    (0, 1)
    """
    parsed = source if isinstance(source, Template) else _find(source, n_columns)
    has = (
        "1 input column (column 0)"
        if n_columns == 1
        else f"{n_columns} input columns (0 to {n_columns - 1})"
    )
    for pattern in parsed.patterns if check else ():
        for cell in pattern.cells:
            if cell.reader.column == BELOW and not below:
                raise TemplateError(
                    f"{parsed.name}:{pattern.line}: {pattern.text} reads the labels of the layer "
                    "below, and there is none; leave the line out, or train it as an upper layer "
                    "of a Cascade"
                )
            if cell.reader.column >= n_columns:
                raise TemplateError(
                    f"{parsed.name}:{pattern.line}: {pattern.text} reads column "
                    f"{cell.reader.column}, but the data has {has}; use another template or give "
                    "the data that column"
                )
    return parsed


def _find(source: str | os.PathLike[str], n_columns: int) -> Template:
    if not isinstance(source, str | os.PathLike):
        raise TemplateError(
            f"template: expected a name, a path, a text or a Template, got {type(source).__name__}"
        )
    if isinstance(source, str):
        if source in BUILTIN:
            return parse_template("\n".join(BUILTIN[source](n_columns)), source)
        if "\n" in source or ("%" in source and not os.path.exists(source)):
            return parse_template(source)
    path = Path(source)
    try:
        text = read_at_most(path, MOST_BYTES).decode()
    except FileNotFoundError:
        names, near = ", ".join(BUILTIN), did_you_mean(str(path).lower(), BUILTIN)
        raise TemplateError(
            f"{path}: neither a file nor a built-in template; built-in: {names}{near}"
        ) from None
    except (OSError, ValueError) as error:
        raise unreadable(TemplateError, path, error) from None
    return parse_template(text, str(path))


# --- the groups of lines that built-in templates consist of ---------------------------------------


def _grams(
    kind: str, name: str, function: str, column: int, spans: Iterable[tuple[int, int]]
) -> list[str]:
    """Return one line for each span first..last of rows, its cells joined by slashes."""
    lines = []
    for first, last in spans:
        place = str(first) if first == last else f"{first}..{last}"
        cells = "/".join(f"%{function}[{row},{column}]" for row in range(first, last + 1))
        lines.append(f"{kind}{name}[{place}]:{cells}")
    return lines


def _window(reach: int, size: int = 1) -> list[tuple[int, int]]:
    """Return all spans of this size within reach of the current token."""
    return [(first, first + size - 1) for first in range(-reach, reach - size + 2)]


def _around(size: int) -> list[tuple[int, int]]:
    """Return all spans of this size that contain the current token."""
    return [(first, first + size - 1) for first in range(1 - size, 1)]


def _affixes(longest: int, row: int = 0, shortest: int = 1, kind: str = "U") -> list[str]:
    return [
        f"{kind}{side}{length}[{row}]:%{side}[{row},0,{length}]"
        for side in ("prefix", "suffix")
        for length in range(shortest, longest + 1)
    ]


def _further(kind: str, n_columns: int, largest: int = 3) -> list[str]:
    """Return every column after the word in a window of 2, with its n-grams up to the largest."""
    spans = [span for size in range(1, largest + 1) for span in _window(2, size)]
    return [
        line
        for column in range(1, n_columns)
        for line in _grams(kind, f"c{column}", "x", column, spans)
    ]


def _default(n_columns: int) -> list[str]:
    words = _grams("U", "w", "x", 0, _window(2) + _around(2))
    return ["B", *words, *_affixes(4), "Ushape[0]:%short_shape[0,0]", *_further("U", n_columns)]


def _chunking(n_columns: int) -> list[str]:
    return ["B", *(f"U{n:02}:{cells}" for n, cells in enumerate(CHUNKING.split(), 1))]


def _words(kind: str) -> Callable[[int], list[str]]:
    """Return table 2 of Sun and Tsujii (2009): words and their bigrams."""
    return lambda n_columns: ["B", *_grams(kind, "w", "x", 0, _window(2) + _around(2))]


def _bioner_2009(kind: str) -> Callable[[int], list[str]]:
    """Return table 1 of Sun et al. (2009): words, tags (column 1, where there is one) and
    orthography, which is the shape of words and, by the text beside the table, their prefixes;
    suffixes are ours."""
    shapes = _grams(kind, "shape", "short_shape", 0, _window(2) + _window(2, 2))
    orthography = [*shapes, *_affixes(4, shortest=2, kind=kind)]
    return lambda n_columns: [
        *_words(kind)(n_columns),
        *_further(kind, min(n_columns, 2)),
        *orthography,
    ]


def _np(kind: str) -> Callable[[int], list[str]]:
    """Return table 3 of Sun, Matsuzaki, Okanohara and Tsujii (2009): words, and tags (column 1) in
    a smaller window."""
    tags = _grams(kind, "c1", "x", 1, _window(1) + _window(2, 2) + _window(2, 3))
    return lambda n_columns: [*_words(kind)(n_columns), *(tags if n_columns > 1 else [])]


def _triples(lines: Callable[[int], list[str]]) -> Callable[[int], list[str]]:
    """Return the same lines, those on pairs of labels on triples, too (order 2)."""
    return lambda n_columns: [
        line
        for pair in lines(n_columns)
        for line in ([pair, "T" + pair[1:]] if pair[0] == "*" else [pair])
    ]


def _ner(n_columns: int) -> list[str]:
    words = _grams("U", "w", "x", 0, _window(2) + _around(2)) + _grams(
        "U", "lower", "lower", 0, _window(2)
    )
    shapes = _grams("U", "shape", "short_shape", 0, _window(2) + _window(2, 2) + _around(3))
    letters = ["Ulong[0]:%shape[0,0]", *_affixes(5), *_affixes(3, -1), *_affixes(3, 1)]
    return ["B", *words, *shapes, *letters, *_further("U", n_columns, 2)]


def _bioner(n_columns: int) -> list[str]:
    """Return the lines of `ner`, and longer suffixes: -kinase, -ocytes."""
    return [*_ner(n_columns), *(f"Usuffix{n}[0]:%suffix[0,0,{n}]" for n in (6, 7))]


def _letters(n_columns: int) -> list[str]:
    around = [
        span for size in (2, 3, 4, 5) for span in _around(size) if max(-span[0], span[1]) <= 4
    ]
    sides = [(-4, -1), (-3, -1), (-2, -1), (1, 2), (1, 3), (1, 4)]
    return ["B", *_grams("U", "x", "x", 0, [*_window(4), *around, *sides])]


def _plain_window(n_columns: int) -> list[str]:
    return ["B"] + [
        line
        for column in range(n_columns)
        for line in _grams("U", f"c{column}", "x", column, _window(3))
    ]


def _multilayer(n_columns: int) -> list[str]:
    """Return table 1 of Azuma and Matsumoto (2011): words, endings, capitals and digits, and the
    labels that words have had (the last column, Cascade(lexicon=...)); boundary marks of the
    windows show the first and the last node."""
    tests = {"capital": r"^\u", "capitals": r"^\u*$", "digit": r"\d"}
    return [
        "B",
        *_grams("U", "w", "x", 0, _window(2)),
        *(f"Usuffix{n}[0]:%suffix[0,0,{n}]" for n in (1, 2, 3)),
        *(
            f'U{name}[{row}]:%t[{row},0,"{regex}"]'
            for name, regex in tests.items()
            for row in range(-2, 3)
        ),
        *(f"Uhad[{row}]:%each[{row},{n_columns - 1}]" for row in range(-2, 3) if n_columns > 1),
    ]


def _multilayer_above(n_columns: int) -> list[str]:
    """Return the same for an upper layer, with the labels below in a window, and pairs of them on
    transitions."""
    return [
        *_multilayer(n_columns),
        *(f"Uy[{row}]:%y[{row}]" for row in range(-2, 3)),
        "By[-1..0]:%y[-1]/%y[0]",
    ]


def _pos(n_columns: int) -> list[str]:
    """Return the lines of `default`, and the word without case, a longer suffix, and tests that
    tell names, numbers and compounds."""
    tests = {"capital": r"^\u", "digit": r"\d", "hyphen": "-"}
    further = ["Ulower[0]:%lower[0,0]", "Usuffix5[0]:%suffix[0,0,5]"]
    return [
        *_default(n_columns),
        *further,
        *(f'U{name}[0]:%t[0,0,"{regex}"]' for name, regex in tests.items()),
    ]


def _cws(n_columns: int) -> list[str]:
    """Return characters with the n-grams that segmenters use (Ng and Low, 2004), and their
    kinds."""
    spans = [*_window(2), *_window(2, 2), (-1, 1)]
    skip = "Ux[-1,1]:%x[-1,0]/%x[1,0]"
    kinds = _grams("U", "kind", "shape", 0, [(0, 0), (-1, 0), (0, 1), (-1, 1), (-2, 2)])
    return ["B", *_grams("U", "x", "x", 0, spans), skip, *kinds, *_further("U", n_columns)]


class BuiltIn(NamedTuple):
    """A built-in template: its lines for so many columns, and when to use it."""

    lines: Callable[[int], list[str]]
    about: str

    def __call__(self, n_columns: int) -> list[str]:
        return self.lines(n_columns)


BUILTIN: dict[str, BuiltIn] = {
    "default": BuiltIn(
        _default, "Any task: words, affixes and shapes; further columns in a window of 2."
    ),
    "words": BuiltIn(_words("U"), "Words and their bigrams alone: small, fast, a baseline."),
    "pos": BuiltIn(
        _pos, "Part-of-speech tags: as default, with longer suffixes, capitals, digits, hyphens."
    ),
    "chunking": BuiltIn(_chunking, "Chunking with words and POS tags (columns 0 and 1)."),
    "ner": BuiltIn(
        _ner, "Named entities: words with and without case, shapes, affixes of the neighbours, too."
    ),
    "bioner": BuiltIn(_bioner, "Biomedical entities: as ner, with suffixes of 6 and 7 letters."),
    "cws": BuiltIn(
        _cws,
        "Chinese word segmentation, one character for each token: n-grams and kinds of characters.",
    ),
    "letters": BuiltIn(
        _letters, "Letters of a word, one for each token: pronunciation, morphology, hyphenation."
    ),
    "window": BuiltIn(
        _plain_window, "Each column at -3 to 3: memory-based taggers, whose lines are columns."
    ),
}
PAPERS = {  # to compare with papers
    "np": BuiltIn(
        _np("U"), "NP chunking with words and few POS features (Sun et al. 2009, table 3)."
    ),
    "bioner-2009": BuiltIn(_bioner_2009("U"), "Bio-NER (Sun et al. 2009, table 1)."),
    "words-arcs": BuiltIn(_words("*"), "words, on transitions, too."),
    "np-arcs": BuiltIn(_np("*"), "np, on transitions, too."),
    "bioner-arcs": BuiltIn(_bioner_2009("*"), "bioner-2009, on transitions, too."),
    "np-triples": BuiltIn(_triples(_np("*")), "np-arcs, on triples of labels, too (order 2)."),
    "bioner-triples": BuiltIn(
        _triples(_bioner_2009("*")), "bioner-arcs, on triples of labels, too (order 2)."
    ),
    "multilayer": BuiltIn(
        _multilayer, "The lowest layer of a cascade with a lexicon (Azuma and Matsumoto, 2011)."
    ),
    "multilayer-above": BuiltIn(_multilayer_above, "A layer above it, with the labels below."),
}
BUILTIN |= PAPERS
