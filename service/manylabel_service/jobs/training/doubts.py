"""Search for doubtful labels in a training process: reads the examples of a log, and writes a list as JSON.

The search also finds suggestions for all labels, because these need the same probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from manylabel_core import FALT
from manylabel_core.doubts import Doubt, find_doubts
from manylabel_core.label_health import ProbabilitySums, Truths, count_labels, named_pairs, suggest
from manylabel_core.online.pipeline import Pipeline
from manylabel_core.rows import VECTOR_COLUMNS
from manylabel_service.clock import rfc3339
from manylabel_service.jobs.training.examples import ExamplesRun
from manylabel_service.jobs.training.request import RESULT
from manylabel_service.online.label_health import rows_of
from manylabel_service.online.spec.spec import ModelSpec


class DoubtsRun(ExamplesRun):
    """Search of one request, whose params are the fields of a `DoubtsSpec`, and the spec of the model."""

    def run(self) -> None:
        """Find the doubts, and write them."""
        found = self._found()
        (self.directory / RESULT).write_text(json.dumps(found))
        self.report("result", {"rows": found["examined"], "position": found["position"]})

    def _found(self) -> dict[str, Any]:
        arrays, facts, targets = self.arrays, self.facts, self.targets
        params, labels = self.request.params, facts["labels"]
        listed = allowed = arrays["listed"]
        if params["label"] is not None:
            listed = listed & np.array([label == params["label"] for label in labels], dtype=np.bool_)
        truths = Truths(targets, len(labels))
        sums = ProbabilitySums(truths)
        found = find_doubts(
            self.rows,
            targets,
            (self._judge(), self._judge()),
            facts["n_features"],
            len(labels),
            top=params["top"],
            n_vector_values=sum(length for _, length in facts["vectors"]),
            listed=listed,
            settled=list(map(tuple, arrays["settled"].tolist())),
            parents=arrays["parents"],
            report=self.progress,
            observe=sums.add,
        )
        pairs = named_pairs(labels, truths.examples, allowed & (truths.examples > 0))
        counts = count_labels(truths, *np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T)
        suggested = suggest(labels, counts, sums, listed=allowed, parents=arrays["parents"])
        name_of = _names(facts["features"], facts["vectors"])

        def listed_as(doubt: Doubt) -> dict[str, Any]:
            return {
                **self._place(doubt.row),
                "label": labels[doubt.label],
                "given": doubt.given,
                "probability": doubt.probability,
                "share": doubt.base,
                "seen": doubt.seen,
                "neighbours": doubt.share,
                "similar": [self._place(row) for row in doubt.similar],
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

    def _place(self, row: int) -> dict[str, Any]:
        """Return the place, the reference and the time of an example."""
        position, index = self.facts["places"][row]
        time = rfc3339(int(self.arrays["times"][row]))
        return {"position": position, "index": index, "ref": self.facts["refs"][row], "time": time}

    def _judge(self) -> Pipeline:
        """Return an untrained model for judging: with the spec of the served model if this is FALT with probabilities,
        else FALT."""
        learner = ModelSpec.from_bytes(self.request.params["spec"].encode()).learner()
        pipeline = (learner if isinstance(learner, FALT) and learner.calibrate else FALT()).pipeline
        return self.grown(pipeline, len(self.facts["labels"]))


def _names(features: Sequence[str | int], vectors: Sequence[Sequence[Any]]) -> Callable[[int], str | int | None]:
    """Return a function that returns, for a column, the name or number of its feature; None if it has neither."""
    starts = accumulate((length for _, length in vectors), initial=VECTOR_COLUMNS)
    fields = {first: field for first, (field, _) in zip(starts, vectors, strict=False)}
    return lambda column: fields.get(column) if column >= VECTOR_COLUMNS else _at(features, column)


def _at(features: Sequence[str | int], column: int) -> str | int | None:
    return features[column] if column < len(features) else None
