"""Execution of the fits of one request, with checkpoints between and within fits.

A model needs a fit per fold, for thresholds and probabilities, and then one on all rows. A trial of a search needs a
fit per fold: the scores of a fold are evaluated with thresholds chosen on the other folds. The result depends only on
the request and its files, not on interruptions.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from manylabel_core.batch.catalogue import TRAINERS
from manylabel_core.batch.decisions.choice import Parts, validated_scores
from manylabel_core.batch.segments import LEAST, Reached, first_segment, fit_in_segments
from manylabel_core.checks import TooFewRows
from manylabel_core.datasets import Dataset
from manylabel_core.datasets.dataset import SINGLE
from manylabel_core.metrics.measures import MEASURES
from manylabel_core.scaling.fitted import as_taken
from manylabel_core.solvers import Progress
from manylabel_core.splitting import folds
from manylabel_core.state import State
from manylabel_service.jobs.spec.measures import all_measures, baseline_measures, label_measures
from manylabel_service.jobs.spec.schemas import HeldOut, LabelMeasures
from manylabel_service.jobs.spec.trainers import PARAMS
from manylabel_service.jobs.training import data as training_data
from manylabel_service.jobs.training.request import CHECKPOINT, RESULT, FitRequest, FitResult
from manylabel_service.trained.artifact import Convergence, ModelArtifact

TRACE_POINTS = 512
"""Maximum number of points of a convergence trace."""
MAX_LABELS_REPORTED = 200
"""Maximum number of labels whose metrics are reported with a result: the most frequent ones."""
REPORT_SECONDS = 0.25
"""Minimum seconds between two reports of progress."""

Report = Callable[[str, dict[str, Any]], None]
"""Callback for events such as ``progress``, with JSON data."""


@dataclass
class ConvergenceTrace:
    """Convergence curve of a fit, with one point for every `every` reports, so that the number of points is limited."""

    every: int = 1
    seen: int = 0
    points: list[list[float]] = field(default_factory=list)

    def add(self, at: Progress) -> None:
        """Record a report if it is due."""
        if self.seen % self.every == 0:
            self.points.append([at.iteration, at.objective, at.gap, at.seconds])
        self.seen += 1
        if len(self.points) > TRACE_POINTS:
            self.points, self.every = self.points[::2], 2 * self.every

    def convergence(self) -> Convergence:
        """Return the trace in the format that is stored with a version."""
        finite = [point for point in self.points if math.isfinite(point[1])]
        iterations, objectives, gaps, seconds = zip(*finite, strict=True) if finite else ((), (), (), ())
        return Convergence([int(i) for i in iterations], list(objectives), list(gaps), list(seconds))


@dataclass
class FitCheckpoint:
    """Progress of a request.

    Attributes
    ----------
    scores, seconds : of completed folds; the scores of held-out rows have shape (n_rows, n_labels).
    undecided : whether a fold cannot be learnt, so that the model has neither thresholds nor probabilities.
    reached, trace, estimator : state of the current fit.
    """

    scores: list[NDArray[np.float64]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    undecided: bool = False
    reached: Reached = field(default_factory=Reached)
    trace: ConvergenceTrace = field(default_factory=ConvergenceTrace)
    estimator: bytes = b""

    def to_bytes(self) -> bytes:
        """Serialise the checkpoint for `from_bytes`."""
        points = np.array(self.trace.points, dtype=np.float64).reshape(-1, 4)
        estimator = np.frombuffer(self.estimator, dtype=np.uint8)
        scores = {f"scores.{fold}": part for fold, part in enumerate(self.scores)}
        header = {
            "seconds": self.seconds,
            "undecided": self.undecided,
            "reached": asdict(self.reached),
            "trace": [self.trace.every, self.trace.seen],
        }
        return State({"estimator": estimator, "points": points, **scores}, header).to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> FitCheckpoint:
        """Inverse of `to_bytes`; raises `manylabel_core.state.DamagedState` for other bytes."""
        arrays, header = State.from_bytes(data)
        every, seen = header["trace"]
        trace = ConvergenceTrace(every, seen, arrays["points"].tolist())
        scores = [arrays[f"scores.{fold}"] for fold in range(len(header["seconds"]))]
        reached = Reached(**header["reached"])
        return cls(scores, header["seconds"], header["undecided"], reached, trace, arrays["estimator"].tobytes())


class Fold(NamedTuple):
    """A fold that a fit omits, by number and total; number 0 is the fit of all rows."""

    number: int = 0
    total: int = 0


class FitRun:
    """Execution of one request.

    Parameters
    ----------
    request : the request.
    directory : directory of its files, checkpoints and result.
    report : callback with events: ``progress``, ``checkpoint`` (with the name of the file), ``log``, ``result``.
    """

    def __init__(self, request: FitRequest, directory: Path, report: Report) -> None:
        self.request, self.directory, self.report = request, directory, report
        self.trainer = TRAINERS[request.trainer]
        self.data = training_data.load(request, directory)
        start = directory / CHECKPOINT
        self.checkpoint = FitCheckpoint.from_bytes(start.read_bytes()) if start.exists() else FitCheckpoint()
        self._reported_at = -math.inf
        self._last: Progress | None = None
        self._fold = Fold()
        self._converged = True

    def run(self) -> None:
        """Complete the request and write the result."""
        (self._trial if self.request.kind == "trial" else self._model)()

    def _trial(self) -> None:
        request, data = self.request, self.data.learnt
        parts = folds(data.n_rows, request.folds, request.seed)
        wanted = self._new(data)

        def score(estimator: Any, rows: Dataset) -> NDArray[np.float64]:
            return self._label_scores(estimator, rows) if wanted.chooses_cuts else self._scores(estimator, rows)

        held = self._out_of_fold(data, parts, lambda learnt: self._new(learnt).for_fold(), score)
        decided = self._decided(wanted, held, parts)
        values = [self._value(data.take(rows), decided[rows]) for _, rows in parts]
        self.report("result", {"scores": values, "seconds": sum(self.checkpoint.seconds)})

    def _value(self, held: Dataset, scores: NDArray[np.float64]) -> float:
        return MEASURES[self.request.measure](held.Y, scores, held.weights)

    def _decided(self, wanted: Any, scores: Sequence[NDArray[np.float64]], parts: Parts) -> NDArray[np.float64]:
        """Return out-of-fold scores in the order of the rows, minus thresholds tuned on other folds."""
        data = self.data.learnt
        whole = in_order(scores, parts)
        if not wanted.chooses_cuts:
            return whole
        return validated_scores(whole, data.Y.toarray() > 0, parts, wanted.optimise, data.weights)

    def _model(self) -> None:
        learnt, _, held = self.data
        wanted = self._new(learnt)
        parts = [] if self.checkpoint.undecided else wanted.parts(learnt.n_rows)
        if (why := wanted.undecided(learnt.n_rows)) is not None:
            self.report("log", {"text": why})
        try:
            folded = self._out_of_fold(learnt, parts, lambda _: wanted.for_fold(), self._label_scores)
        except TooFewRows as error:
            why = f"thresholds and probabilities are not fitted, because a fold cannot be learnt: {error}"
            self.report("log", {"text": why})
            parts, folded = [], []
            self.checkpoint = FitCheckpoint(undecided=True)
        estimator = self._fitted(wanted.for_fold(), learnt, Fold(0, len(parts)))
        estimator.set_params(optimise=wanted.optimise, calibrate=wanted.calibrate)
        if parts:
            estimator.fit_decisions(in_order(folded, parts), learnt.Y, parts, learnt.weights)
        measured, labels = None, None
        if held is not None and held.n_rows:
            scores = self._scores(estimator, held)
            labels = label_measures(held.Y, scores, held.label_names, held.weights)
            measured = HeldOut(
                rows=held.n_rows,
                measures=all_measures(held.Y, scores, held.weights),
                baseline=baseline_measures(learnt.Y, held.Y, learnt.weights, held.weights),
                labels=_most_frequent(labels),
            )
        artifact = ModelArtifact(
            estimator.to_bytes(),
            learnt.label_names,
            self._columns(learnt),
            labels,
            self.checkpoint.trace.convergence(),
            learnt.text,
            learnt.label_details,
        )
        (self.directory / RESULT).write_bytes(artifact.to_bytes())
        result = FitResult(
            rows=learnt.n_rows,
            held_out=measured,
            converged=self._converged,
            gap=_gap_of(estimator),
            seconds=sum(self.checkpoint.seconds) + self.checkpoint.reached.seconds,
        )
        self.report("result", result.model_dump())

    def _out_of_fold(
        self,
        data: Dataset,
        parts: Parts,
        new: Callable[[Dataset], Any],
        score: Callable[[Any, Dataset], NDArray[np.float64]],
    ) -> list[NDArray[np.float64]]:
        """Return, for each fold, the scores of its rows from an estimator trained on the other folds."""
        for number, (rows, held) in enumerate(parts[len(self.checkpoint.scores) :], start=len(self.checkpoint.scores)):
            learnt = data.take(rows)
            estimator = self._fitted(new(learnt), learnt, Fold(number + 1, len(parts)))
            scores, done = score(estimator, data.take(held)), self.checkpoint
            self.checkpoint = FitCheckpoint([*done.scores, scores], [*done.seconds, done.reached.seconds])
            if number + 1 < len(parts) or self.request.kind == "fit":
                self._checkpoint()
        return self.checkpoint.scores

    def _fitted(self, fresh: Any, data: Dataset, fold: Fold) -> Any:
        """Fit an estimator to these rows, starting from the checkpoint, and return it."""
        at, self._fold, self._last = self.checkpoint, fold, None
        estimator = type(fresh).from_bytes(at.estimator) if at.estimator else fresh

        def keep(reached: Reached) -> None:
            at.reached, at.estimator = reached, estimator.to_bytes()
            self._checkpoint()

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            at.reached = fit_in_segments(
                estimator,
                lambda progress: self._fit(estimator, data, progress),
                self._first_segment(data),
                reached=at.reached,
                progress=self._progress,
                checkpoint=keep,
            )
        self._report_progress()
        if self.request.kind == "trial" or not fold.number:
            self._warn(estimator, caught)
        return estimator

    def _new(self, data: Dataset) -> Any:
        """Return an estimator with the requested parameters; those that depend on labels are computed from the data."""
        arguments = PARAMS[self.request.trainer].model_validate(self.request.params).arguments(data.Y)
        return self.trainer.estimator_class()(
            **arguments, warm_start=True, random_state=self.request.seed, n_threads=self.request.threads
        )

    def _warn(self, estimator: Any, caught: Sequence[warnings.WarningMessage]) -> None:
        """Report the warnings. The convergence warnings of all segments are reported as one warning for the whole
        fit."""
        for text in sorted({str(each.message) for each in caught if each.category is not ConvergenceWarning}):
            self.report("log", {"text": text})
        self._converged = not any(each.category is ConvergenceWarning for each in caught)
        if self.checkpoint.reached.iterations >= estimator.max_iter:
            gap = self._last.gap if self._last else math.inf
            text = f"not converged in max_iter={estimator.max_iter} iterations: the relative gap is {gap:.2g}"
            self.report("log", {"text": text})
            self._converged = False

    def _fit(self, estimator: Any, data: Dataset, progress: Any) -> None:
        others, more = self.data.unlabelled, {"label_names": data.label_names, "progress": progress}
        if data.weights is not None:
            more["sample_weight"] = data.weights
        if self.trainer.views:
            both = training_data.stacked(data, others)
            estimator.fit(as_taken(both.views, estimator.scaling), both.Y, both.labelled, both.missing, **more)
        elif self.trainer.unlabelled and others.n_rows:
            X, more_X = (as_taken(part.X, estimator.scaling) for part in (data, others))
            estimator.fit(X, data.Y, more_X, **more)
        else:
            estimator.fit(as_taken(data.X, estimator.scaling), data.Y, **more)

    def _scores(self, estimator: Any, data: Dataset) -> NDArray[np.float64]:
        if self.trainer.views:
            return np.asarray(estimator.decision_function(as_taken(data.views, estimator.scaling), data.missing))
        return np.asarray(estimator.decision_function(as_taken(data.X, estimator.scaling)))

    def _label_scores(self, estimator: Any, data: Dataset) -> NDArray[np.float64]:
        """Return scores before any threshold."""
        if self.trainer.views:
            return np.asarray(estimator.label_scores(as_taken(data.views, estimator.scaling), data.missing))
        return np.asarray(estimator.label_scores(as_taken(data.X, estimator.scaling)))

    def _columns(self, data: Dataset) -> dict[str, tuple[str, ...] | int]:
        """Return, for each view of the estimator, the names of the features, or their number if they have no names."""
        if not self.trainer.views:
            return {SINGLE: data.names or data.n_features}
        return {name: data.feature_names[name] or int(view.shape[1]) for name, view in data.views.items()}

    def _first_segment(self, data: Dataset) -> int:
        return first_segment(
            list(data.views.values()),
            data.n_labels,
            kernel="linear" if self.trainer.views else self.request.params.get("kernel", "linear"),
            passes=self.trainer.passes,
            least=1 if self.trainer.exact else LEAST,
            work=self.request.segment_work,
        )

    def _progress(self, at: Progress) -> None:
        self.checkpoint.trace.add(at)
        self._last = at
        if time.monotonic() - self._reported_at >= REPORT_SECONDS:
            self._report_progress()

    def _report_progress(self) -> None:
        self._reported_at, at = time.monotonic(), self._last
        if at is not None:
            objective, gap = (value if math.isfinite(value) else None for value in (at.objective, at.gap))
            facts = {"iteration": at.iteration, "objective": objective, "gap": gap, "seconds": at.seconds}
            self.report("progress", {**facts, "fold": self._fold.number or None, "folds": self._fold.total or None})

    def _checkpoint(self) -> None:
        """Write a checkpoint next to the previous one, then report it; continue if the disk is full."""
        name = f"{CHECKPOINT}-{len(self.checkpoint.scores)}-{self.checkpoint.reached.segments}"
        data = self.checkpoint.to_bytes()
        try:
            (self.directory / name).write_bytes(data)
        except OSError as error:
            (self.directory / name).unlink(missing_ok=True)
            self.report("log", {"text": f"continues without a checkpoint: {error.strerror}"})
            return
        self.report("checkpoint", {"file": name, "iteration": self.checkpoint.reached.iterations})


def in_order(scores: Sequence[NDArray[np.float64]], parts: Parts) -> NDArray[np.float64]:
    """Return the scores of all folds in the order of the rows, shape (n_rows, n_labels)."""
    rows = np.concatenate([held for _, held in parts])
    whole = np.empty((len(rows), scores[0].shape[1]))
    whole[rows] = np.concatenate(scores)
    return whole


def _gap_of(estimator: Any) -> float | None:
    """Return the relative duality gap at the end of a fit; None if unknown."""
    gap = float(getattr(estimator, "duality_gap_", math.inf))
    return gap if math.isfinite(gap) else None


def _most_frequent(labels: dict[str, dict[str, Any]]) -> dict[str, LabelMeasures]:
    """Return the most frequent labels, which are reported, in their order; the version has all labels."""
    chosen = set(sorted(labels, key=lambda name: -labels[name]["support"])[:MAX_LABELS_REPORTED])
    return {name: LabelMeasures(**measures) for name, measures in labels.items() if name in chosen}
