"""The CRF as users meet it: what it accepts, what it answers, what it refuses, and how it gets on
with scikit-learn."""

import itertools

import numpy as np
import pytest
from tiny import ARCS, LABELS, NEW, STATES, TRIPLES, X, Y

from labelwright import CRF, Perceptron, Span
from labelwright.corpus import Corpus, validate
from labelwright.errors import CorpusError, LabelwrightError, NotFittedError, OptionError
from labelwright.structures.states import StateSpace


@pytest.fixture(scope="module", params=[(STATES, 1), (ARCS, 1), (STATES, 2), (TRIPLES, 2)])
def model(request):
    template, order = request.param
    return CRF(template=template, order=order, n_jobs=1, l2=0.3).fit(X, Y)


# --- answers --------------------------------------------------------------------------------------


def test_constraints_are_worked_out_once(monkeypatch):
    made, constrained = [], StateSpace.constrained
    monkeypatch.setattr(
        StateSpace,
        "constrained",
        lambda space, scheme: made.append(scheme) or constrained(space, scheme),
    )
    model = CRF(template=STATES, n_jobs=1, max_iter=2).fit(X, Y)
    for constraints in ("scheme", "iob2", "scheme", None):
        model.predict_nbest([NEW], 2, constraints=constraints)
    assert made == ["iob2"]
    model.fit(X, Y).decode([NEW], constraints="scheme")
    assert made == ["iob2", "iob2"]


def test_marginal_decoding_may_leave_the_scheme_without_an_error():
    """Label by label the best need not form a labelling that the scheme permits: not exact, but an
    answer."""
    y = [["O", "O"]] * 4 + [["O", "B-X"]] * 5 + [["B-X", "I-X"]] * 8
    model = CRF(template="U:%x[0,0]\nB", l2=1e-3, n_jobs=1).fit([["a", "b"]] * 17, y)
    (answer,) = model.decode([["a", "b"]], decoder="marginal", constraints="scheme")
    assert answer.labels == ["O", "I-X"]
    assert answer.log_probability == -np.inf
    assert not answer.exact


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.decode(X, decoder="best"), "decoder: expected one of"),
        (lambda m: m.decode(X, constraints="bio9"), "constraints: expected"),
        (
            lambda m: m.decode(X, forced=[[None]]),
            "forced: expected one list for each of 5 sentences",
        ),
        (lambda m: m.decode(X[:1], forced=[[None]]), "forced: sentence 0 has 3 tokens, got 1"),
        (lambda m: m.decode(X[:1], forced=[["Q", None, None]]), "no label 'Q'"),
        (lambda m: m.decode(X, speed=3), "decoder viterbi"),
        (lambda m: m.predict_nbest(X, n=0), "n: expected a whole number, 1 to 100,000, got 0"),
        (
            lambda m: m.span_probabilities(X[:1], [[Span(0, 9, "NP")]]),
            "0:9 is not a span of 3 tokens",
        ),
        (lambda m: m.span_probabilities(X[:1], [[Span(0, 1, "VP")]]), "no type 'VP'"),
        (
            lambda m: m.span_probabilities(X, [[Span(0, 1, "NP")]]),
            "spans: expected one list for each of 5",
        ),
        (lambda m: m.sequence_log_probabilities(X, Y[:2]), "2 sentences, but X has 5"),
        (lambda m: m.sequence_log_probabilities(X[:1], [["O"]]), "sentence 0 has 1 labels"),
        (lambda m: m.score(X), "give the true labels"),
        (lambda m: m.predict([[("a", "b")]]), "the model reads 1 columns"),
        (lambda m: m.predict([[{"a": 1}]]), "X"),
        (lambda m: m.predict([[3]]), "X"),
        (lambda m: m.predict("text"), "X"),
        (lambda m: m.predict(7), "X"),
    ],
)
def test_bad_questions_get_one_clear_line(model, ask, message):
    with pytest.raises(LabelwrightError, match=message) as caught:
        ask(model)
    assert "\n" not in str(caught.value)


# --- what goes in ---------------------------------------------------------------------------------


def test_a_sentence_of_ten_thousand_tokens(model):
    long = [X[i % 5][0] for i in range(10_000)]
    (best,) = model.decode([long])
    assert len(best.labels) == 10_000
    assert best.log_probability <= 0
    marginals = model.predict_marginals([long])[0]
    assert all(sum(row.values()) == pytest.approx(1) for row in marginals[::997])
    assert len(model.predict_nbest([long], n=3)[0]) == 3
    assert all(0 < s.probability <= 1 for s in model.predict_spans([long])[0][:50])


def test_training_on_one_long_and_on_one_short_sentence():
    long = [[X[i % 5][0] for i in range(10_000)]]
    labels = [[Y[i % 5][0] if i % 7 else "O" for i in range(10_000)]]
    model = CRF(template="U:%x[0,0]\nB", n_jobs=2, max_iter=20).fit(long, labels)
    assert model.score(long, labels) > 0.5
    tiny = CRF(n_jobs=1).fit([["a"]], [["Z"]])
    assert tiny.predict([["b", "c"]]) == [["Z", "Z"]]
    assert tiny.predict_marginals([["b"]]) == [[{"Z": 1.0}]]


def test_dicts():
    as_dicts = [[{"w": w, "t": t / 10, "first": t == 0} for t, w in enumerate(s)] for s in X]
    model = CRF(n_jobs=1, l2=0.1).fit(as_dicts, Y)
    assert model.predict(as_dicts) == Y
    assert model.predict([[{}, {"w": "unknown"}], []])[1] == []
    same = CRF(template="U:%x[0,0]\nB", n_jobs=1, tol=1e-9).fit(X, Y)
    words = [[{"U:": w} for w in s] for s in X]
    other = CRF(n_jobs=1, tol=1e-9).fit(words, Y)
    assert other.training_["loss"] == pytest.approx(same.training_["loss"], rel=1e-5)
    with pytest.raises(CorpusError, match="sentence 0, token 0: feature 'w' is nan"):
        model.predict([[{"w": float("nan")}]])
    with pytest.raises(CorpusError):
        model.predict(X)


def test_tokens_without_any_feature():
    model = CRF(n_jobs=1).fit([[{}, {}]] * 4, [["A", "B"]] * 4)
    assert len(model.predict([[{}, {}]])[0]) == 2
    assert model.sequence_log_probabilities([[{}, {}]], [["A", "B"]])[0] > np.log(0.25)


def test_arrays():
    random = np.random.default_rng(0)
    data = [random.normal(size=(n, 3)) for n in (4, 1, 6, 5) * 10]
    labels = [["hi" if row[0] > 0 else "lo" for row in x] for x in data]
    model = CRF(n_jobs=1, l2=0.01).fit(data, labels)
    assert model.score(data, labels) > 0.98
    assert model.predict([np.empty((0, 3)), data[0]])[0] == []
    bad = data[0].copy()
    bad[1, 2] = np.nan
    with pytest.raises(CorpusError, match="sentence 0, token 1: feature 2 is nan"):
        model.predict([bad])
    with pytest.raises(CorpusError, match="sentence 1"):
        model.predict([data[0], np.zeros((2, 4))])


@pytest.mark.parametrize("size", [1e3, 1e5, 1e7])
def test_huge_numbers_as_features(size):
    random = np.random.default_rng(0)
    data = [random.normal(size=(5, 2)) * size for _ in range(20)]
    labels = [["hi" if row[0] > 0 else "lo" for row in x] for x in data]
    model = CRF(n_jobs=1).fit(data, labels)
    assert np.isfinite(model.weights_).all()
    assert model.score(data, labels) > 0.9


def test_columns_and_corpora_agree(chunks):
    small = chunks.take(slice(0, 40))
    from_corpus = CRF(template="chunking", n_jobs=1, max_iter=10).fit(small)
    columns = [small.column(name) for name in small.input_names]
    tuples = [list(zip(*rows, strict=True)) for rows in zip(*columns, strict=True)]
    from_lists = CRF(template="chunking", n_jobs=1, max_iter=10).fit(tuples, small.y)
    assert from_lists.predict(tuples) == from_corpus.predict(small)
    assert from_lists.training_["loss"] == pytest.approx(from_corpus.training_["loss"], rel=1e-6)
    assert from_corpus.score(small) == from_corpus.score(small, small.y)


def test_data_encoded_before_a_new_fit_are_refused():
    model = CRF(template="U:%x[0,0]", n_jobs=1)
    for _ in range(5):
        old = model.fit(X, Y).encode(X)
        model.fit([s[::-1] for s in X], [s[::-1] for s in Y])
        with pytest.raises(OptionError, match="another model"):
            model.predict(old)


@pytest.mark.parametrize(
    ("words", "labels", "message"),
    [
        (X, Y[:2], "X|y"),
        (X, [[*Y[0], "O"], *Y[1:]], "sentence 0"),
        (X, [Y[0][:2], [*Y[1], "O"], *Y[2:]], "sentence 0"),
        ([], [], "no sentences"),
        ([[], []], [[], []], "X"),
        (X, None, "give the labels"),
        (X, [[1, 2, 3], *Y[1:]], "sentence 1, token 0"),
        ([["a", 3]], [["A", "B"]], "sentence 0, token 1"),
        ([[{"a": 1}], [{"b": 2}]], [["A"]], "1"),
        ([[{"a": 1}], [{"b": 2}]], [["A", "B"], []], "sentence 0"),
    ],
)
def test_bad_training_data_are_refused_in_one_line(words, labels, message):
    with pytest.raises(LabelwrightError, match=message) as caught:
        CRF(n_jobs=1).fit(words, labels)
    assert "\n" not in str(caught.value)


# --- learning -------------------------------------------------------------------------------------


def test_same_text_shares_weights():
    """U:%x[-1,0] and U:%x[1,0] are one feature, as in CRF++: what one teaches, the other knows."""
    x, y = [["k", "m"], ["n", "m"]] * 5, [["O", "A"], ["O", "B"]] * 5
    shared = CRF(template="U:%x[-1,0]\nU:%x[1,0]\nB", n_jobs=1, l2=0.1).fit(x, y)
    apart = CRF(template="U1:%x[-1,0]\nU2:%x[1,0]\nB", n_jobs=1, l2=0.1).fit(x, y)
    forward = shared.predict_marginals([["m", "k"]])[0][0]
    assert forward["A"] > 2 * forward["B"]
    forward = apart.predict_marginals([["m", "k"]])[0][0]
    assert forward["A"] == pytest.approx(forward["B"], rel=0.05)


def test_min_count_leaves_rare_words_out():
    few = CRF(template="U:%x[0,0]\nB", min_count=2, n_jobs=1).fit(X, Y)
    names = {few._extractor.name(f) for f in range(few._extractor.n_features)}
    assert names == {"U:the", "U:bird"}


def test_constraints_hold_in_training_and_after():
    model = CRF(template=ARCS, constraints="scheme", n_jobs=1).fit(X, Y)
    assert model.sequence_log_probabilities([["the", "dog"]], [["O", "I-NP"]]) == [-np.inf]
    labellings = [list(y) for y in itertools.product(LABELS, repeat=3)]
    p = np.exp(model.sequence_log_probabilities([NEW[:3]] * 27, labellings))
    assert p.sum() == pytest.approx(1)
    assert (p[[bool(validate([y], "iob2")) for y in labellings]] == 0).all()
    assert len(model.predict_nbest([NEW[:3]], n=100)[0]) == (p > 0).sum()
    with pytest.raises(CorpusError, match="sentence 0, token 1: I-NP cannot follow O"):
        CRF(constraints="iob2", n_jobs=1).fit([["a", "b"]], [["O", "I-NP"]])
    with pytest.raises(OptionError, match="no chunk scheme"):
        CRF(constraints="scheme", n_jobs=1).fit([["a", "b"]], [["NN", "VB"]])
    with pytest.raises(OptionError, match="scheme iob2: label 1 is not one it writes"):
        CRF(constraints="iob2", n_jobs=1).fit([["a", "b"]], [[1, 2]])


def test_warm_start():
    model = CRF(template=ARCS, n_jobs=1, warm_start=True, tol=1e-7).fit(X, Y)
    first = model.training_
    model.fit(X, Y)
    assert model.history_[0]["loss"] == pytest.approx(first["loss"], rel=1e-6)
    more, labels = [*X, ["new", "words", "sing"]], [*Y, ["B-VP", "I-NP", "O"]]
    old = {label: model.predict_marginals([["the", "dog"]])[0][0][label] for label in LABELS}
    # other labels, other order, other features
    model.set_params(max_iter=1).fit(more[::-1], labels[::-1])
    cold = CRF(template=ARCS, n_jobs=1, max_iter=1).fit(more[::-1], labels[::-1])
    assert model.history_[0]["loss"] < cold.history_[0]["loss"] / 1.5
    assert model.predict_marginals([["the", "dog"]])[0][0]["B-NP"] == pytest.approx(
        old["B-NP"], abs=0.25
    )
    best = CRF(template=ARCS, n_jobs=1, tol=1e-7).fit(more, labels)
    model.set_params(max_iter=None).fit(more, labels)
    assert model.training_["loss"] == pytest.approx(best.training_["loss"], rel=1e-4)


def test_development_data_choose_the_weights(chunks):
    train, dev = chunks.take(slice(0, 30)), chunks.take(slice(30, 90))
    model = CRF(n_jobs=1, l2=0.0, tol=0, max_iter=60).fit(train, dev=dev)
    scores = [record["dev"] for record in model.history_ if "dev" in record]
    from labelwright.evaluate import evaluate

    assert evaluate(dev.y, model.predict(dev)).score == pytest.approx(max(scores))
    assert model.history_[-1]["iteration"] <= 60


def test_a_failed_fit_leaves_no_half_trained_model():
    model = CRF(n_jobs=1).fit(X, Y)

    def crash(record, limit):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        model.fit([["a", "b", "c", "d"]] * 3, [["1", "2", "3", "4"]] * 3, progress=crash)
    try:
        labels = model.predict(X)
    except NotFittedError:
        return
    assert labels == CRF(n_jobs=1).fit(X, Y).predict(X)


# --- the estimator contract -----------------------------------------------------------------------


def test_corpora_without_labels_are_refused():
    with pytest.raises(CorpusError, match="no label column"):
        CRF().fit(Corpus.from_sequences(X))


def test_labellings_with_the_same_output_are_one() -> None:
    phones = {"box": ["b", "o", "k_s"], "phone": ["f", "-", "o", "n", "-"], "sky": ["s", "k", "-"]}
    model = CRF(template=STATES, max_iter=3, n_jobs=1).fit([*map(list, phones)], [*phones.values()])
    word = list("pho")
    (every,) = model.predict_nbest([word], n=1000)
    assert len(every) == len(model.classes_) ** 3
    sums: dict[tuple[str, ...], float] = {}
    for labels, p in every:  # the oracle: all labellings
        output = tuple(part for label in labels if label != "-" for part in label.split("_"))
        sums[output] = sums.get(output, 0.0) + p
    (distinct,) = model.predict_nbest([word], n=1000, distinct="-")
    assert [p for _, p in distinct] == pytest.approx(sorted(sums.values(), reverse=True))
    assert sum(p for _, p in distinct) == pytest.approx(1)
    # of the 100 best: no more than all of it
    (few,) = model.predict_nbest([word], n=3, distinct="-")
    assert len(few) == 3
    for labels, p in few:
        output = tuple(part for label in labels if label != "-" for part in label.split("_"))
        best = max(
            (q, row)
            for row, q in every
            if [x for x in row if x != "-"] == [x for x in labels if x != "-"]
        )
        assert best[0] <= p <= sums[output] + 1e-12
    with pytest.raises(OptionError, match="distinct: the tagger has no label '_'"):
        model.predict_nbest([word], distinct="_")


def test_scores_of_the_same_output_are_not_added() -> None:
    model = Perceptron(template=STATES, max_iter=2, n_jobs=1).fit(
        [list("ab"), list("ba")], [["x", "-"], ["-", "x"]]
    )
    (every,), (distinct,) = (
        model.predict_nbest([list("ab")], n=9, distinct=null) for null in (None, "-")
    )
    assert len(every) == 4
    assert distinct == [
        row
        for n, row in enumerate(every)
        if row[0].count("x") not in [r.count("x") for r, _ in every[:n]]
    ]
