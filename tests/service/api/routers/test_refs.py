"""References of examples: they are in the log, and nowhere else."""

from typing import Any

from fastapi.testclient import TestClient
from tests.service.api.answers import state_of, stream
from tests.service.api.routers.test_history import log

REF = "customer-\N{GREEK SMALL LETTER OMEGA}-4711"
X, Y = {"a": 1.0}, ["p"]


def sent(client: TestClient, model: str, extra: dict[str, Any]) -> list[str]:
    """Send an example by each call; return the texts of the responses."""
    kept = client.post(f"{model}/predict?keep=true", json={"x": X, **extra}).json()
    answers = [
        client.post(f"{model}/update", json={"x": X, "y": Y, **extra}),
        client.post(f"{model}/update", json={"examples": [{"x": X, "y": Y}, {"x": X, "y": {"q": True}, **extra}]}),
        client.post(f"{model}/predict-update", json={"x": X, "y": Y, "weight": 2.0, **extra}),
        client.post(f"{model}/labels", json={"id": kept["id"], "y": Y, **extra}),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4, [answer.text for answer in answers]
    streamed = stream(client, model, [{"x": X, "y": Y, "source": "machine", **extra}])
    return [str(streamed), *(answer.text for answer in answers)]


def test_a_ref_is_in_the_log_and_nowhere_else(client: TestClient, model: str) -> None:
    answers = sent(client, model, {"ref": REF})
    assert not [answer for answer in answers if "4711" in answer]
    found = [example.get("ref") for line in log(client, model) for example in line["examples"]]
    assert found == [REF, None, REF, REF, REF, REF]
    assert b"4711" not in state_of(client, model)
