"""Sources of labels over HTTP: what is learnt of machines and rules, what is measured, and what is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import pointer

from manylabel_service.api import schemas

LINES = {"Content-Type": "application/x-ndjson"}


def test_a_model_says_what_it_learns_from(client: TestClient, create: Callable[..., str]) -> None:
    address = create(client, "sources", sources={"rule": 0.5})
    status = client.get(address)
    schemas.ModelStatus.model_validate_json(status.content, strict=True)
    assert status.json()["sources"] == {"machine": 0.0, "rule": 0.5}
    assert "by_source" not in client.get(f"{address}/metrics").json()
    x = {"a": 1.0}
    batch = [{"x": x, "y": ["p"], "source": source} for source in ("human", "machine", "rule", "machine")]
    answer = client.post(f"{address}/predict-update", json={"examples": batch}).json()
    assert (answer["updates"], len(answer["predictions"])) == (2, 4)
    lines = "\n".join(json.dumps({"x": x, "y": ["p"], "source": source}) for source in ("machine", "human", "rule"))
    answers = [
        json.loads(line) for line in client.post(f"{address}/stream", content=lines, headers=LINES).text.split("\n")[:3]
    ]
    assert [one["updates"] for one in answers] == [2, 3, 4]
    summary = client.post(f"{address}/stream?answers=errors", content=lines, headers=LINES).text.split("\n")
    assert json.loads(summary[-2])["learnt"] == 2
    kept = client.post(f"{address}/predict?keep=true", json={"x": x, "source": "machine"}).json()["id"]
    told = client.post(f"{address}/labels", json={"id": kept, "y": ["p"], "source": "machine"})
    assert (told.status_code, told.json()["updates"]) == (200, 6)
    assert client.post(f"{address}/labels", json={"id": kept, "y": ["p"]}).json()["updates"] == 7
    answer = client.get(f"{address}/metrics")
    schemas.Metrics.model_validate_json(answer.content, strict=True)
    found = answer.json()
    assert found["cumulative"]["examples"] == 4
    assert {source: (one["examples"], one["learnt"]) for source, one in found["by_source"].items()} == {
        "machine": (5, 0),
        "rule": (3, 3),
    }


@pytest.mark.parametrize(
    ("call", "body", "place"),
    [
        ("update", {"x": [1.0], "y": [], "source": "robot"}, "/source"),
        ("update", {"x": {"t": "text"}, "y": [], "source": None}, "/source"),
        ("update", {"examples": [{"x": [1.0], "y": []}, {"x": [1.0], "y": [], "source": 1}]}, "/examples/1/source"),
        ("predict-update", {"x": [1.0], "y": [], "source": ""}, "/source"),
        ("labels", {"id": "01KAHZY4T00000000000000000", "y": [], "source": "robot"}, "/source"),
    ],
)
def test_an_unknown_source_is_refused_at_its_place(
    client: TestClient, create: Callable[..., str], call: str, body: Any, place: str
) -> None:
    address = create(client, f"robot-{abs(hash(call + str(body))) % 10**9}")
    assert pointer(client.post(f"{address}/{call}", json=body)) == place
    assert client.get(address).json()["updates"] == 0


@pytest.mark.parametrize(
    ("sources", "place"),
    [
        ({"robot": 1.0}, "/sources/robot"),
        ({"rule": 1.5}, "/sources/rule"),
        ({"human": 0.0}, "/sources/human"),
        (1, "/sources"),
    ],
)
def test_sources_that_cannot_be_are_refused(client: TestClient, sources: Any, place: str) -> None:
    created = client.post("/v1/models", json={"name": "never-made", "algorithm": "falt", "sources": sources})
    assert pointer(created) == place
