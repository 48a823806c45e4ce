"""Passive-aggressive binary relevance: a linear baseline."""

from __future__ import annotations

from manylabel_core.online.margin import AggressiveLearner
from manylabel_core.online.models.linear.model import LinearModel
from manylabel_core.parameters import declared


@declared
class PassiveAggressive(AggressiveLearner):
    """Passive-aggressive binary relevance: a separate linear model for each label.

    Every label is a separate binary problem. It has a linear score s, and is predicted if s is above 0. Its hinge loss
    is l = max(0, 1 - y s), with y = +1 if the label is relevant and y = -1 otherwise. The weights move by tau y x, as
    little as the loss requires, with k = |x|^2:

        PA-I       tau = min(C, l / k)
        PA-II      tau = l / (k + 1 / (2 C))

    {parameters}

    Attributes
    ----------
    n_features_, n_labels_ : int
        Columns seen so far.

    References
    ----------
    K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz, Y. Singer: Online passive-aggressive algorithms, JMLR 7,
    2006, Fig. 1.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core import PassiveAggressive
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> Y = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    >>> model = PassiveAggressive()
    >>> for _ in range(3):
    ...     _ = model.partial_fit(X, Y)
    >>> model.predict(X)
    array([[1, 0, 0],
           [0, 1, 0],
           [1, 1, 0]], dtype=uint8)
    """

    def _make_model(self) -> LinearModel:
        return LinearModel(self._read_update(), self._constant, self.dtype)
