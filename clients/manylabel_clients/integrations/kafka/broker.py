"""The consumer group of a topic of Kafka, and the topic of dead letters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from manylabel_clients.integrations.kafka.messages import Message, Refusal
from manylabel_extras import require

require(__name__, "topics")

import confluent_kafka as kafka
from confluent_kafka.admin import AdminClient

TIMEOUT_SECONDS = 30.0
"""Timeout of a call of the broker."""
SETTLE_SECONDS = 0.02
"""Maximum seconds to wait for further messages after the first one of a batch."""
_LOGGING: Mapping[str, Any] = {"client.id": "manylabel", "log_level": 2}
"""Default settings of all clients, which also report errors to a callback."""
HEADER = "manylabel."
"""Prefix of the headers of a dead letter."""
_GONE = {
    kafka.KafkaError.ILLEGAL_GENERATION,
    kafka.KafkaError.UNKNOWN_MEMBER_ID,
    kafka.KafkaError.REBALANCE_IN_PROGRESS,
    kafka.KafkaError._NO_OFFSET,
}
"""Errors of a commit if another consumer now reads the partitions."""
_LASTING = {
    kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
    kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    kafka.KafkaError.GROUP_AUTHORIZATION_FAILED,
    kafka.KafkaError.TOPIC_EXCEPTION,
}
"""Permanent errors: waiting does not help."""


class KafkaFailed(Exception):
    """The broker rejects the consumer, or its settings are invalid; the command cannot continue."""


@contextmanager
def _failing(what: str) -> Iterator[None]:
    try:
        yield
    except (kafka.KafkaException, TypeError, ValueError) as error:
        cause = error.args[0] if error.args else error
        raise KafkaFailed(f"{what}: {cause.str() if isinstance(cause, kafka.KafkaError) else cause}") from error


class Topic:
    """Topic that one consumer of a group reads. Offsets are committed by `commit` only.

    Parameters
    ----------
    name : the topic.
    group : the consumer group.
    settings : settings of librdkafka, with ``bootstrap.servers``.
    note : called with a line about each transient error.

    Raises
    ------
    KafkaFailed
        If the broker does not respond, or has no such topic.
    """

    def __init__(self, name: str, group: str, settings: Mapping[str, Any], note: Any) -> None:
        self.name, self._note = name, note
        self._ended: set[int] = set()
        self._last_line = ""
        with _failing("settings of Kafka"):
            self._consumer = kafka.Consumer(
                {
                    "auto.offset.reset": "earliest",
                    **_LOGGING,
                    **settings,
                    "group.id": group,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,
                    "error_cb": self._noted,
                }
            )
        with _failing(f"topic {name}"):
            metadata = self._consumer.list_topics(name, timeout=TIMEOUT_SECONDS).topics[name]
            if metadata.error is not None:
                raise kafka.KafkaException(metadata.error)
            self.n_partitions = len(metadata.partitions)
            self._consumer.subscribe([name], on_assign=self._assigned)

    def _noted(self, error: Any) -> None:
        if (line := f"Kafka: {error.str()}") != self._last_line:
            self._last_line = line
            self._note(line)

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._ended.clear()

    def read(self, most: int, seconds: float) -> list[Message]:
        """Return the next messages; an empty list if none arrives in time. Raises KafkaFailed."""
        first = self._consumer.poll(seconds)
        if first is None:
            return []
        found = [first, *self._consumer.consume(most - 1, timeout=SETTLE_SECONDS)] if most > 1 else [first]
        return [_message(one) for one in found if self._is_message(one)]

    def _is_message(self, found: Any) -> bool:
        error = found.error()
        if error is None:
            self._ended.discard(found.partition())
            return True
        if error.code() == kafka.KafkaError._PARTITION_EOF:
            self._ended.add(found.partition())
        elif error.fatal() or error.code() in _LASTING:
            raise KafkaFailed(f"topic {self.name}: {error.str()}")
        else:
            self._noted(error)
        return False

    @property
    def has_ended(self) -> bool:
        """Return whether all messages of the partitions of this consumer were read."""
        mine = {one.partition for one in self._consumer.assignment()}
        return bool(mine) and mine <= self._ended

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit the offset of the next message of each partition. Raises KafkaFailed.

        If another consumer has taken over a partition, it reads the messages again, but nothing is learnt twice.
        """
        reached = [kafka.TopicPartition(self.name, partition, offset) for partition, offset in offsets.items()]
        with _failing("commit"):
            try:
                found = self._consumer.commit(offsets=reached, asynchronous=False)
                errors: list[Any] = [one.error for one in found if one.error is not None]
            except kafka.KafkaException as error:
                errors = [error.args[0]]
            for one in errors:
                if one.code() not in _GONE and not one.retriable():
                    raise kafka.KafkaException(one)
        if errors:
            self._note(f"not committed: {errors[0].str()}; these messages will be read again, but not learnt twice")

    def lag(self) -> dict[int, int]:
        """Return the number of messages after the position of this consumer, by partition."""
        lag = {}
        for one in self._consumer.position(self._consumer.assignment()):
            _, end = self._consumer.get_watermark_offsets(one, cached=True)
            if one.offset >= 0 and end >= 0:
                lag[one.partition] = max(0, end - one.offset)
        return lag

    def close(self) -> None:
        """Leave the group, and end the connections."""
        self._consumer.close()


class DeadLetters:
    """A topic for messages that cannot be learnt. Threads may share it.

    A dead letter has the key, the value and the headers of the message, and headers that begin with ``manylabel.``:
    ``code``, ``error``, ``topic``, ``partition``, ``offset`` and, if known, ``model``.
    """

    def __init__(self, name: str, source: str, settings: Mapping[str, Any]) -> None:
        self._name, self._source = name, source
        producer = {key: value for key, value in settings.items() if key not in _OF_CONSUMERS}
        with _failing("settings of Kafka"):
            self._producer = kafka.Producer({**_LOGGING, **producer, "acks": "all"})

    def send(self, refusals: Iterable[Refusal]) -> None:
        """Send messages, and wait until the broker has stored them. Raises KafkaFailed."""
        errors: list[Any] = []

        def sent(error: Any, _: Any) -> None:
            if error is not None:
                errors.append(error)

        with _failing(f"topic {self._name}"):
            for one in refusals:
                value, key, headers = one.message.value, one.message.key, self._headers(one)
                self._producer.produce(self._name, value, key, headers=headers, on_delivery=sent)
            left = self._producer.flush(TIMEOUT_SECONDS)
            if errors:
                raise kafka.KafkaException(errors[0])
        if left:
            raise KafkaFailed(f"topic {self._name}: no response in {TIMEOUT_SECONDS:.0f} s")

    def _headers(self, refusal: Refusal) -> list[tuple[str, str | bytes | None]]:
        message = refusal.message
        own = {
            "code": refusal.code,
            "error": refusal.detail,
            "topic": self._source,
            "partition": str(message.partition),
            "offset": str(message.offset),
            "model": refusal.model,
        }
        added = [(HEADER + name, value.encode(errors="replace")) for name, value in own.items() if value is not None]
        return [*message.headers, *added]


_OF_CONSUMERS = {
    "auto.offset.reset",
    "fetch.min.bytes",
    "fetch.wait.max.ms",
    "group.instance.id",
    "isolation.level",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
}
"""Settings of consumers only; a producer would warn about them."""


def _message(found: Any) -> Message:
    return Message(found.partition(), found.offset(), found.value(), found.key(), tuple(found.headers() or ()))


def topic_id(topic: str, settings: Mapping[str, Any]) -> str:
    """Return the id of a topic, which differs for a later topic of the same name; empty if the broker has no ids of
    topics.

    Raises
    ------
    KafkaFailed
        If the broker does not respond.
    """
    with _failing(f"topic {topic}"):
        admin = AdminClient({**_LOGGING, **{key: value for key, value in settings.items() if key not in _OF_CONSUMERS}})
        found = admin.describe_topics(kafka.TopicCollection([topic]), request_timeout=TIMEOUT_SECONDS)[topic]
        try:
            return str(found.result().topic_id or "")
        except kafka.KafkaException as error:
            if error.args[0].code() != kafka.KafkaError._UNSUPPORTED_FEATURE:
                raise
            return ""
