"""A damaged model is named and refused, and the other models serve."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from starlette.testclient import TestClient
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_service.app import create_app
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store
from manylabel_service.storage.sqlite.tables import NUMBER_BITS

UPDATE = {"x": {"a": 1.0}, "y": ["b"]}


@pytest.fixture(params=["sqlite", "redis"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    if request.param == "sqlite":
        return Settings(data_dir=tmp_path / "data")
    return Settings(data_dir=tmp_path / "data", store=request.getfixturevalue("redis_server").url)


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[TestClient]:
    ready = threading.Event()
    app = create_app(settings, open_store(settings), on_ready=ready.set)
    with TestClient(app, base_url="http://localhost") as client:
        assert ready.wait(DEADLINE_SECONDS)
        yield client


def damage_record(settings: Settings, name: str) -> None:
    """Spoil the spec of a model so that it is not even JSON."""
    if settings.store == "sqlite":
        with contextlib.closing(sqlite3.connect(settings.data_dir / "manylabel.sqlite3")) as connection, connection:
            connection.execute("UPDATE models SET spec = x'7b7b' || spec WHERE name = ?", (name,))
        return
    with redis.Redis.from_url(settings.store) as client:
        client.hset("ml:models", name, client.hget("ml:models", name).replace(b"{", b"[", 1))


def damage_log(settings: Settings, name: str) -> None:
    """Lose the third entry of a model, and its snapshots with it."""
    if settings.store == "sqlite":
        with contextlib.closing(sqlite3.connect(settings.data_dir / "manylabel.sqlite3")) as connection, connection:
            ((number,),) = connection.execute("SELECT incarnation FROM models WHERE name = ?", (name,))
            connection.execute("DELETE FROM entries WHERE key = ?", ((number << NUMBER_BITS) + 3,))
            connection.execute("DELETE FROM documents WHERE kind = 'snapshots' AND name = ?", (str(number),))
        return
    with redis.Redis.from_url(settings.store) as client:
        number = client.hget("ml:models", name).split()[0].decode()
        log = f"ml:{{{name}.{number}}}:log"
        client.xdel(log, client.xrange(log)[2][0])
        client.hdel("ml:{documents}:values:snapshots", number)
        client.zrem("ml:{documents}:order:snapshots", number)


@pytest.mark.parametrize("damage", [damage_record, damage_log])
def test_a_damaged_model_is_refused_and_the_others_serve(
    settings: Settings, damage: Callable[..., None], refused: Callable[..., Any], capsys: Any
) -> None:
    with serving(settings) as client:
        for name in ("bad", "good"):
            client.post("/v1/models", json={"name": name, "algorithm": "falt"}).raise_for_status()
            for _ in range(5):
                client.post(f"/v1/models/{name}/update", json=UPDATE).raise_for_status()
        answer = client.post("/v1/models/good/predict", json={"x": {"a": 1.0}}).json()
    damage(settings, "bad")
    capsys.readouterr()
    with serving(settings) as client:
        eventually(lambda: client.get("/readyz").json() == {"ready": True, "failed": ["bad"]})
        assert "\nmanylabel_failed_models 1.0\n" in client.get("/metrics").text
        assert [line for line in capsys.readouterr().out.splitlines() if "model_damaged" in line and "bad" in line]
        problem = refused(client.get("/v1/models/bad"), 500, "model_damaged")
        assert "'bad' is damaged" in problem["detail"]
        refused(client.post("/v1/models/bad/predict", json={"x": {"a": 1.0}}), 500, "model_damaged")
        refused(client.post("/v1/models/bad/update", json=UPDATE), 500, "model_damaged")
        assert [model["name"] for model in client.get("/v1/models").json()["models"]] == ["good"]
        assert client.post("/v1/models/good/predict", json={"x": {"a": 1.0}}).json() == answer
        client.post("/v1/models/good/update", json=UPDATE).raise_for_status()
        refused(client.post("/v1/models", json={"name": "bad", "algorithm": "falt"}), 409, "model_exists")
        assert client.delete("/v1/models/bad").status_code == 204
        assert client.get("/readyz").json()["failed"] == []
        client.post("/v1/models", json={"name": "bad", "algorithm": "falt"}).raise_for_status()
        client.post("/v1/models/bad/update", json=UPDATE).raise_for_status()
