"""Explanations of batch learners add up to the score, scaled or not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.core.batch.support import related
from tests.support.cases import for_each

from manylabel_core.batch import M3L, MLRL, SSMLRL, PrBR, PrML
from manylabel_core.explanation import NotLinear

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MAKERS = {
    "m3l": lambda **settings: M3L(kernel="linear", max_iter=20, **settings),
    "m3l-cuts": lambda **settings: M3L(kernel="linear", max_iter=20, optimise="micro_f1", **settings),
    "mlrl": lambda **settings: MLRL(kernel="linear", max_iter=1, tol=0.1, optimise="none", **settings),
    "ssmlrl": lambda **settings: SSMLRL(kernel="linear", max_iter=1, tol=0.1, optimise="none", **settings),
    "prml": lambda **settings: PrML(max_iter=2, **settings),
    "prbr": lambda **settings: PrBR(max_iter=20, **settings),
}


@for_each("is_sparse", [False, True])
@for_each("scaling", ["none", "auto", "standard", "max_abs"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
def test_contributions_add_up_to_the_score(make, scaling, is_sparse):
    X, Y = related(40, 6, 3)
    X = np.round(X * (1.0, 10.0, 0.1, 1.0, 1.0, 1.0) + (0.0, 500.0, 0.0, 0.0, 0.0, 0.0), 1)
    X = sp.csr_array(X) if is_sparse else X
    model = make(scaling=scaling).fit(X, Y)
    score = model.decision_function(X[:1])[0]
    for k in (1, 10):
        for label, explanation in enumerate(model.explain(X[:1], range(3), k)):
            total = explanation.contributions.sum() + explanation.rest
            size = np.abs(explanation.contributions).sum() + abs(explanation.rest)
            assert total == pytest.approx(score[label], rel=1e-9, abs=1e-9 * size)
            assert np.count_nonzero(explanation.contributions > 0) <= k
            if scaling == "none":
                values = np.ravel(X[:1].toarray() if is_sparse else X[:1])[explanation.features]
                assert explanation.contributions == pytest.approx(values * model.coef_[label, explanation.features])


def test_explanations_need_a_linear_model():
    X, Y = related(20, 4, 2)
    model = M3L(kernel="rbf", max_iter=5, scaling="none").fit(X, Y)
    with pytest.raises(NotLinear):
        model.explain(X[:1], [0], 3)
