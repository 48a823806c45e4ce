"""Sources of labels over HTTP: what a model learns from machines and rules, and its metrics by source."""

from starlette.testclient import TestClient
from tests.service.api.answers import create, stream


def test_labels_of_machines_and_rules_are_counted_by_source(client: TestClient) -> None:
    address = create(client, "sources", sources={"rule": 0.5})
    assert client.get(address).json()["sources"] == {"machine": 0.0, "rule": 0.5}
    assert "by_source" not in client.get(f"{address}/metrics").json()
    x = {"a": 1.0}
    batch = [{"x": x, "y": ["p"], "source": source} for source in ("human", "machine", "rule", "machine")]
    answer = client.post(f"{address}/predict-update", json={"examples": batch}).json()
    assert (answer["updates"], len(answer["predictions"])) == (2, 4)
    lines = [{"x": x, "y": ["p"], "source": source} for source in ("machine", "human", "rule")]
    assert [line["updates"] for line in stream(client, address, lines)] == [2, 3, 4]
    (summary,) = stream(client, address, lines, "?answers=errors")
    assert summary["learnt"] == 2
    kept = client.post(f"{address}/predict?keep=true", json={"x": x, "source": "machine"}).json()["id"]
    told = client.post(f"{address}/labels", json={"id": kept, "y": ["p"], "source": "machine"})
    assert (told.status_code, told.json()["updates"]) == (200, 6)
    assert client.post(f"{address}/labels", json={"id": kept, "y": ["p"]}).json()["updates"] == 7
    found = client.get(f"{address}/metrics").json()
    assert found["cumulative"]["examples"] == 4
    assert {source: (one["examples"], one["learnt"]) for source, one in found["by_source"].items()} == {
        "machine": (5, 0),
        "rule": (3, 3),
    }
