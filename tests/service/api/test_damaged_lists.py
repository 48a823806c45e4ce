"""No damaged document makes a list fail: it is named as damaged, or left out."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from tests.service.api.answers import ok
from tests.service.test_two_servers import contents, meta
from tests.support.cases import for_each
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_service.clock import FIRST_UNIX_MS, LAST_UNIX_MS, rfc3339
from manylabel_service.settings import Settings
from manylabel_service.storage import Store, pieces_of
from manylabel_service.trained.publishing import publish

Serve = Callable[..., Any]

VALUES = [b"{}", b"", b"\xff", b"null", b"[]", b'{"id": 1}']
"""Damaged documents whose checksums are right."""
CSV = b"x,y,a,b\n1,2,0,1\n2,1,1,0\n"


def store_of(client: TestClient) -> Store:
    app: Any = client.app
    store: Store = app.state.context.registry._store
    return store


def run(client: TestClient, call: Callable[[], Any]) -> Any:
    assert client.portal is not None
    return client.portal.call(call)


def spoil(client: TestClient, kind: str) -> list[str]:
    """Add damaged documents; return their names."""
    names = [f"damaged{number}" for number in range(len(VALUES))]

    async def put() -> None:
        for name, value in zip(names, VALUES, strict=True):
            await store_of(client).documents.put(kind, name, value, revision=None)

    run(client, put)
    return names


@for_each(
    "unix_ms", [0, -1, FIRST_UNIX_MS, FIRST_UNIX_MS - 1, LAST_UNIX_MS, LAST_UNIX_MS + 1, 2**63 - 1, -(2**63), 10**30]
)
def test_every_time_is_formatted(unix_ms: int) -> None:
    text = rfc3339(unix_ms)
    assert "0001-01-01T00:00:00.000Z" <= text <= "9999-12-31T23:59:59.999Z"


def test_damaged_keys_are_listed_for_keys_for_all_models(serve: Serve) -> None:
    with serve() as client:
        made = client.post("/v1/keys", json={"name": "first", "scopes": ["admin"]}).json()
        by = {"headers": {"api-key": made["key"]}}
        limited = {"name": "n", "scopes": ["admin"], "models": ["tags-*"]}
        other = client.post("/v1/keys", json=limited, **by).json()
        damaged = spoil(client, "key")
        listed = ok(client.get("/v1/keys", **by))
        assert {key["id"] for key in listed["keys"]} == {made["id"], other["id"]}
        assert sorted(listed["damaged"]) == damaged
        assert "damaged" not in client.get("/v1/keys", headers={"api-key": other["key"]}).json()


def test_a_key_with_an_extreme_time_is_listed(serve: Serve) -> None:
    with serve() as client:
        made = client.post("/v1/keys", json={"name": "first", "scopes": ["admin"]}).json()
        by = {"headers": {"api-key": made["key"]}}

        async def put() -> None:
            documents = store_of(client).documents
            known = await documents.get("key", made["id"])
            assert known is not None
            value = known.value.replace(b'"expires_unix_ms":null', b'"expires_unix_ms":' + b"9" * 25)
            assert value != known.value
            await documents.put("key", made["id"], value, revision=known.revision)

        run(client, put)
        (shown,) = client.get("/v1/keys", **by).json()["keys"]
        assert shown["expires_at"] == "9999-12-31T23:59:59.999Z"


def test_damaged_datasets_and_jobs_are_listed(serve: Serve) -> None:
    with serve(job_slots=0) as client:
        upload = {"content": CSV, "headers": {"content-type": "text/csv"}}
        address = "/v1/datasets?format=csv&label_columns=2&name="
        ok(client.post(f"{address}good", **upload), 201)
        job = ok(client.post("/v1/jobs", json={"trainer": "m3l", "data": {"dataset": "good"}, "model": "m"}), 202)
        damaged = spoil(client, "datasets")
        assert spoil(client, "jobs") == damaged
        datasets, jobs = ok(client.get("/v1/datasets")), ok(client.get("/v1/jobs"))
        assert ([each["name"] for each in datasets["datasets"]], datasets["damaged"]) == (["good"], damaged)
        assert ([each["id"] for each in jobs["jobs"]], jobs["damaged"]) == ([job["id"]], damaged)
        ok(client.post(f"{address}another", **upload), 201)
        assert client.post(f"{address}{damaged[0]}", **upload).status_code == 409


def test_damaged_models_are_listed(serve: Serve, tmp_path: Path) -> None:
    with serve(data_dir=tmp_path) as client:
        for name in ("good", "bad"):
            assert client.post("/v1/models", json={"name": name, "algorithm": "falt"}).status_code == 201

        async def put() -> None:
            for number, spec in enumerate(VALUES):
                await store_of(client).models.create(f"odd{number}", spec)

        run(client, put)
        with (
            closing(sqlite3.connect(tmp_path / "manylabel.sqlite3", timeout=DEADLINE_SECONDS)) as connection,
            connection,
        ):
            connection.execute("UPDATE models SET spec = ? WHERE name = 'bad'", (b"nothing",))
    with serve(data_dir=tmp_path) as client:
        answer = client.get("/v1/models")
        assert answer.status_code == 200
        assert [model["name"] for model in answer.json()["models"]] == ["good"]
        assert answer.json()["damaged"] == ["bad", *(f"odd{number}" for number in range(len(VALUES)))]


def test_damaged_lists_of_snapshots_are_restored(serve: Serve) -> None:
    with serve() as client:
        client.post("/v1/models", json={"name": "m", "algorithm": "falt"})
        for number in range(2):
            client.post("/v1/models/m/update", json={"x": [float(number)], "y": ["a"]})
            assert client.post("/v1/models/m/snapshots", json={}).status_code == 201
        before = [each["position"] for each in client.get("/v1/models/m/snapshots").json()["snapshots"]]
        assert len(before) == 2

        for value in VALUES:

            async def put(value: bytes = value) -> None:
                documents = store_of(client).documents
                ((name, revision),) = (await documents.revisions("snapshots")).items()
                await documents.put("snapshots", name, value, revision=revision)

            run(client, put)
            answer = client.get("/v1/models/m/snapshots")
            assert answer.status_code == 200, value
            assert [each["position"] for each in answer.json()["snapshots"]] == before, value


def test_damaged_versions_are_listed(serve: Serve) -> None:
    with serve() as client:

        async def put() -> None:
            store = store_of(client)
            for job in ("job-1", "job-2", "job-3"):
                await publish(store, Settings(), "m", contents(), meta(job), promote=True)
            keys = [key for key in await store.blobs.keys("versions/") if key.endswith(".meta")]
            await store.blobs.put(keys[0], pieces_of(b"{}"))
            await store.blobs.delete(keys[1])

        run(client, put)
        answer = client.get("/v1/models/m/versions")
        assert answer.status_code == 200
        assert [version["version"] for version in answer.json()["versions"]] == [3]
        assert sorted(answer.json()["damaged"]) == [1, 2]
