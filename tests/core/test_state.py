"""State files: what comes back is what went in, or an error says that it is not."""

import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.cases import for_each

from manylabel_core.state import FORMAT, DamagedState, NewerState, State

ARRAYS = {
    "W": np.arange(6, dtype=np.float32).reshape(2, 3),
    "empty": np.zeros((0, 4)),
    "scalar": np.array(7, dtype=np.int64),
    "flags": np.array([True, False, True]),
}
HEADER = {"position": "12", "spec": {"eta": 0.1, "passes": 1.0, "name": "é"}, "keys": [1, -2, None, True]}
DATA = State(ARRAYS, HEADER).to_bytes()


def _same(state: State, arrays: dict[str, Any], header: dict[str, Any]) -> bool:
    """Equal to the bit: NaN equals NaN of the same bits, -0.0 is not 0.0, 1 is not 1.0."""
    return (
        json.dumps(state.header, sort_keys=True) == json.dumps(header, sort_keys=True)
        and state.arrays.keys() == arrays.keys()
        and all(
            state.arrays[name].dtype == array.dtype
            and state.arrays[name].shape == array.shape
            and state.arrays[name].tobytes() == array.tobytes()
            for name, array in arrays.items()
        )
    )


NUMBERS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="<"),
    hnp.floating_dtypes(endianness="<", sizes=(16, 32, 64)),
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(
    st.dictionaries(NAMES, NUMBERS.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES)), max_size=3),
    st.dictionaries(st.text().filter(lambda key: key not in ("format", "checksum")), JSON, max_size=3),
)
def test_round_trip(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    data = State(arrays, header).to_bytes()
    state = State.from_bytes(data)
    assert _same(state, arrays, header)
    assert all(array.flags.writeable and array.flags.c_contiguous for array in state.arrays.values())
    assert State(dict(reversed(state.arrays.items())), dict(reversed(state.header.items()))).to_bytes() == data


def test_writing_to_a_loaded_array_leaves_the_data_alone() -> None:
    State.from_bytes(DATA).arrays["W"][:] = -1
    assert _same(State.from_bytes(DATA), ARRAYS, HEADER)


def test_any_memory_layout_is_accepted() -> None:
    W = np.arange(24, dtype=np.float64).reshape(4, 6)
    arrays = {"F": np.asfortranarray(W), "strided": W[::2, ::-3], "big": W.astype(">f8"), "fixed": W[1]}
    arrays["fixed"].flags.writeable = False
    loaded = State.from_bytes(State(arrays, {}).to_bytes()).arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
    assert loaded["big"].dtype == np.dtype("<f8")


def test_it_is_the_file_that_safetensors_writes() -> None:
    types = ("?", "u1", "i1", "<u2", "<i2", "<f2", "<u4", "<i4", "<f4", "<u8", "<i8", "<f8")
    arrays = {f"{n} {dtype} \u00e9\n": np.arange(4).astype(dtype) for dtype in types for n in (2, 1)} | ARRAYS
    data = State(arrays, HEADER).to_bytes()
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    assert data == safetensors.numpy.save(arrays, metadata=metadata)
    assert State(arrays, HEADER).to_buffer() == data


def test_arrays_of_a_buffer_are_views_of_it() -> None:
    buffer = State(ARRAYS, HEADER).to_buffer()
    state = State.from_bytes(buffer)
    assert _same(state, ARRAYS, HEADER)
    whole = np.frombuffer(buffer, dtype=np.uint8)
    assert np.shares_memory(state.arrays["W"], whole)


def test_a_header_beyond_its_bound_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    length = int.from_bytes(DATA[:8], "little")
    assert _same(State.from_bytes(DATA, max_header_bytes=length), ARRAYS, HEADER)
    with pytest.raises(DamagedState, match=f"{length:,} bytes; at most {length - 1:,}"):
        State.from_bytes(DATA, max_header_bytes=length - 1)
    monkeypatch.setattr(json, "loads", lambda _: pytest.fail("the header was parsed"))
    with pytest.raises(DamagedState, match="at most"):
        State.from_bytes(_file(b"[" + b"[]," * 2**17 + b"0]"), max_header_bytes=2**18)


@for_each(
    "entry",
    [
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
        {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2, 2**70, 0], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [2**62, 0], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [1] * 40 + [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "more": 1},
        {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]},
        {"dtype": "F32", "shape": {"2": 1}, "data_offsets": [0, 8]},
        ["F32", [2], [0, 8]],
        None,
    ],
    ids=range(14),
)
def test_shapes_and_offsets_agree_with_the_bytes(entry: Any) -> None:
    metadata = {"manylabel": '{"format": 1, "checksum": ""}'}
    with pytest.raises(DamagedState, match="array"):
        State.from_bytes(_file({"__metadata__": metadata, "a": entry}, bytes(8)))


def test_any_flipped_bit_is_noticed() -> None:
    harmless = 0
    for at in range(len(DATA)):
        for bit in range(8):
            damaged = bytearray(DATA)
            damaged[at] ^= 1 << bit
            try:
                state = State.from_bytes(bytes(damaged))
            except DamagedState:
                continue
            assert _same(state, ARRAYS, HEADER), f"bit {bit} of byte {at}"
            harmless += 1
    assert harmless < 40  # e.g. a blank that became a tab, or the case of a hexadecimal digit in an escape


@given(st.integers(0, len(DATA) - 1), st.binary(min_size=1, max_size=9))
def test_any_cut_or_addition_is_noticed(at: int, rest: bytes) -> None:
    for data in (DATA[:at], DATA[at + 1 :], DATA + rest, rest + DATA, DATA[: at + 1] + DATA):
        with pytest.raises(DamagedState):
            State.from_bytes(data)


@given(st.integers(0, len(DATA)), st.integers(0, 16), st.binary(max_size=16))
def test_any_overwriting_is_noticed(at: int, length: int, by: bytes) -> None:
    with contextlib.suppress(DamagedState):
        assert _same(State.from_bytes(DATA[:at] + by + DATA[at + length :]), ARRAYS, HEADER)


def test_arrays_of_equal_shape_that_changed_places_are_noticed() -> None:
    ones, twos = np.ones(3), np.full(3, 2.0)
    data = State({"a": ones, "b": twos}, {}).to_bytes()
    assert data.endswith(ones.tobytes() + twos.tobytes())
    with pytest.raises(DamagedState, match="checksum"):
        State.from_bytes(data[:-48] + twos.tobytes() + ones.tobytes())


def _file(outer: Any, data: bytes = b"") -> bytes:
    text = outer if isinstance(outer, bytes) else json.dumps(outer).encode()
    return struct.pack("<Q", len(text)) + text + data


def _metadata(header: str) -> bytes:
    return _file({"__metadata__": {"manylabel": header}})


@given(st.binary())
def test_other_bytes_are_no_state(data: bytes) -> None:
    for other in (data, _file(data), _metadata(data.decode("latin-1"))):
        with pytest.raises(DamagedState):
            State.from_bytes(other)


@for_each(
    "data",
    [
        safetensors.numpy.save(ARRAYS),
        safetensors.numpy.save(ARRAYS, metadata={"other": "{}"}),
        struct.pack("<Q", 1 << 63) + b"{}",
        _file(b"[" * 100_000),
        _file(b"{}"),
        _file(["__metadata__"]),
        _file({"__metadata__": None}),
        _metadata("[" * 100_000),
        _metadata("[]"),
        _metadata("{}"),
        _metadata('{"format": 1}'),
        _metadata('{"format": true, "checksum": ""}'),
        _metadata('{"format": 0, "checksum": ""}'),
        _metadata('{"format": 1, "checksum": "", "x": NaN}'),
        _metadata('{"format": 1, "checksum": "", "x": ' + "9" * 5000 + "}"),
        _metadata('{"format": 1, "checksum": ["\\ud800"], "x": "\\ud800"}'),
        _file(
            {
                "__metadata__": {"manylabel": '{"format": 1, "checksum": ""}'},
                "a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]},
            },
            b"\0\0",
        ),
    ],
    ids=range(17),
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(DamagedState):
        State.from_bytes(data)


def test_a_newer_format_has_its_own_error() -> None:
    with pytest.raises(NewerState, match=f"format {FORMAT + 1}"):
        State.from_bytes(_metadata(json.dumps({"format": FORMAT + 1, "checksum": "of a kind unknown here"})))
    assert issubclass(NewerState, DamagedState)


@for_each(
    ("arrays", "header"),
    [
        ({}, {"format": 2}),
        ({}, {"checksum": ""}),
        ({}, {"x": float("nan")}),
        ({}, {"x": [float("inf")]}),
        ({}, {"x": b"bytes"}),
        ({}, {"x": {1, 2}}),
        ({"__metadata__": np.zeros(1)}, {}),
        ({"\ud800": np.zeros(1)}, {}),
        ({"a": np.array(["text"])}, {}),
        ({"a": np.array([None])}, {}),
        ({"a": np.zeros(1, dtype=np.longdouble)}, {}),
        ({"a": np.zeros(1, dtype=np.complex128)}, {}),
        ({"a": np.zeros(1, dtype="datetime64[s]")}, {}),
    ],
)
def test_unserialisable_values_are_refused(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^header: |^arrays|surrogates"):
        State(arrays, header).to_bytes()
