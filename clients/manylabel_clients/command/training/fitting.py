"""Fits of the batch learners of core, with a bar that shows how far they are, until their end or Ctrl-C."""

import inspect
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from manylabel_clients.command.failures import Failure
from manylabel_clients.command.output.measures import MEASURES
from manylabel_clients.command.output.progress import FitBar
from manylabel_core import batch, metrics, priors
from manylabel_core.datasets import Dataset
from manylabel_core.solvers import Progress as Reached

ESTIMATORS = {
    "m3l": "M3L",
    "mlrl": "MLRL",
    "ssmlrl": "SSMLRL",
    "prml": "PrML",
    "prbr": "PrBR",
    "lsa_mml": "LSAMML",
}
"""Classes of `manylabel_core.batch`, by the names that a server's trainers have."""
OF_VIEWS = ("lsa_mml",)
"""Those that learn from several views; they learn from unlabelled rows too, as ssmlrl does."""
_OF_SCORES = ("one_error", "ranking_loss", "average_precision", "coverage", "macro_auc")
_OF_STREAMS = ("f1",)
"""Measures of an online model; a server's jobs have the other ones too."""
_OURS = ("warm_start", "n_threads", "random_state")
"""Parameters that are no choice of a person's, or have options of their own."""


def fitted(
    trainer: str, params: Mapping[str, Any], data: Dataset, *, seed: int, threads: int, visible: bool
) -> tuple[Any, bool]:
    """Return a fitted estimator, and whether it was stopped by Ctrl-C.

    Raises
    ------
    Failure
        For an unknown trainer or parameter, or a data set that it cannot learn from.
    """
    estimator = _estimator(trainer, params, data).set_params(random_state=seed, n_threads=threads)
    with FitBar(visible, getattr(estimator, "tol", 0.0)) as bar, _interruptible() as is_asked_to_stop:

        def progress(reached: Reached) -> bool:
            bar.update(reached.iteration, reached.gap, reached.seconds)
            return is_asked_to_stop()

        try:
            _fit(estimator, trainer, data, progress)
        except ValueError as error:
            raise Failure(str(error)) from error
        return estimator, is_asked_to_stop()


def measures_of(estimator: Any, trainer: str, data: Dataset) -> dict[str, float]:
    """Return the measures of the table, on rows that were not learnt."""
    scores = estimator.decision_function(data.views if trainer in OF_VIEWS else data.X)
    return {
        name: getattr(metrics, name)(data.Y, scores if name in _OF_SCORES else scores > 0)
        for name in MEASURES
        if name not in _OF_STREAMS
    }


def _estimator(trainer: str, params: Mapping[str, Any], data: Dataset) -> Any:
    if trainer not in ESTIMATORS:
        raise Failure(f"--trainer must be one of {', '.join(ESTIMATORS)}, not {trainer}")
    kind = getattr(batch, ESTIMATORS[trainer])
    known = [name for name in inspect.signature(kind).parameters if name not in _OURS]
    if unknown := [name for name in params if name not in known]:
        raise Failure(f"--param {unknown[0]}: {trainer} has no such parameter, only {', '.join(known)}")
    params = dict(params)
    if params.get("R") == "label_correlation":
        params["R"] = priors.label_correlation(data.Y[data.labelled])
    return kind(**params)


def _fit(estimator: Any, trainer: str, data: Dataset, progress: Callable[[Reached], bool]) -> None:
    arguments: dict[str, Any] = {"label_names": data.label_names, "progress": progress}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if trainer in OF_VIEWS:
            if len(data.views) < 2:
                raise Failure(f"{trainer} needs a file with several views (NPZ with view_id, or NDJSON with views)")
            estimator.fit(data.views, data.Y, data.labelled, **arguments)
        else:
            if trainer == "ssmlrl":
                arguments["X_unlabelled"] = data.X[~data.labelled]
            estimator.fit(data.X[data.labelled], data.Y[data.labelled], **arguments)
    for warning in caught:
        typer.echo(str(warning.message), err=True)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C, for the fit to end where it can; a second one ends everything at once."""
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
