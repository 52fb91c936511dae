"""Taggers over label n-grams with classifiers of every kind, and what they answer."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from tiny import NEW, X, Y

from labelwright.corpus import builtin_corpus
from labelwright.corpus.schemes import validate
from labelwright.decode import Decoding
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.features.extract import learn
from labelwright.taggers import ngram
from labelwright.taggers.ngram import NgramTagger, feature_matrix

LR, NB = LogisticRegression(max_iter=200), BernoulliNB(alpha=0.01)


class Bare:
    """A classifier with nothing but fit and predict: the class of the same row, else the first."""

    def fit(self, X, y):
        self.seen = {tuple(row.indices.tolist()): int(c) for row, c in zip(X, y, strict=True)}
        return self

    def predict(self, X):
        return np.array([self.seen.get(tuple(row.indices.tolist()), 0) for row in X])


class Says(Bare):
    """A classifier that says what it was told to, row by row."""

    def __init__(self, answers, method="predict"):
        self.answers = np.asarray(answers)
        setattr(self, method, lambda X: self.answers[: X.shape[0]])


class ByRote(NgramTagger):
    """What a subclass must give, and nothing else: the class of the word, one sentence a block."""

    classifier = None

    def __init__(self, ngram=3, inference="csi", weighting="confidence", n_jobs=None):
        self.ngram, self.inference, self.weighting, self.n_jobs = (
            ngram,
            inference,
            weighting,
            n_jobs,
        )

    def _fit_classifier(self, X, classes, n_classes, given):
        words = [token for sentence in X.X for token in sentence]
        self.known_ = dict(zip(words, classes.tolist(), strict=True))

    def _distributions(self, X):
        for sentence in X:
            found = [self.known_.get(token, 0) for token in sentence]
            yield ngram.certain(found), np.array([0, len(found)])


@pytest.fixture(scope="module")
def split():
    corpus = builtin_corpus(160, random_state=1, columns=["word", "pos", "chunk"])
    return corpus.take(slice(0, 120)), corpus.take(slice(120, 160))


@pytest.fixture(scope="module")
def tagger(split):
    return NgramTagger(NB).fit(split[0])


# --- classifiers ----------------------------------------------------------------------------------


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "classifier",
    [
        LR,
        DecisionTreeClassifier(random_state=0),
        LinearSVC(),
        SGDClassifier(random_state=0),
        NB,
        make_pipeline(MaxAbsScaler(), LR),
        GridSearchCV(BernoulliNB(), {"alpha": [0.01, 0.1]}, cv=2),
        Bare(),
    ],
    ids=lambda c: type(c).__name__,
)
@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("order", [1, 3])
def test_any_classifier_learns(classifier, order):
    tagger = NgramTagger(classifier, ngram=order, template="U:%x[-1,0]\nU:%x[0,0]\nU:%x[1,0]").fit(
        X * 3, Y * 3
    )
    assert tagger.classifier_ is not classifier
    assert tagger.classes_ == ["B-NP", "I-NP", "O"]
    assert tagger.grams_.shape[1] == order
    for inference in ("none", "vote", "csi"):
        assert [d.labels for d in tagger.decode(X, inference)] == Y
    assert tagger.score(X, Y) == 1.0
    assert len(tagger.predict([NEW])[0]) == 4


def test_what_a_classifier_says_becomes_confidences():
    """One word a sentence and n = 1: classes are labels, and scores their confidence."""
    rows, gold = [["a"], ["b"], ["c"], ["b"]], [["A"], ["B"], ["C"], ["B"]]

    def scores(answers, method, take=3):
        tagger = NgramTagger(Says(answers, method), ngram=1)
        tagger.fit(rows[:take], gold[:take])
        found = tagger.decode([["a"]])
        return found[0].labels, found[0].score

    assert scores([[0.2, 0.5, 0.3]], "predict_proba") == (["B"], 0.5)
    assert scores([[0.2, 3.0, 0.8]], "predict_proba") == (["B"], 0.75)  # weights of any kind
    labels, score = scores([[0.0, np.log(3), np.log(4)]], "decision_function")
    assert (labels, score) == (["C"], pytest.approx(0.5))
    labels, score = scores([np.log(3)], "decision_function", take=2)
    assert (labels, score) == (["B"], pytest.approx(0.75))
    assert scores([2], "predict") == (["C"], 1.0)
    with pytest.raises(
        OptionError, match=r"Says.decision_function: expected one value for each of 3 classes"
    ):
        scores([[1.0, 2.0]], "decision_function")
    with pytest.raises(OptionError, match=r"Says.predict_proba: probabilities: row 0 has nan"):
        scores([[np.nan, 0.5, 0.5]], "predict_proba")
    with pytest.raises(OptionError, match=r"Says.predict: expected one of the classes"):
        scores([7], "predict")


@pytest.mark.filterwarnings("error")
def test_columns_follow_the_classes_of_the_classifier():
    """A classifier may order its classes otherwise."""

    class Backwards(Bare):
        def fit(self, X, y):
            self.classes_ = np.unique(y)[::-1]
            return self

        def predict_proba(self, X):
            return np.tile([0.7, 0.2, 0.1], (X.shape[0], 1))

    assert NgramTagger(Backwards(), ngram=1).fit([["a", "b", "c"]], [["A", "B", "C"]]).predict(
        [["a"]]
    ) == [["C"]]


def test_the_classifier_sees_the_features_of_tokens():
    rows = [["a", "b"], ["b"]]
    extractor, layers, _ = learn(rows, "U:%x[0,0]\nU1:%x[-1,0]\nU2:%x[0,0]\nB:%x[0,0]", 1)
    matrix = feature_matrix(layers["state"], extractor.n_features)
    assert matrix.dtype == np.float64
    names = [{extractor.name(f) for f in row.indices} for row in matrix]
    assert [len(n) for n in names] == [3, 3, 3]
    assert len(names[1] & names[2]) == 2  # the words are the same, what stands before them is not
    assert set(matrix.data) == {1.0}
    extractor, layers, _ = learn(
        [[{"x": 2.5, "w": "a"}, {"w": "b", "on": True, "off": False}]], "default", 1
    )
    dense = feature_matrix(layers["state"], extractor.n_features).toarray()
    assert {extractor.name(f): v for f, v in enumerate(dense[0]) if v} == {"x": 2.5, "w=a": 1.0}
    assert {extractor.name(f): v for f, v in enumerate(dense[1]) if v} == {"w=b": 1.0, "on": 1.0}


def test_dicts_arrays_tuples_and_corpora(split):
    dicts = [[{"w": token, "len": len(token)} for token in sentence] for sentence in X]
    arrays = [
        np.array([[hash_of(token, 7), hash_of(token, 3), 1.0] for token in sentence])
        for sentence in X
    ]
    pairs = [[(token, token[0]) for token in sentence] for sentence in X]
    tree = DecisionTreeClassifier(random_state=0)
    for data in (dicts, pairs):
        assert NgramTagger(tree).fit(data, Y).predict(data) == Y
    assert NgramTagger(tree).fit(arrays, Y).score(arrays, Y) > 0.7
    assert NgramTagger(tree).fit(iter(pairs), Y).predict(iter(pairs)) == Y
    train, test = split
    tagger = NgramTagger(tree).fit(train)
    assert tagger.score(train) == 1.0
    assert tagger.predict(test) == tagger.predict(test.X)
    with pytest.raises(CorpusError, match="reads 2 columns"):
        tagger.predict([["word"]])


def hash_of(token, n):
    return sum(map(ord, token)) % n


# --- inference ------------------------------------------------------------------------------------


def test_inference_helps_a_weak_classifier(split):
    train, test = split
    tagger = NgramTagger(
        DecisionTreeClassifier(random_state=0), template="U:%x[0,1]\nU:%x[1,1]"
    ).fit(train)
    right = {
        name: np.mean(flat(labels_of(tagger, test, name)) == flat(test.y))
        for name in ("none", "vote", "csi")
    }
    right["oracle"] = np.mean(flat(tagger.predict_oracle(test)) == flat(test.y))
    assert right["none"] < right["vote"] < right["csi"] < right["oracle"]


def labels_of(tagger, data, name):
    return [d.labels for d in tagger.decode(data, name)]


def flat(rows):
    return np.array([label for row in rows for label in row])


def test_decodings_and_their_scores(tagger, split):
    test = split[1]
    best = tagger.decode(test)
    assert all(isinstance(d, Decoding) for d in best)
    assert all((d.log_probability, d.exact, d.gap) == (None, True, 0.0) for d in best)
    voted = tagger.decode(test, "vote")
    assert not any(d.exact for d in voted)
    assert all(a.score >= b.score - 1e-9 for a, b in zip(best, voted, strict=True))
    assert tagger.predict(test) == [d.labels for d in best]
    vote = clone(tagger).set_params(inference="vote").fit(split[0])
    assert vote.predict(test) == [d.labels for d in voted]


def test_candidates_can_be_seen(tagger, split):
    test = split[1]
    domains, grams = tagger.candidates(test), tagger.predict_ngrams(test)
    assert tagger.n_sequences(test) == [np.prod([len(d) for d in sentence]) for sentence in domains]
    for labels, candidates, predicted in zip(tagger.predict(test), domains, grams, strict=True):
        assert all(label in domain for label, domain in zip(labels, candidates, strict=True))
        assert [gram[1] for gram in predicted] == [domain[0] for domain in candidates]
        for t, domain in enumerate(candidates):
            near = [predicted[p][t - p + 1] for p in (t, t - 1, t + 1) if 0 <= p < len(predicted)]
            assert domain == list(dict.fromkeys(label for label in near if label is not None))
    true = tagger.predict_oracle(test)
    assert all(
        label == (gold if gold in domain else domain[0])
        for row in zip(true, test.y, domains, strict=True)
        for label, gold, domain in zip(*row, strict=True)
    )


@pytest.mark.slow
def test_blocks_change_nothing(tagger, split, monkeypatch):
    test = split[1]
    whole = tagger.predict(test), tagger.predict_nbest(test, 2), tagger.predict_oracle(test)
    monkeypatch.setattr(ngram, "BLOCK_NUMBERS", 1)
    assert len(tagger.encode(test).blocks) == len(test)
    assert (
        tagger.predict(test),
        tagger.predict_nbest(test, 2),
        tagger.predict_oracle(test),
    ) == whole


@pytest.mark.parametrize("weighting", ["count", "squared", "log", "length", lambda p, length: p**3])
def test_other_weightings(split, weighting):
    tagger = NgramTagger(BernoulliNB(alpha=0.1), weighting=weighting, lengths=[1, 3]).fit(split[0])
    assert 0.5 < tagger.score(split[1]) <= 1
    if weighting == "count":
        assert all(d.score == int(d.score) for d in tagger.decode(split[1]))


# --- constraints ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_labellings_that_keep_to_the_scheme(split):
    train, test = split
    tagger = NgramTagger(BernoulliNB(alpha=0.1), template="U:%x[0,1]").fit(train)
    assert tagger.scheme_ == "iob2"
    free = tagger.decode(test)
    broken = {problem.sentence for problem in validate([d.labels for d in free], "iob2")}
    assert broken
    kept = widened = 0
    for n, size in enumerate(tagger.n_sequences(test)):
        if size > 3000:
            continue
        sentence = test.take([n])
        rows = tagger.predict_nbest(sentence, 3000)[0]
        valid = [row for row in rows if not validate([row[0]], "iob2")]
        if not valid:  # then every label is a candidate
            widened += 1
            found = tagger.decode(sentence, constraints="scheme")[0]
            assert not validate([found.labels], "iob2")
            assert found.score < rows[0][1]
            assert tagger.predict_nbest(sentence, 2, constraints="scheme")[0][0] == (
                found.labels,
                found.score,
            )
            continue
        found = tagger.decode(sentence, constraints="scheme")[0]
        assert found.score == pytest.approx(valid[0][1])
        assert not validate([found.labels], "iob2")
        if n not in broken:
            assert found.labels == free[n].labels
        else:
            kept += 1
        listed = tagger.predict_nbest(sentence, 3, constraints="iob2")[0]
        assert [s for _, s in listed] == pytest.approx([s for _, s in valid[:3]])
    assert kept
    assert widened


def test_constraints_that_cannot_be(tagger, split):
    test = split[1]
    with pytest.raises(OptionError, match="inference 'vote' looks at single tokens; use 'csi'"):
        tagger.decode(test, "vote", constraints="scheme")
    with pytest.raises(OptionError, match="expected 'scheme' or one of iob1"):
        tagger.decode(test, constraints="schema")
    with pytest.raises(OptionError, match="the labels follow iob2, got 'bioes'"):
        tagger.decode(test, constraints="bioes")
    tags = NgramTagger(Bare()).fit([["a", "b"]], [["N", "V"]])
    with pytest.raises(OptionError, match="the labels follow no chunk scheme"):
        tags.decode([["a"]], constraints="scheme")
    with pytest.raises(OptionError, match="time_limit: expected 0 seconds or more"):
        tagger.decode(test, constraints="scheme", time_limit=-1)
    with pytest.raises(OptionError, match="constraints: expected rules, functions of the sentence"):
        tagger.predict_nbest(test, constraints=[object()])


# --- small and odd data ---------------------------------------------------------------------------


def test_one_class_needs_no_classifier():
    tagger = NgramTagger(LR, ngram=1).fit([["a", "b"], ["c"]], [["A", "A"], ["A"]])
    assert tagger.classifier_ is None
    assert tagger.predict([["z", "a"], []]) == [["A", "A"], []]
    assert tagger.decode([["a", "b"]])[0].score == 2.0
    single = NgramTagger(LR).fit([["a"], ["b"]], [["A"], ["A"]])
    assert single.classifier_ is None
    assert single.predict([["a", "b", "c"]]) == [["A", "A", "A"]]


def test_single_tokens_and_empty_sentences():
    data, labels = [["a"], [], ["b"], ["a", "b"], []], [["A"], [], ["B"], ["A", "B"], []]
    for order in (1, 3, 5):
        tagger = NgramTagger(DecisionTreeClassifier(random_state=0), ngram=order).fit(data, labels)
        assert tagger.predict(data) == labels
        assert tagger.predict_oracle(data, labels) == labels
        assert tagger.candidates([[], ["a"]])[0] == []
        assert tagger.n_sequences([[], ["a"]]) == [1.0, 1.0]
        assert tagger.predict_nbest([[], ["a"]], 3)[0] == [([], 0.0)]
        assert tagger.decode([[]]) == [Decoding([], 0.0, None, True, 0.0)]
        assert tagger.predict([]) == []
        assert tagger.candidates([]) == tagger.predict_oracle([], []) == []


def test_unknown_words_and_labels():
    tagger = NgramTagger(LR).fit(X, Y)
    assert len(tagger.predict([["zzz"] * 50])[0]) == 50
    assert tagger.predict_oracle([["the", "dog"]], [["?", "?"]]) == [
        labels_of(tagger, [["the", "dog"]], "none")[0]
    ]


def test_errors_say_what_to_do():
    for wrong in (object(), LogisticRegression, None, MaxAbsScaler()):
        with pytest.raises(
            OptionError, match="classifier: expected an object with fit and one of predict_proba"
        ):
            NgramTagger(wrong).fit(X, Y)
    for words, text in {
        "ngram": (2, "ngram: expected an odd number"),
        "inference": ("oracle", "use predict_oracle"),
        "weighting": ("best", "weighting: expected one of confidence"),
        "lengths": ([5], "lengths: expected whole numbers, 1 to 3"),
        "min_count": (0, "min_count: expected a whole number of 1 or more"),
        "n_jobs": (0, "n_jobs: expected a number of threads"),
        "template": ("B:%x[0,0]", "no token has a feature of its own"),
    }.items():
        with pytest.raises(OptionError, match=text[1]):
            NgramTagger(Bare(), **{words: text[0]}).fit(X, Y)
    tagger = NgramTagger(Bare())
    with pytest.raises(NotFittedError, match="this NgramTagger is not trained yet: call fit"):
        tagger.predict(X)
    with pytest.raises(NotFittedError):
        tagger.classes_  # noqa: B018
    with pytest.raises(CorpusError, match="no tokens"):
        tagger.fit([[]], [[]])
    with pytest.raises(CorpusError, match="sentence 0 has 1 labels"):
        tagger.fit([["a", "b"]], [["A"]])
    with pytest.raises(CorpusError, match="sentence 0 has 1 labels"):
        tagger.fit([[{"w": "a"}, {"w": "b"}]], [["A"]])
    with pytest.raises(OptionError, match="give the labels y"):
        tagger.fit(X)
    tagger.fit(X, Y)
    with pytest.raises(OptionError, match="score: give the true labels y"):
        tagger.score(X)
    with pytest.raises(CorpusError, match="y: 1 sentences, but X has 5"):
        tagger.predict_oracle(X, Y[:1])
    with pytest.raises(
        OptionError, match="inference: expected one of none, vote, csi, got 'viterbi'"
    ):
        tagger.decode(X, "viterbi")
    with pytest.raises(OptionError, match="pickle the tagger"):
        tagger.save("model")


def test_a_fit_that_fails_leaves_no_model():
    tagger = NgramTagger(Bare()).fit(X, Y)
    tagger.set_params(template="B:%x[0,0]")
    with pytest.raises(OptionError):
        tagger.fit(X, Y)
    with pytest.raises(NotFittedError):
        tagger.predict(X)


# --- scikit-learn ---------------------------------------------------------------------------------


def test_parameters_copies_and_pickles(tagger, split):
    assert tagger.get_params(deep=False)["classifier"] is NB
    assert tagger.get_params()["classifier__alpha"] == 0.01
    copy = clone(tagger).set_params(classifier__alpha=0.5, ngram=5)
    assert (copy.classifier.alpha, copy.ngram, NB.alpha) == (0.5, 5, 0.01)
    assert not hasattr(copy, "grams_")
    with pytest.raises(OptionError, match="no parameter 'order'"):
        copy.set_params(order=2)
    assert repr(NgramTagger(Bare, ngram=5)).startswith("NgramTagger(classifier=<class")
    again = pickle.loads(pickle.dumps(tagger))
    data = tagger.encode(split[1])
    assert again.predict(data) == tagger.predict(split[1])


def test_a_subclass_gives_two_methods(split):
    tagger = ByRote().fit(X, Y)
    assert tagger.predict(X) == Y
    assert tagger.n_sequences([["the"], [], ["the", "zzz"]]) == [1.0, 1.0, 2.0]
    assert clone(tagger).set_params(ngram=5).fit(X, Y).grams_.shape[1] == 5


def test_a_bar_on_a_terminal(tagger, split, monkeypatch, capsys):
    shown = clone(tagger).set_params(verbose=1).fit(split[0])
    expected = shown.predict(split[1])
    assert capsys.readouterr().err == ""  # nothing when the output is piped
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert shown.predict(split[1]) == expected
    assert "classifying" in capsys.readouterr().err


def test_a_search_for_a_memory_is_a_classifier_too():
    from labelwright import MemoryBased, MemoryTagger, ProgressiveSearch

    search = ProgressiveSearch(MemoryBased(n_jobs=1), {"k": [1, 2]}, first=10)
    tagger = NgramTagger(search).fit(X * 10, Y * 10)
    best = tagger.classifier_.best_params_
    assert tagger.predict([NEW]) == MemoryTagger(**best, n_jobs=1).fit(X * 10, Y * 10).predict(
        [NEW]
    )


def test_a_new_model_within_a_model_comes_before_its_parameters():
    from sklearn.ensemble import BaggingClassifier

    tagger = NgramTagger(BaggingClassifier(DecisionTreeClassifier()))
    tagger.set_params(
        classifier__estimator__max_depth=3,
        classifier__estimator=DecisionTreeClassifier(min_samples_leaf=2),
    )
    tree = tagger.classifier.estimator
    assert (tree.max_depth, tree.min_samples_leaf) == (3, 2)
