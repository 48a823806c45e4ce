"""Drift alarms in the metrics and for Prometheus, of models that detect drift only."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.service.api.answers import create
from tests.service.online.folds import DRIFTING_LENGTH as LENGTH
from tests.service.online.folds import drifting

NDJSON = {"Content-Type": "application/x-ndjson"}
WATCHING = {"params": {"drift": "adwin"}}


def item(number: int) -> dict[str, Any]:
    """A row of a stream that changes in its middle."""
    x, y, *_ = drifting(number)
    return {"x": dict(zip(x.names or (), x.values.tolist(), strict=True)), "y": list(y.names)}


ITEMS = [item(number) for number in range(LENGTH)]


@pytest.fixture(scope="module")
def watched(client: TestClient) -> str:
    """A model that has learnt the stream in batches."""
    address = create(client, "watched", **WATCHING)
    for start in range(0, LENGTH, 50):
        client.post(f"{address}/update", json={"examples": ITEMS[start : start + 50]}).raise_for_status()
    return address


def alarms(client: TestClient) -> dict[tuple[str, str], float]:
    """Return the alarms for Prometheus by model and detector."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    named = [sample for sample in samples if sample.name == "manylabel_drift_alarms_total"]
    assert all(sample.labels.keys() == {"model", "detector"} for sample in named)
    return {(sample.labels["model"], sample.labels["detector"]): sample.value for sample in named}


def test_metrics_have_the_alarms_of_each_detector(client: TestClient, watched: str) -> None:
    drift = client.get(f"{watched}/metrics").json()["drift"]
    assert drift["labels"].keys() == {"first", "second"}
    for one in (*drift["labels"].values(), drift):
        assert one["alarms"] >= 1
        assert LENGTH // 2 < one["last"] <= LENGTH
    assert client.get(watched).json()["metrics"]["drift"] == drift


def test_a_model_that_does_not_detect_drift_has_no_alarms(client: TestClient) -> None:
    address = create(client, "blind")
    client.post(f"{address}/update", json={"examples": ITEMS}).raise_for_status()
    assert "drift" not in client.get(f"{address}/metrics").json()
    assert "drift" not in client.get(address).json()["metrics"]
    assert not [model for model, _ in alarms(client) if model == "blind"]


def test_prometheus_has_alarms_and_no_label_names(client: TestClient, watched: str) -> None:
    drift = client.get(f"{watched}/metrics").json()["drift"]
    counted = alarms(client)
    assert counted["watched", "all"] == drift["alarms"]
    assert counted["watched", "label"] == sum(label["alarms"] for label in drift["labels"].values())
    assert "first" not in client.get("/metrics").text
