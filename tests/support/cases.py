"""Lattices that the tests of sums, paths and decoders share: drawn ones of both orders, and some
that are hard."""

import numpy as np
import oracles
from drawn import drawn
from hypothesis import HealthCheck, example, settings
from hypothesis import strategies as st
from oracles import Scores

from labelwright.corpus.spans import Span, spans_of
from labelwright.structures.states import assembled, state_space

SCALES = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4, 1e5]
LABELS = ["O", "B-X", "I-X", "B-Y"]
LABEL_SETS = st.integers(1, 4).map(lambda n: LABELS[:n])

picky = settings(suppress_health_check=[HealthCheck.filter_too_much])
few, many = drawn(150, picky), drawn(300, picky)


class Case:
    """Scores on a state space; unpacks into what a decoder takes, the lattice and the space."""

    def __init__(self, scores, space):
        self.scores, self.space = scores, space
        self.lattice = scores.lattice(space.graph)

    def __iter__(self):
        return iter((self.lattice, self.space))

    def __repr__(self):
        return (
            f"Case({self.scores}, labels={self.space.labels}, first={self.space.first}, "
            f"arc={self.space.arc})"
        )

    @property
    def graph(self):
        return self.space.graph

    @property
    def paths(self):
        return oracles.Enumerated(self.scores)

    @property
    def truth(self):
        return oracles.Labellings(self.scores, self.space.first)

    @property
    def size(self):
        """The largest sum of finite scores, which decides how many digits are left."""
        return 1 + len(self.scores.node) * self.scores.largest

    @property
    def digits(self):
        """What rounding may change in a log weight."""
        return 2e-13 * (4 + self.size) + 1e-11

    def codes(self, labels):
        return [self.space.labels.index(label) for label in labels]


@st.composite
def cases(
    draw,
    max_paths=300_000,
    max_tokens=6,
    labels=LABEL_SETS,
    most_latent=3,
    orders=(1, 2),
):
    """Lattices of every kind: real, tied or flat scores of any size, with and without forbidden
    entries, arcs for each token or for all, the same or different numbers of states, and of order 2
    with pairs that the graph lacks."""
    names = draw(labels)
    L, order = len(names), draw(st.sampled_from(orders))
    one = st.integers(1, most_latent)
    sizes = draw(st.one_of(one.map(lambda n: [n] * L), st.lists(one, min_size=L, max_size=L)))
    S = sum(sizes)
    longest = max_tokens if S == 1 else min(max_tokens, int(np.log(max_paths) / np.log(S)))
    T = draw(st.integers(1, longest))
    scale = draw(st.sampled_from(SCALES))
    kind = draw(st.sampled_from(["real", "real", "tied", "flat", "nothing"]))
    forbidden = draw(st.sampled_from([0.0, 0.0, 0.1, 0.4]))
    by_token = draw(st.tuples(st.booleans(), st.booleans()))
    missing = draw(st.sampled_from([0.0, 0.0, 0.3]))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    shapes = [(T, S), (T if by_token[0] else 1, S, S), (T if by_token[1] else 1, S, S, S)][
        : order + 1
    ]
    if kind == "real":
        found = [random.normal(size=shape) * scale for shape in shapes]
    elif kind == "tied":
        found = [random.integers(-1, 2, size=shape) * scale for shape in shapes]
    else:
        found = [np.full(shape, scale if kind == "flat" else 0.0) for shape in shapes]
    for x in found:
        x[random.random(x.shape) < forbidden] = -np.inf
    space = state_space(names, sizes, order)
    if missing and order == 2:
        start, arc = random.random(L) >= missing, random.random((L, L)) >= missing  # [L], [L, L]
        start[0] = arc[0, 0] = True
        space = without(space, start, arc)
        found[0][0, ~space.start] = -np.inf
        found[1][:, ~space.arc] = -np.inf
    return Case(Scores(*found), space)


def without(space, start, arc):
    """A space of order 2 with only those first labels [L] and pairs of labels [L, L]: the graph
    lacks the others."""
    of = space.label_of
    return assembled(space.labels, space.first, start[of], arc[np.ix_(of, of)], space.end, 2)


# --- what looks hopeless and is not ---------------------------------------------------------------


def _all_orders(node, transitions, labels, sizes):
    """These node scores [T, S] where only some transitions [S, S] are possible: by the arcs of
    order 1, by those of order 2, by the triples of order 2; with arcs for all tokens and for
    each."""
    T, S = node.shape
    arc = np.where(transitions, 0.0, -np.inf)[None]  # [1, S, S]
    # [1, S, S, S]
    triple = np.where(transitions[:, :, None] & transitions[None, :, :], 0.0, -np.inf)[None]
    space = state_space(labels, sizes, 2)
    found = []
    for n in (1, T):
        found.append(Case(Scores(node, arc.repeat(n, 0)), state_space(labels, sizes)))
        found.append(Case(Scores(node, arc, np.zeros((n, S, S, S))), space))
        found.append(Case(Scores(node, np.zeros((1, S, S)), triple.repeat(n, 0)), space))
    return found


def _late(low, tokens, lost):
    """Two latent paths of label A that never meet: the one that looks lost at first is the better
    one in the end."""
    node = np.zeros((tokens, 3))
    node[:lost, 1] = low
    node[lost:, 0] = low
    node[:, 2] = 0.9 * low
    return _all_orders(node, np.eye(3) > 0, ["A", "B"], [2, 1])


def _apart(low, tokens):
    """No way leads from one label to the other, and one of them looks hopeless throughout."""
    node = np.tile([0.0, -1.0, low, low - 1], (tokens, 1))
    return _all_orders(node, np.kron(np.eye(2), np.ones((2, 2))) > 0, ["A", "B"], [2, 2])


# What is too small for scaled numbers at one token must not be lost: it may win later, or be the
# second best.
VANISHING = [
    *_late(-290.0, 7, 3),
    *_late(-790.0, 3, 1),
    *_late(-400.0, 5, 2),
    *_apart(-250.0, 5),
    *_apart(-90.0, 6),
]

# The same with one state for each label, for numbers of 64 and of 32 bits.
LATE64 = _all_orders(
    np.array([[0.0, -800.0], [-500.0, 0.0], [-500.0, 0.0]]), np.eye(2) > 0, ["O", "B-X"], 1
)
LATE32 = _all_orders(np.array([[0.0, -100.0], *[[-40.0, 0.0]] * 3]), np.eye(2) > 0, ["O", "B-X"], 1)


def examples(cases, *more):
    """Adds these cases, with more arguments, to the drawn ones of a test."""

    def decorate(test):
        for case in cases:
            test = example(case, *more)(test)
        return test

    return decorate


def hard(tokens, seed=0, scale=0.7, labels=4, latent=3, order=1):
    """A lattice on which the bound is loose: weak scores, many latent states."""
    random = np.random.default_rng(seed)
    S = labels * latent
    shapes = [(tokens, S), (tokens, S, S), (tokens, S, S, S)][: order + 1]
    scores = Scores(*(random.normal(size=shape) * scale for shape in shapes))
    return Case(scores, state_space([f"l{i}" for i in range(labels)], latent, order))


def chunks(labels: list[str], kind: str) -> list[Span]:
    """The chunks of a type in a labelling."""
    return [span for span in spans_of(labels) if span.type == kind]
