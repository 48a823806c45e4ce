"""kill -9 while the log moves into the history: it has every acknowledged update once, with the right state."""

import random
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_clients import Client, ConnectionFailed, Retry

WIDTH = 12_000
"""Numbers of an example: some 48 kB, so that 90 of them fill a segment."""

FLAGS = ("--snapshot-every-updates", "25", "--snapshot-retention-count", "2")


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_the_history_has_each_acknowledged_update_once(
    kind: str, server_process: Callable[..., Any], request: Any
) -> None:
    on_redis = ("--store", request.getfixturevalue("redis_server").url) if kind == "redis" else ()
    server = server_process(*FLAGS, *on_redis)
    server.start()
    rng = random.Random(7)
    acknowledged: dict[int, str] = {}
    n = 0
    for turn in range(5):
        with Client(server.url, retry=Retry(attempts=1), timeout=DEADLINE_SECONDS) as client:
            if turn == 0:
                client.create_model("m", algorithm="falt", features=WIDTH)
            model = client.model("m")
            last = n + 60 + rng.randrange(60)
            while n < last:
                n += 1
                x = [0.0] * WIDTH
                x[n] = float(n)
                acknowledged[n] = model.update(x, [f"l{n % 5}"], key=f"k{n}").position
                if n == last - 1:
                    server.kill()
                    with pytest.raises(ConnectionFailed):
                        model.update(x, ["lost"])
                    break
        server.start()
    with Client(server.url, timeout=DEADLINE_SECONDS) as client:
        model = client.model("m")
        found: dict[int, str] = {}
        after = None
        while entries := model.log(after, limit=20):
            after = entries[-1]["position"]
            for entry in entries:
                assert entry["kind"] == "update"
                (example,) = entry["examples"]
                number = int(max(example["x"]))
                assert number not in found
                found[number] = entry["position"]
        assert found == acknowledged
        model.take_snapshot()
        sizes = [float(line.split()[1]) for line in _metrics(server.url) if line.startswith("manylabel_history_bytes{")]
        assert max(sizes) > 1_000, "segments were closed"
        for number in rng.sample(sorted(acknowledged), 3):
            fork = client.fork_model(f"f{number}", "m", at=acknowledged[number])
            assert fork.status().updates == sorted(acknowledged).index(number) + 1
            fork.delete()


def _metrics(url: str) -> list[str]:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text: str = answer.read().decode()
    return text.splitlines()
