"""Problems that the solvers reject, with their messages, and the smallest problems that they accept."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.cases import for_each

from manylabel_core.solvers import DualResult, solve_kernel_dual, solve_linear_dual

FORMS = ["kernel", "linear"]
X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
Y = np.array([[1, -1], [-1, 1], [1, 1]])


def solve(form: str, **changes: Any) -> DualResult:
    arguments = {"X": X, "K": X @ X.T, "Y": Y, "S": np.eye(2), "c": 1.0} | changes
    arguments.pop("X" if form == "kernel" else "K")
    return (solve_kernel_dual if form == "kernel" else solve_linear_dual)(**arguments)


@for_each("form", FORMS)
@for_each(
    ("changes", "message"),
    [
        ({"Y": Y[:2]}, r"Y must have the shape \(n_samples, n_labels\) with n_samples = 3, not \(2, 2\)"),
        ({"Y": Y[:, 0]}, "Y must have the shape"),
        ({"Y": Y[:, :0], "S": np.eye(0)}, "Y must not be empty"),
        ({"Y": (Y > 0).astype(int)}, "Y must contain only -1 and"),
        ({"Y": np.where(Y > 0, np.nan, -1)}, "Y must contain only -1 and"),
        ({"Y": Y > 0}, "Y must contain only -1 and"),
        ({"S": np.eye(3)}, r"S must have the shape \(2, 2\) for 2 labels, not \(3, 3\)"),
        ({"S": np.array([[1.0, 0.2], [0.1, 1.0]])}, "S must be symmetric, .* differ by up to 0.1"),
        ({"S": np.array([[1.0, 2.0], [2.0, 1.0]])}, "S must be positive semi-definite; its smallest eigenvalue is -1"),
        ({"S": -np.eye(2)}, "S must be positive semi-definite"),
        ({"S": np.diag([1.0, np.nan])}, "S must be finite"),
        ({"c": 0.0}, "c must be a finite number above 0, not 0.0"),
        ({"c": -1}, "c must"),
        ({"c": np.inf}, "c must"),
        ({"c": np.nan}, "c must"),
        ({"c": "1"}, "c must be a finite number above 0, not '1'"),
        ({"c": np.ones(2)}, r"c must be a number, or have the shape .* n_samples = 3, not \(2,\)"),
        ({"c": np.array([1.0, 0.0, 1.0])}, "c must be finite and above 0 for every row"),
        ({"c": np.array([1.0, np.nan, 1.0])}, "c must be finite and above 0 for every row"),
        (
            {"c": np.array([1.0, 2.0, 3.0]), "alpha0": np.full((3, 2), 1.5)},
            "alpha0 must lie between 0 and c = 3 at most, not 1.5 to 1.5",
        ),
        ({"tol": 0.0}, "tol must be a finite number above 0"),
        ({"tol": np.nan}, "tol must"),
        ({"max_iter": -1}, "max_iter must be an integer of at least 0, not -1"),
        ({"max_iter": 2.5}, "max_iter must be an integer"),
        ({"n_threads": 0}, "n_threads must be an integer of at least 1"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
        ({"alpha0": np.zeros((2, 2))}, r"alpha0 must have the shape of Y, \(3, 2\), not \(2, 2\)"),
        ({"alpha0": np.full((3, 2), 1.1)}, "alpha0 must lie between 0 and c = 1, not 1.1 to 1.1"),
        ({"alpha0": np.full((3, 2), -0.1)}, "alpha0 must lie between 0 and c"),
        ({"alpha0": np.full((3, 2), np.nan)}, "alpha0 must lie between 0 and c"),
        (
            {"alpha0": np.full((3, 2), 0.5), "equality": True},
            "alpha0: sum_i y_il alpha_il must be 0, not 0.5 for label",
        ),
    ],
)
def test_invalid_problems_are_refused(form, changes, message):
    with pytest.raises(ValueError, match=message):
        solve(form, **changes)


class Rows:
    """A source of rows that gives what it is told to."""

    def __init__(self, rows: np.ndarray, diagonal: np.ndarray) -> None:
        self._rows, self._diagonal = rows, diagonal

    def rows(self, block: np.ndarray) -> np.ndarray:
        return self._rows[: len(block)]

    def diagonal(self) -> np.ndarray:
        return self._diagonal


@for_each(
    ("K", "message"),
    [
        (np.ones((3, 2)), r"K must be a square matrix, not of shape \(3, 2\)"),
        (np.ones(3), "K must be a square matrix"),
        (np.ones((0, 0)), "K must not be empty"),
        (np.triu(np.ones((3, 3))), "K must be symmetric"),
        (np.where(np.eye(3), 1.0, np.nan), "K must be finite"),
        (np.diag([1.0, -1.0, 1.0]), "K must be positive semi-definite, but has -1 on its diagonal"),
        (Rows(np.ones((3, 2)), np.ones(3)), r"rows of K must have the shape \(3, 3\), not \(3, 2\)"),
        (Rows(np.full((3, 3), np.nan), np.ones(3)), "K must be finite"),
        (Rows(np.ones((3, 3)), np.full(3, np.inf)), "K must be positive semi-definite, but has inf on its diagonal"),
        (Rows(np.ones((3, 3)), -np.ones(3)), "K must be positive semi-definite"),
    ],
)
def test_invalid_gram_matrices_are_refused(K, message):
    with pytest.raises(ValueError, match=message):
        solve("kernel", K=K)


@for_each(
    ("changes", "message"),
    [
        ({"X": X[0]}, "X must be a matrix with rows and columns"),
        ({"X": X[:0], "Y": Y[:0]}, "X must be a matrix with rows and columns"),
        ({"X": X[:, :0]}, "X must be a matrix with rows and columns"),
        ({"X": np.where(X > 1, np.inf, X)}, "X must be finite"),
        ({"X": sp.csr_array(np.where(X > 1, np.nan, X))}, "X must be finite"),
        ({"X": X.astype(object)}, "X must contain real numbers, not object"),
        ({"X": X.astype(complex)}, "X must contain real numbers, not complex128"),
        ({"dtype": np.float16}, "dtype must be float32 or float64, not float16"),
        ({"bias_feature": -1.0}, "bias_feature must be a finite number of at least 0"),
        ({"bias_feature": np.nan}, "bias_feature must"),
    ],
)
def test_invalid_feature_matrices_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        solve("linear", **changes)


@pytest.mark.parametrize("form", FORMS)
def test_rounding_in_the_start_is_forgiven(form):
    alpha0 = np.array([[0.5, 1.0], [1.0, 0.5], [0.5, 0.5]]) + 1e-12
    result = solve(form, alpha0=alpha0, equality=True, max_iter=0)
    assert result.alpha.max() == 1.0


@pytest.mark.parametrize("form", FORMS)
def test_a_problem_with_nothing_to_learn_has_no_gap(form):
    """Each label has one class, so the biases alone separate it: both objectives are 0."""
    result = solve(form, Y=np.ones_like(Y), equality=True)
    assert result.converged
    assert result.primal == result.dual == result.gap == 0
    np.testing.assert_array_equal(result.bias, [1, 1])


@pytest.mark.parametrize("form", FORMS)
def test_points_without_length_go_to_their_bound(form):
    result = solve(form, X=0 * X, K=np.zeros((3, 3)), tol=1e-9)
    assert (result.alpha == 1).all()
    assert result.dual == result.primal == Y.size


def test_rows_without_values_are_points_without_length():
    result = solve("linear", X=sp.csr_array((3, 2)), tol=1e-9)
    assert (result.alpha == 1).all()
