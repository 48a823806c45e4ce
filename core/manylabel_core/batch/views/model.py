"""Prediction of LSA-MML: bases of views, weights and thresholds of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from manylabel_core.batch.base.serialisation import Serialisable
from manylabel_core.batch.decisions.learner import DecidingLearner, Given, calibrates, taken
from manylabel_core.batch.views.block import Block, Matrix, without_rows
from manylabel_core.batch.views.factors import Factors
from manylabel_core.batch.views.inputs import Mask, check_labelled, check_some_labels, check_views, seen_blocks
from manylabel_core.batch.views.landmarks import LandmarkMap
from manylabel_core.batch.views.representation import represent, view_factors
from manylabel_core.scaling.fitted import FittedScaling


class ViewModel(DecidingLearner, Serialisable):
    """Model fitted to rows in several views; `LSAMML` documents its attributes."""

    _fitted_last = "relative_change_"

    r: float
    ridge: float
    view_names_: NDArray[np.object_]
    view_widths_: NDArray[np.int64]
    view_weights_: Matrix
    view_shares_: Matrix
    view_scales_: Matrix
    view_means_: Matrix
    view_scalings_: tuple[FittedScaling | None, ...]
    view_landmarks_: tuple[Any, ...]
    view_gammas_: Matrix
    view_roots_: tuple[Matrix, ...]
    precision_: Matrix
    noise_variances_: Matrix
    basis_: Matrix
    coef_: Matrix
    intercept_: Matrix
    threshold_: Matrix

    def transform(self, X: Mapping[str, ArrayLike], missing: Mapping[str, ArrayLike] | None = None) -> Matrix:
        """Return the common representation of rows from their available views, (n_samples, n_components), float64.

        Parameters
        ----------
        X : mapping of view names to array-likes or sparse matrices of shape (n_samples, n_features of the view)
            At least one of the views of `fit`.
        missing : mapping of view names to array-likes of shape (n_samples,), bool, optional
            True where a row lacks the view. Every row needs one view.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If views, rows or features do not match; the message names the view.
        """
        check_is_fitted(self, self._fitted_last)
        names = [str(name) for name in self.view_names_]
        views, present = check_views(X, missing, names, allow_nan=self.scaling == "auto")
        for name, view in views.items():
            width = int(self.view_widths_[names.index(name)])
            if view.shape[1] != width:
                raise ValueError(f"X[{name!r}] has {view.shape[1]} features, but {width} in fit")
        means = dict(zip(names, self._split(self.view_means_), strict=True))
        scales = {name: float(scale) for name, scale in zip(names, self.view_scales_, strict=True)}
        which = [names.index(name) for name in views]
        views = self._mapped(self._scaled(views, present, which), present, which)
        return self._represent(seen_blocks(views, present, means, scales), which)

    def label_scores(self, X: Mapping[str, ArrayLike], missing: Mapping[str, ArrayLike] | None = None) -> Matrix:
        """Return regressions on 0 and 1, shape (n_samples, n_labels), float64, comparable across labels.

        `decision_function` compares each one with its threshold. Parameters and errors as for `transform`.
        """
        return np.asarray(self.transform(X, missing) @ self.coef_.T + self.intercept_)

    def decision_function(self, X: Mapping[str, ArrayLike], missing: Mapping[str, ArrayLike] | None = None) -> Matrix:
        """Return `label_scores` minus the thresholds, (n_samples, n_labels), float64: a label is predicted above 0."""
        return np.asarray(self.label_scores(X, missing) - self.threshold_)

    def predict(self, X: Mapping[str, ArrayLike], missing: Mapping[str, ArrayLike] | None = None) -> NDArray[np.int64]:
        """Predict label sets: 1 where a score is above its threshold, shape (n_samples, n_labels), int64."""
        return (self.decision_function(X, missing) > 0).astype(np.int64)

    @available_if(calibrates)
    def predict_proba(
        self, X: Mapping[str, ArrayLike], missing: Mapping[str, ArrayLike] | None = None
    ) -> NDArray[np.float64]:
        """Return the probability of every label, shape (n_samples, n_labels), float64; parameters and errors as for
        `transform`.

        The probabilities of an example do not sum to 1. Raises ValueError if no probabilities were fitted.
        """
        return self.probabilities(self.label_scores(X, missing))

    @property
    def bases_(self) -> dict[str, Matrix]:
        """Return the basis of each view, of shape (n_features of the view, or n_landmarks of its map, n_components)."""
        check_is_fitted(self, self._fitted_last)
        return dict(zip(map(str, self.view_names_), self._split(self.basis_), strict=True))

    def _scaled(self, views: Mapping[str, Any], present: Mapping[str, Mask], which: Sequence[int]) -> dict[str, Any]:
        """Return checked views with their features scaled; rows that lack a view stay 0."""
        scalings = (self.view_scalings_[v] for v in which)
        return {
            name: views[name] if scaling is None else without_rows(scaling(views[name]), ~present[name])
            for name, scaling in zip(views, scalings, strict=True)
        }

    def _mapped(self, views: dict[str, Any], present: Mapping[str, Mask], which: Sequence[int]) -> dict[str, Any]:
        """Return scaled and mapped views."""
        if not hasattr(self, "view_landmarks_"):
            return views
        maps = [LandmarkMap(self.view_landmarks_[v], float(self.view_gammas_[v]), self.view_roots_[v]) for v in which]
        return {name: each(views[name], present[name]) for name, each in zip(views, maps, strict=True)}

    @property
    def _n_columns(self) -> list[int]:
        """Return the number of columns of each view for its basis: features or landmarks."""
        if hasattr(self, "view_landmarks_"):
            return [len(root) for root in self.view_roots_]
        return [int(width) for width in self.view_widths_]

    def _forget_decisions(self) -> None:
        self.curves_ = None  # thresholds have been fitted to the rows learnt

    def _labelled(self, given: Given) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        mask = check_labelled(given.get("labelled"), _n_rows(given))
        rows = np.flatnonzero(mask)
        return rows, check_some_labels(given["Y"], mask)[rows].toarray() > 0

    def _without(self, given: Given, held: NDArray[np.int64]) -> Given:
        mask = check_labelled(given.get("labelled"), _n_rows(given))
        kept = np.setdiff1d(np.arange(len(mask)), held)
        Y = check_some_labels(given["Y"], mask)[kept]
        return {**given, **self._only(given, kept), "Y": Y, "labelled": mask[kept]}

    def _only(self, given: Given, held: NDArray[np.int64]) -> Given:
        missing = given.get("missing")
        return {
            "X": {name: taken(view, held) for name, view in given["X"].items()},
            "missing": missing and {name: taken(mask, held) for name, mask in missing.items()},
        }

    def _split(self, stacked: Matrix) -> list[Matrix]:
        ends = [0, *np.cumsum(self._n_columns).tolist()]
        return [stacked[first:last] for first, last in pairwise(ends)]

    def _represent(self, blocks: Sequence[Block], which: Sequence[int]) -> Matrix:
        bases = self._split(self.basis_)
        if hasattr(self, "precision_"):
            return Factors(self.precision_, self.noise_variances_).represent(blocks, [bases[v] for v in which], which)
        factors = view_factors(self.view_weights_, self.view_shares_, float(self.r))
        return represent(blocks, [bases[v] for v in which], [float(factors[v]) for v in which], float(self.ridge))


def _n_rows(given: Given) -> int:
    return int(np.shape(next(iter(given["X"].values())))[0])
