"""The disk of a server under load is lost, and its store is restored elsewhere from the archive."""

import json
import re
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.faults.training import FLAGS, JobClient, job_request
from tests.support.forked_server import finished
from tests.support.redis_server import RedisServer
from tests.support.s3_server import S3Server
from tests.support.server_process import ServerProcess
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_clients import Client, ConnectionFailed, Retry, Unavailable
from manylabel_service.storage.places import open_place
from manylabel_service.storage.places.place import ObjectMissing

Make = Callable[..., ServerProcess]

ARCHIVE = "manylabel_service.archive"


class Load:
    """A client that sends updates, each with a key and a feature of its own, until the server is gone."""

    def __init__(self, url: str) -> None:
        self.acknowledged: dict[str, tuple[float, str]] = {}
        """By key: when the response came, by the monotonic clock, and the position."""
        self._url = url
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        with Client(self._url, retry=Retry(attempts=1), timeout=DEADLINE_SECONDS) as client:
            model = client.model("m")
            for n in range(1_000_000):
                key = f"update-{n}"
                try:
                    position = model.update({key: 1.0, f"common {n % 7}": n % 3}, [f"label {n % 5}"], key=key).position
                except (ConnectionFailed, Unavailable):
                    return
                self.acknowledged[key] = time.monotonic(), position

    def shipped_at(self, url: str) -> float | None:
        """Return when the last complete pass began, once that is after many updates."""
        asked_at, lag = time.monotonic(), lag_seconds(url)
        begin = None if lag is None else asked_at - lag
        due = [at for at, _ in list(self.acknowledged.values()) if begin is not None and at <= begin]
        return begin if len(due) > 100 else None

    def join(self) -> None:
        """Wait until the server is gone."""
        self._thread.join(120)

    def check(self, url: str, shipped_at: float) -> None:
        """Check a restored server: it has all that was acknowledged up to a time, nothing twice, and knows retries."""
        with Client(url, timeout=DEADLINE_SECONDS) as client:
            model = client.model("m")
            found: dict[str, str] = {}
            after = None
            while entries := model.log(after, limit=100):
                after = entries[-1]["position"]
                for entry in entries:
                    (key,) = (name for name in entry["examples"][0]["x"] if name.startswith("update-"))
                    assert key not in found, "nothing twice"
                    found[key] = entry["position"]
            due = {key: position for key, (at, position) in self.acknowledged.items() if at <= shipped_at}
            assert due, "a pass was complete by then"
            assert due.items() <= found.items(), "what was acknowledged before the last complete pass is there"
            key, position = list(found.items())[-1]
            retried = model.update(
                {key: 1.0, f"common {int(key[7:]) % 7}": int(key[7:]) % 3}, [f"label {int(key[7:]) % 5}"], key=key
            )
            assert (retried.replayed, retried.position) == (True, position)
            assert model.update({"new": 1.0}, ["label 1"]).updates == len(found) + 1


def restore(archive: str, data_dir: Path, *flags: str) -> None:
    done = finished(ARCHIVE, "restore", "--from", archive, "--data-dir", str(data_dir), *flags)
    assert done.returncode == 0, done.stderr


def lag_seconds(url: str) -> float | None:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        found = re.search(r"^manylabel_archive_lag_seconds(?:\{.*\})? (\S+)$", answer.read().decode(), re.MULTILINE)
    return None if found is None else float(found[1])


class Archive(NamedTuple):
    """Place to which a server archives."""

    address: str
    environment: Mapping[str, str]


def in_directory(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    return Archive(f"file://{tmp_path}/archive", {})


def in_bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    s3 = request.getfixturevalue("s3")
    return Archive(f"{s3.address}/{tmp_path.name}", s3.environment)


ARCHIVES = [pytest.param(in_directory, id="file"), pytest.param(in_bucket, id="s3", marks=pytest.mark.archive)]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server.start()


@pytest.fixture
def archive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    made: Archive = request.param(request, tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.parametrize("archive", ARCHIVES, indirect=True)
def test_archived_updates_are_restored_and_retries_recognised(
    archive: Archive, server_process: Make, tmp_path: Path
) -> None:
    flags = ("--archive", archive.address, "--archive-seconds", "0.2")
    environment = archive.environment
    server = server_process(*flags, "--snapshot-every-updates", "50", environment=environment)
    server.start()
    with Client(server.url) as client:
        client.create_model("m", algorithm="falt")
    load = Load(server.url)
    shipped_at = eventually(lambda: load.shipped_at(server.url))
    server.kill()
    load.join()
    shutil.rmtree(server.data_dir)

    new_dir = tmp_path / "restored"
    restore(archive.address, new_dir)
    again = server_process(*flags, data_dir=new_dir, environment=environment)
    again.start()
    load.check(again.url, shipped_at)
    eventually(lambda: lag_seconds(again.url) is not None)


def test_datasets_versions_webhooks_and_keys_are_restored(
    server_process: Make, redis_server: RedisServer, tmp_path: Path
) -> None:
    """A server that is stopped archives everything before it exits; here it is restored into another kind of store."""
    address = f"file://{tmp_path}/archive"
    flags = (*FLAGS, "--archive", address, "--webhook-urls", "http://127.0.0.1:9")
    server = server_process(*flags).start()
    with JobClient(server.url) as client:
        client.upload()
        assert client.ended(client.submit(job_request("trained", 200)))
        hook = {"url": "http://127.0.0.1:9/hook", "events": ["promoted"]}
        client.call("POST", "/v1/webhooks", json=hook)
        wanted = {"name": "first", "scopes": ["admin", "predict", "learn", "export"]}
        client.http.headers["api-key"] = client.call("POST", "/v1/keys", json=wanted).json()["key"]
        before = what_is_there(client)
        headers = dict(client.http.headers)
    server.stop()
    shutil.rmtree(server.data_dir)

    target = ["--store", redis_server.url]
    new_dir = tmp_path / "restored"
    restore(address, new_dir, *target)
    again = server_process(*flags, *target, data_dir=new_dir).start()
    with JobClient(again.url) as client:
        assert client.http.get(f"{again.url}/v1/models").status_code == 401, "it is closed"
        client.http.headers["api-key"] = headers["api-key"]
        assert what_is_there(client) == before
        assert client.ended(client.submit(job_request("trained", 100))), "jobs find the dataset"
        assert [each["version"] for each in client.versions("trained")] == [2, 1]


def what_is_there(client: JobClient) -> dict[str, Any]:
    """Return what a restore brings back, but for what is measured from then on."""
    datasets = client.call("GET", "/v1/datasets").json()["datasets"]
    webhooks = client.call("GET", "/v1/webhooks").json()["webhooks"]
    probe = {"examples": [{"x": [n / 60] * 60} for n in range(5)]}
    return {
        "datasets": datasets,
        "version": client.version("trained"),
        "versions": [{**each, "position": None} for each in client.versions("trained")],
        "predictions": client.call("POST", "/v1/models/trained/predict", json=probe).json()["predictions"],
        "webhooks": [{name: each[name] for name in ("id", "url", "events", "models")} for each in webhooks],
        "keys": client.call("GET", "/v1/keys").json()["keys"],
    }


@pytest.mark.parametrize("archive", ARCHIVES, indirect=True)
async def test_an_object_is_created_once(archive: Archive, tmp_path: Path) -> None:
    place = open_place(archive.address)
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


@pytest.mark.archive
def test_wrong_credentials_are_reported_and_change_nothing(
    s3: S3Server, server_process: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {**s3.environment, "AWS_SECRET_ACCESS_KEY": "not-the-secret"}
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    done = finished(ARCHIVE, "restore", "--from", s3.address, "--data-dir", str(tmp_path / "restored"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the archive s3://" in done.stderr
    assert "not-the-secret" not in done.stderr
    server = server_process("--archive", f"{s3.address}/wrong", "--archive-seconds", "0.2", environment=wrong).start()
    with Client(server.url) as client:
        model = client.create_model("m", algorithm="falt")
        eventually(lambda: "archive_unavailable" in server.log_tail())
        assert model.update({"a": 1.0}, ["x"]).updates == 1, "updates go on"
        with urllib.request.urlopen(f"{server.url}/readyz") as answer:
            assert "the archive s3://" in json.loads(answer.read())["archive_error"]
    assert "not-the-secret" not in server.log_tail()
