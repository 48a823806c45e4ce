"""POST /v1/models/{name}/forget: the model is one that never saw the examples, and keeps its place in everything else."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.service.api.routers.test_history import log

from manylabel_service.online.history import archiver
from manylabel_service.online.state.model import OnlineModel

ALGORITHMS = ["stack", "falt", "salt", "kernel_falt", "kernel_salt", "pa", "adwin"]
REF = "customer-4711"


def ok(answer: Any, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def forgotten(client: TestClient, model: str, **selected: Any) -> dict[str, Any]:
    """Have examples forgotten; return the receipt once it has ended."""
    receipt = ok(client.post(f"{model}/forget", json=selected), 202)
    while receipt["status"] == "running":
        receipt = ok(client.get(f"{model}/forget/{receipt['id']}"))
    assert receipt["error"] is None
    assert receipt["status"] == "done"
    return dict(receipt)


def example(n: int, ref: str | None = None) -> dict[str, Any]:
    x = {f"w{n % 7}": 1.0 + n % 3, f"w{n % 5}": 2.0, "all": 1.0}
    y = [label for m, label in enumerate(("a", "b", "c")) if n % (m + 2) == 0]
    return {"x": x, "y": y, **({} if ref is None else {"ref": ref})}


def test_the_state_is_one_that_never_saw_them(
    client: TestClient, model: str, create: Callable[..., str], state_of: Callable[..., bytes]
) -> None:
    for n in range(40):
        ok(client.post(f"{model}/update", json=example(n, REF if n % 4 == 1 else None)))
    receipt = forgotten(client, model, refs=[REF, "nobody"])
    assert (receipt["entries"], receipt["examples"], receipt["since"]) == (10, 10, "0")
    assert receipt["checksum_before"] != receipt["checksum_after"]
    lines = log(client, model)
    assert len(lines) == 40
    assert [len(line["examples"]) for line in lines] == [0 if n % 4 == 1 else 1 for n in range(40)]
    name = model.rsplit("/", 1)[1]
    never = OnlineModel.from_bytes(state_of(client, model))
    assert never.position == lines[-1]["position"]
    assert ok(client.get(model))["updates"] == 30
    found = state_of(client, model)
    assert client.delete(model).status_code == 204
    other = create(client, name)
    for n in range(40):
        body = {"examples": [example(n)]} if n % 4 != 1 else None
        if body is None:
            ok(client.patch(f"{other}/labels", json={"labels": {}})) if False else None
            continue
        ok(client.post(f"{other}/update", json=body))
    expected = OnlineModel.from_bytes(state_of(client, other))
    expected.position = never.position
    assert found == expected.to_bytes()
