"""Limits of a model over HTTP: refused and ignored names, and what the server reports."""

from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.service.api.answers import create, new_model, refused, state_of, stream

from manylabel_service.online.size_limits import max_learner_bytes
from manylabel_service.online.spec.spec import ModelSpec


def limited(client: TestClient, features: str | None = None, labels: str | None = None, **spec: Any) -> str:
    """Create a model with limits, each with a policy; return its address."""
    limits = {
        "features": features and {"most": 2, "policy": features},
        "labels": labels and {"most": 1, "policy": labels},
    }
    return new_model(client, **{"limits": limits, **spec})


def item(*names: str, y: Any = ("p",)) -> dict[str, Any]:
    return {"x": dict.fromkeys(names, 1), "y": list(y) if isinstance(y, tuple) else y}


def test_names_beyond_the_limit_are_refused_at_their_place(client: TestClient) -> None:
    address = limited(client, "reject", "reject")
    client.post(f"{address}/update", json=item("a")).raise_for_status()
    state = state_of(client, address)
    batch = {"examples": [item("a"), item("a", "word=cat", "word=dog")]}
    for operation in ("update", "predict-update"):
        problem = refused(
            client.post(f"{address}/{operation}", json=batch), 422, "invalid_request", "/examples/1/x/word=dog"
        )
        assert "2" in problem["detail"]
        refused(client.post(f"{address}/{operation}", json=item("a", y=("p", "q"))), 422, "invalid_request", "/y/1")
        partial = item("a", y={"q": False})
        refused(client.post(f"{address}/{operation}", json=partial), 422, "invalid_request", "/y/q")
    assert state_of(client, address) == state
    assert client.post(f"{address}/predict", json=item("a", "b", "c")).status_code == 200
    kept = client.post(f"{address}/predict?keep=true", json=item("a")).json()["id"]
    refused(client.post(f"{address}/labels", json={"id": kept, "y": ["q"]}), 422, "invalid_request", "/y/0")
    client.post(f"{address}/labels", json={"id": kept, "y": ["p"]}).raise_for_status()
    assert client.get(address).json()["ignored"] == {"features": 0, "labels": 0}


def test_ignored_names_are_counted(client: TestClient) -> None:
    address = limited(client, "ignore", "ignore", scaling="unit")
    client.post(f"{address}/update", json=item("a", "b", "c", y=("p", "q"))).raise_for_status()
    lines = stream(client, address, [item("a", "d", y=("r",)), item("e", y={"p": True, "q": False})])
    assert [list(line["scores"]) for line in lines] == [["p"], ["p"]]
    status = client.get(address).json()
    assert (status["features"], status["labels"], status["updates"]) == (2, 1, 3)
    assert status["ignored"] == {"features": 3, "labels": 3}
    known, unknown = (
        client.post(f"{address}/predict", json=each).json()["scores"] for each in (item("a"), item("a", "x", "y", "z"))
    )
    assert unknown == known != {}


def test_limits_are_shown(client: TestClient) -> None:
    created = [
        limited(client, "hash", "ignore"),
        limited(client, "reject"),
        limited(client, limits=None),
        limited(client, features=None),
    ]
    both, one, none, neither = (client.get(address).json() for address in created)
    assert both["limits"] == {"features": {"most": 2, "policy": "hash"}, "labels": {"most": 1, "policy": "ignore"}}
    assert one["limits"] == {"features": {"most": 2, "policy": "reject"}, "labels": None}
    assert none["limits"] is None
    assert neither["limits"] == {"features": None, "labels": None}
    assert (both.pop("fields"), both.pop("n_fields")) == ([], 0)
    assert both in client.get("/v1/models").json()["models"]


def test_limits_beyond_those_of_the_server_are_refused(serve: Callable[..., Any]) -> None:
    limits = {"features": {"most": 1_000, "policy": "ignore"}, "labels": {"most": 50, "policy": "ignore"}}
    bound = max_learner_bytes(ModelSpec.model_validate({"name": "fitting", "algorithm": "falt", "limits": limits}))
    with serve(max_model_bytes=bound, max_features=1_000, max_labels=50) as client:
        create(client, "fitting", limits=limits)
        for larger in (
            {"limits": {**limits, "labels": {"most": 51, "policy": "ignore"}}},
            {"limits": {**limits, "features": {"most": 1_001, "policy": "reject"}}},
            {"limits": limits, "params": {"drift": "adwin"}},
            {"limits": {"features": {"most": 1_001, "policy": "hash"}}},
        ):
            answer = client.post("/v1/models", json={"name": "larger", "algorithm": "falt", **larger})
            refused(answer, 507, "limit_exceeded")
        create(client, "unbounded", algorithm="kernel_falt", params={"step": "implicit"}, limits=limits)
        create(client, "unlimited")


def test_prometheus_counts_ignored_names(client: TestClient) -> None:
    ignoring, hashing, free = (
        limited(client, "ignore", "ignore"),
        limited(client, "hash", "reject"),
        limited(client, limits=None),
    )
    client.post(f"{ignoring}/update", json=item("a", "b", "c", y=("p", "q", "r"))).raise_for_status()
    families = text_string_to_metric_families(client.get("/metrics").text)
    found = {(s.name, s.labels.get("model")): s.value for family in families for s in family.samples}
    names = {address: address.rsplit("/", 1)[1] for address in (ignoring, hashing, free)}
    assert found["manylabel_model_ignored_features", names[ignoring]] == 1
    assert found["manylabel_model_ignored_labels", names[ignoring]] == 2
    assert ("manylabel_model_ignored_features", names[hashing]) not in found
    assert ("manylabel_model_ignored_features", names[free]) not in found


def test_a_job_cannot_use_hashed_features(client: TestClient) -> None:
    address = limited(client, "hash", "reject")
    client.post(f"{address}/update", json=item("a")).raise_for_status()
    job = {"model": "made", "trainer": "m3l", "data": {"stream": address.rsplit("/", 1)[1], "last": 5}}
    problem = refused(client.post("/v1/jobs", json=job), 422, "invalid_request", "/data/stream")
    assert "without hashed features" in problem["detail"]
