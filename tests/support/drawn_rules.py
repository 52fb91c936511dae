"""Rules of every kind, drawn at random, on drawn lattices."""

from cases import cases
from hypothesis import strategies as st

from labelwright.constraints import (
    agree,
    at_least,
    at_most,
    differ,
    exactly,
    forbid,
    forbid_pattern,
    implies,
    linear,
    once,
    only,
    require,
    require_pattern,
    soft,
)


@st.composite
def some_rules(draw, labels, T):
    """One to four rules, hard and soft, over these labels and so many tokens."""
    label, place, n = st.sampled_from(sorted(labels)), st.integers(-T, T - 1), st.integers(0, 3)
    coefficient = st.sampled_from([-2, -1, -0.5, 0.25, 1, 3])
    single = st.one_of(label, label.map("!{}".format), label.map("({} | . .)".format), st.just("."))
    item = st.one_of(
        single, st.builds("{}{}".format, single, st.sampled_from("?*+")), st.just("...")
    )
    pattern = st.builds(
        lambda first, items, last: " ".join([*first, *items, *last]),
        st.sampled_from([[], ["^"]]),
        st.lists(item, min_size=1, max_size=3),
        st.sampled_from([[], ["$"]]),
    )
    plain = st.one_of(
        st.builds(at_least, n, label),
        st.builds(at_most, n, label),
        st.builds(exactly, n, label),
        st.builds(agree, place, place),
        st.builds(differ, place, place),
        st.builds(forbid, label, label),
        st.builds(once, label),
        st.builds(at_most, n, label, runs=st.just(True)),
        st.builds(require, label, after=label),
        st.builds(require, label, before=label),
        st.builds(forbid_pattern, pattern),
        st.builds(require_pattern, pattern),
        st.builds(only, place, st.lists(label, min_size=1, max_size=3)),
        st.builds(
            linear,
            st.lists(st.tuples(coefficient, place, label), max_size=4),
            st.sampled_from([">=", "<=", "==", "!=", "<", ">"]),
            st.sampled_from([-1, 0, 0.5, 1]),
        ),
    )
    joined = st.one_of(
        plain,
        plain,
        st.builds(implies, plain, plain),
        st.builds(lambda a, b: a | b, plain, plain),
        st.builds(lambda a: ~a, plain),
    )
    weight = st.sampled_from([0.1, 0.7, 2.0, 50.0])
    return draw(
        st.lists(st.one_of(joined, st.builds(soft, joined, weight)), min_size=1, max_size=4)
    )


@st.composite
def lattices_with_rules(draw, **limits):
    case = draw(cases(max_paths=3000, max_tokens=5, **limits))
    kinds = {label[2:] for label in case.space.labels if label != "O"}
    return case, draw(some_rules([*case.space.labels, *kinds], len(case.scores.node)))
