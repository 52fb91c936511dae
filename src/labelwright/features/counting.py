"""Word vectors and word clusters by counting neighbours; no network, no gradient.

    words -> counts of (word, neighbour) -> positive pointwise mutual information -> singular
    vectors -> 2-means

Left and right neighbours are different contexts: a row of the matrix M [V, 2V] holds what follows a
word and what comes before it, max(0, log p(word, context) / (p(word) p(context))).  Bullinaria and
Levy (2007), Levy and Goldberg (2014). Its singular vectors are found by subspace iteration from a
random start (Halko, Martinsson and Tropp, 2011), which only needs products of M with a few columns.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.compressed import Source, write_bytes
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError, OptionError
from labelwright.features.incidence import Longs
from labelwright.features.numbers import Vectors
from labelwright.parallel import one_blas_thread

Array = NDArray[Any]
TOKENS_AT_ONCE = 1 << 20  # whose pairs are counted in one step
OVERSAMPLED = 10  # columns of the subspace beyond those that are wanted
ITERATIONS = 6  # of the subspace
BITS = 10  # length of the longest bit string
ROUNDS = 30  # of one 2-means


class Counts(NamedTuple):
    """How often a word comes before another within the window."""

    left: Longs  # [n]
    right: Longs  # [n]
    times: Longs  # [n]


class Sparse(NamedTuple):
    """A sparse matrix by rows."""

    ptr: Longs  # [V+1]
    column: Longs  # [n]
    value: Array  # [n]
    width: int

    def times(self, dense: Array) -> Array:
        """The product with a dense matrix [width, D]; a small product for each row is faster than
        one step for all."""
        product = np.zeros((len(self.ptr) - 1, dense.shape[1]), dense.dtype)
        for row, (a, b) in enumerate(pairwise(self.ptr.tolist())):
            if b > a:
                product[row] = self.value[a:b] @ dense[self.column[a:b]]
        return product

    def transposed(self) -> "Sparse":
        """Columns as rows."""
        row = np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))
        return sparse_of(self.column, row, self.value, self.width, len(self.ptr) - 1)


def sparse_of(row: Longs, column: Longs, value: Array, height: int, width: int) -> Sparse:
    """A sparse matrix of its entries."""
    order = np.lexsort((column, row))
    ptr = offsets_from(np.bincount(row, minlength=height))
    return Sparse(ptr, column[order], value[order], width)


def count_vectors(
    X: Any,
    words: int = 20000,
    dimensions: int = 50,
    window: int = 2,
    min_count: int = 2,
    random_state: int = 0,
) -> Vectors:
    """Vectors of the most frequent words of a corpus, or of lists of words, by counting their
    neighbours.

    words : how many words have a vector
    dimensions : how many numbers a vector has; fewer where there are fewer words
    window : how many words before and after a word are its neighbours
    min_count : words that occur less often have no vector

    >>> sentences = [["a", "dog", "ran"], ["a", "cat", "ran"]] * 2
    >>> vectors = count_vectors(sentences, dimensions=2, window=1)
    >>> vectors.words, (vectors.rows[1] == vectors.rows[3]).tolist()
    (['a', 'ran', 'dog', 'cat'], [False, False])
    """
    for name, value in (
        ("words", words),
        ("dimensions", dimensions),
        ("window", window),
        ("min_count", min_count),
    ):
        if value < 1:
            raise OptionError(f"{name}: expected a whole number of 1 or more, got {value}")
    corpus = X if isinstance(X, Corpus) else Corpus.from_sequences(X)
    if not corpus.n_tokens:
        raise CorpusError(f"{corpus.source}: no words; give text, labelled or not")
    values, codes = corpus.columns[0]
    count = np.bincount(codes, minlength=len(values))
    order = np.argsort(-count, kind="stable")
    chosen = [i for i in order[count[order] >= min_count].tolist() if len(values[i].split()) == 1][
        :words
    ]
    # a word has no spaces
    rank, frequent = np.full(len(values), -1, np.int64), [values[i] for i in chosen]
    rank[chosen] = np.arange(len(chosen))
    if not frequent:
        raise CorpusError(
            f"min_count: no word of {corpus.source} occurs {min_count} times; give more text"
        )
    matrix = mutual_information(
        count_pairs(rank[codes], corpus.offsets, window, len(frequent)), len(frequent)
    )
    known = np.flatnonzero(np.diff(matrix.ptr))  # words with neighbours that say something
    if not len(known):
        raise CorpusError(f"{corpus.source}: no word has typical neighbours; give more text")
    rows = singular_vectors(matrix, dimensions, random_state)[known]
    return Vectors([frequent[i] for i in known.tolist()], rows, corpus.source)


def count_pairs(ranks: Longs, offsets: Longs, window: int, n_words: int) -> Counts:
    """Count the pairs of words of a sentence that are at most `window` apart; words of rank -1 only
    take up space."""
    sentence = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    # no two words are further apart
    furthest = min(window, max(1, int(np.diff(offsets).max(initial=0)) - 1))
    for begin in range(0, len(ranks), TOKENS_AT_ONCE):
        fresh = []
        for distance in range(1, furthest + 1):
            a = slice(begin, min(begin + TOKENS_AT_ONCE, max(begin, len(ranks) - distance)))
            b = slice(a.start + distance, a.stop + distance)
            inside = (sentence[a] == sentence[b]) & (ranks[a] >= 0) & (ranks[b] >= 0)
            fresh.append(ranks[a][inside] * n_words + ranks[b][inside])
        distinct, times = np.unique(np.concatenate(fresh), return_counts=True)
        keys, which = np.unique(np.concatenate([keys, distinct]), return_inverse=True)
        counts = np.bincount(which.reshape(-1), np.concatenate([counts, times]), len(keys)).astype(
            np.int64
        )
    return Counts(keys // n_words, keys % n_words, counts)


def mutual_information(counts: Counts, n_words: int) -> Sparse:
    """The positive pointwise mutual information of words with those after them, then with those
    before them [V, 2V]."""
    left, right, times = counts
    of_left, of_right = np.bincount(left, times, n_words), np.bincount(right, times, n_words)
    value = np.log(times * (times.sum() / of_left[left]) / of_right[right]).astype(np.float32)
    kept = value > 0
    left, right, value = left[kept], right[kept], value[kept]
    rows, columns = np.concatenate([left, right]), np.concatenate([right, left + n_words])
    return sparse_of(rows, columns, np.concatenate([value, value]), n_words, 2 * n_words)


def singular_vectors(matrix: Sparse, dimensions: int, random_state: int = 0) -> Array:
    """The first left singular vectors of a matrix, each times the root of its singular value [V,
    D]."""
    height = len(matrix.ptr) - 1
    n = min(dimensions, height)
    transposed = matrix.transposed()
    basis = (
        np.random.default_rng(random_state)
        .normal(size=(height, min(height, n + OVERSAMPLED)))
        .astype(np.float32)
    )
    with one_blas_thread():
        for _ in range(ITERATIONS):
            basis = np.linalg.qr(matrix.times(transposed.times(np.linalg.qr(basis)[0])))[0]
        right, singular, _ = np.linalg.svd(transposed.times(basis), full_matrices=False)
        right, singular = right[:, :n], singular[:n]
        largest = right[np.abs(right).argmax(axis=0), np.arange(n)]
        right *= np.where(largest < 0, -1, 1)  # a decomposition leaves signs open
        scale = np.where(singular > 1e-5 * singular[0], singular, np.inf)
        return matrix.times(right / np.sqrt(scale))


# -- clusters --------------------------------------------------------------------------------------


def cluster_words(vectors: Vectors, bits: int = BITS) -> dict[str, str]:
    """The cluster of each word, a bit string: all words are split in two by 2-means, then each
    half, and so on.

    A prefix of a bit string is a coarser cluster.  Vectors count by their direction alone.

    >>> vectors = Vectors(["a", "b", "c"], np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]))
    >>> cluster_words(vectors, bits=1)
    {'a': '0', 'b': '0', 'c': '1'}
    """
    if bits < 1:
        raise OptionError(f"bits: expected a whole number of 1 or more, got {bits}")
    rows = np.asarray(vectors.rows, np.float64)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    paths = [""] * len(rows)
    groups = [np.arange(len(rows))]
    for _ in range(bits):
        halves = list[Longs]()
        for group in groups:
            with one_blas_thread():
                second = two_means(rows[group])
            # the half of the first word comes first; there is one where all are equal
            second = second ^ second[:1]
            for i, bit in zip(group.tolist(), second.tolist(), strict=True):
                paths[i] += "01"[bit]
            halves += [half for half in (group[~second], group[second]) if len(half)]
        groups = halves
    return dict(zip(vectors.words, paths, strict=True))


def write_clusters(clusters: Mapping[str, str], path: Source) -> None:
    """Write clusters as `--clusters` reads them: a word and its cluster on each line."""
    write_bytes(
        path, "".join(f"{word}\t{cluster}\n" for word, cluster in clusters.items()).encode()
    )


def two_means(rows: Array) -> Array:
    """Which rows [n, D] are in the second of two clusters; the start is a cut across the direction
    of most variance."""
    centred = rows - rows.mean(axis=0)
    if not len(rows) or np.abs(centred).max() < 1e-9:
        return np.zeros(len(rows), np.bool_)
    axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    second = centred @ axis > 0
    for _ in range(ROUNDS):
        a, b = centred[~second].mean(axis=0), centred[second].mean(axis=0)
        nearer = centred @ (b - a) > (b @ b - a @ a) / 2
        if (nearer == second).all() or nearer.all() or not nearer.any():
            break
        second = nearer
    return np.asarray(second)
