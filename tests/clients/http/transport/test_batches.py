"""Items are grouped into requests of a limited size."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clients.http.fake_server import FakeServer
from tests.support.cases import for_each

from manylabel_clients.http.transport.batches import Batch, Batches


def drawn(items: Sequence[bytes], batch_size: int, batch_bytes: int) -> list[Batch]:
    batches, fake = Batches(items, bytes, batch_size, batch_bytes), FakeServer()
    return list(iter(lambda: fake(batches.draw()), None))


@given(st.lists(st.binary(min_size=1, max_size=12)), st.integers(1, 5), st.integers(1, 40))
def test_batches_hold_every_item_once_in_order_within_the_limits(
    items: list[bytes], batch_size: int, batch_bytes: int
) -> None:
    items = [json.dumps(item.hex()).encode() for item in items]
    seen: list[Any] = []
    for batch in drawn(items, batch_size, batch_bytes):
        assert batch.start == len(seen)
        examples = json.loads(batch.body({}))["examples"]
        assert 1 <= len(examples) <= batch_size
        content_bytes = len(batch.body({})) - len('{"examples":[]}')
        assert content_bytes <= batch_bytes or len(examples) == 1
        seen += examples
    assert seen == [json.loads(item) for item in items]


class Frame:
    """Stand-in for a data frame, of which only the columns are used."""

    columns = ("age",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@for_each("items", ["red fish", b"red", {"age": 3}, Frame()])
def test_one_example_is_no_iterable_of_examples(items: Any) -> None:
    with pytest.raises(TypeError, match="must be an iterable of examples, not one "):
        Batches(items, bytes, 1, what="examples")


def test_batches_are_as_full_as_the_limits_allow() -> None:
    sizes = [len(json.loads(b.body({}))["examples"]) for b in drawn([b"1"] * 10, 4, 100)]
    assert sizes == [4, 4, 2]
    assert len(list(drawn([b"11"] * 6, 100, 8))) == 2
