"""What a training process does: the fits of one order, with checkpoints between them and within each.

A model is one fit. A trial of a search is a fit for each fold. Everything that follows depends on the order and its
files alone; where it was interrupted leaves no trace in the result.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from manylabel_core.batch.segments import LEAST, Reached, first_segment, fit_in_segments
from manylabel_core.datasets import Dataset
from manylabel_core.datasets.dataset import SINGLE
from manylabel_core.datasets.division import folds
from manylabel_core.solvers import Progress
from manylabel_core.state import dump, load
from manylabel_service.jobs.spec.measures import all_measures, label_measures, measure
from manylabel_service.jobs.spec.trainers import TRAINERS
from manylabel_service.jobs.training import data as material
from manylabel_service.jobs.training.request import CHECKPOINT, RESULT, FitRequest
from manylabel_service.trained.artifact import Convergence, ModelArtifact

TRACE_POINTS = 512
"""Of a convergence trace, at most."""
LABELS_TOLD = 200
"""Labels whose measures are told with a result, at most: the most frequent ones."""
TELL_SECONDS = 0.25
"""How often progress is told, at most."""

Tell = Callable[[str, dict[str, Any]], None]
"""Takes the name of an event, as ``progress``, and what it says, as JSON can say it."""


@dataclass
class ConvergenceTrace:
    """Where a fit was now and then: every so many reports, so that there are never too many."""

    every: int = 1
    seen: int = 0
    points: list[list[float]] = field(default_factory=list)

    def add(self, at: Progress) -> None:
        """Take note of a report, if it is its turn."""
        if self.seen % self.every == 0:
            self.points.append([at.iteration, at.objective, at.gap, at.seconds])
        self.seen += 1
        if len(self.points) > TRACE_POINTS:
            self.points, self.every = self.points[::2], 2 * self.every

    def convergence(self) -> Convergence:
        """As it is kept with a version."""
        finite = [point for point in self.points if math.isfinite(point[1])]
        iterations, objectives, gaps, seconds = zip(*finite, strict=True) if finite else ((), (), (), ())
        return Convergence([int(i) for i in iterations], list(objectives), list(gaps), list(seconds))


@dataclass
class FitCheckpoint:
    """How far an order is.

    Attributes
    ----------
    scores, seconds : of the fits that are done.
    reached, trace, estimator : of the fit under way.
    """

    scores: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    reached: Reached = field(default_factory=Reached)
    trace: ConvergenceTrace = field(default_factory=ConvergenceTrace)
    estimator: bytes = b""

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        points = np.array(self.trace.points, dtype=np.float64).reshape(-1, 4)
        estimator = np.frombuffer(self.estimator, dtype=np.uint8)
        header = {
            "scores": self.scores,
            "seconds": self.seconds,
            "reached": asdict(self.reached),
            "trace": [self.trace.every, self.trace.seen],
        }
        return dump({"estimator": estimator, "points": points}, header)

    @classmethod
    def from_bytes(cls, data: bytes) -> FitCheckpoint:
        """What `to_bytes` was called on; raises `manylabel_core.state.DamagedState` if it was not."""
        arrays, header = load(data)
        every, seen = header["trace"]
        trace = ConvergenceTrace(every, seen, arrays["points"].tolist())
        reached = Reached(**header["reached"])
        return cls(header["scores"], header["seconds"], reached, trace, arrays["estimator"].tobytes())


class FitRun:
    """One order.

    Parameters
    ----------
    order : what to do.
    directory : where its files are, and where checkpoints and the result are put.
    tell : is told events: ``progress``, ``checkpoint`` (with the name of the file), ``log``, ``result``.
    """

    def __init__(self, order: FitRequest, directory: Path, tell: Tell) -> None:
        self.order, self.directory, self.tell = order, directory, tell
        self.trainer = TRAINERS[order.trainer]
        self.material = material.load(order, directory)
        start = directory / CHECKPOINT
        self.standing = FitCheckpoint.from_bytes(start.read_bytes()) if start.exists() else FitCheckpoint()
        self._told = -math.inf
        self._last: Progress | None = None

    def run(self) -> None:
        """Do what is left to be done, to the result."""
        (self._trial if self.order.kind == "trial" else self._model)()

    def _trial(self) -> None:
        order, data = self.order, self.material.learnt
        parts = folds(data.n_rows, order.folds, order.seed)
        for learnt, held in parts[len(self.standing.scores) :]:
            estimator = self._fitted(data.take(learnt))
            scores = self._scores(estimator, data.take(held))
            value = measure(order.measure, data.Y[held], scores)
            done = self.standing
            self.standing = FitCheckpoint([*done.scores, value], [*done.seconds, done.reached.seconds])
            if len(self.standing.scores) < order.folds:
                self._checkpoint()
        self.tell("result", {"scores": self.standing.scores, "seconds": sum(self.standing.seconds)})

    def _model(self) -> None:
        learnt, _, held = self.material
        estimator = self._fitted(learnt)
        measured, labels = None, None
        if held is not None and held.n_rows:
            scores = self._scores(estimator, held)
            labels = label_measures(held.Y, scores, held.label_names)
            measured = {"rows": held.n_rows, "measures": all_measures(held.Y, scores), "labels": _most_frequent(labels)}
        contents = ModelArtifact(
            estimator.to_bytes(),
            learnt.label_names,
            self._columns(learnt),
            labels,
            self.standing.trace.convergence(),
        )
        (self.directory / RESULT).write_bytes(contents.to_bytes())
        self.tell("result", {"rows": learnt.n_rows, "held_out": measured, "seconds": self.standing.reached.seconds})

    def _fitted(self, data: Dataset) -> Any:
        """An estimator that has learnt these rows, from where it stands."""
        at, estimator_class = self.standing, self.trainer.estimator_class()
        estimator = estimator_class.from_bytes(at.estimator) if at.estimator else self._new(estimator_class, data)

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
        self._tell_progress()
        self._warn(estimator, caught)
        return estimator

    def _new(self, estimator_class: Any, data: Dataset) -> Any:
        arguments = self.trainer.params.model_validate(self.order.params).arguments(data.Y)
        return estimator_class(**arguments, warm_start=True, random_state=self.order.seed, n_threads=self.order.threads)

    def _warn(self, estimator: Any, caught: Sequence[warnings.WarningMessage]) -> None:
        """Pass on what was warned of. What segments say of their end is said once, of the whole."""
        for text in sorted({str(each.message) for each in caught if each.category is not ConvergenceWarning}):
            self.tell("log", {"text": text})
        if self.standing.reached.iterations >= estimator.max_iter:
            gap = self._last.gap if self._last else math.inf
            text = f"not converged in max_iter={estimator.max_iter} iterations: the relative gap is {gap:.2g}"
            self.tell("log", {"text": text})

    def _fit(self, estimator: Any, data: Dataset, progress: Any) -> None:
        others, more = self.material.unlabelled, {"label_names": data.label_names, "progress": progress}
        if self.trainer.views:
            both = material.stacked(data, others)
            estimator.fit(self._features(both), both.Y, both.labelled, **more)
        elif self.trainer.unlabelled and others.n_rows:
            estimator.fit(self._features(data), data.Y, self._features(others), **more)
        else:
            estimator.fit(self._features(data), data.Y, **more)

    def _scores(self, estimator: Any, data: Dataset) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = estimator.decision_function(self._features(data))
        return scores

    def _features(self, data: Dataset) -> Any:
        return data.views if self.trainer.views else data.X

    def _columns(self, data: Dataset) -> dict[str, tuple[str, ...] | int]:
        """Names of the features, or their number, for each view that the estimator knows."""
        if not self.trainer.views:
            return {SINGLE: data.names or data.n_features}
        return {name: data.feature_names[name] or int(view.shape[1]) for name, view in data.views.items()}

    def _first_segment(self, data: Dataset) -> int:
        return first_segment(
            list(data.views.values()),
            data.n_labels,
            kernel=self.order.params.get("kernel", "linear"),
            passes=self.trainer.passes,
            least=1 if self.trainer.exact else LEAST,
            work=self.order.segment_work,
        )

    def _progress(self, at: Progress) -> None:
        self.standing.trace.add(at)
        self._last = at
        if time.monotonic() - self._told >= TELL_SECONDS:
            self._tell_progress()

    def _tell_progress(self) -> None:
        self._told, at = time.monotonic(), self._last
        if at is not None:
            objective, gap = (value if math.isfinite(value) else None for value in (at.objective, at.gap))
            said = {"iteration": at.iteration, "objective": objective, "gap": gap, "seconds": at.seconds}
            self.tell("progress", said)

    def _checkpoint(self) -> None:
        """Write where it stands beside what was written before, then say so; without room for it, go on."""
        name = f"{CHECKPOINT}-{len(self.standing.scores)}-{self.standing.reached.segments}"
        data = self.standing.to_bytes()
        try:
            (self.directory / name).write_bytes(data)
        except OSError as error:
            (self.directory / name).unlink(missing_ok=True)
            self.tell("log", {"text": f"goes on without a checkpoint: {error.strerror}"})
            return
        self.tell("checkpoint", {"file": name, "iteration": self.standing.reached.iterations})


def _most_frequent(labels: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Those that are told, in their order; the version has them all."""
    if len(labels) <= LABELS_TOLD:
        return labels
    told = set(sorted(labels, key=lambda name: -labels[name]["support"])[:LABELS_TOLD])
    return {name: measures for name, measures in labels.items() if name in told}
