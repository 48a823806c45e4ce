"""A server whose Redis is not there yet lives, waits, and gets ready by itself."""

import threading
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_core.kernels import Counts
from manylabel_service.app import create_app
from manylabel_service.errors import StoreUnusable
from manylabel_service.hosting import hosted_model
from manylabel_service.hosting.kernels import BASE, Gate, Kernels
from manylabel_service.models import log_watcher
from manylabel_service.settings import Settings
from manylabel_service.storage import Address
from manylabel_service.storage.redis import RedisStore


def app_on(url: str, ready: threading.Event, failed: threading.Event, kernels: Kernels | None = None) -> Any:
    store = RedisStore(Address.parse(url), timeout_seconds=DEADLINE_SECONDS)
    return create_app(Settings(store=url), store, kernels=kernels, on_ready=ready.set, on_failure=failed.set)


def test_a_server_waits_for_its_redis(redis_server: Any, refused: Callable[..., Any]) -> None:
    redis_server.stop()
    ready, failed = threading.Event(), threading.Event()
    with TestClient(
        app_on(redis_server.url, ready, failed), base_url="http://localhost", raise_server_exceptions=False
    ) as client:
        assert client.get("/livez").status_code == 200
        refused(client.get("/readyz"), 503, "not_ready")
        refused(client.get("/v1/models/m"), 503, "not_ready")
        assert not ready.wait(0.5)
        assert not failed.is_set()
        redis_server.start()
        assert ready.wait(DEADLINE_SECONDS)
        assert client.get("/readyz").status_code == 200
        client.post("/v1/models", json={"name": "m", "algorithm": "falt"}).raise_for_status()
        client.post("/v1/models/m/update", json={"x": {"a": 1}, "y": ["b"]}).raise_for_status()
    assert not failed.is_set()


def test_long_compilation_does_not_count_as_a_lost_store(redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def load_for_a_minute(tiers: Sequence[str]) -> None:
        nonlocal now
        now += 60.0 if tiers == (BASE,) else 0.0

    monkeypatch.setattr(hosted_model, "time", types.SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(log_watcher, "WAIT_SECONDS", 3_600.0)  # it has nothing to tell yet
    ready = threading.Event()
    kernels = Kernels(Gate(), lambda tiers: Counts(1, 1), load_for_a_minute)
    app = app_on(redis_server.url, ready, threading.Event(), kernels)
    with TestClient(app, base_url="http://localhost") as client:
        assert ready.wait(DEADLINE_SECONDS)
        assert now == 60.0
        assert "storage_gone_seconds" not in client.get("/readyz").json()


def test_a_waiting_server_can_be_stopped(redis_server: Any) -> None:
    redis_server.stop()
    with TestClient(
        app_on(redis_server.url, threading.Event(), threading.Event()), base_url="http://localhost"
    ) as client:
        assert client.get("/livez").status_code == 200


def test_an_unusable_store_ends_the_server(redis_server: Any, monkeypatch: Any, tmp_path: Path) -> None:
    async def unusable(self: Any) -> None:
        raise StoreUnusable("this Redis throws keys away")

    monkeypatch.setattr(RedisStore, "open", unusable)
    ready, failed = threading.Event(), threading.Event()
    with TestClient(app_on(redis_server.url, ready, failed), base_url="http://localhost"):
        assert failed.wait(DEADLINE_SECONDS)
    assert not ready.is_set()
