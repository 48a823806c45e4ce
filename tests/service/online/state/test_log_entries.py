"""Log entries keep every bit of an update, and damaged ones are refused."""

from collections.abc import Callable

import hypothesis.extra.numpy as hnp
import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_service.errors import ReleaseTooOld, UnreadableEntry
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.controls import Relabel, Rollback
from manylabel_service.online.state.log_entries import Change, Update, decode, encode
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.release import FORMAT

FORM = 1
names = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=5)
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def features(draw: st.DrawFn) -> Features:
    form = draw(st.sampled_from(["named", "sparse", "dense"]))
    keys = draw(names)
    values = draw(hnp.arrays(np.float32, len(keys), elements=floats))
    if form == "named":
        return Features(tuple(keys), None, values)
    indices = np.cumsum(np.arange(len(keys)) + 1).astype(np.int32)
    return Features(None, indices if form == "sparse" else None, values)


@st.composite
def labels(draw: st.DrawFn) -> Labels:
    listed = draw(names)
    signs = draw(hnp.arrays(np.int8, len(listed), elements=st.sampled_from([-1, 1])))
    return Labels(tuple(listed), signs, draw(st.booleans()))


keys = st.none() | st.builds(IdempotencyKey, st.text(max_size=40), st.binary(min_size=16, max_size=16))


@st.composite
def updates(draw: st.DrawFn) -> Update:
    weights = st.just(1.0) | st.floats(0.0, 1000.0, exclude_min=True)
    refs = st.none() | st.text(min_size=1, max_size=32)
    examples = draw(st.lists(st.builds(Example, features(), labels(), weights, st.just("human"), refs), max_size=4))
    size = len(examples)
    want_predictions = draw(st.booleans())
    ids = st.lists(st.text(max_size=30), min_size=size, max_size=size)
    kept = draw(st.none() | ids.map(tuple))
    scores = hnp.arrays(np.float64, st.integers(0, 3), elements=st.floats(allow_infinity=False))
    lines = st.lists(st.integers(1, 2**63 - 1), min_size=size, max_size=size, unique=True)
    through = st.just(2**63 - 1) | st.none() if examples else st.just(2**63 - 1)
    return Update(
        tuple(examples),
        draw(keys),
        want_predictions=want_predictions,
        want_probabilities=want_predictions and draw(st.booleans()),
        prediction_ids=kept,
        stream=draw(st.none() | st.builds(StreamPart, st.text(), lines.map(sorted).map(tuple), through)),
        served=None if kept is None else tuple(draw(scores) for _ in kept),
    )


rollbacks = st.builds(Rollback, st.text(max_size=20), keys) | st.builds(
    Relabel, st.text(max_size=20), st.none() | st.text(max_size=20), keys
)
pauses = st.builds(Relabel, st.text(max_size=20), st.none(), keys, paused=st.booleans())


def same_array(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


@given(rollbacks | pauses)
def test_round_trip_of_a_rollback_and_a_relabel(rollback: Rollback | Relabel) -> None:
    assert decode(encode(rollback)) == rollback


@given(updates())
def test_round_trip(update: Update) -> None:
    again = decode(encode(update))
    assert isinstance(again, Update)
    assert again._replace(examples=(), served=None) == update._replace(examples=(), served=None)
    assert (again.served is None) == (update.served is None)
    assert all(same_array(*pair) for pair in zip(update.served or (), again.served or (), strict=True))
    assert len(again.examples) == len(update.examples)
    for (x, y, *more), (x2, y2, *more2) in zip(update.examples, again.examples, strict=True):
        assert more == more2
        assert (x.names, y.names, y.complete) == (x2.names, y2.names, y2.complete)
        assert same_array(x.indices, x2.indices)
        assert same_array(x.values, x2.values)
        assert same_array(y.signs, y2.signs)


@given(updates() | rollbacks, st.data())
def test_a_cut_entry_is_unreadable(change: Change, data: st.DataObject) -> None:
    payload = encode(change)
    length = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(UnreadableEntry):
        decode(payload[:length])


EXAMPLE = [None, None, b"", [], b"", True]


@for_each(
    "payload",
    [
        b"",
        b"\xc1",
        msgpack.packb({}),
        msgpack.packb([FORM]),
        msgpack.packb([FORM - 1, 0, None, None, False, False, None, []]),
        msgpack.packb([FORM, 0, None, None, True, False, None, [3]]),
        msgpack.packb([FORM, 0, None, None, True, False, [None, None, "s", [2, 1]], [EXAMPLE, EXAMPLE]]),
        msgpack.packb([FORM, 0, None, None, True, False, [None, None, "s", None], [EXAMPLE]]),
        msgpack.packb([FORM, 0, None, None, True, False, [["a", "b"], [b""], None, None], [EXAMPLE]]),
        msgpack.packb([FORM, 0, None, None, True, False, [["a"], None, None, None], [EXAMPLE]]),
        msgpack.packb([FORM, 0, None, None, True, False, [["a"], [b"abc"], None, None], [EXAMPLE]]),
        msgpack.packb([FORM, 0, None, None, True, False, [None, [b""], None, None], [EXAMPLE]]),
        msgpack.packb([FORM, 0, None, None, False, True, None, [EXAMPLE]]),
        msgpack.packb([FORM, 0, None, None, True, None, [EXAMPLE]]),
        msgpack.packb([FORM, 0, None, None, True, [None, "s", [2, 1]], [EXAMPLE, EXAMPLE]]),
        msgpack.packb([FORM, 1, None, None]),
        msgpack.packb([FORM, 2, None, None, "7"]),
        msgpack.packb([FORM, 2, None, None, "7", 8]),
        msgpack.packb([FORM, 2, None, None, None, None]),
        msgpack.packb([FORM, 3, None, None, "7"]),
        msgpack.packb([FORM, 2, None, None, True, None, [EXAMPLE]]),
        msgpack.packb([1, "log", None, None, 1, [3]]),
    ],
)
def test_a_malformed_entry_is_unreadable(payload: bytes) -> None:
    with pytest.raises(UnreadableEntry):
        decode(payload)


def test_an_entry_of_a_newer_format_is_reported() -> None:
    with pytest.raises(ReleaseTooOld, match=f"format {FORMAT + 1}.*newer release"):
        decode(msgpack.packb([FORMAT + 1, "whatever"]))


@for_each("facts", [["b", False, True], [None, True, True], [None, False, 1], [None, False, None, 1]])
def test_a_malformed_pause_is_unreadable(facts: list[object]) -> None:
    with pytest.raises(UnreadableEntry):
        decode(msgpack.packb([FORM, 2, None, None, "a", *facts]))


@for_each("stream", [None, StreamPart("s", (1,)), StreamPart("s", (2, 1)), StreamPart("s", (0, 1))])
def test_an_update_with_mismatched_parts_is_not_written(stream: StreamPart | None) -> None:
    examples = (Example(Features(None, None, np.ones(1, np.float32)), Labels.all_of([])),) * 2
    with pytest.raises(ValueError, match="2 examples need 2"):
        encode(Update(examples, prediction_ids=("a",) if stream is None else None, stream=stream))


def test_probabilities_without_predictions_are_not_written() -> None:
    example = Example(Features(None, None, np.ones(1, np.float32)), Labels.all_of([]))
    with pytest.raises(ValueError, match="probabilities require predictions"):
        encode(Update((example,), want_probabilities=True))


@pytest.mark.parametrize("make", [lambda key: Update((), key), lambda key: Rollback("1", key)])
def test_a_key_that_is_too_long_is_not_written(make: Callable[[IdempotencyKey], Change]) -> None:
    encode(make(IdempotencyKey("k" * 255, b"d" * 16)))
    for text in ("k" * 256, "\u00e9" * 128):
        with pytest.raises(ValueError, match="idempotency key"):
            encode(make(IdempotencyKey(text, b"d" * 16)))
