"""Specs: combinations of parameters that a learner refuses, and defaults that a stored spec makes explicit."""

import json
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.service.online.folds import learn, named, new_model
from tests.support.cases import for_each

from manylabel_core.online.margin import ThresholdingLearner
from manylabel_service.api.schemas import ModelRequest
from manylabel_service.api.translation.from_json import path_in_spec
from manylabel_service.api.web.validation import invalid_body
from manylabel_service.online.spec.params import PARAMS
from manylabel_service.online.spec.spec import ModelSpec

ALGORITHMS = list(PARAMS)


def spec_of(algorithm: str, params: dict[str, Any] | None = None, **more: Any) -> ModelSpec:
    return ModelSpec.model_validate({"name": "m", "algorithm": algorithm, "params": params or {}, **more})


def places(document: dict[str, Any]) -> list[str]:
    """Return the places at which the service says that a body is wrong."""
    with pytest.raises(ValidationError) as raised:
        ModelRequest.model_validate(document)
    problem = invalid_body(raised.value, (), path_in_spec, {})
    return [error["pointer"] for error in problem.errors or ()]


# -- the parameters are those of the learners -----------------------------------------------------


def choices_of(algorithm: str) -> dict[str, list[str]]:
    """Parameters that are a choice, with their words."""
    found: dict[str, list[str]] = {}
    for name, field in PARAMS[algorithm].model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        literals = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
        if choices := PARAMS[algorithm].choices(name) or literals:
            found[name] = choices
    return found


# -- combinations ---------------------------------------------------------------------------------

NUMBERS = {float: st.sampled_from([0.3, 1, 2.0**20]), int: st.sampled_from([1, 2, 7])}


def values_of(algorithm: str, name: str) -> st.SearchStrategy[Any]:
    """Values of a parameter that are allowed by themselves."""
    chosen = choices_of(algorithm).get(name)
    if chosen is not None:
        return st.sampled_from([*chosen, None] if is_optional(algorithm, name) else chosen)
    annotation = str(PARAMS[algorithm].model_fields[name].annotation)
    if "bool" in annotation:
        return st.booleans()
    numbers = NUMBERS[int if "int" in annotation else float]
    return st.none() | numbers if is_optional(algorithm, name) else numbers


def is_optional(algorithm: str, name: str) -> bool:
    return PARAMS[algorithm].model_fields[name].default is None


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    algorithm = draw(st.sampled_from(ALGORITHMS))
    names = draw(st.lists(st.sampled_from(sorted(PARAMS[algorithm].model_fields)), max_size=5, unique=True))
    params = {name: draw(values_of(algorithm, name), label=name) for name in names}
    scaling = draw(st.none() | st.sampled_from(["auto", "none", "unit"]))
    missing = draw(st.sampled_from([None, "zero"]))
    return {"name": "m", "algorithm": algorithm, "params": params, "scaling": scaling, "missing": missing}


@given(document=documents())
def test_an_accepted_spec_can_learn_and_a_refused_one_names_the_parameter(document: dict[str, Any]) -> None:
    try:
        spec = ModelSpec.model_validate(document)
    except ValidationError:
        for place in places(document):
            assert place.removeprefix("/params/") in PARAMS[document["algorithm"]].model_fields, place
        return
    model = new_model(**document)
    learn(model, (named(a=1, b=2), ["x"]), (named(b=-1e15, c=1), ["y", "x"]), (named(a=1), []))
    (predicted,) = model.predict([named(a=1, c=2)])
    assert np.isfinite(list(predicted.scores.values())).all()
    assert ModelSpec.from_bytes(spec.to_bytes()) == spec


@for_each(
    ("algorithm", "params", "place"),
    [
        ("falt", {"step": "implicit", "passes": 3}, "passes"),
        ("salt", {"step": "implicit", "passes": 1}, "passes"),
        ("kernel_falt", {"step": "implicit", "passes": 3}, "passes"),
        ("salt", {"step": "adaptive"}, "step"),
        ("falt", {"step": "newton"}, "step"),
        ("falt", {"step": 1}, "step"),
        ("falt", {"calibrate": False, "optimise": "micro_f1"}, "optimise"),
        ("salt", {"optimise": "accuracy"}, "optimise"),
        ("falt", {"on_drift": "restart"}, "on_drift"),
        ("kernel_falt", {"drift": "adwin", "on_drift": "raise"}, "on_drift"),
        ("passive_aggressive", {"drift": "adwin", "on_drift": "raise"}, "on_drift"),
        ("salt", {"drift": "ddm"}, "drift"),
        ("passive_aggressive", {"C": 0}, "C"),
        ("passive_aggressive", {"variant": "PA"}, "variant"),
        ("passive_aggressive", {"eta": 1}, "eta"),
        ("kernel_falt", {"budget": 0}, "budget"),
        ("kernel_falt", {"strategy": "project"}, "budget"),
        ("kernel_falt", {"budget": 1_000_001}, "budget"),
        ("kernel_falt", {"budget": 1_000_000, "strategy": "nystroem"}, "budget"),
        ("kernel_falt", {"budget": 2, "strategy": "first"}, "strategy"),
        ("kernel_falt", {"budget": 2, "strategy": "rff"}, "strategy"),
        ("kernel_falt", {"seed": -1}, "seed"),
    ],
)
def test_a_refusal_by_the_learner_names_the_parameter(algorithm: str, params: Any, place: str) -> None:
    assert places({"name": "m", "algorithm": algorithm, "params": params}) == [f"/params/{place}"]


def test_a_refusal_shows_values_as_json() -> None:
    with pytest.raises(ValidationError) as raised:
        spec_of("falt", {"calibrate": False, "optimise": "hamming"})
    detail = invalid_body(raised.value, (), path_in_spec, {}).detail
    assert detail.startswith("/params/optimise must be 'none' with calibrate=false")


# -- stored specs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_stored_spec_has_all_defaults(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(algorithm)
    assert (spec.scaling, spec.missing) == ("auto", "mean")
    left = {name for name, value in spec.params.model_dump().items() if value is None}
    assert left <= {"passes", "drift", "on_drift", "budget", "strategy"}, "null where it means none"
    learner = type(spec.learner())
    if issubclass(learner, ThresholdingLearner):
        assert spec.params.model_dump()["step"] == next(iter(learner.steps))
        monkeypatch.setattr(learner, "steps", {"gradient": 0.1, **dict.fromkeys(learner.steps, 0.2)})
        assert spec_of(algorithm) != spec, "defaults have changed"
    assert ModelSpec.from_bytes(spec.to_bytes()) == spec
    scaling = {"scaling": "auto", "missing": "mean"}
    assert spec.learner().resolved_params() == {**spec.params.model_dump(), **scaling, "dtype": "float32"}


def test_missing_values_are_the_mean_only_with_automatic_scaling() -> None:
    assert spec_of("falt", missing="zero").missing == spec_of("falt", scaling="unit").missing == "zero"
    assert spec_of("falt", {"passes": 3}).missing == "zero"
    assert places({"name": "m", "algorithm": "falt", "scaling": "unit", "missing": "mean"}) == ["/missing"]
    assert places({"name": "m", "algorithm": "falt", "missing": "median"}) == ["/missing"]


def test_a_budget_has_a_strategy() -> None:
    assert spec_of("kernel_falt", {"budget": 10}).params.model_dump()["strategy"] is not None
    assert spec_of("kernel_falt").params.model_dump()["strategy"] is None


def test_passes_choose_the_gradient_step_and_no_scaling() -> None:
    spec = spec_of("falt", {"passes": 3})
    assert spec.params.model_dump().items() >= {"step": "gradient", "eta": 0.25, "passes": 3}.items()
    assert spec.scaling == "none"
    assert spec_of("falt", {"passes": 3}, scaling="auto").scaling == "auto"
    assert spec.params.optimise == "none"
    assert [spec_of("falt", params).params.optimise for params in ({}, {"calibrate": False})] == ["micro_f1", "none"]
    step_only = spec_of("salt", {"step": "gradient"})
    assert step_only.params.model_dump().items() >= {"eta": 0.5, "delta": 1.0, "passes": None}.items()
    assert step_only.scaling == "auto"


@given(document=documents())
def test_resolved_specs_keep_the_given_parameters(document: dict[str, Any]) -> None:
    try:
        spec = ModelSpec.model_validate(document)
    except ValidationError:
        return
    for name, value in document["params"].items():
        assert value in (None, getattr(spec.params, name))
    assert (
        spec.learner().resolved_params()
        == type(spec.learner())(
            **document["params"], scaling=document["scaling"], missing=document["missing"]
        ).resolved_params()
    )
    assert json.loads(spec.to_bytes())["scaling"] in (spec.scaling, document["scaling"])
