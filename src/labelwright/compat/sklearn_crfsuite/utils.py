"""Small helpers."""

from collections.abc import Iterable
from itertools import chain
from typing import TypeVar

T = TypeVar("T")


def flatten(y: Iterable[Iterable[T]]) -> list[T]:
    """The labels of all sentences in one list.

    >>> flatten([[1, 2], [3, 4]])
    [1, 2, 3, 4]
    """
    return list(chain.from_iterable(y))
