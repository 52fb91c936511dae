"""Word vectors by counting: what is counted, the decomposition against a dense one, clusters."""

import numpy as np
import pytest

from labelwright import CRF, load
from labelwright.corpus import Corpus
from labelwright.errors import CorpusError, OptionError
from labelwright.features import counting
from labelwright.features.counting import (
    cluster_words,
    count_pairs,
    count_vectors,
    mutual_information,
    singular_vectors,
)
from labelwright.features.numbers import Vectors, read_vectors, write_vectors

PATTERN = [
    ["the", "dog", "ran", "home"],
    ["the", "cat", "ran", "home"],
    ["we", "saw", "Rome", "again"],
]


def drawn_sentences(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return [[f"w{i}" for i in rng.zipf(1.5, rng.integers(1, 9)) % 30] for _ in range(n)]


def pairs_by_hand(sentences, window, words):
    counts = {}
    for sentence in sentences:
        for i, a in enumerate(sentence):
            for b in sentence[i + 1 : i + 1 + window]:
                if a in words and b in words:
                    counts[words[a], words[b]] = counts.get((words[a], words[b]), 0) + 1
    return counts


def dense(sparse):
    matrix = np.zeros((len(sparse.ptr) - 1, sparse.width))
    for row in range(len(matrix)):
        here = slice(sparse.ptr[row], sparse.ptr[row + 1])
        matrix[row, sparse.column[here]] = sparse.value[here]
    return matrix


@pytest.mark.parametrize("window", [1, 2, 5, 10**9])  # the last is wider than any sentence
@pytest.mark.parametrize("at_once", [3, 1000])
def test_pairs_are_those_within_the_window_of_a_sentence(window, at_once, monkeypatch):
    monkeypatch.setattr(counting, "TOKENS_AT_ONCE", at_once)
    sentences = drawn_sentences()
    corpus = Corpus.from_sequences(sentences)
    # three words have no vector
    words = {word: rank for rank, word in enumerate(corpus.values("word")[:-3])}
    ranks = np.array([words.get(word, -1) for word in corpus.values("word")])[corpus.codes("word")]
    left, right, count = count_pairs(ranks, corpus.offsets, window, len(words))
    got = dict(zip(zip(left.tolist(), right.tolist(), strict=True), count.tolist(), strict=True))
    assert got == pairs_by_hand(sentences, window, words)


def test_sentences_of_one_word_have_no_pairs():
    for window in (1, 10**9):
        assert all(len(part) == 0 for part in count_pairs(np.arange(3), np.arange(4), window, 3))


def test_mutual_information_by_hand():
    counts = counting.Counts(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([2, 1, 3]))
    matrix = dense(mutual_information(counts, 3))
    assert matrix.shape == (3, 6)
    # 1 after 0, 0 before 1
    assert matrix[0, 1] == matrix[1, 3 + 0] == pytest.approx(np.log(2 * 6 / (3 * 2)))
    assert matrix[1, 2] == matrix[2, 3 + 1] == pytest.approx(np.log(3 * 6 / (3 * 4)))
    assert np.count_nonzero(matrix) == 4  # (0, 2) is rarer than chance


@pytest.mark.parametrize("dimensions", [25, 100])
def test_vectors_are_those_of_a_dense_decomposition(dimensions):
    corpus = Corpus.from_sequences(drawn_sentences())
    n = len(corpus.values("word"))
    matrix = mutual_information(
        count_pairs(corpus.codes("word").astype(np.int64), corpus.offsets, 2, n), n
    )
    left, singular, _ = np.linalg.svd(dense(matrix))
    width = min(dimensions, n)
    wanted = left[:, :width] * np.sqrt(singular[:width])
    got = singular_vectors(matrix, dimensions)
    assert got.shape == wanted.shape
    kept = singular[:width] > 1e-3
    assert np.abs(got[:, kept]) == pytest.approx(np.abs(wanted[:, kept]), abs=2e-3)
    assert got @ got.T == pytest.approx(wanted @ wanted.T, abs=2e-3)


def test_a_subspace_smaller_than_the_matrix_finds_the_largest_singular_values():
    corpus = Corpus.from_sequences(drawn_sentences(400, seed=1))
    n = len(corpus.values("word"))
    matrix = mutual_information(
        count_pairs(corpus.codes("word").astype(np.int64), corpus.offsets, 1, n), n
    )
    singular = np.linalg.svd(dense(matrix), compute_uv=False)
    assert (singular_vectors(matrix, 4) ** 2).sum(axis=0) == pytest.approx(singular[:4], rel=1e-3)


def test_words_with_the_same_neighbours_have_the_same_vector():
    vectors = count_vectors(PATTERN * 3, dimensions=4)
    row = dict(zip(vectors.words, vectors.rows, strict=True))
    assert row["dog"].tolist() == row["cat"].tolist() != row["saw"].tolist()


def test_the_same_seed_gives_the_same_vectors_and_signs_do_not_depend_on_it():
    a, b, c = (
        count_vectors(drawn_sentences(), dimensions=4, random_state=seed).rows for seed in (0, 0, 7)
    )
    assert a.tolist() == b.tolist()
    assert a == pytest.approx(c, abs=1e-3)


def test_frequent_words_come_first_and_rare_ones_have_no_vector():
    sentences = [["b", "a", "b", "c"], ["b", "a", "two words", "two words"]]
    assert count_vectors(sentences, min_count=1).words == ["b", "a", "c"]
    assert count_vectors(sentences, min_count=2).words == ["b", "a"]
    assert count_vectors(sentences, words=2, min_count=1).words == ["b", "a"]


@pytest.mark.parametrize(
    ("sentences", "settings", "message"),
    [
        ([["a", "b"]], {}, "no word of X occurs 2 times"),
        ([["a"], ["a"], ["b"], ["b"]], {}, "no word has typical neighbours"),
        (PATTERN, {"words": 0}, "words: expected a whole number of 1 or more, got 0"),
        (PATTERN, {"window": -1}, "window: expected"),
    ],
)
def test_what_cannot_be_counted_is_said(sentences, settings, message):
    with pytest.raises((CorpusError, OptionError), match=message):
        count_vectors(sentences, **settings)


def test_vectors_are_written_as_they_are_read(tmp_path):
    vectors = count_vectors(drawn_sentences(), dimensions=4)
    for name in ("vectors.txt", "vectors.txt.gz"):
        write_vectors(vectors, tmp_path / name)
        again = read_vectors(tmp_path / name)
        assert again.words == vectors.words
        assert again.rows == pytest.approx(vectors.rows, rel=1e-4)


def test_clusters_part_what_lies_apart():
    rng = np.random.default_rng(0)
    centres = np.array([[5.0, 0, 0], [4.0, 2.0, 0], [0, 0, 3.0], [-1.0, 0, 3.0]])
    rows = np.concatenate([centre + rng.normal(0, 0.01, (6, 3)) for centre in centres])
    paths = cluster_words(Vectors([f"w{i}" for i in range(24)], rows), bits=2)
    of_centre = [{paths[f"w{i}"] for i in range(k, k + 6)} for k in range(0, 24, 6)]
    assert all(len(each) == 1 for each in of_centre)
    # a prefix is a coarser cluster
    assert [min(each)[0] for each in of_centre] == ["0", "0", "1", "1"]
    assert len(set.union(*of_centre)) == 4
    assert cluster_words(Vectors(["a", "b"], np.ones((2, 3))), bits=3) == {"a": "000", "b": "000"}
    with pytest.raises(OptionError, match="bits: expected"):
        cluster_words(Vectors(["a"], np.ones((1, 2))), bits=0)


def test_a_tagger_takes_vectors_and_clusters_as_they_are(tmp_path):
    vectors = count_vectors(drawn_sentences(), dimensions=3)
    given = {"vectors": vectors, "clusters": {"c": cluster_words(vectors)}}
    X = drawn_sentences(20, seed=2)
    tagger = CRF("Uc:%c[c]\nUv:%v[0]", **given, n_jobs=1, max_iter=3).fit(
        X, [["A"] * len(x) for x in X]
    )
    tagger.save(tmp_path / "m")
    assert load(tmp_path / "m").predict(X) == tagger.predict(X)
    assert repr(vectors) == f"<Vectors X: {len(vectors.words)} words, 3 dimensions>"
