"""Weights of rows in `fit` multiply the loss of a row: compared with general solvers and by identities."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.core.batch.support import related
from tests.support.cases import for_each
from tests.support.lazy import lazy

from manylabel_core.batch import M3L, MLRL, SSMLRL, PrBR, PrML
from manylabel_core.batch.decisions.calibration import fit_curves
from manylabel_core.batch.decisions.choice import tune_thresholds
from manylabel_core.batch.segments import fit_in_segments

cp = lazy("cvxpy")
pd = lazy("pandas")

X, Y = related(60, 5, 4, own=0.3, threshold=0.3)
U = related(30, 5, 4, seed=1)[0]
N = len(X)
WEIGHTS = np.random.default_rng(7).choice([0.05, 0.5, 1.0, 2.0, 9.0], N)
SIGNS = 2.0 * Y - 1
LAM1, LAM2 = 0.01, 0.0005
FINE = {"tol": 1e-6, "max_iter": 20_000}

LEARNERS: list[tuple[str, Any]] = [
    ("M3L", partial(M3L, scaling="none", C=0.5)),
    ("M3L with a kernel", partial(M3L, scaling="none", C=0.5, kernel="rbf")),
    ("M3L with a prior", partial(M3L, scaling="none", C=0.5, R=np.eye(4) + 0.5)),
    ("MLRL", partial(MLRL, scaling="none", lam=0.01)),
    ("MLRL with a kernel", partial(MLRL, scaling="none", lam=0.01, kernel="rbf", gamma=0.1)),
    ("SSMLRL", partial(SSMLRL, scaling="none", lam1=LAM1, lam2=LAM2)),
    ("PrML", partial(PrML, scaling="none")),
    ("PrBR", partial(PrBR, scaling="none")),
    ("PrBR with privileged labels", partial(PrBR, scaling="none", C=0.05, rho=1.0)),
]
EACH = pytest.mark.parametrize("make", [make for _, make in LEARNERS], ids=[name for name, _ in LEARNERS])


def fit(model: Any, X: Any, Y: Any, **more: Any) -> Any:
    return model.fit(X, Y, **({"X_unlabelled": U} if isinstance(model, SSMLRL) else {}), **more)


def solved(objective: Any) -> float:
    return float(cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL))


def hinges(scores: Any) -> Any:
    return cp.sum(cp.multiply(WEIGHTS[:, None] * np.ones(Y.shape), cp.pos(1 - cp.multiply(SIGNS, scores))))


@pytest.mark.usefixtures("dev_extra")
@pytest.mark.parametrize("sparse", [False, True])
def test_m3l_solves_the_weighted_problem(sparse):
    R = np.eye(4) + 0.5
    half = np.linalg.cholesky(np.linalg.inv(R))
    Z = cp.Variable((X.shape[1], 4))
    best = solved(0.5 * cp.sum_squares(Z @ half) + 0.5 * 2 * hinges(X @ Z))
    rows = sp.csr_array(X) if sparse else X
    model = M3L(C=0.5, R=R, fit_intercept=False, optimise="none", scaling="none", **FINE).fit(
        rows, Y, sample_weight=WEIGHTS
    )
    assert model.dual_objective_ <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= model.primal_objective_ <= best * (1 + 1e-5)


@pytest.mark.usefixtures("dev_extra")
@pytest.mark.parametrize(
    "model", [MLRL(LAM1, scaling="none"), SSMLRL(LAM1, LAM2, scaling="none")], ids=["MLRL", "SSMLRL"]
)
def test_mlrl_and_ssmlrl_solve_the_weighted_problem(model):
    W, b = cp.Variable((X.shape[1], 4)), cp.Variable((1, 4))
    mean = hinges(X @ W + np.ones((N, 1)) @ b) / WEIGHTS.sum()
    both = LAM1 * np.eye(X.shape[1]) + (LAM2 * U.T @ U if isinstance(model, SSMLRL) else 0.0)
    best = solved(mean + 0.5 * cp.square(cp.normNuc(np.linalg.cholesky(both).T @ W)))
    fit(model.set_params(optimise="none", tol=1e-4, max_iter=1000), X, Y, sample_weight=WEIGHTS)
    assert model.dual_objective_ <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= model.primal_objective_ <= best * (1 + 2e-4)


@EACH
def test_a_weight_of_two_equals_the_row_twice(make):
    weights = np.where(np.arange(N) % 3 == 0, 2.0, 1.0)
    twice = np.concatenate([np.arange(N), np.arange(0, N, 3)])
    options = {"optimise": "none", "tol": 1e-5, "max_iter": 2000}
    if make().get_params().get("gamma") in ("scale", "mean_distance"):
        options["gamma"] = 0.1  # that of either set of rows would be another
    one = fit(make(**options), X, Y, sample_weight=weights)
    other = fit(make(**options), X[twice], Y[twice])
    plain = fit(make(**options), X, Y)
    name = "objective_" if isinstance(one, PrML) else "primal_objective_"
    assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-4)
    assert getattr(plain, name) != pytest.approx(getattr(other, name), rel=1e-3)
    if isinstance(one, MLRL | SSMLRL):
        # Several matrices are optimal; the squared trace norm is strictly convex, so their norms and losses are equal.
        heavy = weights[:, None]
        one_loss, other_loss = (
            (heavy * np.maximum(0, 1 - SIGNS * each.decision_function(X))).sum() for each in (one, other)
        )
        assert one_loss == pytest.approx(other_loss, rel=5e-3)  # the root of twice tol
    elif not isinstance(one, PrML):  # whose first machines, before the rounds, are solved to a gap of 0.1 only
        np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=0.03)


@EACH
def test_weights_of_one_change_no_bit(make):
    plain, even = fit(make(), X, Y), fit(make(), X, Y, sample_weight=np.ones(N))
    state = even.state()
    for name, values in plain.state().items():
        np.testing.assert_array_equal(values, state[name])


@EACH
def test_a_fit_in_segments_keeps_its_weights(make):
    def run(model: Any, **options: Any) -> Any:
        fit_in_segments(model, lambda tell: fit(model, X, Y, progress=tell, sample_weight=WEIGHTS), 2, **options)
        return model

    kept: list[tuple[bytes, Any]] = []
    whole = make(optimise="none", tol=1e-5)
    run(whole, checkpoint=lambda reached: kept.append((whole.to_bytes(), reached)))
    for data, reached in kept[:1]:
        resumed = run(type(whole).from_bytes(data), reached=reached)
        np.testing.assert_array_equal(whole.decision_function(X), resumed.decision_function(X))
    at_once = fit(make(optimise="none", tol=1e-5, max_iter=5000), X, Y, sample_weight=WEIGHTS)
    np.testing.assert_allclose(whole.decision_function(X), at_once.decision_function(X), atol=0.05)


def test_thresholds_and_probabilities_use_weights():
    """The scores of held-out rows come from fits to the other rows with their weights."""
    model = M3L(optimise="hamming", scaling="none").fit(X, Y, sample_weight=WEIGHTS)
    parts, scores = model.parts(N), np.empty(Y.shape)
    for rows, held in parts:
        fold = M3L(optimise="none", scaling="none").fit(X[rows], Y[rows], sample_weight=WEIGHTS[rows])
        scores[held] = fold.label_scores(X[held])
    np.testing.assert_array_equal(model.threshold_, tune_thresholds(scores, Y > 0, parts, "hamming", WEIGHTS))
    np.testing.assert_array_equal(model.curves_, fit_curves(scores, Y > 0, WEIGHTS))
    assert (tune_thresholds(scores, Y > 0, parts, "hamming") != model.threshold_).any()


@EACH
@for_each(
    ("weights", "message"),
    [
        (np.ones(N - 1), r"sample_weight must have a number for each of 60 examples, not float64 \(59,\)"),
        (np.ones((N, 1)), "sample_weight must have a number for each"),
        (["much"] * N, "sample_weight must have a number for each"),
        (np.zeros(N), r"sample_weight\[0\] is zero: must be above 0 and at most 1000"),
        (np.full(N, 1000.5), r"sample_weight\[0\] is 1000.5: must be above 0 and at most 1000"),
        (np.full(N, np.nan), r"sample_weight\[0\] is nan: must be above 0 and at most 1000"),
    ],
)
def test_weights_out_of_range_are_refused(make, weights, message):
    with pytest.raises(ValueError, match=message):
        fit(make(), X, Y, sample_weight=weights)


@pytest.mark.usefixtures("dev_extra")
@EACH
def test_weights_of_any_array_type_are_accepted_and_unchanged(make):
    given = WEIGHTS.copy()
    array = fit(make(optimise="none"), X, Y, sample_weight=given)
    np.testing.assert_array_equal(given, WEIGHTS)
    frame, names = pd.DataFrame(X), pd.DataFrame(Y, columns=list("abcd"))
    series = fit(make(optimise="none"), frame, names, sample_weight=pd.Series(WEIGHTS, index=np.arange(N)[::-1]))
    listed = fit(make(optimise="none"), X, Y, sample_weight=WEIGHTS.tolist())
    for other in (series, listed):
        np.testing.assert_array_equal(array.decision_function(X), other.decision_function(X))
