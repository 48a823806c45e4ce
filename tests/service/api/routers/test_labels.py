"""Delayed labels: predictions are stored, labelled once, and expire."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, refused, state_of
from tests.support.cases import for_each

from manylabel_service import ulid as prediction_ids
from manylabel_service.errors import ServiceError
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.idempotency_window import IdempotencyWindow

X = {"x": {"a": 1, "b": 0.5}}
JSON = {"Content-Type": "application/json"}


def keep(client: TestClient, address: str, body: Any = X) -> Any:
    return ok(client.post(f"{address}/predict?keep=true", json=body))


def test_a_stored_prediction_is_learnt_when_its_labels_come(client: TestClient, model: str) -> None:
    client.post(f"{model}/update", json={"x": {"a": 1, "c": 2}, "y": ["q"]}).raise_for_status()
    kept = keep(client, model)
    plain = client.post(f"{model}/predict", json=X).json()
    assert {part: kept[part] for part in plain} == plain
    assert kept.keys() - plain.keys() == {"id", "expires"}
    assert prediction_ids.valid(kept["id"])
    expires = datetime.fromisoformat(kept["expires"])
    assert abs(expires - datetime.now(UTC) - timedelta(days=1)) < timedelta(minutes=1)
    assert client.get(model).json()["updates"] == 1, "nothing is learnt when a prediction is stored"

    assert client.post(f"{model}/labels", json={"id": kept["id"], "y": ["p", "q"]}).json()["updates"] == 2
    assert client.post(f"{model}/predict", json=X).json()["labels"] == ["q", "p"]


def test_stored_predictions_of_a_batch_are_labelled_in_any_order(client: TestClient, model: str) -> None:
    xs = [{"x": {"a": i + 1}} for i in range(4)]
    kept = keep(client, model, {"examples": xs})
    ids = [one["id"] for one in kept["predictions"]]
    assert len(set(ids)) == 4
    body = {"examples": [{"id": ids[2], "y": ["p"]}, {"id": ids[0], "y": {"q": False}}]}
    assert client.post(f"{model}/labels", json=body).json()["updates"] == 2
    rest = {"examples": [{"id": id, "y": []} for id in (ids[1], ids[3])]}
    assert client.post(f"{model}/labels", json=rest).json()["updates"] == 4


def test_a_prediction_is_labelled_once(client: TestClient, model: str) -> None:
    first, second = (one["id"] for one in keep(client, model, {"examples": [X, X]})["predictions"])
    client.post(f"{model}/labels", json={"id": first, "y": ["p"]}).raise_for_status()
    state = state_of(client, model)

    refused(client.post(f"{model}/labels", json={"id": first, "y": ["p"]}), 409, "prediction_labelled", "/id")
    both = {"examples": [{"id": second, "y": []}, {"id": first, "y": []}]}
    refused(client.post(f"{model}/labels", json=both), 409, "prediction_labelled", "/examples/1/id")
    assert state_of(client, model) == state
    assert client.post(f"{model}/labels", json={"id": second, "y": []}).status_code == 200


def test_partial_labels_of_a_prediction_come_once_each(client: TestClient, model: str) -> None:
    kept = keep(client, model)

    def tell(y: Any) -> Any:
        return client.post(f"{model}/labels", json={"id": kept["id"], "y": y})

    assert tell({"p": True}).json()["updates"] == 1
    refused(tell({"p": True}), 409, "prediction_labelled", "/id")
    assert "'p'" in tell({"q": True, "p": False}).json()["detail"]
    refused(tell(["p", "q"]), 409, "prediction_labelled", "/id")
    assert tell({"q": False, "r": True}).json()["updates"] == 2
    refused(tell({}), 409, "prediction_labelled", "/id")  # it has no label, but may be a repetition
    assert client.get(model).json()["updates"] == 2
    assert client.get(f"{model}/metrics").json()["cumulative"]["examples"] == 1


def test_only_one_of_concurrent_labels_is_learnt(client: TestClient, model: str) -> None:
    body = {"id": keep(client, model)["id"], "y": ["p"]}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(f"{model}/labels", json=body), range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 15
    assert client.get(model).json()["updates"] == 1


def test_a_retry_whose_key_is_forgotten_learns_nothing(
    client: TestClient, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, key = {"id": keep(client, model)["id"], "y": ["p"]}, {"Idempotency-Key": "k"}
    client.post(f"{model}/labels", json=body, headers=key).raise_for_status()
    before = client.get(model).json()
    sync = Replica.sync

    async def forgetful_sync(replica: Replica) -> ServiceError | None:
        """Sync as if entries of others, with as many keys as are remembered, had been applied."""
        replica.model.keys = IdempotencyWindow()
        return await sync(replica)

    monkeypatch.setattr(Replica, "sync", forgetful_sync)
    refused(client.post(f"{model}/labels", json=body, headers=key), 409, "prediction_labelled", "/id")
    assert client.get(model).json()["position"] == before["position"], "nothing is logged"


def test_an_unknown_prediction_is_refused(client: TestClient, model: str) -> None:
    of_nobody = prediction_ids.make(int(datetime.now(UTC).timestamp() * 1000), bytes(10))
    for id in (of_nobody, "", "nonsense", of_nobody.lower(), of_nobody + "0", "é" * 26):
        refused(client.post(f"{model}/labels", json={"id": id, "y": []}), 404, "prediction_not_found", "/id")
    good = keep(client, model)["id"]
    body = {"examples": [{"id": good, "y": []}, {"id": of_nobody, "y": []}]}
    refused(client.post(f"{model}/labels", json=body), 404, "prediction_not_found", "/examples/1/id")
    assert client.post(f"{model}/labels", json={"id": good, "y": []}).json()["updates"] == 1


def test_an_expired_prediction_is_refused(serve: Callable[..., Any]) -> None:
    with serve(prediction_ttl_seconds=0.001) as client:
        address = create(client, "m")
        id = keep(client, address)["id"]
        while client.post(f"{address}/labels", json={"id": id, "y": []}).status_code == 404:
            pass  # the clocks of the id and of the store may be a moment apart
        refused(client.post(f"{address}/labels", json={"id": id, "y": []}), 410, "prediction_expired", "/id")
        assert client.get(address).json()["updates"] == 0


def test_the_number_of_stored_predictions_is_limited(serve: Callable[..., Any]) -> None:
    with serve(max_stored_predictions=3) as client:
        address = create(client, "m")
        keep(client, address, {"examples": [X, X]})
        answer = client.post(f"{address}/predict?keep=true", json={"examples": [X, X]})
        refused(answer, 429, "predictions_full")
        assert int(answer.headers["retry-after"]) >= 1
        keep(client, address)


def test_stored_scores_count_for_the_limit_of_bytes(serve: Callable[..., Any]) -> None:
    with serve(max_stored_prediction_bytes=2_000) as client:
        few, many = create(client, "few"), create(client, "many", labels=[f"label {i}" for i in range(100)])
        keep(client, few, {"examples": [X] * 20})
        keep(client, many, {"examples": [X] * 2})  # 100 scores of 8 bytes each
        refused(client.post(f"{many}/predict?keep=true", json=X), 429, "predictions_full")


BAD = {
    "no id": ({"y": []}, ["/id"]),
    "id is a number": ({"id": 3, "y": []}, ["/id"]),
    "id is null": ({"id": None, "y": []}, ["/id"]),
    "no y": ({"id": "ID"}, ["/y"]),
    "a number as a label": ({"id": "ID", "y": ["p", 3]}, ["/y/1"]),
    "an x": ({"id": "ID", "x": [1], "y": []}, ["/x"]),
    "an unknown source": ({"id": "ID", "y": [], "source": "robot"}, ["/source"]),
    "a weight of zero": ({"id": "ID", "y": [], "weight": 0}, ["/weight"]),
    "a number as a ref": ({"id": "ID", "y": [], "ref": 7}, ["/ref"]),
    "a list": ([1], [""]),
    "an empty batch": ({"examples": []}, ["/examples"]),
    "a batch with one": ({"examples": [{"id": "ID", "y": []}, {"id": "ID2"}]}, ["/examples/1/y"]),
    "an id twice": ({"examples": [{"id": "ID", "y": []}, {"id": "ID", "y": []}]}, ["/examples/1/id"]),
}


@for_each(("body", "places"), BAD.values(), ids=BAD.keys())
def test_bad_labels_change_nothing(client: TestClient, model: str, body: Any, places: list[str]) -> None:
    before = client.get(model).json()["updates"]
    id = keep(client, model)["id"]
    text = json.dumps(body).replace('"ID"', json.dumps(id))
    refused(client.post(f"{model}/labels", content=text, headers=JSON), 422, "invalid_request", *places)
    assert client.get(model).json()["updates"] == before
    assert client.post(f"{model}/labels", json={"id": id, "y": []}).status_code == 200


def test_labels_outside_the_declared_set_are_refused(client: TestClient) -> None:
    address = create(client, "closed", labels=["p"])
    ids = [one["id"] for one in keep(client, address, {"examples": [X, X]})["predictions"]]
    body = {"examples": [{"id": ids[0], "y": ["p"]}, {"id": ids[1], "y": ["p", "z"]}]}
    refused(client.post(f"{address}/labels", json=body), 422, "invalid_request", "/examples/1/y/1")
    assert client.get(address).json()["updates"] == 0


# -- read your writes ---------------------------------------------------------------------------------


def test_a_response_is_at_least_as_new_as_requested(client: TestClient, model: str) -> None:
    position = client.post(f"{model}/update", json={**X, "y": ["p"]}).json()["position"]
    answer = client.post(f"{model}/predict?at_least={position}&keep=true", json=X).json()
    assert (answer["position"], answer["labels"]) == (position, ["p"])
    assert "id" in answer
    assert client.post(f"{model}/predict?at_least=0", json=X).json()["position"] == position


def test_the_wait_for_a_position_is_limited(serve: Callable[..., Any]) -> None:
    with serve(position_wait_seconds=0.05) as client:
        address = create(client, "m")
        answer = client.post(f"{address}/predict?at_least=999", json=X)
        refused(answer, 503, "not_ready")
        assert int(answer.headers["retry-after"]) >= 1


@for_each(
    ("query", "place"),
    [
        ("keep=yes", "keep"),
        ("keep=", "keep"),
        ("keep=records", "keep"),
        ("keep=True", "keep"),
        ("keep=1", "keep"),
        ("keep=true&keep=true", "keep"),
        ("at_least=", "at_least"),
        ("at_least=x", "at_least"),
        ("at_least=-1", "at_least"),
        ("at_least=1-", "at_least"),
        ("at_least=1.5", "at_least"),
        ("at_least=%D9%A1", "at_least"),
        ("at_least=" + "9" * 65, "at_least"),
        ("atleast=1", "atleast"),
        ("probabilities=true", "probabilities"),
        ("keep=true&n=1", "n"),
        ("%FF=1", None),
        ("keep=%FF", None),
        ("&".join(f"a{i}=1" for i in range(100)), None),
    ],
)
def test_a_wrong_parameter_is_refused(client: TestClient, model: str, query: str, place: str | None) -> None:
    answer = client.post(f"{model}/predict?{query}", json=X)
    problem = refused(answer, 422, "invalid_request", *([] if place is None else [place]))
    assert all(error.keys() == {"parameter", "detail"} for error in problem["errors"])
    assert client.get("/metrics").status_code == 200


def test_stored_features_that_cannot_be_learnt_are_refused_at_the_id(client: TestClient) -> None:
    """The features are not in the body that the error points into."""
    address = create(client, "full", limits={"features": {"most": 1, "policy": "reject"}})
    kept = [keep(client, address, {"x": {name: 1}})["id"] for name in ("a", "b")]
    truths = {"examples": [{"id": prediction, "y": ["p"]} for prediction in kept]}
    answer = client.post(f"{address}/labels", json=truths)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/examples/1/id"
    assert "/x/b" in error["detail"]
    assert client.get(address).json()["updates"] == 0
    client.post(f"{address}/labels", json=truths["examples"][0]).raise_for_status()
