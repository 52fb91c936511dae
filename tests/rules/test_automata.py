"""Rules by automata: every answer under rules against enumeration, and the solver's optimum."""

import itertools

import numpy as np
import pytest
import segmentations
from cases import Case, hard
from drawn import drawn
from drawn_rules import lattices_with_rules
from hypothesis import given
from hypothesis import strategies as st
from oracles import Scores, log_sum

import labelwright
from labelwright.answers.chains import Chain, Chains
from labelwright.answers.ruled import RuledSentence
from labelwright.constraints import (
    agree,
    at_least,
    at_most,
    exactly,
    forbid,
    forbid_pattern,
    once,
    require,
    soft,
)
from labelwright.corpus import builtin_corpus
from labelwright.corpus.spans import Span, spans_of
from labelwright.errors import OptionError
from labelwright.rules import lattices, product
from labelwright.rules.formulas import Sentence
from labelwright.rules.lattices import solve_lattice
from labelwright.rules.rules import bind
from labelwright.structures import dag
from labelwright.structures.states import state_space


def chain_of(case, by_paths=False):
    node, arc, _ = case.lattice
    return Chain(Chains(node, arc, [(0, len(node))], case.space, "iob2", by_paths), 0)


def weights_under(case, rules):
    """{labels: log weight less the price} of all labellings that keep the rules, the best first."""
    names = case.space.labels
    bound = bind(rules, Sentence(lattices.candidates_of(*case), names))
    found = {}
    for codes, weight in zip(
        case.truth.labellings.tolist(), case.truth.weights.tolist(), strict=True
    ):
        y = tuple(names[code] for code in codes)
        if weight > -np.inf and bound.satisfied(y):
            found[y] = weight - bound.cost(y)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


# -- lattices --------------------------------------------------------------------------------------


@drawn(80)
@given(lattices_with_rules(most_latent=1))
def test_the_n_best_under_rules_against_enumeration(drawn):
    case, rules = drawn
    wanted = weights_under(case, rules)
    sentence = RuledSentence(chain_of(case), rules, None, -1)
    if not wanted:
        with pytest.raises(OptionError, match="sentence -1: no labelling satisfies"):
            sentence.best(3)
        return
    ranked = sentence.best(4)
    names = [tuple(case.space.labels[code] for code in codes) for codes in ranked.codes]
    assert len(set(names)) == len(names) == min(4, len(wanted))
    values = [wanted[y] for y in names]
    assert values == pytest.approx(list(wanted.values())[:4], abs=10 * case.digits)
    for y, weight in zip(names, ranked.weights, strict=True):
        assert weight - sentence.bound.cost(y) == pytest.approx(wanted[y], abs=10 * case.digits)


@drawn(80)
@given(lattices_with_rules(most_latent=2))
def test_sums_under_rules_against_enumeration(drawn):
    case, rules = drawn
    wanted = weights_under(case, rules)
    sentence = RuledSentence(chain_of(case), rules, None, -1)
    log_z = log_sum(list(wanted.values()))
    assert sentence.log_z() == pytest.approx(log_z, abs=10 * case.digits)
    if not wanted:
        return
    marginals, spans = np.zeros((len(sentence), len(case.space.labels))), {}
    for y, weight in wanted.items():
        p = np.exp(weight - log_z)
        for t, label in enumerate(y):
            marginals[t, case.space.labels.index(label)] += p
        for span in spans_of(y):
            spans[span[:3]] = spans.get(span[:3], 0.0) + p
        codes = np.array([case.space.labels.index(label) for label in y], np.int32)
        assert sentence.weight_of(codes) == pytest.approx(weight, abs=10 * case.digits)
    tolerance = max(1e-9, 10 * case.digits)
    np.testing.assert_allclose(sentence.marginals(), marginals, atol=tolerance)
    for (start, end, kind), p in itertools.islice(spans.items(), 3):
        assert sentence.span_probabilities([Span(start, end, kind)])[0] == pytest.approx(
            p, abs=tolerance
        )
    for codes in sentence.sample(5, np.random.default_rng(0)):
        assert tuple(case.space.labels[code] for code in codes) in wanted


@drawn(40)
@given(lattices_with_rules(most_latent=2), st.sampled_from([1e-7, 1e-2, 0.3, 0.9]))
def test_sums_of_what_is_probable_are_as_precise_as_they_say(drawn, share):
    case, rules = drawn
    wanted = weights_under(case, rules)
    log_z = log_sum(list(wanted.values()))
    sentence = RuledSentence(chain_of(case), rules, None, -1)
    made = sentence.paths._likely(share)
    kept = dag.sums(made.dag, made.score).log_z if len(made.arc) else -np.inf
    if not wanted:
        assert kept == -np.inf
    elif kept > -np.inf:
        assert 1 - 1e-6 <= np.exp(min(log_z - kept, 700.0)) <= 1 + made.error + 1e-6
    else:
        assert made.error > 1


@drawn(50)
@given(lattices_with_rules(most_latent=1))
def test_automata_and_the_solver_have_the_same_optimum(drawn):
    pytest.importorskip("ortools")
    case, rules = drawn
    found = {}
    for method, most in (("automaton", product.MOST_ARCS), ("solver", -1)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lattices, "FIRST_BEST", ())
            patch.setattr(lattices, "N_BEST", ())
            patch.setattr(product, "MOST_ARCS", most)
            try:
                found[method] = solve_lattice(*case, rules)
            except OptionError as error:
                found[method] = str(error)
                continue
        assert (found[method].method, found[method].status) == (method, "optimal")
    one, other = found.values()
    if isinstance(one, str):
        assert isinstance(other, str)
        return
    bound = bind(rules, Sentence(lattices.candidates_of(*case), case.space.labels))
    values = [d.score - bound.cost(d.labels) for d in (one, other)]
    assert values[0] == pytest.approx(values[1], abs=1e-8 * case.size)


def test_every_label_at_most_once_needs_only_the_rules_that_are_broken():
    """A state for every set of 40 labels would be too many."""
    random = np.random.default_rng(3)
    labels = [f"l{n}" for n in range(40)]
    case = Case(
        Scores(random.normal(size=(20, 40)), random.normal(size=(1, 40, 40)) * 0.3),
        state_space(labels),
    )
    found = solve_lattice(*case, once())
    runs = [label for label, _ in itertools.groupby(found.labels)]
    assert len(runs) == len(set(runs))
    assert (found.status, found.exact, found.method) == ("optimal", True, "automaton")
    with pytest.raises(
        OptionError,
        match="sentence 0: the rules leave too many possibilities in 20 tokens for prob",
    ):
        RuledSentence(chain_of(case), once(), None, 0).marginals()
    assert RuledSentence(chain_of(case), once("l1"), None, 0).marginals().sum() == pytest.approx(20)


def test_n_best_where_automata_are_too_large(monkeypatch):
    case = hard(6, labels=3, latent=1)
    wanted = RuledSentence(chain_of(case), [exactly(2, "l1")], None, 0).best(3).weights
    monkeypatch.setattr(product, "MOST_ARCS", -1)
    assert RuledSentence(chain_of(case), [exactly(2, "l1")], None, 0).best(
        3
    ).weights == pytest.approx(wanted)
    monkeypatch.setattr("labelwright.answers.ruled.LISTED", 1)
    with pytest.raises(
        OptionError, match="none of the 1 best labellings satisfies the rules; use decode"
    ):
        RuledSentence(chain_of(case), [agree(0, 1, 2, 3, 4, 5)], None, 0).best(1)


def test_n_best_of_latent_perceptrons_are_distinct_labellings():
    case = hard(5, labels=3, latent=2)
    ranked = RuledSentence(chain_of(case, by_paths=True), [once("l0")], None, 0).best(6)
    assert len({codes.tobytes() for codes in ranked.codes}) == 6
    assert ranked.weights == sorted(ranked.weights, reverse=True)


# -- segments --------------------------------------------------------------------------------------

RULES = {
    "types": [
        [once("X")],
        [at_least(1, "Y"), at_most(2, "X")],
        [forbid("X", after="X"), soft(at_least(2, "X"), 1.5)],
    ],
    "labels": [
        [once()],
        [once("N"), at_least(1, "V")],
        [forbid_pattern("N ... P"), require("V", after="N")],
    ],
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("scheme", ["iob2", "ioe2", "bioes", "io", None])
def test_segment_models_under_rules_against_enumeration(scheme):
    model = segmentations.random_model(scheme)
    for words in ([*segmentations.NEW], segmentations.X[0], ["a"]):
        truth = segmentations.Enumerated(model, words)
        for rules in RULES["labels" if scheme is None else "types"]:
            bound = bind(
                rules,
                Sentence(
                    [model.segments_.labels] * len(words), model.segments_.labels, scheme=scheme
                ),
            )
            wanted = {
                y: score - bound.cost(y)
                for y, score in zip(truth.labels, truth.scores.tolist(), strict=True)
                if bound.satisfied(y)
            }
            check_segments(model, words, rules, wanted, truth)


def check_segments(model, words, rules, wanted, truth):
    if not wanted:
        with pytest.raises(OptionError, match="sentence 0: no labelling satisfies"):
            model.decode([words], constraints=rules)
        return
    (found,) = model.decode([words], constraints=rules)
    assert wanted[tuple(found.labels)] == pytest.approx(max(wanted.values()), abs=1e-4)
    assert (found.status, found.method, found.exact) == ("optimal", "automaton", True)
    log_z = log_sum(list(wanted.values()))
    assert found.log_probability == pytest.approx(wanted[tuple(found.labels)] - log_z, abs=1e-4)
    (marginals,) = model.predict_marginals([words], constraints=rules)
    for t, row in enumerate(marginals):
        for label, p in row.items():
            share = sum(np.exp(value - log_z) for y, value in wanted.items() if y[t] == label)
            assert p == pytest.approx(share, abs=1e-4)
    (nbest,) = model.predict_nbest([words], 3, constraints=rules)
    values = sorted(wanted.values(), reverse=True)[:3]
    assert [wanted[tuple(labels)] for labels, _ in nbest] == pytest.approx(values, abs=1e-4)
    assert [p for _, p in nbest] == pytest.approx(np.exp(np.array(values) - log_z), abs=1e-4)
    for (spans,) in [model.predict_spans([words], constraints=rules)]:
        assert spans == model.span_probabilities([words], [spans], constraints=rules)[0]
        for span in spans:
            having = [
                value for y, value in wanted.items() if span[:3] in segments_of(model, truth, y)
            ]
            assert span.probability == pytest.approx(np.exp(log_sum(having) - log_z), abs=1e-4)


def segments_of(model, truth, y):
    """The segments of a labelling, as (start, end, type)."""
    return [tuple(segment) for segment in truth.segments[truth.labels.index(y)]]


def test_rules_that_are_too_large_for_segments_are_refused(monkeypatch):
    model = segmentations.random_model("iob2")
    monkeypatch.setattr(product, "MOST_ARCS", -1)
    with pytest.raises(
        OptionError, match="sentence 0: the automaton of the rules is too large for a segment model"
    ):
        model.decode([segmentations.NEW], constraints=once("X"))


@pytest.mark.parametrize("scheme", ["iob1", "ioe1"])
def test_labels_that_depend_on_neighbours_take_no_rules(scheme):
    model = segmentations.random_model(scheme)
    with pytest.raises(
        OptionError,
        match=f"constraints: in {scheme} the labels of a segment depend on its neighbours",
    ):
        model.decode([segmentations.NEW], constraints=once("X"))


# -- n-gram taggers --------------------------------------------------------------------------------


def test_n_gram_taggers_by_automata_and_by_the_solver(monkeypatch):
    pytest.importorskip("ortools")
    corpus = builtin_corpus(30, random_state=0)
    tagger = labelwright.MemoryTagger(n_jobs=1).fit(corpus)
    X, rules = corpus.X[:6], [once("VP"), at_least(1, "PP"), soft(forbid("NP", after="NP"), 0.5)]
    found = tagger.decode(X, constraints=rules)
    assert {d.method for d in found} == {"automaton"}
    monkeypatch.setattr(product, "MOST_ARCS", -1)
    others = tagger.decode(X, constraints=rules)
    assert {d.method for d in others} == {"solver"}
    for one, other in zip(found, others, strict=True):
        bound = bind(rules, Sentence([[]] * len(one.labels), tuple(tagger.labels_)))
        costs = [bound.cost(d.labels) for d in (one, other)]
        assert one.score - costs[0] == pytest.approx(other.score - costs[1], abs=1e-6)
    rows = tagger.predict_nbest(X[:1], 3)[0]
    monkeypatch.undo()
    assert [
        score for _, score in tagger.predict_nbest(X[:1], 3, constraints=at_least(0, "VP"))[0]
    ] == pytest.approx([score for _, score in rows])
