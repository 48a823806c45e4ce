"""Scaling in the batch learners: raw, shifted and stretched copies of the same examples give the same predictions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from manylabel_core import FALT, batch
from manylabel_core.batch import LSAMML, M3L, SSMLRL
from manylabel_core.batch.catalogue import TRAINERS
from manylabel_core.datasets.dataset import stored
from manylabel_core.rows import as_rows
from manylabel_core.scaling.automatic import AutomaticScaling
from manylabel_core.scaling.fitted import FITTED_SCALINGS, FittedAutomaticScaling

WIDTH = 40
"""Number of features of the first of two views."""
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@cache
def sounds() -> tuple[Any, Any]:
    """Quantities as those of emotions: 72 of sizes from 1e-3 to 1e3, many far from 0, some 0 in a part of the rows."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(200, 5))
    X = hidden @ rng.normal(size=(5, 72)) + 0.5 * rng.normal(size=(200, 72))
    X[:, :8] = np.maximum(X[:, :8] + 2.0, 0.0)
    X[:, 8:] += rng.uniform(-5.0, 20.0, 64)
    Y = hidden @ rng.normal(size=(5, 6)) + 0.3 * rng.normal(size=(200, 6)) > 0.5
    return X * 10.0 ** rng.uniform(-3, 3, 72), Y.astype(np.int8)


def copies(X: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    stretch = 10.0 ** rng.uniform(-3, 3, X.shape[1])
    shift = rng.uniform(3.0, 10.0, X.shape[1]) * X.std(axis=0) + np.abs(X).max(axis=0)
    return {"shifted": X + shift, "stretched": X * stretch, "both": (X + shift) * -stretch}


def given(trainer: str, X: Any) -> Any:
    return {"a": X[:, :WIDTH], "b": X[:, WIDTH:]} if TRAINERS[trainer].views else X


def scores(trainer: str, X: Any, Y: Any) -> Any:
    """Scores of the second half of the rows by a fit to the first half."""
    half = len(X) // 2
    kind = TRAINERS[trainer].estimator_class()
    model = kind(scaling="auto", optimise="none").fit(given(trainer, X[:half]), Y[:half])
    again = kind.from_bytes(model.to_bytes())
    found = model.decision_function(given(trainer, X[half:]))
    np.testing.assert_array_equal(again.decision_function(given(trainer, X[half:])), found)
    return found


@pytest.mark.parametrize("trainer", TRAINERS)
def test_shifted_and_stretched_features_give_the_same_predictions(trainer: str) -> None:
    X, Y = sounds()
    raw = scores(trainer, X, Y)
    for copy, other in copies(X).items():
        found = scores(trainer, other, Y)
        assert ((found > 0) == (raw > 0)).mean() > 0.99, copy
        assert np.abs(found - raw).max() < 0.05 * np.abs(raw).max(), copy


def test_without_scaling_predictions_change() -> None:
    X, Y = sounds()
    raw, moved = (
        M3L(optimise="none", kernel="rbf", scaling="none").fit(each, Y).predict(each) for each in (X, copies(X)["both"])
    )
    assert (moved == raw).mean() < 0.95


@pytest.mark.parametrize(("name", "theirs"), [("standard", StandardScaler()), ("max_abs", MaxAbsScaler())])
def test_standard_and_max_abs_are_those_of_scikit_learn(name: str, theirs: Any) -> None:
    X, Y = sounds()
    X = np.column_stack([X, np.full(len(X), 7.1), np.zeros(len(X))])
    kind = FITTED_SCALINGS[name]
    assert kind is not None
    scaling, expected = kind.fit(X), theirs.fit(X)
    np.testing.assert_allclose(scaling(X), expected.transform(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(scaling(X[3:4]), scaling(X)[3:4])
    sparse = sp.csr_array(X)
    np.testing.assert_array_equal(scaling(sparse).toarray(), scaling(X))
    model = M3L(optimise="none", scaling=name).fit(X, Y)
    np.testing.assert_allclose(
        model.decision_function(X),
        M3L(optimise="none", scaling="none").fit(scaling(X), Y).decision_function(scaling(X)),
        rtol=1e-9,
        atol=1e-9,
    )


def test_auto_is_the_scaling_of_the_online_learners_where_nothing_changes() -> None:
    X, _ = sounds()
    online = AutomaticScaling()
    online.grow(X.shape[1])
    online.learn(as_rows(X, np.float64)[0])
    expected = online.score(as_rows(X[:5], np.float64)[0])
    found = FittedAutomaticScaling.fit(X)
    np.testing.assert_allclose(found(stored(X[:5])).data, expected.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found(X[:5]), found(stored(X[:5])).toarray())


def test_auto_replaces_missing_values_by_the_mean() -> None:
    X, Y = sounds()
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    X[:, 0] += 100.0
    model = M3L(scaling="auto").fit(X, Y)
    row = X[:1].copy()
    row[0, 0] = np.nan
    assert not model.scaling_(row)[0, 0], "in deviations from the mean"
    np.testing.assert_array_equal(model.scaling_(stored(row)).toarray(), model.scaling_(row))
    again = M3L.from_bytes(model.to_bytes())
    assert again.decision_function(row).tobytes() == model.decision_function(row).tobytes()
    for scaling in ("none", "standard", "max_abs"):
        with pytest.raises(ValueError, match="X contains NaN"):
            M3L(scaling=scaling).fit(X, Y)
    views = {"one": X[:, :5], "two": X[:, 5:]}
    several = LSAMML(scaling="auto", n_components=2, max_iter=3, tol=0.9).fit(views, Y)
    assert np.isfinite(several.decision_function(views)).all()
    with pytest.raises(ValueError, match="must contain finite numbers"):
        LSAMML(scaling="none").fit(views, Y)


def test_large_matrices_are_scaled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = sounds()
    whole = {kind: FittedAutomaticScaling.fit(kind(X))(kind(X)) for kind in (np.asarray, sp.csr_array)}
    monkeypatch.setattr("manylabel_core.rows.BLOCK_BYTES", 10_000)
    for kind, expected in whole.items():
        found = FittedAutomaticScaling.fit(kind(X))(kind(X))
        assert type(found) is type(expected)
        assert (found != expected).sum() == 0


def test_unlabelled_rows_are_scaled_alike() -> None:
    X, Y = sounds()
    scaling = FittedAutomaticScaling.fit(X[:60])
    expected = (
        SSMLRL(optimise="none", scaling="none")
        .fit(scaling(X[:60]), Y[:60], scaling(X[60:150]))
        .decision_function(scaling(X[150:]))
    )
    found = SSMLRL(optimise="none", scaling="auto").fit(X[:60], Y[:60], X[60:150]).decision_function(X[150:])
    np.testing.assert_array_equal(found, expected)


def test_rows_lacking_a_view_do_not_affect_its_scaling() -> None:
    X, Y = sounds()
    views, there = {"a": X[:, :WIDTH], "b": X[:, WIDTH:].copy()}, np.arange(len(X)) % 3 > 0
    views["b"][~there] = 1e9
    model = batch.LSAMML(scaling="auto").fit(views, Y, missing={"b": ~there})
    expected = FittedAutomaticScaling.fit(views["b"][there]).arrays()
    for name, array in model.view_scalings_[1].arrays().items():
        np.testing.assert_array_equal(array, expected[name])


def test_an_online_learner_starts_from_a_scaled_model() -> None:
    X, Y = sounds()
    model = M3L(optimise="none", scaling="auto").fit(X[:100], Y[:100])
    stream = FALT.from_linear(model)
    np.testing.assert_array_equal(stream.predict(X[100:]), model.predict(X[100:]))
    with pytest.raises(ValueError, match="scaling must be 'auto'"):
        FALT.from_linear(model, scaling="none")
    with pytest.raises(ValueError, match="scaling must be 'none' or 'unit'"):
        FALT.from_linear(M3L(optimise="none", max_iter=5, scaling="none").fit(X[:100], Y[:100]), scaling="auto")
    with pytest.raises(ValueError, match="scaling must be 'auto' for the model and for the stream, not 'standard'"):
        FALT.from_linear(M3L(optimise="none", max_iter=5, scaling="standard").fit(X[:100], Y[:100]))


def test_a_gram_matrix_is_not_scaled() -> None:
    X, Y = sounds()
    gram = X @ X.T / 1e6
    one, other = (
        M3L(kernel="precomputed", optimise="none", **own).fit(gram, Y).decision_function(gram)
        for own in ({}, {"scaling": "none"})
    )
    assert one.tobytes() == other.tobytes()
    with pytest.raises(ValueError, match="NaN"):
        M3L(kernel="precomputed").fit(np.where(gram == gram[0, 0], np.nan, gram), Y)


def test_invalid_scalings_are_refused() -> None:
    X, Y = sounds()
    with pytest.raises(ValueError, match="scaling must be"):
        M3L(optimise="none", scaling="unit").fit(X, Y)
    with pytest.raises(ValueError, match="scaling must be 'auto' or 'none' with kernel='precomputed'"):
        M3L(optimise="none", scaling="standard", kernel="precomputed").fit(X @ X.T, Y)
    with pytest.raises(ValueError, match="X must contain values of at most 1e\\+15"):
        M3L(optimise="none", scaling="auto").fit(X * 1e20, Y)
