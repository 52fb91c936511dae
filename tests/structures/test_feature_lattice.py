"""Lattices of a user's own: what is read, what is refused, and their graphs with transitions."""

import lattices
import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from labelwright import FeatureLattice
from labelwright.errors import CorpusError
from labelwright.structures import dag
from labelwright.structures.feature_lattice import LatticeArcs, graphs_of

ARCS = [
    (0, 1, "w", ["a"]),
    (1, 2, "w", ["b"]),
    (0, 2, "w", {"ab": 2.0}),
    (0, 2, "w", []),
    (0, 2, "v"),
]


def test_paths_by_numbers_and_by_ends():
    lattice = FeatureLattice(ARCS)
    assert (len(lattice), lattice.n_nodes, repr(lattice)) == (
        5,
        3,
        "FeatureLattice(5 arcs, 3 nodes)",
    )
    assert lattice.path([0, np.int64(1)]) == lattice.path([(0, 1, "w"), [1, 2, "w"]]) == [0, 1]
    assert lattice.path([lattice.arcs[4]]) == lattice.path([4]) == [4]
    assert lattice.ends([0, 1]) == [(0, 1, "w"), (1, 2, "w")]
    assert lattice.labels([4]) == ["B-v", "I-v"]
    assert lattice.labels([0, 1], scheme="bioes") == ["S-w", "S-w"]
    assert FeatureLattice([]).path([]) == []


@pytest.mark.parametrize(
    ("arcs", "n_nodes", "error"),
    [
        (
            [(0, 1, "w"), (1, 0, "w")],
            None,
            "arc 1 leads from node 1 to node 0; number the nodes in topological order",
        ),
        ([(1, 1, "w")], None, "arc 0 leads from node 1 to node 1"),
        ([(0, 1)], None, r"arc 0: expected \(source, target, label, features\), got \(0, 1\)"),
        ([5], None, "arc 0: expected .*, got 5"),
        (
            [("a", 1, "w")],
            None,
            "arc 0: expected two nodes, whole numbers from 0 on, got 'a' and 1",
        ),
        ([(-1, 1, "w")], None, "arc 0: expected two nodes"),
        (
            [(0, 1 << 64, "w")],
            None,
            "arc 0: expected nodes below 2,147,483,647, got 18446744073709551616; number the",
        ),
        (
            [(10**5000, 10**5001, "w")],
            None,
            "arc 0: expected nodes below 2,147,483,647, got a value of type int",
        ),
        (
            [(0, -(10**5000), "w")],
            None,
            "arc 0: expected two nodes, .* got 0 and a value of type int",
        ),
        (
            [(-(10**5000), 1, "w")],
            None,
            "arc 0: expected two nodes, .* got a value of type int and 1",
        ),
        (
            [(0, 1, "w")],
            1 << 64,
            "n_nodes: expected a whole number above 1, the largest node, got 18446744073",
        ),
        ([(0, 1, 7)], None, "arc 0: expected a string as label, got 7"),
        (
            [(0, 1, "w", "text")],
            None,
            "arc 0: expected a dict or a list of features, got the string 'text'",
        ),
        (
            [(0, 1, "w"), (2, 3, "w")],
            None,
            "no path leads from node 0 to the last node, 3; .* is node 1: add arcs",
        ),
        ([(0, 1, "w")], 3, "no path leads from node 0 to the last node, 2"),
        ([(0, 4, "w")], 3, "n_nodes: expected a whole number above 4, the largest node, got 3"),
    ],
)
def test_what_is_no_lattice(arcs, n_nodes, error):
    with pytest.raises(CorpusError, match=error):
        FeatureLattice(arcs, n_nodes)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ([0], "the path ends at node 1, expected the last node, 2"),
        ([1], r"arc 1, \(1, 2, 'w'\), begins at node 1, expected node 0"),
        ([9], "no arc 9, expected a number of 0 to 4"),
        ([(0, 2, "x")], r"no arc \(0, 2, 'x'\) in the lattice; add it"),
        ([(0, 2, "w")], r"arcs 2 and 3 are both \(0, 2, 'w'\); give a number"),
        (["ab"], r"expected the number of an arc, or \(source, target, label\), got 'ab'"),
        ([None], "expected the number of an arc"),
    ],
)
def test_what_is_no_path(path, error):
    with pytest.raises(CorpusError, match=error):
        FeatureLattice(ARCS).path(path)


def arcs_of(X, labels=lattices.LABELS):
    every = [arc for lattice in X for arc in lattice.arcs]
    source, target = (np.array([arc[i] for arc in every]) for i in (0, 1))
    label = np.array(
        [labels.index(arc.label) if arc.label in labels else len(labels) for arc in every]
    )
    offsets = np.concatenate([[0], np.cumsum([len(lattice) for lattice in X])])
    return LatticeArcs(source, target, label, offsets, np.array([lattice.n_nodes for lattice in X]))


@drawn(60)
@given(X=st.lists(lattices.lattices(), min_size=1, max_size=3), transitions=st.booleans())
def test_a_graph_has_the_paths_of_its_lattice(X, transitions):
    arcs = arcs_of(X, lattices.LABELS[:2])  # C is unknown
    graphs = graphs_of(arcs, 2 if transitions else None)
    for n, lattice in enumerate(X):
        graph, own = graphs.dag(n), slice(*graphs.ptr[n : n + 2])
        arc, pair = graphs.arc[own], graphs.pair[own]
        dag.dag(graph.source, graph.target, graph.n_nodes)  # in topological order
        paths, _ = dag.best_paths(graph, np.zeros(len(arc)), 10_000)
        assert not transitions or all(
            (arc[path] < 0).tolist() == [False, True] * (len(path) // 2) + [False] for path in paths
        )
        found = [tuple(a - arcs.offsets[n] for a in arc[path].tolist() if a >= 0) for path in paths]
        assert sorted(found) == sorted(lattices.all_paths(lattice))
        for path in paths:
            labels = arcs.label[arc[path][arc[path] >= 0]]
            assert (
                not transitions
                or pair[path[1::2]].tolist() == (labels[:-1] * 3 + labels[1:]).tolist()
            )


@pytest.mark.parametrize("n_labels", [None, 3])
def test_gaps_between_the_numbers_of_nodes_change_no_graph(n_labels):
    close = [
        FeatureLattice([(0, 1, "A"), (1, 3, "B"), (0, 3, "A"), (1, 2, "B")]),
        FeatureLattice([]),
    ]
    close.append(FeatureLattice([(0, 1, "B"), (1, 2, "A")]))
    far = [
        FeatureLattice([(a * 10**8, b * 10**8, label) for a, b, label, _ in lattice.arcs])
        for lattice in close
    ]
    graphs, others = (graphs_of(arcs_of(X), n_labels) for X in (close, far))
    for part, other in zip(graphs, others, strict=True):
        np.testing.assert_array_equal(part, other)
    if n_labels is None:
        assert graphs.n_nodes.tolist() == [4, 1, 3]
        assert graphs.source.tolist() == [0, 0, 1, 1, 0, 1]
        assert graphs.target.tolist() == [1, 3, 3, 2, 1, 2]
