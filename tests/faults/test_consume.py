"""`manylabel consume` learns a topic exactly once although consumers and the server are killed."""

import os
import random
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.kafka_broker import KafkaBroker
from tests.support.mock_kafka import N_PARTITIONS, MockKafka, example
from tests.support.server_process import ServerProcess, free_port
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_clients import Client, Model

pytestmark = pytest.mark.kafka

TOPIC, GROUP, LETTERS = "tickets", "learners", "tickets-failed"
KILLED_BEFORE_COMMIT = """
import os, signal
from manylabel_clients.command import main
from manylabel_clients.integrations.kafka.broker import Topic

commits, commit = 0, Topic.commit

def dying(self, offsets):
    global commits
    commits += 1
    if commits == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    commit(self, offsets)

Topic.commit = dying
main()
"""
"""The command, which is killed between learning its third batch and the commit."""


@pytest.fixture
def broker() -> MockKafka:
    return MockKafka()


class Consumers:
    """Consumers in processes of their own.

    Parameters
    ----------
    address : the broker.
    url : the server.
    directory : for their settings and outputs.
    stream : option for a broker that has no ids of topics.
    """

    def __init__(self, address: str, url: str, directory: Path, *stream: str) -> None:
        self._stream = stream
        self.environment = {**os.environ, "MANYLABEL_URL": url, "KAFKA_BOOTSTRAP_SERVERS": address}
        self._settings = directory / "kafka.properties"
        self._settings.write_text("session.timeout.ms=6000\nheartbeat.interval.ms=500\n# a comment\n")
        self._directory = directory
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, code: str = "from manylabel_clients.command import main; main()") -> "Consumer":
        """Start a consumer."""
        log = self._directory / f"consumer-{len(self.started)}.log"
        options = ["--group", GROUP, *self._stream, "--batch-size", "20", "--kafka-config", str(self._settings)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", code, "consume", TOPIC, *arguments, *options],
                env=self.environment,
                stdout=output,
                stderr=output,
            )
        self.started.append(process)
        return Consumer(process, log)


class Consumer:
    """A consumer in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log

    @property
    def output(self) -> str:
        return self._log.read_text()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait until it ends; return its status."""
        return self._process.wait(DEADLINE_SECONDS)

    def kill(self) -> None:
        self._process.kill()
        self.wait()


@pytest.fixture
def server(server_process: Callable[..., ServerProcess]) -> ServerProcess:
    return server_process().start()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def consumers(broker: MockKafka, server: ServerProcess, tmp_path: Path) -> Iterator[Consumers]:
    made = Consumers(broker.address, server.url, tmp_path, "--stream", TOPIC)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


def drawn(rng: random.Random, n: int) -> list[tuple[dict[str, int], list[str]]]:
    return [({f"f{rng.randrange(8)}": 1, f"g{rng.randrange(8)}": 1}, [f"l{rng.randrange(3)}"]) for _ in range(n)]


def updates(model: Model) -> int:
    return model.status().updates  # type: ignore[union-attr]


def assert_same(model: Model, clean: Model) -> None:
    """Assert that two models have learnt the same, to the last bit."""
    asked = [{f"f{i}": 1, "g1": 1} for i in range(8)]
    assert updates(model) == updates(clean)
    assert model.metrics() == clean.metrics()
    assert model.labels().labels == clean.labels().labels
    scores = [[guess.scores for guess in one.predict_many(asked)] for one in (model, clean)]
    assert scores[0] == scores[1]


def test_each_tenant_learns_its_partition_once_despite_kills(
    broker: MockKafka, server: ServerProcess, client: Client, consumers: Consumers
) -> None:
    rng = random.Random(0)
    examples = [drawn(rng, 300) for _ in range(N_PARTITIONS)]
    tenants = [client.create_model(f"tags-{number}") for number in range(N_PARTITIONS)]
    arguments = ("tags-{}", "--model-field", "tenant")

    def produce(first: int, last: int) -> None:
        for number, part in enumerate(examples):
            broker.produce(TOPIC, number, [example(x, y, tenant=number) for x, y in part[first:last]])

    produce(0, 150)
    killed = consumers.start(*arguments, code=KILLED_BEFORE_COMMIT)
    assert killed.wait() == -signal.SIGKILL
    learnt = sum(map(updates, tenants))
    # The killed consumer had learnt messages that it did not commit.
    assert learnt > sum(broker.committed(TOPIC, GROUP).values())

    consumer = consumers.start(*arguments)
    eventually(lambda: sum(map(updates, tenants)) > learnt)
    server.kill()
    consumer.signal(signal.SIGTERM)
    assert consumer.wait() == 0
    server.start()

    consumer = consumers.start(*arguments)
    eventually(lambda: sum(map(updates, tenants)) > 500)
    server.kill()  # the consumer waits for the server, and goes on
    produce(150, 300)
    server.start()
    eventually(lambda: sum(map(updates, tenants)) > 700)
    consumer.kill()

    last = consumers.start(*arguments, "--once")
    assert last.wait() == 0, last.output
    assert broker.committed(TOPIC, GROUP) == dict.fromkeys(range(N_PARTITIONS), 300)
    for number, (tenant, part) in enumerate(zip(tenants, examples, strict=True)):
        clean = client.create_model(f"clean-{number}")
        clean.update_many(part)
        assert_same(tenant, clean)


def test_a_consumer_that_lost_its_partitions_learns_nothing_twice(
    broker: MockKafka, client: Client, consumers: Consumers
) -> None:
    rng = random.Random(1)
    examples = [drawn(rng, 400) for _ in range(N_PARTITIONS)]
    tenants = [client.create_model(f"tags-{number}") for number in range(N_PARTITIONS)]
    arguments = ("tags-{}", "--model-header", "tenant")

    def produce(first: int, last: int) -> None:
        for number, part in enumerate(examples):
            headers = [("tenant", str(number).encode())]
            broker.produce(TOPIC, number, [example(x, y) for x, y in part[first:last]], headers)

    produce(0, 200)
    stalled = consumers.start(*arguments)
    eventually(lambda: sum(map(updates, tenants)) > 50)
    stalled.signal(signal.SIGSTOP)  # it has messages that it has not learnt, and others that it has not committed
    other = consumers.start(*arguments)
    produce(200, 400)
    eventually(lambda: sum(map(updates, tenants)) > 900)  # the group gave the partitions to the other consumer
    stalled.signal(signal.SIGCONT)
    everything = dict.fromkeys(range(N_PARTITIONS), 400)
    eventually(lambda: broker.committed(TOPIC, GROUP) == everything, otherwise=lambda: stalled.output + other.output)
    for consumer in (stalled, other):
        consumer.signal(signal.SIGTERM)
        assert consumer.wait() == 0, consumer.output
    for number, (tenant, part) in enumerate(zip(tenants, examples, strict=True)):
        clean = client.create_model(f"clean-{number}")
        clean.update_many(part)
        assert_same(tenant, clean)


def test_sigterm_ends_a_consumer_after_its_batch(broker: MockKafka, client: Client, consumers: Consumers) -> None:
    model = client.create_model("tags")
    for number in range(N_PARTITIONS):
        broker.produce(TOPIC, number, [example({"a": i}, ["p"]) for i in range(3000)])
    consumer = consumers.start("tags")
    eventually(lambda: updates(model) > 100)
    consumer.signal(signal.SIGTERM)
    assert consumer.wait() == 0, consumer.output
    learnt = updates(model)
    assert 100 < learnt < 3000 * N_PARTITIONS
    assert sum(broker.committed(TOPIC, GROUP).values()) == learnt
    assert f"{learnt:,} learnt, 0 learnt before" in consumer.output


def test_bad_messages_are_dead_letters_and_are_counted(broker: MockKafka, client: Client, consumers: Consumers) -> None:
    model = client.create_model("tags")
    bad = [b"{", None, b'{"x": {"a": NaN}, "y": []}']
    broker.produce(TOPIC, 0, [example({"a": 1}, ["p"]), *bad[:2], example({"a": 2}, ["p"])], [("trace", b"7")])
    broker.produce(TOPIC, 1, [bad[2], example({"a": 3}, ["q"])])
    stopped = consumers.start("tags")
    assert stopped.wait() == 1
    assert f"manylabel: {TOPIC}, partition " in stopped.output
    assert "invalid_message" in stopped.output

    port = free_port()
    consumer = consumers.start("tags", "--dead-letters", LETTERS, "--metrics-port", str(port))

    def metrics() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            return str(response.read().decode())

    def has(line: str) -> bool:
        return f"{line}\n" in metrics()

    counted = f'manylabel_consumer_messages_total{{result="refused",topic="{TOPIC}"}}'
    eventually(lambda: has(f"{counted} 3.0"), ignore=OSError, otherwise=lambda: consumer.output)
    assert has(f'manylabel_consumer_lag_messages{{partition="1",topic="{TOPIC}"}} 0.0')
    consumer.signal(signal.SIGTERM)
    assert consumer.wait() == 0
    assert updates(model) == 3
    assert {(one.value(), *told(one)) for one in broker.read(LETTERS)} == {
        (bad[0], "invalid_message", "0", "1", None),
        (bad[1], "tombstone", "0", "2", None),
        (bad[2], "invalid_message", "1", "0", None),
    }


def told(letter: Any) -> list[str | None]:
    headers = {name: value.decode() for name, value in letter.headers()}
    assert headers["manylabel.topic"] == TOPIC
    assert headers["manylabel.error"]
    return [headers.get(f"manylabel.{name}") for name in ("code", "partition", "offset", "model")]


def test_a_topic_of_another_broker_is_learnt(tmp_path: Path, client: Client, server: ServerProcess) -> None:
    model = client.create_model("tags")
    with KafkaBroker(tmp_path) as kafka:
        kafka.start().create_topic(TOPIC, 2)
        for partition in range(2):
            kafka.produce(TOPIC, partition, [example({"a": i}, ["p"]) for i in range(50)])
        consumers = Consumers(kafka.servers, server.url, tmp_path)
        consumer = consumers.start("tags", "--once")
        assert consumer.wait() == 0, consumer.output
        assert "100 learnt, 0 learnt before, 0 without labels, 0 refused; lag 0" in consumer.output
    assert updates(model) == 100
