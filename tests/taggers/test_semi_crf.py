"""The answers of a SemiCRF against enumeration of all segmentations, for every label scheme; and
what it refuses."""

import tracemalloc

import numpy as np
import pytest
from cascades import passed_up
from enumerated import check_answers
from segmentations import NEW, SCHEMES, TEMPLATE, Enumerated, X, labelled, random_model

from labelwright import SemiCRF, Span
from labelwright.corpus import Corpus
from labelwright.corpus.spans import labels_of
from labelwright.errors import CorpusError, OptionError
from labelwright.parallel import Workers
from labelwright.structures.passing import Layered, certain
from labelwright.taggers.chain_structure import Scoring


@pytest.fixture(scope="module", params=SCHEMES)
def model(request):
    return random_model(request.param)


# --- answers --------------------------------------------------------------------------------------


def check(model, sentence, permitted=None, **restriction):
    truth = Enumerated(model, sentence, permitted)
    check_answers(
        model, sentence, dict(zip(truth.labels, truth.p.tolist(), strict=True)), 1e-5, **restriction
    )


@pytest.mark.cases(14)
@pytest.mark.parametrize("sentence", [NEW, X[0], X[1], ["a"], ["zzz"], X[4]])
def test_every_answer_agrees_with_enumeration(model, sentence):
    check(model, sentence)


@pytest.mark.cases(1)
def test_every_answer_agrees_with_enumeration_under_forced_labels(model):
    random = np.random.default_rng(0)
    everything = Enumerated(model, NEW).labels
    for _ in range(12):
        free = [
            [y for y in model.classes_ if random.random() < 0.6] if random.random() < 0.7 else None
            for _ in NEW
        ]  # what is permitted at each token
        forced = [p[0] if p is not None and len(p) == 1 else p for p in free]
        possible = [
            y
            for y in everything
            if all(p is None or label in p for label, p in zip(y, free, strict=True))
        ]
        if not possible:
            with pytest.raises(
                OptionError, match=r"^sentence 0: no labelling satisfies the forced labels"
            ):
                model.predict_marginals([NEW], forced=[forced])
            with pytest.raises(
                OptionError, match=r"^sentence 0: no labelling satisfies the forced labels"
            ):
                model.decode([NEW], forced=[forced])
            continue
        check(model, NEW, free, forced=[forced])


@pytest.mark.cases(1)
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


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"max_length": 0},
            r"^max_length: expected a whole number of 1 or more and of 65536 or less, got 0$",
        ),
        (
            {"max_length": 65537},
            r"^max_length: expected a whole number of 1 or more and of 65536 or less, got 65537$",
        ),
        ({"optimizer": "sgd"}, r"^optimizer: expected lbfgs, got 'sgd'$"),
        (
            {"template": "U:%x[0,0]\nB:%x[0,0]"},
            r"^template: line 2, 'B:%x\[0,0\]': a SemiCRF has no .*; use U lines$",
        ),
        (
            {"template": "U:%x[0,0]\n*:%x[0,0]"},
            r"^template: line 2, '\*:%x\[0,0\]': .*; use U lines$",
        ),
        (
            {"template": "U:%x[0,0]\nT:%x[0,0]"},
            r"^template: line 2, 'T:%x\[0,0\]': .*; use U lines$",
        ),
        (
            {"dictionaries": ["a"]},
            r"^dictionaries: expected a table of phrases by name, got \['a'\]$",
        ),
        (
            {"dictionaries": {"d": "abc"}},
            r"^dictionaries: 'd': expected a list of phrases, got str$",
        ),
        (
            {"dictionaries": {"d": [1]}},
            r"^dictionaries: 'd': expected phrases of words, as strings or lists, got 1$",
        ),
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


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "ioe1", "bioes"])
def test_longer_segments_are_cut_and_counted(scheme):
    sentence, y = list("abcdefghi"), [Span(0, 5, "X"), Span(6, 8, "Y"), Span(8, 9, "Y")]
    cut = labels_of([Span(0, 2, "X"), Span(2, 4, "X"), Span(4, 5, "X"), *y[1:]], 9, scheme)
    y = labels_of(y, 9, scheme)
    with pytest.warns(
        RuntimeWarning,
        match=r"^max_length=2: 1 longer segment of the training data cut into several$",
    ):
        model = SemiCRF("U:%x[0,0]", max_length=2, n_jobs=1, l2=0.01).fit([sentence], [y])
    assert model.predict([sentence]) == [cut]
    assert model.segments_.max_length == 2
    # which warns of nothing
    whole = SemiCRF("U:%x[0,0]", max_length=5, n_jobs=1, l2=0.01).fit([sentence], [y])
    assert whole.predict([sentence]) == [y]


@pytest.mark.parametrize("y", [["V", "V", "N"], ["I-X", "I-X", "O"]])
def test_sentences_whose_segments_cannot_be_cut_are_left_out_and_counted(y):
    X, labels = [["a", "c"], [], ["b", "b", "a"]], [[y[0], y[2]], [], y]
    for data in ((X, labels), (Corpus.from_sequences(X, labels), None)):
        with pytest.warns(
            RuntimeWarning,
            match=r"^max_length=1: 1 sentence with longer segments left out of training$",
        ):
            model = SemiCRF("U:%x[0,0]", max_length=1, n_jobs=1).fit(*data)
        assert model.training_["tokens"] == 2
        assert model.predict([["a", "c"]]) == [[y[0], y[2]]]


@pytest.mark.parametrize("line", ["B:%y[0]", "*:%y[0]/%x[0,0]", "T:%y[-1]/%y[0]", "B:%x[0,0]"])
def test_an_upper_layer_has_no_features_on_pairs_either(line):
    below = certain(("p",), [["p"] * len(x) for x in X])
    with pytest.raises(OptionError) as error:
        SemiCRF(f"U:%x[0,0]\nU:%y[0]\n{line}\nB", n_jobs=1).fit(
            Layered(X, {"pos": below}), labelled("iob2")
        )
    assert (
        str(error.value)
        == f"template: '{line}': a SemiCRF has no features on pairs of labels; use U lines"
    )


def test_an_upper_layer_of_dicts_has_no_features_on_pairs_either():
    below = certain(("p",), [["p"] * len(x) for x in X])
    dicts = [[{"w": w} for w in x] for x in X]
    with pytest.raises(
        OptionError, match=r"^template: 'B:%y\[0\]': a SemiCRF has no .*; use U lines$"
    ):
        SemiCRF("U:%y[0]\nB:%y[0]", n_jobs=1).fit(Layered(dicts, {"pos": below}), labelled("iob2"))


@pytest.mark.parametrize("scheme", ["iob1", "ioe1"])
def test_labels_that_depend_on_neighbours_are_not_passed(scheme):
    model = SemiCRF(max_iter=1, n_jobs=1).fit(X, labelled(scheme))
    with pytest.raises(
        OptionError,
        match=rf"^labels: in {scheme} they .*; use iob2 labels \(labelwright convert, or ",
    ):
        passed_up(model, X)


def test_too_many_segments_are_refused(monkeypatch):
    monkeypatch.setattr("labelwright.structures.segments.MAX_ROWS", 20)
    with pytest.raises(
        OptionError, match=r"^max_length: there are 31 runs of up to 3 tokens, more than 20; "
    ):
        SemiCRF(n_jobs=1).fit(X, labelled("iob2"))


def test_sentences_with_too_many_segments_are_not_tagged(model, monkeypatch):
    expected, T = model.predict([NEW, X[0]]), len(NEW)
    n_rows = sum(min(end, 3) for end in range(1, T + 1))
    assert model.segments_.max_length == 3
    monkeypatch.setattr("labelwright.structures.segments.MAX_SENTENCE_ROWS", n_rows)
    assert model.predict([NEW, X[0]]) == expected
    message = (
        rf"^X: a sentence of {T + 1} tokens has {n_rows + 3} runs of up to 3 tokens "
        r"\(max_length\), more than "
    )
    remedy = rf"{n_rows}; use shorter sentences, or train with a smaller max_length$"
    for question in (model.predict, model.encode, model.predict_marginals):
        with pytest.raises(CorpusError, match=message + remedy):
            question([["a"], [*NEW, "a"], ["a"]])


def test_sentences_with_too_many_arcs_are_not_tagged(model, monkeypatch):
    monkeypatch.setattr("labelwright.structures.segments.MAX_SENTENCE_ARCS", 20)
    with pytest.raises(
        CorpusError,
        match=r"^X: a sentence of 30 tokens has a graph of .* \(max_length 3, 3 types\)",
    ):
        model.predict([["a"] * 30])


def test_a_long_sentence_is_refused_before_memory_is_taken():
    y = [["B-X", "I-X", "O"], ["O", "B-X"]]
    model = SemiCRF(max_length=3000, max_iter=2, n_jobs=1).fit([["a", "b", "c"], ["b", "a"]], y)
    tracemalloc.start()
    with pytest.raises(
        CorpusError,
        match=r"^X: a sentence of 4,000 tokens has 7,501,500 runs of up to 3,000 tokens ",
    ):
        model.predict([["a"] * 4000])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_blocks_have_a_bounded_number_of_segments(monkeypatch):
    model = SemiCRF(max_length=50, max_iter=2, n_jobs=1).fit(X, labelled("iob2"))
    data = [["a", "b"] * 20, ["b"], ["c", "a"] * 20, ["a"] * 5]
    expected = model.predict(data)
    monkeypatch.setattr("labelwright.taggers.semi_crf.ROWS_PER_TOKEN", 1)
    # a long sentence has 820 runs
    monkeypatch.setattr("labelwright.taggers.semi_crf.BLOCK_TOKENS", 821)
    trained, encoded = model._trained, model.encode(data)
    scoring = Scoring(trained, model._constrained(trained, None), encoded, None, Workers(1), False)
    assert model._structure.scored_blocks(scoring)[0] == [(0, 2), (2, 3), (3, 4)]
    assert model.predict(data) == expected


def test_data_that_cannot_be():
    with pytest.raises(
        OptionError,
        match=r"^max_length: every sentence has a segment of more than 1 tokens; use a larger",
    ):
        SemiCRF(max_length=1, n_jobs=1).fit([["b", "b", "a"], []], [["V", "V", "N"], []])
    with pytest.raises(
        OptionError, match=r"^labels: segments need at least two types .* got only 'O'$"
    ):
        SemiCRF(n_jobs=1).fit([["a"]], [["O"]])
    with pytest.raises(
        OptionError,
        match=r"^dictionaries: need words, but the sentences are dicts; leave them out$",
    ):
        SemiCRF(dictionaries={"d": ["a"]}, n_jobs=1).fit([[{"a": 1}, {"b": 1}]], [["N", "V"]])
    with pytest.raises(CorpusError, match=r"^y: "):
        SemiCRF(n_jobs=1).fit([["a", "b"]], [["N"]])
    with pytest.raises(OptionError, match=r"^init: a SemiCRF starts from nothing; leave it out$"):
        SemiCRF(n_jobs=1).fit(
            X, labelled("iob2"), init=SemiCRF(n_jobs=1, max_iter=1).fit(X, labelled("iob2"))
        )


def test_questions_that_cannot_be_answered(model):
    for question, message in [
        (
            lambda: model.decode([NEW], "ldi"),
            r"^decoder: got 'ldi', but a SemiCRF decodes exactly; use 'viterbi'$",
        ),
        (
            lambda: model.decode([NEW], depth=3),
            r"^decoder viterbi: no option 'depth', expected probabilities$",
        ),
        (
            lambda: model.predict_marginals([NEW], latent=True),
            r"^latent: a SemiCRF has no latent states; leave it out, or train a LatentCRF$",
        ),
        (lambda: model.predict_nbest([NEW], n=0), r"^n: expected a whole number, 1 to "),
        (
            lambda: model.decode([NEW], forced=[[None]]),
            r"^forced: sentence 0 has 4 tokens, got 1 entries",
        ),
        (
            lambda: model.decode([NEW], forced=[["?", *NEW[1:]]]),
            r"^forced: sentence 0, token 0: no label '\?' in this",
        ),
        (
            lambda: model.span_probabilities([NEW], []),
            r"^spans: expected one list for each of 1 sentences, got 0$",
        ),
        (
            lambda: model.span_probabilities([NEW], [[Span(0, 1, "?")]]),
            r"^spans: no type '\?' in this model, expected",
        ),
        (
            lambda: model.span_probabilities([NEW], [[Span(2, 9, model.segments_.types[0])]]),
            r"^spans: sentence 0: 2:9 is not a span of 4 tokens$",
        ),
        (
            lambda: model.decode([NEW], constraints="nonsense"),
            r"^constraints: expected 'scheme' or one of iob1, ",
        ),
    ]:
        with pytest.raises(OptionError, match=message):
            question()
    if model.scheme_ is None:
        with pytest.raises(
            OptionError, match=r"^constraints='scheme': the labels follow no chunk scheme"
        ):
            model.decode([NEW], constraints="scheme")
    else:
        assert model.decode([NEW], constraints="scheme") == model.decode(
            [NEW], constraints=model.scheme_
        )
        other = "iob2" if model.scheme_ != "iob2" else "bioes"
        with pytest.raises(
            OptionError, match=f"^constraints: the labels follow {model.scheme_}, got '{other}'"
        ):
            model.decode([NEW], constraints=other)
