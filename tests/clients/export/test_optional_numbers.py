"""Exported models: a record with an optional number has the same features as where the model learnt."""

import json
import sys
from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each
from tests.support.lanes import in_rest
from tests.support.lazy import lazy
from tests.support.optional_numbers import Stream, names_of_batch

from manylabel_clients.export.as_python import python_file
from manylabel_clients.export.predictor import LinearPredictor
from manylabel_core.records import RecordEncoder
from manylabel_core.records.number_fields import NumberFields, numbers_of

onnxruntime = lazy("onnxruntime")

ENCODER = RecordEncoder()
NUMBERS: list[dict[str, Any]] = [{"size": 1, "price": 2}, {"size": 3}, {"size": 1, "price": 2}]
RECORDS = [*NUMBERS, {"size": 2, "section": "games"}, {"size": 3, "price": 2.5, "free": True}]
STREAMS = {
    "records": RECORDS,
    "numbers": NUMBERS,
    "a category that has the name": [*RECORDS, {"price": "given", "size": 3}],
    "many fields": [*RECORDS, {f"n{i}": i for i in range(253)}],
    "too many fields": [*RECORDS, {f"n{i}": i for i in range(254)}],
    "an empty record first": [{}, {"price": 1, "section": "games"}],
}
TWICE = {"price": 1, "price=given": 2, "section": "games"}
"""A field has the name of the feature that another has; if it is unknown, ONNX counts it twice in the norm."""
ASKED: list[Any] = [
    *RECORDS,
    {},
    "games",
    {"price": 3},
    {"price": 0, "section": "games"},
    {"new": 1, "size": 2},
    TWICE,
    {"price": "given", "size": 3, "free": False},
    {"price": "given", "new": 3, "newer": 5, "section": "unheard"},
    {f"m{i}": i % 3 for i in range(300)},
]


Scores = Callable[[dict[str, Any]], list[float]]
"""Function from a record to the scores of an exported model."""


def as_json(model: dict[str, Any]) -> Scores:
    predictor = LinearPredictor(json.loads(json.dumps(model)))
    return lambda x: list(predictor.scores(x).values())


def as_python(model: dict[str, Any]) -> Scores:
    module = ModuleType("exported")
    sys.modules["exported"] = module  # dataclasses look for it
    exec(python_file(model), vars(module))
    del sys.modules["exported"]
    return lambda x: list(module.scores(x).values())


@pytest.fixture
@in_rest  # it needs onnxruntime
def as_onnx() -> Callable[[dict[str, Any]], Scores]:
    def exported(model: dict[str, Any]) -> Scores:
        from manylabel_clients.export.as_onnx import onnx_file

        session = onnxruntime.InferenceSession(onnx_file(model))

        def scores(x: dict[str, Any]) -> list[float]:
            features = ENCODER.encode(x)
            inputs = {
                "names": np.array(list(features), dtype=object),
                "values": np.array(list(features.values()), dtype=np.float32),
                "texts": np.array([""], dtype=object),
                "fields": np.array(["title"], dtype=object),
            }
            return session.run(["scores"], inputs)[0].tolist()

        return scores

    return exported


def model_of(names: list[str], numbers: dict[str, Any] | None, unseen: int | None) -> dict[str, Any]:
    random = Random(7)
    return {
        "format": "manylabel-linear-1",
        "model": "m",
        "labels": ["p", "q"],
        "features": {"numbered": False, "names": names, "unseen": unseen, "numbers": numbers},
        "text": ENCODER.text.to_json(),
        "scaling": {"kind": "unit"},
        "weights": [[random.gauss(0, 1), random.gauss(0, 1)] for _ in names],
        "intercept": [0.1, -0.2],
        "probability": None,
    }


def plain_scores(model: dict[str, Any], features: dict[str, float]) -> list[float]:
    """Scores of all features of an example, also unknown ones that count."""
    names, scores = model["features"]["names"], np.array(model["intercept"])
    counted = {name: v for name, v in features.items() if name in names or model["features"]["unseen"] is None}
    norm = np.linalg.norm(list(counted.values())) or 1.0
    for name, value in counted.items():
        if name in names:
            scores = scores + value / norm * np.array(model["weights"][names.index(name)])
    return scores.tolist()


def check_online(exported: Callable[[dict[str, Any]], Scores], case: str) -> None:
    stream, fields, names = Stream(), NumberFields(), dict[str, None]()
    for x in STREAMS[case]:
        features = ENCODER.encode(x)
        numbers = numbers_of(features)
        fields = fields.after(numbers, len(numbers) < len(features))
        names |= dict.fromkeys(stream.learnt(features))
    for unseen in (None, 0):
        model = model_of([*names], fields.to_json(), unseen)
        scores = exported(model)
        for x in ASKED:
            if x is TWICE and exported not in (as_json, as_python) and "price=given" not in names:
                continue
            wanted = plain_scores(model, stream.predicted(ENCODER.encode(x)))
            assert scores(x) == pytest.approx(wanted, rel=1e-6, abs=1e-6), (x, unseen)


def check_trained(exported: Callable[[dict[str, Any]], Scores], case: str) -> None:
    names = names_of_batch([ENCODER.encode(x) for x in STREAMS[case]])
    assert ("price=given" in names) == (case not in ("numbers", "too many fields"))
    model = model_of(names, None, 0)
    scores = exported(model)
    for x in ASKED:
        features = ENCODER.encode(x)
        given = {f"{name}=given": 1.0 for name in features if name in names and f"{name}=given" in names}
        assert scores(x) == pytest.approx(plain_scores(model, given | features), rel=1e-6, abs=1e-6), x


@for_each("exported", [as_json, as_python])
@for_each("case", STREAMS)
def test_an_online_model_reads_a_record_as_the_next_of_its_stream(exported: Any, case: str) -> None:
    check_online(exported, case)


@for_each("case", STREAMS)
def test_an_online_model_as_onnx(as_onnx: Any, case: str) -> None:
    check_online(as_onnx, case)


@for_each("exported", [as_json, as_python])
@for_each("case", STREAMS)
def test_a_trained_model_knows_its_optional_numbers_by_name(exported: Any, case: str) -> None:
    check_trained(exported, case)


@for_each("case", STREAMS)
def test_a_trained_model_as_onnx(as_onnx: Any, case: str) -> None:
    check_trained(as_onnx, case)
