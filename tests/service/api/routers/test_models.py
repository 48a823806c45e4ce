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
        ("PUT", "/v1/models", "DELETE, GET, POST"),
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


def pages(client: TestClient, **query: Any) -> list[list[str]]:
    """Names of listed models, page by page."""
    found, after = list[list[str]](), {}
    while True:
        page = client.get("/v1/models", params={**query, **after}).json()
        found.append([model["name"] for model in page["models"]])
        if "next" not in page:
            return found
        after = {"after": page["next"]}


def test_models_are_listed_in_pages(client: TestClient) -> None:
    before = {model["name"] for model in client.get("/v1/models").json()["models"]}
    names = ["page-b", "page-a", "page-10", "pagex", "page-1"]
    for name in names:
        create(client, name)
    assert pages(client, prefix="page-") == [["page-1", "page-10", "page-a", "page-b"]]
    assert pages(client, prefix="page", limit=2) == [["page-1", "page-10"], ["page-a", "page-b"], ["pagex"]]
    assert pages(client, prefix="page-", limit=4) == [["page-1", "page-10", "page-a", "page-b"]]
    assert {name for page in pages(client, limit=1) for name in page} == before | set(names)
    assert client.get("/v1/models", params={"prefix": "page-", "after": "page-a"}).json()["models"][0]["loaded"]
    client.delete("/v1/models/page-a")
    assert pages(client, prefix="page-a") == [[]]


def test_the_latest_used_models_are_listed_first(client: TestClient) -> None:
    for name in ("used-a", "used-b", "used-c"):
        create(client, name)
    listed = [name for page in pages(client, sort="used", prefix="used-", limit=2) for name in page]
    assert listed == ["used-c", "used-b", "used-a"]
    assert [name for page in pages(client, sort="used", limit=1) for name in page][:3] == listed


@for_each(
    ("query", "field"),
    [
        ({"sort": "used", "after": "page-a"}, "after"),
        ({"sort": "used", "after": "12.A"}, "after"),
        ({"sort": "size"}, "sort"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"first": "1"}, "first"),
    ],
)
def test_wrong_parameters_of_the_list_are_refused(client: TestClient, query: dict[str, str], field: str) -> None:
    refused(client.get("/v1/models", params=query), 422, "invalid_request", field)


def test_a_model_like_another_has_its_settings_and_has_learnt_nothing(client: TestClient) -> None:
    groups = [{"name": "mood", "choose": "at_most_one", "labels": ["good", "bad"]}]
    base = create(
        client,
        "template",
        algorithm="salt",
        params={"eta": 0.25, "calibrate": True},
        window=50,
        limits={"labels": {"most": 9, "policy": "ignore"}},
        groups=groups,
        parents={"good": "any", "bad": "any"},
        promise={"precision": 0.9},
    )
    labels = {"labels": {"good": {"title": "A good one"}, "other": {"description": "Anything else"}}}
    client.patch(f"{base}/labels", json=labels).raise_for_status()
    client.post(f"{base}/labels/retire", json={"label": "other"}).raise_for_status()
    for _ in range(3):
        client.post(f"{base}/update", json={"x": {"a": 1}, "y": ["good", "seen"]}).raise_for_status()
    before = client.get(base).json()
    answer = client.post("/v1/models", json={"name": "alike", "like": "template"})
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/models/alike")
    status = answer.json()
    same = ("algorithm", "params", "limits", "scaling", "text", "groups", "parents", "promise", "labels")
    assert {field: status[field] for field in same} == {field: before[field] for field in same}
    assert (status["updates"], status["features"], status["position"]) == (0, 0, "1")
    listed = {each["label"]: each.get("title") for each in client.get("/v1/models/alike/labels").json()["labels"]}
    assert listed["good"] == "A good one"
    alike = "/v1/models/alike"
    scores = client.post(f"{alike}/predict", json={"x": {"a": 1}}).json()["scores"]
    assert set(scores) == {"good", "bad", "any", "seen"}
    client.post(f"{alike}/update", json={"x": {"b": 1}, "y": ["bad"]}).raise_for_status()
    assert client.get(alike).json()["updates"] == 1
    assert client.get(base).json() == before, "the template is another model"
    client.delete(base).raise_for_status()
    assert client.get(alike).json()["updates"] == 1


@for_each(
    ("body", "status", "code", "places"),
    [
        ({"like": "nobody"}, 404, "model_not_found", []),
        ({"like": "there", "algorithm": "falt"}, 422, "invalid_request", ["/algorithm"]),
        ({"like": "there", "fork": {"model": "there"}}, 422, "invalid_request", ["/like"]),
        ({"like": 3}, 422, "invalid_request", ["/like"]),
        ({"like": "there", "name": "there"}, 409, "model_exists", []),
    ],
)
def test_a_bad_template_is_refused(
    client: TestClient, body: dict[str, Any], status: int, code: str, places: list[str]
) -> None:
    if client.get("/v1/models/there").status_code == 404:
        create(client, "there")
    refused(client.post("/v1/models", json={"name": "bad", **body}), status, code, *places)
    assert client.get("/v1/models/bad").status_code == 404
