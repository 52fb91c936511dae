"""Predicted labels as lists that NumPy takes for arrays of sentences.

Sentences differ in length.  NumPy would refuse lists of such lists, or take those of equal length for a table;
scikit-learn, which joins and sorts predictions as arrays, needs one element for each sentence.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Labellings(list[list[Any]]):
    """The labels of each sentence: a list of lists, and for NumPy an array [N] of lists.

    >>> predicted = Labellings([["D", "N"], ["V"]])
    >>> predicted == [["D", "N"], ["V"]], np.asarray(predicted).shape
    (True, (2,))
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return array_of(self)


class LayeredLabellings(dict[str, Labellings]):
    """The labels of each sentence by layer; for NumPy an array [N] of sentences, lists with a tuple for each token.

    >>> layers = {"pos": Labellings([["D", "N"]]), "chunk": Labellings([["B", "I"]])}
    >>> np.asarray(LayeredLabellings(layers)).tolist()
    [[('D', 'B'), ('N', 'I')]]
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return array_of(list(zip(*layers, strict=True)) for layers in zip(*self.values(), strict=True))


def array_of(sentences: Iterable[Any]) -> Array:
    """One element for each sentence [N], whatever their lengths."""
    items = list(sentences)
    return np.fromiter(items, object, count=len(items))
