"""The linear map from weights to rows of scores and its adjoint, against a dense matrix."""

import numpy as np
import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from labelwright.corpus.offsets import offsets_from
from labelwright.features.incidence import NO_VALUES, Incidence
from labelwright.learn.rows import FeatureRows
from labelwright.parallel import Workers
from labelwright.scoring.parameters import Cells


class Case:
    """Features of a few tokens, by keys and of their own: the map, and its dense matrix [T, width,
    W]."""

    def __init__(self, seed, n_tokens, width, values):
        """`values`: "none" (all are one), "given", "flags" (zeros and ones) or "slots" (they are
        passed from below)."""
        self.rng, F, K = np.random.default_rng(seed), 5, 4
        self.width, self.values = width, values
        self.cells = self._cells(F)
        # -1 at the end
        keys = np.sort(self.rng.integers(-1, K, (n_tokens, 3)), axis=1)[:, ::-1].astype(np.int32)
        on_keys, on_tokens = self._lists(K, F), self._lists(n_tokens, F)
        n = len(on_tokens[1])
        value = {"given": self.rng.normal(size=n), "flags": self.rng.integers(0, 2, n) * 1.0}.get(
            values, NO_VALUES
        )
        self.below = np.append(self.rng.normal(size=6), 1.0)  # the last never changes: slot -1
        self.slots = self.rng.integers(-1, 6, n) if values == "slots" else None
        self.incidence = Incidence(keys.copy(), *on_keys, *on_tokens, value)
        cut = int(self.rng.integers(0, n_tokens + 1))
        self.shards = [(0, cut), (cut, n_tokens)]
        self.rows = FeatureRows(
            self.incidence, F, self.cells, width, self.shards, np.float64, self.slots
        )
        self.weights = self.rng.normal(size=len(self.cells.column))
        self.residual = self.rng.normal(size=(n_tokens, width))

    def _lists(self, n_owners, n_features):
        sizes = self.rng.integers(0, 4, n_owners)
        return offsets_from(sizes), self.rng.integers(0, n_features, sizes.sum()).astype(np.int32)

    def _cells(self, n_features):
        """Some features have a weight in every column and are dense, others in one or in none."""
        chosen = self.rng.random((n_features, self.width)) < self.rng.choice(
            [0.0, 0.1, 0.5, 1.0], (n_features, 1)
        )
        return Cells(offsets_from(chosen.sum(axis=1)), np.nonzero(chosen)[1].astype(np.int32))

    def matrix(self, below):
        x, matrix = self.incidence, np.zeros((*self.residual.shape, len(self.weights)))
        passed = None if self.slots is None else below[self.slots]
        value = {"none": np.ones(len(x.token_feature)), "slots": passed}.get(
            self.values, x.token_value
        )
        for t in range(len(matrix)):
            pairs = [
                (f, 1.0)
                for k in x.keys[t]
                if k >= 0
                for f in x.key_feature[x.key_ptr[k] : x.key_ptr[k + 1]]
            ]
            pairs += [
                (x.token_feature[i], value[i]) for i in range(x.token_ptr[t], x.token_ptr[t + 1])
            ]
            for f, v in pairs:
                for c in range(self.cells.ptr[f], self.cells.ptr[f + 1]):
                    matrix[t, self.cells.column[c], c] += v
        return matrix

    def scores(self, below):
        """Rows of scores [T, width]."""
        rows = np.full_like(self.residual, np.nan)
        workers = Workers(1)
        self.rows.begin(self.weights, workers)
        for a, b in self.shards:
            self.rows.score(self.weights, a, b, rows[a:b], below)
        return rows

    def gradient(self):
        """The adjoint of the scores, of the residual rows [W]."""
        gradient = np.zeros_like(self.weights)
        self.rows.clear()
        for shard, (a, b) in enumerate(self.shards):
            for function, *arguments in self.rows.adding(
                shard, self.residual[a:b], gradient, self.below
            ):
                function(*arguments)
        workers = Workers(1)
        self.rows.finish(gradient, workers)
        return gradient


def cases(*values):
    """Rows of a width at which features with many weights are dense and those with one are
    sparse."""
    return st.builds(
        Case,
        st.integers(0, 10**6),
        st.integers(1, 6),
        st.sampled_from([4, 12]),
        st.sampled_from(values),
    )


@drawn(100)
@given(cases("none", "given", "flags", "slots"))
def test_the_map_is_its_matrix_and_the_adjoint_its_transpose(case):
    matrix = case.matrix(case.below)
    scores, gradient = case.scores(case.below), case.gradient()
    np.testing.assert_allclose(scores, matrix @ case.weights, atol=1e-12)
    np.testing.assert_allclose(gradient, np.tensordot(case.residual, matrix, 2), atol=1e-12)
    assert np.vdot(scores, case.residual) == pytest.approx(case.weights @ gradient, abs=1e-10)


@drawn(50)
@given(cases("slots"), st.integers(0, 7))
def test_the_gradient_of_passed_values_is_that_of_finite_differences(case, n_slots):
    """Of the first n slots; what stands behind them never changes, and has no gradient."""
    case.scores(case.below)
    gradient = np.zeros(n_slots)
    for a, b in case.shards:
        case.rows.value_gradient(case.weights, a, b, case.residual[a:b], gradient)
    for slot in range(n_slots - (n_slots == len(case.below))):
        step = np.zeros_like(case.below)
        step[slot] = 0.5  # the scores are linear in the values: any step will do
        difference = case.scores(case.below + step) - case.scores(case.below - step)
        assert gradient[slot] == pytest.approx(np.vdot(difference, case.residual), abs=1e-10)


def test_features_of_value_zero_cost_nothing():
    case = Case(0, 6, 12, "flags")
    lists = case.rows.token_cells, case.rows.token_rows
    assert not any(len(x.value) for x in lists)  # all that are left are one
    ones = case.incidence.token_value == 1
    sizes = np.diff(case.cells.ptr)[case.incidence.token_feature[ones]]
    assert len(lists[0].cell) + len(lists[1].row) <= sizes.sum()


@pytest.mark.parametrize("values", ["none", "given", "flags", "slots"])
def test_both_dense_and_sparse_features_are_drawn(values):
    rows = [Case(seed, 6, 12, values).rows for seed in range(20)]
    for lists in ("token_rows", "key_rows", "token_cells", "key_cells"):
        assert any(len(getattr(x, lists)[1]) for x in rows), lists


def test_only_passed_values_have_a_gradient():
    case, gradient = Case(0, 4, 4, "given"), np.zeros(3)
    case.scores(case.below)
    case.rows.value_gradient(case.weights, 0, 4, case.residual, gradient)
    assert not gradient.any()
