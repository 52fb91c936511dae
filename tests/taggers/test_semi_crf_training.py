"""How a SemiCRF is trained, against enumeration and finite differences, and on other inputs than
words."""

import itertools

import numpy as np
import oracles
import pytest
from problems import differences
from segmentations import DICTIONARIES, SCHEMES, SPANS, TEMPLATE, Enumerated, X, labelled

from labelwright import SemiCRF, Span
from labelwright.corpus import Corpus, builtin_corpus
from labelwright.errors import CorpusError
from labelwright.parallel import Workers


def objective(model, y, dtype=np.float64, n_jobs=1, X=X, sample_weight=None):
    model._check_parameters()
    data, model._trained = model._prepare(X, y, sample_weight=sample_weight)
    return model._structure.objective(model._trained, data, Workers(n_jobs), dtype), data


@pytest.mark.cases(4)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("cells", ["observed", "all"])
def test_the_loss_is_that_of_all_segmentations_and_its_gradient_that_of_differences(scheme, cells):
    model, y = SemiCRF(TEMPLATE, dictionaries=DICTIONARIES, cells=cells, n_jobs=1), labelled(scheme)
    problem, _ = objective(model, y)
    n = model._parameters.n_weights
    weights, gradient = np.random.default_rng(2).normal(size=n), np.empty(n)
    loss = problem(weights, gradient)
    np.testing.assert_allclose(
        gradient, differences(lambda w: problem(w, np.empty(n)), weights, range(n)), atol=1e-6
    )
    model.weights_ = weights
    truth = [Enumerated(model, sentence) for sentence in X]
    expected = sum(
        t.log_z - t.scores[t.labels.index(tuple(own))] for t, own in zip(truth, y, strict=True)
    )
    assert loss == pytest.approx(expected, abs=1e-9)


@pytest.mark.cases(6)
@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s is not None])
@pytest.mark.parametrize("given", ["sets", "sentences", "tokens", "classes", "all"])
def test_sets_of_labels_and_weights(scheme, given):
    """Against enumeration of all segmentations, and finite differences."""
    random, y = np.random.default_rng(1), labelled(scheme)
    names = sorted({label for s in y for label in s})
    sets = [[{label} for label in s] for s in y]
    if given in ("sets", "all"):
        sets = [
            [labels | ({"O"} if random.random() < 0.3 else set()) for labels in s] for s in sets
        ]
        sets = [[None if random.random() < 0.3 else labels for labels in s] for s in sets]
    of_sentences = random.uniform(0, 3, len(X)) if given == "sentences" else None
    of_tokens = [random.uniform(0.2, 3, len(s)) for s in y] if given in ("tokens", "all") else None
    by_label = {"O": 0.5} if given in ("classes", "all") else None
    model = SemiCRF(
        TEMPLATE, dictionaries=DICTIONARIES, n_jobs=1, class_weight=by_label, max_length=3
    )
    problem, _ = objective(
        model, sets, sample_weight=of_tokens if of_sentences is None else of_sentences
    )
    n = model._parameters.n_weights
    weights, gradient = random.normal(size=n), np.empty(n)
    loss = problem(weights, gradient)
    np.testing.assert_allclose(
        gradient, differences(lambda w: problem(w, np.empty(n)), weights, range(n)), atol=1e-6
    )
    model.weights_, expected = weights, 0.0
    for k, (sentence, right) in enumerate(zip(X, sets, strict=True)):
        truth, free, agreeing = Enumerated(model, sentence), [], []
        for labels, score in zip(truth.labels, truth.scores, strict=True):
            wrong = [
                r is not None and label not in r for label, r in zip(labels, right, strict=True)
            ]
            w = [1.0] * len(sentence) if of_tokens is None else of_tokens[k]
            c = [np.mean([(by_label or {}).get(x, 1.0) for x in r or names]) for r in right]
            free.append(score + sum(np.log(w[t] * c[t]) for t in np.flatnonzero(wrong)))
            agreeing += [] if any(wrong) else [score]
        weight = 1.0 if of_sentences is None else of_sentences[k]
        expected += weight * (oracles.log_sum(free) - oracles.log_sum(agreeing))
    assert loss == pytest.approx(expected, abs=1e-9)


def test_labels_that_break_the_scheme_and_segments_that_are_cut_can_have_weights():
    X = [["a", "b", "c", "d"], ["d", "c"], ["a"]]
    y = [["B-X", "I-X", "I-X", "I-X"], ["I-Y", "I-X"], ["O"]]
    model = SemiCRF("U:%x[0,0]", max_length=2, n_jobs=1)
    with pytest.warns(RuntimeWarning, match="cut into several"):
        plain = model._untrained().fit(X, y)
    with pytest.warns(RuntimeWarning, match="cut into several"):
        weighted = model._untrained().fit(X, y, sample_weight=[1, 1, 1])
    assert weighted.history_[-1]["loss"] == pytest.approx(plain.history_[-1]["loss"], rel=1e-4)
    assert weighted.predict(X) == plain.predict(X)


def test_a_share_of_the_loss_has_that_share_of_the_gradient():
    problem, _ = objective(SemiCRF(TEMPLATE, n_jobs=1), labelled("iob2"))
    n = problem.parameters.n_weights
    weights, gradients = np.random.default_rng(3).normal(size=n), np.empty((2, n))
    whole = problem(weights, gradients[0])
    _, back = problem.forward(weights, np.ones(1))
    part, gradients[1], _ = back(None, 0.25)
    assert part == pytest.approx(0.25 * whole)
    np.testing.assert_allclose(gradients[1], 0.25 * gradients[0], atol=1e-12)


def test_weights_exist_for_what_was_seen_and_for_every_length():
    model = SemiCRF("U:%x[0,0]", dictionaries=DICTIONARIES, n_jobs=1)
    objective(model, labelled("iob2"))
    space, cells = model.segments_, model._parameters.cells["segment"]
    found = set()
    for f in range(len(cells.ptr) - 1):
        found |= {
            (model._extractor.name(f), space.types[x])
            for x in cells.column[cells.ptr[f] : cells.ptr[f + 1]]
        }
    always = [*(f"length={n}" for n in range(1, 4)), "dictionary=short", "dictionary=long"]
    chunks = {
        (tuple(x[s.start : s.end]), s.type) for x, own in zip(X, SPANS, strict=True) for s in own
    }
    single = {
        ((w,), "O")
        for x, y in zip(X, labelled("iob2"), strict=True)
        for w, t in zip(x, y, strict=True)
        if t == "O"
    }
    known = {text for text, _ in chunks}
    texts = {(f"text={' '.join(text)}", kind) for text, kind in chunks | single if text in known}
    assert found == set(itertools.product(always, ["X", "Y", "O"])) | texts


def test_rare_texts_are_left_out():
    model = SemiCRF("U:%x[0,0]", min_count=2, n_jobs=1)
    objective(model, labelled("iob2"))
    names = [model._extractor.name(f) for f in range(model._extractor.n_features)]
    assert [name for name in names if name.startswith("text=")] == ["text=a b", "text=c"]


def test_pieces_of_work_change_nothing(chunks, monkeypatch):
    whole, _ = objective(SemiCRF(), None, X=chunks)
    monkeypatch.setattr("labelwright.learn.objective.SHARD_BYTES", 40_000)
    monkeypatch.setattr("labelwright.learn.objective.ARC_BYTES", 20_000)
    small, _ = objective(SemiCRF(), None, X=chunks)
    assert len(small.shards) > 5
    assert max(len(shard.batches) for shard in small.shards) > 1
    n = whole.parameters.n_weights
    weights = np.random.default_rng(0).normal(size=n) * 0.1
    gradients = np.empty((2, n))
    losses = [
        problem(weights, gradient)
        for problem, gradient in zip((whole, small), gradients, strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    np.testing.assert_allclose(*gradients, atol=1e-9)


def test_more_segmentations_than_a_float_can_count():
    T = 800
    sentence = ["a", "b"] * (T // 2)
    y = ["B-X", "I-X"] * (T // 2)
    model = SemiCRF("U:%x[0,0]", n_jobs=1)
    problem, _ = objective(model, [y], X=[sentence])
    n = model._parameters.n_weights
    # Segments of one (X or O) or two tokens (X): w(T) = 2 w(T - 1) + w(T - 2).
    ways = [0.0, np.log(2.0)]
    for _ in range(T - 1):
        ways.append(oracles.log_sum([np.log(2.0) + ways[-1], ways[-2]]))
    assert problem(np.zeros(n), np.empty(n)) == pytest.approx(ways[T], rel=1e-12)
    assert ways[T] > np.log(1e280)
    found = SemiCRF("U:%x[0,0]", n_jobs=1).fit([sentence], [y])
    assert found.predict([sentence]) == [y]
    for row in found.predict_marginals([sentence])[0]:
        assert sum(row.values()) == pytest.approx(1.0)


# --- other inputs ---------------------------------------------------------------------------------


def test_dicts_and_arrays_have_lengths_but_no_texts():
    dicts = [[{"w": w, "x": 0.5} for w in sentence] for sentence in X]
    arrays = [np.array([[w == "a", w == "b", 1.0] for w in sentence], float) for sentence in X]
    for data in (dicts, arrays):
        model = SemiCRF(n_jobs=1, l2=0.1).fit(data, labelled("bioes"))
        names = [model._extractor.name(f) for f in range(model._extractor.n_features)]
        assert names[-3:] == ["length=1", "length=2", "length=3"]
        assert not any(name.startswith("text=") for name in names)
        assert model.score(data, labelled("bioes")) > 0.6


def test_a_corpus_is_read_by_its_first_column():
    corpus = Corpus.from_sequences([[(w, "t") for w in x] for x in X], labelled("iob2"))
    model = SemiCRF("U:%x[0,0]\nU:%x[0,1]", dictionaries={"d": ["a b"]}, n_jobs=1).fit(corpus)
    names = {model._extractor.name(f) for f in range(model._extractor.n_features)}
    assert {"dictionary=d", "text=a b"} <= names
    assert model.predict(corpus) == model.predict([[(w, "t") for w in x] for x in X])


def test_a_dictionary_tells_what_training_did_not():
    """Cities of two words are seen in training only by their list: another of that list is found at
    once."""
    cities = ["New York", "Los Angeles", "Santa Fe", "Las Vegas"]
    X = [["to", *city.split(), "now"] for city in cities[:3]] * 3 + [["to", "be", "or", "now"]] * 3
    y = [["O", "B-C", "I-C", "O"]] * 9 + [["O"] * 4] * 3
    new = ["to", "Las", "Vegas", "now"]
    template, words = "U:%x[0,0]", {"n_jobs": 1, "l2": 0.1}
    with_list = SemiCRF(template, dictionaries={"cities": cities}, **words).fit(X, y)
    without = SemiCRF(template, **words).fit(X, y)
    p = [
        model.span_probabilities([new], [[Span(1, 3, "C")]])[0][0].probability
        for model in (with_list, without)
    ]
    assert p[0] > 0.7
    assert p[0] > p[1] + 0.2


def test_a_set_of_all_labels_of_the_data_is_no_unknown_label():
    """Segments can be written by more labels than the data have: S- of a word, B- and E- of two."""
    model = SemiCRF(n_jobs=1, max_length=2)
    X, y = [["a", "b"], ["b", "a"]], [["S-X", "O"], [{"S-X", "O"}, None]]
    data, trained = model._prepare(X, y)
    labels = trained.segments.labels
    assert {"B-X", "E-X"} < set(labels)
    assert [{labels[y] for y in np.flatnonzero(row)} for row in data.said.sets] == [
        {"S-X", "O"},
        set(labels),
    ]


@pytest.mark.parametrize(
    ("y", "longest"),
    [
        ([["B-X", "I-X", "O"]], 2),
        ([["B-X", "O"], [None, "I-X", "I-X"]], 3),  # it begins in the unknown token
        ([["S-X", "O"], [None, "I-X", None]], 3),
        ([["B-X", "O"], ["B-X", None, None, "O"]], 3),
        ([["B-X", "I-X", "O"], [None], [None]], 2),  # not across sentences
        ([["B-X", "I-X", "O"], [None] * 12], 8),
        ([["B-X", *["I-X"] * 9, "O"], [None] * 12], 10),
    ],
)
def test_segments_may_go_on_where_labels_are_unknown(y, longest):
    X = [["a"] * len(labels) for labels in y]
    assert SemiCRF(n_jobs=1, max_iter=2).fit(X, y).segments_.max_length == longest


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3, 0.5])
def test_any_share_of_the_labels_can_be_learnt_from(share):
    corpus = builtin_corpus(100, random_state=0, columns=["word", "pos", "chunk"])
    for seed in range(3):
        random = np.random.default_rng(seed)
        y = [
            [label if random.random() < share else None for label in labels] for labels in corpus.y
        ]
        model = SemiCRF(n_jobs=1, template="U:%x[0,0]")
        data, trained = model._prepare(corpus.X, y)
        assert model._structure.objective(trained, data, Workers(1)) is not None


def test_segments_that_are_too_long_for_their_labels():
    with pytest.raises(
        CorpusError, match=r"sentence 1: no segments of up to 2 tokens .* use a larger max_length"
    ):
        SemiCRF(n_jobs=1, max_length=2).fit(
            [["a", "b"], ["a", "b", "c"]], [["B-X", "O"], [None, "I-X", "I-X"]]
        )
