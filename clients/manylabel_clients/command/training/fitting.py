"""Fits of the batch learners of core, with a progress bar, until they end or Ctrl-C."""

import inspect
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click
import numpy as np

from manylabel_clients.command.failures import Failure
from manylabel_clients.command.output.progress import FitBar
from manylabel_core.batch.catalogue import TRAINERS, arguments
from manylabel_core.compiled import when_compiling
from manylabel_core.datasets import Dataset
from manylabel_core.metrics.baseline import frequent_labels
from manylabel_core.metrics.measures import MEASURES, REPORTED
from manylabel_core.scaling.fitted import as_taken
from manylabel_core.solvers import Progress as Reached

_OURS = ("warm_start", "n_threads", "random_state")
"""Parameters that are not available, or that have separate options."""


def fitted(
    trainer: str, params: Mapping[str, Any], data: Dataset, *, seed: int, threads: int, visible: bool
) -> tuple[Any, bool]:
    """Return a fitted estimator, and whether it was stopped by Ctrl-C.

    Raises
    ------
    Failure
        For an unknown trainer or parameter, or a dataset that the trainer cannot learn.
    """
    estimator = _estimator(trainer, params, data).set_params(random_state=seed, n_threads=threads)
    with FitBar(visible, getattr(estimator, "tol", 0.0)) as bar, _interruptible() as is_asked_to_stop:

        def progress(reached: Reached) -> bool:
            bar.update_fold(reached.fold, estimator.folds)
            bar.update(reached.iteration, reached.gap, reached.seconds)
            return is_asked_to_stop()

        text = f"compiling the functions of {trainer}, once on this machine, which takes up to a minute"
        try:
            with when_compiling(lambda: click.echo(text, err=True)):
                _fit(estimator, trainer, data, progress)
        except ValueError as error:
            raise Failure(str(error)) from error
        return estimator, is_asked_to_stop()


def measures_of(estimator: Any, trainer: str, data: Dataset) -> dict[str, float]:
    """Return the metrics on held-out rows."""
    scores = (
        estimator.decision_function(as_taken(data.views, estimator.scaling), data.missing)
        if TRAINERS[trainer].views
        else estimator.decision_function(as_taken(data.X, estimator.scaling))
    )
    return {name: MEASURES[name](data.Y, scores, data.weights) for name in REPORTED}


def baseline_of(learnt: Dataset, data: Dataset) -> dict[str, float]:
    """Return the metrics of a baseline that always predicts the most frequent labels of the training rows."""
    known = learnt.take(learnt.labelled)
    scores = np.tile(frequent_labels(known.Y, known.weights), (data.n_rows, 1))
    return {name: MEASURES[name](data.Y, scores, data.weights) for name in REPORTED}


def _estimator(trainer: str, params: Mapping[str, Any], data: Dataset) -> Any:
    if trainer not in TRAINERS:
        raise click.BadParameter(f"must be one of {', '.join(TRAINERS)}, not {trainer!r}", param_hint="--trainer")
    kind = TRAINERS[trainer].estimator_class()
    known = [name for name in inspect.signature(kind).parameters if name not in _OURS]
    if unknown := [name for name in params if name not in known]:
        told = f"{trainer} has no parameter {unknown[0]!r}, only {', '.join(known)}"
        raise click.BadParameter(told, param_hint="--param")
    try:
        return kind(**arguments(params, data.Y[data.labelled]))
    except ValueError as error:  # rows of different lengths
        raise Failure(str(error)) from error


def _fit(estimator: Any, trainer: str, data: Dataset, progress: Callable[[Reached], bool]) -> None:
    more: dict[str, Any] = {"label_names": data.label_names, "progress": progress}
    if data.weights is not None:
        if not TRAINERS[trainer].weights:
            raise Failure(f"{trainer} accepts no row weights, but the file has weights")
        more["sample_weight"] = data.weights[data.labelled]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if TRAINERS[trainer].views:
            if len(data.views) < 2:
                raise Failure(f"{trainer} needs a file with several views (NPZ with view_id, or NDJSON with views)")
            estimator.fit(as_taken(data.views, estimator.scaling), data.Y, data.labelled, data.missing, **more)
        else:
            X = as_taken(data.X, estimator.scaling)
            if TRAINERS[trainer].unlabelled:
                more["X_unlabelled"] = X[~data.labelled]
            estimator.fit(X[data.labelled], data.Y[data.labelled], **more)
    for warning in caught:
        click.echo(str(warning.message), err=True)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Handle Ctrl-C: the fit stops at its next checkpoint; a second one ends everything at once."""
    asked = False

    def note(_: int, __: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
