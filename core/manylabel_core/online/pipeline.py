"""The pipeline of an online learner: scaling, model, calibration and drift detectors, in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.explanation import TITLES_COUNT, VECTORS_COUNT, Explanation, NotLinear, Scorer, explain_scores
from manylabel_core.online._examples import PROBLEMS, find_problem
from manylabel_core.online.calibration.calibration import Calibration, PlattParameters
from manylabel_core.online.drift.detectors import Alarms, Detectors
from manylabel_core.online.models.linear.gains import VectorGains, nbytes_of_gains
from manylabel_core.online.models.model import Model
from manylabel_core.online.models.second_order._second_order import MAX_FEATURES
from manylabel_core.online.models.stack.model import Stack
from manylabel_core.online.models.stack.titles import MAX_TITLE_WORDS, NO_WORDS, NewWords
from manylabel_core.part import Part
from manylabel_core.records.bounds import MAX_VECTOR_FIELDS
from manylabel_core.rows import VECTOR_COLUMNS, Rows, Targets, VectorRows, as_weights
from manylabel_core.scaling.ranks import RankCurves, Ranks, n_ranked_of
from manylabel_core.scaling.scaling import FeatureCounts, Scaling
from manylabel_core.scaling.vectors import VectorScaling

FIELD_BYTES, FIELD_LABEL_BYTES, VALUE_BYTES = 1024, 64, 64
"""Bounds of the bytes of a vector field: fixed, per label, and per value in addition to those of a feature."""
UNCALIBRATED = "calibrate must be True for probabilities"
"""Error for probabilities of a learner without calibration."""


class Learnt(NamedTuple):
    """Predictions for examples before they were learnt, and the alarms.

    Labels that did not exist before an example have the score and the probability 0. With `optimise`, a score is the
    threshold plus half of the distance of the label's log-odds from its decision threshold.
    """

    scores: NDArray[np.float64]  # (n_samples, 1 + n_labels), threshold first
    probabilities: NDArray[np.float64] | None  # (n_samples, n_labels); None if not requested
    alarms: list[tuple[int, int]]  # row of the example, and detector as in `OnlineLearner.alarms`


class LinearForm(NamedTuple):
    """Scores and probabilities as a linear function of scaled features and of ranks, thresholds included.

    Scores minus the threshold are the features and the ranks times the weights plus the intercept: above 0 where
    predicted. Log-odds are slope times score plus offset; above `KNOT` they count for KNOT plus `bend` times their
    excess. Without calibration slope and offset are None.
    """

    weights: NDArray[np.float64]  # (n_features, n_labels)
    intercept: NDArray[np.float64]  # (n_labels,)
    slope: NDArray[np.float64] | None  # (n_labels,)
    offset: NDArray[np.float64] | None  # (n_labels,)
    bend: float
    curves: RankCurves
    weights_of_ranks: NDArray[np.float64]  # (n_ranked, n_labels)


class Pipeline:
    """Sequence of scaling, model, calibration and detectors that learns and scores validated index arrays.

    `on_drift` is the reaction to an alarm before the next example is learnt. `dtype` is the type of the values that
    the model accepts. `n_features` and `n_labels` are the numbers of existing columns.
    """

    def __init__(
        self,
        scaling: Scaling,
        model: Model,
        calibration: Calibration | None,
        detectors: Detectors | None,
        on_drift: str | None,
        dtype: str,
    ) -> None:
        self.n_features, self.n_labels = 0, 0
        self.model = model
        self._scaling, self._calibration, self._detectors = scaling, calibration, detectors
        self._parts: list[Part] = [part for part in (scaling, calibration, detectors) if part is not None]
        self._on_drift, self._dtype = on_drift, np.dtype(dtype)
        self._ranks: Ranks | None = None
        if model.takes_ranks:
            self._ranks = Ranks(MAX_FEATURES, scaling.zero_is_missing)
            self._parts.append(self._ranks)
        self._vectors: VectorScaling | None = None
        self._gains: VectorGains | None = None

    def grow(self, n_features: int, n_labels: int) -> None:
        """Grow to at least these numbers of features and labels. A pipeline never shrinks."""
        self.reserve(n_features, n_labels)
        if n_features > self.n_features or n_labels > self.n_labels:
            self.n_features = max(n_features, self.n_features)
            self.n_labels = max(n_labels, self.n_labels)
            for part in self._parts:
                part.n_features, part.n_labels = self.n_features, self.n_labels

    @property
    def vectors(self) -> tuple[int, ...]:
        """The lengths of the vectors of each field."""
        return () if self._vectors is None else self._vectors.lengths

    def grow_vectors(self, lengths: Sequence[int]) -> None:
        """Grow to vector fields with the given lengths. Existing fields come first, with their lengths.

        Rows list all values of the vectors of an example after its other features. The columns of the first field start
        at `rows.VECTOR_COLUMNS`; the columns of the next fields follow.

        Raises
        ------
        ValueError
            If the known fields have other lengths, or if there are too many fields or too long vectors.

        Examples
        --------
        >>> import numpy as np
        >>> from manylabel_core import FALT
        >>> from manylabel_core.rows import VECTOR_COLUMNS, Rows, as_targets
        >>> pipeline = FALT().pipeline
        >>> pipeline.grow(1, 2)
        >>> pipeline.grow_vectors([2])
        >>> columns = np.array([0, VECTOR_COLUMNS, VECTOR_COLUMNS + 1] * 2, dtype=np.int32)
        >>> values = np.array([1.0, 0.2, -0.3, 1.0, -0.1, 0.4], dtype=np.float32)
        >>> rows = Rows(np.array([0, 3, 6]), columns, values)
        >>> _ = pipeline.learn(rows, as_targets([[1, 0], [0, 1]]))
        >>> pipeline.score(rows).shape
        (2, 3)
        """
        if tuple(lengths) != self.vectors:
            self._take_vectors(lengths)
            self.model.reserve(self._n_rows(self.n_features), self.n_labels)

    def _take_vectors(self, lengths: Sequence[int]) -> None:
        """Pass the vector fields to the parts."""
        if self._vectors is None:
            self._vectors = VectorScaling()
            self._parts.append(self._vectors)
            if not self.model.takes_vectors:
                self._gains = VectorGains(self._dtype.name)
                self._parts.append(self._gains)
        self._vectors.add_fields(lengths, self.n_features)
        self.model.set_vectors(lengths)
        if self._gains is not None:
            self._gains.set_lengths(lengths, self.n_features, self.n_labels)

    def _n_rows(self, n_features: int) -> int:
        """Return the number of features of the model, from the number of features outside vectors."""
        if self._vectors is None or self.model.takes_vectors:
            return n_features
        return n_features + self._vectors.n_values

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        """Allocate the memory for this number of features and labels, without other changes.

        `grow` also does this if necessary. Unlike `grow`, it may run at the same time as `score`, but not as `learn`.
        With `touch`, the system provides large memory now instead of at the first write.
        """
        n_features, n_labels = max(n_features, self.n_features), max(n_labels, self.n_labels)
        if n_features > self.n_features or n_labels > self.n_labels:
            for part in self._parts:
                part.reserve(n_features, n_labels, touch)
            self.model.reserve(self._n_rows(n_features), n_labels, touch)

    def pair(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Set the pairs of columns: a number, and the feature that is 1 in examples with the number.

        Pairs are never removed. After the first example with this feature, the number is scaled as a quantity, even if
        its values are near 0 (see `AutomaticScaling`). Pairs are not part of the state: set them again after `restore`.
        """
        self._scaling.pair(pairs)

    @property
    def zero_is_missing(self) -> bool:
        """Return whether a 0 counts as a missing value."""
        return self._scaling.zero_is_missing

    def feature_counts(self) -> FeatureCounts | None:
        """Return how many examples have each feature; None if the scaling does not count them."""
        return self._scaling.counts()

    @property
    def nbytes(self) -> int:
        """Return the bytes of the state; the allocated memory may be up to eight times larger."""
        return self.nbytes_after(self.n_features, self.n_labels, 0, 0)

    def nbytes_after(
        self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int | None = None
    ) -> int:
        """Return the maximum bytes of the state with these numbers of columns, at least the present ones, after
        `n_samples` more examples.

        They have `n_values` values in total, of `n_distinct` features; None means as many features as values.
        """
        n_scaled = self._scaling.values_after(n_features, n_samples, n_values)
        n_changed = n_scaled if n_distinct is None else min(n_scaled, self._scaling.features_after(n_distinct))
        model = self.model.nbytes_after(self._n_rows(n_features), n_labels, n_samples, n_scaled, n_changed)
        return model + sum(part.nbytes_after(n_features, n_labels, n_samples, n_values) for part in self._parts)

    def nbytes_of_vectors(self, n_values: int, n_features: int, n_labels: int) -> int:
        """Return the maximum bytes that new vector fields add to `nbytes_after`.

        `n_values` is the total length of one vector of each new field; `nbytes_after` must count as many additional
        features.
        """
        if n_values == 0:
            return 0
        of_fields = MAX_VECTOR_FIELDS * (FIELD_BYTES + FIELD_LABEL_BYTES * (1 + n_labels)) + VALUE_BYTES * n_values
        if self._gains is None and not self.model.takes_vectors:
            of_fields += nbytes_of_gains(self._dtype.itemsize, n_features + n_values, n_labels)
        return of_fields + self.model.nbytes_of_first_vectors(n_features, n_labels)

    def learn(self, rows: Rows, targets: Targets, probabilities: bool = False) -> Learnt:
        """Learn examples in order. An example without any known truth is only scored.

        Parameters
        ----------
        rows : Rows of n_samples examples
            Feature columns must be below `n_features`.
        targets : Targets of the same examples
            Label columns must be below `targets.n_labels` of their example, which is at most `n_labels`.
        probabilities : bool, default=False
            Whether to return probabilities too.

        Returns
        -------
        Learnt
            Predictions for each example just before it was learnt, and the alarms.

        Raises
        ------
        ValueError
            If the arrays are inconsistent or exceed the columns, or if `probabilities` are requested with
            calibrate=False. Nothing has been learnt then.
        """
        rows, vectors = self._split(self._plain(rows))
        problem, all_known = find_problem(self.n_features, self.n_labels, *rows, *targets[:-1])
        if problem:
            raise ValueError(PROBLEMS[problem])
        n_samples = len(rows.indptr) - 1
        if len(targets.weights):
            as_weights(targets.weights, n_samples, "weights")
        if probabilities and self._calibration is None:
            raise ValueError(UNCALIBRATED)
        filled = np.empty((n_samples, self.n_labels)) if probabilities else None
        scores = np.empty((n_samples, 1 + self.n_labels), dtype=np.float64)
        if all_known and (n_samples == 1 or n_samples <= self._rows_at_once):  # the common case: a single part
            return Learnt(scores, filled, self._learn_part(rows, targets, scores, filled, vectors))
        alarms: list[tuple[int, int]] = []
        known = (targets.indptr[1:] > targets.indptr[:-1]) | (targets.complete & (targets.n_labels > 0))
        ends = np.array([n_samples]) if all_known else _ends(np.stack([known, np.where(known, 0, targets.n_labels)]))
        for first, last in _parts(
            n_samples, lambda row: min(self._rows_at_once, int(ends[np.searchsorted(ends, row, side="right")]) - row)
        ):
            own = None if filled is None else filled[first:last]
            its = None if vectors is None else vectors.part(first, last)
            if known[first]:
                part = rows.part(first, last), targets.part(first, last), scores[first:last]
                alarms += [(first + row, column) for row, column in self._learn_part(*part, own, its)]
            else:
                self._look(rows.part(first, last), its, int(targets.n_labels[first]), scores[first:last], own)
        return Learnt(scores, filled, alarms)

    def _look(
        self,
        rows: Rows,
        vectors: VectorRows | None,
        n_labels: int,
        scores: NDArray[np.float64],
        probabilities: NDArray[np.float64] | None,
    ) -> None:
        """Write the scores and probabilities of examples without a known truth, which have the first labels."""
        own = np.empty((len(scores), 1 + n_labels))
        self._score(rows, vectors, own, self.model.score)
        scores[:, : 1 + n_labels], scores[:, 1 + n_labels :] = own, 0.0
        if probabilities is not None and self._calibration is not None:
            probabilities[:, :n_labels], probabilities[:, n_labels:] = self._calibration.probabilities(own), 0.0

    def _learn_part(
        self,
        rows: Rows,
        targets: Targets,
        scores: NDArray[np.float64],
        probabilities: NDArray[np.float64] | None,
        vectors: VectorRows | None,
    ) -> list[tuple[int, int]]:
        """Learn checked rows in order; write their scores and probabilities, and return the alarms."""
        scaled, more = self._scaling.learn(rows), dict[str, Rows | VectorRows](self._learn_ranks(rows))
        if vectors is not None:
            scaled, own = self._with_vectors(scaled, vectors, targets)
            more |= own
        self.model.learn(scaled, targets, scores, **more)
        if self._ranks is not None and not self.model.takes_ranks:
            self._drop_ranks()
        if self._calibration is not None:
            self._calibration.learn(scores, targets, probabilities)
        alarms = [] if self._detectors is None else self._detectors.watch(scores, targets)
        if self._on_drift is not None:
            for _, column in alarms:
                self._react(column)
        return alarms

    def _react(self, column: int) -> None:
        """Execute `on_drift` for an alarm of the detector in a column; column 0 is the detector of all labels
        together."""
        if self._on_drift == "raise":
            self.model.reset_step_sizes(column - 1 if column > 0 else None)
            if self._gains is not None and column == 0:
                self._gains.reset_step_sizes()
        elif column > 0:
            self.model.forget(column - 1)
            if self._gains is not None:
                self._gains.forget(column - 1)
            if self._calibration is not None:
                self._calibration.forget(column - 1)
                self._note_title(column - 1)

    def _learn_ranks(self, rows: Rows) -> dict[str, Rows]:
        """Learn the values of rows; return their ranks as an argument of the model."""
        if self._ranks is None:
            return {}
        ranks = self._ranks.learn(rows)
        self._stack.set_ranked(self._ranks.n_ranked)
        return {"ranks": ranks}

    def _drop_ranks(self) -> None:
        """Drop the ranks, because the model does not take them any more."""
        self._parts = [part for part in self._parts if part is not self._ranks]
        self._ranks = None

    def _split(self, rows: Rows) -> tuple[Rows, VectorRows | None]:
        """Return rows without their vectors, and the vectors; raises ValueError if a vector is incomplete."""
        return (rows, None) if self._vectors is None else self._vectors.split(rows)

    def _with_vectors(
        self, rows: Rows, vectors: VectorRows, targets: Targets | None = None
    ) -> tuple[Rows, dict[str, VectorRows]]:
        """Return scaled rows, and scaled vectors as an argument of the model if it takes them; with targets, learn the
        scale and the gains.
        """
        assert self._vectors is not None
        scaled = self._vectors.scale(vectors, targets is not None)
        if self._gains is None:
            return rows, {"vectors": scaled}
        learnt = None if targets is None else self._gains.learn(rows, scaled, targets, self.n_labels)
        shares = self._gains.shares(rows, scaled) if learnt is None else learnt
        return self._vectors.join(rows, scaled, shares), {}

    @property
    def _rows_scaled_at_once(self) -> int:
        """Return the maximum number of rows to scale in one call."""
        n_rows = self._scaling.rows_at_once
        return n_rows if self._vectors is None else min(n_rows, self._vectors.rows_at_once)

    @property
    def _rows_at_once(self) -> int:
        """Return the maximum rows per part of a call, because a reaction to an alarm precedes the next example."""
        n_rows = self._rows_scaled_at_once
        if self._on_drift is None or self._detectors is None:
            return n_rows
        return min(n_rows, self._detectors.n_until_check)

    def score(self, rows: Rows, new_words: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Score examples without learning.

        Parameters
        ----------
        rows : Rows of n_samples examples
            Columns from `n_features` on are features without an example: they have no weight, but count in the norm of
            an example.
        new_words : ndarray of shape (n_new,), int64, optional
            Words of titles for the columns from `n_features` on, as `link` maps them; -1 for none.

        Returns
        -------
        ndarray of shape (n_samples, 1 + n_labels), float64
            Scores, threshold first. They are identical bit for bit to the scores that `learn` would return if it were
            called with the example next.

        Raises
        ------
        ValueError
            If words are passed to a model without titles.
        """
        rows, vectors = self._split(self._plain(rows))
        n_samples = len(rows.indptr) - 1
        scores = np.empty((n_samples, 1 + self.n_labels), dtype=np.float64)
        score = self.model.score if new_words is None else partial(self._stack.score, new=self._new(new_words))
        self._score(rows, vectors, scores, score)
        return scores

    def _score(
        self, rows: Rows, vectors: VectorRows | None, scores: NDArray[np.float64], score: Callable[..., None]
    ) -> None:
        """Write the scores of rows by the function of the model."""
        n_samples = len(scores)
        for first, last in _parts(n_samples, lambda _: self._rows_scaled_at_once):
            own = rows.part(first, last)
            scaled, more = self._scaling.score(own), dict[str, Rows | VectorRows]()
            if self._ranks is not None:
                more["ranks"] = self._ranks.score(own)
            if vectors is not None:
                scaled, of_vectors = self._with_vectors(scaled, vectors.part(first, last))
                more |= of_vectors
            score(scaled, scores[first:last], **more)
        if self._calibration is not None:
            self._calibration.decide(scores)

    @property
    def takes_titles(self) -> bool:
        """Return whether the model uses titles of labels, as with step="stacked"."""
        return isinstance(self.model, Stack)

    @property
    def _stack(self) -> Stack:
        """Model with titles; raises ValueError for a model without titles."""
        if not isinstance(self.model, Stack):
            raise ValueError("step must be 'stacked' for titles of labels")
        return self.model

    def _new(self, words: NDArray[np.int64] | None) -> NewWords:
        return NO_WORDS if words is None else NewWords(self.n_features, words)

    def set_titles(self, titles: Mapping[int, ArrayLike]) -> None:
        """Replace the words of titles of labels.

        An example that has words of a label's title raises the score of the label, in proportion to the past benefit of
        titles for predictions. So a label can be predicted before its first example.

        Parameters
        ----------
        titles : Mapping of int to array-like of shape (n_words,), int64
            Words of the title by the column of the label, at most 100. A word is any number from 0 to 2^63 - 1. An
            empty list removes the title.

        Raises
        ------
        ValueError
            If there is no such label, if a word is invalid, or if the model does not support titles. In that case,
            nothing has changed.

        Examples
        --------
        >>> from manylabel_core import FALT
        >>> from manylabel_core.rows import as_rows
        >>> cat, dog = 0, 1
        >>> pipeline = FALT().pipeline
        >>> pipeline.grow(2, 2)
        >>> pipeline.set_titles({0: [cat], 1: [dog]})
        >>> pipeline.link([0, 1], [cat, dog])
        >>> rows, _ = as_rows([[1.0, 0.0], [0.0, 1.0]])
        >>> pipeline.score(rows)[:, 1:].argmax(axis=1).tolist()
        [0, 1]
        """
        words = {label: _words(f"titles[{label}]", own, 0) for label, own in titles.items()}
        for label, own in words.items():
            if not 0 <= label < self.n_labels:
                raise ValueError(f"titles[{label}] has no label: there are {self.n_labels} labels")
            if len(own) > MAX_TITLE_WORDS:
                raise ValueError(f"titles[{label}] must have at most {MAX_TITLE_WORDS} words, not {len(own)}")
        self._stack.set_titles(words)
        for label in words:
            self._note_title(label)

    def _note_title(self, label: int) -> None:
        if self._calibration is not None and isinstance(self.model, Stack):
            self._calibration.note_title(label, self.model.has_title(label))

    def link(self, features: ArrayLike, words: ArrayLike) -> None:
        """Map features to words of titles.

        A feature may be linked at any time before its first example; the time does not affect the learnt bits.

        Parameters
        ----------
        features : array-like of shape (n_linked,), int
            Columns below `n_features`, each once.
        words : array-like of shape (n_linked,), int64
            The word of each feature, as in `set_titles`; -1 for a feature without a word.

        Raises
        ------
        ValueError
            If there is no such feature, if a word is invalid, or if the model does not support titles.
        """
        columns, own = np.asarray(features), _words("words", words, -1)
        if columns.shape != own.shape or (columns.size and columns.dtype.kind not in "iu"):
            raise ValueError("features must have one column number for each word")
        if len(columns) and not 0 <= columns.min() <= columns.max() < self.n_features:
            raise ValueError(f"features must be column numbers below {self.n_features}")
        self._stack.link(columns.astype(np.int32), own)

    def explain(
        self, row: Rows, labels: Sequence[int], k: int, new_words: NDArray[np.int64] | None = None
    ) -> list[Explanation]:
        """Explain the scores of some labels by the features of an example.

        The explained score is that of `OnlineLearner.decision_function`. The contribution of a feature is its scaled
        value times the weight of the label minus that of the threshold. So the contribution of a standardised feature
        depends on its distance from its mean. With `optimise`, contributions are multiplied by the slope of the label's
        probability, as the score is.

        Parameters
        ----------
        row : Rows of one example
            As in `score`.
        labels : sequence of int
            Columns of labels.
        k : int
            Maximum number of positive, and of negative, contributions listed per label.
        new_words : ndarray of shape (n_new,), int64, optional
            As in `score`.

        Returns
        -------
        list of Explanation
            An explanation for each of `labels`.

        Raises
        ------
        manylabel_core.explanation.NotLinear
            If the model has a kernel.
        ValueError
            If there are too many features to explain.

        Examples
        --------
        >>> import numpy as np
        >>> from manylabel_core import FALT
        >>> from manylabel_core.rows import as_rows
        >>> X, Y = np.eye(3), np.eye(3, dtype=int)
        >>> learner = FALT().partial_fit(X, Y)
        >>> row, _ = as_rows([[1.0, 0.0, 1.0]])
        >>> learner.pipeline.explain(row, [0], 1)[0].features
        array([0, 2], dtype=int32)
        """
        self._check_linear()
        given, vectors = self._split(self._plain(row))
        scaled, own = self._scaling.score(given), dict[str, VectorRows]()
        if vectors is not None:
            scaled, own = self._with_vectors(scaled, vectors)
        columns, values = scaled.row(0)
        known = columns < self._n_rows(self.n_features)
        columns, values = columns[known], values[known]
        offsets, slopes = np.zeros(self.n_labels), np.ones(self.n_labels)
        if self._calibration is not None:
            self._calibration.set_offsets(offsets, slopes)

        of_titles = np.zeros(self.n_labels)
        if isinstance(self.model, Stack):
            of_titles = slopes * self.model.title_parts(scaled, self.n_labels, self._new(new_words))

        def scorer(label: int) -> Scorer:
            if own:
                weights, constant = self._stack.scorer_with(columns, own["vectors"], len(scaled.indices) > 0, label)
            else:
                weights, constant = self.model.scorer(columns, label)
            return Scorer(slopes[label] * weights, float(slopes[label] * (constant - offsets[label])))

        shown = given.indices[~np.isnan(given.values)]
        example: tuple[NDArray[np.int32], NDArray[Any]] = columns, values
        joint: Callable[[int], Scorer] = scorer
        if vectors is not None:
            assert self._vectors is not None
            shown = np.concatenate([shown, self._vectors.columns])
            joined = self._vectors.origin(columns) if not own else columns
            example, joint = _with_blocks(joined, values, scorer, self._vectors.columns)
        if self._ranks is not None and self._ranks.n_ranked:
            places, ranks = self._ranks.score(given).row(0)
            features = self._ranks.curves().features[places]
            example, joint = _with_ranks(
                example, joint, features, lambda label: slopes[label] * self._weights_of_ranks(label)[places] * ranks
            )
        explained = explain_scores(shown, example, joint, labels, k)
        parts = of_titles[list(labels)].tolist()
        return [each._replace(title=part) for each, part in zip(explained, parts, strict=True)]

    def linear_form(self) -> LinearForm:
        """Return the linear function from features to scores; raises `NotLinear` for titles, vectors or a kernel."""
        self._check_linear()
        if self._vectors is not None:
            raise NotLinear(VECTORS_COUNT)
        if isinstance(self.model, Stack) and self.model.counts_titles:
            raise NotLinear(TITLES_COUNT)
        columns = np.arange(self.n_features, dtype=np.int32)
        weights, intercept = np.empty((self.n_features, self.n_labels)), np.empty(self.n_labels)
        for label in range(self.n_labels):
            weights[:, label], intercept[label] = self.model.scorer(columns, label)
        ranks = RankCurves.none() if self._ranks is None else self._ranks.curves()
        of_ranks = np.empty((len(ranks.features), self.n_labels))
        for label in range(self.n_labels if len(of_ranks) else 0):
            of_ranks[:, label] = self._weights_of_ranks(label)
        if self._calibration is None:
            return LinearForm(weights, intercept, None, None, 1.0, ranks, of_ranks)
        offsets, slopes = np.zeros(self.n_labels), np.ones(self.n_labels)
        self._calibration.set_offsets(offsets, slopes)
        curves = self._calibration.curves()
        offset = curves.intercept + curves.slope * offsets
        parts = weights * slopes, slopes * (intercept - offsets), curves.slope / slopes, offset, curves.bend
        return LinearForm(*parts, ranks, of_ranks * slopes)

    def _weights_of_ranks(self, label: int) -> NDArray[np.float64]:
        return self._stack.weights_of_ranks(label)

    def _check_linear(self) -> None:
        """Raise NotLinear for a kernel model, even before it has labels."""
        if not self.model.is_linear:
            raise NotLinear()

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities, (n_samples, n_labels), for scores, (n_samples, 1 + n_labels), of the current state;
        raise ValueError for another shape, or with calibrate=False.
        """
        if scores.ndim != 2 or scores.shape[1] != 1 + self.n_labels:
            raise ValueError(f"scores must have {1 + self.n_labels} columns, as returned by score")
        if self._calibration is None:
            raise ValueError(UNCALIBRATED)
        return self._calibration.probabilities(scores)

    def curves(self) -> PlattParameters | None:
        """Return the probability curves and decision thresholds of labels; None without calibration."""
        return None if self._calibration is None else self._calibration.curves()

    def alarms(self) -> Alarms:
        """Return the drift alarms; empty without detectors."""
        if self._detectors is None:
            return Alarms(*np.zeros((2, 1 + self.n_labels), dtype=np.int64))
        return self._detectors.alarms()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state; views where possible, which change as the pipeline learns."""
        arrays = self.model.arrays(self._n_rows(self.n_features), self.n_labels)
        for part in self._parts:
            arrays |= part.arrays(self.n_features, self.n_labels)
        return arrays

    def _expect(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Prepare this empty pipeline for a state: create its parts. Raises ValueError if the state is invalid."""
        lengths = arrays.get("vectors.lengths")
        if lengths is None and "vectors.moments" in arrays:
            raise ValueError("state: vectors.lengths is missing")
        if lengths is not None:
            if lengths.dtype != np.int64 or lengths.ndim != 1 or not len(lengths):
                raise ValueError("state: vectors.lengths must be a 1-D array of int64, and not empty")
            self._take_vectors(lengths.tolist())
        if self._ranks is not None:
            self._stack.expect(arrays)
            if self.model.takes_ranks:
                self._stack.set_ranked(n_ranked_of(arrays))
            else:
                self._drop_ranks()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the `arrays` of another pipeline into this empty pipeline, which is unusable after an error."""
        self._expect(arrays)
        expected = self.arrays()
        for name, like in expected.items():
            if name not in arrays or (arrays[name].dtype, arrays[name].ndim) != (like.dtype, like.ndim):
                raise ValueError(f"state: {name} must be a {like.ndim}-D array of {like.dtype}")
        owned = {name: np.array(arrays[name], order="C") for name in expected}
        n_rows, self.n_labels = self.model.size(owned)
        self.model.restore(owned, n_rows, self.n_labels)
        self.n_features = n_rows - self._n_rows(0)
        for part in self._parts:
            part.restore(owned, self.n_features, self.n_labels)

    def _plain(self, rows: Rows) -> Rows:
        """Return rows in the form required by compiled functions: values of the model's type, in writeable arrays."""
        indptr, indices, values = rows
        writeable = indptr.flags.writeable and indices.flags.writeable and values.flags.writeable
        if writeable and values.dtype == self._dtype:
            return rows
        return Rows(np.array(indptr), np.array(indices), np.array(values, dtype=self._dtype))


def _with_blocks(
    columns: NDArray[np.int32], values: NDArray[Any], scorer: Callable[[int], Scorer], blocks: NDArray[np.int32]
) -> tuple[tuple[NDArray[np.int32], NDArray[np.float64]], Callable[[int], Scorer]]:
    """Return an example and its scorer with an additional feature of value 1 per block."""
    others = columns < VECTOR_COLUMNS
    ones = np.concatenate([values[others].astype(np.float64), np.ones(len(blocks))])

    def joint(label: int) -> Scorer:
        weights, constant = scorer(label)
        own, behind = weights[: len(columns)], weights[len(columns) :]
        sums = behind if len(behind) else np.array([(own * values)[columns == block].sum() for block in blocks])
        return Scorer(np.concatenate([own[others], sums]), constant)

    return (np.concatenate([columns[others], blocks]), ones), joint


def _with_ranks(
    example: tuple[NDArray[np.int32], NDArray[Any]],
    scorer: Callable[[int], Scorer],
    features: NDArray[np.int32],
    parts_of: Callable[[int], NDArray[np.float64]],
) -> tuple[tuple[NDArray[np.int32], NDArray[np.float64]], Callable[[int], Scorer]]:
    """Return an example of ones, whose weights are the contributions of the features: scaled value and rank together.

    `features` has the feature of each rank of the example, and `parts_of` returns the contributions of ranks to a
    label.
    """
    columns, values = example
    joined, places = np.unique(np.concatenate([columns, features]), return_inverse=True)

    def joint(label: int) -> Scorer:
        weights, constant = scorer(label)
        parts = np.concatenate([weights * values, parts_of(label)])
        sums = np.zeros(len(joined))
        np.add.at(sums, places, parts)
        return Scorer(sums, constant)

    return (joined.astype(np.int32), np.ones(len(joined))), joint


def _words(name: str, words: ArrayLike, least: int) -> NDArray[np.int64]:
    """Return words as an array, or raise ValueError if invalid."""
    found = np.asarray(words)
    if found.ndim != 1 or (found.size and (found.dtype.kind not in "iu" or found.min() < least)):
        raise ValueError(f"{name} must be whole numbers from {least} to 2^63 - 1")
    return found.astype(np.int64)


def _ends(columns: NDArray[Any]) -> NDArray[np.int64]:
    """Return where each run of equal columns of a matrix ends."""
    changes = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    return np.append(np.flatnonzero(changes) + 1, columns.shape[1])


def _parts(n_samples: int, size: Callable[[int], int]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the parts of a call; the maximum size of a part is determined at its start."""
    first = 0
    while first < n_samples:
        last = min(first + size(first), n_samples)
        yield first, last
        first = last
