"""What a user is told about a model and its data."""

import re

import pytest

import labelwright
from labelwright.corpus import Corpus, builtin_corpus
from labelwright.inspection.warnings import (
    SAMPLE,
    few_features,
    few_held_out,
    hashes_of,
    labels_unseen,
    sample_of,
    scheme_differs,
    trained_on,
    unknown_share,
    words_unknown,
)

TAGGERS = {
    "crf": lambda: labelwright.CRF(template="U:%x[0,0]\nUs:%shape[0,0]", max_iter=3, n_jobs=1),
    "lower": lambda: labelwright.CRF(template="U:%lower[0,0]", max_iter=3, n_jobs=1),
    "semi-crf": lambda: labelwright.SemiCRF(template="U:%x[0,0]", max_iter=3, n_jobs=1),
    "memory": lambda: labelwright.MemoryTagger(n_jobs=1),
    "cascade": lambda: labelwright.Cascade(
        [(name, labelwright.CRF(template="U:%x[0,0]", max_iter=2)) for name in ("pos", "chunk")],
        passing="best",
        n_jobs=1,
    ),
}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return builtin_corpus(40, random_state=4, columns=["word", "chunk"])


def trained(name: str, corpus: Corpus):
    if name != "cascade":
        return TAGGERS[name]().fit(corpus)
    return TAGGERS[name]().fit(corpus.select(["word"]), {"pos": corpus.y, "chunk": corpus.y})


@pytest.mark.parametrize("name", TAGGERS)
def test_a_text_of_unknown_words(name, corpus) -> None:
    model = trained(name, corpus)
    assert unknown_share(model, corpus.select(["word"])) == 0.0
    strange = Corpus.from_sequences([["xq", "zz"], ["xq"]])
    assert unknown_share(model, strange) == 1.0
    assert words_unknown(model, strange) == (
        "X: 100 % of the words (column word, first 'xq') were never seen in training; "
        "check the order of the columns, the tokenisation and the language"
    )
    mixed = Corpus.from_sequences([["xq", corpus.X[0][0], "zz"]])
    assert unknown_share(model, mixed) == pytest.approx(2 / 3)
    assert words_unknown(model, mixed) is None
    assert words_unknown(model, mixed.take(slice(0, 0))) is None


def test_columns_in_another_order() -> None:
    corpus = builtin_corpus(60, random_state=4, columns=["word", "pos", "chunk"])
    model = labelwright.CRF(max_iter=1, n_jobs=1).fit(corpus.take(slice(0, 30)))
    others = corpus.take(slice(30, 60)).select(["word", "pos"])
    swapped = others.renamed(["pos", "word"], None).select(["word", "pos"])
    assert words_unknown(model, others) is None
    line = words_unknown(model, swapped)
    assert line is not None
    assert line.endswith("; column pos fits better; if the order is not word,pos, add --columns")
    assert words_unknown(model, swapped.take(slice(0, 3))) is None  # too few to judge
    # Columns of a few values hold no words, though the model knows these.
    know = corpus.X[0][0][0]
    named = [
        (word, pos, know) for (word, pos) in (token for sentence in others.X for token in sentence)
    ]
    for order in ((1, 2, 0), (2, 1, 0)):
        line = words_unknown(
            model, Corpus.from_sequences([[tuple(row[c] for c in order) for row in named]])
        )
        assert line is not None
        assert "; column c2 fits better; if the order is not word,pos,c2, add --columns" in line
        assert ("hardly any words (column word, first" in line) == (order[0] == 2)
    assert (
        words_unknown(model, Corpus.from_sequences([[(row[2], row[1]) for row in named]])) is None
    )
    foreign = Corpus.from_sequences(
        [[(f"x{n}" if n % 4 else word, pos) for n, (word, pos) in enumerate(others.X[0])]] * 20
    )
    assert unknown_share(model, foreign) > 0.7  # as in another domain
    assert words_unknown(model, foreign) is None


def test_labels_that_training_lacks() -> None:
    assert labels_unseen(["O", "B-X|B-Y", 3], ["O", "B-Y", "3"], "dev.txt") is None
    line = "dev.txt: labels that the training data lack, and no model predicts: B-Z, I-X"
    assert labels_unseen(["O", "B-X"], ["O", "I-X", "B-Z"], "dev.txt") == line


def test_features_that_do_not_tell(corpus) -> None:
    shapes = labelwright.CRF(template="U:%shape[0,0]", max_iter=2, n_jobs=1).fit(corpus)
    dicts = labelwright.CRF(max_iter=2, n_jobs=1).fit([[{"a": 1.0}]], [["X"]])
    tree = labelwright.MemoryTagger(template="Us:%suffix[0,0,2]", n_jobs=1).fit(corpus)
    for model in (shapes, dicts, tree):
        assert unknown_share(model, Corpus.from_sequences([["xq"]])) is None
        assert words_unknown(model, Corpus.from_sequences([["xq"]])) is None


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "ioe2", "bioes", "bilou", "io"])
@pytest.mark.parametrize("other", ["iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou", "bmes"])
def test_another_scheme(corpus, scheme, other) -> None:
    model = labelwright.CRF(template="U:%x[0,0]", max_iter=1, n_jobs=1).fit(
        corpus.with_scheme(scheme)
    )
    line = scheme_differs(model, corpus.with_scheme(other))
    if scheme == other:
        assert line is None
    else:
        assert line is not None
        assert (
            f"column chunk has labels in {other}, but the model predicts labels in {scheme}, the "
            "scheme"
        ) in line
    assert scheme_differs(model, corpus.select(["word"])) is None


def test_labels_that_fit_both_schemes_or_none(corpus) -> None:
    model = labelwright.CRF(template="U:%x[0,0]", max_iter=1, n_jobs=1).fit(
        corpus.with_scheme("iob1")
    )
    # detected as io, but right in iob1, too
    inside = Corpus.from_sequences([["a", "b"]], [["I-NP", "O"]])
    assert scheme_differs(model, inside) is None
    assert scheme_differs(model, Corpus.from_sequences([["a"]], [["NN"]])) is None
    tags = labelwright.CRF(template="U:%x[0,0]", max_iter=1, n_jobs=1).fit(
        [["a", "b"]], [["DT", "NN"]]
    )
    assert scheme_differs(tags, corpus) is None
    both = corpus.select(["word", "chunk"]).renamed(["word", "iob"], None)
    assert "column iob has labels in iob2" in str(scheme_differs(model, both, "iob"))


def test_few_features(corpus) -> None:
    model = labelwright.CRF(template="U:%x[0,0]", min_count=35, max_iter=2, n_jobs=1).fit(corpus)
    assert model._extractor.n_features == 1
    assert few_features(model) == (
        f"only 1 feature occurs 35 times or more in the training data, for {len(model.classes_)} "
        "labels; lower --min-count"
    )
    assert few_features(model.set_params(min_count=1)) is None
    assert (
        few_features(
            labelwright.SemiCRF(template="U:%x[0,0]", min_count=2, max_iter=2, n_jobs=1).fit(corpus)
        )
        is None
    )
    assert (
        few_features(
            labelwright.CRF(template="U:%x[0,0]", max_iter=2, n_jobs=1).fit([["a"]], [["X"]])
        )
        is None
    )


def test_a_calibration_on_few_sentences() -> None:
    assert few_held_out({"sentences": 30}) is None
    assert few_held_out({"sentences": 1}) == (
        "the calibration rests on 1 sentence, and others may give quite another one; use 30 or more"
    )


def test_a_sample_of_the_training_data_tells_what_share_of_a_file_was_trained_on() -> None:
    sentences = [[str(n), "is", "a", "number", "."] for n in range(8000)]
    train = Corpus.from_sequences(sentences[:6000])
    sample = sample_of(train)
    assert len(sample) == 8 * SAMPLE  # the file stays small
    assert sample_of(train, sample_of(train.take(slice(0, 3000)))) == sample
    mixed = Corpus.from_sequences(sentences[4000:], source="mixed.txt")  # half of it
    whole, sampled = trained_on("".join(hashes_of(train)), mixed), trained_on(sample, mixed)
    assert str(whole).startswith(
        "mixed.txt: about 50 % of its sentences of 5 tokens or more are in the training data; "
    )
    assert 40 < int(re.findall(r"about (\d+) %", str(sampled))[0]) < 60
    assert trained_on(sample, Corpus.from_sequences(sentences[6000:])) is None
    # short ones occur again by chance
    assert trained_on(sample, Corpus.from_sequences([["Yes", "."]] * 9)) is None
    assert trained_on("", train) is None
