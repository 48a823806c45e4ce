"""A server is alive at once, ready when every model is restored, and ends if that is impossible."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, refused
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_service.app import create_app
from manylabel_service.errors import StorageUnavailable, StoreLocked
from manylabel_service.settings import Settings
from manylabel_service.storage import SQLiteStore


class SlowStore(SQLiteStore):
    """A store that responds when a test allows it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.may_respond = threading.Event()

    async def format(self) -> int:
        await asyncio.to_thread(self.may_respond.wait)
        return await super().format()

    def __enter__(self) -> "SlowStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.may_respond.set()  # a thread cannot be cancelled, only let go


def test_a_server_is_alive_before_it_is_ready(tmp_path: Path) -> None:
    store, ready = SlowStore(tmp_path), threading.Event()
    app = create_app(Settings(data_dir=tmp_path), store, on_ready=ready.set)
    with TestClient(app, base_url="http://localhost") as client, store:
        assert client.get("/livez").json() == {"live": True}
        waiting = [
            client.get("/readyz"),
            client.get("/v1/models"),
            client.post("/v1/models", json={"name": "a", "algorithm": "falt"}),
            client.get("/v1/models/a"),
            client.get("/v1/models/a/metrics"),
            client.delete("/v1/models/a"),
            client.post("/v1/models/a/predict", json={"x": [1]}),
            client.post("/v1/models/a/update", json={"x": [1], "y": []}),
        ]
        for answer in waiting:
            refused(answer, 503, "not_ready")
            assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/openapi.json").status_code == 200

        assert not ready.is_set()
        store.may_respond.set()
        assert ready.wait(DEADLINE_SECONDS)
        assert client.get("/readyz").json() == {"ready": True, "failed": []}
        assert client.get("/metrics").status_code == 200
        refused(client.get("/v1/models/a"), 404, "model_not_found")


def test_a_server_can_be_stopped_before_it_is_ready(tmp_path: Path) -> None:
    store, ready = SlowStore(tmp_path), threading.Event()
    app = create_app(Settings(data_dir=tmp_path), store, on_ready=ready.set)
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/readyz").status_code == 503
        threading.Timer(0.05, store.may_respond.set).start()
    assert not ready.is_set()
    app = create_app(Settings(data_dir=tmp_path), SQLiteStore(tmp_path), on_ready=ready.set)
    with TestClient(app, base_url="http://localhost") as client:
        assert ready.wait(DEADLINE_SECONDS)
        assert client.get("/readyz").json() == {"ready": True, "failed": []}


class BrokenStore(SQLiteStore):
    """A store that cannot be opened, or cannot be read."""

    def __init__(self, directory: Path, on_open: Exception | None, on_read: Exception | None) -> None:
        super().__init__(directory)
        self.on_open, self.on_read = on_open, on_read

    async def open(self) -> None:
        if self.on_open is not None:
            raise self.on_open
        await super().open()

    async def format(self) -> int:
        assert self.on_read is not None
        raise self.on_read


@pytest.mark.parametrize(
    ("on_open", "on_read"),
    [
        (StoreLocked(Path("data"), 4711), None),
        (None, StorageUnavailable("disk on fire", heals=False)),
        (None, ZeroDivisionError("a bug")),
    ],
    ids=["locked", "unreadable", "bug"],
)
def test_a_server_that_cannot_start_ends(
    tmp_path: Path, on_open: Exception | None, on_read: Exception | None, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = threading.Event()
    store = BrokenStore(tmp_path, on_open, on_read)
    app = create_app(Settings(data_dir=tmp_path), store, on_ready=pytest.fail, on_failure=failed.set)
    with TestClient(app, base_url="http://localhost") as client:
        assert failed.wait(DEADLINE_SECONDS)
        assert client.get("/readyz").status_code == 503
    printed = capsys.readouterr().out
    assert "cannot_start" in printed
    assert str(on_open or on_read) in printed


def test_two_applications_are_independent(serve: Any) -> None:
    with serve() as one, serve() as other:
        create(one, "a").join(create(other, "b"))
        assert [model["name"] for model in one.get("/v1/models").json()["models"]] == ["a"]
        assert 'model="b"' not in one.get("/metrics").text
        assert 'model="b"' in other.get("/metrics").text
