"""Numbers beside symbols: number columns, word vectors, arrays; standardised, shifted, stored."""

import tracemalloc

import numpy as np
import pytest

from labelwright import (
    CRF,
    LatentCRF,
    MemoryBased,
    MemoryTagger,
    NgramTagger,
    Perceptron,
    SemiCRF,
    load,
)
from labelwright.corpus import Corpus
from labelwright.errors import CorpusError, LabelwrightError, OptionError, TemplateError
from labelwright.features.extract import learn
from labelwright.features.numbers import Vectors, read_vectors
from labelwright.features.sources import Given
from labelwright.features.template import parse_template

X = [[("a", "1"), ("b", "3"), ("c", "_")], [("a", "2")], []]
VECTORS = {"a": [1.0, 0.0], "b": [3.0, 0.5], "c": [2.0, 1.0], "e": [9.0, 9.0]}


def values_of(extractor, incidence, n_tokens):
    """{feature: value} of each token, without those of symbols."""
    found = []
    for t in range(n_tokens):
        at = range(incidence.token_ptr[t], incidence.token_ptr[t + 1])
        named = {
            extractor.name(incidence.token_feature[i]): float(incidence.token_value[i]) for i in at
        }
        found.append({name: value for name, value in named.items() if not name.startswith("Uw")})
    return found


def test_number_columns_are_standardised_and_shifted():
    extractor, incidences, _ = learn(X, "Uw:%x[0,0]\nUn[0]:%n[0,1]\nUn[-1]:%n[-1,1]", 1)
    values = values_of(extractor, incidences["state"], 4)
    deviation = np.std([1, 3, 2])
    assert values[0] == {"Un[0]": pytest.approx(-1 / deviation)}
    assert values[1] == {
        "Un[0]": pytest.approx(1 / deviation),
        "Un[-1]": pytest.approx(-1 / deviation),
    }
    assert values[2] == {"Un[-1]": pytest.approx(1 / deviation)}  # a missing number is the mean
    assert values[3] == {}  # the mean itself, and nothing before it
    new, _ = extractor.encode([[("a", "5")]])
    assert values_of(extractor, new["state"], 1) == [{"Un[0]": pytest.approx(3 / deviation)}]


@pytest.mark.parametrize("kind", [CRF, SemiCRF])
def test_numbers_far_from_those_of_the_training_data_are_cut(kind):
    """Weights times deviations stay finite."""
    numbers = [[("a", "1e-11"), ("b", "3e-11"), ("c", "2e-11")]]
    tagger = kind("U:%n[0,1]", n_jobs=1, max_iter=3).fit(numbers, [["A", "B", "A"]])
    far = [[("a", "1e29"), ("a", "-1e29"), ("b", "2e-11")]]
    encoded, _ = tagger._extractor.encode(far)
    assert encoded["state"].token_value[:2].tolist() == [1e4, -1e4]
    assert np.isfinite(
        [p for token in tagger.predict_marginals(far)[0] for p in token.values()]
    ).all()


def test_vectors_far_from_those_of_the_training_data_are_cut():
    given = Given(vectors={"a": [1e-10], "b": [2e-10], "far": [3e38]})
    extractor, _, _ = learn([["a", "b"]], "U:%v[0]", 1, given=given)
    assert extractor.numbers.vectors.rows[2].tolist() == [1e4]


def test_vectors_are_standardised_on_the_training_data():
    words = [["a", "b", "c", "C", "d"]]
    extractor, incidences, _ = learn(words, "Uw:%x[0,0]\nUv:%v[0]", 1, given=Given(vectors=VECTORS))
    values = values_of(extractor, incidences["state"], 5)
    first = np.array([1.0, 3.0, 2.0, 2.0])
    wanted = (first - first.mean()) / first.std()
    assert [v.get("Uv:0", 0.0) for v in values[:4]] == pytest.approx(wanted, abs=1e-3)
    assert values[4] == {"Uv:unknown": 1.0}
    assert extractor.n_features == 5 + 3


@pytest.mark.parametrize("kind", [CRF, LatentCRF, Perceptron, SemiCRF])
def test_taggers_learn_from_vectors_alone(kind, tmp_path):
    """Labels follow the vectors, and the words of the test are new."""
    rng = np.random.default_rng(0)
    vectors = {f"w{i}": [float(i % 2), *rng.normal(0, 0.01, 2)] for i in range(60)}
    train = [[f"w{i}" for i in rng.integers(0, 40, 6)] for _ in range(40)]
    test = [[f"w{i}" for i in rng.integers(40, 60, 6)] for _ in range(60)]
    labels = lambda X: [["O" if int(w[1:]) % 2 else "B-X" for w in x] for x in X]  # noqa: E731
    tagger = kind(template="Uv:%v[0]", vectors=vectors, n_jobs=1, max_iter=20).fit(
        train, labels(train)
    )
    assert tagger.predict(test) == labels(test)
    tagger.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.predict(test) == tagger.predict(test)
    assert loaded.predict(test[:1]) == tagger.predict(test[:1])  # one sentence, too
    assert isinstance(loaded.vectors, Vectors)


def test_arrays_beside_columns(tmp_path):
    rng = np.random.default_rng(0)
    words = [["x"] * 5 for _ in range(30)]
    arrays = [rng.normal(3, 2, (5, 2)) for _ in words]
    y = [["P" if row[0] > 3 else "N" for row in rows] for rows in arrays]
    tagger = CRF(l2=0.001, n_jobs=1).fit(words, y, arrays=arrays)
    assert tagger.predict(words, arrays=arrays) == y
    assert tagger.predict(Corpus.from_sequences(words).with_arrays(arrays)) == y
    assert (
        tagger.predict_marginals(tagger.encode(words[:1], arrays=arrays[:1]))[0][0][y[0][0]] > 0.5
    )
    loaded = load(tagger.save(tmp_path / "m") and tmp_path / "m")
    assert loaded.predict(words, arrays=arrays) == y
    smaller = tagger.compressed(prune=0.01)
    assert smaller.predict(words, arrays=arrays) == y
    corpus = Corpus.from_sequences(words, y).with_arrays(arrays)
    assert CRF(n_jobs=1).fit(corpus.take([3, 1, 2]), dev=corpus).predict(corpus.take([0]))
    with pytest.raises(
        CorpusError, match=r"^arrays: the model reads a row of numbers for each token; give arrays="
    ):
        tagger.predict(words)
    with pytest.raises(
        CorpusError, match=r"^arrays: the model reads rows of 2 numbers, got rows of 3$"
    ):
        tagger.predict(words[:1], arrays=[np.zeros((5, 3))])
    with pytest.raises(
        CorpusError, match=r"^arrays: sentence 0: expected 5 rows of 2 numbers, got .* \(4, 2\)$"
    ):
        tagger.predict(words[:1], arrays=[np.zeros((4, 2))])
    with pytest.raises(CorpusError, match=r"^arrays: 1 sentences, but X has 2; give one for each$"):
        tagger.predict(words[:2], arrays=arrays[:1])


def test_training_can_begin_with_the_weights_of_a_model_with_numbers():
    old = Perceptron(template="Uw:%x[0,0]\nUn:%n[0,1]", n_jobs=1, max_iter=2).fit(
        X[:2], [["A", "B", "A"], ["B"]]
    )
    new = old.partial_fit([[("z", "7")]], [["A"]])
    names = [new._extractor.name(f) for f in range(new._extractor.n_features)]
    assert names == ["Uw:a", "Uw:b", "Uw:c", "Uw:z", "Un"]


def test_vector_files(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("3 2\na 1 2\nNew York 3 4.5\na 7 7\n\n")
    read = read_vectors(path)
    assert read.words == ["a", "New York"]
    assert read.rows.tolist() == [[1, 2], [3, 4.5]]
    path.write_text("a 1 2\nb 1 x\n")
    with pytest.raises(
        CorpusError, match=r"vectors.txt:2: expected a word and 2 numbers, got 'b 1 x'$"
    ):
        read_vectors(path)
    path.write_text("a 1 2\nb 1\n")
    with pytest.raises(CorpusError, match=r":2: expected a word and 2 numbers"):
        read_vectors(path)
    path.write_text("")
    with pytest.raises(
        CorpusError, match="no vectors; expected a word and its numbers on each line"
    ):
        read_vectors(path)


@pytest.mark.parametrize("line", ["U:%n[0,1]/%x[0,0]", "B:%v[0]", "U:%a[@1]", "*:%n[0,1]"])
def test_lines_that_cannot_be(line):
    with pytest.raises(
        TemplateError, match=r"a line with %n, %v or %a begins with U and holds nothing else"
    ):
        parse_template(line)


def test_what_cannot_be_given():
    y = [["A"] * len(x) for x in X]
    words = [["a", "b"]], [["A", "B"]]
    with pytest.raises(
        CorpusError, match=r"^%n reads column 0 as numbers, got 'a'; use %x for symbols"
    ):
        CRF("U:%n[0,0]").fit(X, y)
    with pytest.raises(
        OptionError, match=r"^template: %v reads word vectors; give them by vectors=FILE$"
    ):
        CRF("U:%v[0]").fit(*words)
    with pytest.raises(
        OptionError, match=r"^vectors: .* has none of the words of the training data"
    ):
        CRF(vectors={"z": [1.0]}).fit(*words)
    with pytest.raises(OptionError, match=r"^vectors: expected a file, or \{word: numbers\}"):
        CRF(vectors={"a": [1.0], "b": [1.0, 2.0]}).fit(*words)
    with pytest.raises(CorpusError, match="no such file"):
        CRF(vectors="/none/at/all").fit(*words)
    for template, what in (("U:%v[0]", "word vectors"), ("U:%a[0]", "arrays")):
        with pytest.raises(
            LabelwrightError, match=f"reads {what}: memory-based models compare symbols"
        ):
            MemoryTagger(template=template).fit(*words)
        tensors, header = MemoryTagger(template="U:%x[0,0]").fit(*words).pack()
        header["windows"]["template"]["text"] = template
        with pytest.raises(
            LabelwrightError, match=f"reads {what}: memory-based models compare symbols"
        ):
            MemoryTagger.unpack(tensors, header)


def test_a_batch_without_known_words_is_learnt():
    given = {"Ada": [1.0, 0.0], "ran": [0.0, 1.0]}
    tagger = Perceptron(vectors=given, max_iter=3, random_state=0).fit(
        [["Ada", "ran"]], [["P", "O"]]
    )
    vectors = tagger._extractor.numbers.vectors
    tagger.partial_fit([["Bob", "sat"]], [["P", "O"]])
    assert tagger._extractor.numbers.vectors is vectors
    assert len(tagger.predict([["Bob", "ran"]])[0]) == 2


def test_n_gram_taggers_read_numbers_and_memories_do_not():
    linear = pytest.importorskip("sklearn.linear_model")
    words, y = [["a", "b", "c"]] * 6, [["A", "B", "A"], ["B", "A", "B"]] * 3
    arrays = [
        np.array([[float(label == "A"), n] for label in labels]) for n, labels in enumerate(y)
    ]
    tagger = NgramTagger(linear.LogisticRegression(C=100.0), ngram=1)
    assert tagger.fit(words, y).predict(words) != y  # words alone do not tell
    assert tagger.fit(words, y, arrays=arrays).predict(words, arrays=arrays) == y
    corpus = Corpus.from_sequences(words, y).with_arrays(arrays)
    assert tagger.fit(corpus).predict(corpus) == y
    with_vectors = NgramTagger(
        linear.LogisticRegression(), vectors={"a": [1.0, 2.0], "b": [0.0, 1.0]}
    ).fit(words, y)
    assert with_vectors._extractor.numbers.n_features == 9
    for memory in (MemoryTagger(), NgramTagger(MemoryBased())):
        for ask in (lambda: memory.fit(words, y, arrays=arrays), lambda: memory.fit(corpus)):  # noqa: B023
            with pytest.raises(
                OptionError,
                match=r"^arrays: memory-based models compare symbols, and single numbers",
            ):
                ask()


def test_numbers_take_little_more_memory_than_they_are_stored_in():
    """They are stored in 8 bytes each; what is needed in between does not grow with the data."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(500)]
    vectors = Vectors(words, rng.normal(size=(500, 20)).astype(np.float32))
    sentences = Corpus.from_sequences(
        [[words[i] for i in rng.integers(0, 500, 40)] for _ in range(600)]
    )
    tracemalloc.start()
    try:
        _, incidences, _ = learn(
            sentences, "Ua:%v[-1]\nUb:%v[0]\nUc:%v[1]", 1, given=Given(vectors=vectors)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 14 * len(incidences["state"].token_value)
