"""Every kernel also runs uncompiled, and what it gives is what the compiled one gives."""

import numpy as np
import pytest
from uncompiled import FOLDER, uncompiled

from labelwright.kernels import chain, dag, inference, perceptron, scoring, segments, tables
from labelwright.structures.states import state_space

RANDOM = np.random.default_rng(0)
SPACE = state_space(["O", "B-X", "I-X"], order=1)
BLOCKS, WIDTH, N_ARCS = SPACE.graph.blocks, SPACE.graph.width, SPACE.graph.n_arcs


def lattice(T):
    return RANDOM.normal(size=(T, WIDTH)), RANDOM.normal(size=(1, N_ARCS))


def messages():
    T = 5
    inputs = RANDOM.random((T, WIDTH)), RANDOM.random((1, N_ARCS)), BLOCKS
    outputs = [*np.zeros((3, T, WIDTH)), *np.zeros((2, T))]
    return (*inputs, np.arange(T), np.array([T]), *outputs, False)


def paths_of_a_graph():
    source = np.array([0, 0, 1, 1, 2], np.int32)
    target = np.array([1, 2, 2, 3, 3], np.int32)
    ends = np.array([0], np.int32), np.array([3], np.int32)
    return source, target, RANDOM.normal(size=5), *ends, *np.zeros((3, 4)), np.zeros(5)


def rows_of_segments():
    n_types, n_long, longest, T = 3, 2, 2, 4
    n_arcs = segments.before_transitions(n_types, n_long, longest, T)
    state = RANDOM.normal(size=(T, 3 * n_long + n_types))
    rows = RANDOM.normal(size=(segments.n_rows(longest, T), n_types))
    transition = RANDOM.normal(size=(n_types + 1, n_types + 1))
    shape = n_types, n_long, longest, T
    return state, 0, rows, 0, transition, *shape, np.zeros((T + 1, n_long)), np.zeros(n_arcs)


def owners_of_items():
    ptr = np.array([0, 2, 3, 5])
    items = np.array([1, 0, 1, 2, 0], np.int32)
    starts = np.zeros(4, np.int64)
    return ptr, items, starts, np.zeros(5, np.int32), np.zeros(5, np.int32)


def products_of_vectors():
    return RANDOM.normal(size=(4, 40)), np.array([0, 2, 3]), 0, 40, np.zeros((3, 4))


def places_of_entries():
    ptr = np.array([0, 2, 3])
    item = np.array([1, 0, 2], np.int32)
    place = np.array([2, 0, 1], np.int64)
    return ptr, item, np.array([0, -1]), place, np.arange(3, dtype=np.float32), np.zeros(4, "f")


CASES = [
    (chain, "messages_by_sentence", messages),
    (chain, "exponentiate64", lambda: (lattice(4)[0], np.zeros(4), WIDTH)),
    (dag, "posteriors", paths_of_a_graph),
    (dag, "posteriors_in_log_space", paths_of_a_graph),
    (inference, "viterbi", lambda: (*lattice(6), BLOCKS, np.zeros(6, np.int32))),
    (inference, "messages", lambda: (*lattice(6), BLOCKS, *np.zeros((2, 6, WIDTH)))),
    (perceptron, "lay_out", places_of_entries),
    (scoring, "dots", products_of_vectors),
    (segments, "arc_scores", rows_of_segments),
    (tables, "invert", owners_of_items),
]


NAMES = [f"{module.__name__.rpartition('.')[2]}.{name}" for module, name, _ in CASES]


@pytest.mark.parametrize(("module", "name", "arguments"), CASES, ids=NAMES)
def test_a_kernel_gives_the_same_uncompiled(module, name, arguments):
    given = arguments()
    copies = [each.copy() if isinstance(each, np.ndarray) else each for each in given]
    compiled = getattr(module, name)(*given)
    with np.errstate(all="ignore"):
        plain = getattr(uncompiled(module.__name__.rpartition(".")[2]), name)(*copies)
    assert plain == pytest.approx(compiled)
    for found, expected in zip(copies, given, strict=True):
        if isinstance(found, np.ndarray):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("[a-z]*.py")), ids=lambda file: file.stem)
def test_every_kernel_file_is_python(file):
    assert uncompiled(file.stem).__file__ == str(file)
