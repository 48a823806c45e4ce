"""Request to a training process, which is a file next to its data, and the result of a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from manylabel_service.jobs.spec.measures import Measure
from manylabel_service.jobs.spec.schemas import HeldOut

REQUEST = "request.json"
DATA: Final = "data"
HELD: Final = "held"
UNLABELLED: Final = "unlabelled"
CHECKPOINT = "checkpoint"
"""Checkpoint to resume from; None for the beginning."""
RESULT = "result"
"""Name of the file with the `manylabel_service.trained.artifact.ModelArtifact` of a fit."""


class Part(BaseModel, defer_build=True):
    """Rows of one file: a split, or all rows for None."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Literal["data", "held", "unlabelled"]
    split: str | None


class FitRequest(BaseModel, defer_build=True):
    """One fit, with all settings that its result depends on.

    Attributes
    ----------
    kind : ``fit``, whose result is a model; ``trial``, whose result is a score for each fold; ``doubts``, whose
        result is a list of doubtful labels; or ``dry_run``, whose result has the metrics of a change of labels.
    rows : training rows, including those that are held out.
    held : evaluation rows, or the share of `rows` to hold out.
    unlabelled : unlabelled training rows.
    folds, measure : number of folds and metric of a trial.
    threads, segment_work : settings on which the bits of the result depend.
    memory_bytes : maximum private memory of the process.
    niceness : niceness of the process, 0 to 19.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["fit", "trial", "doubts", "dry_run"]
    trainer: str
    params: dict[str, Any]
    seed: int
    rows: Part
    held: float | Part | None
    unlabelled: Part | None
    folds: int
    measure: Measure
    threads: int
    segment_work: float
    memory_bytes: int
    niceness: int

    def write(self, directory: Path) -> None:
        """Write the request to the file that the process reads."""
        (directory / REQUEST).write_text(self.model_dump_json())

    @classmethod
    def read(cls, directory: Path) -> FitRequest:
        """Read the request from its file."""
        return cls.model_validate_json((directory / REQUEST).read_bytes())


class FitResult(BaseModel, defer_build=True):
    """Facts about a fit; the process reports them when the model is in the file `RESULT`.

    Attributes
    ----------
    rows : number of rows learnt.
    held_out : metrics on the held-out rows; None without any.
    converged : whether the fit converged within its iterations.
    gap : upper bound of the relative distance from the optimum; None if unknown.
    seconds : seconds spent on the fit and on the fits of its folds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: int
    held_out: HeldOut | None
    converged: bool
    gap: float | None
    seconds: float
