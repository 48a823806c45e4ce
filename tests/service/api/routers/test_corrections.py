"""POST /v1/models/{name}/correct, and what readers of the history see of it."""

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, refused, state_of
from tests.service.api.routers.test_forgetting import forgotten
from tests.service.api.routers.test_history import log
from tests.support.cases import for_each

Y = ["a", "b"]


@pytest.fixture
def positions(client: TestClient, model: str) -> list[str]:
    """The positions of three entries, of which the second has two examples."""
    ok(client.post(f"{model}/update", json={"x": {"f": 1}, "y": Y, "ref": "first"}))
    two = [{"x": {"g": 1}, "y": ["a"], "ref": "second"}, {"x": {"h": 1}, "y": ["b"]}]
    ok(client.post(f"{model}/update", json={"examples": two}))
    ok(client.post(f"{model}/update", json={"x": {"f": 2}, "y": {"b": True}}))
    return [line["position"] for line in log(client, model)]


def corrected(client: TestClient, model: str, position: str, y: Any, **more: Any) -> Any:
    return ok(client.post(f"{model}/correct", json={"position": position, "y": y, **more}))


def test_a_correction_is_learnt_and_logged(client: TestClient, model: str, positions: list[str]) -> None:
    before = ok(client.get(f"{model}/metrics"))
    answer = corrected(client, model, positions[0], {"b": False})
    assert answer["updates"] == 5
    line = log(client, model)[-1]
    assert (line["position"], line["kind"]) == (answer["position"], "correction")
    assert line["corrects"] == {"position": positions[0], "index": 0, "labels": ["b"]}
    assert line["examples"] == [{"x": {"f": 1.0}, "y": ["a"], "ref": "first"}]
    after = ok(client.get(f"{model}/metrics"))
    assert (after["corrections"], after["cumulative"]) == (1, before["cumulative"])
    assert "corrections" not in before
    assert ok(client.post(f"{model}/verify"))["equal"]


def test_labels_that_agree_are_confirmed(client: TestClient, model: str, positions: list[str]) -> None:
    answer = corrected(client, model, positions[0], {"b": True})
    assert answer["updates"] == 4
    line = log(client, model)[-1]
    assert (line["corrects"]["labels"], line["examples"]) == (["b"], [])
    assert "corrections" not in ok(client.get(f"{model}/metrics"))


def test_a_second_correction_starts_from_the_first(client: TestClient, model: str, positions: list[str]) -> None:
    corrected(client, model, positions[0], {"b": False})
    assert corrected(client, model, positions[0], {"b": False})["updates"] == 5  # now it is confirmed
    corrected(client, model, positions[0], {"a": False})
    assert log(client, model)[-1]["examples"][0]["y"] == []
    corrected(client, model, positions[0], ["b"])
    line = log(client, model)[-1]
    assert (line["examples"][0]["y"], line["corrects"]["labels"]) == (["b"], None)
    assert ok(client.get(f"{model}/metrics"))["corrections"] == 3


def test_an_entry_with_several_examples_needs_an_index(client: TestClient, model: str, positions: list[str]) -> None:
    body = {"position": positions[1], "y": {"b": True}}
    refused(client.post(f"{model}/correct", json=body), 422, "invalid_request", "/index")
    corrected(client, model, positions[1], {"b": True}, index=0)
    assert log(client, model)[-1]["examples"][0] == {"x": {"g": 1.0}, "y": ["a", "b"], "ref": "second"}


def test_partial_labels_stay_partial(client: TestClient, model: str, positions: list[str]) -> None:
    corrected(client, model, positions[2], {"a": True})
    assert log(client, model)[-1]["examples"][0]["y"] == {"b": True, "a": True}
    corrected(client, model, positions[2], ["a"])
    assert log(client, model)[-1]["examples"][0]["y"] == ["a"]


@for_each(
    "body, status, code, path",
    [
        ({"position": "999999", "y": {"a": True}}, 404, "position_not_found", None),
        ({"position": "soon", "y": {"a": True}}, 422, "invalid_request", "/position"),
        ({"position": 1, "y": {"a": True}}, 422, "invalid_request", "/position"),
        ({"position": "1", "index": 1, "y": {"a": True}}, 404, "example_not_found", None),
        ({"position": "1", "index": -1, "y": {"a": True}}, 422, "invalid_request", "/index"),
        ({"position": "1", "y": {"unknown": True}}, 404, "label_not_found", None),
        ({"position": "1", "y": ["unknown"]}, 404, "label_not_found", None),
        ({"position": "1", "y": {}}, 422, "invalid_request", "/y"),
        ({"position": "1"}, 422, "invalid_request", "/y"),
        ({"position": "1", "y": {"a": 1}}, 422, "invalid_request", "/y/a"),
        ({"position": "1", "y": ["a", "a"]}, 422, "invalid_request", "/y/1"),
        ({"position": "1", "y": ["a"], "x": {}}, 422, "invalid_request", "/x"),
    ],
)
def test_a_bad_request_is_refused(
    client: TestClient, model: str, positions: list[str], body: Any, status: int, code: str, path: str | None
) -> None:
    state = state_of(client, model)
    assert positions[0] == "1"
    answer = client.post(f"{model}/correct", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    if path is not None:
        refused(answer, status, code, path)
    assert state_of(client, model) == state


def test_entries_without_examples_cannot_be_corrected(client: TestClient, model: str, positions: list[str]) -> None:
    ok(client.post(f"{model}/labels/rename", json={"label": "b", "to": "c"}))
    renamed = log(client, model)[-1]["position"]
    correction = corrected(client, model, positions[0], {"b": False})["position"]  # the old name
    for position in (renamed, correction):
        body = {"position": position, "y": {"a": False}}
        refused(client.post(f"{model}/correct", json=body), 404, "example_not_found")
    assert log(client, model)[-1]["examples"][0]["y"] == ["a"]


def test_an_example_whose_labels_are_not_learnt_cannot_be_corrected(client: TestClient) -> None:
    model = create(client, "rules", sources={"machine": 0.5, "rule": 0.0})
    for source in ("machine", "rule"):
        ok(client.post(f"{model}/update", json={"x": {"f": 1}, "y": ["a"], "source": source}))
    machine, rule = (line["position"] for line in log(client, model))
    body = {"position": rule, "y": ["a"]}
    refused(client.post(f"{model}/correct", json=body), 404, "example_not_found")
    assert corrected(client, model, machine, [])["updates"] == 2
    client.delete(model)


def test_a_key_is_applied_once(client: TestClient, model: str, positions: list[str]) -> None:
    body, headers = {"position": positions[0], "y": {"b": False}}, {"Idempotency-Key": "k"}
    first = client.post(f"{model}/correct", json=body, headers=headers)
    again = client.post(f"{model}/correct", json=body, headers=headers)
    assert ok(first) == ok(again)
    assert [each.headers.get("idempotent-replayed") for each in (first, again)] == [None, "true"]
    other = client.post(f"{model}/correct", json={**body, "y": {"b": True}}, headers=headers)
    refused(other, 422, "idempotency_key_reused")
    assert ok(client.get(model))["updates"] == 5


def test_the_first_response_to_a_confirmation_is_no_repetition(
    client: TestClient, model: str, positions: list[str]
) -> None:
    body, headers = {"position": positions[0], "y": ["a", "b"]}, {"Idempotency-Key": "k"}
    sent = [client.post(f"{model}/correct", json=body, headers=headers) for _ in range(2)]
    assert ok(sent[0])["updates"] == ok(sent[1])["updates"] == 4
    assert [each.headers.get("idempotent-replayed") for each in sent] == [None, "true"]


def test_a_follower_learns_corrections_and_refuses_its_own(
    client: TestClient, model: str, positions: list[str]
) -> None:
    name = model.rpartition("/")[2]
    early = create(client, "early", follow={"model": name, "from": "start"})
    at = {"at_least": corrected(client, model, positions[0], {"b": False})["position"]}
    late = create(client, "late", follow={"model": name, "from": "start"})
    refused(client.post(f"{late}/correct", json={"position": "1", "y": ["a"]}), 409, "model_follows")
    features = {"x": {"f": 1, "g": 1}}
    scores = [ok(client.post(f"{each}/predict", json=features, params=at))["scores"] for each in (early, late)]
    assert scores[0] == scores[1]
    assert ok(client.get(early))["updates"] == ok(client.get(late))["updates"] == 5
    for follower in (early, late):
        client.delete(follower)


def test_a_forgotten_example_takes_its_correction_with_it(client: TestClient, model: str, positions: list[str]) -> None:
    corrected(client, model, positions[0], {"b": False})
    corrected(client, model, positions[1], {"b": True}, index=0)
    corrected(client, model, positions[1], {"b": False}, index=1)
    corrected(client, model, positions[0], {"a": True})
    assert forgotten(client, model, refs=["second"])["examples"] == 2  # the example, and its correction
    lines = log(client, model)
    assert [len(line["examples"]) for line in lines] == [1, 1, 1, 1, 0, 1, 0]
    assert lines[5]["corrects"] == {"position": positions[1], "index": 0, "labels": ["b"]}
    assert forgotten(client, model, positions=[positions[0]])["examples"] == 2
    lines = log(client, model)
    assert [len(line["examples"]) for line in lines] == [0, 1, 1, 0, 0, 1, 0]
    assert lines[6]["kind"] == "update"
    assert ok(client.get(model))["updates"] == 3
    assert ok(client.get(f"{model}/metrics"))["corrections"] == 1
    assert ok(client.post(f"{model}/verify"))["equal"]
    corrected(client, model, positions[1], {"b": False})
    assert ok(client.get(model))["updates"] == 3  # the corrected label is confirmed
