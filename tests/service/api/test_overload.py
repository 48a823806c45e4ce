"""While the log accepts nothing, updates wait or are refused."""

import asyncio
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import refused
from tests.support.limits import settings_of
from tests.support.server_process import ANSWER_SECONDS
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_service.app import create_app
from manylabel_service.errors import StorageUnavailable
from manylabel_service.settings import Settings
from manylabel_service.storage import Entry, ModelMeta, SQLiteStore
from manylabel_service.storage.sqlite.logs import SQLiteLogs

ITEM = {"x": {"a": 1}, "y": ["p"]}


class StuckLogs(SQLiteLogs):
    """A log that appends when a test allows it, or fails."""

    def __init__(self, store: "StuckStore") -> None:
        super().__init__(store.engine)
        self.store = store

    async def append(self, record: ModelMeta, payloads: Sequence[bytes], after: str) -> list[Entry]:
        self.store.appending.set()
        await asyncio.to_thread(self.store.may_append.wait)
        if self.store.failure is not None:
            raise self.store.failure
        return await super().append(record, payloads, after)


class StuckStore(SQLiteStore):
    """A store whose appends are blocked."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.may_append, self.appending = threading.Event(), threading.Event()
        self.may_append.set()
        self.failure: StorageUnavailable | None = None
        self.logs = StuckLogs(self)


@pytest.fixture
def store(tmp_path: Path) -> StuckStore:
    return StuckStore(tmp_path)


@pytest.fixture
def client(store: StuckStore, tmp_path: Path) -> Iterator[TestClient]:
    ready = threading.Event()
    settings = settings_of(data_dir=tmp_path, max_queue_examples=2)
    with TestClient(create_app(settings, store, on_ready=ready.set), base_url="http://localhost") as client:
        assert ready.wait(DEADLINE_SECONDS)
        try:
            yield client
        finally:
            store.may_append.set()


@pytest.fixture
def stuck(client: TestClient, store: StuckStore, model: str) -> Iterator[Future[Any]]:
    """An update of two examples, with the key k, that waits for the log."""
    client.post(f"{model}/update", json=ITEM).raise_for_status()
    store.may_append.clear()
    store.appending.clear()
    with ThreadPoolExecutor(1) as pool:
        body = {"examples": [ITEM, ITEM]}
        waiting = pool.submit(client.post, f"{model}/update", json=body, headers={"Idempotency-Key": "k"})
        assert store.appending.wait(DEADLINE_SECONDS)
        yield waiting
        store.may_append.set()


def test_a_retry_of_an_update_in_flight_is_refused(
    client: TestClient, store: StuckStore, model: str, stuck: Future[Any]
) -> None:
    body, key = {"examples": [ITEM, ITEM]}, {"Idempotency-Key": "k"}
    refused(client.post(f"{model}/update", json=body, headers=key), 409, "idempotency_in_flight")
    store.may_append.set()
    assert stuck.result(120).json()["updates"] == 3
    again = client.post(f"{model}/update", json=body, headers=key)
    assert (again.json(), again.headers["idempotent-replayed"]) == (stuck.result().json(), "true")


def test_a_full_queue_is_refused_with_retry_after(
    client: TestClient, store: StuckStore, model: str, stuck: Future[Any]
) -> None:
    assert 'manylabel_queue_depth{model="test"} 2.0' in client.get("/metrics").text
    answer = client.post(f"{model}/update", json=ITEM)
    refused(answer, 429, "queue_full")
    assert int(answer.headers["retry-after"]) >= 1
    store.may_append.set()
    assert stuck.result(120).status_code == 200
    assert client.post(f"{model}/update", json=ITEM).json()["updates"] == 4


def test_nothing_is_learnt_if_storage_fails(
    client: TestClient, store: StuckStore, model: str, stuck: Future[Any]
) -> None:
    store.failure = StorageUnavailable("the disk is full", heals=True)
    store.may_append.set()
    problem = refused(stuck.result(120), 503, "storage_unavailable")
    assert problem["detail"] == "storage is not available: retry later"
    assert int(stuck.result().headers["retry-after"]) >= 1
    assert client.get(model).json()["updates"] == 1

    store.failure = None
    key = {"Idempotency-Key": "k"}
    retried = client.post(f"{model}/update", json={"examples": [ITEM, ITEM]}, headers=key)
    assert (retried.status_code, retried.json()["updates"]) == (200, 3)


def test_an_update_that_has_waited_too_long_is_refused(store: StuckStore, tmp_path: Path) -> None:
    """The wait counts from the end of the request headers, not by an estimate."""
    ready, seconds = threading.Event(), 0.2
    settings = Settings(data_dir=tmp_path, max_queue_wait_seconds=seconds)
    with TestClient(create_app(settings, store, on_ready=ready.set), base_url="http://localhost") as client:
        assert ready.wait(DEADLINE_SECONDS)
        client.post("/v1/models", json={"name": "m", "algorithm": "falt"}).raise_for_status()
        store.may_append.clear()
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(client.post, "/v1/models/m/update", json=ITEM)
            assert store.appending.wait(DEADLINE_SECONDS)
            second = pool.submit(client.post, "/v1/models/m/update", json=ITEM)
            eventually(lambda: 'manylabel_queue_depth{model="m"} 2.0' in client.get("/metrics").text)
            waited_from = time.monotonic()
            eventually(lambda: time.monotonic() - waited_from > seconds)
            store.may_append.set()
            assert first.result(120).json()["updates"] == 1
            refused(second.result(120), 429, "queue_full")
        assert int(second.result().headers["retry-after"]) >= 1
        eventually(lambda: client.post("/v1/models/m/update", json=ITEM).json().get("updates") == 2)


@pytest.mark.parametrize("size", [20, 2_000, 200_000])
def test_an_upload_to_a_full_disk_is_refused(server_process: Any, size: int) -> None:
    """A limit on the size of files has the effect of a full disk."""
    with server_process() as server:
        server.start()
        hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (10, hard))
        address = f"{server.url}/v1/datasets?name=full&format=libsvm"
        data = b"1 1:1\n" * (size // 6)
        upload: Any = {"content": data, "headers": {"content-type": "text/plain"}, "timeout": ANSWER_SECONDS}
        answer = httpx2.post(address, **upload)
        assert (answer.status_code, answer.json()["code"]) == (507, "storage_full"), answer.text
        assert str(server.data_dir) not in answer.text
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert httpx2.post(address, **upload).status_code == 201
