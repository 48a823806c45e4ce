"""The compiled inputs and start values of the scores: two logistic models (`_kalman`).

The label model says how likely a candidate label is true, given its probability and the other labels of the example.
The example model says how likely the example is entirely right. Both are shared by all labels and targets.
"""

import numpy as np

from manylabel_core._elementary import log
from manylabel_core.compiled import compiled

N_LABEL, N_EXAMPLE = 8, 7
"""Weights of the label model and of the example model."""
LABEL_WEIGHTS = np.array([0.6, 0.9, -0.3, -0.3, -2.5, -0.6, -0.9, -0.5])
LABEL_VARIANCES = np.array([0.3, 0.05, 0.1, 0.3, 2.0, 0.7, 0.7, 1.0])
EXAMPLE_WEIGHTS = np.array([3.5, -1.0, -6.0, -2.5, -0.5, -2.5, 0.8])
EXAMPLE_VARIANCES = np.array([0.7, 1.5, 1.5, 0.5, 0.7, 1.5, 0.8])
"""Weights and variances at the start. A variance never exceeds that at the start."""


@compiled
def label_inputs(probability, shift, total, variance, highest, second, inputs):  # type: ignore[no-untyped-def]
    """Write the inputs of the label model for a candidate."""
    p = min(max(probability, 1e-13), 1.0 - 1e-13)
    z = min(max(log(p / (1.0 - p)), -6.0), 8.0)
    inputs[0] = 1.0
    inputs[1] = z
    inputs[2] = max(z - 1.5, 0.0)
    inputs[3] = shift
    others = max(total - probability, 0.0)
    inputs[4] = others / (1.0 + others) - 0.5
    others = max(variance - probability * (1.0 - probability), 0.0)
    inputs[5] = others / (0.5 + others) - 0.5
    inputs[6] = (second if probability >= highest else highest) - 0.25
    inputs[7] = inputs[5] * z * 0.25


@compiled
def example_inputs(left, highest, doubt, n_applied, inputs):  # type: ignore[no-untyped-def]
    """Write the inputs of the example model."""
    inputs[0] = 1.0
    inputs[1] = left / (0.1 + left)
    inputs[2] = left / (1.0 + left)
    inputs[3] = highest
    inputs[4] = doubt / (0.1 + doubt)
    inputs[5] = 1.0 if n_applied == 0.0 else 0.0
    inputs[6] = min(n_applied, 4.0) * 0.25
