"""Examples of a log in a training process, and the report of progress on them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manylabel_core.online.pipeline import Pipeline
from manylabel_core.rows import NO_WEIGHTS, Rows, Targets
from manylabel_core.state import State
from manylabel_service.jobs.training.request import DATA, FitRequest

REPORT_SECONDS = 0.25
"""Minimum seconds between two reports of progress."""


class ExamplesRun:
    """Task over the examples of a log, without checkpoints.

    Parameters
    ----------
    request : request of the task; its params have the spec of the model.
    directory : directory with the examples.
    report : callback for events.

    Attributes
    ----------
    arrays, facts : the examples, see `ExampleRecorder`.
    rows, targets : the examples with their true labels.
    """

    def __init__(self, request: FitRequest, directory: Path, report: Callable[[str, dict[str, Any]], None]) -> None:
        self.request, self.directory, self.report = request, directory, report
        self._started = self._reported = time.monotonic()
        self.arrays = arrays = State.from_bytes(bytearray((directory / DATA).read_bytes())).arrays
        self.facts: dict[str, Any] = json.loads(arrays["facts"].tobytes())
        weights = arrays["weights"]
        self.rows = Rows(arrays["indptr"], arrays["indices"], arrays["values"])
        self.targets = Targets(
            arrays["label_indptr"],
            arrays["labels"],
            arrays["signs"],
            arrays["complete"],
            arrays["n_labels"],
            NO_WEIGHTS if (weights == 1.0).all() else weights,
        )

    def grown(self, pipeline: Pipeline, n_labels: int) -> Pipeline:
        """Return an untrained pipeline that has all features of the examples, and this number of labels."""
        pipeline.grow(self.facts["n_features"], n_labels)
        pipeline.grow_vectors([length for _, length in self.facts["vectors"]])
        pipeline.pair([(first, second) for first, second in self.facts["pairs"]])
        return pipeline

    def progress(self, done: int, total: int) -> None:
        """Report progress, if it is due."""
        now = time.monotonic()
        if now >= self._reported + REPORT_SECONDS:
            self._reported = now
            facts = {"iteration": done, "objective": None, "gap": 1 - done / max(total, 1)}
            self.report("progress", {**facts, "seconds": now - self._started})
