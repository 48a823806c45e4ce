"""The broker that librdkafka has for its own tests: in this process, with groups that rebalance, topics in memory."""

import json
from collections.abc import Sequence
from typing import Any

from tests.support.waiting import DEADLINE_SECONDS

N_PARTITIONS = 4
"""Number of partitions of each topic: topics are created when they are used."""


class MockKafka:
    """A broker, which ends with this object; other processes may use it.

    Attributes
    ----------
    address : its address.
    """

    def __init__(self) -> None:
        import confluent_kafka as kafka

        self._kafka = kafka
        self._cluster = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
        (broker,) = self._cluster.list_topics(timeout=DEADLINE_SECONDS).brokers.values()
        self.address = f"{broker.host}:{broker.port}"
        self._producer = kafka.Producer(self._settings())

    def _settings(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, "log_level": 0, **more}

    def produce(
        self, topic: str, partition: int, values: Sequence[bytes | None], headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Add messages to a partition."""
        for value in values:
            self._producer.produce(topic, value, partition=partition, headers=list(headers))
        assert self._producer.flush(DEADLINE_SECONDS) == 0

    def committed(self, topic: str, group: str) -> dict[int, int]:
        """Return the committed offsets of a group; partitions without one are missing."""
        consumer = self._kafka.Consumer(self._settings(**{"group.id": group}))
        partitions = [self._kafka.TopicPartition(topic, number) for number in range(N_PARTITIONS)]
        try:
            found = consumer.committed(partitions, timeout=DEADLINE_SECONDS)
        finally:
            consumer.close()
        return {one.partition: one.offset for one in found if one.offset >= 0}

    def read(self, topic: str) -> list[Any]:
        """Return the messages that a topic has, by partition."""
        consumer = self._kafka.Consumer(self._settings(**{"group.id": "reader", "enable.partition.eof": True}))
        consumer.assign([self._kafka.TopicPartition(topic, number, 0) for number in range(N_PARTITIONS)])
        found, ends = [], 0
        while ends < N_PARTITIONS:
            for one in consumer.consume(100, timeout=0.1):
                ends += one.error() is not None
                found += [one] if one.error() is None else []
        consumer.close()
        return sorted(found, key=lambda one: (one.partition(), one.offset()))


def example(x: Any, y: Any, **more: Any) -> bytes:
    """Return a message with an example."""
    return json.dumps({"x": x, "y": y, **more}).encode()
