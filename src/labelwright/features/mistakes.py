r"""Mistakes in templates that are no errors: each check returns lines for people, each naming a line of the template.

Regular expressions here are Wapiti's, where `[A-Z]`, `a|b` and `\d+` are plain characters: they match nothing that
their writer had in mind.  Two lines of one name make one feature of equal values.  A line that never matches, or a
template that makes more features than data can teach, is seen once the vocabulary is learnt.
"""

import re
from collections.abc import Iterator

from labelwright.features.builtin import BUILTIN
from labelwright.features.template import Cell, Pattern, Template
from labelwright.features.vocabulary import Vocabulary, patterns_of, table_of

ENOUGH_TOKENS = 200  # of training data, to say that something never matches
MANY_FEATURES = 1_000_000
MANY_PER_TOKEN = 30
SHOWN = 3  # lines with the most features
NEVER = {
    "test": "false",
    "byte_test": "false",
    "match": "",
    "lower_match": "",
    "byte_match": "",
    "byte_lower_match": "",
}

# What looks like another kind of regular expression, what it would mean there, and what to write here.
FOREIGN = {
    r"\[[^\]]+\]": ("a set of characters", r"use a class such as \u, \l, \d, or one %t for each character"),
    r"\([^)]*\)": ("a group", "write one line for each alternative"),
    r"[^|]\|[^|]": ("an alternative", "write one line for each alternative"),
    r"(?:\.\.|.)\+": ("a repetition", r"write the character twice, as in \d\d*"),
    r".\{\d+(,\d*)?\}": ("a repetition", "write the character as often as it must occur"),
    r"\\b": ("a word boundary", "use ^ and $"),
}


def mistakes(template: Template) -> list[str]:
    """What is likely to be a mistake in a template, whatever the data."""
    return [*_foreign_expressions(template), *_names_used_twice(template)]


def mistakes_in_use(vocabulary: Vocabulary, n_tokens: int) -> list[str]:
    """What is likely to be a mistake in a template, by the features that it makes of so many tokens; built-in templates
    may have lines that never match."""
    unused = n_tokens >= ENOUGH_TOKENS and vocabulary.template.name not in BUILTIN
    return [*(_never_matching(vocabulary) if unused else ()), *_many_features(vocabulary, n_tokens)]


def _place(template: Template, pattern: Pattern) -> str:
    return f"{template.name}:{pattern.line}: {pattern.text}"


def _foreign_expressions(template: Template) -> Iterator[str]:
    for pattern in template.patterns:
        for regex in dict.fromkeys(cell.reader.argument for cell in pattern.cells if cell.reader.function in NEVER):
            plain = re.sub(r"\\[^b]", "..", str(regex))  # a backslash says that the character itself is meant
            for form, (meaning, remedy) in FOREIGN.items():
                match = re.search(form, plain)
                if match is not None:
                    written = str(regex)[match.start() : match.end()]
                    yield (
                        f"{_place(template, pattern)}: {written} is not {meaning} here, but these characters; {remedy}"
                    )
                    break


def _names_used_twice(template: Template) -> Iterator[str]:
    first: dict[str, Pattern] = {}
    for pattern in template.patterns:
        if not pattern.cells or ":" not in pattern.literals[0] or len(pattern.name) < 2:
            continue  # a bare U: shares its features on purpose
        before = first.setdefault(pattern.name, pattern)
        if before is not pattern:
            shared = table_of(before) == table_of(pattern)
            effect = "equal values of both are one feature" if shared else "nobody can tell their features apart"
            yield (
                f"{_place(template, pattern)}: has the name of line {before.line}, so {effect}; give each line a name "
                "of its own"
            )


def _never_matching(vocabulary: Vocabulary) -> Iterator[str]:
    template = vocabulary.template
    for pattern in template.patterns:
        cell = next((cell for cell in pattern.cells if _never_matches(vocabulary, cell)), None)
        if cell is not None:
            yield f"{_place(template, pattern)}: {cell.reader.argument} never matches in the training data"
        elif pattern.cells and table_of(pattern) in vocabulary.rows and not len(vocabulary.rows[table_of(pattern)]):
            yield f"{_place(template, pattern)}: makes no feature that occurs often enough; lower min_count"


def _never_matches(vocabulary: Vocabulary, cell: Cell) -> bool:
    nothing = NEVER.get(cell.reader.function)
    return nothing is not None and set(vocabulary.values.get(cell.reader, ())) == {nothing}


def _many_features(vocabulary: Vocabulary, n_tokens: int) -> Iterator[str]:
    n = vocabulary.n_features
    if n < MANY_FEATURES or n < MANY_PER_TOKEN * n_tokens:
        return
    counts = features_by_line(vocabulary)
    most = sorted(counts, key=lambda pattern: -counts[pattern])[:SHOWN]
    shown = ", ".join(f"{counts[pattern]:,} by {pattern.name}" for pattern in most)
    yield (
        f"{vocabulary.template.name}: makes {n:,} features of {n_tokens:,} tokens, {shown}; leave lines out, or use "
        "min_count=2"
    )


def features_by_line(vocabulary: Vocabulary) -> dict[Pattern, int]:
    """How many features each line makes; the first of several lines of one shape has them all."""
    counts: dict[Pattern, int] = {}
    tables = set()
    for pattern in dict.fromkeys(p for patterns in patterns_of(vocabulary.template).values() for p in patterns):
        table = table_of(pattern)
        counts[pattern] = 0 if table in tables else len(vocabulary.rows[table])
        tables.add(table)
    return counts
