"""Groups and parents of labels over HTTP: set with a model and later, shown, and refused at their place."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, ok, pointer
from tests.support.cases import for_each

PRIORITY = {"name": "priority", "labels": ["low", "high"], "choose": "one"}


def test_groups_are_set_with_a_model_and_replaced_later(client: TestClient) -> None:
    address = create(client, "grouped", groups=[PRIORITY], parents={"refund": "billing"})
    shown = client.get(address).json()
    assert (shown["groups"], shown["parents"], shown["labels"]) == ([PRIORITY], {"refund": "billing"}, 4)
    answer = client.post(
        f"{address}/predict-update", json={"x": {"a": 1}, "y": ["low", "refund"], "probabilities": True}
    )
    assert len(answer.json()["labels"]) == 1
    assert sum(answer.json()["probabilities"][label] for label in PRIORITY["labels"]) == pytest.approx(1)

    changed = {"groups": [{**PRIORITY, "labels": ["low", "mid", "high"]}]}
    ok(client.put(f"{address}/groups", json=changed))
    shown = client.get(address).json()
    assert (shown["groups"], shown["parents"], shown["labels"]) == (changed["groups"], {}, 5)
    assert pointer(client.post(f"{address}/labels/retire", json={"label": "mid"})) == "/label"
    inferred = client.post(
        f"/v2/models/{address.rpartition('/')[2]}/infer",
        json={"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ['{"a": 1}']}]},
    ).json()
    (predictions,) = [output for output in inferred["outputs"] if output["name"] == "predictions"]
    names = json.loads(predictions["parameters"]["labels"])
    on = {name for name, holds in zip(names, predictions["data"], strict=True) if holds}
    assert len(on & {"low", "mid", "high"}) == 1


@for_each(
    ("body", "place"),
    [
        ({"groups": [PRIORITY, {**PRIORITY, "name": "p"}]}, "/groups/1/labels/0"),
        ({"groups": [PRIORITY, PRIORITY]}, "/groups/1/name"),
        ({"groups": [{**PRIORITY, "choose": "two"}]}, "/groups/0/choose"),
        ({"groups": [{**PRIORITY, "labels": []}]}, "/groups/0/labels"),
        ({"groups": [{**PRIORITY, "extra": 1}]}, "/groups/0/extra"),
        ({"groups": [{**PRIORITY, "name": str(n)} for n in range(1001)]}, "/groups"),
        ({"parents": {"p": "q", "q": "p"}}, "/parents/p"),
        ({"parents": {"p": 1}}, "/parents/p"),
        ({"parents": {"low": "p"}, "groups": [PRIORITY]}, "/groups/0/labels/1"),
        ({"parents": {"x" * 257: "p"}}, "/parents/" + "x" * 257),
        ({"parents": {str(n): "p" for n in range(10_001)}}, "/parents"),
    ],
)
def test_bad_groups_and_parents_are_refused_at_their_place(
    client: TestClient, model: str, body: dict[str, Any], place: str
) -> None:
    before = client.get(model).json()
    assert pointer(client.put(f"{model}/groups", json=body)) == place
    assert client.get(model).json() == before
    created = client.post("/v1/models", json={"name": "never-made", "algorithm": "falt", **body})
    assert pointer(created) == place
    assert client.get("/v1/models/never-made").status_code == 404


def test_a_group_cannot_have_a_retired_label(client: TestClient, model: str) -> None:
    client.post(f"{model}/update", json={"x": {"a": 1}, "y": ["gone"]}).raise_for_status()
    client.post(f"{model}/labels/retire", json={"label": "gone"}).raise_for_status()
    body = {"groups": [{**PRIORITY, "labels": ["low", "gone"]}]}
    assert pointer(client.put(f"{model}/groups", json=body)) == "/groups/0/labels/1"


def test_labels_that_contradict_groups_are_refused_at_their_place(client: TestClient) -> None:
    address = create(client, "contradicts", groups=[PRIORITY], parents={"refund": "billing"})
    batch = {"examples": [{"x": {"a": 1}, "y": ["low"]}, {"x": {"a": 1}, "y": {"refund": True, "billing": False}}]}
    assert pointer(client.post(f"{address}/update", json=batch)) == "/examples/1/y/refund"
    assert pointer(client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["low", "high"]})) == "/y/1"
    assert client.get(address).json()["updates"] == 0
    kept = client.post(f"{address}/predict?keep=true", json={"x": {"a": 1}}).json()["id"]
    late = client.post(f"{address}/labels", json={"id": kept, "y": ["low", "high"]})
    assert pointer(late) == "/y/1"
    assert client.post(f"{address}/labels", json={"id": kept, "y": ["low", "refund"]}).status_code == 200
