"""Admission's estimate of a model's size is never less than the bytes that the model then has."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.online.folds import examples, fold, new_model
from tests.support.cases import for_each

from manylabel_core.online.models.linear import sparse_table
from manylabel_service.errors import InvalidExample, LimitExceeded
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.state.apply import LogEntry
from manylabel_service.online.state.dry_run import DryRun
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.admission import Admission
from manylabel_service.online.updates.update_queue import UpdateQueue
from manylabel_service.settings import Settings

ONES = np.ones(2, np.float32)
SPECS: dict[str, dict[str, Any]] = {
    "falt": {},
    "falt watched": {"params": {"drift": "adwin", "on_drift": "restart"}},
    "falt adaptive": {"params": {"step": "adaptive", "optimise": "macro_f1"}, "scaling": "unit"},
    "falt of before": {"params": {"passes": 2, "calibrate": False}},
    "salt": {"algorithm": "salt"},
    "salt watched": {"algorithm": "salt", "params": {"drift": "adwin", "on_drift": "raise"}},
    "kernel": {"algorithm": "kernel_falt", "params": {"drift": "adwin"}},
    "kernel project": {"algorithm": "kernel_falt", "params": {"budget": 3, "strategy": "project"}},
    "kernel bounded": {"algorithm": "kernel_falt", "params": {"budget": 3}},
    "kernel salt": {"algorithm": "kernel_salt", "params": {"budget": 3}},
    "aggressive": {"algorithm": "passive_aggressive"},
    "kernel aggressive": {"algorithm": "kernel_passive_aggressive", "params": {"drift": "adwin"}},
}


def weighed(model: OnlineModel, update: Update) -> tuple[Update, int]:
    """Return the update without the examples that are refused, and the most bytes of the model after it."""
    projection, refused = DryRun(model), []
    for number, example in enumerate(update.examples):
        try:
            projection.add(example)
        except InvalidExample:  # a vector with another length than earlier vectors
            refused.append(number)
    growth, learner = projection.checked.growth, model.learner
    n_features, n_labels = len(model.features) + growth.features, len(model.labels) + growth.labels
    learnt = growth.examples, growth.values, growth.distinct
    most = learner.pipeline.nbytes_after(n_features + growth.vectors, n_labels, *learnt)
    return update.without(refused), most + learner.pipeline.nbytes_of_vectors(growth.vectors, n_features, n_labels)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@settings(max_examples=settings.default.max_examples // 5)
@given(updates=st.lists(st.lists(examples(), min_size=1, max_size=40), min_size=1, max_size=5))
def test_a_model_is_no_larger_than_estimated(spec: dict[str, Any], updates: list[list[Example]]) -> None:
    model = new_model(**spec)
    for position, learnt in enumerate(updates, 1):
        update = Update(tuple(learnt))
        update, most = weighed(model, update)
        fold(model, [LogEntry(str(position), update)])
        held = sum(array.nbytes for array in model.learner.state().values())
        assert held <= model.learner.pipeline.nbytes <= most


@for_each("declared", [None, 300], ids=["named", "numbered"])
def test_distinct_features_are_counted(declared: int | None) -> None:
    model = new_model(features=declared)
    dry_run = DryRun(model)
    for x in (
        [Features(("a", "b"), None, ONES), Features(("b", "c"), None, ONES)]
        if declared is None
        else [Features(None, np.array([1, 7], np.int32), ONES), Features(None, np.array([7, 200], np.int32), ONES)]
    ):
        dry_run.add(Example(x, Labels.all_of(["p"])))
    growth = dry_run.checked.growth
    assert (growth.values, growth.distinct) == (4, 3)
    if declared is not None:
        dry_run.add(Example(Features(None, None, np.ones(declared, np.float32)), Labels.all_of(["p"])))
        assert dry_run.checked.growth.distinct >= declared


async def test_an_update_without_new_features_is_refused_near_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known features get weights for more labels where the table is sparse."""
    monkeypatch.setattr(sparse_table, "DENSE_BYTES", 0)
    model, names = new_model(labels=[f"l{i}" for i in range(800)]), tuple(f"f{i}" for i in range(100))
    learnt = Example(Features(names, None, np.ones(100, np.float32)), Labels(("l1",), np.ones(1, np.int8), False))
    fold(model, [LogEntry("1", Update((learnt,)))])
    settings = Settings(max_model_bytes=model.nbytes + 10_000)
    admission = Admission("m", settings)
    with pytest.raises(LimitExceeded, match="bytes"):
        await admission.admit(Update((learnt,)), model, UpdateQueue("m", settings))


@for_each("spec", SPECS.values(), ids=SPECS)
def test_labels_and_features_add_to_the_estimate(spec: dict[str, Any]) -> None:
    learner = new_model(**spec).learner
    assert (
        learner.pipeline.nbytes_after(0, 0, 0, 0)
        < learner.pipeline.nbytes_after(0, 100, 0, 0)
        <= learner.pipeline.nbytes_after(50, 100, 0, 0)
    )
