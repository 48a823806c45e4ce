"""A promise of parity over HTTP: predictions that ask the teacher, its labels, and the account."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, pointer
from tests.service.api.routers.test_promise import items
from tests.support.cases import for_each

PARITY = {"parity": 0.8, "of": "machine", "agreement": "exact", "audit_rate": 0.2}
SOURCES = {"machine": 1, "rule": 0}


@pytest.fixture
def model(client: TestClient, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())[:60].strip("-")
    return create(client, name, promise=PARITY, sources=SOURCES)


def predicted(client: TestClient, address: str, x: Any) -> dict[str, Any]:
    answer: dict[str, Any] = ok(client.post(f"{address}/predict?keep=true", json={"x": x}))
    return answer


def tell(client: TestClient, address: str, id: str, y: Any, source: str = "machine", **headers: str) -> Any:
    return client.post(f"{address}/labels", json={"id": id, "y": y, "source": source}, headers=headers)


def loop(client: TestClient, address: str, n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Run the closed loop; return the predictions that were answered without the teacher."""
    alone = []
    for item in items(n, seed):
        one = predicted(client, address, item["x"])
        if one["ask"]:
            ok(tell(client, address, one["id"], item["y"]))
        else:
            alone.append(one)
    return alone


def account_of(client: TestClient, address: str) -> Any:
    return ok(client.get(f"{address}/metrics"))["promise"]["parity"]


def test_a_model_asks_the_teacher_until_it_is_sure(client: TestClient, model: str) -> None:
    assert ok(client.get(model))["promise"] == {**PARITY, "settled": None}
    alone = loop(client, model, 260)
    assert len(alone) > 40
    assert {one["why"] for one in alone} == {"sure"}
    account = account_of(client, model)
    assert {field: account[field] for field in PARITY} == PARITY
    assert account["state"] == "open"
    assert account["audit_rate_now"] < 1
    assert account["estimated_wrong"] <= account["allowed"]
    assert account["audits"] > 10
    assert 260 - 100 < account["answered"] + account["asked"] <= 260  # the last are not logged yet
    entries = [json.loads(line) for line in client.get(f"{model}/log").content.splitlines()]
    logged = [entry for entry in entries if entry["kind"] == "served"]
    assert sum(entry["answered"] for entry in logged) == account["answered"]
    assert sum(len(entry["audits"]) for entry in logged) == account["audits"]


def test_a_prediction_that_is_not_stored_does_not_say_whether_to_ask(client: TestClient, model: str) -> None:
    one = ok(client.post(f"{model}/predict", json={"x": {"xp": 1}}))
    assert not {"ask", "why"} & one.keys()
    batch = ok(client.post(f"{model}/predict?keep=true", json={"examples": [{"x": {"xp": 1}}] * 2}))["predictions"]
    assert [(each["ask"], each["why"]) for each in batch] == [(True, "unsure")] * 2


def test_labels_of_the_teacher_for_an_answered_prediction_are_refused(client: TestClient, model: str) -> None:
    one = loop(client, model, 260)[-1]
    before, updates = account_of(client, model), ok(client.get(model))["updates"]
    answer = tell(client, model, one["id"], one["labels"])
    assert (answer.status_code, answer.json()["code"]) == (409, "prediction_not_deferred")
    batch = [{"id": one["id"], "y": one["labels"], "source": "machine"}]
    answer = client.post(f"{model}/labels", json={"examples": batch})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (409, "/examples/0/id")
    assert (account_of(client, model), ok(client.get(model))["updates"]) == (before, updates)
    ok(tell(client, model, one["id"], one["labels"], "human"))  # people may correct it
    after = account_of(client, model)
    # The answer may be one of the random share that people are to check.
    drawn = {name: after["people"][name] for name in ("checked", "right_share", "right_low", "right_high")}
    assert after["people"] == {**before["people"], "model_right": 1, **drawn}
    assert drawn["right_share"] == (1.0 if drawn["checked"] else None)
    assert {**after, "people": None} == {**before, "people": None}


def test_a_correction_of_labels_of_the_teacher_shows_that_it_was_wrong(client: TestClient, model: str) -> None:
    one = predicted(client, model, {"xp": 1})
    position = ok(tell(client, model, one["id"], ["p"]))["position"]
    ok(client.post(f"{model}/update", json={"x": {"xp": 1}, "y": ["q"]}))
    ok(client.post(f"{model}/correct", json={"position": position, "y": {"q": True}}))
    assert account_of(client, model)["people"] == {
        "model_right": 0,
        "model_wrong": 0,
        "teacher_right": 0,
        "teacher_wrong": 1,
        "checked": 0,
        "right_share": None,
        "right_low": 0.0,
        "right_high": 1.0,
    }


def test_a_random_share_of_the_answers_is_to_be_checked_by_people(client: TestClient, model: str) -> None:
    loop(client, model, 260)
    examples = [{"x": item["x"]} for item in items(400, 1)]
    batch = ok(client.post(f"{model}/predict?keep=true", json={"examples": examples}))["predictions"]
    alone = [one for one in batch if not one["ask"]]
    drawn = [one for one in batch if one.get("check")]
    assert all(one in alone for one in drawn)
    assert 0 < len(drawn) < len(alone) / 4
    before = account_of(client, model)["people"]["checked"]
    for one in drawn[:3]:
        ok(tell(client, model, one["id"], one["labels"], "human"))
    assert account_of(client, model)["people"]["checked"] == before + len(drawn[:3])


def test_with_keep_asked_only_predictions_that_someone_labels_are_stored(client: TestClient, model: str) -> None:
    loop(client, model, 260)
    before = account_of(client, model)
    kept = ok(client.get(f"{model}/predictions?order=uncertainty"))["candidates"]
    examples = [{"x": item["x"]} for item in items(200, 1)]
    predictions = ok(client.post(f"{model}/predict?keep=asked", json={"examples": examples}))["predictions"]
    stored = [one for one in predictions if "id" in one]
    assert stored == [one for one in predictions if one["ask"] or one.get("check")]
    assert len(stored) < 150
    assert {one["why"] for one in predictions} >= {"sure", "audit"}
    assert ok(client.get(f"{model}/predictions?order=uncertainty"))["candidates"] == kept + len(stored)
    after = account_of(client, model)
    served = after["answered"] + after["asked"] - before["answered"] - before["asked"]
    assert 200 <= served < 300  # includes earlier predictions that were not logged yet
    assert after["audits_waiting"] == sum(one["why"] == "audit" for one in predictions)
    for one in stored:
        ok(tell(client, model, one["id"], one["labels"], "machine" if one["ask"] else "human"))
    assert account_of(client, model)["audits_waiting"] == 0


def test_without_a_promise_of_parity_all_predictions_are_stored_with_keep_asked(client: TestClient) -> None:
    address = create(client, "keep-asked-without-promise")
    one = ok(client.post(f"{address}/predict?keep=asked", json={"x": {"xp": 1}}))
    assert "ask" not in one
    ok(tell(client, address, one["id"], ["p"], "human"))


def test_partial_labels_of_the_teacher_are_refused(client: TestClient, model: str) -> None:
    one = predicted(client, model, {"xp": 1})
    answer = tell(client, model, one["id"], {"p": True})
    assert (answer.status_code, pointer(answer)) == (422, "/y")
    ok(tell(client, model, one["id"], ["p"]))


def test_a_repeated_request_counts_once(client: TestClient, model: str) -> None:
    loop(client, model, 100)
    one = predicted(client, model, {"xp": 1, "xq": 0, "xr": 0})
    key = {"Idempotency-Key": "once"}
    first = tell(client, model, one["id"], ["p"], **key) if one["ask"] else None
    before = account_of(client, model)
    if first is not None:
        again = tell(client, model, one["id"], ["p"], **key)
        assert (again.json(), again.headers["Idempotent-Replayed"]) == (first.json(), "true")
        assert tell(client, model, one["id"], ["p"]).status_code == 409
    assert account_of(client, model) == before


@for_each(
    ("body", "place"),
    [
        ({"parity": 1.0}, "/parity"),
        ({"parity": 0.9, "of": "robot"}, "/of"),
        ({"parity": 0.9, "of": "rule"}, "/of"),
        ({"parity": 0.9, "agreement": "jaccard"}, "/agreement"),
        ({"parity": 0.9, "audit_rate": 0.0}, "/audit_rate"),
        ({"parity": 0.9, "settled": 0.9}, "/settled"),
        ({"precision": 0.9, "agreement": "f1"}, "/agreement"),
        ({"precision": None}, "/precision"),
    ],
)
def test_a_bad_promise_is_refused_at_its_place(client: TestClient, model: str, body: Any, place: str) -> None:
    answer = client.put(f"{model}/promise", json=body)
    assert (answer.status_code, pointer(answer)) == (422, place)
    whole = {"name": "refused", "algorithm": "falt", "promise": body, "sources": SOURCES}
    answer = client.post("/v1/models", json=whole)
    assert (answer.status_code, pointer(answer)) == (422, f"/promise{place}")


def test_a_model_that_does_not_learn_from_the_teacher_cannot_promise_parity(client: TestClient) -> None:
    answer = client.post("/v1/models", json={"name": "deaf", "algorithm": "falt", "promise": PARITY})
    assert (answer.status_code, pointer(answer)) == (422, "/promise/of")


def test_both_promises(client: TestClient, model: str) -> None:
    both = {"precision": 0.9, "settled": 0.8, "missed": 0.05, **PARITY}
    ok(client.put(f"{model}/promise", json=both))
    assert ok(client.get(model))["promise"] == both
    one = predicted(client, model, {"xp": 1})
    assert one.keys() >= {"auto", "review", "ask", "why"}
    accounts = ok(client.get(f"{model}/metrics"))["promise"]
    assert accounts["precision"] == 0.9
    assert accounts["parity"]["parity"] == 0.8
    client.put(f"{model}/promise", content="null", headers={"Content-Type": "application/json"}).raise_for_status()
    assert "ask" not in predicted(client, model, {"xp": 1})
