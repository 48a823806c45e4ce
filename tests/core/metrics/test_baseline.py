"""Labels that are frequent, predicted for all: against all sets of labels."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from manylabel_core.metrics import micro_f1
from manylabel_core.metrics.baseline import frequent_labels


@given(hnp.arrays(np.int8, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=st.integers(0, 1)))
def test_no_set_of_labels_has_a_higher_micro_f1(Y: np.ndarray) -> None:
    margins = frequent_labels(Y)
    reached = micro_f1(Y, np.tile(margins > 0, (len(Y), 1)))
    sets = itertools.product([0, 1], repeat=Y.shape[1])
    assert reached == pytest.approx(max(micro_f1(Y, np.tile(chosen, (len(Y), 1))) for chosen in sets))
    assert (np.argsort(-margins, kind="stable") == np.argsort(-Y.sum(axis=0), kind="stable")).all()
    assert (frequent_labels(sp.csr_array(Y)) == margins).all()


def test_an_example_of_weight_two_counts_as_two() -> None:
    Y = (np.random.default_rng(3).random((20, 5)) < 0.3).astype(np.int8)
    weights = np.arange(20) % 3 + 1
    expected = frequent_labels(np.repeat(Y, weights, axis=0))
    assert frequent_labels(Y, weights) == pytest.approx(expected)
    assert frequent_labels(sp.csr_array(Y), weights) == pytest.approx(expected)
    assert (frequent_labels(Y, np.ones(20)) == frequent_labels(Y)).all()


def test_without_labels_none_is_frequent() -> None:
    assert frequent_labels(np.zeros((3, 2))).tolist() == [0, 0]
    assert frequent_labels(np.zeros((0, 2))).tolist() == [0, 0]
    assert frequent_labels(np.zeros((3, 0))).tolist() == []
