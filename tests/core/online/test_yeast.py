"""Kernel FALT on yeast, as in Table 2 of the paper: official split, one pass, mean over 20 orders."""

from __future__ import annotations

import numpy as np
import pytest
from river import datasets

from manylabel_core import KernelFALT
from manylabel_core.metrics import f1, micro_f1

N_TRAIN = 1500


@pytest.mark.parametrize("n_orders", [5, pytest.param(20, marks=pytest.mark.long)])
def test_yeast_reaches_the_figures_of_the_paper(n_orders: int) -> None:
    stream = list(datasets.Yeast())
    X = np.array([list(x.values()) for x, _ in stream])
    Y = np.array([list(y.values()) for _, y in stream], dtype=np.int8)
    assert (X.shape, Y.shape) == ((2417, 103), (2417, 14))
    reached = []
    for seed in range(n_orders):
        order = np.random.default_rng(seed).permutation(N_TRAIN)
        model = KernelFALT(eta=0.5, passes=14, gamma=1 / (2 * 0.25)).partial_fit(X[order], Y[order])
        P = model.predict(X[N_TRAIN:])
        reached.append((micro_f1(Y[N_TRAIN:], P), f1(Y[N_TRAIN:], P)))
    micro, mean_based = np.mean(reached, axis=0)
    assert micro >= 0.67, reached
    assert mean_based >= 0.68, reached
