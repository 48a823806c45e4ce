"""Explanations add up to the score, whatever the learner, the scaling and the measure; they name what was planted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.core.online.catalogue import EXPANSIONS, FEATURES, LINEAR, Make
from tests.support.cases import for_each

from manylabel_core import FALT, SALT
from manylabel_core.explanation import NotLinear
from manylabel_core.rows import as_rows

SCALINGS = ({"scaling": "none"}, {"scaling": "unit"}, {"scaling": "auto"})
SETTINGS = (
    *SCALINGS,
    {"scaling": "auto", "missing": "zero"},
    {"scaling": "auto"},
    {"scaling": "auto", "optimise": "macro_f1"},
    {"scaling": "auto", "optimise": "hamming", "dtype": "float64"},
    {"scaling": "auto", "calibrate": False, "optimise": "none"},
)


def stream(n: int = 60) -> tuple[sp.csr_array, np.ndarray]:
    """Quantities with a mean far from 0, words, and labels that depend on both; values are missing here and there."""
    generator = np.random.default_rng(5)
    quantities = generator.normal((50.0, -3.0, 0.1), (5.0, 0.2, 2.0), (n, 3))
    words = generator.random((n, 9)) < 0.3
    X = np.hstack([quantities * (generator.random((n, 3)) < 0.9), words])
    Y = np.stack([quantities[:, 0] > 50, words[:, 0], words[:, 1] | (quantities[:, 1] > -3), words[:, 8]], axis=1)
    return sp.csr_array(X), Y.astype(np.int8)


@pytest.mark.parametrize("make", LINEAR.values(), ids=list(LINEAR))
@for_each("settings", SETTINGS)
def test_contributions_add_up_to_the_score(make: Make, settings: dict[str, object]) -> None:
    X, Y = stream()
    model = make(**settings).partial_fit(X[:50], Y[:50])
    for one in X[50:]:
        one = sp.csr_array(one.reshape(1, -1))
        score = model.decision_function(one)[0]
        for k in (1, 2, 100):
            for label, explanation in enumerate(model.pipeline.explain(as_rows(one, model.dtype)[0], range(4), k)):
                parts = explanation.contributions
                size = np.abs(parts).sum() + abs(explanation.rest) + 1.0
                assert abs(parts.sum() + explanation.rest - score[label]) <= 1e-12 * size * (1 + len(parts))
                assert np.count_nonzero(parts > 0) <= k >= np.count_nonzero(parts < 0)
                assert (np.diff(parts) <= 0).all()
                assert set(explanation.features) <= set(one.indices)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_each_contribution_is_what_the_score_loses_without_it(settings: dict[str, object]) -> None:
    """If rows are not scaled by length, the score changes by the contribution of a removed feature."""
    X, Y = stream()
    model = SALT(**{**settings, "scaling": "none", "missing": None}).partial_fit(X[:50], Y[:50])
    one = sp.csr_array(X[51:52])
    score = model.decision_function(one)[0]
    for label, explanation in enumerate(model.pipeline.explain(as_rows(one)[0], range(4), 100)):
        for feature, part in zip(explanation.features, explanation.contributions, strict=True):
            without = one.copy()
            without.data[without.indices == feature] = 0.0
            assert score[label] - model.decision_function(without)[0, label] == pytest.approx(part, rel=1e-5, abs=1e-6)


def test_the_strongest_are_listed() -> None:
    X, Y = stream()
    model = FALT().partial_fit(X[:50], Y[:50])
    row = as_rows(sp.csr_array(X[50:51]))[0]
    for label in range(4):
        whole, few = model.pipeline.explain(row, [label], 100)[0], model.pipeline.explain(row, [label], 2)[0]
        parts = dict(zip(whole.features.tolist(), whole.contributions.tolist(), strict=True))
        above = [f for f in whole.features.tolist() if parts[f] > 0][:2]
        below = [f for f in whole.features.tolist() if parts[f] < 0][-2:]
        assert few.features.tolist() == above + below


@for_each("make", [*EXPANSIONS.values(), *FEATURES.values()], ids=[*EXPANSIONS, *FEATURES])
def test_explanations_need_a_linear_model(make: Make) -> None:
    X, Y = stream(10)
    row = as_rows(sp.csr_array(X[:1]))[0]
    for model, labels in ((make(), []), (make().partial_fit(X, Y), [0])):
        with pytest.raises(NotLinear, match="linear"):
            model.pipeline.explain(row, labels, 3)
        with pytest.raises(NotLinear, match="linear"):
            model.pipeline.linear_form()


def test_explanations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = stream(10)
    model = FALT().partial_fit(X, Y)
    monkeypatch.setattr("manylabel_core.explanation.MAX_EXPLAINED_PARTS", 5)
    with pytest.raises(ValueError, match="too many"):
        model.pipeline.explain(as_rows(sp.csr_array(X[:1]))[0], [0, 1], 3)
