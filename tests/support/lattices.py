"""Small random lattices, and all paths of a lattice with their scores, one by one."""

from itertools import pairwise

import numpy as np
import oracles
from hypothesis import strategies as st

from labelwright import FeatureLattice

LABELS = ["A", "B", "C"]
NAMES = ["u", "v", "w", "x"]


@st.composite
def lattices(draw, n_labels=3, most_nodes=5, most_arcs=9):
    """A lattice with a path from node to node, further arcs in any order (parallel ones, too), and
    values."""
    n_nodes = draw(st.integers(2, most_nodes))
    pairs = [(v, v + 1) for v in range(n_nodes - 1)]
    sources = draw(st.lists(st.integers(0, n_nodes - 2), max_size=most_arcs))
    pairs += [(u, draw(st.integers(u + 1, n_nodes - 1))) for u in sources]
    features = st.one_of(
        st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
        st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1.0, -0.5, 2.0]), max_size=3),
    )
    arcs = [(u, v, draw(st.sampled_from(LABELS[:n_labels])), draw(features)) for u, v in pairs]
    return FeatureLattice(draw(st.permutations(arcs)))


def random_lattices(n, seed, n_labels=3, most_nodes=7, most_arcs=12):
    """The same without hypothesis, and a path of each."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        n_nodes = int(rng.integers(2, most_nodes + 1))
        pairs = [(v, v + 1) for v in range(n_nodes - 1)]
        for u in rng.integers(0, n_nodes - 1, int(rng.integers(most_arcs))).tolist():
            pairs.append((u, int(rng.integers(u + 1, n_nodes))))
        arcs = [
            (
                u,
                v,
                LABELS[rng.integers(n_labels)],
                {
                    name: float(rng.choice([1.0, 1.0, 2.0, -0.5]))
                    for name in NAMES
                    if rng.random() < 0.4
                },
            )
            for u, v in pairs
        ]
        X.append(FeatureLattice([arcs[i] for i in rng.permutation(len(arcs))]))
        paths = all_paths(X[-1])
        y.append(list(paths[rng.integers(len(paths))]))
    return X, y


def all_paths(lattice):
    """Every path, as a tuple of numbers of arcs."""
    ways, paths = [((), 0)], []
    while ways:
        way, node = ways.pop()
        if node == lattice.n_nodes - 1:
            paths.append(way)
        ways += [
            ((*way, i), arc.target) for i, arc in enumerate(lattice.arcs) if arc.source == node
        ]
    return paths


class Enumerated:
    """All paths of a lattice under a model, by the names of features, the best first."""

    def __init__(self, model, lattice):
        weights = {(feature, label): weight for feature, label, weight in model.state_features_}
        pairs = {
            (source, target): weight for source, target, weight, _ in model.transition_features_
        }
        scored = []
        for path in all_paths(lattice):
            arcs = [lattice.arcs[i] for i in path]
            total = 0.0
            for arc in arcs:
                values = (
                    arc.features
                    if isinstance(arc.features, dict)
                    else dict.fromkeys(arc.features, 1.0)
                )
                total += sum(
                    weights.get((name, arc.label), 0.0) * value for name, value in values.items()
                )
            total += sum(pairs.get((a.label, b.label), 0.0) for a, b in pairwise(arcs))
            scored.append((total, path))
        scored.sort(key=lambda pair: -pair[0])
        self.scores, self.paths = (
            np.array([score for score, _ in scored]),
            [path for _, path in scored],
        )
        self.log_z = oracles.log_sum(self.scores)
        self.p = np.exp(self.scores - self.log_z)
        self.arcs = np.zeros(len(lattice))
        for path, p in zip(self.paths, self.p, strict=True):
            self.arcs[list(path)] += p

    def entropy(self):
        return -float(self.p @ (self.scores - self.log_z))
