"""POST /v1/models/{name}/forget: receipts and refusals."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.service.api.answers import create, ok
from tests.service.api.routers.test_history import log
from tests.support.cases import for_each

from manylabel_service.online.history.reader import HistoryReader

REF = "customer-4711"


def forgotten(client: TestClient, model: str, **selected: Any) -> dict[str, Any]:
    """Forget examples; return the receipt at the end."""
    begun = client.post(f"{model}/forget", json=selected)
    receipt = ok(begun, 202)
    while receipt["status"] == "running":
        receipt = ok(client.get(begun.headers["location"]))
    assert (receipt["status"], receipt["error"]) == ("done", None)
    return dict(receipt)


def example(n: int, ref: str | None = None) -> dict[str, Any]:
    x = {f"w{n % 7}": 1.0 + n % 3, f"w{n % 5}": 2.0, "all": 1.0}
    y = [label for m, label in enumerate(("a", "b", "c")) if n % (m + 2) == 0]
    return {"x": x, "y": y, **({} if ref is None else {"ref": ref})}


def test_a_receipt_counts_the_forgotten_examples(client: TestClient, model: str) -> None:
    for n in range(40):
        ok(client.post(f"{model}/update", json=example(n, REF if n % 4 == 1 else None)))
    before = log(client, model)
    receipt = forgotten(client, model, refs=[REF, "nobody"])
    assert (receipt["entries"], receipt["examples"], receipt["since"]) == (10, 10, "0")
    assert (receipt["first"], receipt["position"]) == (before[1]["position"], before[-1]["position"])
    assert receipt["checksum_before"] != receipt["checksum_after"]
    assert receipt["kept"]
    assert receipt["beyond_reach"]
    assert REF not in str(receipt)
    lines = log(client, model)
    assert [(line["position"], line["time"]) for line in lines] == [(line["position"], line["time"]) for line in before]
    assert [len(line["examples"]) for line in lines] == [0 if n % 4 == 1 else 1 for n in range(40)]
    assert ok(client.get(model))["updates"] == 30
    assert ok(client.get(f"{model}/forget"))["receipts"] == [receipt]
    verified = ok(client.post(f"{model}/verify"))
    assert verified["equal"]
    assert verified["position"] == lines[-1]["position"]
    assert forgotten(client, model, refs=[REF])["examples"] == 0
    assert forgotten(client, model, positions=[lines[0]["position"]])["examples"] == 1
    assert ok(client.post(f"{model}/update", json=example(1)))["updates"] == 30


@for_each(
    "body, status, code",
    [
        ({}, 422, "invalid_request"),
        ({"refs": [REF], "positions": ["1"]}, 422, "invalid_request"),
        ({"refs": []}, 422, "invalid_request"),
        ({"refs": [7]}, 422, "invalid_request"),
        ({"refs": "all"}, 422, "invalid_request"),
        ({"refs": ["x" * 129]}, 422, "invalid_request"),
        ({"refs": [str(n) for n in range(1001)]}, 422, "invalid_request"),
        ({"positions": ["soon"]}, 422, "invalid_request"),
        ({"positions": ["999999"]}, 404, "position_not_found"),
        ({"keys": ["k"]}, 422, "invalid_request"),
    ],
)
def test_a_bad_request_is_refused(client: TestClient, model: str, body: dict[str, Any], status: int, code: str) -> None:
    answer = client.post(f"{model}/forget", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert ok(client.get(f"{model}/forget"))["receipts"] == []


def test_an_unknown_receipt_is_not_found(client: TestClient, model: str) -> None:
    assert client.get(f"{model}/forget/none").json()["code"] == "receipt_not_found"
    for path in ("forget", "verify"):
        assert client.post(f"/v1/models/none/{path}", json={"refs": [REF]}).json()["code"] == "model_not_found"


def test_receipts_are_deleted_with_the_model(client: TestClient, model: str) -> None:
    ok(client.post(f"{model}/update", json=example(1, REF)))
    forgotten(client, model, refs=[REF])
    client.delete(model)
    assert ok(client.get(f"{create(client, 'test')}/forget"))["receipts"] == []


def test_a_position_is_looked_up_once(client: TestClient, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ok(client.post(f"{model}/update", json=example(1)))
    position = log(client, model)[0]["position"]
    asked = list[str]()
    find = HistoryReader._find

    async def counting(self: HistoryReader, at: str, begin: str) -> str:
        asked.append(at)
        return await find(self, at, begin)

    monkeypatch.setattr(HistoryReader, "_find", counting)
    assert forgotten(client, model, positions=[position] * 1_000)["examples"] == 1
    assert asked == [position]
