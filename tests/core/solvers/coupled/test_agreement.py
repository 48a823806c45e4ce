"""Invariances of the solvers, and their agreement with scikit-learn's support vector machines."""

import threading
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.cases import for_each

from manylabel_core.solvers import CachedRows, DualResult, solve_kernel_dual, solve_linear_dual
from manylabel_core.solvers.coupled import linear_sides, loop
from manylabel_core.solvers.coupled._active import is_active
from manylabel_core.solvers.coupled.kernel_dual import KernelSide
from manylabel_core.solvers.coupled.linear_sides import DenseSide

TIGHT = {"tol": 1e-7, "max_iter": 20_000}
COMPARED = {"tol": 1e-6, "max_iter": 20_000}
"""Optima as near as `same_optimum` asks for."""
N, D, L = 300, 40, 5


@cache
def data() -> tuple[sp.csr_matrix, np.ndarray]:
    """Sparse rows, more than one block of them; rare and frequent labels; most pairs settle at a bound."""
    rng = np.random.default_rng(2)
    X = sp.random(N, D, 0.1, "csr", rng=rng, data_rvs=lambda size: rng.exponential(size=size))
    scores = X @ rng.normal(size=(D, L)) + 0.1 * rng.normal(size=(N, L))
    return X, np.where(scores > np.quantile(scores, [0.98, 0.9, 0.6, 0.5, 0.05], axis=0).diagonal(), 1, -1)


@cache
def coupling(coupled: bool) -> np.ndarray:
    if not coupled:
        return np.diag([1.0, 2.0, 0.5, 1.0, 1.0])
    A = np.random.default_rng(1).normal(size=(L, L))
    return A @ A.T / L + 0.1 * np.eye(L)


def gram(dtype: type = np.float64) -> np.ndarray:
    return (data()[0] @ data()[0].T).toarray().astype(dtype)


class ComputedRows:
    """A Gram matrix that counts how often its rows are asked for."""

    def __init__(self, K: np.ndarray) -> None:
        self.K = K
        self.asked = np.zeros(len(K), int)
        self.most = 0

    def rows(self, block: np.ndarray) -> np.ndarray:
        self.asked[block] += 1
        self.most = max(self.most, len(block))
        return self.K[block]

    def diagonal(self) -> np.ndarray:
        return self.K.diagonal()


def same_optimum(one: DualResult, other: DualResult, rel: float = 1e-6) -> None:
    assert one.converged
    assert other.converged
    assert one.dual == pytest.approx(other.dual, rel=rel)
    assert one.primal == pytest.approx(other.primal, rel=rel)


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_kernel_dense_and_sparse_have_one_optimum(coupled, equality):
    X, Y = data()
    options = {"equality": equality, **TIGHT}
    kernel = solve_kernel_dual(gram() + 0.25, Y, coupling(coupled), 2.0, **options)
    for matrix in (X, X.toarray()):
        linear = solve_linear_dual(matrix, Y, coupling(coupled), 2.0, bias_feature=0.5, **options)
        same_optimum(kernel, linear)
        np.testing.assert_allclose(X @ linear.Z + linear.bias, kernel.F + kernel.bias, atol=1e-3)


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("few", [0.0, 1.0])
def test_visits_to_active_pairs_and_to_blocks_lead_to_one_optimum(coupled, few, monkeypatch):
    """Either alone does, even without the last resort for few points; by default they take turns."""
    X, Y = data()
    mixed = solve_linear_dual(X, Y, coupling(coupled), 2.0, bias_feature=1.0, **TIGHT)
    monkeypatch.setattr(linear_sides, "FEW", few)
    monkeypatch.setattr(loop, "ALONE", 0)
    same_optimum(mixed, solve_linear_dual(X, Y, coupling(coupled), 2.0, bias_feature=1.0, **TIGHT))


@for_each("y", [-1, 1])
@for_each("slope", [-0.5, -0.001, 0.001, 0.5])
@for_each(("a", "settled"), [(0.0, -0.5), (1.0, None), (2.0, 0.5)])
def test_only_pairs_well_settled_at_a_bound_are_not_visited(a, settled, slope, y):
    assert is_active(y * slope, y * a, y, 2.0) == (slope != settled)


@pytest.mark.parametrize("n_labels", [5, 20])
def test_visits_to_nearly_equal_labels_do_not_overshoot(n_labels, monkeypatch):
    """Labels that answer to the same residual without hearing of each other would, each by itself, answer in full."""
    monkeypatch.setattr(linear_sides, "FEW", 1.0)
    X, Y = data()[0], np.tile(data()[1][:, 2:3], (1, n_labels))
    result = solve_linear_dual(X, Y, np.full((n_labels, n_labels), 0.99) + 0.01 * np.eye(n_labels), 0.2)
    assert result.converged
    assert result.n_iter < 20
    assert (np.diff([step.objective for step in result.trace]) > 0).all()


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_threads_do_not_change_the_optimum(coupled, equality):
    X, Y = data()
    for solve, M in ((solve_kernel_dual, gram()), (solve_linear_dual, X), (solve_linear_dual, X.toarray())):
        one, three = (solve(M, Y, coupling(coupled), 2.0, equality=equality, n_threads=n, **COMPARED) for n in (1, 3))
        same_optimum(one, three)
        assert three.alpha.shape == Y.shape


@pytest.mark.parametrize("solve", [solve_kernel_dual, solve_linear_dual])
@pytest.mark.parametrize("coupled", [False, True])
def test_independent_labels_are_shared_out_among_threads(solve, coupled, monkeypatch):
    sweeps: set[tuple[int, bool]] = set()
    for side in (KernelSide, DenseSide):

        def sweep(self, *args, sweep=side.sweep):
            sweeps.add((self.B.shape[1], threading.current_thread() is threading.main_thread()))
            sweep(self, *args)

        monkeypatch.setattr(side, "sweep", sweep)
    solve(gram(), data()[1], coupling(coupled), 2.0, n_threads=2, max_iter=2)
    assert {labels for labels, _ in sweeps} == ({L} if coupled else {2, 3})
    assert coupled or not any(in_main for _, in_main in sweeps)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("equality", [False, True])
def test_computed_rows_are_as_good_as_a_gram_matrix(equality, n_threads):
    Y, options = data()[1], {"equality": equality, "n_threads": n_threads}
    for coupled in (False, True):
        stored = solve_kernel_dual(gram(), Y, coupling(coupled), 2.0, **options, **COMPARED)
        source = ComputedRows(gram())
        computed = solve_kernel_dual(source, Y, coupling(coupled), 2.0, **options, **COMPARED)
        same_optimum(stored, computed)
        assert source.most <= 256, "rows asked for at once bound the memory"
        # The dual falls by at least |K^(1/2) (B - B*) S^(1/2)|^2 / 2 from its maximum, and F = K B S.
        distance = sum(np.sqrt(2 * each.absolute_gap) for each in (stored, computed))
        reach = np.sqrt(np.outer(np.diag(gram()), np.diag(coupling(coupled))))
        assert (np.abs(stored.F - computed.F) <= distance * reach).all()


@pytest.mark.parametrize("kept", [0, 1, 120, N])
def test_cached_rows_are_computed_once(kept):
    K, Y = gram(np.float32), data()[1]
    source = ComputedRows(K)
    cached = CachedRows(source, max_bytes=kept * K[0].nbytes + 7)
    result = solve_kernel_dual(cached, Y, coupling(True), 2.0, tol=1e-4)
    direct = solve_kernel_dual(ComputedRows(K), Y, coupling(True), 2.0, tol=1e-4)
    np.testing.assert_array_equal(result.alpha, direct.alpha)
    assert (source.asked == 1).sum() >= kept
    assert source.asked.sum() == cached.computed
    if kept == N:
        assert (source.asked == 1).all()


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize(("c", "tol", "separable"), [(2.0, 2e-5, False), (1e4, 1e-3, True)])
def test_single_precision_data_reach_their_gap(c, tol, separable, coupled, equality):
    """Reported objectives hold in double precision, even when the gap is too small for single precision.

    It is where the labels can be separated, so that hardly any loss is left, and c is large.
    """
    X, Y = data()
    S, options = coupling(coupled), {"equality": equality, "tol": tol, "max_iter": 5000}
    if separable:
        X, Y = sp.hstack([X[:100], np.random.default_rng(4).normal(size=(100, 100))], "csr"), Y[:100]
    single = X.astype(np.float32)
    K = (single @ single.T).toarray()
    for result in (
        solve_kernel_dual(K, Y, S, c, **options),
        solve_linear_dual(single, Y, S, c, **options),
        solve_linear_dual(single.toarray(), Y, S, c, **options),
    ):
        B = Y * result.alpha
        F = K.astype(np.float64) @ B @ S if result.F is not None else single.astype(np.float64) @ result.Z
        dual = result.alpha.sum() - (B * F).sum() / 2
        primal = (B * F).sum() / 2 + c * least_hinge(F, Y, equality)
        assert result.converged
        assert result.dual == pytest.approx(dual, rel=tol / 10)
        assert result.primal == pytest.approx(primal, rel=tol / 10)
        assert primal - dual <= 1.1 * tol * primal
        assert (result.primal < 1e-3 * c * Y.size) == separable


def least_hinge(F: np.ndarray, Y: np.ndarray, free_bias: bool) -> float:
    """The hinge loss at the best biases, which are among the kinks."""
    biases = Y - F if free_bias else np.zeros((1, Y.shape[1]))
    return sum(
        np.maximum(0, 1 - Y[:, label] * (F[:, label] + biases[:, label, None])).sum(axis=1).min() for label in range(L)
    )


@for_each("stop", [{"max_iter": 3}, {"progress": lambda step: step.iteration == 3}])
@for_each("coupled", [False, True])
def test_weights_are_those_of_the_variables_wherever_it_stops(coupled, stop):
    X, Y = data()
    for matrix in (X.astype(np.float32), X.astype(np.float32).toarray()):
        result = solve_linear_dual(matrix, Y, coupling(coupled), 2.0, bias_feature=0.5, tol=1e-4, **stop)
        assert not result.converged
        B = Y * result.alpha
        np.testing.assert_allclose(result.Z, matrix.astype(np.float64).T @ B @ coupling(coupled), atol=1e-12)
        np.testing.assert_allclose(result.bias, 0.25 * B.sum(axis=0) @ coupling(coupled), atol=1e-12)


@pytest.mark.parametrize("matrix", [sp.csr_matrix, sp.csr_matrix.toarray])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_start_may_bring_its_weights_before_coupling(matrix, dtype, monkeypatch):
    """They are those of the start, not of what single precision has reached when the gap asks for double."""
    X, Y = matrix(data()[0].astype(dtype)), data()[1]
    first = solve_linear_dual(X, Y, coupling(True), 2.0, bias_feature=0.5, tol=1e-2)
    B = Y * first.alpha
    if dtype == np.float32:
        np.testing.assert_allclose(first.V, np.vstack([X.T.astype(np.float64) @ B, 0.5 * B.sum(axis=0)]), atol=1e-12)
    monkeypatch.setattr(loop.Loop, "_is_fine", lambda self: len(self.trace) == 2)
    S, options = coupling(True) + np.eye(L), {"bias_feature": 0.5, "tol": 1e-3}
    known = solve_linear_dual(X, Y, S, 2.0, alpha0=first.alpha, V0=first.V, **options)
    assert known.n_iter > 2
    same_optimum(known, solve_linear_dual(X, Y, S, 2.0, alpha0=first.alpha, **options), rel=1e-3)
    np.testing.assert_allclose(known.Z, X.T.astype(np.float64) @ (Y * known.alpha) @ S, atol=1e-6)


@pytest.mark.parametrize("c", [2.0, 1e4])
def test_single_precision_can_be_forced(c):
    """Its gap may then stay open, and says so."""
    X, Y = data()
    result = solve_linear_dual(X, Y, coupling(True), c, tol=1e-4, max_iter=100, dtype=np.float32)
    F = X.astype(np.float32).astype(np.float64) @ result.Z
    quadratic = (Y * result.alpha * F).sum()
    primal = quadratic / 2 + c * least_hinge(F, Y, False)
    assert result.converged == (c == 2.0)
    assert result.gap == pytest.approx((primal - result.alpha.sum() + quadratic / 2) / primal, rel=0.05)


def test_rows_of_other_matrix_types_are_accepted():
    X, Y = data()
    expected = solve_linear_dual(X, Y, coupling(True), 2.0)
    messy = X.tocoo()
    twice = sp.coo_matrix(
        (np.tile(messy.data / 2, 2), (np.tile(messy.row, 2), np.tile(messy.col, 2))), shape=X.shape
    ).tocsr()
    twice.indices, twice.indptr = twice.indices.astype(np.int64), twice.indptr.astype(np.int64)
    for matrix in (X.tocsc(), sp.csr_array(X), messy, twice):
        np.testing.assert_allclose(solve_linear_dual(matrix, Y, coupling(True), 2.0).alpha, expected.alpha)
    integers = (X.toarray() > 0).astype(np.int64)
    assert solve_linear_dual(integers, Y, coupling(True), 2.0).converged
