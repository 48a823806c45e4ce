"""Servers as processes: what an acknowledged update survives, and who sees it. tests/faults has the many ways."""

import threading
from collections.abc import Callable
from typing import Any

from tests.support.redis_server import RedisServer
from tests.support.server_process import ServerProcess
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_clients import Client, ConnectionFailed, Retry

Start = Callable[..., ServerProcess]
ACKNOWLEDGED = 60
"""Number of acknowledged updates before the kill."""


def example(number: int) -> tuple[dict[str, float], list[str]]:
    return {f"own {number}": 1.0, f"common {number % 7}": number % 3}, [f"label {number % 5}"]


class Sender(threading.Thread):
    """Sends updates, one after the other, until the server is gone; `positions` has those acknowledged."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.positions: list[str] = []
        self.enough = threading.Event()
        self._url = url

    def run(self) -> None:
        with Client(self._url, retry=Retry(attempts=1), timeout=DEADLINE_SECONDS) as client:
            model = client.model("m")
            while True:
                x, y = example(number := len(self.positions))
                try:
                    answer = model.update(x, y, key=f"update-{number}")
                except ConnectionFailed:
                    return
                self.positions.append(answer.position)
                if len(self.positions) == ACKNOWLEDGED:
                    self.enough.set()


def test_no_acknowledged_update_is_lost_when_a_server_is_killed(start_server: Start) -> None:
    server = start_server("--snapshot-every-updates", "40")
    with Client(server.url) as client:
        client.create_model("m", algorithm="falt")
    sender = Sender(server.url)
    sender.start()
    assert sender.enough.wait(DEADLINE_SECONDS), server.log_tail()
    server.kill()
    sender.join(DEADLINE_SECONDS)
    server.start()
    with Client(server.url) as client:
        model = client.model("m")
        restored = model.status()
        # The last update may have been stored without a response.
        assert restored.updates - len(sender.positions) in (0, 1)
        # Each is in the log at its acknowledged position: a retry returns this position, and is not learnt again.
        again = [
            model.update(*example(number), key=f"update-{number}").position for number in range(len(sender.positions))
        ]
        assert again == sender.positions
        assert model.status().updates == restored.updates
        _same_as_never_killed(client, restored.updates)


def _same_as_never_killed(client: Client, n_updates: int) -> None:
    """Another model that learns the same without a kill predicts the same, to the bit."""
    other = client.create_model("other", algorithm="falt")
    for number in range(n_updates):
        other.update(*example(number))
    asked = [example(number)[0] for number in range(n_updates)]
    assert _scores(client, "m", asked) == _scores(client, "other", asked)


def _scores(client: Client, name: str, asked: list[dict[str, float]]) -> list[Any]:
    return [(each.scores, each.threshold) for each in client.model(name).predict_many(asked)]


def test_an_update_through_one_server_is_seen_by_the_other(start_server: Start, redis: RedisServer) -> None:
    one, two = (start_server("--store", redis.url) for _ in range(2))
    with Client(one.url) as client, Client(two.url) as other:
        models = client.create_model("m", algorithm="falt"), other.model("m")
        models[0].update({"a": 1.0}, ["p"])
        eventually(lambda: "m" in [each.name for each in other.models()])
        models[1].predict({"a": 1.0})  # both servers have the model now, and hear of what the other one appends
        for writer, reader, labels in ((*models, {"p", "q"}), (*reversed(models), {"p", "q", "r"})):
            writer.update({"a": 1.0}, sorted(labels))
            eventually(lambda reader=reader, labels=labels: reader.predict({"a": 1.0}).scores.keys() == labels)
        assert _scores(client, "m", [{"a": 1.0}]) == _scores(other, "m", [{"a": 1.0}])
        assert [model.status().updates for model in models] == [3, 3]
