"""Tansu in a process of its own: a broker that speaks Kafka's protocol, with its topics in memory.

`make test-kafka` installs it; MANYLABEL_TEST_TANSU=path names another.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.server_process import free_port
from tests.support.waiting import DEADLINE_SECONDS, eventually

TANSU = os.environ.get("MANYLABEL_TEST_TANSU", ".venv-kafka/tansu")


class KafkaBroker:
    """A broker on a port of its own. Its topics end with its process, so it is not to be killed in a test."""

    def __init__(self, directory: Path) -> None:
        assert Path(TANSU).exists(), f"there is no {TANSU}: run make test-kafka"
        self.servers = f"127.0.0.1:{free_port()}"
        self._log = directory / "tansu.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process, until it answers."""
        address = f"tcp://{self.servers}"
        flags = ["--listener-url", address, "--advertised-listener-url", address, "--storage-engine", "memory://tansu/"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([TANSU, "broker", *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(lambda: "ready" in self._log.read_text(), otherwise=self._log.read_text)
        return self

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic."""
        import confluent_kafka.admin as kafka

        admin: Any = kafka.AdminClient({"bootstrap.servers": self.servers})
        for created in admin.create_topics([kafka.NewTopic(name, partitions, 1)]).values():
            created.result()

    def produce(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        """Add messages to a partition."""
        import confluent_kafka as kafka

        producer = kafka.Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(DEADLINE_SECONDS) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
