"""The same disaster with the archive in a bucket of a real S3 server."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.test_disaster import Load, lag_seconds, restore
from tests.support.s3_server import S3Server
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

from manylabel_clients import Client
from manylabel_service.storage.places import open_place
from manylabel_service.storage.places.place import ObjectMissing, PlaceUnavailable

pytestmark = pytest.mark.archive


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server.start()


def set_environment(monkeypatch: pytest.MonkeyPatch, s3: S3Server) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)


async def test_an_object_is_created_once(s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_environment(monkeypatch, s3)
    place = open_place(f"{s3.address}/place")
    file = tmp_path / "file"
    file.write_bytes(bytes(12_000_000))
    assert await place.put("a/b", b"first")
    assert not await place.put("a/b", b"second")
    assert await place.get("a/b") == b"first"
    assert await place.put("a/large", file)
    await place.fetch("a/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == bytes(12_000_000)
    assert sorted(await place.keys("a/")) == ["a/b", "a/large"]
    await place.delete("a/b")
    await place.delete("a/b")
    with pytest.raises(ObjectMissing):
        await place.get("a/b")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PlaceUnavailable) as refused:
        await open_place(s3.address).get("a/large")
    assert "wrong" not in str(refused.value)


def test_a_lost_disk_is_restored_from_a_bucket(
    s3: S3Server, server_process: Callable[..., ServerProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_environment(monkeypatch, s3)
    flags = ("--archive", f"{s3.address}/disaster", "--archive-seconds", "0.5")
    server = server_process(*flags, environment=s3.environment)
    server.start()
    with Client(server.url) as client:
        client.create_model("m", algorithm="falt")
    load = Load(server.url)
    eventually(lambda: len(load.acknowledged) > 100)
    asked_at, lag = time.monotonic(), lag_seconds(server.url)
    assert lag is not None
    server.kill()
    load.join()
    shutil.rmtree(server.data_dir)
    new_dir = tmp_path / "restored"
    restore(f"{s3.address}/disaster", new_dir)
    again = server_process(*flags, data_dir=new_dir, environment=s3.environment)
    again.start()
    load.check(again.url, asked_at - lag)
