"""The consumer of a topic against a real server and a topic in memory: what is learnt, refused and committed."""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from tests.support.cases import for_each

from manylabel_clients import Client, Model
from manylabel_clients.integrations.kafka.consumer import Consumer, NotLearnt
from manylabel_clients.integrations.kafka.learning import MAX_GAP, StreamKey
from manylabel_clients.integrations.kafka.messages import (
    Addressing,
    Lesson,
    Message,
    MessageReader,
    Refusal,
    Unlabelled,
)

Letters = list[Refusal]


class Crash(Exception):
    """The consumer is killed here."""


class MemoryTopic:
    """A topic in memory, with the committed offsets of one group.

    Parameters
    ----------
    values : the values of the messages by partition.
    crashes : numbers of commits, from 1, before which the consumer is killed.
    first : offset of the first message of each partition.
    """

    def __init__(self, *values: Sequence[bytes | None], crashes: Sequence[int] = (), first: int = 0) -> None:
        self.messages = [
            [Message(partition, offset, value) for offset, value in enumerate(part, first)]
            for partition, part in enumerate(values)
        ]
        self.committed: dict[int, int] = {}
        self._crashes, self._commits = set(crashes), 0
        self.reopen()

    def reopen(self) -> None:
        """Read from the committed offsets, as a new consumer does."""
        self._left = [
            one for part in self.messages for one in part if one.offset >= self.committed.get(one.partition, 0)
        ]

    @property
    def has_ended(self) -> bool:
        return not self._left

    def read(self, most: int, seconds: float) -> list[Message]:
        read, self._left = self._left[:most], self._left[most:]
        return read

    def commit(self, offsets: Mapping[int, int]) -> None:
        self._commits += 1
        if self._commits in self._crashes:
            raise Crash
        self.committed.update(offsets)


def value(x: Any, y: Any, **more: Any) -> bytes:
    return json.dumps({"x": x, "y": y, **more}).encode()


def consume(
    topic: MemoryTopic,
    client: Client,
    addressing: Addressing,
    dead_letters: Callable[[Sequence[Refusal]], None] | None = None,
    batch_size: int = 7,
    **options: Any,
) -> Counter[str]:
    """Consume a topic to its end, with a new consumer after each crash; return the sums of the counts."""
    counts = Counter[str]()
    while True:
        topic.reopen()
        reader = MessageReader(addressing, options)
        consumer = Consumer(topic, reader, client.model, StreamKey("t", "1"), dead_letters, batch_size)
        try:
            consumer.run(threading.Event(), True, lambda: None)
        except Crash:
            pass
        else:
            return counts + consumer.counts
        finally:
            counts += consumer.counts


def updates(model: Model) -> int:
    return model.status().updates  # type: ignore[union-attr]


@pytest.fixture
def models(client: Client, name: str) -> Callable[[str], Model]:
    """Create models whose names begin with that of the test."""
    return lambda suffix: client.create_model(f"{name[-40:].strip('-')}-{suffix}")


def test_each_message_is_learnt_once_although_consumers_are_killed_before_they_commit(
    client: Client, models: Callable[[str], Model]
) -> None:
    rng = random.Random(0)
    tenants = {suffix: models(suffix) for suffix in ("a", "b", "c")}
    plain = {suffix: models(f"{suffix}2") for suffix in tenants}
    drawn = [
        [(rng.choice("abc"), {f"f{rng.randrange(5)}": 1}, [f"l{rng.randrange(3)}"]) for _ in range(40)] for _ in "12"
    ]
    topic = MemoryTopic(
        *([value(x, y, tenant=tenant) for tenant, x, y in part] for part in drawn), crashes=[1, 2, 4, 7, 8]
    )
    pattern = f"{tenants['a'].name[:-1]}{{}}"
    consume(topic, client, Addressing(pattern, field="tenant"))
    assert topic.committed == {0: 40, 1: 40}
    asked = [{f"f{i}": 1} for i in range(5)]
    for suffix, model in tenants.items():
        for part in drawn:
            plain[suffix].update_many([(x, y) for tenant, x, y in part if tenant == suffix])
        assert updates(model) == updates(plain[suffix]) > 0
        assert model.labels().labels == plain[suffix].labels().labels
        scores = [[guess.scores for guess in one.predict_many(asked)] for one in (model, plain[suffix])]
        assert scores[0] == scores[1]  # bit for bit, because each partition is learnt in the order of its offsets


def test_messages_that_are_delivered_again_are_counted_and_not_learnt(
    client: Client, models: Callable[[str], Model]
) -> None:
    model = models("m")
    topic = MemoryTopic([value({"a": i}, ["p"]) for i in range(20)])
    assert consume(topic, client, Addressing(model.name)) == Counter(learnt=20)
    topic.committed = {0: 5}
    assert consume(topic, client, Addressing(model.name)) == Counter(replayed=15)
    assert updates(model) == 20


def test_a_refused_message_is_a_dead_letter_before_later_ones_are_learnt(
    client: Client, models: Callable[[str], Model]
) -> None:
    model = models("m")
    values = [value([i, 1.0], ["p"]) for i in range(6)]
    values[3] = value([1.0], ["p"])  # the server refuses it, because the first example is longer
    topic, letters = MemoryTopic(values), Letters()

    def store(refusals: Sequence[Refusal]) -> None:
        assert updates(model) == 3
        if not letters:
            letters.extend(refusals)
            raise Crash  # killed when the letter is stored, before the next message
        letters.extend(refusals)

    counts = consume(topic, client, Addressing(model.name), store, batch_size=6)
    assert [(one.message.offset, one.code, one.model) for one in letters] == [(3, "invalid_request", model.name)] * 2
    assert updates(model) == 5
    assert topic.committed == {0: 6}
    assert counts["refused"] == 1


def test_a_crash_after_the_dead_letter_writes_no_wrong_one(client: Client, models: Callable[[str], Model]) -> None:
    model = models("m")
    values = [value({"a": i}, ["p"]) for i in range(6)]
    values[2] = b"{"
    topic, letters = MemoryTopic(values, crashes=[1]), Letters()
    consume(topic, client, Addressing(model.name), letters.extend, batch_size=6)
    assert {(one.message.offset, one.code) for one in letters} == {(2, "invalid_message")}
    assert updates(model) == 5


@for_each("bad", [b"{", value([1.0], ["p"])], ids=["by the reader", "by the server"])
def test_without_dead_letters_a_refused_message_stops_the_consumer(
    client: Client, models: Callable[[str], Model], bad: bytes
) -> None:
    model = models(f"m{len(bad)}")
    topic = MemoryTopic([value([1.0, 1.0], ["p"]), value([2.0, 1.0], ["p"]), bad, value([3.0, 1.0], ["p"])])
    for _ in range(2):
        with pytest.raises(NotLearnt, match="partition 0, offset 2: ") as stopped:
            consume(topic, client, Addressing(model.name))
        assert updates(model) == 2
    assert "invalid" in str(stopped.value)
    topic.messages[0][2] = Message(0, 2, value([9.0, 1.0], ["p"]))
    consume(topic, client, Addressing(model.name))
    assert updates(model) == 4


def test_an_unknown_or_deleted_model_refuses_its_messages_only(client: Client, models: Callable[[str], Model]) -> None:
    kept, deleted = models("kept"), models("deleted")
    names = [kept.name, deleted.name, "never-created", kept.name, deleted.name, kept.name]
    topic, letters = MemoryTopic([value({"a": 1}, ["p"], model=name) for name in names]), Letters()

    def delete_after_the_first_batch(refusals: Sequence[Refusal]) -> None:
        letters.extend(refusals)
        if len(letters) == 1:
            deleted.delete()

    counts = consume(topic, client, Addressing(field="model"), delete_after_the_first_batch, batch_size=3)
    refused = [(one.message.offset, one.code, one.model) for one in letters]
    assert refused == [(2, "model_not_found", "never-created"), (4, "model_not_found", deleted.name)]
    assert updates(kept) == 3
    assert counts == Counter(learnt=4, refused=2)


def test_messages_beyond_limits_are_dead_letters(client: Client, name: str) -> None:
    model = client.create_model(name, limits={"labels": {"most": 2, "policy": "reject"}})
    values = [value({"a": 1}, ["p"]), value({"a": "x" * 5_000_000}, ["p"]), value({"a": 2}, ["q"])]
    values += [value({"a": 3}, ["r"]), value({"a": 4}, ["q"]), value({"n" * 300: 4}, ["q"])]
    topic, letters = MemoryTopic(values), Letters()
    consume(topic, client, Addressing(name), letters.extend)
    refused = [(one.message.offset, one.code) for one in letters]
    assert refused == [(1, "body_too_large"), (3, "invalid_request"), (5, "invalid_request")]
    assert updates(model) == 3
    assert topic.committed == {0: 6}


def test_the_only_model_stops_the_consumer_if_it_is_deleted(client: Client, name: str) -> None:
    topic, letters = MemoryTopic([value({"a": 1}, ["p"])]), Letters()
    with pytest.raises(NotLearnt, match="model_not_found"):
        consume(topic, client, Addressing(name), letters.extend)
    assert letters == []
    assert topic.committed == {}


def test_offsets_with_gaps_and_large_offsets_are_learnt_once(client: Client, models: Callable[[str], Model]) -> None:
    model = models("m")
    topic = MemoryTopic([value({"a": i}, ["p"]) for i in range(6)], crashes=[1])
    offsets = [0, 3, 4, 4 + 2 * MAX_GAP, 5 + 2 * MAX_GAP, 2**40]  # compacted, and a topic that is years old
    topic.messages[0] = [one._replace(offset=offset) for one, offset in zip(topic.messages[0], offsets, strict=True)]
    counts = consume(topic, client, Addressing(model.name))
    assert counts == Counter(replayed=6)
    assert updates(model) == 6
    assert topic.committed == {0: 2**40 + 1}


def test_records_have_labels_weights_and_references_in_their_fields(
    client: Client, models: Callable[[str], Model]
) -> None:
    model = models("m")
    records = [
        {"title": "cat", "tags": "pets; cats", "w": 2, "customer": "17", "internal": 5},
        {"title": "dog", "tags": ["pets"], "w": 1, "customer": "18"},
        {"title": "bird", "tags": None},
        {"title": "fish"},
    ]
    topic = MemoryTopic([json.dumps(record).encode() for record in records])
    options = {"tags": "tags", "separator": ";", "weight": "w", "ref": "customer", "ignore": ("internal",)}
    assert consume(topic, client, Addressing(model.name), **options) == Counter(learnt=2, unlabelled=2)
    assert {one.label for one in model.labels().labels} == {"pets", "cats"}
    assert {field.name for field in model.status().fields} == {"title"}


ONE = Addressing("m")


def read(value: bytes | None, addressing: Addressing = ONE, **more: Any) -> Any:
    return MessageReader(addressing, {}).read(Message(0, 0, value, **more))


@for_each(
    ("given", "code", "detail"),
    [
        (None, "tombstone", "no value"),
        (b"", "invalid_message", "not JSON"),
        (b"\x00\x00\x00\x00\x07{}", "invalid_message", "not JSON"),
        (b'{"x": {"a": "\xff"}, "y": []}', "invalid_message", "not UTF-8 (byte 14)"),
        (b"[1, 2]", "invalid_message", "must be an object"),
        (b'{"y": ["p"]}', "invalid_message", "an example has x and y"),
        (b'{"x": {"a": NaN}, "y": []}', "invalid_message", "NaN is not a finite number"),
        (b'{"x": {"a": 1e999}, "y": []}', "invalid_message", "/x"),
        (b'{"x": {"a": 1}, "y": ["\\ud800"]}', "invalid_message", ""),
        (b'{"x": {"a": 1}, "y": "p"}', "invalid_message", "y must be a list"),
        (b'{"x": {"a": 1, "a": 2}, "y": []}', "invalid_message", "twice"),
        (b'{"x": {"a": 1}, "y": [], "weight": -1}', "invalid_message", "weight"),
        (b'{"x": ' + b"[" * 100_000, "invalid_message", "nested too deeply"),
    ],
)
def test_a_bad_message_is_refused_with_the_reason(given: bytes | None, code: str, detail: str) -> None:
    refusal = read(given)
    assert isinstance(refusal, Refusal)
    assert refusal.code == code
    assert detail in refusal.detail


def test_a_message_may_be_printed_over_several_lines_and_have_a_byte_order_mark() -> None:
    found = read(b'\xef\xbb\xbf{\n  "x": {"a": 1},\n  "y": ["p"]\n}')
    assert isinstance(found, Lesson)
    assert found.example == b'{"x":{"a":1},"y":["p"]}'
    assert isinstance(read(b'{"x": {"a": 1}}'), Unlabelled)


@for_each(
    ("addressing", "message", "model"),
    [
        (Addressing("m"), {}, "m"),
        (Addressing(field="tenant"), {"tenant": "b"}, "b"),
        (Addressing("customer-{}-tags", field="tenant"), {"tenant": 17}, "customer-17-tags"),
        (Addressing(field="tenant"), {}, None),
        (Addressing(field="tenant"), {"tenant": ""}, None),
        (Addressing(field="tenant"), {"tenant": "../keys"}, None),
        (Addressing(field="tenant"), {"tenant": True}, None),
        (Addressing(field="tenant"), {"tenant": ["b"]}, None),
    ],
)
def test_a_field_names_the_model(addressing: Addressing, message: dict[str, Any], model: str | None) -> None:
    found = read(value({"a": 1}, [], **message), addressing)
    assert getattr(found, "model", None) == model
    assert isinstance(found, Refusal if model is None else Lesson)


@for_each(
    ("headers", "model"),
    [
        ((("tenant", b"b"), ("trace", b"\xff")), "b"),
        ((), None),
        ((("tenant", None),), None),
        ((("tenant", b"\xff"),), None),
        ((("tenant", b"b"), ("tenant", b"c")), None),
    ],
)
def test_a_header_names_the_model(headers: Any, model: str | None) -> None:
    found = read(value({"a": 1}, []), Addressing(header="tenant"), headers=headers)
    assert getattr(found, "model", None) == model


def test_the_key_of_a_stream_fits_a_header_and_tells_topics_apart() -> None:
    names = [("t" * 249, "1"), ("t" * 248, "1"), ("t" * 249, ""), ("t", "1"), ("t", ""), ("t é", "")]
    keys = [StreamKey(*name).of(7) for name in names]
    assert len(set(keys)) == len(keys)
    assert max(map(len, keys)) <= 200
    assert all(key.isascii() and key.isprintable() and " " not in key for key in keys)
