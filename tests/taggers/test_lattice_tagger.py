"""LatticeTagger: sentences in, labels of tokens out, against enumeration of paths and a
LatticeCRF."""

import pickle
import re

import numpy as np
import pytest
from drawn import drawn
from enumerated import check_answers
from hypothesis import given
from hypothesis import strategies as st
from lattices import Enumerated
from words import all_words, made_words, tagged_words

import labelwright
from labelwright import Corpus, FeatureLattice, LatticeCRF, LatticeTagger, Span
from labelwright.corpus.schemes import convert
from labelwright.corpus.spans import spans_of
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.structures.feature_lattice import arc_labels

X, Y = made_words(25)
WORDS, TAGS = Y["word"], Y["tag"]


@st.composite
def arcs_over(draw, n_tokens):
    """Arcs with one of two labels or, of single tokens, O; every token has one of its own."""
    kinds = st.sampled_from(["A", "B", "O"])
    ends = {(t, t + 1, draw(kinds)) for t in range(n_tokens)}
    for a in draw(st.lists(st.integers(0, n_tokens - 1), max_size=6)):
        b = draw(st.integers(a + 1, n_tokens))
        ends.add((a, b, draw(kinds) if b == a + 1 else draw(st.sampled_from(["A", "B"]))))
    names = st.lists(st.sampled_from("uvwx"), max_size=3, unique=True)
    return [(*each, draw(names)) for each in draw(st.permutations(sorted(ends)))]


def with_random_weights(model, sentences, y, seed=0):
    """The model, trained for one step, with weights that are far from any optimum."""
    model.set_params(max_iter=1).fit(sentences, y)
    weights = np.random.default_rng(seed).normal(size=len(model.weights_))
    model._trained = model._trained._replace(weights=weights)
    return model


@drawn(40)
@given(
    data=st.data(),
    transitions=st.booleans(),
    scheme=st.sampled_from(["iob2", "ioe2", "bioes", "bmes"]),
)
def test_every_answer_is_that_of_enumeration(data, transitions, scheme):
    T = data.draw(st.integers(1, 5))
    lattice = FeatureLattice(data.draw(arcs_over(T)), T + 1)
    first = sorted(arc[:3] for arc in lattice.arcs if arc.target == arc.source + 1)
    path = [next(ends for ends in first if ends[0] == t) for t in range(T)]
    gold = written(path, T, scheme)
    tagger = LatticeTagger(lambda sentence: lattice, transitions=transitions, n_jobs=1)
    # so few labels do not show their scheme
    tagger._given, tagger._of_part = arc_labels((), scheme), True
    model = with_random_weights(tagger, [["x"] * T], [gold])
    truth = Enumerated(model, lattice)
    labellings = [written(lattice.ends(path), T, scheme) for path in truth.paths]
    assert len(set(map(tuple, labellings))) == len(labellings)

    probable = dict(zip(map(tuple, labellings), truth.p.tolist(), strict=True))
    check_answers(model, ["x"] * T, probable)
    first = labellings[-1][0]
    left = {labels: p for labels, p in probable.items() if labels[0] == first}
    left = {labels: p / sum(left.values()) for labels, p in left.items()}
    check_answers(model, ["x"] * T, left, forced=[[first, *[None] * (T - 1)]])


def written(ends, n_tokens, scheme):
    """Arcs as labels, by way of the scheme that LatticeCRF writes."""
    spans = [Span(*each) for each in ends if each[2] != "O"]
    return convert([labelwright.corpus.labels_of(spans, n_tokens)], "iob2", scheme)[0]


def test_all_words_are_those_of_a_lattice_crf():
    """The same lattices and features: the same weights, paths and probabilities."""
    settings = {"l2": 0.3, "n_jobs": 1}
    tagger = LatticeTagger(all_words, **settings).fit(X, WORDS)
    lattices = [all_words(sentence) for sentence in X]
    crf = LatticeCRF(**settings).fit(
        lattices, [[span[:3] for span in spans_of(labels)] for labels in WORDS]
    )
    np.testing.assert_array_equal(tagger.weights_, crf.weights_)
    predicted = crf.predict(lattices)
    assert tagger.predict(X) == [
        written(path, len(x), "iob2") for path, x in zip(predicted, X, strict=True)
    ]
    assert tagger.score(X, WORDS) > 0.9
    for lattice, arcs, rows in zip(
        lattices, crf.predict_marginals(lattices), tagger.predict_marginals(X), strict=True
    ):
        for t, row in enumerate(rows):
            begins = sum(p for arc, p in zip(lattice.arcs, arcs, strict=True) if arc.source == t)
            assert row == pytest.approx({"B-word": begins, "I-word": 1 - begins})
    ours, theirs = tagger.scored(X), crf.scored(lattices)
    assert [each.log_z() for each in ours] == pytest.approx([each.log_z() for each in theirs])


def test_every_writable_scheme_has_the_same_model():
    models = {}
    for scheme in ("iob2", "ioe2", "bioes", "bilou"):
        y = convert(TAGS, "iob2", scheme)
        models[scheme] = LatticeTagger(tagged_words, n_jobs=1).fit(X, y)
        assert models[scheme].scheme_ == scheme
        assert models[scheme].predict(X) == convert(models["iob2"].predict(X), "iob2", scheme)
    assert len({model.training_["loss"] for model in models.values()}) == 1


def test_labels_without_a_scheme_are_those_of_single_tokens():
    readings = {"the": "D", "can": "NV", "runs": "V", "run": "NV"}

    def lattice(sentence):
        return FeatureLattice(
            [
                (t, t + 1, tag, [word, str(t)])
                for t, word in enumerate(sentence)
                for tag in readings[word]
            ]
        )

    sentences, y = (
        [["the", "can", "runs"], ["the", "run"], ["can", "run"]],
        [list("DNV"), list("DN"), list("NV")],
    )
    model = LatticeTagger(lattice, n_jobs=1).fit(sentences, y)
    assert model.scheme_ is None
    assert model.predict(sentences) == y
    assert model.classes_ == ["D", "N", "V"]
    assert model.predict_spans(sentences) == [[], [], []]
    assert model.predict_marginals([["the", "runs"]])[0][0] == {"D": 1.0, "N": 0.0, "V": 0.0}
    wide = LatticeTagger(lambda sentence: FeatureLattice([(0, len(sentence), "D", [])]), n_jobs=1)
    with pytest.raises(
        CorpusError,
        match=r"sentence 0: arc 0, \(0, 3, 'D'\): labels without B- and I- are those of s",
    ):
        wide.fit(sentences, y)


def test_untyped_labels_are_arcs_without_a_label():
    def lattice(sentence):
        return FeatureLattice([(*arc[:2], "", arc.features) for arc in all_words(sentence).arcs])

    y = [[label[0] for label in labels] for labels in WORDS]
    model = LatticeTagger(lattice, n_jobs=1).fit(X, y)
    assert model.predict(X) == [
        [label[0] for label in row] for row in LatticeTagger(all_words).fit(X, WORDS).predict(X)
    ]


# -- what does not fit -----------------------------------------------------------------------------


def test_labels_that_are_no_path_are_named_or_left_out():
    def small(sentence):
        return FeatureLattice(
            [arc for arc in all_words(sentence).arcs if arc.target - arc.source < 3]
        )

    long = [
        n for n, labels in enumerate(WORDS) if any(s.end - s.start > 2 for s in spans_of(labels))
    ]
    span = next(s for s in spans_of(WORDS[long[0]]) if s.end - s.start > 2)
    message = (
        f"y: sentence {long[0]}: its lattice has no arc ({span.start}, {span.end}, 'word'), which "
        "its labels stand"
    )
    with pytest.raises(CorpusError, match=re.escape(message)):
        LatticeTagger(small, n_jobs=1).fit(X, WORDS)
    model = LatticeTagger(small, unreachable="skip", n_jobs=1)
    with pytest.warns(
        RuntimeWarning, match=f"unreachable='skip': {len(long)} sentences left out of training"
    ):
        model.fit(X, WORDS)
    rest = [n for n in range(len(X)) if n not in long]
    assert model.training_["left_out"] == len(long)
    assert model.training_["sentences"] == len(rest)
    alone = LatticeTagger(small, n_jobs=1).fit([X[n] for n in rest], [WORDS[n] for n in rest])
    np.testing.assert_array_equal(model.weights_, alone.weights_)
    with pytest.raises(
        CorpusError, match="y: no sentence has labels that are a path of its lattice; sentence 0"
    ):
        model.fit([X[n] for n in long], [WORDS[n] for n in long])


@pytest.mark.parametrize(
    ("arcs", "message"),
    [
        (None, "lattices: sentence 0: expected a FeatureLattice, got NoneType"),
        (
            [(0, 1, "word")],
            (
                "lattices: sentence 0: expected 3 nodes, one before each of its 2 tokens and one "
                "behind"
            ),
        ),
        (
            [(0, 2, "O")],
            (
                r"lattices: sentence 0: arc 0, \(0, 2, 'O'\): an arc labelled O is one token; make "
                r"an "
                r"arc"
            ),
        ),
        (
            [(0, 2, "word"), (0, 2, "word")],
            r"lattices: sentence 0: arcs 0 and 1 are both \(0, 2, 'word'\); make one",
        ),
        (
            [(1, 2, "word")],
            "lattices: sentence 0: arcs: no path leads from node 0 to the last node, 2",
        ),
    ],
)
def test_lattices_that_cannot_be_written_are_refused(arcs, message):
    model = LatticeTagger(lambda _: None if arcs is None else FeatureLattice(arcs), n_jobs=1)
    with pytest.raises(CorpusError, match=message):
        model.fit([["a", "b"]], [["B-word", "I-word"]])


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (
            LatticeTagger(),
            ["B-word"],
            "lattices: the function that makes a lattice of a sentence is missing",
        ),
        (
            LatticeTagger("words"),
            ["B-word"],
            "lattices: expected a function that makes a FeatureLattice",
        ),
        (
            LatticeTagger(all_words, unreachable="ignore"),
            ["B-word"],
            "unreachable: expected one of error, skip",
        ),
        (
            LatticeTagger(all_words),
            [1],
            "y: a LatticeTagger has labels of arcs, which are strings, got numbers",
        ),
        (LatticeTagger(all_words), [None], "y: a LatticeTagger learns from complete labels"),
        (
            LatticeTagger(all_words),
            ["I-word"],
            "y: labels in io do not say by themselves where a chunk begins",
        ),
    ],
)
def test_settings_and_labels_that_are_refused(model, y, message):
    with pytest.raises(OptionError, match=message):
        model.fit([["a"], ["a"]], [y, ["I-word" if y == ["I-word"] else y[0] or "B-word"]])


def test_arcs_with_labels_that_training_lacks_are_left_out():
    model = LatticeTagger(all_words, n_jobs=1).fit(X, WORDS)
    before = model.predict_marginals(X)
    model.lattices = lambda x: FeatureLattice([*all_words(x).arcs, (0, 1, "new", ["a"])])
    assert model.predict_marginals(X) == before
    model.lattices = lambda x: FeatureLattice([(0, len(x), "new", ["a"])])
    with pytest.raises(
        CorpusError,
        match="lattices: sentence 0: without arcs labelled 'new', which the training data",
    ):
        model.predict(X)


# -- sentences, weights, files ---------------------------------------------------------------------


def test_tokens_may_be_tuples_dicts_and_columns_of_a_corpus():
    tuples = [[(token, "x") for token in sentence] for sentence in X]
    model = LatticeTagger(all_words, n_jobs=1).fit(tuples, WORDS)
    assert model.reads() == ("columns", ("word", "pos"))
    corpus = Corpus.from_sequences(tuples, WORDS)
    assert model.predict(corpus) == LatticeTagger(all_words, n_jobs=1).fit(corpus).predict(tuples)
    with pytest.raises(CorpusError, match="X: the model reads the columns word,pos, got word"):
        model.predict(X)
    dicts = [[{"w": token} for token in sentence] for sentence in X]
    by_key = LatticeTagger(
        lambda sentence: all_words([token["w"] for token in sentence]), n_jobs=1
    ).fit(dicts, WORDS)
    assert by_key.predict(dicts) == model.predict(tuples)
    with pytest.raises(CorpusError, match="X: the model was trained on dicts, got columns"):
        by_key.predict(X)


def test_a_sentence_that_counts_twice_is_as_good_as_two():
    twice = LatticeTagger(all_words, n_jobs=1, tol=1e-9).fit([*X, *X[:5]], [*WORDS, *WORDS[:5]])
    weights = [2.0] * 5 + [1.0] * (len(X) - 5)
    weighted = LatticeTagger(all_words, n_jobs=1, tol=1e-9).fit(X, WORDS, sample_weight=weights)
    np.testing.assert_allclose(weighted.weights_, twice.weights_, atol=1e-3)
    with pytest.raises(OptionError, match="sample_weight: a LatticeTagger weighs whole sentences"):
        weighted.fit(X, WORDS, sample_weight=[[1.0] * len(sentence) for sentence in X])
    with pytest.raises(OptionError, match="sample_weight: all are zero"):
        weighted.fit(X, WORDS, sample_weight=[0.0] * len(X))


def test_development_data_choose_the_weights():
    model = LatticeTagger(all_words, l2=0.01, n_jobs=1).fit(
        X[:10], WORDS[:10], dev=(X[10:], WORDS[10:])
    )
    assert model.training_["best_dev"] == max(record.get("dev", 0.0) for record in model.history_)
    labels = model.predict(X[10:])
    assert labelwright.evaluate.evaluate(WORDS[10:], labels).score == pytest.approx(
        model.training_["best_dev"]
    )


def test_a_file_holds_no_function(tmp_path):
    model = LatticeTagger(tagged_words, unreachable="skip", n_jobs=1).fit(X, TAGS)
    model.save(tmp_path / "tags.model")
    assert b"tagged_words" not in (tmp_path / "tags.model").read_bytes()
    again = labelwright.load(tmp_path / "tags.model")
    assert again.lattices is None
    assert again.classes_ == model.classes_
    assert again.describe()["features"] == model.describe()["features"]
    with pytest.raises(
        OptionError, match=r"lattices: the function .* is missing .*: model\.lattices = f"
    ) as error:
        again.predict(X)
    assert "\n" not in str(error.value)
    again.lattices = tagged_words
    assert again.predict_marginals(X) == model.predict_marginals(X)
    assert pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)
    smaller = model.compressed(bits=8)
    smaller.save(tmp_path / "small.model")
    small = labelwright.load(tmp_path / "small.model").set_params(lattices=tagged_words)
    assert small.predict(X) == smaller.predict(X)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("scheme", "io", "scheme"),
        ("reads", {"kind": "rows", "columns": []}, "kind"),
        ("reads", 1, "reads"),
        ("label_type", "int", "labels"),
        ("pairs", 3, "pairs"),
    ],
)
def test_made_files_are_refused(field, value, message):
    tensors, header = LatticeTagger(tagged_words, max_iter=2, n_jobs=1).fit(X, TAGS).pack()
    with pytest.raises(ModelFileError, match=message):
        LatticeTagger.unpack(tensors, header | {field: value})
