"""Users' own rules: judged, and solved by CP-SAT, against enumeration of all labellings."""

import itertools
import math
import pickle
import sys
from functools import reduce

import numpy as np
import pytest
from cases import Case, cases, chunks, hard
from drawn import drawn
from drawn_rules import lattices_with_rules, some_rules
from hypothesis import given
from hypothesis import strategies as st
from oracles import Scores

from labelwright.constraints import (
    Sentence,
    agree,
    at_least,
    at_most,
    differ,
    exactly,
    forbid,
    implies,
    linear,
    only,
    soft,
    valid_scheme,
)
from labelwright.corpus.schemes import validate
from labelwright.corpus.spans import spans_of
from labelwright.errors import OptionError
from labelwright.rules import lattices, product, solver
from labelwright.rules.lattices import solve_lattice
from labelwright.rules.rules import bind, split_constraints
from labelwright.rules.solver import solve_candidates
from labelwright.structures.lattice import best_path
from labelwright.structures.proposals import Problem
from labelwright.structures.states import state_space

LABELS = ("O", "B-X", "I-X", "B-Y", "I-Y")
SEARCH = solver.search


# -- what each rule means --------------------------------------------------------------------------


def sentence(T, labels=LABELS, **more):
    return Sentence([list(labels)] * T, tuple(labels), **more)


WORDS = ["In", "1990", "she", "7"]
AT_X = {"B-X", "I-X"}

# A rule, and what it says of a labelling of four tokens.
MEANING = [
    (at_least(1, "X"), lambda y: len(chunks(y, "X")) >= 1),
    (at_most(1, "X"), lambda y: len(chunks(y, "X")) <= 1),
    (exactly(2, "Y"), lambda y: len(chunks(y, "Y")) == 2),
    (exactly(2, "I-Y"), lambda y: y.count("I-Y") == 2),
    (at_least(2, ["B-X", "B-Y"]), lambda y: y.count("B-X") + y.count("B-Y") >= 2),
    (exactly(1, ["X", "Y"]), lambda y: len(spans_of(y)) == 1),
    (at_least(1, "X", at=slice(1, 3)), lambda y: any(s.start in (1, 2) for s in chunks(y, "X"))),
    (at_most(0, "O", at=[0, -1]), lambda y: y[0] != "O" and y[3] != "O"),
    (at_most(0, "X", at=str.isdigit), lambda y: not any(s.start in (1, 3) for s in chunks(y, "X"))),
    (agree(0, 2), lambda y: y[0] == y[2]),
    (agree([(0, 2), (1, -1)]), lambda y: y[0] == y[2] and y[1] == y[3]),
    (agree(0, 1, 2), lambda y: y[0] == y[1] == y[2]),
    (agree(0, 3, types=True), lambda y: y[0][1:] == y[3][1:]),
    (differ(0, 1, 2), lambda y: len(set(y[:3])) == 3),
    (differ(1, 2, types=True), lambda y: y[1][1:] != y[2][1:]),
    (valid_scheme("iob2"), lambda y: not validate([y], "iob2")),
    (valid_scheme("iob1"), lambda y: not validate([y], "iob1")),
    (valid_scheme(), lambda y: not validate([y], "iob2")),
    (forbid("I-X"), lambda y: "I-X" not in y),
    (forbid("X"), lambda y: not AT_X & set(y)),
    (forbid("I-X", after="O"), lambda y: ("O", "I-X") not in itertools.pairwise(y)),
    (forbid("I-X", at=0), lambda y: y[0] != "I-X"),
    (
        forbid("Y", after="X"),
        lambda y: not any(y[s.start - 1] in AT_X for s in chunks(y, "Y") if s.start),
    ),
    (
        forbid("X", after="X"),
        lambda y: not any(y[s.start - 1] in AT_X for s in chunks(y, "X") if s.start),
    ),
    (only(0, ["O", "B-X"]), lambda y: y[0] in ("O", "B-X")),
    (only(str.isdigit, "X"), lambda y: y[1] in AT_X and y[3] in AT_X),
    (
        implies(at_least(1, "X"), at_least(1, "Y")),
        lambda y: not chunks(y, "X") or bool(chunks(y, "Y")),
    ),
    (at_least(1, "X") | exactly(4, "O"), lambda y: bool(chunks(y, "X")) or y == ["O"] * 4),
    (at_least(1, "X") & ~agree(0, 3), lambda y: bool(chunks(y, "X")) and y[0] != y[3]),
    (~valid_scheme("iob2"), lambda y: bool(validate([y], "iob2"))),
    (
        linear([(1, None, "B-X"), (-2, None, "B-Y")], ">=", 0),
        lambda y: y.count("B-X") >= 2 * y.count("B-Y"),
    ),
    (linear([(0.1, 0, "O"), (0.2, 1, "O")], "<", 0.3), lambda y: y[:2] != ["O", "O"]),
    (linear([(1, None, "X")], "==", 1), lambda y: len(chunks(y, "X")) == 1),
    (linear([(1, None, "X")], "!=", 1), lambda y: len(chunks(y, "X")) != 1),
    (linear([(2, None, ["O", "I-X"])], ">", 5), lambda y: y.count("O") + y.count("I-X") > 2),
    (linear([(1, None, "O")], "<=", 1.5), lambda y: y.count("O") <= 1),
    (
        linear(lambda s: [(len(word), t, "O") for t, word in enumerate(s.words)], "<=", 4),
        lambda y: sum(len(word) for word, label in zip(WORDS, y, strict=True) if label == "O") <= 4,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "meaning"), MEANING, ids=lambda x: repr(x) if not callable(x) else ""
)
def test_a_rule_judges_labellings_and_the_solver_finds_just_those(rule, meaning):
    four = sentence(4, tokens=WORDS)
    every = [list(y) for y in itertools.product(LABELS, repeat=4)]
    right = [y for y in every if meaning(y)]
    assert 0 < len(right) < len(every)
    assert [y for y in every if rule.satisfied(y, four)] == right
    # Labellings one by one: each is possible in the solver just where it is right.
    random = np.random.default_rng(0)
    for n in random.choice(len(every), 12, replace=False):
        factors = [((t,), (label,), 1.0) for t, label in enumerate(every[n])]
        found = solve_candidates(Problem([list(LABELS)] * 4, factors), rule, words=WORDS)
        assert meaning(found.labels)
        assert (found.score == 4) == meaning(every[n])
        priced = solve_candidates(
            Problem([[label] for label in every[n]], []), soft(rule, 2), labels=LABELS, words=WORDS
        )
        assert priced.cost == (0 if meaning(every[n]) else 2)


def test_rules_are_shown_as_they_were_written_and_survive_a_pickle():
    rule = implies(at_least(1, "X", at=slice(2)), forbid("Y", after=["O"]) | ~agree(0, 1))
    assert repr(rule) == (
        "implies(at_least(1, 'X', at=slice(None, 2, None)), (forbid('Y', after=['O']) | ~agree(0, "
        "1)))"
    )
    assert (
        repr(soft(linear([(1, None, "X")], "<", 2), 0.5))
        == "soft(linear([(1, None, 'X')], '<', 2), 0.5)"
    )
    again = pickle.loads(pickle.dumps(rule))
    assert again == rule
    assert again.satisfied(["O", "B-X"]) == rule.satisfied(["O", "B-X"])


def test_a_labelling_can_be_judged_without_a_tagger():
    assert not at_least(1, "VP").satisfied(["B-NP", "I-NP"])
    assert at_most(0, "B-VP").satisfied(["B-NP", "I-NP"])
    assert exactly(2, "NP").satisfied(["B-NP", "B-NP"])


def test_a_function_of_the_sentence_makes_rules():
    def repeated(s):
        return [
            agree(a, b)
            for a, b in itertools.combinations(range(len(s)), 2)
            if s.words[a] == s.words[b]
        ]

    one = sentence(3, tokens=["a", "b", "a"])
    assert [name for name, _ in bind(repeated, one).hard] == ["agree(0, 2)"]
    assert [(name, w) for name, _, w in bind([soft(repeated, 3)], one).soft] == [
        ("agree(0, 2)", 3.0)
    ]
    assert bind(lambda s: None, one) == bind([], one) == ([], [])
    assert [name for name, _ in bind(["iob2", lambda s: at_least(1, "X")], one).hard] == [
        "valid_scheme('iob2')",
        "at_least(1, 'X')",
    ]


def test_constraints_are_split_into_a_scheme_and_rules():
    rule = at_least(1, "X")
    assert split_constraints(None) == (None, [])
    assert split_constraints("scheme") == ("scheme", [])
    assert split_constraints(rule) == (None, [rule])
    assert split_constraints(["scheme", rule]) == ("scheme", [rule])
    with pytest.raises(OptionError, match="one label scheme, got 'iob1' and 'iob2'"):
        split_constraints(["iob1", "iob2"])


def test_a_position_named_twice_is_one_token():
    assert differ(0, -1).satisfied(["B-X"])
    assert not at_least(2, "B-X", at=[0, 0, -2]).satisfied(["B-X", "O"])
    assert at_most(1, "X", at=[0, -1]).satisfied(["B-X"])


def test_a_scheme_of_labels_that_are_all_outside():
    assert valid_scheme().satisfied(["O", "O"])


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: at_least(-1, "X"), r"at_least\(-1, 'X'\): expected a whole number, 0 or more"),
        (lambda: at_least("1", "X"), "expected a whole number"),
        (lambda: at_least(1, []), "expected a label, a chunk type, or a list"),
        (lambda: at_least(1, "X", at="0"), "expected positions"),
        (lambda: only(1.5, "X"), "expected positions"),
        (lambda: agree(3), r"two positions or more, agree\(3, 7\)"),
        (lambda: agree([3, 7]), "two positions or more"),
        (lambda: linear([(1, None, "X")], "=", 1), "expected one of >= <="),
        (lambda: linear([(1, "X")], "==", 1), r"terms \(coefficient, positions, labels\)"),
        (lambda: linear([("a", None, "X")], "==", 1), "expected a number, got 'a'"),
        (lambda: linear([(1, None, "X")], "==", float("nan")), "expected a number, got nan"),
        (lambda: soft(at_least(1, "X"), 0), "expected a weight above 0, got 0"),
        (lambda: soft(soft(at_least(1, "X"), 1), 1), "cannot be part of another"),
        (lambda: ~soft(at_least(1, "X"), 1), "cannot be part of another"),
        (
            lambda: reduce(lambda rule, _: ~(rule & agree(0, 1)), range(51), agree(1, 2)),
            "than 100 operators within",
        ),
        (lambda: soft([at_least(1, "X")] * 2, 1), "expected one rule"),
        (lambda: valid_scheme("nonsense"), "scheme: got 'nonsense'"),
        (
            lambda: bind(5, sentence(2)),
            "expected rules, functions of the sentence, or 'scheme', got 5",
        ),
        (
            lambda: bind(at_least(1, "Z"), sentence(2)),
            r"no label or chunk type 'Z'.*chunk types X, Y",
        ),
        (lambda: bind(at_least(1, "Z", at=[]), sentence(2)), "no label or chunk type 'Z'"),
        (lambda: bind(only(0, "B-Z"), sentence(2)), "no label or chunk type 'B-Z'"),
        (lambda: bind(forbid("X", after="Z"), sentence(2)), "no label or chunk type 'Z'"),
        (
            lambda: bind(agree(0, 7), sentence(2, number=4)),
            "position 7 is outside sentence 4 of 2 tokens; .*function",
        ),
        (
            lambda: bind(only(str.isdigit, "X"), sentence(2)),
            "reads the words; give the sentences themselves",
        ),
        (lambda: bind(valid_scheme(), sentence(2, ("N", "V"))), "follow no chunk scheme"),
        (
            lambda: bind(lambda s: agree(0, s.nothing), sentence(2, number=3)),
            "sentence 3: <lambda>: AttributeError",
        ),
        (
            lambda: bind(soft(lambda s: soft(agree(0, 1), 1), 1), sentence(2)),
            "use one or the other",
        ),
        (
            lambda: bind(linear([(1e-9, 0, "O"), (1e9, 1, "O")], ">", 0), sentence(2)),
            "fewer digits",
        ),
    ],
)
def test_mistakes_are_named_in_one_line(make, message):
    with pytest.raises(OptionError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


# -- random rules ----------------------------------------------------------------------------------


@st.composite
def problems(draw):
    """Candidates of a few tokens, factors on one to three of them, and rules."""
    T = draw(st.integers(1, 5))
    domain = st.lists(st.sampled_from(LABELS), min_size=1, max_size=4, unique=True)
    domains = draw(st.lists(domain, min_size=T, max_size=T))
    weight = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.floats(-10, 10))
    factors = []
    for _ in range(draw(st.integers(0, 12))):
        first, n = draw(st.integers(0, T - 1)), draw(st.integers(1, 3))
        positions = tuple(range(first, min(T, first + n)))
        names = tuple(draw(st.sampled_from([*domains[t], "O"])) for t in positions)
        factors.append((positions, names, draw(weight)))
    return Problem(domains, factors), draw(some_rules([*LABELS, "X", "Y"], T))


def worth(problem, y):
    return sum(
        w
        for ts, names, w in problem.factors
        if all(y[t] == name for t, name in zip(ts, names, strict=True))
    )


@pytest.mark.slow
@drawn(250)
@given(problems())
def test_candidates_against_enumeration(drawn):
    problem, rules = drawn
    bound = bind(rules, Sentence(problem.domains, LABELS))
    values = {
        y: worth(problem, y) - bound.cost(y)
        for y in itertools.product(*problem.domains)
        if bound.satisfied(y)
    }
    if not values:
        with pytest.raises(OptionError, match="sentence 0: no labelling satisfies"):
            solve_candidates(problem, rules, labels=LABELS)
        return
    found = solve_candidates(problem, rules, labels=LABELS)
    assert found.status == "optimal"
    assert bound.satisfied(found.labels)
    assert found.score == pytest.approx(worth(problem, found.labels), abs=1e-12)
    assert found.cost == bound.cost(found.labels)
    assert found.score - found.cost == pytest.approx(max(values.values()), abs=1e-8)


@drawn(60)
@given(problems())
def test_without_rules_or_with_true_ones_candidates_are_maximised(drawn):
    problem, _ = drawn
    best = max(worth(problem, y) for y in itertools.product(*problem.domains))
    for rules in ([], at_least(0, "X"), at_most(9, "X"), linear([], ">=", 0)):
        assert solve_candidates(problem, rules, labels=LABELS).score == pytest.approx(
            best, abs=1e-8
        )


def values_of(case, bound, by_sums):
    """{labels: weight, by sum or by best path, less the price} of all labellings that keep the
    rules."""
    truth, first = case.truth, case.space.first
    weights = truth.weights
    if not by_sums:
        best = truth.path_scores
        for t in range(truth.T):
            best = np.maximum.reduceat(best, first[:-1], axis=t)
        weights = best.reshape(-1)
    found = {}
    for codes, weight in zip(truth.labellings.tolist(), weights.tolist(), strict=True):
        y = tuple(case.space.labels[code] for code in codes)
        if weight > -np.inf and bound.satisfied(y):
            found[y] = weight - bound.cost(y)
    return found


def check_lattice(case, rules, by_sums):
    bound = bind(rules, Sentence(lattices.candidates_of(*case), case.space.labels))
    values = values_of(case, bound, by_sums)
    if not values:
        with pytest.raises(OptionError, match="sentence 0: no labelling satisfies"):
            solve_lattice(*case, rules, sums=by_sums)
        return None
    found = solve_lattice(*case, rules, sums=by_sums)
    assert bound.satisfied(found.labels)
    value = values[tuple(found.labels)]
    assert found.score - bound.cost(found.labels) == pytest.approx(value, abs=10 * case.digits)
    if found.status == "optimal":
        assert value >= max(values.values()) - 1e-8 * case.size
    return found


@drawn(150)
@given(lattices_with_rules(most_latent=1))
def test_lattices_against_enumeration(drawn):
    case, rules = drawn
    found = check_lattice(case, rules, by_sums=False)
    if found is not None:
        assert (found.status, found.exact, found.gap) == ("optimal", True, 0.0)
        at = case.truth.at(case.codes(found.labels))
        assert found.log_probability == pytest.approx(
            case.truth.weights[at] - case.truth.log_z, abs=10 * case.digits
        )


@pytest.mark.cases(1)
@pytest.mark.parametrize("few", [(), (1,), (3,)], ids=["none", "one", "three"])
@drawn(80)
@given(lattices_with_rules(most_latent=2))
def test_flows_through_lattices_against_enumeration(few, drawn):
    """CP-SAT does the work: no, or hardly any, paths are listed before."""
    case, rules = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattices, "N_BEST", few)
        patch.setattr(product, "MOST_ARCS", -1)
        patch.setattr(lattices, "FIRST_BEST", ())
        found = check_lattice(case, rules, by_sums=False)
    if found is not None:
        assert found.status == "optimal"


@pytest.mark.slow
@pytest.mark.parametrize("few", [(), (2,), (1, 20)], ids=["none", "two", "twenty"])
@pytest.mark.parametrize("order", [1, 2])
def test_close_calls_against_enumeration(order, few, monkeypatch):
    """Scores near each other, and prices of their size: an answer that comes too soon is a wrong
    one."""
    monkeypatch.setattr(lattices, "N_BEST", few)
    monkeypatch.setattr(product, "MOST_ARCS", -1)
    monkeypatch.setattr(lattices, "FIRST_BEST", ())
    for seed in range(25):
        random = np.random.default_rng(seed)
        case = hard(5, seed, labels=3, latent=1 + seed % 2, order=order)
        hard_rules = [
            exactly(int(random.integers(1, 5)), "l0"),
            agree(*random.choice(5, 2, replace=False).tolist()),
        ]
        prices = random.random(3) * 2
        kinds = [exactly(3, "l1"), differ(0, 4), forbid("l2", after="l0")]
        soft_rules = [soft(rule, float(price)) for rule, price in zip(kinds, prices, strict=True)]
        for rules in (hard_rules, soft_rules, [hard_rules[0], *soft_rules]):
            assert check_lattice(case, rules, by_sums=False).status == "optimal"


@drawn(120)
@given(lattices_with_rules(most_latent=3))
def test_latent_lattices_against_enumeration(drawn):
    case, rules = drawn
    found = check_lattice(case, rules, by_sums=True)
    if found is not None:
        # there are few labellings: all are looked at
        assert (found.status, found.exact) == ("optimal", True)


@drawn(80)
@given(lattices_with_rules(most_latent=3))
def test_latent_lattices_with_too_few_labellings_claim_nothing_wrong(drawn):
    case, rules = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lattices, "N_BEST_SUMS", (1, 2))
        found = check_lattice(case, rules, by_sums=True)
    if found is None:
        return
    assert found.status in ("optimal", "limit")
    bound = bind(rules, Sentence(lattices.candidates_of(*case), case.space.labels))
    values = values_of(case, bound, True)
    best = max(values.values())
    if found.exact:
        assert values[tuple(found.labels)] >= best - 1e-8 * case.size
    elif found.gap is not None:
        most = max(math.exp(min(0, w - case.truth.log_z)) for w in values.values())
        assert math.exp(found.log_probability) + found.gap >= most * (1 - 1e-9)


@drawn(60)
@given(cases(max_paths=3000, most_latent=1), st.booleans())
def test_rules_that_always_hold_change_nothing(case, flow):
    if not case.truth.possible:
        return
    with pytest.MonkeyPatch.context() as patch:
        if flow:
            patch.setattr(lattices, "N_BEST", ())
            patch.setattr(product, "MOST_ARCS", -1)
            patch.setattr(lattices, "FIRST_BEST", ())
        found = solve_lattice(*case, [at_least(0, case.space.labels[0]), linear([], "<=", 0)])
    assert found.score == pytest.approx(best_path(case.lattice)[1], abs=1e-8 * case.size)


@pytest.mark.parametrize("method", ["automaton", "solver"])
def test_a_rule_far_from_the_best_labellings(method, monkeypatch):
    """A long sentence whose thousand best labellings differ in a token or two: the rule wants
    ten."""
    if method == "solver":
        monkeypatch.setattr(product, "MOST_ARCS", -1)
        monkeypatch.setattr(lattices, "FIRST_BEST", ())
    random = np.random.default_rng(1)
    T = 30
    node = random.normal(size=(T, 4)) + np.array([3.0, 0, 0, 0])
    space = state_space(["O", "B-X", "I-X", "B-Y"])
    case = Case(Scores(node, np.zeros((1, 4, 4))), space)
    found = solve_lattice(*case, exactly(10, "B-Y"))
    gains = np.sort(node[:, 3] - node[:, :3].max(axis=1))[::-1]
    assert (found.status, found.method, found.labels.count("B-Y")) == ("optimal", method, 10)
    assert found.score == pytest.approx(node[:, :3].max(axis=1).sum() + gains[:10].sum(), abs=1e-9)


# -- limits ----------------------------------------------------------------------------------------


def test_rules_that_contradict_each_other_are_named():
    problem = Problem([["O", "B-X"]] * 3, [])
    rules = [at_most(9, "X"), exactly(2, "O"), at_least(1, "O"), agree(0, 1, 2)]
    with pytest.raises(
        OptionError,
        match=r"^sentence 7: no labelling satisfies exactly\(2, 'O'\) and agree\(0, 1, 2\) "
        r"together; make one of them soft\(rule, weight\), or leave it out",
    ):
        solve_candidates(problem, rules, number=7)
    with pytest.raises(
        OptionError, match=r"no labelling satisfies at_least\(1, 'Y'\); make it soft"
    ):
        solve_candidates(problem, [agree(0, 1), at_least(1, "Y")], labels=LABELS)
    case = hard(4, latent=1)
    with pytest.raises(
        OptionError, match=r"satisfies at_least\(5, 'l0'\); make it soft\(rule, weight\), or leave"
    ):
        solve_lattice(*case, [at_least(5, "l0"), at_most(9, "l1")])
    with pytest.raises(OptionError, match=r"satisfies only\(0, 'l1'\) and forbid\('l1'\) together"):
        solve_lattice(*case, [only(0, "l1"), agree(1, 2), forbid("l1")])


def test_the_best_labelling_is_taken_where_it_keeps_the_rules(monkeypatch):
    problem = Problem([["A", "B"]] * 2, [((0, 1), ("A", "B"), 1.5)])
    monkeypatch.setattr(solver, "search", None)
    found = solve_candidates(problem, [at_least(1, "B"), soft(differ(0, 1), 1)], best=["A", "B"])
    assert found == (["A", "B"], 1.5, "optimal", 0.0)


def stopped(status):
    """CP-SAT as if it had been stopped by the clock."""

    def search(cp, model, time_limit):
        assert time_limit is not None
        found = SEARCH(cp, model, None)
        return found._replace(status=status) if found.status == "optimal" else found

    return search


def test_a_time_limit_is_reported(monkeypatch):
    problem, case = Problem([["A", "B"]] * 2, [((0,), ("A",), 1.0)]), hard(8, latent=1)
    rules = exactly(8, "l3") | exactly(7, "l2")
    monkeypatch.setattr(solver, "search", stopped("time limit"))
    assert solve_candidates(problem, agree(0, 1), time_limit=5).status == "time limit"
    monkeypatch.setattr(lattices, "N_BEST", (1,))
    # which needs no time to speak of
    assert solve_lattice(*case, rules, time_limit=5).method == "automaton"
    monkeypatch.setattr(product, "MOST_ARCS", -1)
    monkeypatch.setattr(lattices, "FIRST_BEST", ())
    found = solve_lattice(*case, rules, time_limit=5)
    assert (found.status, found.exact) == ("time limit", False)
    assert found.gap > 0
    monkeypatch.setattr(solver, "search", stopped("unknown"))
    for solve, what in (
        (solve_candidates, (problem, agree(0, 1))),
        (solve_lattice, (*case, rules)),
    ):
        with pytest.raises(
            OptionError, match="no labelling that satisfies the rules in time_limit=5 seconds"
        ):
            solve(*what, time_limit=5)
    with pytest.raises(OptionError, match="time_limit: expected 0 seconds or more"):
        solve_candidates(problem, [], time_limit=-1)


def test_without_or_tools_automata_do_and_otherwise_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    rule = exactly(2, "l1") & exactly(6, "l2")
    assert solve_lattice(*hard(8, latent=1), rule).method == "automaton"
    with pytest.raises(OptionError, match=r"satisfies exactly\(9, 'l1'\); make it soft"):
        solve_lattice(*hard(8, latent=1), [exactly(9, "l1"), at_least(1, "l2")])
    monkeypatch.setattr(product, "MOST_ARCS", -1)
    monkeypatch.setattr(lattices, "FIRST_BEST", ())
    monkeypatch.setattr(lattices, "N_BEST", (1,))
    for solve in (
        lambda: solve_candidates(Problem([["A"]], []), []),
        lambda: solve_lattice(*hard(8, latent=1), rule),
    ):
        with pytest.raises(
            OptionError,
            match=r"these rules need OR-Tools.*pip install 'labelwright\[constraints\]'",
        ):
            solve()


def test_factors_are_checked():
    for factor in [((2,), ("A",), 1.0), ((0, 1), ("A",), 1.0), ((0,), ("A",), math.inf)]:
        with pytest.raises(OptionError, match="sentence 0: expected factors"):
            solve_candidates(Problem([["A"]] * 2, [factor]), [])
    with pytest.raises(OptionError, match="token 1 has no candidate label"):
        solve_candidates(Problem([["A"], []], []), [])
    assert solve_candidates(Problem([], []), []) == ([], 0.0, "optimal", 0.0)
