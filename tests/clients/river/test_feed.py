"""Feeding a stream to a model in memory: batches, keys, continuing after an interruption."""

import math
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import datasets

from manylabel_clients import Invalid, StreamSummary
from manylabel_clients.river import FeedInterrupted, feed


class MemoryModel:
    """Model that learns each row of a key once, by its number. `faults` lets requests fail before or after learning."""

    def __init__(self, faults: Iterable[str] = ()) -> None:
        self.learnt: list[Any] = []
        self.requests: list[tuple[str, int, int]] = []
        self._last: dict[str, int] = {}
        self._faults = iter(faults)

    def learn(self, examples: Iterable[Any], *, key: str, first: int, batch_size: int) -> Iterator[StreamSummary]:
        rows = iter(examples)
        while batch := list(islice(rows, batch_size)):
            fault = next(self._faults, "none")
            self.requests.append((key, first, len(batch)))
            if fault == "before":
                raise ConnectionError("refused")
            new = batch[max(self._last.get(key, 0) - first + 1, 0) :]
            self.learnt += new
            first += len(batch)
            self._last[key] = max(first - 1, self._last.get(key, 0))
            if fault == "after":
                raise ConnectionError("reset")
            yield StreamSummary(first, len(new), len(batch) - len(new), "7", len(self.learnt))

    def status(self) -> SimpleNamespace:
        return SimpleNamespace(position="7", updates=len(self.learnt), metrics="measures")


def rows(n: int) -> list[Any]:
    return [({"a": float(i)}, {"rock": i % 2 == 0, "jazz": False}) for i in range(n)]


def test_batches_are_sent_in_order_with_the_number_of_their_first_row() -> None:
    model = MemoryModel()
    seen = []
    result = feed(rows(10), model, batch_size=4, feed_id="f", on_batch=lambda *seen_: seen.append(seen_))
    assert model.requests == [("f", 1, 4), ("f", 5, 4), ("f", 9, 2)]
    assert model.learnt == rows(10)
    assert [(offset, summary.updates) for offset, summary in seen] == [(4, 4), (8, 8), (10, 10)]
    assert (result.examples, result.next_offset, result.feed_id, result.updates) == (10, 10, "f", 10)
    assert (result.position, result.metrics) == ("7", "measures")


def test_start_skips_rows_and_counts_from_there() -> None:
    model = MemoryModel()
    result = feed(rows(10), model, start=7, batch_size=2, feed_id="f")
    assert model.requests == [("f", 8, 2), ("f", 10, 1)]
    assert model.learnt == rows(10)[7:]
    assert (result.examples, result.next_offset) == (3, 10)
    assert feed(rows(10), model, start=10, feed_id="f").examples == 0
    with pytest.raises(FeedInterrupted, match="start is 11, but the stream ends after 10 rows"):
        feed(rows(10), model, start=11)


def test_each_feed_without_an_id_gets_its_own() -> None:
    model = MemoryModel()
    assert feed(rows(3), model).feed_id != feed(rows(3), model).feed_id
    assert len(model.learnt) == 6


@given(
    n=st.integers(0, 30),
    batch_sizes=st.lists(st.integers(1, 7), min_size=1),
    faults=st.lists(st.sampled_from(["none", "before", "after"]), max_size=30),
)
def test_every_row_counts_once_after_any_interruptions(n: int, batch_sizes: list[int], faults: list[str]) -> None:
    model, sizes = MemoryModel(faults), cycle(batch_sizes)
    start = 0
    result = None
    while result is None:
        try:
            result = feed(rows(n), model, start=start, batch_size=next(sizes), feed_id="f")
        except FeedInterrupted as stopped:
            start = stopped.offset
    assert model.learnt == rows(n)
    assert result.next_offset == n


def test_a_refused_row_stops_the_feed_after_the_rows_before_it() -> None:
    class Refusing(MemoryModel):
        def learn(self, *args: Any, **options: Any) -> Iterator[StreamSummary]:
            yield from islice(super().learn(*args, **options), 1)
            error = Invalid(422, "invalid_request", "y must be a list")
            error.done = 5
            raise error

    with pytest.raises(FeedInterrupted, match=r"^row 5: .*y must be a list.*start=5, feed_id='f'\)$") as stopped:
        feed(rows(9), Refusing(), batch_size=3, feed_id="f")
    assert stopped.value.offset == 5


def test_an_interruption_says_how_to_continue() -> None:
    with pytest.raises(FeedInterrupted) as stopped:
        feed(rows(9), MemoryModel(["none", "before"]), batch_size=3, feed_id="f")
    assert str(stopped.value) == "refused; to continue: feed(..., start=3, feed_id='f')"
    assert isinstance(stopped.value.__cause__, ConnectionError)


def test_ctrl_c_says_how_to_continue() -> None:
    def interrupted() -> Iterator[Any]:
        yield from rows(7)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        feed(interrupted(), MemoryModel(), batch_size=3, feed_id="f")
    assert stopped.value.__notes__ == ["to continue: feed(..., start=6, feed_id='f')"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (({"a": b"x"}, ["rock"]), "row 4: feature 'a' is b'x'"),
        (({"a": math.nan}, ["rock"]), "row 4: feature 'a' is nan"),
        (({1: 1.0}, ["rock"]), "row 4: feature 1: the name must be a string"),
        (({"a": 1.0}, {2: True}), "row 4: label 2: the name must be a string"),
        (({"a": 1.0}, {"rock": "yes"}), "row 4: label 'rock' is 'yes'"),
        (({"a": 1.0}, {"rock": True}, {"w": 2}), r"row 4: a weight must be a number above 0 and at most 1000, not"),
        (({"a": 1.0}, {"rock": True}, 0.0), r"row 4: a weight must be a number above 0 and at most 1000, not 0.0"),
        (({"a": 1.0}, {"rock": True}, 1.0, None, "r", 2), r"row 4: a row must be \(x, y\), .* not 6 values"),
    ],
)
def test_an_invalid_row_stops_the_feed_before_its_batch(row: Any, message: str) -> None:
    model = MemoryModel()
    with pytest.raises(FeedInterrupted, match=message) as stopped:
        feed([*rows(4), row, *rows(3)], model, batch_size=3)
    assert stopped.value.offset == len(model.learnt) == 3


@pytest.mark.parametrize(
    "options", [{"start": -1}, {"batch_size": 0}, {"feed_id": ""}, {"feed_id": "a b"}, {"feed_id": "x" * 201}]
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be (at least|1 to 200)"):
        feed(rows(4), MemoryModel(), **options)


def test_values_are_converted_before_they_are_sent() -> None:
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
def test_progress_is_shown_on_request(capsys: pytest.CaptureFixture[str], start: int) -> None:
    feed(datasets.Yeast(), MemoryModel(), start=start, progress=True, batch_size=500)
    shown = capsys.readouterr()
    assert "2417/2417" in shown.err
    assert shown.out == ""
    feed(rows(5), MemoryModel(), progress=True)
    assert "5/?" in capsys.readouterr().err
    feed(rows(5), MemoryModel())
    assert capsys.readouterr().err == ""
