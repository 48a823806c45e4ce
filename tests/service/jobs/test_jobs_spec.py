"""Specifications of jobs: valid fields, and the tasks of a search."""

import pytest
from pydantic import ValidationError
from tests.service.jobs.conftest import SHORT, spec
from tests.support.cases import for_each

from manylabel_service.errors import InvalidJob
from manylabel_service.jobs.plan import plan
from manylabel_service.jobs.spec.schemas import MAX_TRIALS, JobSpec
from manylabel_service.jobs.spec.trainers import PARAMS, complete


@for_each(
    ("changes", "place"),
    [
        ({"params": {"C": float("nan")}}, ("params", "C")),
        ({"data": {"dataset": "../songs"}}, ("data", "dataset", "dataset")),
        ({"data": {"stream": "tags", "last": 5, "split": "train"}}, ("data", "stream", "split")),
        ({"holdout": True}, ("holdout", "rows")),
        ({"seed": 1.0}, ("seed",)),
        ({"search": {"kind": "grid", "params": {"C": [1.0] * 30, "tol": [0.1] * 30}}}, ("search", "grid")),
        (
            {"search": {"kind": "random", "trials": MAX_TRIALS + 1, "params": {"C": [1.0]}}},
            ("search", "random", "trials"),
        ),
    ],
)
def test_an_invalid_field_is_named(changes, place):
    """Further fields are in the table of tests/service/api/routers/test_jobs.py."""
    with pytest.raises(ValidationError) as refused:
        spec(SHORT, **changes)
    assert any(error["loc"][: len(place)] == place for error in refused.value.errors())


def test_defaults_are_filled_in():
    assert spec(SHORT).params == complete("m3l", {})
    assert spec(SHORT, params={"C": 2.0}).params["C"] == 2.0


def trials(**search):
    return [task for task in plan(spec(SHORT, search=search)) if task.stage == "trial"]


def test_without_a_search_there_is_one_task():
    assert [task.stage for task in plan(spec(SHORT))] == ["fit"]
    assert [task.stage for task in plan(spec(SHORT, data={"stream": "tags", "last": 9}))] == ["gather", "fit"]


def test_a_grid_is_every_combination():
    found = trials(kind="grid", params={"C": [0.1, 1.0], "kernel": ["linear", "rbf", "poly"]})
    assert [(task.params["C"], task.params["kernel"]) for task in found] == [
        (C, kernel) for C in (0.1, 1.0) for kernel in ("linear", "rbf", "poly")
    ]
    assert found[0].params == {**spec(SHORT).params, **found[0].values}


@for_each("trainer", PARAMS)
def test_a_search_without_values_uses_those_of_the_trainer(trainer):
    ordered = spec(SHORT, trainer=trainer, search={"kind": "grid", "folds": 2})
    (name, values), *others = ordered.search.params.items()
    assert not others
    assert len(values) >= 3
    found = [task for task in plan(ordered) if task.stage == "trial"]
    assert [task.params[name] for task in found] == values
    assert JobSpec.model_validate_json(ordered.model_dump_json()) == ordered
    drawn = spec(SHORT, trainer=trainer, search={"kind": "random", "trials": 4})
    assert drawn.search.params == ordered.search.params
    assert len(plan(drawn)) == 5


def test_a_search_without_values_includes_the_width_of_an_rbf_kernel():
    def searched(**params):
        return spec(SHORT, trainer="m3l", params=params, search={"kind": "grid"}).search.params

    assert set(searched(kernel="linear")) == {"C"}
    assert searched(kernel="rbf")["gamma"] == ["scale", 2.0]
    assert set(searched(kernel="rbf", gamma=0.7)) == {"C"}
    rbf = spec(SHORT, trainer="m3l", params={"kernel": "rbf"}, search={"kind": "grid"})
    assert len([task for task in plan(rbf) if task.stage == "trial"]) == 2 * len(rbf.search.params["C"])
    assert JobSpec.model_validate_json(rbf.model_dump_json()) == rbf


def test_random_values_are_in_their_ranges_and_reproducible():
    search = {
        "kind": "random",
        "trials": 200,
        "params": {
            "C": {"low": 1e-3, "high": 1e3, "log": True},
            "coef0": {"low": -1.0, "high": 1.0},
            "degree": {"low": 2, "high": 4},
            "kernel": ["rbf", "poly"],
        },
    }
    found = trials(**search)
    assert len(found) == 200
    assert found == trials(**search)
    C = [task.params["C"] for task in found]
    assert all(1e-3 <= value <= 1e3 for value in C)
    assert 60 < sum(value < 1 for value in C) < 140, "half of the logarithms"
    assert {task.params["degree"] for task in found} == {2, 3, 4}
    assert {task.params["kernel"] for task in found} == {"rbf", "poly"}
    assert min(task.params["coef0"] for task in found) < -0.8


def test_a_range_of_logarithms_is_positive():
    params = {"coef0": {"low": -1.0, "high": 1.0, "log": True}}
    with pytest.raises(ValidationError, match="low must be above 0"):
        spec(SHORT, search={"kind": "random", "trials": 2, "params": params})


@for_each(
    ("params", "path", "detail"),
    [
        ({"tol": {"low": 0.1, "high": 2.0}}, ("search", "params", "tol", "high"), "must be less than 1"),
        ({"degree": [2.5]}, ("search", "params", "degree", 0), "must be a valid integer"),
    ],
)
def test_a_search_over_invalid_values_is_refused(params, path, detail):
    search = {"kind": "random", "trials": 2, "params": params}
    with pytest.raises(InvalidJob) as refused:
        plan(spec(SHORT, search=search))
    assert refused.value.path == path
    assert detail in refused.value.detail
