"""Search for doubtful labels in a training process: from the examples of a log to a list as JSON.

The same search finds suggestions for all labels, which need the same probabilities.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core import FALT
from manylabel_core.doubts import Doubt, find_doubts
from manylabel_core.label_health import ProbabilitySums, Truths, count_labels, named_pairs, suggest
from manylabel_core.online.pipeline import Pipeline
from manylabel_core.rows import NO_WEIGHTS, VECTOR_COLUMNS, Rows, Targets
from manylabel_core.state import State
from manylabel_service.jobs.training.request import DATA, RESULT, FitRequest
from manylabel_service.online.label_health import rows_of
from manylabel_service.online.spec.spec import ModelSpec

REPORT_SECONDS = 0.25
"""Minimum seconds between two reports of progress."""


class DoubtsRun:
    """Search of one request, which needs no checkpoints.

    Parameters
    ----------
    request : request of the task; its params are those of a `DoubtsSpec`, with the spec of the model.
    directory : directory with the examples.
    report : callback for events.
    """

    def __init__(self, request: FitRequest, directory: Path, report: Callable[[str, dict[str, Any]], None]) -> None:
        self._request, self._directory, self._report = request, directory, report
        self._started = self._reported = time.monotonic()

    def run(self) -> None:
        """Find the doubts, and write them."""
        arrays = State.from_bytes(bytearray((self._directory / DATA).read_bytes())).arrays
        facts = json.loads(arrays["facts"].tobytes())
        found = self._found(arrays, facts)
        (self._directory / RESULT).write_text(json.dumps(found))
        self._report("result", {"rows": found["examined"], "position": found["position"]})

    def _found(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> dict[str, Any]:
        params, labels = self._request.params, facts["labels"]
        weights = arrays["weights"]
        targets = Targets(
            arrays["label_indptr"],
            arrays["labels"],
            arrays["signs"],
            arrays["complete"],
            arrays["n_labels"],
            NO_WEIGHTS if (weights == 1.0).all() else weights,
        )
        listed = allowed = arrays["listed"]
        if params["label"] is not None:
            listed = listed & np.array([label == params["label"] for label in labels], dtype=np.bool_)
        truths = Truths(targets, len(labels))
        sums = ProbabilitySums(truths)
        lengths = [length for _, length in facts["vectors"]]
        found = find_doubts(
            Rows(arrays["indptr"], arrays["indices"], arrays["values"]),
            targets,
            (self._judge(facts, lengths), self._judge(facts, lengths)),
            facts["n_features"],
            len(labels),
            top=params["top"],
            n_vector_values=sum(lengths),
            listed=listed,
            settled=list(map(tuple, arrays["settled"].tolist())),
            parents=arrays["parents"],
            report=self._progress,
            observe=sums.add,
        )
        pairs = named_pairs(labels, truths.examples, allowed & (truths.examples > 0))
        counts = count_labels(truths, *np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T)
        suggested = suggest(labels, counts, sums, listed=allowed, parents=arrays["parents"])
        name_of = _names(facts["features"], facts["vectors"])

        def listed_as(doubt: Doubt) -> dict[str, Any]:
            return {
                **_place(facts, doubt.row),
                "label": labels[doubt.label],
                "given": doubt.given,
                "probability": doubt.probability,
                "share": doubt.base,
                "seen": doubt.seen,
                "neighbours": doubt.share,
                "similar": [_place(facts, row) for row in doubt.similar],
                "for": [
                    {"feature": name_of(column), "contribution": contribution}
                    for column, contribution in doubt.features
                    if name_of(column) is not None
                ],
                "score": doubt.score,
                "existed": doubt.label < int(arrays["existing"][doubt.row]),
            }

        return {
            "position": facts["position"],
            "since": facts["places"][0][0] if facts["places"] else None,
            "examined": len(facts["places"]),
            "not_human": facts["not_human"],
            "too_rare": found.too_rare,
            "missing": list(map(listed_as, found.missing)),
            "wrong": list(map(listed_as, found.wrong)),
            "health": rows_of(suggested, labels),
        }

    def _judge(self, facts: dict[str, Any], lengths: Sequence[int]) -> Pipeline:
        """Return an untrained model that judges: the served one if it is FALT with probabilities, else FALT."""
        spec = ModelSpec.from_bytes(self._request.params["spec"].encode())
        learner = spec.learner()
        pipeline = (learner if isinstance(learner, FALT) and learner.calibrate else FALT()).pipeline
        pipeline.grow(facts["n_features"], len(facts["labels"]))
        pipeline.grow_vectors(lengths)
        pipeline.pair([(first, second) for first, second in facts["pairs"]])
        return pipeline

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._reported + REPORT_SECONDS:
            self._reported = now
            facts = {"iteration": done, "objective": None, "gap": 1 - done / max(total, 1)}
            self._report("progress", {**facts, "seconds": now - self._started})


def _place(facts: dict[str, Any], row: int) -> dict[str, Any]:
    """Return the place and the reference of an example."""
    position, index = facts["places"][row]
    return {"position": position, "index": index, "ref": facts["refs"][row]}


def _names(features: Sequence[str | int], vectors: Sequence[Sequence[Any]]) -> Callable[[int], str | int | None]:
    """Return the function from a column to the name of its feature, or to its number, or to None if it has none."""
    starts = accumulate((length for _, length in vectors), initial=VECTOR_COLUMNS)
    fields = {first: field for first, (field, _) in zip(starts, vectors, strict=False)}
    return lambda column: fields.get(column) if column >= VECTOR_COLUMNS else _at(features, column)


def _at(features: Sequence[str | int], column: int) -> str | int | None:
    return features[column] if column < len(features) else None
