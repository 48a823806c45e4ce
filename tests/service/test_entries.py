"""Log entries keep every bit of an update, and damaged ones are told from sound ones."""

import hypothesis.extra.numpy as hnp
import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manylabel_service.replicas.entries import VERSION, UnreadableEntry, decode, encode
from manylabel_service.replicas.examples import Example, Features, IdempotencyKey, Labels, Update

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


updates = st.builds(
    Update,
    examples=st.lists(st.builds(Example, features(), labels()), min_size=1, max_size=4).map(tuple),
    durability=st.sampled_from(["memory", "log", "fsync"]),
    key=st.none() | st.builds(IdempotencyKey, st.text(max_size=40), st.binary(min_size=16, max_size=16)),
    want_predictions=st.booleans(),
)


def same_array(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


@given(updates)
def test_round_trip(update: Update) -> None:
    again = decode(encode(update))
    assert (again.durability, again.key, again.want_predictions) == (
        update.durability,
        update.key,
        update.want_predictions,
    )
    assert len(again.examples) == len(update.examples)
    for (x, y), (x2, y2) in zip(update.examples, again.examples, strict=True):
        assert (x.names, y.names, y.complete) == (x2.names, y2.names, y2.complete)
        assert same_array(x.indices, x2.indices)
        assert same_array(x.values, x2.values)
        assert same_array(y.signs, y2.signs)


@given(updates, st.data())
def test_a_cut_entry_is_unreadable(update: Update, data: st.DataObject) -> None:
    payload = encode(update)
    length = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(UnreadableEntry):
        decode(payload[:length])


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        msgpack.packb({}),
        msgpack.packb([VERSION]),
        msgpack.packb([VERSION, "log", None, None, 1, [3]]),
    ],
)
def test_what_is_no_entry_is_unreadable(payload: bytes) -> None:
    with pytest.raises(UnreadableEntry):
        decode(payload)


def test_an_entry_of_a_newer_version_says_so() -> None:
    with pytest.raises(UnreadableEntry, match=f"version {VERSION + 1}"):
        decode(msgpack.packb([VERSION + 1, "whatever"]))
