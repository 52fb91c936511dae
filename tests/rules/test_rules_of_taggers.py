"""Users' own rules on trained taggers, and what their document says."""

import itertools

import pytest
from cases import chunks

import labelwright
from labelwright.constraints import (
    agree,
    at_least,
    at_most,
    differ,
    exactly,
    forbid,
    only,
    soft,
)
from labelwright.corpus import builtin_corpus
from labelwright.corpus.schemes import validate
from labelwright.errors import OptionError
from labelwright.rules import product, solver

SEARCH = solver.search


# -- trained taggers -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus():
    return builtin_corpus(60, random_state=2, columns=["word", "pos", "chunk"])


MODELS = {
    "crf": lambda: labelwright.CRF(n_jobs=2, max_iter=20),
    "order 2": lambda: labelwright.CRF(template="words", order=2, n_jobs=1, max_iter=10),
    "latent": lambda: labelwright.LatentCRF(
        template="words", n_latent=2, n_jobs=1, max_iter=15, random_state=0
    ),
    "perceptron": lambda: labelwright.Perceptron(n_jobs=1, max_iter=3),
    "latent perceptron": lambda: labelwright.LatentPerceptron(
        template="words", n_latent=2, n_jobs=1, max_iter=3, random_state=0
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def tagger(request, corpus):
    return MODELS[request.param]().fit(corpus)


@pytest.mark.slow
def test_a_tagger_keeps_rules(tagger, corpus):
    some = corpus.take(slice(0, 3))
    free = tagger.decode(some)
    rules = ["scheme", at_least(1, "VP"), exactly(2, "PP"), agree(0, -1, types=True)]
    found = tagger.decode(some, constraints=rules)
    for before, d in zip(free, found, strict=True):
        assert not validate([d.labels], tagger.scheme_)
        assert len(chunks(d.labels, "VP")) >= 1
        assert len(chunks(d.labels, "PP")) == 2
        assert d.labels[0][1:] == d.labels[-1][1:]
        assert d.score <= before.score + 1e-9 * (1 + abs(before.score))
        assert d.status in ("optimal", "limit")
        assert d.exact or tagger._space.latent
    assert any(before.labels != d.labels for before, d in zip(free, found, strict=True))
    assert tagger.decode(some.take([1, 2]), constraints=rules) == found[1:3]


@pytest.mark.cases(2)
def test_rules_that_the_best_labelling_keeps_change_nothing(tagger, corpus):
    for before, d in zip(
        tagger.decode(corpus), tagger.decode(corpus, constraints=at_least(0, "NP")), strict=True
    ):
        assert d.labels == before.labels
        assert d.score == pytest.approx(before.score)
        assert (d.log_probability is None) == (before.log_probability is None)
        assert (d.status, before.status, d.exact) == ("optimal", None, True)


def test_soft_rules_weigh_against_the_model(corpus):
    model = MODELS["crf"]().fit(corpus)
    words = corpus.X[0]
    (free,) = model.decode([words])
    wanted = at_least(len(chunks(free.labels, "NP")) + 1, "NP")
    (kept,) = model.decode([words], constraints=wanted)
    loss = free.score - kept.score
    assert loss > 0
    assert model.decode([words], constraints=soft(wanted, 0.99 * loss))[0].labels == free.labels
    assert model.decode([words], constraints=soft(wanted, 1.01 * loss))[0].labels == kept.labels


def test_rules_may_read_the_words(corpus):
    model = MODELS["crf"]().fit(corpus)
    words = ["Mary", "saw", "the", "man", "and", "Mary", "left", "."]
    X = [[(word, "NN") for word in words]]

    def same_words(s):
        return [
            agree(a, b)
            for a, b in itertools.combinations(range(len(s)), 2)
            if s.words[a] == s.words[b]
        ]

    (found,) = model.decode(X, constraints=[same_words, differ(0, 1)])
    assert found.labels[0] == found.labels[5] != found.labels[1]
    with pytest.raises(OptionError, match="give the sentences themselves, not encoded data"):
        model.decode(model.encode(X), constraints=same_words)
    assert model.decode(model.encode(X), constraints=differ(0, 1))[0].status == "optimal"


def test_spans_under_rules(corpus):
    for name in ("crf", "perceptron"):
        model = MODELS[name]().fit(corpus)
        (spans,) = model.predict_spans(corpus.X[:1], constraints=[at_least(3, "VP"), "scheme"])
        assert sum(span.type == "VP" for span in spans) >= 3


def test_rules_in_a_cascade(corpus):
    table = builtin_corpus(30, random_state=0, columns=["word", "pos", "chunk"])
    layers = [
        ("pos", labelwright.CRF(template="words")),
        ("chunk", labelwright.CRF(template="words")),
    ]
    cascade = labelwright.Cascade(layers, passing="best", n_jobs=1).fit(table)
    some, rules = table.take([0, 1]), {"chunk": ["scheme", at_least(3, "VP")]}
    records = cascade.decode(some, constraints=rules)
    assert all(len(chunks(d.labels, "VP")) >= 3 for d in records["chunk"])
    spans = cascade.predict_spans(some, constraints=rules)
    assert [sum(span.type == "VP" for span in row) for row in spans["chunk"]] == [
        len(chunks(d.labels, "VP")) for d in records["chunk"]
    ]
    assert all(span.probability is not None for row in spans["chunk"] for span in row)
    assert spans["pos"] == [[], []]
    with pytest.raises(
        OptionError, match=r"^decoder marginal: rules are for the decoders viterbi and exact$"
    ):
        cascade.decode(some, "marginal", constraints=rules)
    for rows in cascade.predict_nbest(some, 3, constraints=rules)["chunk"]:
        assert all(len(chunks(labels, "VP")) >= 3 for labels, _ in rows)
    marginals = cascade.predict_marginals(some, constraints={"chunk": forbid("B-NP")})
    assert all(row["B-NP"] == 0 for sentence in marginals["chunk"] for row in sentence)


def test_rules_go_to_the_layers_that_can_keep_them():
    table = builtin_corpus(20, random_state=0, columns=["word", "pos", "chunk"])
    layers = [
        ("pos", labelwright.Perceptron("words")),
        ("chunk", labelwright.SemiCRF("words", max_iter=2)),
    ]
    cascade = labelwright.Cascade(layers, passing="best", n_jobs=1).fit(table)
    some = table.take([0, 1])
    for d in cascade.decode(some, constraints={"pos": exactly(1, "NN")})["pos"]:
        assert d.labels.count("NN") == 1
    for spans in cascade.predict_spans(some, constraints={"chunk": [at_least(1, "VP")]})["chunk"]:
        assert any(span.type == "VP" for span in spans)


def test_what_taggers_refuse(corpus):
    model = MODELS["crf"]().fit(corpus)
    X, rule = corpus.X[:2], at_least(1, "VP")
    for asked, message in [
        ({"decoder": "marginal"}, "decoder marginal: rules are for the decoders viterbi and exact"),
        ({"n": 5}, "decoding with rules: no option 'n'"),
        ({"constraints": at_least(1, "QQ")}, "no label or chunk type 'QQ'"),
        ({"constraints": agree(0, 99)}, "position 99 is outside sentence 0"),
        (
            {"constraints": at_least(99, "VP")},
            r"sentence 0: no labelling satisfies at_least\(99, 'VP'\)",
        ),
        ({"constraints": 5}, "expected rules"),
    ]:
        with pytest.raises(OptionError, match=message):
            model.decode(X, **{"constraints": rule, **asked})
    with pytest.raises(OptionError, match="constraints: expected 'scheme' here"):
        model.scored(X, constraints=[rule])
    forced = [["O"] * len(s) for s in X]
    with pytest.raises(OptionError, match="sentence 0: no labelling satisfies at_least"):
        model.decode(X, constraints=rule, forced=forced)


def test_an_empty_sentence_has_an_empty_labelling(corpus):
    model = MODELS["crf"]().fit(corpus)
    found = model.decode([[], corpus.X[0]], constraints=at_least(1, "VP"))
    assert (found[0].labels, found[0].exact) == ([], True)


# -- n-gram taggers --------------------------------------------------------------------------------


def test_n_gram_taggers_under_rules():
    corpus = builtin_corpus(40, random_state=0)
    tagger = labelwright.MemoryTagger(n_jobs=1).fit(corpus)
    assert tagger.decode([[]], constraints=only(0, "NP"))[0].labels == []
    spans = tagger.predict_spans(corpus.X[:5], constraints=at_most(0, "NP"))
    assert not [span for sentence in spans for span in sentence if span.type == "NP"]
    assert [
        span
        for sentence in tagger.predict_spans(corpus.X[:5])
        for span in sentence
        if span.type == "NP"
    ]


def test_a_tagger_that_widens_has_one_clock_and_diagnoses_once(monkeypatch):
    calls = []

    def counted(cp, model, time_limit):
        calls.append(time_limit)
        return SEARCH(cp, model, time_limit)

    monkeypatch.setattr(solver, "search", counted)
    monkeypatch.setattr(product, "MOST_ARCS", -1)
    tagger = labelwright.MemoryTagger(ngram=1, n_jobs=1).fit([["a", "b"]], [["B-X", "B-Y"]])
    found = tagger.decode(
        [["a", "b"]], constraints=[only(0, "B-Y"), *[at_most(9, "X")] * 20], time_limit=60.0
    )
    assert found[0].labels == ["B-Y", "B-Y"]
    assert len(calls) == 2  # candidates, then all labels
    assert calls[1] < calls[0] <= 60.0


def test_who_is_late_hears_the_limit_that_was_given(monkeypatch):
    answers = iter([solver.Answer("infeasible", bool), solver.Answer("unknown", bool)])
    monkeypatch.setattr(solver, "search", lambda *_: next(answers))
    monkeypatch.setattr(product, "MOST_ARCS", -1)
    tagger = labelwright.MemoryTagger(ngram=1, n_jobs=1).fit([["a", "b"]], [["B-X", "B-Y"]])
    with pytest.raises(OptionError, match=r"in time_limit=7\.5 seconds; raise time_limit"):
        tagger.decode([["a", "b"]], constraints=only(0, "B-Y"), time_limit=7.5)
