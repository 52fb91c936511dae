"""Which words a tagger has seen in training, as far as its features tell."""

from collections.abc import Sequence
from typing import Any

from labelwright.features.template import Reader, apply

WORD_READERS = "value", "lower"  # functions of a template that keep a whole word


def by_vocabulary(extractor: Any, words: Sequence[str]) -> list[bool] | None:
    """Which of these words of the first column the features of a template were learnt from; None where no line reads
    whole words, or the features come from dicts or arrays."""
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


def by_memory(windows: Any, values: Sequence[Sequence[Any]], words: Sequence[str]) -> list[bool] | None:
    """Which of these words of the first column are in a memory, whose columns have these values; None where no column
    holds whole words."""
    for name, seen in zip(windows.names, values, strict=True):
        if windows.inputs and name == f"{windows.inputs[0]}[0]":
            remembered = set(seen)
            return [word in remembered for word in words]
    return None
