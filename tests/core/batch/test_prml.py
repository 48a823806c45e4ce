"""PrML and PrBR: what they promise beyond their solver."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from tests.core.batch.support import related

from manylabel_core import FALT
from manylabel_core.batch import PrBR, PrML
from manylabel_core.batch.privileged.factors import leading
from manylabel_core.batch.privileged.learner import nearest
from manylabel_core.batch.segments import fit_in_segments
from manylabel_core.metrics import hamming_loss

BOTH = [PrML, PrBR]


def data(n_samples: int = 120, n_features: int = 8, n_labels: int = 6, seed: int = 0):
    return related(n_samples, n_features, n_labels, seed, threshold=0.5)


X, Y = data()


def objective(model: PrML) -> float:
    """(5) with the second slack, from D, W and w~ alone."""
    signs = 2.0 * Y - 1
    total = np.sum(model.dictionary_**2) / 2 + model.gamma1 * np.sum(model.label_factors_**2) / 2
    ones = np.ones((len(X), 1))
    scores = np.hstack([X, ones]) @ model.dictionary_.T @ model.label_factors_
    for label in range(Y.shape[1]):
        features = np.hstack([signs, ones])
        features[:, label] = 0
        w = model.correcting_coef_[label]
        slack = features @ w
        assert (slack >= -1e-9).all()
        missing = np.maximum(0, 1 - signs[:, label] * scores[:, label] - slack).sum()
        total += model.gamma2 / 2 * w @ w + model.C * slack.sum() + (model.rho * missing if missing > 1e-6 else 0.0)
    return float(total)


def check_trace(model: PrML) -> None:
    """Each round has three values, and ends at the least of them.

    The W-step is the better one of before and after, label by label. A D-step is solved to a relative gap of tol: what
    it gives may be above the best, and so above what there was, by that share. A split keeps Z and costs the least.
    """
    trace = model.objective_trace_
    assert len(trace) == 3 * model.n_iter_ + 1 >= 4
    before = trace[0]
    for coefficients, dictionary, split in trace[1:].reshape(-1, 3):
        assert coefficients <= before * (1 + 1e-12)
        assert dictionary <= coefficients / (1 - model.tol)
        assert split <= min(coefficients, dictionary) * (1 + 1e-9)
        before = min(coefficients, dictionary, split)
    assert model.objective_ == before < trace[0]


@pytest.mark.filterwarnings("ignore:not converged. a half:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("rho", [0.05, 0.3, np.inf])
@pytest.mark.parametrize("C", [0.02, 1.0])
def test_the_objective_falls_and_is_that_of_the_model(C, rho):
    model = PrML(C=C, rho=rho, tol=1e-3 if np.isfinite(rho) else 1e-2, max_iter=100).fit(X, Y)
    check_trace(model)
    assert model.objective_ == pytest.approx(objective(model), rel=1e-6)
    assert 0 <= model.duality_gap_ <= (1e-3 if np.isfinite(rho) else 0.1)  # the last is slow: 1,000 passes are the most


def test_the_objective_falls_however_rough_its_halves_are():
    model = PrML(C=0.1, rho=0.5, tol=0.5, max_iter=50).fit(X, Y)
    assert np.diff(model.objective_trace_).max() > 0  # a D-step as rough as that, which was not taken
    check_trace(model)


def test_a_finer_fit_is_no_worse():
    rough, fine = (PrML(tol=tol, max_iter=200).fit(X, Y).objective_ for tol in (1e-1, 1e-4))
    assert fine < rough


def test_with_a_full_rank_the_start_does_not_matter():
    """|D|^2/2 + gamma1 |W|^2/2 is then sqrt(gamma1) times the nuclear norm of Z: gamma1 only scales."""
    one = PrML(rank=1.0, gamma1=1.0, C=0.2, rho=0.2, tol=1e-5, max_iter=500).fit(X, Y)
    other = PrML(rank=1.0, gamma1=4.0, gamma2=2.0, C=0.4, rho=0.4, tol=1e-5, max_iter=500).fit(X, Y)
    assert other.objective_ == pytest.approx(2 * one.objective_, rel=1e-3)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=0.05)


def test_planted_directions_are_found_again():
    """Two hidden directions make all labels: the dictionary spans them."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 20))
    basis, _ = np.linalg.qr(rng.normal(size=(20, 2)))
    Y = (X @ basis @ rng.normal(size=(2, 8)) > 0).astype(int)
    model = PrML(rank=2, C=1.0, rho=1.0, tol=1e-3).fit(X, Y)
    found, _ = np.linalg.qr(model.dictionary_[:, :-1].T)
    assert np.linalg.svd(found.T @ basis)[1].min() > 0.97
    fresh = rng.normal(size=(1000, 20))
    assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == 2
    assert (model.predict(fresh) == model.predict(fresh @ basis @ basis.T)).mean() > 0.9


def test_the_nuclear_norm_finds_a_low_rank_by_itself():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 20))
    Y = (X @ rng.normal(size=(20, 2)) @ rng.normal(size=(2, 8)) > 0).astype(int)
    model = PrML(rank=8, C=0.02, rho=0.02, tol=1e-4, max_iter=200).fit(X, Y)
    values = np.linalg.svd(model.coef_)[1]
    assert values[2] < 0.05 * values[0]


def test_labels_that_help_each_other_learn_better_from_few_examples():
    few, many = data(40, 30, 10, seed=1), data(1000, 30, 10, seed=1)
    W = np.linalg.svd(np.linalg.lstsq(many[0], many[1] - 0.5, rcond=None)[0])[1]
    assert W[2] < 0.5 * W[0]
    prml, prbr = (model.fit(*few).predict(many[0]) for model in (PrML(rank=2, C=1, rho=1), PrBR(C=1, rho=1)))
    assert hamming_loss(many[1], prml) < hamming_loss(many[1], prbr)


@pytest.mark.parametrize("rho", [0.05, 1.0])
def test_prbr_with_idle_labels_is_a_machine_for_each(rho):
    model = PrBR(C=rho, rho=rho, tol=1e-6, max_iter=100_000).fit(X, Y)
    for label in range(Y.shape[1]):
        machine = LinearSVC(loss="hinge", C=rho, tol=1e-8, max_iter=1_000_000, intercept_scaling=1.0)
        machine.fit(X, Y[:, label])
        np.testing.assert_allclose(model.coef_[label], machine.coef_[0], atol=5e-3)
        assert model.intercept_[label] == pytest.approx(machine.intercept_[0], abs=5e-3)


def test_prbr_reports_its_objectives():
    model = PrBR(tol=1e-3).fit(X, Y)
    assert 0 <= model.duality_gap_ <= 1e-3
    gap = (model.primal_objective_ - model.dual_objective_) / model.primal_objective_
    assert model.duality_gap_ == pytest.approx(gap)


@pytest.mark.parametrize("learner", BOTH)
def test_sparse_and_dense_rows_give_the_same_model(learner):
    thin = np.where(np.abs(X) < 0.4, 0, X)
    thin[5] = 0  # an empty row
    dense, sparse = (learner(tol=1e-4, max_iter=10_000).fit(form, Y) for form in (thin, sp.csr_matrix(thin)))
    scores = dense.decision_function(thin)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(thin)), scores, atol=0.1)
    assert (dense.predict(thin) == sparse.predict(thin)).mean() > 0.99


@pytest.mark.parametrize("learner", BOTH)
def test_privileged_labels_can_be_few(learner):
    few = learner(privileged=2).fit(X, Y)
    mask = nearest(2 * Y - 1, 2)
    assert (mask.sum(axis=1) == 2).all()
    assert (few.correcting_coef_[:, :-1][~mask] == 0).all()
    more = learner(privileged=100).fit(X, Y)
    np.testing.assert_array_equal(more.coef_, learner().fit(X, Y).coef_)


def test_nearest_labels_by_hamming_distance():
    signs = 2 * (np.random.default_rng(0).random((50, 7)) < 0.4).astype(np.int8) - 1
    signs[:, 3] = signs[:, 1]
    mask = nearest(signs, 3)
    for label in range(7):
        distances = [(int((signs[:, label] != signs[:, other]).sum()), other) for other in range(7) if other != label]
        assert np.flatnonzero(mask[label]).tolist() == sorted(other for _, other in sorted(distances)[:3])


def lacking() -> np.ndarray:
    """Labels of which some examples' features are the negative of others', when there is no constant."""
    labels = Y[:, :3].copy()
    labels[:60, 2], labels[60:, 2] = 1, 0
    return labels


@pytest.mark.parametrize("learner", BOTH)
def test_an_unbounded_dual_is_an_error_that_says_what_to_change(learner):
    with pytest.raises(ValueError, match=r"Set literal=False, .* or a finite rho"):
        learner(literal=True, rho=np.inf).fit(X, lacking())


@pytest.mark.parametrize("learner", BOTH)
@pytest.mark.parametrize("parameters", [{"rho": np.inf}, {"literal": True, "rho": 0.5}])
def test_what_it_says_helps(learner, parameters):
    model = learner(**parameters).fit(X, lacking())
    assert model.duality_gap_ <= model.tol


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", BOTH)
@pytest.mark.parametrize("C", [1e-8, 1e6])
def test_extreme_prices(learner, C):
    model = learner(C=C, rho=3 * C, max_iter=100).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()
    if C > 1:
        assert (model.predict(X) == Y).mean() > 0.8


@pytest.mark.filterwarnings("ignore:not converged. a half:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", BOTH)
def test_odd_labels_and_examples(learner):
    """One class only, duplicates of labels and of examples, labels that exclude each other, an empty example."""
    odd = np.column_stack([Y[:, 0], Y[:, 0], 1 - Y[:, 0], np.ones(len(Y)), np.zeros(len(Y))]).astype(int)
    examples, labels = np.vstack([X, X, np.zeros((1, 8))]), np.vstack([odd, odd, odd[:1]])
    model = learner(C=1.0, rho=2.0, tol=1e-3).fit(examples, labels)
    predicted = model.predict(X)
    assert (predicted[:, 3] == 1).all()
    assert (predicted[:, 4] == 0).all()
    np.testing.assert_allclose(model.coef_[0], model.coef_[1], atol=0.05)
    np.testing.assert_allclose(model.coef_[0], -model.coef_[2], atol=0.05)


@pytest.mark.parametrize("learner", BOTH)
def test_one_label_and_one_example(learner):
    assert learner(C=10.0, rho=10.0).fit([[2.0]], [[1]]).predict([[2.0]]).tolist() == [[1]]


@pytest.mark.parametrize(("rank", "expected"), [(1, 1), (3, 3), (0.5, 3), (1.0, 6), (1000, 6)])
def test_ranks(rank, expected):
    model = PrML(rank=rank).fit(X, Y)
    assert model.dictionary_.shape == (expected, 9)
    assert model.label_factors_.shape == (expected, 6)
    np.testing.assert_allclose(
        model.label_factors_.T @ model.dictionary_, np.column_stack([model.coef_, model.intercept_]), atol=1e-12
    )


def test_the_papers_rank_is_nine_tenths_of_the_labels():
    labels = np.random.default_rng(0).integers(0, 2, size=(120, 14))
    assert (
        PrML(C=0.01, rho=0.01).fit(np.random.default_rng(1).normal(size=(120, 20)), labels).dictionary_.shape[0] == 13
    )


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
@pytest.mark.parametrize("rank", [2, 4, 6])
def test_the_cheapest_factors(shape, rank):
    Z = np.random.default_rng(0).normal(size=shape)
    factors = leading(Z, rank, 3.0)
    U, values, V = np.linalg.svd(Z, full_matrices=False)
    k = min(rank, 4)
    np.testing.assert_allclose(factors.product(), (U[:, :k] * values[:k]) @ V[:k], atol=1e-10)
    assert factors.cost(3.0) == pytest.approx(np.sqrt(3.0) * values[:k].sum())
    assert factors.D.shape == (rank, shape[1])


@pytest.mark.parametrize("stop", [1, 2])
def test_a_stopped_alternation_goes_on_bit_by_bit(stop):
    """Stopped at the end of a round, through bytes, and on."""
    whole = PrML(tol=1e-4, warm_start=True).fit(X, Y)
    part = PrML(tol=1e-4, warm_start=True).fit(X, Y, progress=lambda now: now.iteration >= stop)
    assert part.n_iter_ == stop < whole.n_iter_
    same(resumed(part), whole)


def test_stopped_by_max_iter_it_goes_on_bit_by_bit():
    part, whole = PrML(tol=1e-4, max_iter=1, warm_start=True), PrML(tol=1e-4, warm_start=True).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        part.fit(X, Y)
    same(resumed(part, max_iter=30), whole)


@pytest.mark.parametrize("call", [1, 2, 5, 12, 20])
def test_stopped_anywhere_it_is_where_the_last_round_ended(call):
    told: list[int] = []
    parameters = {"tol": 1e-4, "warm_start": True, "C": 0.1, "rho": 0.4}
    part = PrML(**parameters).fit(X, Y, progress=lambda now: told.append(now.iteration) or len(told) == call)
    assert part.n_iter_ == told[-1]
    same(resumed(part), PrML(**parameters).fit(X, Y))


@pytest.mark.parametrize("learner", BOTH)
def test_segments_end_where_one_fit_does(learner):
    whole, parts = (learner(tol=1e-4, warm_start=True) for _ in range(2))
    whole.fit(X, Y)
    reached = fit_in_segments(parts, lambda progress: parts.fit(X, Y, progress=progress), 1)
    assert reached.segments > 1
    assert reached.iterations == parts.n_iter_ == whole.n_iter_
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    np.testing.assert_array_equal(parts.correcting_coef_, whole.correcting_coef_)


def test_a_stopped_prbr_goes_on_bit_by_bit():
    whole = PrBR(tol=1e-5, warm_start=True).fit(X, Y)
    part = PrBR(tol=1e-5, warm_start=True).fit(X, Y, progress=lambda now: now.iteration == 3)
    assert part.n_iter_ == 3 < whole.n_iter_
    same(resumed(part), whole)


def resumed(part, **parameters):
    """Through bytes, and fitted to its end."""
    return type(part).from_bytes(part.to_bytes(), **parameters).fit(X, Y)


def same(one, other) -> None:
    attributes = [name for name in vars(other) if name.endswith("_")]
    assert set(attributes) == {name for name in vars(one) if name.endswith("_")}
    for name in attributes:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_what_has_ended_is_left_as_it_is():
    model = PrML(warm_start=True).fit(X, Y)
    coef, trace = model.coef_, model.objective_trace_
    model.fit(X, Y)
    np.testing.assert_array_equal(model.coef_, coef)
    np.testing.assert_array_equal(model.objective_trace_, trace)


@pytest.mark.parametrize("learner", BOTH)
def test_another_problem_of_the_same_shape_starts_from_there(learner):
    """Other prices, examples or labels: the end is that of a fit from nothing, nearly."""
    other_X, other_Y = data(seed=9)
    model = learner(warm_start=True, tol=1e-4, max_iter=3000).fit(X, Y)
    model.set_params(C=0.3, rho=0.5).fit(other_X, other_Y)
    fresh = learner(C=0.3, rho=0.5, tol=1e-4, max_iter=3000).fit(other_X, other_Y)
    name = "objective_" if learner is PrML else "primal_objective_"
    assert getattr(model, name) == pytest.approx(getattr(fresh, name), rel=2e-2)
    if learner is PrML:
        check_trace(model)


CHANGES = [
    ({}, {"literal": True, "rho": 14.0}),
    ({"literal": True}, {"rho": 3.0}),
    ({"literal": True}, {"privileged": 1}),
]


@pytest.mark.filterwarnings("ignore:not converged. a half:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("before", "after"), CHANGES)
@pytest.mark.parametrize("learner", BOTH)
def test_what_was_learnt_never_makes_infeasible_weights(learner, before, after):
    """Privileged weights of an earlier fit may break the constraints of the printed problem, or of other labels."""
    rng = np.random.default_rng(2)
    examples, labels = rng.normal(size=(6, 2)), (rng.random((6, 3)) < 0.5).astype(int)
    parameters = {"C": 0.7, "rho": 2.0, "gamma2": 1.0, "tol": 1e-4, "max_iter": 20_000}
    model = learner(**parameters, **before, warm_start=True).fit(examples, labels)
    labels = labels[:, ::-1] if before else labels
    model.set_params(**after).fit(examples, labels)
    fresh = learner(**{**parameters, **before, **after}).fit(examples, labels)
    assert (
        0 <= model.duality_gap_ <= (1e-4 if learner is PrBR else 1e-2)
    )  # PrML's halves may take more than 1,000 passes
    name = "objective_" if learner is PrML else "primal_objective_"
    assert getattr(model, name) == pytest.approx(getattr(fresh, name), rel=2e-2 if learner is PrML else 3e-4)
    mask = nearest(2 * labels - 1, model.privileged) if model.privileged != "all" else ~np.eye(3, dtype=bool)
    for label, w in enumerate(model.correcting_coef_):
        assert w[-1] == 0
        assert ((2 * labels - 1) * mask[label] @ w[:-1] >= -1e-9).all()


def test_a_half_that_uses_up_its_passes_is_told():
    with pytest.warns(ConvergenceWarning, match="a half of the last round has used up"):
        PrML(C=1e6, rho=1.5e6, rank=3).fit(X[:40], Y[:40, :4])


@pytest.mark.parametrize("learner", BOTH)
def test_odd_forms_of_arguments(learner):
    assert learner(n_threads=np.int64(2)).fit(X, Y).n_iter_ > 0
    with pytest.raises(ValueError, match="n_threads"):
        learner(n_threads=0).fit(X, Y)
    with pytest.raises(ValueError, match="X must be an array"):
        learner().fit({"a": X}, Y)


@pytest.mark.parametrize("learner", BOTH)
def test_variables_are_kept_only_to_go_on(learner):
    assert not hasattr(learner().fit(X, Y), "alpha_")
    model = learner(warm_start=True).fit(X, Y)
    assert model.alpha_.shape == Y.shape
    smaller = model.fit(X[:50], Y[:50])
    assert smaller.alpha_.shape == (50, Y.shape[1])


@pytest.mark.parametrize("learner", BOTH)
def test_bytes_hold_all_of_it(learner):
    model = learner(privileged=3).fit(X, Y, label_names=[f"name {k}" for k in range(6)])
    again = learner.from_bytes(model.to_bytes())
    same(again, model)
    assert again.get_params() == model.get_params()
    assert learner.from_bytes(learner(rho=np.inf).fit(X, Y).to_bytes()).rho == np.inf
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("learner", BOTH)
def test_an_online_model_starts_from_it(learner):
    model = learner(C=1.0, rho=1.0).fit(X, Y)
    linear = model.to_linear()
    np.testing.assert_array_equal(linear.coef_, model.coef_)
    for start in (model, linear):
        stream = FALT.from_linear(start, dtype="float64")
        np.testing.assert_allclose(stream.decision_function(X), model.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("learner", BOTH)
def test_equal_fits_give_equal_models(learner):
    one, other = (learner(n_threads=n).fit(X, Y) for n in (1, 2))
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-9)
    np.testing.assert_array_equal(one.coef_, learner().fit(X, Y).coef_)


def test_progress_tells_where_it_is():
    told = []
    model = PrML(tol=1e-3).fit(X, Y, progress=lambda now: told.append(now) and None)
    rounds = [now.iteration for now in told]
    assert rounds == sorted(rounds)
    assert rounds[0] == 0
    assert rounds[-1] == model.n_iter_
    assert told[-1].objective == model.objective_
    assert told[-1].gap == model.duality_gap_
    assert np.isinf(told[0].gap)


@pytest.mark.parametrize("learner", BOTH)
def test_a_fit_that_ends_too_early_says_so(learner):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        learner(tol=1e-7, max_iter=1).fit(X, Y)
