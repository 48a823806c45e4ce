"""Compiles the kernels, or loads them from numba's cache, before the first request needs them."""

import numpy as np

from manylabel_service.replicas.examples import Example, Features, Labels, Update
from manylabel_service.replicas.folding import Folding, LogEntry
from manylabel_service.replicas.spec import ModelSpec
from manylabel_service.replicas.stream_model import StreamModel

ALGORITHMS = ("falt", "salt", "kernel_falt")
SCALINGS = ("none", "unit", "standard")


def warm_up() -> None:
    """Let a small model of each kind learn and predict."""
    for algorithm in ALGORITHMS:
        for scaling in SCALINGS:
            _exercise(algorithm=algorithm, scaling=scaling)
    for kernel in ("linear", "poly"):
        _exercise(algorithm="kernel_falt", params={"kernel": kernel, "budget": 1})


def _exercise(**spec: object) -> None:
    model = StreamModel(ModelSpec.model_validate({"name": "warm-up", **spec}))
    x = Features(names=("a", "b"), indices=None, values=np.ones(2, dtype=np.float32))
    partial = Labels(("c", "d"), np.array([1, -1], dtype=np.int8), complete=False)
    update = Update((Example(x, Labels.all_of(["c"])), Example(x, partial)), "memory", want_predictions=True)
    Folding(model, [LogEntry("1", update), LogEntry("2", update)]).step(max_examples=4)
    model.predict([x])
    StreamModel.from_bytes(model.to_bytes())
    model.prequential.measures()
