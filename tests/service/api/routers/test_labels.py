"""Truth that comes later: predictions that are kept, labelled once, and forgotten in time."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.cases import for_each

from manylabel_service import ulid as prediction_ids
from manylabel_service.api import schemas
from manylabel_service.errors import ServiceError
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.idempotency_window import IdempotencyWindow

X = {"x": {"a": 1, "b": 0.5}}
JSON = {"Content-Type": "application/json"}


def keep(client: TestClient, address: str, body: Any = X) -> Any:
    answer = client.post(f"{address}/predict?keep=true", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_kept_prediction_is_learnt_as_it_was_predicted(
    client: TestClient, create: Callable[..., str], state_of: Callable[..., bytes]
) -> None:
    later, at_once = create(client, "later"), create(client, "at-once")
    for address in (later, at_once):
        client.post(f"{address}/update", json={"x": {"a": 1, "c": 2}, "y": ["q"]}).raise_for_status()
    kept = keep(client, later)
    schemas.PredictResponse.model_validate_json(json.dumps(kept), strict=True)
    plain = client.post(f"{later}/predict", json=X).json()
    assert {part: kept[part] for part in plain} == plain
    assert kept.keys() - plain.keys() == {"id", "expires"}
    assert prediction_ids.valid(kept["id"])
    assert client.get(later).json()["updates"] == 1, "nothing is learnt by keeping"

    answer = client.post(f"{later}/labels", json={"id": kept["id"], "y": ["p", "q"]})
    schemas.UpdateResponse.model_validate_json(answer.content, strict=True)
    assert answer.json()["updates"] == 2
    client.post(f"{at_once}/update", json={**X, "y": ["p", "q"]}).raise_for_status()
    probe = {"examples": [X, {"x": {"c": 1}}]}
    assert (
        client.post(f"{later}/predict", json=probe).json()["predictions"]
        == client.post(f"{at_once}/predict", json=probe).json()["predictions"]
    )


def test_when_it_expires_is_told(client: TestClient, model: str) -> None:
    expires = datetime.fromisoformat(keep(client, model)["expires"])
    assert abs(expires - datetime.now(UTC) - timedelta(days=1)) < timedelta(minutes=1)


def test_a_batch_is_kept_and_labelled_in_order(client: TestClient, model: str) -> None:
    xs = [{"x": {"a": i + 1}} for i in range(4)]
    kept = keep(client, model, {"examples": xs})
    schemas.PredictBatchResponse.model_validate_json(json.dumps(kept), strict=True)
    ids = [one["id"] for one in kept["predictions"]]
    assert len(set(ids)) == 4
    body = {"examples": [{"id": ids[2], "y": ["p"]}, {"id": ids[0], "y": {"q": False}}]}
    assert client.post(f"{model}/labels", json=body).json()["updates"] == 2
    rest = {"examples": [{"id": id, "y": []} for id in (ids[1], ids[3])]}
    assert client.post(f"{model}/labels", json=rest).json()["updates"] == 4


def test_a_prediction_is_labelled_once(
    client: TestClient, model: str, refused: Callable[..., Any], state_of: Callable[..., bytes]
) -> None:
    first, second = (one["id"] for one in keep(client, model, {"examples": [X, X]})["predictions"])
    client.post(f"{model}/labels", json={"id": first, "y": ["p"]}).raise_for_status()
    state = state_of(client, model)

    refused(client.post(f"{model}/labels", json={"id": first, "y": ["p"]}), 409, "prediction_labelled", "/id")
    both = {"examples": [{"id": second, "y": []}, {"id": first, "y": []}]}
    refused(client.post(f"{model}/labels", json=both), 409, "prediction_labelled", "/examples/1/id")
    assert state_of(client, model) == state
    assert client.post(f"{model}/labels", json={"id": second, "y": []}).status_code == 200


# -- what is measured is what was answered -----------------------------------------------------------


def cumulative(client: TestClient, address: str) -> dict[str, Any]:
    measures: dict[str, Any] = client.get(f"{address}/metrics").json()["cumulative"]
    return measures


def test_the_truth_of_one_id_comes_in_parts_and_counts_once(
    client: TestClient, model: str, refused: Callable[..., Any]
) -> None:
    counts = dict.fromkeys(("right", "wrong"), 0)

    def learn(y: list[str]) -> list[str]:
        answered: list[str] = client.post(f"{model}/predict-update", json={**X, "y": y}).json()["labels"]
        counts["right"] += len({*y} & {*answered})
        counts["wrong"] += len({*y} ^ {*answered})
        return answered

    while learn(["p", "q"]) != ["p", "q"]:
        pass
    kept = keep(client, model)
    assert kept["labels"] == ["p", "q"]
    while learn([]):
        pass
    before = client.get(model).json()
    updates, examples = before["updates"], before["metrics"]["cumulative"]["examples"]

    def tell(**y: bool) -> Any:
        return client.post(f"{model}/labels", json={"id": kept["id"], "y": y})

    assert tell(p=True).json()["updates"] == updates + 1
    refused(tell(p=True), 409, "prediction_labelled", "/id")
    assert "'p'" in tell(q=True, p=False).json()["detail"]
    whole = client.post(f"{model}/labels", json={"id": kept["id"], "y": ["p", "q"]})
    assert refused(whole, 409, "prediction_labelled", "/id")["detail"].endswith("send the others as an object")
    assert tell(q=False, r=True).json()["updates"] == updates + 2
    refused(tell(r=True), 409, "prediction_labelled", "/id")
    refused(tell(), 409, "prediction_labelled", "/id")  # it tells nothing, but may be a repetition
    assert client.get(model).json()["updates"] == updates + 2
    measured = client.get(f"{model}/metrics").json()
    right, wrong = counts["right"] + 1, counts["wrong"] + 2  # p was right, q was wrong, and r was missed
    for period in ("cumulative", "window"):
        assert measured[period]["examples"] == examples + 1
        assert measured[period]["micro_f1"] == pytest.approx(2 * right / (2 * right + wrong))


def test_of_many_at_once_one_gets_through(client: TestClient, model: str) -> None:
    body = {"id": keep(client, model)["id"], "y": ["p"]}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(f"{model}/labels", json=body), range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 15
    assert client.get(model).json()["updates"] == 1


def test_a_retry_with_its_key_is_answered_alike(client: TestClient, model: str, refused: Callable[..., Any]) -> None:
    body, key = {"id": keep(client, model)["id"], "y": ["p"]}, {"Idempotency-Key": "k"}
    first = client.post(f"{model}/labels", json=body, headers=key)
    again = client.post(f"{model}/labels", json=body, headers=key)
    assert (again.content, again.headers["idempotent-replayed"]) == (first.content, "true")
    other = {"id": keep(client, model)["id"], "y": ["p"]}
    refused(client.post(f"{model}/labels", json=other, headers=key), 422, "idempotency_key_reused")
    as_update = client.post(f"{model}/update", json={**X, "y": []}, headers=key)
    refused(as_update, 422, "idempotency_key_reused")
    assert client.get(model).json()["updates"] == 1


def test_a_retry_whose_key_is_forgotten_meanwhile_learns_nothing(
    client: TestClient, model: str, refused: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
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


def test_an_unknown_prediction_is_told(client: TestClient, model: str, refused: Callable[..., Any]) -> None:
    of_nobody = prediction_ids.make(int(datetime.now(UTC).timestamp() * 1000), bytes(10))
    for id in (of_nobody, "", "nonsense", of_nobody.lower(), of_nobody + "0", "é" * 26):
        refused(client.post(f"{model}/labels", json={"id": id, "y": []}), 404, "prediction_not_found", "/id")
    good = keep(client, model)["id"]
    body = {"examples": [{"id": good, "y": []}, {"id": of_nobody, "y": []}]}
    refused(client.post(f"{model}/labels", json=body), 404, "prediction_not_found", "/examples/1/id")
    assert client.post(f"{model}/labels", json={"id": good, "y": []}).json()["updates"] == 1


def test_an_expired_prediction_is_told(
    serve: Callable[..., Any], create: Callable[..., str], refused: Callable[..., Any]
) -> None:
    with serve(prediction_ttl_seconds=0.001) as client:
        address = create(client, "m")
        id = keep(client, address)["id"]
        while client.post(f"{address}/labels", json={"id": id, "y": []}).status_code == 404:
            pass  # the clocks of the id and of the store may be a moment apart
        refused(client.post(f"{address}/labels", json={"id": id, "y": []}), 410, "prediction_expired", "/id")
        assert client.get(address).json()["updates"] == 0


def test_no_more_are_kept_than_may_be(
    serve: Callable[..., Any], create: Callable[..., str], refused: Callable[..., Any]
) -> None:
    with serve(max_stored_predictions=3) as client:
        address = create(client, "m")
        keep(client, address, {"examples": [X, X]})
        answer = client.post(f"{address}/predict?keep=true", json={"examples": [X, X]})
        refused(answer, 429, "predictions_full")
        assert int(answer.headers["retry-after"]) >= 1
        keep(client, address)


def test_the_scores_kept_count_in_the_bytes(
    serve: Callable[..., Any], create: Callable[..., str], refused: Callable[..., Any]
) -> None:
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
    "y is a string": ({"id": "ID", "y": "p"}, ["/y"]),
    "a number as a label": ({"id": "ID", "y": ["p", 3]}, ["/y/1"]),
    "a label twice": ({"id": "ID", "y": ["p", "p"]}, ["/y/1"]),
    "a long label": ({"id": "ID", "y": {"é" * 129: True}}, ["/y/" + "é" * 129]),
    "an x": ({"id": "ID", "x": [1], "y": []}, ["/x"]),
    "a list": ([1], [""]),
    "an empty batch": ({"examples": []}, ["/examples"]),
    "a batch with one": ({"examples": [{"id": "ID", "y": []}, {"id": "ID2"}]}, ["/examples/1/y"]),
    "an id twice": ({"examples": [{"id": "ID", "y": []}, {"id": "ID", "y": []}]}, ["/examples/1/id"]),
}


@pytest.mark.parametrize(("body", "places"), BAD.values(), ids=BAD.keys())
def test_bad_input_changes_nothing(
    client: TestClient, model: str, body: Any, places: list[str], refused: Callable[..., Any]
) -> None:
    id = keep(client, model)["id"]
    text = json.dumps(body).replace('"ID"', json.dumps(id))
    refused(client.post(f"{model}/labels", content=text, headers=JSON), 422, "invalid_request", *places)
    assert client.get(model).json()["updates"] == 0
    assert client.post(f"{model}/labels", json={"id": id, "y": []}).status_code == 200


def test_labels_that_a_model_has_not_are_named(
    client: TestClient, create: Callable[..., str], refused: Callable[..., Any]
) -> None:
    address = create(client, "closed", labels=["p"])
    ids = [one["id"] for one in keep(client, address, {"examples": [X, X]})["predictions"]]
    body = {"examples": [{"id": ids[0], "y": ["p"]}, {"id": ids[1], "y": ["p", "z"]}]}
    refused(client.post(f"{address}/labels", json=body), 422, "invalid_request", "/examples/1/y/1")
    assert client.get(address).json()["updates"] == 0


# -- read your writes ---------------------------------------------------------------------------------


def test_an_answer_is_at_least_as_new_as_asked(client: TestClient, model: str) -> None:
    position = client.post(f"{model}/update", json={**X, "y": ["p"]}).json()["position"]
    answer = client.post(f"{model}/predict?at_least={position}&keep=true", json=X).json()
    assert (answer["position"], answer["labels"]) == (position, ["p"])
    assert "id" in answer
    assert client.post(f"{model}/predict?at_least=0", json=X).json()["position"] == position


def test_a_position_that_never_comes_is_not_waited_for_long(
    serve: Callable[..., Any], create: Callable[..., str], refused: Callable[..., Any]
) -> None:
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
        ("keep=true&n=1", "n"),
        ("%FF=1", None),
        ("keep=%FF", None),
        ("&".join(f"a{i}=1" for i in range(100)), None),
    ],
)
def test_a_wrong_parameter_is_refused(
    client: TestClient, model: str, refused: Callable[..., Any], query: str, place: str | None
) -> None:
    answer = client.post(f"{model}/predict?{query}", json=X)
    problem = refused(answer, 422, "invalid_request", *([] if place is None else [place]))
    assert all(error.keys() == {"parameter", "detail"} for error in problem["errors"])
    assert client.get("/metrics").status_code == 200


def test_features_that_cannot_be_learnt_are_told_at_the_id(client: TestClient, create: Callable[..., str]) -> None:
    """They are not in the body, and an error points into it."""
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
