"""The disk of a server under load is lost, and its store is restored elsewhere from the archive."""

import re
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked_server import finished
from tests.support.waiting import eventually

from manylabel_clients import Client, ConnectionFailed, Retry, Unavailable


class Load:
    """A client that sends updates, each with a key and a feature of its own, until the server is gone."""

    def __init__(self, url: str) -> None:
        self.acknowledged: dict[str, tuple[float, str]] = {}
        """By key: when the response came, by the monotonic clock, and the position."""
        self._url = url
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        with Client(self._url, retry=Retry(attempts=1), timeout=60) as client:
            model = client.model("m")
            for n in range(1_000_000):
                key = f"update-{n}"
                try:
                    position = model.update({key: 1.0, f"common {n % 7}": n % 3}, [f"label {n % 5}"], key=key).position
                except (ConnectionFailed, Unavailable):
                    return
                self.acknowledged[key] = time.monotonic(), position

    def join(self) -> None:
        """Wait until the server is gone."""
        self._thread.join(120)

    def check(self, url: str, shipped_at: float) -> None:
        """Check a restored server: it has all that was acknowledged up to a time, nothing twice, and knows retries."""
        with Client(url, timeout=60) as client:
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
    done = finished("manylabel_service.archive", "restore", "--from", archive, "--data-dir", str(data_dir), *flags)
    assert done.returncode == 0, done.stderr


def lag_seconds(url: str) -> float | None:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        found = re.search(r"^manylabel_archive_lag_seconds(?:\{.*\})? (\S+)$", answer.read().decode(), re.MULTILINE)
    return None if found is None else float(found[1])


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_what_was_archived_is_there_again_and_a_retry_is_recognised(
    kind: str, server_process: Callable[..., Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    archive = f"file://{tmp_path}/archive"
    server = server_process("--archive", archive, "--archive-seconds", "0.2", "--snapshot-every-updates", "50")
    server.start()
    with Client(server.url) as client:
        client.create_model("m", algorithm="falt")
    load = Load(server.url)
    eventually(lambda: len(load.acknowledged) > 200)
    asked_at = time.monotonic()
    lag = lag_seconds(server.url)
    assert lag is not None
    server.kill()
    load.join()
    shutil.rmtree(server.data_dir)

    target = ["--store", request.getfixturevalue("redis_server").url] if kind == "redis" else []
    new_dir = tmp_path / "restored"
    restore(archive, new_dir, *target)
    again = server_process("--archive", archive, "--archive-seconds", "0.2", *target, data_dir=new_dir)
    again.start()
    load.check(again.url, asked_at - lag)
    eventually(lambda: lag_seconds(again.url) is not None)
