"""`manylabel consume`: learn a topic of Kafka."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from manylabel_clients.command.data.files import PLAIN, TableOptions
from manylabel_clients.command.declaring import Argument, Fields, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import PATIENT, KeyFile, Report, Url, address, connect
from manylabel_clients.command.output.terminal import printable
from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import ManyLabelError
from manylabel_clients.http.responses import TrainedStatus
from manylabel_clients.http.transport.connections import DEFAULT_URL
from manylabel_extras import require

if TYPE_CHECKING:
    from manylabel_clients.integrations.kafka.broker import Topic
    from manylabel_clients.integrations.kafka.consumer import Consumer
    from manylabel_clients.integrations.kafka.messages import MessageReader

REPORT_SECONDS = 60.0
"""Seconds between two lines about the progress."""
MAX_PARTITIONS = 1_000
"""Maximum number of partitions: a model remembers this number of streams."""
_OWN_SETTINGS = ("group.id", "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof")

MessageOptions = Annotated[
    TableOptions, Fields("tags", "separator", "ignore", "number", "category", "empty", "weight", "ref")
]


def consume(
    topic: Annotated[str, Argument(metavar="TOPIC", help="Name of the topic.")],
    model: Annotated[
        str | None,
        Argument(
            metavar="[MODEL]",
            help="Name of the model. With --model-field or --model-header, {} in it stands for the value.",
        ),
    ] = None,
    bootstrap_servers: Annotated[
        str, Option(envvar="KAFKA_BOOTSTRAP_SERVERS", metavar="HOST:PORT,...", help="Addresses of brokers of Kafka.")
    ] = "localhost:9092",
    group: Annotated[str, Option(metavar="NAME", help="Consumer group.")] = "manylabel",
    kafka_config: Annotated[
        Path | None,
        Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="File with settings of the Kafka client (librdkafka), a line NAME=VALUE each, such as "
            "security.protocol=SASL_SSL.",
        ),
    ] = None,
    model_field: Annotated[
        str | None, Option(metavar="FIELD", help="Field of each message that names its model. It is not learnt.")
    ] = None,
    model_header: Annotated[
        str | None, Option(metavar="NAME", help="Header of each message that names its model.")
    ] = None,
    labels: Annotated[str | None, Option(metavar="FIELD", help="The field with the labels of records.")] = None,
    table: MessageOptions = PLAIN,
    dead_letters: Annotated[
        str | None,
        Option(
            metavar="TOPIC",
            help="Topic for messages that cannot be learnt, with headers that say why. Without it, such a message "
            "stops the command.",
        ),
    ] = None,
    stream: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Name under which models remember the offsets that they have learnt; under another name, they learn "
            "them again. Default: the topic and its id.",
        ),
    ] = None,
    batch_size: Annotated[int, Option(min=1, max=10_000, help="Maximum messages between two commits.")] = 1_000,
    once: Annotated[bool, Option(help="Exit at the end of the topic.")] = False,
    metrics_port: Annotated[
        str | None,
        Option(
            metavar="[HOST:]PORT",
            help="Serve metrics for Prometheus at /metrics, on 127.0.0.1 if no host is specified; instead of lines on "
            "standard error.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    timeout: Annotated[
        float | None,
        Option(
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="Maximum wait for a server that does not respond or is unavailable. Default: no limit.",
        ),
    ] = None,
    api_key: KeyFile = None,
) -> None:
    """Learn the messages of a topic of Kafka, each exactly once.

    A message is JSON, like a line of `manylabel feed`: an example {"x": ..., "y": [...]}, or a record with its labels
    in the field --labels or --tags. Several consumers of a group share the partitions. SIGTERM ends the command after
    the batch.

    Example: `manylabel consume tickets --model-field tenant --labels tags --dead-letters tickets-failed`
    """
    require("`manylabel consume`", "topics")
    from manylabel_clients.integrations.kafka.broker import DeadLetters, KafkaFailed, topic_id
    from manylabel_clients.integrations.kafka.consumer import Consumer, NotLearnt, Stopped
    from manylabel_clients.integrations.kafka.learning import StreamKey

    reader = _reader(model, model_field, model_header, labels, table)
    if dead_letters == topic:
        raise click.BadParameter("must differ from the topic to consume", param_hint="--dead-letters")
    settings = {"bootstrap.servers": bootstrap_servers, **({} if kafka_config is None else _settings(kafka_config))}
    scraped = None if metrics_port is None else _metrics_address(metrics_port)
    stop = threading.Event()

    def wait(error: ManyLabelError, seconds: float, report: Callable[..., None] = Report()) -> None:  # noqa: B008
        if stop.is_set():
            raise Stopped from error
        report(error, seconds)

    retry = replace(PATIENT, patience_seconds=inf)
    try:
        with ExitStack() as stack:
            stack.enter_context(_stopping(stop))
            client = stack.enter_context(connect(Client, url, timeout, api_key, retry, report=wait))
            if reader.model is not None and isinstance(client.model(reader.model).status(), TrainedStatus):
                raise Failure(f"{model} is trained by jobs and learns nothing from a topic")
            source = _topic(stack, topic, group, settings)
            key = StreamKey(topic, topic_id(topic, settings)) if stream is None else StreamKey(stream)
            letters = None if dead_letters is None else DeadLetters(dead_letters, topic, settings).send
            consumer = Consumer(source, reader, client.model, key, letters, batch_size)
            progress = _Progress(source, consumer)
            if scraped is None:
                progress.tell()
            else:
                stack.enter_context(_metrics(progress, *scraped))
            consumer.run(stop, once, progress.note)
            click.echo(progress.line())
    except Stopped:
        click.echo("stopped while the server was unavailable; the last batch will be read again", err=True)
    except KafkaFailed as error:
        raise Failure(printable(str(error))) from error
    except NotLearnt as error:
        hint = "" if dead_letters is not None else "; use --dead-letters TOPIC to continue after such messages"
        raise Failure(f"{topic}, {printable(str(error))}{hint}") from error


def _reader(
    model: str | None, field: str | None, header: str | None, labels: str | None, table: TableOptions
) -> "MessageReader":
    """Return the reader of messages; raise a usage error if the options do not say which model learns."""
    from manylabel_clients.integrations.kafka.messages import PLACEHOLDER, Addressing, MessageReader
    from manylabel_core.datasets.limits import BadDataset

    if field is not None and header is not None:
        raise click.UsageError("Give --model-field or --model-header, not both.")
    if field is header is None:
        if model is None:
            raise click.UsageError("Give MODEL, --model-field or --model-header.")
    elif model is not None and PLACEHOLDER not in model:
        raise click.UsageError(f"With --model-field or --model-header, MODEL must have {PLACEHOLDER}.")
    options = table.given() | ({} if labels is None else {"label_columns": (labels,)})
    try:
        reader = MessageReader(Addressing(model or PLACEHOLDER, field, header), options)
    except BadDataset as error:
        raise Failure(error.detail) from error
    return reader


def _settings(path: Path) -> dict[str, str]:
    """Return the settings in a file. Errors are Failures that do not reveal the values."""
    settings = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise Failure(f"{path} is not UTF-8") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, given, value = (part.strip() for part in line.partition("="))
        if not given or not name:
            raise Failure(f"{path}, line {number}: must be NAME=VALUE")
        if name in _OWN_SETTINGS:
            raise Failure(f"{path}, line {number}: remove {name}, because the command sets it")
        settings[name] = value
    return settings


def _topic(stack: ExitStack, name: str, group: str, settings: Mapping[str, Any]) -> "Topic":
    """Return a topic; the exit stack closes it."""
    from manylabel_clients.integrations.kafka.broker import Topic

    topic = Topic(name, group, settings, lambda line: click.echo(printable(line), err=True))
    stack.callback(topic.close)
    if topic.n_partitions > MAX_PARTITIONS:
        raise Failure(f"{name} has {topic.n_partitions:,} partitions; a model learns from at most {MAX_PARTITIONS:,}")
    return topic


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """Set an event at SIGTERM or Ctrl-C, so that the command ends after the current batch."""
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Progress:
    """Counts and lag of a consumer, also as a collector of Prometheus."""

    def __init__(self, source: "Topic", consumer: "Consumer") -> None:
        self._source, self._consumer = source, consumer
        self._lag: dict[int, int] = {}
        self._seen = time.time()
        self._told: float | None = None
        self._shown = ""

    def tell(self) -> None:
        """Begin to write a line on standard error every `REPORT_SECONDS`."""
        self._told = time.monotonic()

    def note(self) -> None:
        """Note the state of the topic after a poll."""
        self._lag, self._seen = self._source.lag(), time.time()
        if self._told is not None and time.monotonic() - self._told >= REPORT_SECONDS:
            self._told = time.monotonic()
            if (line := self.line()) != self._shown:
                self._shown = line
                click.echo(line, err=True)

    def line(self) -> str:
        """Return a line about the progress."""
        counts = self._consumer.counts
        names = {"learnt": "learnt", "replayed": "learnt before", "unlabelled": "without labels", "refused": "refused"}
        told = ", ".join(f"{counts[result]:,} {name}" for result, name in names.items())
        return f"{told}; lag {sum(self._lag.values()):,}"

    def collect(self) -> Iterator[Any]:
        """Yield the metrics; see `prometheus_client.registry.Collector`."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = "topic", "result"
        messages = CounterMetricFamily("manylabel_consumer_messages", "Messages of the topic.", labels=labels)
        for result, count in dict(self._consumer.counts).items():
            messages.add_metric((self._source.name, result), count)
        yield messages
        lag = GaugeMetricFamily(
            "manylabel_consumer_lag_messages", "Messages that are not consumed.", labels=("topic", "partition")
        )
        for partition, count in self._lag.items():
            lag.add_metric((self._source.name, str(partition)), count)
        yield lag
        yield GaugeMetricFamily(
            "manylabel_consumer_poll_timestamp_seconds", "Time of the last look at the topic.", value=self._seen
        )


def _metrics_address(text: str) -> tuple[str, int]:
    return address(text if ":" in text else f"127.0.0.1:{text}", "--metrics-port", "0.0.0.0:9108, or PORT", least=0)


@contextmanager
def _metrics(progress: _Progress, host: str, port: int) -> Iterator[None]:
    """Serve metrics."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(progress)
    server, thread = start_http_server(port, host, registry)
    click.echo(f"metrics at http://{host}:{server.server_port}/metrics", err=True)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
