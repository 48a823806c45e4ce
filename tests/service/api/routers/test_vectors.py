"""Vectors of records over HTTP: learnt by every call, as numbers or base64, explained, and refused at their place."""

import base64
import json
from typing import Any

import numpy as np
from starlette.testclient import TestClient
from tests.service.api.answers import new_model, ok, taught_by_every_call

TEXT = {"fields": ["text"]}


def packed(numbers: Any, form: str = "f32") -> dict[str, str]:
    dtype = {"f32": "<f4", "f16": "<f2"}[form]
    return {form: base64.b64encode(np.array(numbers, dtype=dtype).tobytes()).decode()}


def items(n: int = 30) -> list[dict[str, Any]]:
    """Return records with vectors of numbers that float16 has, of which the vector tells the label."""
    rng = np.random.default_rng(1)
    found = []
    for i in range(n):
        label = "ab"[i % 2]
        vector = (rng.standard_normal(6) + (i % 2)).astype(np.float16).astype(float).tolist()
        record = {"text": f"word{i % 5} common", "meta": {"embedding": vector}, "tags": [], "none": None}
        found.append({"x": record if i % 4 else {"text": "no vector"}, "y": [label]})
    return found


def in_form(item: dict[str, Any], form: str | None) -> dict[str, Any]:
    meta = item["x"].get("meta")
    if form is None or meta is None:
        return item
    return {**item, "x": {**item["x"], "meta": {"embedding": packed(meta["embedding"], form)}}}


def test_every_call_learns_the_same_from_numbers_and_base64(client: TestClient) -> None:
    forms = ([in_form(item, form) for item in items()] for form in (None, "f32", "f16"))
    addresses = [address for form in forms for address in taught_by_every_call(client, form, text=TEXT)]
    probe = {"x": items()[1]["x"]}
    first, *others = (ok(client.post(f"{address}/predict", json=probe))["scores"] for address in addresses)
    assert others == [first] * (len(addresses) - 1)
    opposite = {"x": {"meta": {"embedding": [-v for v in probe["x"]["meta"]["embedding"]]}}}
    assert ok(client.post(f"{addresses[0]}/predict", json=opposite))["scores"] != first


def test_an_explanation_has_one_line_for_a_vector(client: TestClient) -> None:
    address = new_model(client, text=TEXT)
    ok(client.post(f"{address}/update", json={"examples": items()}))
    answer = ok(client.post(f"{address}/predict", json={"x": items()[1]["x"], "explain": 10}))
    for explanation in answer["explanations"].values():
        lines = [*explanation["for"], *explanation["against"]]
        (line,) = [line for line in lines if line["feature"] == "meta.embedding"]
        assert line["value"] is None
        assert line["contribution"]
    assert answer["explanations"]


BAD: list[tuple[Any, str, str]] = [
    ([1, 2], "", "must have 6 numbers, as in the examples before; has 2"),
    ([1, 2, 3, 4, 5, "x"], "/5", "must be a finite number of at most 1e+15"),
    ([1, 2, 3, 4, 5, 1e16], "/5", "must be a finite number of at most 1e+15"),
    ([1, 2, [3]], "/2", "must be a finite number of at most 1e+15"),
    ([[1, 2]], "/0", "must be a string or a number"),
    ([True] * 6, "/0", "must be a string or a number"),
    ([0.5] * 8193, "", "must have 1 to 8,192 numbers, not 8,193"),
    ({"f32": "AAAA"}, "/f32", "must be base64 of numbers of 4 bytes, has 3 bytes"),
    ({"f16": "AAAA"}, "/f16", "must be base64 of numbers of 2 bytes, has 3 bytes"),
    ({"f32": "no base64!"}, "/f32", "must be base64"),
    ({"f32": "L"}, "/f32", "must be base64: an object with 'f32' alone is a vector"),
    ({"f32": "AAA"}, "/f32", "must be base64"),
    ({"f32": ""}, "/f32", "must have 1 to 8,192 numbers, not 0"),
    ({"f32": "A" * 90_000}, "/f32", "must be base64 of at most 8,192 numbers"),
    (packed([1, 2, 3, 4, 5, np.nan]), "/f32/5", "must be a finite number of at most 1e+15"),
    (packed([1, 2, 3, 4, 5, np.inf], "f16"), "/f16/5", "must be a finite number of at most 1e+15"),
    (packed([1, 2, 3]), "", "must have 6 numbers, as in the examples before; has 3"),
]


def test_a_bad_vector_is_refused_at_its_place_and_changes_nothing(client: TestClient) -> None:
    address = new_model(client, text=TEXT)
    ok(client.post(f"{address}/update", json={"examples": items()}))
    before = client.get(address).json()
    for value, place, detail in BAD:
        item = {"x": {"text": "a", "meta": {"embedding": value}}, "y": ["a"]}
        at = f"/x/meta.embedding{place}" if "examples before" in detail else ""
        at = at or f"/x/meta/embedding{place}"
        for path, body, prefix in (
            ("predict", {"x": item["x"]}, ""),
            ("update", item, ""),
            ("predict-update", {"examples": [items()[0], item]}, "/examples/1"),
        ):
            response = client.post(f"{address}/{path}", json=body)
            assert response.status_code == 422, (value, response.text)
            (error,) = response.json()["errors"]
            assert error["pointer"] == prefix + at
            assert error["detail"].startswith(detail)
    assert client.get(address).json() == before


def test_a_vector_is_a_tensor_of_the_open_inference_protocol(client: TestClient) -> None:
    address = new_model(client, text=TEXT)
    ok(client.post(f"{address}/update", json={"examples": items()}))
    name = address.rsplit("/", 1)[1]
    inputs = ok(client.get(f"/v2/models/{name}"))["inputs"]
    assert {"name": "meta.embedding", "datatype": "FP32", "shape": [-1, 6]} in inputs
    records = [items()[1]["x"], {"text": "no vector"}]
    expected = ok(client.post(f"{address}/predict", json={"examples": [{"x": x} for x in records]}))["predictions"]
    texts = [json.dumps({"text": x["text"]}) for x in records]
    vectors = [records[0]["meta"]["embedding"], [None] * 6]
    body = {
        "inputs": [
            {"name": "x", "datatype": "BYTES", "shape": [2], "data": texts},
            {"name": "meta.embedding", "datatype": "FP32", "shape": [2, 6], "data": vectors},
        ]
    }
    outputs = {each["name"]: each for each in ok(client.post(f"/v2/models/{name}/infer", json=body))["outputs"]}
    scores = np.array(outputs["scores"]["data"]).reshape(2, 2)
    np.testing.assert_allclose(scores, [list(each["scores"].values()) for each in expected], rtol=1e-6)
    body["inputs"] = [{"name": "meta.embedding", "datatype": "FP32", "shape": [1, 6], "data": [vectors[0]]}]
    assert ok(client.post(f"/v2/models/{name}/infer", json=body))
    for tensor in (
        {"name": "meta.embedding", "datatype": "FP32", "shape": [1, 5], "data": [[1.0] * 5]},
        {"name": "meta.embedding", "datatype": "FP32", "shape": [1, 6], "data": [[None, *[1.0] * 5]]},
        {"name": "other", "datatype": "FP32", "shape": [1, 6], "data": [[1.0] * 6]},
    ):
        assert client.post(f"/v2/models/{name}/infer", json={"inputs": [tensor]}).status_code == 422
