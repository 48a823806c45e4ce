"""Followers over HTTP: create, read, promote, and delete with the leader."""

import pytest
from tests.service.access.keyed import Keyed
from tests.service.api.answers import refused


def create(client, name, **fields):
    return client.post("/v1/models", json={"name": name, "algorithm": "salt", **fields})


@pytest.fixture
def leader(client, model):
    for n in range(5):
        assert client.post(f"{model}/update", json={"x": {"a": n, "b": 1}, "y": [f"l{n % 2}"]}).status_code == 200
    yield model
    client.delete(model, params={"followers": "delete"})


def test_a_follower_is_created_shown_and_deleted_with_its_leader(client, leader):
    answer = create(client, "f", follow={"model": "test", "from": "start"})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == "/v1/models/f"
    status = client.get("/v1/models/f").json()
    assert (status["algorithm"], status["updates"]) == ("salt", 5)
    assert status["follow"] == {"model": "test", "begin": "0", "until": None}
    assert "follow" not in client.get(leader).json()
    assert client.post("/v1/models/f/predict", json={"x": {"a": 1}}).status_code == 200
    for path in ("metrics", "metrics/history", "labels", "snapshots"):
        assert client.get(f"/v1/models/f/{path}").status_code == 200
    assert client.post("/v1/models/f/snapshots", json={}).status_code in (200, 201)
    at = client.post(f"{leader}/update", json={"x": {"a": 1}, "y": []}).json()["position"]
    answer = client.post("/v1/models/f/predict", params={"at_least": at}, json={"x": {"a": 1}})
    assert answer.json()["position"] == at
    refused(client.delete(leader), 409, "model_has_followers")
    refused(client.delete(leader, params={"followers": "keep"}), 422, "invalid_request", "followers")
    assert client.delete(leader, params={"followers": "delete"}).status_code == 204
    for path in (leader, "/v1/models/f"):
        refused(client.get(path), 404, "model_not_found")


def test_a_follower_refuses_changes(client, leader):
    assert create(client, "f", follow={"model": "test", "from": "now"}).status_code == 201
    example = {"x": {"a": 1}, "y": ["l1"]}
    for path, document in (
        ("update", example),
        ("predict-update", example),
        ("rollback", {"position": "0"}),
        ("labels/rename", {"label": "l1", "to": "l9"}),
        ("labels", {"id": "01J9ZZZZZZZZZZZZZZZZZZZZZZ", "y": ["l1"]}),
        ("predict?keep=true", {"x": {"a": 1}}),
    ):
        refused(client.post(f"/v1/models/f/{path}", json=document), 409, "model_follows")
    lines = client.post(
        "/v1/models/f/stream", content=b'{"x": {"a": 1}}\n', headers={"content-type": "application/x-ndjson"}
    )
    refused(lines, 409, "model_follows")
    refused(client.get("/v1/models/f/log"), 409, "model_follows")


def test_a_bad_follower_is_refused(client, leader):
    start = {"model": "test", "from": "start"}
    assert create(client, "f", follow=start).status_code == 201
    refused(create(client, "f", follow=start), 409, "model_exists")
    refused(create(client, "g", follow={**start, "model": "nobody"}), 404, "model_not_found")
    refused(create(client, "g", follow={**start, "model": "f"}), 422, "invalid_request", "/follow/model")
    refused(create(client, "test", follow=start), 422, "invalid_request", "/follow/model")
    refused(create(client, "g", follow={"model": "test"}), 422, "invalid_request", "/follow/from")
    refused(create(client, "g", follow={**start, "from": "then"}), 422, "invalid_request", "/follow/from")
    refused(create(client, "g", follow={**start, "until": "soon"}), 422, "invalid_request", "/follow/until")
    refused(create(client, "g", follow={**start, "until": "999999"}), 404, "position_not_found")
    before = {"model": "test", "from": "now", "until": "1"}
    refused(create(client, "g", follow=before), 422, "invalid_request", "/follow/until")
    refused(create(client, "g", follow=start, labels=["l1"]), 422, "invalid_request", "/labels")
    refused(create(client, "g", follow=start, text={"chars": 5}), 422, "invalid_request", "/text")
    refused(create(client, "g", follow=start, parents={"a": "b"}), 422, "invalid_request", "/parents")
    assert sorted(each["name"] for each in client.get("/v1/models").json()["models"]) == ["f", "test"]
    for name, listed in (("test", ["f", "test"]), ("f", ["f"]), ("nobody", [])):
        found = client.get("/v1/models", params={"leader": name}).json()["models"]
        assert [each["name"] for each in found] == listed
    assert create(client, "g", follow={**start, "until": "2"}).status_code == 201
    assert client.get("/v1/models/g").json()["updates"] == 2


def test_a_follower_is_promoted(client, leader):
    assert create(client, "f", follow={"model": "test", "from": "start"}).status_code == 201
    before = client.get(leader).json()
    key = {"Idempotency-Key": "promote-1"}
    answer = client.post("/v1/models/f/promote", headers=key)
    assert answer.status_code == 200, answer.text
    expected = {"model": "test", "follower": "f", "algorithm": "salt", "updates": 5, "since": "0"}
    assert answer.json() == {**expected, "position": before["position"]}
    again = client.post("/v1/models/f/promote", headers=key)
    assert (again.json(), again.headers["idempotent-replayed"]) == (answer.json(), "true")
    now, other = client.get(leader).json(), client.get("/v1/models/f").json()
    assert (now["algorithm"], now["position"], "follow" in now) == ("salt", before["position"], False)
    assert (other["algorithm"], other["follow"]["model"]) == ("falt", "test")
    assert client.post(f"{leader}/update", json={"x": {"a": 1}, "y": ["l1"]}).json()["updates"] == 6
    assert client.post("/v1/models/f/promote").json()["algorithm"] == "falt"
    assert client.get(leader).json()["updates"] == 6


def test_a_bad_promotion_is_refused(client, leader):
    refused(client.post(f"{leader}/promote"), 409, "model_is_online")
    assert create(client, "f", follow={"model": "test", "from": "start", "until": "2"}).status_code == 201
    refused(client.post("/v1/models/f/promote"), 409, "not_promotable")
    refused(client.post("/v1/models/f/promote", json={"version": 1}), 422, "invalid_request", "/version")
    refused(client.post("/v1/models/nobody/promote"), 404, "model_not_found")


def test_a_key_that_may_not_see_the_leader_does_not_get_its_name(serve):
    with serve() as client:
        keyed = Keyed(client)
        for name, follow in (("secret", None), ("open", {"model": "secret", "from": "start"})):
            wanted = {"name": name, "algorithm": "falt", **({} if follow is None else {"follow": follow})}
            assert keyed.call("post", "/v1/models", json=wanted).status_code == 201
        some = keyed.make(models=["open"])["key"]
        assert keyed.call("get", "/v1/models/open").json()["follow"]["model"] == "secret"
        answers = [
            keyed.call("get", "/v1/models/open", some),
            keyed.call("get", "/v1/models", some),
            keyed.call("post", "/v1/models/open/update", some, json={"x": {"a": 1}, "y": ["b"]}),
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 409]
        assert not [answer.text for answer in answers if "secret" in answer.text]
        assert answers[0].json()["follow"] == {"model": None, "begin": "0", "until": None}
        for leader in ("secret", "unknown"):
            listed = keyed.call("get", "/v1/models", some, params={"leader": leader})
            assert listed.json() == {"models": []}
