"""Feeding a stream: batches, keys, going on after an interruption. The model is a perfect one in memory."""

import math
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import datasets

from manylabel_clients import Invalid, Updated
from manylabel_clients.river import FeedInterrupted, feed


class MemoryModel:
    """Learns a batch once per key. `faults` says of each call whether it fails before or after learning."""

    def __init__(self, faults: Iterable[str] = ()) -> None:
        self.learnt: list[Any] = []
        self.calls: list[tuple[str, int]] = []
        self._seen: dict[str, Any] = {}
        self._faults = iter(faults)

    def update_many(self, examples: list[Any], *, batch_size: int, key: str) -> Updated:
        assert len(examples) <= batch_size
        fault = next(self._faults, "none")
        self.calls.append((key, len(examples)))
        if fault == "before":
            raise ConnectionError("refused")
        if key not in self._seen:
            self._seen[key] = examples
            self.learnt += examples
        elif self._seen[key] != examples:
            raise Invalid(422, "idempotency_key_reused", "other body")
        if fault == "after":
            raise ConnectionError("reset")
        return Updated("7", len(self.learnt), "log")

    def status(self) -> SimpleNamespace:
        return SimpleNamespace(position="7", updates=len(self.learnt), metrics="measures")


def rows(n: int) -> list[Any]:
    return [({"a": float(i)}, {"rock": i % 2 == 0, "jazz": False}) for i in range(n)]


def test_batches_in_order_with_keys_by_offset() -> None:
    model = MemoryModel()
    seen = []
    result = feed(rows(10), model, batch_size=4, feed_id="f", on_batch=lambda *seen_: seen.append(seen_))
    assert model.calls == [("f:0", 4), ("f:4", 4), ("f:8", 2)]
    assert model.learnt == rows(10)
    assert [(offset, receipt.updates) for offset, receipt in seen] == [(4, 4), (8, 8), (10, 10)]
    assert (result.examples, result.next_offset, result.feed_id, result.updates) == (10, 10, "f", 10)
    assert (result.position, result.metrics) == ("7", "measures")


def test_start_skips_rows_and_counts_from_there() -> None:
    model = MemoryModel()
    result = feed(rows(10), model, start=7, batch_size=2, feed_id="f")
    assert model.calls == [("f:7", 2), ("f:9", 1)]
    assert model.learnt == rows(10)[7:]
    assert (result.examples, result.next_offset) == (3, 10)
    assert feed(rows(10), model, start=10, feed_id="f").examples == 0


def test_feeds_without_a_name_do_not_meet() -> None:
    model = MemoryModel()
    assert feed(rows(3), model).feed_id != feed(rows(3), model).feed_id
    assert len(model.learnt) == 6


@given(
    n=st.integers(0, 30),
    batch_size=st.integers(1, 7),
    faults=st.lists(st.sampled_from(["none", "before", "after"]), max_size=30),
)
def test_every_row_counts_once_however_often_it_is_interrupted(n: int, batch_size: int, faults: list[str]) -> None:
    model = MemoryModel(faults)
    start, interruptions = 0, 0
    result = None
    while result is None:
        try:
            result = feed(rows(n), model, start=start, batch_size=batch_size, feed_id="f")
        except FeedInterrupted as stopped:
            start, interruptions = stopped.offset, interruptions + 1
    assert model.learnt == rows(n)
    assert result.next_offset == n
    # Each call of the model was made once, or again because it had failed: none is repeated for nothing.
    assert len(model.calls) == math.ceil(n / batch_size) + interruptions


def test_another_batch_size_is_refused_rather_than_counted_twice() -> None:
    model = MemoryModel(["none", "after"])
    with pytest.raises(FeedInterrupted) as stopped:
        feed(rows(9), model, batch_size=3, feed_id="f")
    with pytest.raises(FeedInterrupted, match="other body") as refused:
        feed(rows(9), model, batch_size=2, feed_id="f", start=stopped.value.offset)
    assert isinstance(refused.value.__cause__, Invalid)
    assert len(model.learnt) == 6


def test_the_message_says_how_to_go_on() -> None:
    with pytest.raises(FeedInterrupted) as stopped:
        feed(rows(9), MemoryModel(["none", "before"]), batch_size=3, feed_id="f")
    assert str(stopped.value) == "refused; to go on: feed(..., start=3, feed_id='f', batch_size=3)"
    assert isinstance(stopped.value.__cause__, ConnectionError)


def test_ctrl_c_says_how_to_go_on() -> None:
    def interrupted() -> Iterator[Any]:
        yield from rows(7)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        feed(interrupted(), MemoryModel(), batch_size=3, feed_id="f")
    assert stopped.value.__notes__ == ["to go on: feed(..., start=6, feed_id='f', batch_size=3)"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (({"a": b"x"}, ["rock"]), "row 4: feature 'a' is b'x'"),
        (({"a": math.nan}, ["rock"]), "row 4: feature 'a' is nan"),
        (({1: 1.0}, ["rock"]), "row 4: feature 1 must have a string for a name"),
        (({"a": 1.0}, {2: True}), "row 4: label 2 must have a string for a name"),
        (({"a": 1.0}, {"rock": "yes"}), "row 4: label 'rock' is 'yes'"),
        (({"a": 1.0}, {"rock": True}, {"w": 2}), r"row 4: a weight must be a number above 0 and at most 1000, not"),
        (({"a": 1.0}, {"rock": True}, 0.0), r"row 4: a weight must be a number above 0 and at most 1000, not 0.0"),
        (({"a": 1.0}, {"rock": True}, 1.0, 2), r"row 4: a row must be \(x, y\) or \(x, y, weight\), not 4 values"),
    ],
)
def test_a_bad_row_stops_before_its_batch(row: Any, message: str) -> None:
    model = MemoryModel()
    with pytest.raises(FeedInterrupted, match=message) as stopped:
        feed([*rows(4), row, *rows(3)], model, batch_size=3)
    assert stopped.value.offset == len(model.learnt) == 3


def test_a_start_beyond_the_end() -> None:
    with pytest.raises(FeedInterrupted, match="start is 5, but the stream ends after 4 rows"):
        feed(rows(4), MemoryModel(), start=5)


@pytest.mark.parametrize(
    "options", [{"start": -1}, {"batch_size": 0}, {"feed_id": ""}, {"feed_id": "a b"}, {"feed_id": "x" * 201}]
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be (at least|1 to 200)"):
        feed(rows(4), MemoryModel(), **options)


def test_what_is_sent() -> None:
    model = MemoryModel()
    x = {"a": True, "b": np.float32(0.5), "c": 3}
    dense = np.array([1.0, 2.0])
    feed([(x, {"rock": np.bool_(True), "jazz": 0}), (x, ["rock"]), (x, {"b", "a"}), (dense, [])], model)
    assert model.learnt[0] == ({"a": 1.0, "b": 0.5, "c": 3.0}, {"rock": True, "jazz": False})
    assert [type(value) for value in model.learnt[0][0].values()] == [float] * 3
    assert [y for _, y in model.learnt[1:]] == [["rock"], {"a", "b"}, []]
    assert model.learnt[3][0] is dense


def test_complete_sends_the_relevant_labels_as_the_complete_set() -> None:
    model = MemoryModel()
    feed(rows(2), model, complete=True)
    assert [y for _, y in model.learnt] == [["rock"], []]


@pytest.mark.parametrize("start", [0, 1000])
def test_progress(capsys: pytest.CaptureFixture[str], start: int) -> None:
    feed(datasets.Yeast(), MemoryModel(), start=start, progress=True, batch_size=500)
    shown = capsys.readouterr()
    assert "2417/2417" in shown.err
    assert shown.out == ""
    feed(rows(5), MemoryModel(), progress=True)
    assert "5/?" in capsys.readouterr().err
    feed(rows(5), MemoryModel())
    assert capsys.readouterr().err == ""
