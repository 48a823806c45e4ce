"""The face of the online learners: matrices in and out, in the manners of scikit-learn."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from manylabel_core.online.arrays import ArrayLearner
from manylabel_core.rows import Matrix, as_rows, as_targets


class OnlineLearner(ArrayLearner):
    """A multi-label model that learns one example after the other, in order.

    The model gives every label and a threshold a score; labels that score above the threshold are predicted.
    Column 0 of an array of raw scores is the threshold, column 1 + l the label l.

    The state depends on the parameters and on the examples in their order, and on nothing else: not on how
    they are grouped into calls, nor on when features and labels were announced by `grow`, nor on a `state`
    and `restore` in between. This holds bit for bit.

    Parameters are read at the first use and at every `partial_fit`.
    """

    def partial_fit(self, X: Matrix, Y: Matrix, known: Matrix | None = None) -> Self:
        """Learn the rows of X in order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            More columns than before are new features, 0 in all examples so far.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            1 for a relevant label, 0 for an irrelevant one. More columns than before are new labels.
        known : array-like or sparse matrix of shape (n_samples, n_labels), bool, optional
            Labels whose truth is known; the loss leaves the others out. None: all.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or argument is not allowed, or has fewer columns than before. Nothing has been
            learnt then.
        """
        self._settle(again=True)
        rows, n_features = as_rows(X, self.dtype)
        targets = as_targets(Y, known)
        n_samples = len(rows.indptr) - 1
        if len(targets.complete) != n_samples:
            raise ValueError(f"Y must have as many rows as X, {n_samples}, not {len(targets.complete)}")
        n_labels = int(targets.n_labels[0]) if n_samples else self._n_labels
        self._check_width("X", n_features, self._n_features)
        self._check_width("Y", n_labels, self._n_labels)
        self.grow(n_features, n_labels)
        self.learn(rows, targets)
        return self

    def predict(self, X: Matrix) -> NDArray[np.uint8]:
        """Predict label sets.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), uint8
            1 where a label scores above the threshold.

        Raises
        ------
        NotFittedError
            If nothing has been learnt yet.
        ValueError
            As `partial_fit` for X.
        """
        return (self.decision_function(X) > 0).astype(np.uint8)

    def predict_proba(self, X: Matrix) -> NDArray[np.float64]:
        """Probability of every label.

        Each label has its own: they do not sum to 1 over the labels of an example.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), float64

        Raises
        ------
        NotFittedError
            As `predict`.
        ValueError
            As `predict`; if the learner has calibrate=False.
        """
        return self.probabilities(self._scores(X))

    def decision_function(self, X: Matrix) -> NDArray[np.float64]:
        """Score minus threshold of every label, shape (n_samples, n_labels), float64; raises as `predict`.

        With `optimise`, half of what the label's log-odds are above its cut.
        """
        labels, thresholds = self.scores(X)
        return labels - thresholds[:, np.newaxis]

    def scores(self, X: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of the labels, with `optimise` less their cuts, and of the threshold.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_labels), float64
        thresholds : ndarray of shape (n_samples,), float64

        Raises
        ------
        NotFittedError, ValueError
            As `predict`.
        """
        scores = self._scores(X)
        return scores[:, 1:], scores[:, 0]

    def _scores(self, X: Matrix) -> NDArray[np.float64]:
        """Scores, threshold first."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} has not learnt anything yet; call partial_fit first")
        rows, n_features = as_rows(X, self.dtype)
        self._check_width("X", n_features, self._n_features)
        return self.score(rows)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is something to predict with."""
        return self._settled is not None and self._n_labels > 0

    def _check_width(self, name: str, columns: int, seen: int) -> None:
        if columns < seen:
            raise ValueError(f"{name} must have at least the {seen} columns seen before, not {columns}")
