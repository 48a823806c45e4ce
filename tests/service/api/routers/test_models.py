"""Models over HTTP: create, list, show and delete."""

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, refused, state_of
from tests.support.cases import for_each

SPEC = {
    "name": "tags",
    "algorithm": "salt",
    "params": {"eta": 0.25, "delta": 2.0, "passes": 3},
    "scaling": "unit",
    "window": 10,
}


def test_a_model_is_created_shown_and_deleted(client: TestClient) -> None:
    created = client.post("/v1/models", json=SPEC)
    assert (created.status_code, created.headers["location"]) == (201, "/v1/models/tags")
    status = created.json()
    assert (status["name"], status["algorithm"], status["scaling"]) == ("tags", "salt", "unit")
    assert status["params"].items() >= {"eta": 0.25, "delta": 2.0, "passes": 3, "fit_intercept": True}.items()
    assert (status["updates"], status["labels"], status["features"]) == (0, 0, 0)

    client.post("/v1/models/tags/update", json={"x": {"a": 1, "b": 1}, "y": ["p", "q", "r"]}).raise_for_status()
    status = client.get("/v1/models/tags").json()
    assert (status["updates"], status["labels"], status["features"]) == (1, 3, 2)
    assert [field["name"] for field in status.pop("fields")] == ["a", "b"]
    assert status.pop("n_fields") == 2
    assert status in client.get("/v1/models").json()["models"]
    measured = client.get("/v1/models/tags/metrics")
    assert measured.json() == {
        **status["metrics"],
        "position": status["position"],
        "updates": status["updates"],
    }
    assert measured.json()["window"]["size"] == 10

    deleted = client.delete("/v1/models/tags")
    assert (deleted.status_code, deleted.content) == (204, b"")
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/metrics"),
        ("POST", "/predict"),
        ("POST", "/update"),
        ("POST", "/predict-update"),
    ):
        answer = client.request(method, f"/v1/models/tags{path}", json={"x": {"a": 1}, "y": []})
        refused(answer, 404, "model_not_found")

    again = client.post("/v1/models", json=SPEC)
    assert (again.status_code, again.json()["updates"], again.json()["labels"]) == (201, 0, 0)
    client.delete("/v1/models/tags").raise_for_status()


def test_defaults_of_the_learner_are_shown(client: TestClient) -> None:
    client.post("/v1/models", json={"name": "untuned", "algorithm": "falt"}).raise_for_status()
    shown = client.get("/v1/models/untuned").json()
    assert shown["scaling"] == "auto"
    missing = {name for name, value in shown["params"].items() if value is None}
    assert missing == {"drift", "on_drift", "passes"}
    spec = {"name": "again", "algorithm": "falt", "params": shown["params"], "scaling": shown["scaling"]}
    again = client.post("/v1/models", json=spec)
    assert (again.status_code, again.json()["params"]) == (201, shown["params"])
    for name in ("untuned", "again"):
        client.delete(f"/v1/models/{name}").raise_for_status()


def test_models_are_listed_by_name(client: TestClient) -> None:
    for name in ("b", "a.2", "c", "a-1"):
        create(client, name)
    names = [model["name"] for model in client.get("/v1/models").json()["models"]]
    assert names == sorted(names)
    assert {"b", "a.2", "c", "a-1"} <= set(names)


def test_an_existing_name_is_refused(client: TestClient, model: str) -> None:
    client.post(f"{model}/update", json={"x": {"a": 1}, "y": ["p"]})
    state = state_of(client, model)
    refused(client.post("/v1/models", json={"name": "test", "algorithm": "salt"}), 409, "model_exists")
    assert state_of(client, model) == state


@for_each(
    ("spec", "places"),
    [
        ({}, ["/name", "/algorithm"]),
        ([], [""]),
        ({"name": "Tags"}, ["/name"]),
        ({"name": ""}, ["/name"]),
        ({"name": "a/b"}, ["/name"]),
        ({"name": "-a"}, ["/name"]),
        ({"name": "a\n"}, ["/name"]),
        ({"name": "a" * 65}, ["/name"]),
        ({"name": 3}, ["/name"]),
        ({"algorithm": "svm"}, ["/algorithm"]),
        ({"params": {"eta": 0}}, ["/params/eta"]),
        ({"params": {"eta": "0.5"}}, ["/params/eta"]),
        ({"params": {"etta": 1}}, ["/params/etta"]),
        ({"params": []}, ["/params"]),
        ({"features": 0}, ["/features"]),
        ({"features": "a"}, ["/features"]),
        ({"features": ["a", 3]}, ["/features/1"]),
        ({"features": ["a", "b", "a"]}, ["/features"]),
        ({"features": ["é" * 129]}, ["/features/0"]),
        ({"labels": ["a", None]}, ["/labels/1"]),
        ({"labels": ["a", "a"]}, ["/labels"]),
        ({"scaling": "l2"}, ["/scaling"]),
        ({"window": 0}, ["/window"]),
        ({"weights": []}, ["/weights"]),
        ({"old_names": "keep"}, ["/old_names"]),
        ({"sources": {"robot": 1.0}}, ["/sources/robot"]),
        ({"sources": {"rule": 1.5}}, ["/sources/rule"]),
        ({"sources": {"human": 0.0}}, ["/sources/human"]),
        ({"sources": 1}, ["/sources"]),
        ({"text": {"fields": "title"}}, ["/text/fields"]),
        ({"text": {"ngrams": 9}}, ["/text/ngrams"]),
        ({"text": {"tokeniser": 2}}, ["/text/tokeniser"]),
        ({"text": ["title"]}, ["/text"]),
        ({"limits": {"labels": {"most": 9, "policy": "hash"}}}, ["/limits/labels/policy"]),
        ({"limits": {"features": {"most": 9}}}, ["/limits/features/policy"]),
        ({"labels": ["a"], "limits": {"labels": {"most": 1, "policy": "ignore"}}}, ["/limits/labels"]),
    ],
)
def test_a_bad_spec_is_refused_at_its_place(client: TestClient, spec: Any, places: list[str]) -> None:
    good = {"name": "bad", "algorithm": "falt"}
    body = {**good, **spec} if spec else spec
    refused(client.post("/v1/models", json=body), 422, "invalid_request", *places)
    assert client.get("/v1/models/bad").status_code == 404


@for_each("raw", [b"{", b"", b'{"name": "a\\ud800"}', b'{"name":"a","algorithm":"falt"}]'])
def test_a_malformed_spec_is_refused(client: TestClient, raw: bytes) -> None:
    answer = client.post("/v1/models", content=raw, headers={"Content-Type": "application/json"})
    refused(answer, 400, "malformed_json")
    refused(client.post("/v1/models", content=raw), 415, "unsupported_media_type")


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999"])
def test_a_parameter_is_finite(client: TestClient, number: bytes) -> None:
    raw = b'{"name": "bad", "algorithm": "falt", "params": {"eta": ' + number + b"}}"
    answer = client.post("/v1/models", content=raw, headers={"Content-Type": "application/json"})
    refused(answer, 422, "invalid_request", "/params/eta")


@for_each("name", ["nobody", "Nobody", "..", "a b", "%00", "a" * 300, "é", "a%0D%0Ab"])
def test_an_unknown_name_is_not_found(client: TestClient, name: str) -> None:
    answer = client.get(f"/v1/models/{name}/metrics")
    assert answer.status_code == 404
    assert answer.json()["code"] in ("model_not_found", "not_found")


@for_each("path", ["/v1", "/v1/models/", "/v2x", "/v1/models/test/predict/", "/v1/models/a%2Fb"])
def test_an_unknown_path_is_a_problem(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.headers["content-type"] == "application/problem+json"


@for_each(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/v1/models/tags", "DELETE, GET, PUT"),
        ("GET", "/v1/models/tags/update", "POST"),
        ("DELETE", "/v1/models", "GET, POST"),
        ("POST", "/livez", "GET"),
        ("FETCH", "/metrics", "GET"),
    ],
)
def test_a_wrong_method_gets_the_allowed_ones(client: TestClient, method: str, path: str, allowed: str) -> None:
    answer = client.request(method, path)
    refused(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


def test_an_unknown_kind_of_event_is_refused(client: TestClient, model: str) -> None:
    refused(client.get(f"{model}/events?kind=drift&kind=nonsense"), 422, "invalid_request", "kind")
    assert client.head(f"{model}/events?kind=drift&kind=label").status_code == 200
