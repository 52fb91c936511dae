r"""Names of features that a person can read: `pos[0]=NNS` instead of `U08:NNS`.

A cell of a template is written as its column and row, with the function that reads it, and then the
value:

    U08:%x[0,1]             pos[0]=NNS
    U14:%x[-1,1]/%x[0,1]    pos[-1]=DT & pos[0]=NN
    U22:%m[0,0,"^.?.?"]     prefix(word[0],2)=th
    U30:%t[0,0,"\d"]        test(word[0],"\d")=true
    Uy:%y[0]                y[0]=NN (the label below)
    U                       bias

Values outside the sentence are (begin), (begin-1), ... and (end), (end+1), ...
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from labelwright.features.template import BELOW, Cell, Reader, apply
from labelwright.features.vocabulary import Table, Vocabulary, table_of

BIAS = "bias"
# as CRF++ files write them
AFFIXES = {"prefix": re.compile(r"\^((?:\.\?)+)"), "suffix": re.compile(r"((?:\.\?)+)\$")}
WORD_READERS = "value", "lower"  # functions of a template that keep a whole word
MARK = re.compile(r"_B([-+])(\d+)")  # of a place outside the sentence


def feature_names(extractor: Any) -> Callable[[int], str]:
    """What names the features of an extractor, whatever its parts are: features of tokens beside
    those of segments, of the input beside those of the labels below, of templates, dicts or
    arrays."""
    if hasattr(extractor, "tokens"):  # beside features of segments
        return _first_then(extractor.tokens, extractor.name, shifted=False)
    if hasattr(extractor, "above"):  # beside features of the labels below
        columns = tuple(getattr(extractor.base, "names", ()))
        return _first_then(extractor.base, _of_template(extractor.above, columns), shifted=True)
    if hasattr(extractor, "vocabulary"):
        # dictionaries and clusters
        columns = (*extractor.names, *(source.name for source in extractor.sources.order))
        n, numbers = extractor.vocabulary.n_features, extractor.numbers
        names = _of_template(extractor.vocabulary, columns)
        return lambda feature: names(feature) if feature < n else numbers.name(feature - n)
    name: Callable[[int], str] = extractor.name
    return name


def _first_then(first: Any, rest: Callable[[int], str], shifted: bool) -> Callable[[int], str]:
    """Names of the features of one extractor, then of further ones, which may count from 0
    again."""
    names, n = feature_names(first), first.n_features
    return lambda feature: (
        names(feature) if feature < n else rest(feature - n if shifted else feature)
    )


def _of_template(vocabulary: Vocabulary, columns: Sequence[str]) -> Callable[[int], str]:
    """Names of the features that a template makes of columns with these names."""
    places: dict[Table, list[tuple[Cell, ...]]] = {}
    for pattern in vocabulary.template.patterns:
        places.setdefault(table_of(pattern), []).append(pattern.cells)

    def name(feature: int) -> str:
        table, values = vocabulary.parts(feature)
        if not values:
            return (
                BIAS
                if len(places) == 1 or len(table.literals[0]) <= 1
                else f"{BIAS} {table.literals[0]}"
            )
        parts = []
        for i, value in enumerate(values):
            # lines that make the same features differ in the row
            cells = [line[i] for line in places[table]]
            counted = [
                cell.row + 1 if cell.absolute and cell.row >= 0 else cell.row for cell in cells
            ]  # 1 is the first
            rows = (f"{'@' * cell.absolute}{row}" for cell, row in zip(cells, counted, strict=True))
            cell = cell_name(cells[0].reader, "|".join(dict.fromkeys(rows)), columns)
            parts.append(f"{cell}={_value(value)}")
        return " & ".join(parts)

    return name


def cell_name(reader: Reader, rows: str, columns: Sequence[str]) -> str:
    r"""What a reader sees at some rows, as text.

    >>> cell_name(Reader(1, "value"), "0", ("word", "pos"))
    'pos[0]'
    >>> cell_name(Reader(0, "match", "^.?.?"), "-1", ("word",))
    'prefix(word[-1],2)'
    """
    if reader.column == BELOW:
        name = "log_y" if reader.function == "log_below" else "y"
        return f"{name}[{rows}]" if reader.argument is None else f"{name}[{rows},{reader.argument}]"
    column = columns[reader.column] if reader.column < len(columns) else f"column{reader.column}"
    place, function, argument = f"{column}[{rows}]", reader.function, reader.argument
    if function == "value":
        return place
    if function == "match":
        for affix, pattern in AFFIXES.items():
            letters = pattern.fullmatch(str(argument))
            if letters:
                function, argument = affix, len(letters[1]) // 2
    text = (
        ""
        if argument is None
        else f",{argument}"
        if isinstance(argument, int)
        else f',"{argument}"'
    )
    return f"{function}({place}{text})"


def _value(text: str) -> str:
    """A value; marks of places outside the sentence in words."""
    mark = MARK.fullmatch(text)
    if mark is None:
        return text
    beyond = int(mark[2]) - 1
    return f"({'begin' if mark[1] == '-' else 'end'}{f'{mark[1]}{beyond}' if beyond else ''})"


# -- which words were seen in training, as far as features tell ------------------------------------


def by_vocabulary(extractor: Any, words: Sequence[str]) -> list[bool] | None:
    """Which of these words of the first column the features of a template were learnt from; None
    where no line reads whole words, or the features come from dicts or arrays."""
    tokens = getattr(extractor, "tokens", extractor)  # beside features of segments
    vocabulary = getattr(getattr(tokens, "base", tokens), "vocabulary", None)  # beside labels below
    if vocabulary is None:
        return None
    for function in WORD_READERS:
        reader = Reader(0, function)
        if reader in vocabulary.values:
            seen = set(vocabulary.values[reader])
            return [value in seen for value in apply(reader, list(words))]
    return None


def by_memory(
    windows: Any, values: Sequence[Sequence[Any]], words: Sequence[str]
) -> list[bool] | None:
    """Which of these words of the first column are in a memory, whose columns have these values;
    None where no column holds whole words."""
    for name, seen in zip(windows.names, values, strict=True):
        if windows.inputs and name == f"{windows.inputs[0]}[0]":
            remembered = set(seen)
            return [word in remembered for word in words]
    return None
