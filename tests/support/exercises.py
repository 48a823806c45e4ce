"""Small models, and small fits, that together call every compiled function of a tier with every argument type.

The list of `manylabel_core.kernels` is made from them, and tests compare them with all specs.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from manylabel_core import FALT, SALT, KernelFALT, KernelSALT, PassiveAggressive
from manylabel_core.batch.catalogue import TRAINERS
from manylabel_core.datasets import Dataset
from manylabel_core.datasets.dataset import SINGLE
from manylabel_core.index_columns import IndexColumns
from manylabel_core.label_structure import Group
from manylabel_core.online.models.linear.sparse_table import DENSE_BYTES
from manylabel_core.parity import Deferral, ParityTarget
from manylabel_core.promise import Target
from manylabel_core.records._json_pieces import next_cut
from manylabel_core.scaling.choices import SCALINGS
from manylabel_core.solvers import solve_linear_dual
from manylabel_core.solvers.coupled import linear_sides
from manylabel_service import ulid as prediction_ids
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.hosting.explanations import Explainer
from manylabel_service.jobs.spec.trainers import PARAMS as TRAINER_PARAMS
from manylabel_service.jobs.spec.trainers import complete
from manylabel_service.jobs.training.fitting import FitRun
from manylabel_service.jobs.training.request import DATA, FitRequest, Part
from manylabel_service.online.spec.params import PARAMS
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.controls import Describe, Regroup, Relabel, Served
from manylabel_service.online.state.label_table import label_page
from manylabel_service.online.state.log_entries import Change, Update
from manylabel_service.online.state.model import OnlineModel

N_ROWS = 40

_ID = prediction_ids.make(0, bytes(prediction_ids.N_RANDOM_BYTES))


def base() -> None:
    """FALT and SALT on named, numbered and text features, with titles, delayed labels and metrics."""
    for algorithm in ("falt", "salt"):
        for scaling in SCALINGS:
            learn(algorithm=algorithm, scaling=scaling)
        learn_numbered(algorithm=algorithm)
    columns = IndexColumns()
    for indices in ([3, 9], [4, 9]):  # indices with gaps, so that they differ from the columns
        columns.add(np.array(indices, dtype=np.int32))
    next_cut(np.frombuffer(b"[1,2]", dtype=np.uint8), 0, 1, np.zeros(1, dtype=np.uint8), 0)


def options() -> None:
    """Drift detectors, and the linear learner per label, with all its steps."""
    for algorithm in ("falt", "salt", "passive_aggressive"):
        params = PARAMS[algorithm]
        steps = [{"step": step} for step in params.choices("step")]
        for own in ({}, *steps):
            learn(algorithm=algorithm, params={**own, "drift": "adwin", "on_drift": "restart"})


def kernel() -> None:
    """Kernel learners, with all their strategies and kernels."""
    for algorithm in (name for name in PARAMS if name.startswith("kernel_")):
        for scaling in SCALINGS:
            learn(algorithm=algorithm, scaling=scaling)
        for strategy in PARAMS[algorithm].choices("strategy"):
            learn(algorithm=algorithm, params={"strategy": strategy, "budget": 2})
            fill_budget(algorithm=algorithm, params={"strategy": strategy, "budget": 2})
        for name in ("linear", "poly"):
            learn(algorithm=algorithm, params={"kernel": name, "fit_intercept": True})
        learn_numbered(algorithm=algorithm)
    learn(algorithm="kernel_falt", params={"calibrate": False})


def groups() -> None:
    """Groups and parents of labels."""
    model = _model(algorithm="falt")
    regroup = Regroup((Group("group", ("c", "d"), "one"),), {"c": "e", "d": "e"})
    update = Update((Example(named(a=1), Labels.all_of(["c"])),))
    ApplyBatch(model, [LogEntry("1", regroup), LogEntry("2", update)]).step(max_examples=2)
    ask(restored(model), update.examples[0].x)


def promise() -> None:
    """A promise of precision, also for labels with parents."""
    model = _model(algorithm="falt")
    model.set_promise(Target(0.9))
    example = Example(named(a=1), Labels.all_of(["c"]))
    both = Update((example, example), want_predictions=True)
    ApplyBatch(model, [LogEntry("1", both)]).step(max_examples=2)
    (predicted,) = model.predict([example.x])
    late = Update((example,), prediction_ids=(_ID,), served=(predicted.margins,), decisions=(predicted.decision,))
    ApplyBatch(model, [LogEntry("2", late)]).step(max_examples=1)
    ask(restored(model), example.x)
    for each in (_model(algorithm="falt"), model):
        each.set_promise(Target(0.9))
        each.measures()
    _parity(example)


def _parity(example: Example) -> None:
    """A promise of parity: an audit that is answered, and one that expires."""
    model = _model(algorithm="falt")
    model.set_promise(None, ParityTarget(0.9, of="human"))
    (predicted,) = model.predict([example.x])
    assert predicted.undrawn is not None
    deferrals = (Deferral(np.array([*predicted.undrawn.values[:2], 1.0, 1.0, *predicted.undrawn.values[4:]])),)
    served = Served(1, ((_ID, 1.0),), (0, 0, 0), 0, 1)
    late = Update((example,), prediction_ids=(_ID,), served=(predicted.margins,), deferrals=deferrals)
    other = Served(1, ((prediction_ids.make(1, bytes(10)), 1.0),), (1, 0, 1), 2, 1)
    for position, change in enumerate((served, late, other), 1):
        batch = ApplyBatch(model, [LogEntry(str(position), change)])
        while batch.step(max_examples=1):
            pass
    ask(restored(model), example.x)
    model.measures()


def vectors() -> None:
    """Vectors, in models that learn their scale, or use them with other features."""
    for algorithm in ("falt", "salt"):
        learn_vectors(algorithm)


def sparse() -> None:
    """One label of many, from as many numbered features as make the table of weights sparse."""
    labels = [str(number) for number in range(1024)]
    for algorithm in ("falt", "salt"):
        model = _model(algorithm=algorithm, labels=labels)
        n_features = DENSE_BYTES // (4 * len(labels))
        indices = 1 + np.arange(n_features, dtype=np.int32)  # a gap before the first, so that they are not the columns
        x = Features(None, indices, np.ones(n_features, dtype=np.float32))
        signs = np.array([1, -1], dtype=np.int8)
        update = Update((Example(x, Labels(("1", "2"), signs, complete=False)),))
        ApplyBatch(model, [LogEntry("1", update), LogEntry("2", Relabel("1", "new"))]).step(max_examples=1)
        ask(restored(model), x)
        restored(model).learner.pipeline.model.forget(0)


def trainers() -> None:
    """Fits like those of jobs: of each trainer, with kernels, on dense and sparse rows."""
    for request, data in _fits():
        with TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # three iterations are enough
            (Path(name) / DATA).write_bytes(data)
            FitRun(request, Path(name), lambda event, facts: None).run()
    fit_many_settled(np.float32)


def python() -> None:
    """Estimators in Python, in double precision, on dense and sparse matrices."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6))
    Y = (X[:, :3] + rng.normal(size=(N_ROWS, 3)) > 0).astype(np.int8)
    weights = np.ones(N_ROWS)
    linear = [FALT(dtype="float64"), SALT(dtype="float64"), PassiveAggressive()]
    linear += [FALT(dtype="float64", scaling=scaling) for scaling in SCALINGS]
    strategies = PARAMS["kernel_falt"].choices("strategy")
    kernel = [KernelFALT(dtype="float64", strategy=strategy, budget=2) for strategy in strategies]
    for learner in (*linear, *kernel, KernelFALT(dtype="float64"), KernelSALT(dtype="float64")):
        for rows in (X, sp.csr_array(X * (X > 0))):
            learner.partial_fit(rows, Y)
            learner.partial_fit(rows, Y, sample_weight=weights)
            learner.predict(rows)
            learner.decision_function(rows)
    fit_many_settled(np.float64)


def fit_many_settled(dtype: type) -> None:
    """Solve problems whose active pairs alone are visited, as if they were few."""
    rng = np.random.default_rng(2)
    X = sp.random(300, 40, 0.1, "csr", rng=rng, data_rvs=lambda size: rng.exponential(size=size)).astype(dtype)
    scores = X @ rng.normal(size=(40, 5))
    Y = np.where(scores > np.quantile(scores, [0.98, 0.9, 0.6, 0.5, 0.05], axis=0).diagonal(), 1, -1)
    with patch.object(linear_sides, "FEW", 1.0):
        for S in (np.eye(5), np.eye(5) + 0.1):
            solve_linear_dual(X, Y, S, 2.0, bias_feature=1.0)


EXERCISES: Mapping[str, Callable[[], None]] = {
    each.__name__: each for each in (base, vectors, groups, promise, sparse, options, kernel, trainers, python)
}
"""Exercises by tier."""


def learn(**spec: Any) -> None:
    """Let a model of a spec learn named features, titles and delayed labels, and predict."""
    model = _model(**spec)
    examples = (
        Example(named(a=1, b=2), Labels.all_of(["c"])),
        Example(named(a=-2, b=1), Labels(("c", "d"), np.array([-1, 1], dtype=np.int8), complete=False)),
        Example(named(b=-1), Labels.all_of(["d"])),
    )
    update = Update(examples, want_predictions=True, want_probabilities=model.learner.calibrate)
    parts = [Labels((label,), np.array([1], dtype=np.int8), complete=False) for label in "cd"]
    late = [Update((Example(examples[0].x, y),), prediction_ids=(_ID,), served=(np.zeros(1),)) for y in parts]
    title = Describe({"c": {"title": "title"}})
    changes: list[Change] = [update, title, update, *late]
    batch = ApplyBatch(model, [LogEntry(str(at), change) for at, change in enumerate(changes, 1)])
    while batch.step(max_examples=2 * len(examples) + len(late)):
        pass
    ask(model, examples[0].x)
    restored(model)
    model.measures()
    label_page(model.label_facts, "name", descending=False, offset=0, limit=1)


def fill_budget(**spec: Any) -> None:
    """Let a model replace its vectors until it computes again what rounding errors have changed."""
    model = _model(**spec)
    labels = [Labels.all_of([label]) for label in "cd"]
    examples = tuple(Example(named(a=at % 7, b=at % 5), labels[at % 2]) for at in range(60))
    ApplyBatch(model, [LogEntry("1", Update(examples))]).step(max_examples=len(examples))


def learn_numbered(**spec: Any) -> None:
    """Let a model of a spec learn numbered features, some or all of them, and predict."""
    for indices in (np.array([3, 9], dtype=np.int32), None):
        x = Features(None, indices, np.ones(2, dtype=np.float32))
        example, model = Example(x, Labels.all_of(["c"])), _model(**spec)
        update = Update((example, example), want_predictions=True)
        ApplyBatch(model, [LogEntry("1", update)]).step(max_examples=2)
        ask(restored(model), x)


def learn_vectors(algorithm: str) -> None:
    """Let a model learn vectors of several fields, and predict."""
    model = _model(algorithm=algorithm)
    x = named(a=1)._replace(vectors={"v": np.ones(2, dtype=np.float32), "w": np.ones(1, dtype=np.float32)})
    update = Update(tuple(Example(x, Labels.all_of([label])) for label in "cdc"))
    later = Update((Example(x._replace(vectors={"u": np.ones(3, dtype=np.float32)}), Labels.all_of(["e"])),))
    batch = ApplyBatch(model, [LogEntry(str(at), each) for at, each in enumerate((update, later, update), 1)])
    while batch.step(max_examples=3):
        pass
    ask(restored(model), x, x)


def ask(model: OnlineModel, *xs: Features) -> None:
    """Predict examples, rank them, and explain the first unless the model is a kernel learner, which explains none."""
    model.predict(xs, model.learner.calibrate)
    model.uncertainties(xs)
    if not model.online_spec.algorithm.startswith("kernel_"):
        model.explain(xs[0], model.labels.names[:1], Explainer(3, 100))


def named(**values: float) -> Features:
    """Return named features."""
    return Features(tuple(values), None, np.array(list(values.values()), dtype=np.float32))


def restored(model: OnlineModel) -> OnlineModel:
    """Return the model after a restart."""
    return OnlineModel.from_bytes(model.to_bytes())


def _model(**spec: Any) -> OnlineModel:
    return OnlineModel(ModelSpec.model_validate({"name": "exercise", **spec}))


def _fits() -> Iterator[tuple[FitRequest, bytes]]:
    """Yield requests for small fits, each with its dataset."""
    for name, trainer in TRAINERS.items():
        known = TRAINER_PARAMS[name].model_fields
        short = {"max_iter": 3} if "max_iter" in known else {}
        for kernel in ({}, {"kernel": "rbf"}) if "kernel" in known else ({},):
            for data in _data(trainer.views):
                yield (
                    FitRequest(
                        kind="fit",
                        trainer=name,
                        params=complete(name, {**kernel, **short}),
                        seed=0,
                        rows=Part(file=DATA, split=None),
                        held=0.25,
                        unlabelled=None,
                        folds=2,
                        measure="micro_f1",
                        threads=1,
                        segment_work=1e9,
                        memory_bytes=2**32,
                        niceness=0,
                    ),
                    data,
                )


def _data(views: bool) -> Iterator[bytes]:
    """Yield datasets with dense and sparse rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6)).astype(np.float32)
    Y = (X[:, :3] + rng.normal(size=(N_ROWS, 3)) > 0).astype(np.int8)
    for rows in (X, sp.csr_array(X * (X > 0))):
        all_views: dict[str, Any] = {"a": rows, "b": X[:, :4]} if views else {SINGLE: rows}
        names: dict[str, Any] = dict.fromkeys(all_views)
        yield Dataset(all_views, sp.csr_array(Y), ("p", "q", "r"), names).to_bytes()
