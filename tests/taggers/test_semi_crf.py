"""The SemiCRF against enumeration of all segmentations, for every label scheme and for labels that follow none."""

import itertools
import pickle
from collections import Counter

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_python import answers_both_ways
from problems import as_tokens, differences

import labelwright
from labelwright import SemiCRF, Span
from labelwright.corpus import Corpus, labels_of, spans_of
from labelwright.corpus.schemes import convert, pairs_of_codes
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.kernels import segments as kernels
from labelwright.learn.objective import Passing
from labelwright.parallel import Workers
from labelwright.structures.passing import Layered, certain
from labelwright.structures.segments import Segments, arcs_of, read_segments, row_offsets, rows_of, segment_space

TEMPLATE = "U1:%x[0,0]\nU2:%x[-1,0]/%x[0,0]\nB"
X = [["a", "b", "c", "a"], ["b", "c"], ["c", "a", "b"], ["a"], ["a", "b", "b", "b", "c"]]
SPANS = [
    [Span(0, 2, "X"), Span(2, 3, "X")],
    [Span(1, 2, "Y")],
    [Span(0, 1, "X"), Span(1, 3, "Y")],
    [Span(0, 1, "X")],
    [Span(1, 4, "Y")],
]
DICTIONARIES = {"short": ["b", "c"], "long": ["b b", ["c", "a"], "a b c a"]}
SCHEMES = ["iob1", "iob2", "ioe1", "ioe2", "bioes", "io", None]
NEW = ["b", "b", "zzz", "a"]


def labelled(scheme):
    if scheme is None:
        return [["N", "N", "V", "N"], ["N", "V"], ["V", "N", "P"], ["N"], ["P", "N", "N", "N", "V"]]
    spans = SPANS if scheme != "io" else [[Span(0, 2, "X")], *SPANS[1:]]
    return [labels_of(own, len(x), scheme) for own, x in zip(spans, X, strict=True)]


@pytest.fixture(scope="module", params=SCHEMES)
def model(request):
    """A model with weights that are far from any optimum."""
    words = {"template": TEMPLATE, "dictionaries": DICTIONARIES, "cells": "all", "max_iter": 1, "n_jobs": 1}
    found = SemiCRF(**words).fit(X, labelled(request.param))
    assert found.scheme_ == request.param
    found.weights_ = np.random.default_rng(1).normal(size=len(found.weights_)).astype(np.float32)
    return found


class Enumerated:
    """All segmentations of one sentence, by the names of features: labellings with their scores and probabilities."""

    def __init__(self, model, sentence, permitted=None):
        space, self.scheme, self.T = model.segments_, model.scheme_, len(sentence)
        columns = {"state": space.roles, "segment": space.types}
        names, parts = [*space.types, None], model.parameters_.slices
        weights = {}
        for layer, cells in model.parameters_.cells.items():
            feature = np.repeat(np.arange(len(cells.ptr) - 1), np.diff(cells.ptr))
            for f, column, w in zip(feature, cells.column, model.weights_[parts[layer]], strict=True):
                weights[layer, model.extractor_.name(f), columns[layer][column]] = float(w)
        moves = model.weights_[parts["transitions"]].reshape(len(names), len(names))
        weights |= {(a, b): float(moves[i, j]) for i, a in enumerate(names) for j, b in enumerate(names)}
        tokens = as_tokens([sentence], TEMPLATE)[0]
        lists = {name: {" ".join(p) if isinstance(p, list) else p for p in own} for name, own in DICTIONARIES.items()}
        found = {}
        for own in self.segmentations(0, None, space):
            total, before = 0.0, None
            for start, end, kind in own:
                places = "S" if end - start == 1 else "B" + "I" * (end - start - 2) + "E"
                for t, place in zip(range(start, end), places, strict=True):
                    role = "O" if self.scheme and kind == "O" else f"{place}-{kind}"
                    total += sum(weights.get(("state", name, role), 0.0) * n for name, n in tokens[t]["state"].items())
                text = " ".join(sentence[start:end])
                features = [f"length={end - start}", f"text={text}"]
                features += [f"dictionary={name}" for name, phrases in lists.items() if text in phrases]
                total += sum(weights.get(("segment", name, kind), 0.0) for name in features)
                total += weights[before, kind]
                before = kind
            labels = self.written(own)
            if permitted is None or all(p is None or y in p for y, p in zip(labels, permitted, strict=True)):
                assert labels not in found  # one labelling is one segmentation
                found[labels] = (total, own)
        self.labels = sorted(found, key=lambda y: -found[y][0])
        self.scores = np.array([found[y][0] for y in self.labels])
        self.segments = [found[y][1] for y in self.labels]
        self.log_z = oracles.log_sum(self.scores)
        self.p = np.exp(self.scores - self.log_z)

    def segmentations(self, start, before, space):
        if start == self.T:
            yield []
        for end in range(start + 1, min(self.T, start + space.max_length) + 1):
            for kind in space.types:
                outside = self.scheme is not None and kind == "O"
                if (outside and end > start + 1) or (kind == before and not outside and self.scheme in (None, "io")):
                    continue
                for rest in self.segmentations(end, kind, space):
                    yield [(start, end, kind), *rest]

    def written(self, own):
        if self.scheme is None:
            return tuple(kind for start, end, kind in own for _ in range(start, end))
        return tuple(labels_of([Span(*s) for s in own if s[2] != "O"], self.T, self.scheme))

    def spans(self):
        found = Counter()
        for own, p in zip(self.segments, self.p, strict=True):
            for segment in own:
                found[segment] += p
        return found


# --- answers ----------------------------------------------------------------------------------------------------------


def check_answers(model, sentence, truth, **restriction):
    (best,) = model.decode([sentence], **restriction)
    assert tuple(best.labels) == truth.labels[0]
    assert best.score == pytest.approx(truth.scores[0], abs=1e-5)
    assert best.log_probability == pytest.approx(np.log(truth.p[0]), abs=1e-5)
    assert (best.exact, best.gap) == (True, 0.0)

    (ranked,) = model.predict_nbest([sentence], n=7, **restriction)
    assert [tuple(labels) for labels, _ in ranked] == truth.labels[:7]
    np.testing.assert_allclose([p for _, p in ranked], truth.p[:7], atol=1e-5)

    found = model.sequence_log_probabilities([sentence] * len(truth.labels), truth.labels)
    if not restriction:
        np.testing.assert_allclose(np.exp(found), truth.p, atol=1e-5)
        assert np.sum(np.exp(found)) == pytest.approx(1.0)

    (marginals,) = model.predict_marginals([sentence], **restriction)
    for t, row in enumerate(marginals):
        assert list(row) == model.classes_
        for label, p in row.items():
            expected = sum(q for y, q in zip(truth.labels, truth.p, strict=True) if y[t] == label)
            assert p == pytest.approx(expected, abs=1e-5)

    spans = truth.spans()
    outside = "O" if model.scheme_ else None
    (predicted,) = model.predict_spans([sentence], **restriction)
    assert [span[:3] for span in predicted] == [s for s in truth.segments[0] if s[2] != outside]
    asked = [Span(*s) for s in itertools.product(range(4), range(1, 5), model.segments_.types) if s[0] < s[1]]
    asked = [span for span in asked if span.end <= len(sentence) and span.type != outside]
    (probable,) = model.span_probabilities([sentence], [asked], **restriction)
    for span in [*predicted, *probable]:
        assert span.probability == pytest.approx(spans[span[:3]], abs=1e-5)


@pytest.mark.parametrize("sentence", [NEW, X[0], X[1], ["a"], ["zzz"], X[4]])
def test_every_answer_agrees_with_enumeration(model, sentence):
    check_answers(model, sentence, Enumerated(model, sentence))


def test_every_answer_agrees_with_enumeration_under_forced_labels(model):
    random = np.random.default_rng(0)
    everything = Enumerated(model, NEW).labels
    for _ in range(12):
        free = [
            [y for y in model.classes_ if random.random() < 0.6] if random.random() < 0.7 else None for _ in NEW
        ]  # what is permitted at each token
        forced = [p[0] if p is not None and len(p) == 1 else p for p in free]
        possible = [y for y in everything if all(p is None or label in p for label, p in zip(y, free, strict=True))]
        if not possible:
            with pytest.raises(OptionError, match=r"^sentence 0: no labelling satisfies the forced labels"):
                model.predict_marginals([NEW], forced=[forced])
            with pytest.raises(OptionError, match=r"^sentence 0: no labelling satisfies the forced labels"):
                model.decode([NEW], forced=[forced])
            continue
        check_answers(model, NEW, Enumerated(model, NEW, free), forced=[forced])


def test_samples_are_as_frequent_as_they_are_probable(model):
    n, truth = 4000, Enumerated(model, NEW[:3])
    (found,) = model.sample([NEW[:3]], n, random_state=1)
    assert sum(share for _, share in found) == pytest.approx(1.0)
    shares = {tuple(labels): share for labels, share in found}
    assert len(shares) == len(found)
    assert set(shares) <= set(truth.labels)
    for labels, p in zip(truth.labels, truth.p, strict=True):
        assert abs(shares.get(labels, 0.0) - p) < 4.5 * np.sqrt(p * (1 - p) / n) + 1 / n
    assert model.sample([NEW[:3]], n, random_state=1) == [found]


def test_what_is_never_written_has_no_probability(model):
    written = set(Enumerated(model, NEW[:3]).labels)
    others = [y for y in itertools.product(model.classes_, repeat=3) if y not in written]
    if model.scheme_ != "io" and model.scheme_ is not None:
        assert others
    for y in [*others, ("?", "?", "?")]:
        assert model.sequence_log_probabilities([NEW[:3]], [y]) == [-np.inf]


def test_sentences_without_tokens(model):
    data = [[], NEW, []]
    assert model.predict(data)[0] == []
    assert model.predict([]) == []
    assert model.predict_nbest(data)[2] == [([], 1.0)]
    assert model.predict_marginals([[]]) == [[]]
    assert model.predict_spans(data)[0] == []
    assert model.sequence_log_probabilities(data, [[], model.predict([NEW])[0], []])[::2] == [0.0, 0.0]


def test_encoded_data_serve_every_question(model):
    data = model.encode(X)
    assert model.predict(data) == model.predict(X)
    assert model.predict_spans(data) == model.predict_spans(X)
    assert model.score(data, labelled(model.scheme_)) == model.score(X, labelled(model.scheme_))


# --- training ---------------------------------------------------------------------------------------------------------


def objective(model, y, dtype=np.float64, n_jobs=1, X=X):
    model._check_parameters()
    data = model._prepare(X, y)
    return model._objective(data, Workers(n_jobs), dtype), data


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("cells", ["observed", "all"])
def test_the_loss_is_that_of_all_segmentations_and_its_gradient_that_of_differences(scheme, cells):
    model, y = SemiCRF(TEMPLATE, dictionaries=DICTIONARIES, cells=cells, n_jobs=1), labelled(scheme)
    problem, _ = objective(model, y)
    n = model.parameters_.n_weights
    weights, gradient = np.random.default_rng(2).normal(size=n), np.empty(n)
    loss = problem(weights, gradient)
    np.testing.assert_allclose(gradient, differences(lambda w: problem(w, np.empty(n)), weights, range(n)), atol=1e-6)
    model.weights_ = weights
    truth = [Enumerated(model, sentence) for sentence in X]
    expected = sum(t.log_z - t.scores[t.labels.index(tuple(own))] for t, own in zip(truth, y, strict=True))
    assert loss == pytest.approx(expected, abs=1e-9)


def test_a_share_of_the_loss_has_that_share_of_the_gradient():
    problem, _ = objective(SemiCRF(TEMPLATE, n_jobs=1), labelled("iob2"))
    n = problem.parameters.n_weights
    weights, gradients = np.random.default_rng(3).normal(size=n), np.empty((2, n))
    whole = problem(weights, gradients[0])
    part = problem(weights, gradients[1], Passing(np.ones(1), share=0.25))
    assert part == pytest.approx(0.25 * whole)
    np.testing.assert_allclose(gradients[1], 0.25 * gradients[0], atol=1e-12)


def test_weights_exist_for_what_was_seen_and_for_every_length():
    model = SemiCRF("U:%x[0,0]", dictionaries=DICTIONARIES, n_jobs=1)
    objective(model, labelled("iob2"))
    space, cells = model.segments_, model.parameters_.cells["segment"]
    found = set()
    for f in range(len(cells.ptr) - 1):
        found |= {(model.extractor_.name(f), space.types[x]) for x in cells.column[cells.ptr[f] : cells.ptr[f + 1]]}
    always = [*(f"length={n}" for n in range(1, 4)), "dictionary=short", "dictionary=long"]
    chunks = {(tuple(x[s.start : s.end]), s.type) for x, own in zip(X, SPANS, strict=True) for s in own}
    single = {
        ((w,), "O") for x, y in zip(X, labelled("iob2"), strict=True) for w, t in zip(x, y, strict=True) if t == "O"
    }
    known = {text for text, _ in chunks}
    texts = {(f"text={' '.join(text)}", kind) for text, kind in chunks | single if text in known}
    assert found == set(itertools.product(always, ["X", "Y", "O"])) | texts


def test_rare_texts_are_left_out():
    model = SemiCRF("U:%x[0,0]", min_count=2, n_jobs=1)
    objective(model, labelled("iob2"))
    names = [model.extractor_.name(f) for f in range(model.extractor_.n_features)]
    assert [name for name in names if name.startswith("text=")] == ["text=a b", "text=c"]


@pytest.mark.parametrize("words", [{}, {"l1": 0.05}])
def test_the_number_of_threads_changes_no_bit(chunks, words):
    found = [SemiCRF(max_iter=8, n_jobs=n, **words).fit(chunks) for n in (1, 2)]
    np.testing.assert_array_equal(*(model.weights_ for model in found))
    assert found[0].history_[-1]["loss"] == found[1].history_[-1]["loss"]
    marginals = [model.predict_marginals(chunks) for model in found]
    assert marginals[0] == marginals[1]


def test_pieces_of_work_change_nothing(chunks, monkeypatch):
    whole, _ = objective(SemiCRF(), None, X=chunks)
    monkeypatch.setattr("labelwright.learn.objective.SHARD_TOKENS", 100)
    monkeypatch.setattr("labelwright.learn.objective.SHARD_BYTES", 1)
    monkeypatch.setattr("labelwright.learn.objective.ARC_BYTES", 20_000)
    small, _ = objective(SemiCRF(), None, X=chunks)
    assert len(small.shards) > 5
    assert max(len(shard.chunks) for shard in small.shards) > 1
    n = whole.parameters.n_weights
    weights = np.random.default_rng(0).normal(size=n) * 0.1
    gradients = np.empty((2, n))
    losses = [problem(weights, gradient) for problem, gradient in zip((whole, small), gradients, strict=True)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    np.testing.assert_allclose(*gradients, atol=1e-9)


def test_it_learns_and_stops_on_development_data(chunks):
    train, dev = chunks.take(slice(0, 110)), chunks.take(slice(110, 150))
    model = SemiCRF(l2=0.1).fit(train, dev=dev)
    assert model.score(train) > 0.99
    assert model.score(dev) > 0.9
    assert model.training_["best_dev"] > 0.85
    assert model.history_[-1]["loss"] < 0.2 * model.history_[0]["loss"]


def test_a_run_can_be_resumed(chunks, tmp_path):
    file = tmp_path / "checkpoint"
    SemiCRF(max_iter=4).fit(chunks, checkpoint=file, checkpoint_every=0)
    resumed = SemiCRF(max_iter=9).fit(chunks, checkpoint=file, checkpoint_every=0, resume=True)
    np.testing.assert_array_equal(resumed.weights_, SemiCRF(max_iter=9).fit(chunks).weights_)


def test_more_segmentations_than_a_float_can_count():
    T = 800
    sentence = ["a", "b"] * (T // 2)
    y = ["B-X", "I-X"] * (T // 2)
    model = SemiCRF("U:%x[0,0]", n_jobs=1)
    problem, _ = objective(model, [y], X=[sentence])
    n = model.parameters_.n_weights
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


# --- other inputs -----------------------------------------------------------------------------------------------------


def test_dicts_and_arrays_have_lengths_but_no_texts():
    dicts = [[{"w": w, "x": 0.5} for w in sentence] for sentence in X]
    arrays = [np.array([[w == "a", w == "b", 1.0] for w in sentence], float) for sentence in X]
    for data in (dicts, arrays):
        model = SemiCRF(n_jobs=1, l2=0.1).fit(data, labelled("bioes"))
        names = [model.extractor_.name(f) for f in range(model.extractor_.n_features)]
        assert names[-3:] == ["length=1", "length=2", "length=3"]
        assert not any(name.startswith("text=") for name in names)
        assert model.score(data, labelled("bioes")) > 0.6


def test_a_corpus_is_read_by_its_first_column():
    corpus = Corpus.from_sequences([[(w, "t") for w in x] for x in X], labelled("iob2"))
    model = SemiCRF("U:%x[0,0]\nU:%x[0,1]", dictionaries={"d": ["a b"]}, n_jobs=1).fit(corpus)
    names = {model.extractor_.name(f) for f in range(model.extractor_.n_features)}
    assert {"dictionary=d", "text=a b"} <= names
    assert model.predict(corpus) == model.predict([[(w, "t") for w in x] for x in X])


def test_a_dictionary_tells_what_training_did_not():
    """Cities of two words are seen in training only by their list: another of that list is found at once."""
    cities = ["New York", "Los Angeles", "Santa Fe", "Las Vegas"]
    X = [["to", *city.split(), "now"] for city in cities[:3]] * 3 + [["to", "be", "or", "now"]] * 3
    y = [["O", "B-C", "I-C", "O"]] * 9 + [["O"] * 4] * 3
    new = ["to", "Las", "Vegas", "now"]
    template, words = "U:%x[0,0]", {"n_jobs": 1, "l2": 0.1}
    with_list = SemiCRF(template, dictionaries={"cities": cities}, **words).fit(X, y)
    without = SemiCRF(template, **words).fit(X, y)
    p = [model.span_probabilities([new], [[Span(1, 3, "C")]])[0][0].probability for model in (with_list, without)]
    assert p[0] > 0.7
    assert p[0] > p[1] + 0.2


# --- schemes, rows and arcs -------------------------------------------------------------------------------------------


@st.composite
def segmentations(draw, kinds="XYO"):
    """Sentences as segments: O stands alone, and others have up to four tokens."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        own, at = [], 0
        for kind, length in draw(
            st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 4)), min_size=1, max_size=5)
        ):
            end = at + (1 if kind == "O" else length)
            own.append(Span(at, end, kind))
            at = end
        found.append(own)
    return found


@given(segmentations(), st.sampled_from([s for s in SCHEMES if s]))
def test_labels_become_segments_and_segments_labels(sentences, scheme):
    y = [labels_of([s for s in own if s.type != "O"], own[-1].end, scheme) for own in sentences]
    labels = sorted({label for own in y for label in own})
    codes, offsets = flat(y, labels)
    types, found = read_segments(labels, codes, offsets, scheme)
    cut_into = [[Span(*s) for s in in_sentence(found, types, offsets, n)] for n in range(len(y))]
    for own, read in zip(y, cut_into, strict=True):
        assert [s for s in read if s.type != "O"] == spans_of(own)
        assert [t for s in read for t in range(s.start, s.end)] == list(range(len(own)))
    if len(types) > 1:
        pairs = pairs_of_codes(labels, codes, offsets)
        space, found = segment_space(labels, codes, offsets, pairs, None)
        # Of few labels it may not be known which scheme they follow; then they are read as they stand.
        for n, own in enumerate(y):
            kind = np.array([space.types.index(s[2]) for s in in_sentence(found, space.types, offsets, n)])
            bounds = np.array([s[:2] for s in in_sentence(found, space.types, offsets, n)]).reshape(-1, 2)
            written = space.labels_of(Segments(bounds[:, 0], bounds[:, 1], kind))
            assert written == (convert([own], None, space.scheme)[0] if space.scheme else own)


SPELLINGS = {
    "bilou": ("bioes", {"E": "L", "S": "U"}),
    "bmes": ("bioes", {"I": "M"}),
    "both": ("bioes", {"I": "M", "E": "L", "S": "U"}),
    "iob1 with M": ("iob1", {"I": "M"}),
    "iob2 with M": ("iob2", {"I": "M"}),
    "ioe1 with L": ("ioe1", {"E": "L"}),
    "ioe2 with L and M": ("ioe2", {"E": "L", "I": "M"}),
    "io with M": ("io", {"I": "M"}),
}


@pytest.mark.parametrize("spelt", SPELLINGS)
@pytest.mark.parametrize("typed", [True, False])
def test_answers_have_the_letters_of_the_training_labels(spelt, typed, tmp_path):
    scheme, letters = SPELLINGS[spelt]
    y = [[letters.get(label[0], label[0]) + label[1:] for label in own] for own in labelled(scheme)]
    if not typed:
        y = [[label[0] for label in own] for own in y]
    model = SemiCRF(TEMPLATE, l2=0.001, n_jobs=1).fit(X, y)
    assert model.scheme_ == scheme
    seen = {label[0] for own in y for label in own}
    assert {label[0] for label in model.classes_} <= seen
    assert np.isfinite(model.sequence_log_probabilities(X, y)).all()
    if typed or scheme != "io":  # where touching chunks are one
        assert model.predict(X) == y
    model.save(tmp_path / "model")
    for found in (model, labelwright.load(tmp_path / "model")):
        assert found.predict_nbest(X, n=3) == model.predict_nbest(X, n=3)
        assert {label for own in found.predict_nbest(X, n=9) for row, _ in own for label in row} <= set(model.classes_)
        assert found.decode(X, forced=y, probabilities=False) == model.decode(X, forced=y, probabilities=False)
        for sentence in found.predict_marginals(X):
            for row in sentence:
                assert sum(row.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["U-X", "O"], {"U-X", "O", "B-X", "I-X", "L-X"}),
        (["S-X", "O"], {"S-X", "O", "B-X", "I-X", "E-X"}),
        (["B-X", "L-X", "O"], {"B-X", "L-X", "O", "I-X", "U-X"}),
        (["B-X", "M-X", "E-X", "S-Y", "O"], {f"{letter}-{kind}" for letter in "BMES" for kind in "XY"} | {"O"}),
        (["B-X", "L-X", "B-Y", "E-Y", "O"], {"B-X", "I-X", "L-X", "U-X", "B-Y", "I-Y", "E-Y", "U-Y", "O"}),
        (["B-", "I-", "O"], {"B-", "I-", "O"}),
    ],
)
def test_labels_that_training_has_not_are_spelt_like_those_it_has(y, expected):
    model = SemiCRF("U:%x[0,0]", max_length=4, max_iter=5, n_jobs=1).fit([[str(t) for t in range(len(y))]], [y])
    assert set(model.classes_) == expected


def test_a_type_may_be_called_o():
    y = [["B-O", "I-O", "O", "B-X"], ["O", "B-O"]]
    model = SemiCRF("U:%x[0,0]", l2=0.001, n_jobs=1).fit([["a", "b", "c", "d"], ["c", "e"]], y)
    assert model.predict([["a", "b", "c", "d"], ["c", "e"]]) == y
    assert np.isfinite(model.sequence_log_probabilities([["a", "b", "c", "d"], ["c", "e"]], y)).all()


def flat(y, labels):
    codes = np.array([labels.index(label) for own in y for label in own])
    return codes, np.concatenate([[0], np.cumsum([len(own) for own in y])])


def in_sentence(found, types, offsets, n):
    own = (found.start >= offsets[n]) & (found.start < offsets[n + 1])
    bounds = zip(found.start[own] - offsets[n], found.end[own] - offsets[n], found.kind[own], strict=True)
    return [(int(a), int(b), types[x]) for a, b, x in bounds]


@given(st.lists(st.sampled_from("NVP"), min_size=1, max_size=9))
def test_runs_of_labels_that_follow_no_scheme(labels):
    codes, offsets = flat([labels], ["N", "V", "P"])
    types, found = read_segments(["N", "V", "P"], codes, offsets, None)
    expected, at = [], 0
    for kind, run in itertools.groupby(labels):
        length = len(list(run))
        expected.append((at, at + length, kind))
        at += length
    assert in_sentence(found, types, offsets, 0) == expected


@given(st.integers(1, 9), st.integers(1, 6), st.sampled_from(["iob2", None]))
def test_rows_and_arcs_are_where_they_are_said_to_be(T, longest, scheme):
    y = [["B-X", *["I-X"] * (longest - 1), "O", "B-Y"]] if scheme else [["N"] * longest + ["V"]]
    labels = list(dict.fromkeys(y[0]))
    codes, offsets = flat(y, labels)
    space, _ = segment_space(labels, codes, offsets, pairs_of_codes(labels, codes, offsets), None)
    assert (space.scheme, space.max_length) == (scheme, longest)
    arcs = arcs_of(space, T)
    rows = [(end - d, end) for end in range(1, T + 1) for d in range(1, min(end, longest) + 1)]
    assert row_offsets(np.array([0, T, T, 2 * T]), longest).tolist() == [0, len(rows), len(rows), 2 * len(rows)]
    assert kernels.n_rows(longest, T) == len(rows)
    start, end = np.array(rows).T
    asked = Segments(start + T, end + T, start * 0)
    assert rows_of(asked, np.array([0, T, 2 * T]), longest).tolist() == list(range(len(rows), 2 * len(rows)))
    # A checked graph with the same arcs says that they are in order, and which nodes are sources and sinks.
    checked = labelwright.structures.dag.dag(arcs.dag.source, arcs.dag.target, arcs.dag.n_nodes)
    assert checked.sources.tolist() == [0] == arcs.dag.sources.tolist()
    assert checked.sinks.tolist() == arcs.dag.sinks.tolist()
    own = arcs.length > 0
    expected = [(a, b, x) for a, b in rows for x in range(space.n_types if b - a == 1 else space.n_long)]
    found = zip(arcs.first[own], (arcs.first + arcs.length)[own], arcs.kind[own], strict=True)
    assert [tuple(map(int, one)) for one in found] == expected
    for shorter in range(1, T):
        for whole, part in zip(arcs_of(space, shorter)[1:], arcs.of(shorter, space)[1:], strict=True):
            np.testing.assert_array_equal(whole, part)
        assert arcs.of(shorter, space).dag.sinks.tolist() == arcs_of(space, shorter).dag.sinks.tolist()


# --- one model in terms of another ------------------------------------------------------------------------------------


def test_a_model_like_another_has_its_segments(tmp_path):
    y = labelled("iob1")
    whole = SemiCRF(TEMPLATE, max_iter=30, n_jobs=1).fit(X, y)
    own = SemiCRF(TEMPLATE, max_iter=30, n_jobs=1).fit([X[0]], [y[0]])
    assert own.segments_ != whole.segments_
    for part in ([0], [1], [3], [0, 1, 2, 3]):
        fold = whole.like()
        assert not hasattr(fold, "weights_")
        assert fold.get_params() == whole.get_params()
        fold.fit([X[n] for n in part], [y[n] for n in part])
        assert (fold.segments_, fold.scheme_, fold.classes_) == (whole.segments_, whole.scheme_, whole.classes_)
        assert fold.predict([X[n] for n in part]) == [y[n] for n in part]
    outside = whole.like().fit([["c", "a"]], [["O", "O"]])  # one type only
    assert outside.predict([["c", "a"]]) == [["O", "O"]]
    outside.save(tmp_path / "model")
    again = labelwright.load(tmp_path / "model").fit([X[0]], [y[0]])
    assert again.segments_ == own.segments_
    with pytest.raises(OptionError, match=r"^max_length: sentence 0 has a segment of 4 tokens, got max_length=3; "):
        whole.like().fit([["a"] * 4], [["I-X"] * 4])
    with pytest.raises(OptionError, match=r"^labels: no label 'I-Z' in this model, expected one of I-X, B-X, O, "):
        whole.like().fit([["a"]], [["I-Z"]])
    with pytest.raises(NotFittedError):
        SemiCRF().like()


def test_the_weights_of_a_model_in_its_own_terms_are_its_weights(model):
    np.testing.assert_array_equal(model.weights_of(model), model.weights_)


@pytest.mark.parametrize("kind", ["words", "dicts", "arrays", "layered"])
def test_the_weights_of_another_model_give_its_scores(kind):
    y = labelled("bioes")
    below = certain(("p", "q", "r"), [["pqr"["abc".index(w)] for w in x] for x in X])
    data = {
        "words": X,
        "dicts": [[{f"w={w}": 1.0, "x": 0.5} for w in x] for x in X],
        "arrays": [np.array([[w == "a", w == "b", 1.0] for w in x], float) for x in X],
        "layered": Layered(X, below),
    }[kind]
    lists = {"dictionaries": DICTIONARIES} if kind in ("words", "layered") else {}
    template = {"words": TEMPLATE, "layered": TEMPLATE + "\nUy:%y[0]\nUyw:%y[0]/%x[0,0]"}.get(kind, "default")
    whole = SemiCRF(template, max_iter=5, n_jobs=1, **lists).fit(data, y)
    if lists:  # in another order, and one more
        lists = {"dictionaries": {"other": ["zzz"], **dict(reversed(DICTIONARIES.items()))}}
    fold = whole.like().set_params(**lists)
    some = Layered(X[1:4], certain(below.labels, [["pqr"["abc".index(w)] for w in x] for x in X[1:4]]))
    fold.fit(some if kind == "layered" else data[1:4], y[1:4])
    fold.weights_ = np.random.default_rng(4).normal(size=len(fold.weights_)).astype(np.float32)
    carried = pickle.loads(pickle.dumps(whole))
    carried.weights_ = whole.weights_of(fold)
    for found, expected in zip(carried.predict_nbest(data, n=6), fold.predict_nbest(data, n=6), strict=True):
        assert [labels for labels, _ in found] == [labels for labels, _ in expected]
        np.testing.assert_allclose([p for _, p in found], [p for _, p in expected], rtol=1e-5)
    scores = [[d.score for d in each.decode(data)] for each in (carried, fold)]
    np.testing.assert_allclose(*scores, rtol=1e-5)
    # Back again, nothing is lost: the whole model has every feature of its part.
    kept = fold.weights_of(carried)
    named = {fold.extractor_.name(f) for f in range(fold.extractor_.n_features)}
    lost = named - {whole.extractor_.name(f) for f in range(whole.extractor_.n_features)}
    assert lost == ({"dictionary=other"} if lists else set())
    assert (kept == fold.weights_).sum() >= len(kept) - 3 * len(lost)


def test_the_weights_of_other_segments_are_none_of_ours():
    models = [SemiCRF(max_iter=1, n_jobs=1).fit(X, labelled(scheme)) for scheme in ("iob2", "bioes")]
    with pytest.raises(OptionError, match=r"^weights_of: the other model has other types of segments; train it by "):
        models[0].weights_of(models[1])
    with pytest.raises(NotFittedError):
        models[0].weights_of(SemiCRF())


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_model_survives_its_file(model, tmp_path):
    file = tmp_path / "model.safetensors"
    model.save(file)
    again = labelwright.load(file)
    assert type(again) is SemiCRF
    assert (again.classes_, again.scheme_, again.segments_) == (model.classes_, model.scheme_, model.segments_)
    as_words = {"short": [("b",), ("c",)], "long": [("b", "b"), ("c", "a"), ("a", "b", "c", "a")]}
    assert {name: sorted(own) for name, own in again.dictionaries.items()} == {
        k: sorted(v) for k, v in as_words.items()
    }
    for copy in (again, pickle.loads(pickle.dumps(model))):
        assert copy.predict_nbest([NEW, X[0]]) == model.predict_nbest([NEW, X[0]])
        assert copy.predict_marginals([NEW]) == model.predict_marginals([NEW])
        same = {name: value for name, value in model.get_params().items() if name not in ("template", "dictionaries")}
        assert same.items() <= copy.get_params().items()
    assert again.fit(X, labelled(model.scheme_)).extractor_.n_features == model.extractor_.n_features


def test_dictionaries_may_be_absent_and_words_may_have_blanks(tmp_path):
    model = SemiCRF("U:%x[0,0]", n_jobs=1).fit([["New York", "now"], ["New", "York"]], [["B-C", "O"], ["B-D", "I-D"]])
    model.save(tmp_path / "model")
    again = labelwright.load(tmp_path / "model")
    assert again.dictionaries is None
    assert again.predict([["New York"], ["New", "York"]]) == [["B-C"], ["B-D", "I-D"]]


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"max_length": 2},
            r"^max_length: sentence 4 has a segment of 3 tokens, got max_length=2; use 3 or more, or None$",
        ),
        ({"max_length": 0}, r"^max_length: expected a whole number of 1 or more, got 0$"),
        ({"optimizer": "sgd"}, r"^optimizer: expected one of lbfgs, got 'sgd'$"),
        ({"template": "U:%x[0,0]\nB:%x[0,0]"}, r"^template: line 2, 'B:%x\[0,0\]': a SemiCRF has no .*; use U lines$"),
        ({"template": "U:%x[0,0]\n*:%x[0,0]"}, r"^template: line 2, '\*:%x\[0,0\]': .*; use U lines$"),
        ({"template": "U:%x[0,0]\nT:%x[0,0]"}, r"^template: line 2, 'T:%x\[0,0\]': .*; use U lines$"),
        ({"dictionaries": ["a"]}, r"^dictionaries: expected \{name: phrases\}, got list$"),
        ({"dictionaries": {"d": "abc"}}, r"^dictionaries: 'd': expected a list of phrases, got str$"),
        ({"dictionaries": {"d": [1]}}, r"^dictionaries: 'd': expected phrases of words, as strings or lists, got 1$"),
        (
            {"dictionaries": {"d": [" "]}},
            r"^dictionaries: 'd': expected phrases of words, as strings or lists, got ' '$",
        ),
        ({"cells": "some"}, r"^cells: expected one of observed, all, got 'some'$"),
    ],
)
def test_parameters_that_cannot_be(words, message):
    with pytest.raises(OptionError, match=message):
        SemiCRF(**{"template": TEMPLATE, "n_jobs": 1, **words}).fit(X, labelled("iob2"))


@pytest.mark.parametrize("line", ["B:%y[0]", "*:%y[0]/%x[0,0]", "T:%y[-1]/%y[0]", "B:%x[0,0]"])
def test_an_upper_layer_has_no_features_on_pairs_either(line):
    below = certain(("p",), [["p"] * len(x) for x in X])
    with pytest.raises(OptionError) as error:
        SemiCRF(f"U:%x[0,0]\nU:%y[0]\n{line}\nB", n_jobs=1).fit(Layered(X, below), labelled("iob2"))
    assert str(error.value) == f"template: '{line}': a SemiCRF has no features on pairs of labels; use U lines"


def test_an_upper_layer_of_dicts_has_no_features_on_pairs_either():
    below = certain(("p",), [["p"] * len(x) for x in X])
    dicts = [[{"w": w} for w in x] for x in X]
    with pytest.raises(OptionError, match=r"^template: 'B:%y\[0\]': a SemiCRF has no .*; use U lines$"):
        SemiCRF("U:%y[0]\nB:%y[0]", n_jobs=1).fit(Layered(dicts, below), labelled("iob2"))


def test_an_untrained_model_has_no_answers():
    model = SemiCRF()
    for question in (
        lambda: model.passed(X),
        lambda: model.sample(X, 3),
        lambda: model.objective(X, None, Workers(1)),
        lambda: model.predict_marginals(X, latent=True),
    ):
        with pytest.raises(NotFittedError, match=r"^this SemiCRF is not trained yet"):
            question()


@pytest.mark.parametrize("scheme", ["iob1", "ioe1"])
def test_labels_that_depend_on_neighbours_are_not_passed(scheme):
    model = SemiCRF(max_iter=1, n_jobs=1).fit(X, labelled(scheme))
    with pytest.raises(OptionError, match=rf"^labels: in {scheme} they .*; use iob2 labels \(labelwright convert, or "):
        model.passed(X)


def test_too_many_segments_are_refused(monkeypatch):
    monkeypatch.setattr("labelwright.structures.segments.MAX_ROWS", 20)
    with pytest.raises(OptionError, match=r"^max_length: there are 31 runs of up to 3 tokens, more than 20; "):
        SemiCRF(n_jobs=1).fit(X, labelled("iob2"))


def test_data_that_cannot_be():
    with pytest.raises(OptionError, match=r"^max_length: sentence 6 has a segment of 3 tokens, "):
        SemiCRF(max_length=1, n_jobs=1).fit(
            [[], *X[:2], [], *X[2:]], [[], *labelled("bioes")[:2], [], *labelled("bioes")[2:]]
        )
    with pytest.raises(OptionError, match=r"^labels: segments need two different types .* got only 'O'$"):
        SemiCRF(n_jobs=1).fit([["a"]], [["O"]])
    with pytest.raises(OptionError, match=r"^dictionaries: need words, but the sentences are dicts; leave them out$"):
        SemiCRF(dictionaries={"d": ["a"]}, n_jobs=1).fit([[{"a": 1}, {"b": 1}]], [["N", "V"]])
    with pytest.raises(CorpusError, match=r"^y: "):
        SemiCRF(n_jobs=1).fit([["a", "b"]], [["N"]])
    with pytest.raises(OptionError, match=r"^init: a SemiCRF starts from nothing; leave it out$"):
        SemiCRF(n_jobs=1).fit(X, labelled("iob2"), init=SemiCRF(n_jobs=1, max_iter=1).fit(X, labelled("iob2")))


def test_questions_that_cannot_be_answered(model):
    for question, message in [
        (lambda: model.decode([NEW], "ldi"), r"^decoder 'ldi': a SemiCRF decodes exactly by 'viterbi'$"),
        (lambda: model.decode([NEW], depth=3), r"^decoder viterbi: no option 'depth', expected probabilities$"),
        (
            lambda: model.predict_marginals([NEW], latent=True),
            r"^latent: a SemiCRF has no latent states; leave it out$",
        ),
        (lambda: model.predict_nbest([NEW], n=0), r"^n: expected a whole number, 1 to "),
        (lambda: model.decode([NEW], forced=[[None]]), r"^forced: sentence 0 has 4 tokens, got 1 entries"),
        (lambda: model.decode([NEW], forced=[["?", *NEW[1:]]]), r"^forced: sentence 0, token 0: no label '\?' in this"),
        (lambda: model.span_probabilities([NEW], []), r"^spans: expected one list for each of 1 sentences, got 0$"),
        (lambda: model.span_probabilities([NEW], [[Span(0, 1, "?")]]), r"^spans: no type '\?' in this model, expected"),
        (
            lambda: model.span_probabilities([NEW], [[Span(2, 9, model.segments_.types[0])]]),
            r"^spans: sentence 0: 2:9 is not a span of 4 tokens$",
        ),
        (lambda: model.decode([NEW], constraints="nonsense"), r"^scheme: got 'nonsense', expected one of iob1, "),
    ]:
        with pytest.raises(OptionError, match=message):
            question()
    if model.scheme_ is None:
        with pytest.raises(OptionError, match=r"^constraints='scheme': the labels follow no chunk scheme"):
            model.decode([NEW], constraints="scheme")
    else:
        assert model.decode([NEW], constraints="scheme") == model.decode([NEW], constraints=model.scheme_)
        other = "iob2" if model.scheme_ != "iob2" else "bioes"
        with pytest.raises(OptionError, match=f"^constraints: the labels follow {model.scheme_}, got '{other}'"):
            model.decode([NEW], constraints=other)


# --- without compiled code --------------------------------------------------------------------------------------------

PROGRAM = """
import json
from labelwright import SemiCRF
from labelwright.kernels import COMPILED
X = [["the", "dog", "barks"], ["a", "bird"], ["birds", "sing"], []]
y = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"], ["B-NP", "O"], []]
model = SemiCRF("U:%x[0,0]\\nU:%x[-1,0]", dictionaries={"d": ["the dog"]}, max_iter=4, n_jobs=1).fit(X, y)
print(json.dumps({"compiled": COMPILED, "answers": [
    model.predict(X), model.predict_nbest(X, n=3), model.predict_marginals(X), model.predict_spans(X),
    model.sequence_log_probabilities(X, y), model.training_["loss"],
]}))
"""


def test_plain_python_gives_the_same_answers():
    compiled, plain = answers_both_ways(PROGRAM)
    assert len(compiled) == len(plain) > 50
    for a, b in zip(compiled, plain, strict=True):
        assert a == (pytest.approx(b, rel=1e-4) if isinstance(b, float) else b)
