"""LSA-MML: multi-label classification of rows with several views, some of them unlabelled.

See Eq. (32) of docs/mathematics.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.base.inputs import check_label_names
from manylabel_core.batch.base.reporting import Reporter
from manylabel_core.batch.decisions.learner import deciding, warn_of_convergence
from manylabel_core.batch.decisions.thresholds import half_or_best_cuts
from manylabel_core.batch.parameters import LSAMMLParameters
from manylabel_core.batch.views.alternation import Alternation, Model, Prices, ViewsState
from manylabel_core.batch.views.block import Matrix
from manylabel_core.batch.views.factors import fit_factors
from manylabel_core.batch.views.inputs import (
    Mask,
    check_labelled,
    check_some_labels,
    check_views,
    fitted_block,
    fitted_scaling,
    label_block,
)
from manylabel_core.batch.views.label_weights import label_weights
from manylabel_core.batch.views.landmarks import LandmarkMap, landmark_map
from manylabel_core.batch.views.model import ViewModel
from manylabel_core.batch.views.representation import gauge
from manylabel_core.batch.views.ridge import fit_ridge
from manylabel_core.batch.views.start import start
from manylabel_core.checks import TooFewRows
from manylabel_core.solvers import ProgressCallback
from manylabel_core.solvers.workers import blas_threads

COMPONENTS = 200
"""Default number of components, reduced if the rows or views allow fewer."""

_SOMETIMES = (
    "label_names_", "joint_coef_", "view_landmarks_", "view_gammas_", "view_roots_", "precision_",
    "noise_variances_",
)  # fmt: skip
"""Attributes that only some fits set."""


@documented
class LSAMML(LSAMMLParameters, ViewModel):
    """LSA-MML: latent semantic aware multi-view multi-label classification.

    It fits a common representation P of rows in several views X_v, a basis B_v of every view, and weights W of the
    labels: the paper's problem (8) with two ridges, Eq. (32) of docs/mathematics.md. Views are centred and scaled to a
    mean energy of 1 per row, so that penalties have the same effect on all data.

    Predictions need no labels and at least one view: the representation of a row is the best one for its views. If rows
    of `fit` lack views, it is the expectation given the views of the row (Eqs. (43) to (45)), so that
    rows with different views agree.

    {parameters}

    Attributes
    ----------
    view_names_ : ndarray of shape (n_views,), object
        In the order of `X`.
    view_weights_ : ndarray of shape (n_views,), float64
        alpha. The sum of alpha_v times the share of rows that have the view v is 1.
    view_widths_ : ndarray of shape (n_views,), int64
    view_shares_, view_scales_ : ndarrays of shape (n_views,), float64
        Share of the rows of `fit` that had the view; root mean energy that its rows are divided by.
    view_scalings_ : tuple of FittedScaling or None
        How the features of each view are scaled.
    view_landmarks_, view_roots_ : tuples of matrices of shapes (n_landmarks, n_features of the view) and (n_landmarks,
        n_landmarks)
        With kernel="rbf": of each view, and the inverse root of their Gram matrix.
    view_gammas_ : ndarray of shape (n_views,), float64
        With kernel="rbf": 1 / (2 w^2).
    view_means_ : ndarray of shape (n_features_in_,), float64
        Means of the columns of all views, side by side; with kernel="rbf", here and below, of the kernel features.
    basis_ : ndarray of shape (n_features_in_, n_components), float64
        The bases of all views, one below the other; `bases_` has them by name.
    coef_ : ndarray of shape (n_labels, n_components), float64
        W.
    joint_coef_ : ndarray of shape (n_labels, n_components), float64
        The W of the alternation, with `warm_start`.
    intercept_, threshold_ : ndarrays of shape (n_labels,), float64
        Scores of the representation 0; values that are subtracted from `label_scores`.
    precision_ : ndarray of shape (n_components, n_components), float64
        If rows lacked views: the inverse of the covariance of representations, as predictions use it.
    noise_variances_ : ndarray of shape (n_views,), float64
        If rows lacked views: the variance of a feature of each view beyond what its basis explains.
    label_penalty_ : float
        Penalty per unit of squared weights on `P G^(1/2)`, chosen by leave-one-out.
    curves_ : ndarray of shape (2, n_labels), float64, or None
        See `M3L`.
    objective_trace_ : ndarray
        Eq. (32) at the start and after every half-step (bases, W, P), including those of the fit that this one
        continues. A half-step that does not lower the objective is rejected, so the trace rises at most by rounding.
        The second fit of W, and thresholds, are not part of it.
    relative_change_ : float
        Share by which the last iteration lowered the objective.
    n_iter_, n_components_, n_features_in_ : int
        Iterations, including those of the fit that this one continues; columns of P; columns of all views.
    classes_ : ndarray of shape (n_labels,)
        The columns of Y.
    label_names_ : ndarray
        Only if names were passed.

    References
    ----------
    C. Zhang, Z. Yu, Q. Hu, P. Zhu, X. Liu, X. Wang: Latent semantic aware multi-view multi-label classification,
    AAAI (2018).

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core.batch import LSAMML
    >>> rng = np.random.default_rng(0)
    >>> hidden = rng.normal(size=(200, 3))
    >>> X = {name: hidden @ rng.normal(size=(3, 8)) + rng.normal(size=(200, 8)) for name in ("sound", "text")}
    >>> Y = (hidden > 0).astype(int)
    >>> labelled = np.arange(200) < 100
    >>> model = LSAMML(n_components=3).fit(X, Y, labelled)
    >>> both, one = model.predict(X), model.predict({"text": X["text"]})
    >>> print(f"{(both == Y)[100:].mean():.2f} from both views, {(one == Y)[100:].mean():.2f} from one")
    0.89 from both views, 0.87 from one
    """

    @deciding
    def fit(
        self,
        X: Mapping[str, ArrayLike],
        Y: ArrayLike,
        labelled: ArrayLike | None = None,
        missing: Mapping[str, ArrayLike] | None = None,
        label_names: Iterable[str] | None = None,
        progress: ProgressCallback | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from rows in several views.

        Parameters
        ----------
        X : mapping of view names to array-likes or sparse matrices of shape (n_samples, n_features of the view)
            Sparse views stay sparse.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            1 for a relevant label, 0 for an irrelevant one. The values in unlabelled rows are ignored (NaN, None).
        labelled : array-like of shape (n_samples,), bool, optional
            None: all rows.
        missing : mapping of view names to array-likes of shape (n_samples,), bool, optional
            True where a row lacks the view; the values of X there are ignored. Every row needs one view, every view one
            row.
        label_names : iterable of str, optional
            Stored as `label_names_`. None: the columns of a data frame Y.
        progress : callable, optional
            Called with a `Progress` after every iteration: the iteration (1 is the first of this call), the objective,
            and as gap the share by which the iteration lowered it. If it returns True, the fit ends with the current
            model.
        sample_weight : None
            Sample weights are rejected.

        Raises
        ------
        ValueError
            If a parameter or argument is not allowed; the message names it.
        """
        if sample_weight is not None:
            raise ValueError("sample_weight must be None: LSAMML does not support sample weights")
        self._random()  # an invalid value is reported before the fit starts
        prices = Prices(*(float(price) for price in (self.r, self.beta, self.gamma, self.ridge)))
        views, present = check_views(X, missing, allow_nan=self.scaling == "auto")
        n_samples = len(next(iter(present.values())))
        self.view_scalings_ = tuple(fitted_scaling(self.scaling, views[name], present[name]) for name in views)
        views = self._scaled(views, present, range(len(views)))
        mask = check_labelled(labelled, n_samples)
        indicators = check_some_labels(Y, mask)
        names = check_label_names(label_names, Y, indicators.shape[1])
        widths = [view.shape[1] for view in views.values()]
        with blas_threads(int(self.n_threads)):
            maps = self._landmark_maps(views, present)
            views = {name: maps[name](views[name], present[name]) if maps else views[name] for name in views}
            sizes = {name: view.shape[1] for name, view in views.items()}
            n_components = self._size(sizes, n_samples)
            blocks = [fitted_block(name, views[name], present[name]) for name in views]
            labels, energy = label_block(indicators, mask)
            prices = prices._replace(beta=prices.beta / energy)
            run = Alternation(blocks, labels, prices, Reporter(progress))
            rows = np.flatnonzero(mask)
            truth = indicators[mask].toarray()
            alpha = self._given_weights(run, truth, rows)
            before, trace = self._before(tuple(views), run, n_components, alpha)
            reached = run.run(before, trace, self.tol, self.max_iter)
            if not (reached.converged or reached.stopped):
                warn_of_convergence(
                    f"not converged in max_iter={self.max_iter} iterations: the last iteration lowered the "
                    f"objective by the share {reached.gap:.2g}, more than tol",
                    stacklevel=4,
                )
            self._describe(tuple(views), run, names, widths)
            self._keep_maps([*maps.values()])
            self._keep(reached, run)
            self._fit_labels(run, truth, rows)
        self.relative_change_ = reached.gap
        return self

    def _size(self, widths: Mapping[str, int], n_samples: int) -> int:
        """Return the number of components, which views and rows limit."""
        most = sum(widths.values())
        why = f"the views have {most} features together"
        if n_samples < most:
            most, why = n_samples, f"there are {n_samples} rows"
        wanted = self.n_components
        if wanted is None:
            return min(COMPONENTS, most)
        if wanted > most:
            raise TooFewRows(f"n_components must be at most {most}, not {wanted}: {why}")
        return int(wanted)

    def _given_weights(self, run: Alternation, Y: Matrix, rows: NDArray[np.int64]) -> Matrix:
        """Return the alpha for which the factors f_v are those that the labels choose."""
        alpha = label_weights(run.views, Y, rows) ** (1.0 / float(self.r))
        return np.asarray(alpha / (run.shares @ alpha))

    def _before(
        self, names: tuple[str, ...], run: Alternation, n_components: int, given: Matrix
    ) -> tuple[Model, list[float]]:
        """Return the state of an earlier fit if it can be continued, otherwise an initial state with these weights."""
        widths = [view.X.shape[1] for view in run.views]
        shape = (run.labels.X.shape[1], n_components)
        left = getattr(self, "joint_coef_", None) if self.warm_start else None
        if left is None or left.shape != shape or [*self.view_names_] != [*names] or self._n_columns != widths:
            return start(run.views, run.labels, run.prices, n_components, self._random(), given), []
        return Model(self._split(self.basis_), left, given), [float(value) for value in self.objective_trace_]

    def _landmark_maps(self, views: Mapping[str, Any], present: Mapping[str, Mask]) -> dict[str, LandmarkMap]:
        """Return a map for each view; none with the linear kernel."""
        if self.kernel == "linear":
            return {}
        n, random = int(self.n_landmarks), self._random()
        return {name: landmark_map(name, view, present[name], n, random) for name, view in views.items()}

    def _keep_maps(self, maps: Sequence[LandmarkMap]) -> None:
        if maps:
            self.view_landmarks_ = tuple(each.landmarks for each in maps)
            self.view_gammas_ = np.array([each.gamma for each in maps])
            self.view_roots_ = tuple(each.root for each in maps)

    def _describe(self, names: tuple[str, ...], run: Alternation, label_names: Any, widths: Sequence[int]) -> None:
        for name in _SOMETIMES:
            if hasattr(self, name):
                delattr(self, name)
        if label_names is not None:
            self.label_names_ = label_names
        self.classes_ = np.arange(run.labels.X.shape[1])
        self.view_names_ = np.array(names, dtype=object)
        self.view_widths_ = np.array(widths, dtype=np.int64)
        self.view_shares_ = run.shares
        self.view_scales_ = np.array([view.scale for view in run.views])
        self.view_means_ = np.concatenate([view.mean for view in run.views])
        self.n_features_in_ = int(self.view_widths_.sum())

    def _keep(self, reached: ViewsState, run: Alternation) -> None:
        model = reached.model
        self.basis_ = np.concatenate(model.bases)
        self.view_weights_ = model.alpha
        self.coef_ = model.W
        if self.warm_start:
            self.joint_coef_ = model.W
        self.n_components_ = int(model.W.shape[1])
        self.objective_trace_ = np.array(reached.trace)
        self.n_iter_ = reached.total

    def _fit_labels(self, run: Alternation, Y: Matrix, rows: NDArray[np.int64]) -> None:
        """Fit label weights and thresholds to representations that were computed without labels."""
        every = range(len(run.views))
        if any(view.present is not None for view in run.views):
            factors = fit_factors(run.views, self._split(self.basis_), self._represent(run.views, every))
            self.precision_, self.noise_variances_ = factors
        P = self._represent(run.views, every)[rows]
        root = gauge(self._split(self.basis_), run.factors(self.view_weights_))
        fitted = fit_ridge(P @ root, Y)
        self.coef_, self.intercept_, self.label_penalty_ = fitted.coef @ root, fitted.intercept, fitted.penalty
        scores = P @ self.coef_.T + self.intercept_
        self.threshold_ = half_or_best_cuts(scores, Y)
