"""All models of a prefix: deleted or exported by one call."""

import io
import tarfile
from typing import Any

from starlette.testclient import TestClient
from tests.service.api.answers import create, refused
from tests.support.cases import for_each


def names(client: TestClient) -> list[str]:
    return [model["name"] for model in client.get("/v1/models").json()["models"]]


def filled(client: TestClient, *wanted: str) -> None:
    for number, name in enumerate(wanted):
        address = create(client, name)
        for _ in range(number):
            client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["p", name]}).raise_for_status()


def exported(client: TestClient, prefix: str) -> dict[str, bytes]:
    answer = client.get("/v1/export", params={"prefix": prefix})
    assert answer.status_code == 200, answer.text
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]


def test_the_models_of_a_prefix_are_deleted(client: TestClient) -> None:
    filled(client, "c17-b", "c17-a", "c17", "c1", "c170", "c18-a")
    before = set(names(client))
    answer = client.delete("/v1/models", params={"prefix": "c17-"})
    assert (answer.status_code, answer.json()) == (200, {"deleted": ["c17-a", "c17-b"]})
    assert set(names(client)) == before - {"c17-a", "c17-b"}
    assert client.delete("/v1/models", params={"prefix": "c17-"}).json() == {"deleted": []}
    filled(client, "c17-a")
    assert client.get("/v1/models/c17-a").json()["updates"] == 0, "another model"
    assert client.delete("/v1/models", params={"prefix": "c1"}).json()["deleted"] == [
        "c1",
        "c17",
        "c17-a",
        "c170",
        "c18-a",
    ]


def test_followers_with_other_names_are_deleted_on_request_only(client: TestClient) -> None:
    filled(client, "led-1", "led-2")
    for follower, leader in (("led-0", "led-1"), ("elsewhere", "led-2")):
        follow = {"name": follower, "algorithm": "salt", "follow": {"model": leader, "from": "start"}}
        client.post("/v1/models", json=follow).raise_for_status()
    problem = refused(client.delete("/v1/models", params={"prefix": "led-"}), 409, "model_has_followers")
    assert "'elsewhere'" in problem["detail"]
    assert {"led-0", "led-1", "led-2", "elsewhere"} <= set(names(client)), "nothing is deleted"
    deleted = client.delete("/v1/models", params={"prefix": "led-", "followers": "delete"}).json()["deleted"]
    assert sorted(deleted) == ["elsewhere", "led-0", "led-1", "led-2"]
    assert not {"led-0", "led-1", "led-2", "elsewhere"} & set(names(client))


def test_the_models_of_a_prefix_are_exported_exactly(client: TestClient) -> None:
    filled(client, "x7-a", "x7-b", "x7-c", "x8")
    found = exported(client, "x7-")
    assert sorted(found) == [f"x7-{letter}.safetensors" for letter in "abc"]
    body = {"x": {"a": 1}}
    for name in ("x7-a", "x7-b", "x7-c"):
        before = client.get(f"/v1/models/{name}").json()
        predicted = client.post(f"/v1/models/{name}/predict", json=body).json()
        client.delete(f"/v1/models/{name}").raise_for_status()
        octets = {"Content-Type": "application/octet-stream"}
        restored = client.put(f"/v1/models/{name}", content=found[f"{name}.safetensors"], headers=octets)
        assert restored.status_code == 201, restored.text
        assert restored.json()["updates"] == before["updates"]
        assert client.post(f"/v1/models/{name}/predict", json=body).json()["scores"] == predicted["scores"]
    assert exported(client, "nothing-") == {}


@for_each("query", [{}, {"prefix": ""}, {"prefix": "*"}, {"prefix": "A"}, {"prefix": "a" * 64}, {"prefix": "-a"}])
def test_a_wrong_prefix_is_refused(client: TestClient, query: dict[str, Any]) -> None:
    before = names(client)
    refused(client.delete("/v1/models", params=query), 422, "invalid_request", "prefix")
    refused(client.get("/v1/export", params=query), 422, "invalid_request", "prefix")
    assert names(client) == before
