"""While functions are being compiled, requests that need them respond with 503 at once, and others are served."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import NDJSON, create, new_model, ok
from tests.service.conftest import Serve
from tests.support.compiling import NeverDone, closed
from tests.support.waiting import eventually

from manylabel_service.hosting.kernels import GATE, SERVED


def refused_at_once(answer: Any) -> dict[str, Any]:
    """The problem document of a request that must wait for functions."""
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "12"), answer.text
    problem: dict[str, Any] = answer.json()
    assert problem["code"] == "not_ready"
    assert problem["compiling"] == {"done": 25, "total": 37, "seconds_left": 12.0}
    return problem


def post(path: str, **body: Any) -> Callable[[TestClient, str], Any]:
    return lambda client, address: client.post(address + path, json=body)


def put(path: str, **body: Any) -> Callable[[TestClient, str], Any]:
    return lambda client, address: client.put(address + path, json=body)


VECTOR = {"x": {"a": 1, "v": [1.0, 2.0]}}
CHANGES: dict[str, tuple[str, Callable[[TestClient, str], Any]]] = {
    "update": ("vectors", post("/update", **VECTOR, y=["c"])),
    "batch": ("vectors", post("/update", examples=[{"x": {"a": 1}, "y": ["c"]}, {**VECTOR, "y": ["c"]}])),
    "predict-update": ("vectors", post("/predict-update", **VECTOR, y=["c"])),
    "predict": ("vectors", post("/predict", **VECTOR)),
    "explain": ("vectors", post("/predict", **VECTOR, explain=2)),
    "keep": ("vectors", post("/predict?keep=true", **VECTOR)),
    "groups": ("groups", put("/groups", groups=[{"name": "g", "labels": ["c", "d"], "choose": "one"}])),
    "parents": ("groups", put("/groups", parents={"c": "d"})),
    "promise": ("promise", put("/promise", precision=0.9)),
    "numbers": ("sparse", post("/update", x=[1] * 2**14, y=[f"label {n}" for n in range(2**10)])),
}


@pytest.mark.parametrize(("tier", "change"), CHANGES.values(), ids=CHANGES)
def test_a_change_that_needs_a_tier_is_refused_and_changes_nothing(client: TestClient, tier: str, change: Any) -> None:
    address = new_model(client)
    other = new_model(client)
    before = ok(client.get(address))
    with closed(tier):
        refused_at_once(change(client, address))
        assert ok(client.get(address)) == before
        ok(client.post(f"{other}/update", json={"x": {"a": 1}, "y": ["c"]}))
        ok(client.post(f"{other}/predict", json={"x": {"a": 1}}))
    ok(change(client, address))


@pytest.mark.parametrize(("tier", "change"), CHANGES.values(), ids=CHANGES)
def test_a_change_waits_for_a_tier_that_is_only_loaded(client: TestClient, tier: str, change: Any) -> None:
    address = new_model(client)
    ok(answer_once_loaded(tier, lambda: change(client, address)))


def answer_once_loaded(tier: str, call: Callable[[], Any]) -> Any:
    """Return the answer to a call that waits for a tier, which is loaded meanwhile."""
    with closed(tier, stored=37), ThreadPoolExecutor() as threads:
        answer = threads.submit(call)
        eventually(lambda: GATE.waits or answer.done())
        assert not answer.done()
        GATE.open((tier,))
        return answer.result()


SPECS = [
    ("kernel", {"algorithm": "kernel_falt"}),
    ("kernel", {"algorithm": "kernel_passive_aggressive"}),
    ("options", {"algorithm": "passive_aggressive"}),
    ("options", {"algorithm": "falt", "params": {"step": "implicit"}}),
    ("options", {"algorithm": "salt", "params": {"drift": "adwin"}}),
]


@pytest.mark.parametrize(("tier", "spec"), SPECS)
def test_a_model_that_needs_a_tier_is_not_created(client: TestClient, tier: str, spec: dict[str, Any]) -> None:
    with closed(tier):
        refused_at_once(client.post("/v1/models", json={"name": "refused", **spec}))
        assert client.get("/v1/models/refused").status_code == 404
        client.delete(create(client, "usual"))
    client.delete(create(client, "refused", **spec))


@pytest.mark.parametrize(("tier", "spec"), SPECS)
def test_the_creation_of_a_model_waits_for_a_tier_that_is_only_loaded(
    client: TestClient, tier: str, spec: dict[str, Any]
) -> None:
    body = {"name": "waiting", **spec}
    ok(answer_once_loaded(tier, lambda: client.post("/v1/models", json=body)), 201)
    client.delete("/v1/models/waiting")


STATES = {
    "groups": ("groups", {"groups": [{"name": "g", "labels": ["c", "d"], "choose": "one"}]}),
    "parents": ("groups", {"parents": {"c": "d"}}),
    "promise": ("promise", {"promise": {"precision": 0.9}}),
}


@pytest.mark.parametrize(("tier", "fields"), STATES.values(), ids=STATES)
def test_a_model_with_a_state_that_needs_a_tier_is_not_created(
    client: TestClient, tier: str, fields: dict[str, Any]
) -> None:
    wanted = {"name": "refused", "algorithm": "falt", **fields}
    with closed(tier):
        refused_at_once(client.post("/v1/models", json=wanted))
        assert client.get("/v1/models/refused").status_code == 404
    client.delete(create(client, **wanted))


def test_a_model_with_titles_needs_no_other_tier(client: TestClient) -> None:
    with closed(*SERVED[1:]):
        address = create(client, "titled", labels=[{"name": "c", "title": "dogs"}])
        ok(client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["c"]}))
    client.delete(address)


def lived(client: TestClient, name: str) -> str:
    """A model with vectors, groups and a promise; return its address."""
    address = create(client, name)
    ok(client.post(f"{address}/update", json={**VECTOR, "y": ["c"]}))
    for _, change in (CHANGES["groups"], CHANGES["promise"]):
        ok(change(client, address))
    return address


@pytest.mark.parametrize("tier", ["vectors", "groups", "promise"])
def test_a_state_that_needs_a_tier_is_not_loaded(client: TestClient, tier: str) -> None:
    address = lived(client, "lived")
    position = ok(client.post(f"{address}/snapshots"), 201)["position"]
    snapshot = client.get(f"{address}/snapshots/{position}").content
    upload = {"content": snapshot, "headers": {"Content-Type": "application/octet-stream"}}
    try:
        with closed(tier):
            refused_at_once(client.put("/v1/models/uploaded", **upload))
            refused_at_once(client.post(f"{address}/rollback", json={"position": position}))
            assert client.get("/v1/models/uploaded").status_code == 404
            ok(client.get(address))
        assert client.put("/v1/models/uploaded", **upload).status_code == 201
        ok(client.post(f"{address}/rollback", json={"position": position}))
    finally:
        for name in ("uploaded", "lived"):
            client.delete(f"/v1/models/{name}")


@pytest.mark.parametrize("tier", ["vectors", "groups", "promise"])
def test_models_that_need_a_tier_are_restored_once_it_is_there(serve: Serve, tmp_path: Path, tier: str) -> None:
    with serve(tmp_path) as client:
        address, usual = lived(client, "m"), create(client, "usual")
        predicted = ok(client.post(f"{address}/predict", json=VECTOR))
    with closed(tier), serve(tmp_path, NeverDone()) as client:
        ready = ok(client.get("/readyz"))
        assert ready["compiling"] == {"done": 25, "total": 37, "seconds_left": 12.0}
        refused_at_once(client.post(f"{address}/predict", json=VECTOR))
        ok(client.post(f"{usual}/update", json={"x": {"a": 1}, "y": ["c"]}))
        GATE.open((tier,))
        assert ok(client.post(f"{address}/predict", json=VECTOR)) == predicted
        assert "compiling" not in ok(client.get("/readyz"))


def test_a_model_whose_functions_are_on_disk_waits_for_them(serve: Serve, tmp_path: Path) -> None:
    with serve(tmp_path) as client:
        address = lived(client, "m")
        predicted = ok(client.post(f"{address}/predict", json=VECTOR))
    tiers = SERVED[1:]
    with closed(*tiers, stored=37), ThreadPoolExecutor() as threads, serve(tmp_path, NeverDone()) as client:
        answer = threads.submit(client.post, f"{address}/predict", json=VECTOR)
        eventually(lambda: GATE.waits or answer.done())
        assert not answer.done()
        GATE.open(tiers)
        assert ok(answer.result()) == predicted


@pytest.mark.parametrize("algorithm", ["falt", "salt"])
def test_a_usual_model_is_restored_while_all_other_functions_are_compiled(
    serve: Serve, tmp_path: Path, algorithm: str
) -> None:
    with serve(tmp_path) as client:
        address = create(client, "m", algorithm=algorithm)
        ok(client.post(f"{address}/update", json={"x": {"a": 1}, "y": ["c"]}))
        predicted = ok(client.post(f"{address}/predict", json={"x": {"a": 1}}))
    with closed(*SERVED[1:]), serve(tmp_path, NeverDone()) as client:
        assert ok(client.post(f"{address}/predict", json={"x": {"a": 1}})) == predicted


def test_a_stream_waits_for_a_tier_that_is_only_loaded(client: TestClient) -> None:
    address = new_model(client)
    content = json.dumps({**VECTOR, "y": ["c"]}) + "\n"
    answer = answer_once_loaded("vectors", lambda: client.post(f"{address}/stream", content=content, headers=NDJSON))
    assert json.loads(answer.text.splitlines()[-1])["updates"] == 1


def test_a_stream_ends_at_a_line_that_must_wait_and_can_be_resumed(client: TestClient) -> None:
    address = new_model(client)
    lines = [{"x": {"a": 1}, "y": ["c"]}, {**VECTOR, "y": ["c"]}]
    content = "".join(json.dumps(line) + "\n" for line in lines)

    def last_line() -> dict[str, Any]:
        answer = client.post(f"{address}/stream", content=content, headers=NDJSON | {"Idempotency-Key": "s"})
        line: dict[str, Any] = json.loads(answer.text.splitlines()[-1])
        return line

    with closed("vectors"):
        refused = last_line()
        assert (refused["error"]["code"], refused["retry_after"]) == ("not_ready", 12)
    assert last_line()["updates"] == 2
