"""Two models on the same rows: metrics against those of the package, intervals against a plain bootstrap."""

import numpy as np
import pytest
import scipy.sparse as sp

from manylabel_core import metrics
from manylabel_core.metrics.comparison import Difference, compare

RNG = np.random.default_rng(3)
Y = RNG.random((60, 7)) < 0.3
FIRST = Y ^ (RNG.random(Y.shape) < 0.25)
SECOND = Y ^ (RNG.random(Y.shape) < 0.1)
NAMES = ("micro_f1", "macro_f1", "example_f1", "subset_accuracy", "hamming_loss")


def test_values_are_those_of_the_metrics() -> None:
    for weights in (None, RNG.integers(1, 4, len(Y)).astype(float)):
        found = compare(Y, FIRST, sp.csr_array(SECOND), sample_weight=weights)
        assert tuple(found) == NAMES
        for name, one in found.items():
            function = getattr(metrics, name)
            assert one.first == pytest.approx(function(Y, FIRST, weights))
            assert one.second == pytest.approx(function(Y, SECOND, weights))
            assert one.difference == one.second - one.first
            assert one.low < one.difference < one.high


def test_intervals_are_those_of_a_plain_bootstrap() -> None:
    found = compare(Y, FIRST, SECOND, n_resamples=4000)
    rng = np.random.default_rng(9)
    for name in ("micro_f1", "hamming_loss"):
        function, drawn = getattr(metrics, name), []
        for _ in range(2000):
            rows = rng.integers(0, len(Y), len(Y))
            drawn.append(function(Y[rows], SECOND[rows]) - function(Y[rows], FIRST[rows]))
        assert np.quantile(drawn, [0.025, 0.975]) == pytest.approx([found[name].low, found[name].high], abs=0.01)


def test_a_model_is_no_different_from_itself() -> None:
    for one in compare(Y, FIRST, FIRST).values():
        assert (one.difference, one.low, one.high) == (0, 0, 0)


def test_unknown_labels_do_not_count() -> None:
    known = RNG.random(Y.shape) < 0.6
    found = compare(Y & known, FIRST & known, SECOND & known, n_known=known.sum(axis=1))
    wrong = ((FIRST != Y) & known).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    assert found["hamming_loss"].first == pytest.approx(wrong.mean())
    assert isinstance(found["micro_f1"], Difference)


def test_the_same_seed_gives_the_same_intervals_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compare(Y, FIRST, SECOND, n_resamples=50)
    monkeypatch.setattr("manylabel_core.metrics.comparison._CELLS", len(Y) * 7)
    cut = compare(Y, FIRST, SECOND, n_resamples=50)
    assert cut.keys() == whole.keys()
    for name, found in cut.items():  # products of matrices of another shape may round differently
        assert found == pytest.approx(whole[name], rel=1e-12)


def test_rows_and_shapes() -> None:
    with pytest.raises(ValueError, match="shape"):
        compare(Y, FIRST[:-1], SECOND)
    with pytest.raises(ValueError, match="row"):
        compare(Y[:0], FIRST[:0], SECOND[:0])
