"""Compilation of the kernels, or loading from numba's cache, before the first request."""

import functools

import numpy as np

from manylabel_core.label_structure import Group
from manylabel_core.online.models.linear.sparse_table import DENSE_BYTES
from manylabel_core.promise import Target
from manylabel_core.records._json_pieces import next_cut
from manylabel_core.scaling.choices import SCALINGS
from manylabel_service import ulid as prediction_ids
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.spec.params import PARAMS
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Describe, Regroup, Relabel
from manylabel_service.online.state.label_table import label_page
from manylabel_service.online.state.log_entries import Change, Update
from manylabel_service.online.state.model import OnlineModel

_ID = prediction_ids.make(0, bytes(prediction_ids.N_RANDOM_BYTES))


@functools.cache  # once per process; a fork inherits the loaded functions
def warm_up() -> None:
    """Run small models that together call every kernel with every argument type.

    A test compares them with all specs, so no request triggers a compilation.
    """
    for scaling in SCALINGS:
        _exercise(algorithm="falt", scaling=scaling)
    _exercise(algorithm="falt", params={"average": True, "drift": "adwin", "on_drift": "restart"})
    _exercise(algorithm="kernel_falt", params={"calibrate": False})
    for strategy in PARAMS["kernel_falt"].choices("strategy"):
        _exercise(algorithm="kernel_falt", params={"strategy": strategy, "budget": 2})
    _exercise_groups()
    _exercise_promise()
    for algorithm in ("falt", "salt"):  # models that learn the scale of vectors, or use them with other features
        _exercise_vectors(algorithm)
    _exercise_sparse_table()
    next_cut(np.frombuffer(b"[1,2]", dtype=np.uint8), 0, 1, np.zeros(1, dtype=np.uint8), 0)


def _exercise(**spec: object) -> None:
    model = OnlineModel(ModelSpec.model_validate({"name": "warm-up", **spec}))
    examples = (
        Example(_named(a=1, b=2), Labels.all_of(["c"])),
        Example(_named(a=-2, b=1), Labels(("c", "d"), np.array([-1, 1], dtype=np.int8), complete=False)),
        Example(_named(b=-1), Labels.all_of(["d"])),
    )
    update = Update(examples, "log", want_predictions=True, want_probabilities=model.learner.calibrate)
    parts = [Labels((label,), np.array([1], dtype=np.int8), complete=False) for label in "cd"]
    late = [Update((Example(examples[0].x, y),), "log", prediction_ids=(_ID,), served=(np.zeros(1),)) for y in parts]
    title = Describe({"c": {"title": "title"}}, "log")
    changes: list[Change] = [update, title, update, *late]
    log = [LogEntry(str(at), change) for at, change in enumerate(changes, 1)]
    batch = ApplyBatch(model, log)
    while batch.step(max_examples=2 * len(examples) + len(late)):
        pass
    model.predict([examples[0].x], model.learner.calibrate)
    OnlineModel.from_bytes(model.to_bytes())
    model.measures()
    label_page(model.label_facts, "name", descending=False, offset=0, limit=1)


def _exercise_groups() -> None:
    model = OnlineModel(ModelSpec.model_validate({"name": "warm-up", "algorithm": "falt"}))
    regroup = Regroup((Group("group", ("c", "d"), "one"),), {"c": "e", "d": "e"}, "log")
    update = Update((Example(_named(a=1), Labels.all_of(["c"])),), "log")
    ApplyBatch(model, [LogEntry("1", regroup), LogEntry("2", update)]).step(max_examples=2)
    model.predict([update.examples[0].x], probabilities=True)


def _exercise_promise() -> None:
    model = OnlineModel(ModelSpec.model_validate({"name": "warm-up", "algorithm": "falt"}))
    model.regroup((), {"c": "e"})
    model.set_promise(Target(0.9))
    example = Example(_named(a=1), Labels.all_of(["c"]))
    both = Update((example, example), "log", want_predictions=True)
    ApplyBatch(model, [LogEntry("1", both)]).step(max_examples=2)
    (predicted,) = model.predict([example.x])
    late = Update(
        (example,), "log", prediction_ids=(_ID,), served=(predicted.margins,), decisions=(predicted.decision,)
    )
    ApplyBatch(model, [LogEntry("2", late)]).step(max_examples=1)
    OnlineModel.from_bytes(model.to_bytes())


def _exercise_vectors(algorithm: str) -> None:
    model = OnlineModel(ModelSpec.model_validate({"name": "warm-up", "algorithm": algorithm}))
    x = _named(a=1)._replace(vectors={"v": np.ones(2, dtype=np.float32), "w": np.ones(1, dtype=np.float32)})
    update = Update(tuple(Example(x, Labels.all_of([label])) for label in "cdc"), "log")
    later = Update((Example(x._replace(vectors={"u": np.ones(3, dtype=np.float32)}), Labels.all_of(["e"])),), "log")
    batch = ApplyBatch(model, [LogEntry(str(at), each) for at, each in enumerate((update, later, update), 1)])
    while batch.step(max_examples=3):
        pass
    OnlineModel.from_bytes(model.to_bytes()).predict([x, x], probabilities=True)


def _exercise_sparse_table() -> None:
    """Learn one label of many from as many numbered features as make the table of weights sparse."""
    labels = [str(number) for number in range(1024)]
    model = OnlineModel(ModelSpec.model_validate({"name": "warm-up", "algorithm": "falt", "labels": labels}))
    n_features = DENSE_BYTES // (4 * len(labels))
    indices = 1 + np.arange(n_features, dtype=np.int32)  # a gap before the first, so that they are not the columns
    x = Features(None, indices, np.ones(n_features, dtype=np.float32))
    signs = np.array([1, -1], dtype=np.int8)
    update = Update((Example(x, Labels(("1", "2"), signs, complete=False)),), "log")
    ApplyBatch(model, [LogEntry("1", update), LogEntry("2", Relabel("1", "new", "log"))]).step(max_examples=1)
    OnlineModel.from_bytes(model.to_bytes()).predict([x], probabilities=True)


def _named(**values: float) -> Features:
    return Features(tuple(values), None, np.array(list(values.values()), dtype=np.float32))
