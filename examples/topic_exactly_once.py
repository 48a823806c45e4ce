"""Learn the messages of a topic, each exactly once, even if consumers or servers are killed.

A consumer commits its offset after the model has learnt, so uncommitted messages are delivered again after it is
killed. The server recognises them: they are lines of a stream whose key is topic and partition, numbered by their
offsets, and it learns no line twice. Nothing else has to be stored, locked or rolled back.

The partitions are Redis streams; any broker whose messages have increasing numbers will do. For Kafka, the command
`manylabel consume` does the same. The program starts a consumer for each of two partitions, which learns while messages
arrive, and kills the consumers repeatedly. With the number of a partition after the address, it is only the consumer of
that partition, and runs until it is stopped.

    manylabel serve
    python examples/topic_exactly_once.py redis://127.0.0.1:6379

It prints:

    4 times a consumer was killed; those that came to the end have ended with [0, 0]
    1200 messages, 1200 examples learnt
    billing: 524 messages, 524 examples learnt
    delivery: 528 messages, 528 examples learnt
    login: 551 messages, 551 examples learnt
"""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import redis

from manylabel_clients import Client, Model

TOPIC, MODEL, GROUP = "tickets", "tickets-topic", "manylabel"
BATCH = 50  # maximum messages between two commits
SECONDS = 1.0  # maximum wait for a message


class Partition:
    """A Redis stream whose only writer numbers the entries itself: the id of offset 7 is 7-1.

    Attributes
    ----------
    next : the offset to read next.
    """

    def __init__(self, address: str, number: int) -> None:
        self._redis = redis.Redis.from_url(address)
        self._stream = f"{TOPIC}-{number}"
        self.next = int(self._redis.get(f"{self._stream}:{GROUP}") or 0)

    def read(self) -> list[tuple[int, bytes]]:
        """Return the next messages with their offsets, or none if none arrives within a second."""
        found: Any = self._redis.xread({self._stream: f"{self.next}-0"}, count=BATCH, block=int(1000 * SECONDS))
        return [(int(id.split(b"-")[0]), entry[b"value"]) for _, entries in found for id, entry in entries]

    def commit(self, offset: int) -> None:
        """Commit the messages up to this offset as learnt: reading continues after it, even in another process."""
        self.next = offset + 1
        self._redis.set(f"{self._stream}:{GROUP}", self.next)

    def write(self, messages: Iterable[bytes]) -> None:
        """Add messages."""
        latest: Any = self._redis.xrevrange(self._stream, count=1)
        first = int(latest[0][0].split(b"-")[0]) + 1 if latest else 0
        with self._redis.pipeline() as pipeline:
            for offset, value in enumerate(messages, first):
                pipeline.xadd(self._stream, {"value": value}, id=f"{offset}-1")
            pipeline.execute()


def examples(messages: list[tuple[int, bytes]]) -> Iterator[tuple[int, Any, list[str]]]:
    """Yield the offset, x and y of each message that has them; others are reported and skipped."""
    for offset, value in messages:
        try:
            message = json.loads(value)
            yield offset, message["x"], message["y"]
        except (ValueError, LookupError, TypeError) as error:
            print(f"message {offset} is no example: {error!r}", file=sys.stderr)


def runs(messages: list[tuple[int, bytes]]) -> Iterator[tuple[int, list[tuple[Any, list[str]]]]]:
    """Yield examples whose offsets follow each other, with the first offset: skipped and compacted ones leave gaps."""
    for _, run in groupby(enumerate(examples(messages)), lambda item: item[1][0] - item[0]):
        found = [example for _, example in run]
        yield found[0][0], [(x, y) for _, x, y in found]


def learn(partition: Partition, key: str, model: Model, last: int | None = None) -> None:
    """Learn a partition with a model, up to an offset or forever."""
    while last is None or partition.next <= last:
        messages = partition.read()
        for offset, run in runs(messages):
            for answer in model.stream(run, key=key, first=offset + 1):
                if answer.error is not None:
                    print(f"message {answer.line - 1} was refused: {answer.error}", file=sys.stderr)
        if messages:
            partition.commit(messages[-1][0])


def consume(address: str, number: int, last: int | None = None) -> None:
    """Run a consumer of one partition."""
    with Client() as client:  # MANYLABEL_URL, or http://127.0.0.1:8000
        learn(Partition(address, number), f"{TOPIC}-{number}", client.model(MODEL), last)


def new_message(rng: random.Random) -> dict[str, Any]:
    """Return a ticket and its labels."""
    topics = {"billing": "the invoice is wrong", "login": "cannot sign in", "delivery": "the parcel is late"}
    labels = rng.sample(sorted(topics), rng.choice([1, 1, 2]))
    return {"x": {"text": ", ".join(topics[label] for label in labels), "n": rng.randrange(9)}, "y": sorted(labels)}


def main(address: str) -> None:
    rng = random.Random(0)
    messages = [[new_message(rng) for _ in range(600)] for _ in range(2)]
    partitions = [Partition(address, number) for number in range(2)]
    last = [partition.next + 599 for partition in partitions]  # offsets where the consumers end

    def start(number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, __file__, address, str(number), str(last[number])])

    with Client() as client:
        model = client.create_model(MODEL, text={"fields": ["text"]})
        consumers = [start(0), start(1)]
        for round in range(4):
            for partition, own in zip(partitions, messages, strict=True):
                partition.write(json.dumps(message).encode() for message in own[150 * round : 150 * (round + 1)])
            while model.status().updates < 300 * round + 100:  # until some of these are learnt
                if any(consumer.poll() for consumer in consumers):
                    raise SystemExit("a consumer has failed")
                time.sleep(0.01)
            victim = round % 2
            consumers[victim].kill()  # SIGKILL: no clean-up, no final message
            consumers[victim].wait()
            consumers[victim] = start(victim)
        statuses = [consumer.wait() for consumer in consumers]
        print(f"4 times a consumer was killed; those that came to the end have ended with {statuses}")

        sent = Counter(label for own in messages for message in own for label in message["y"])
        learnt = {one.label: one.examples for one in model.labels().labels}
        print(f"{sum(map(len, messages))} messages, {model.status().updates} examples learnt")
        for label, n in sorted(sent.items()):
            print(f"{label}: {n} messages, {learnt[label]} examples learnt")


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["redis://127.0.0.1:6379"]
    if len(arguments) == 1:
        main(arguments[0])
    else:
        consume(arguments[0], *map(int, arguments[1:]))
