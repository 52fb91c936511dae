"""An order in which each sentence is uncertain and unlike those before it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus
from labelwright.errors import OptionError

Array = NDArray[Any]


def diverse_order(scores: Sequence[float], bags: Sequence[Iterable[str]], top: int | None = None) -> list[int]:
    """The numbers of items, greedily: next comes the largest score x (1 - largest cosine with an item before it).

    bags : the words of each item, which count by their inverse document frequency

    >>> diverse_order([3.0, 2.9, 2.0], [["a", "b"], ["a", "b"], ["c"]])
    [0, 2, 1]
    """
    weights, similar = _Vectors(bags), np.zeros(len(scores))
    worth, waiting = np.array(scores, np.float64), np.ones(len(scores), np.bool_)
    order = list[int]()
    for _ in range(len(scores) if top is None else min(top, len(scores))):
        chosen = int(np.argmax(np.where(waiting, worth * (1.0 - similar), -np.inf)))
        order.append(chosen)
        waiting[chosen] = False
        np.maximum(similar, weights.cosines(chosen), out=similar)
    return order


class _Vectors:
    """Sparse vectors of length 1, by item and by word."""

    def __init__(self, bags: Sequence[Iterable[str]]):
        index: dict[str, int] = {}
        rows = [np.unique([index.setdefault(word, len(index)) for word in bag]).astype(np.int64) for bag in bags]
        self.ptr = offsets_from(np.array([len(row) for row in rows], np.int64))
        self.word = np.concatenate([np.zeros(0, np.int64), *rows])
        item = np.repeat(np.arange(len(rows)), np.diff(self.ptr))
        counts = np.bincount(self.word, minlength=len(index))
        weight = np.log((1.0 + len(rows)) / counts[self.word])
        self.weight = weight / np.sqrt(np.bincount(item, weight**2, len(rows)))[item]
        order = np.argsort(self.word, kind="stable")
        self.item_of, self.weight_of, self.begin = item[order], self.weight[order], offsets_from(counts)

    def cosines(self, n: int) -> Array:
        """The cosine of item n with every item [N]."""
        sums = np.zeros(len(self.ptr) - 1)
        for k in range(*self.ptr[n : n + 2].tolist()):
            a, b = self.begin[self.word[k] : self.word[k] + 2].tolist()
            sums[self.item_of[a:b]] += self.weight[k] * self.weight_of[a:b]
        return np.minimum(sums, 1.0)


def bags_of(X: Any) -> list[list[str]]:
    """The words of each sentence in lower case; of feature dicts the features."""
    if isinstance(X, Corpus):
        return [[word.lower() for word in sentence] for sentence in X.column(X.input_names[0])]
    if not isinstance(X, Sequence):
        raise OptionError("diverse: compares words; give sentences or a corpus, not encoded data")
    return [[feature for token in sentence for feature in _features(token)] for sentence in X]


def _features(token: Any) -> list[str]:
    if isinstance(token, Mapping):
        return [f"{name}={value}" for name, value in token.items()]
    word = token[0] if isinstance(token, list | tuple) and token else token
    if not isinstance(word, str):
        raise OptionError("diverse: compares words or feature dicts, and these sentences have neither; leave it out")
    return [word.lower()]
