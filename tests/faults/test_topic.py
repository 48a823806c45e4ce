"""The worked example learns a topic exactly once although its consumer and the server are killed."""

import importlib.util
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.support.redis_server import RedisServer
from tests.support.server_process import ServerProcess
from tests.support.waiting import DEADLINE_SECONDS, eventually
from tests.support.worked_examples import EXAMPLES

from manylabel_clients import Client, Model

FILE = EXAMPLES["topic_exactly_once.py"]
_found = importlib.util.spec_from_file_location(FILE.stem, FILE)
assert _found is not None
assert _found.loader is not None
topic: Any = importlib.util.module_from_spec(_found)
_found.loader.exec_module(topic)

PART = 120
DAMAGED = 25
"""The offset of a message that is no example."""


class Consumer:
    """A consumer of partition 0 in a process of its own, as one runs it."""

    def __init__(self, source: str, server: ServerProcess) -> None:
        self._command = [sys.executable, str(FILE), source, "0", str(3 * PART - 1)]
        self._environment = {**os.environ, "MANYLABEL_URL": server.url}
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env=self._environment)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Wait until it ends; return its status."""
        return self._process.wait(DEADLINE_SECONDS)


def test_a_topic_is_learnt_exactly_once_despite_kills(
    redis_server: RedisServer, server_process: Callable[..., ServerProcess]
) -> None:
    source = redis_server.url
    rng = random.Random(0)
    messages = [topic.new_message(rng) for _ in range(3 * PART)]
    values = [json.dumps(message).encode() for message in messages]
    values[DAMAGED] = b"{"
    server = server_process().start()
    with Client(server.url) as client:
        model = client.create_model(topic.MODEL, text={"fields": ["text"]})
        partition = topic.Partition(source, 0)

        consumer = Consumer(source, server)
        partition.write(values[:PART])
        eventually(lambda: updates(model) > PART // 4)
        consumer.kill()

        consumer.start()
        eventually(lambda: updates(model) == PART - 1)
        server.kill()
        partition.write(values[PART : 2 * PART])
        assert consumer.wait() == 1  # it has read these, and has given up on the server
        server.start()

        consumer.start()
        partition.write(values[2 * PART :])
        eventually(lambda: updates(model) > 2 * PART + PART // 4)
        consumer.kill()
        server.kill()
        partition.commit(PART // 2)  # later commits count as lost
        server.start()

        consumer.start()
        assert consumer.wait() == 0

        clean = client.create_model("clean", text={"fields": ["text"]})
        examples = [(message["x"], message["y"]) for message in messages]
        clean.update_many(examples[:DAMAGED] + examples[DAMAGED + 1 :])
        assert updates(model) == updates(clean) == 3 * PART - 1
        assert model.metrics() == clean.metrics()
        assert model.labels().labels == clean.labels().labels
        asked = [topic.new_message(rng)["x"] for _ in range(50)]
        assert scores(model, asked) == scores(clean, asked)  # to the last bit


def updates(model: Model) -> int:
    return model.status().updates  # type: ignore[union-attr]


def scores(model: Model, asked: list[Any]) -> list[Any]:
    return [guess.scores for guess in model.predict_many(asked)]
