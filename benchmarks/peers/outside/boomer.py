"""BOOMER, run by the Python of an environment with mlrl-boomer."""

import numpy as np
from exchange import answer
from mlrl.boosting import BoomerClassifier


def fit(X, Y, setting):
    return BoomerClassifier(random_state=1, **setting).fit(X, Y.astype(np.uint8)).predict_proba


answer(fit)
