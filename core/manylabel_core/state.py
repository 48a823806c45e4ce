"""Serialisation of named arrays and a JSON header, the format of a snapshot.

The bytes are a safetensors file, so reading it runs no code. Its metadata has one key, "manylabel", whose value is one
JSON object, the caller's header with two more keys:

- "format": the version of this layout, an integer;
- "checksum": SHA-256, in hexadecimal, over the canonical JSON (sorted keys, no spaces) of the format, the
  header and the list of `[name, dtype, shape]` sorted by name, and then over the arrays' bytes in that order.

So `State.from_bytes` returns what was written, or raises. The only undetected change is a different encoding of the
same content (such as a space in the JSON).

The safetensors library is not used, because it holds the interpreter's lock and copies everything several times. Here
arrays are written directly into one buffer, and read as views of a buffer, while other threads run. Before any array is
created, names, types, shapes and offsets must agree with the number of bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

FORMAT = 1
KEY = "manylabel"
_RESERVED = ("format", "checksum")
_LENGTH_BYTES = 8  # a safetensors file starts with the length of its JSON header, little-endian
_ALIGNMENT = 8  # alignment of the arrays: the header is padded with blanks

_CODES = ("BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "F64", "I64", "U64")
"""Codes of types in the header; in the file, arrays are sorted by type, in the reverse order of this table, then by
name.
"""

_TYPES = {code: np.dtype("?" if code == "BOOL" else f"<{code[0].lower()}{int(code[1:]) // 8}") for code in _CODES}
_RANKS = {_TYPES[code]: (-rank, code) for rank, code in enumerate(_CODES)}


class DamagedState(Exception):
    """The bytes were not written by `State.to_bytes`, or have changed since."""


class NewerState(DamagedState):
    """The bytes come from a later version of this library and cannot be read."""


class LateArray:
    """Array that is written directly into the bytes of a state, so that it is in memory only once.

    `write` writes the values into an array of the same shape and type.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], write: Callable[[NDArray[Any]], None]) -> None:
        self.shape, self.dtype, self.write = shape, dtype, write
        self.ndim = len(shape)
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the array."""
        array = np.empty(self.shape, self.dtype)
        self.write(array)
        return array if dtype is None else array.astype(dtype, copy=False)


class State(NamedTuple):
    """Arrays by name and a header that serialise to bytes; the same content always gives the same bytes.

    Attributes
    ----------
    arrays : mapping of str to ndarray
        Booleans, integers or floats of any shape. Those read from bytes are writable and C-contiguous.
    header : mapping
        JSON values without NaN and infinity. The keys "format" and "checksum" are reserved.

    Examples
    --------
    >>> import numpy as np
    >>> data = State({"W": np.eye(2, dtype=np.float32)}, {"position": "7"}).to_bytes()
    >>> state = State.from_bytes(data)
    >>> state.header
    {'position': '7'}
    >>> state.arrays["W"]
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    >>> State.from_bytes(data[:-1] + b"!")
    Traceback (most recent call last):
    manylabel_core.state.DamagedState: the checksum does not match the content
    """

    arrays: dict[str, NDArray[Any]]
    header: dict[str, Any]

    def to_bytes(self) -> bytes:
        """Return arrays and header as bytes; raise ValueError if a key or name is reserved, or a value cannot be
        stored.
        """
        return bytes(self.to_buffer())

    def to_buffer(self) -> memoryview:
        """Return the output of `to_bytes` in a separate buffer, without a second copy; other threads run meanwhile."""
        if taken := [key for key in _RESERVED if key in self.header]:
            raise ValueError(f"header: the key {taken[0]!r} is reserved")
        if "__metadata__" in self.arrays:
            raise ValueError("arrays: the name '__metadata__' is reserved")
        plain = _plain(self.header)
        sources = {name: _storable(name, array) for name, array in self.arrays.items()}
        names = sorted(sources, key=lambda name: (_RANKS[_plain_type(sources[name])], name))
        head = _head(sources, names, plain, "0" * hashlib.sha256().digest_size * 2)
        begin = len(head)
        buffer = np.empty(begin + sum(array.nbytes for array in sources.values()), dtype=np.uint8)
        packed: dict[str, NDArray[Any]] = {}
        for name in names:
            array = sources[name]
            end = begin + array.nbytes
            packed[name] = buffer[begin:end].view(_plain_type(array)).reshape(array.shape)
            if isinstance(array, LateArray):
                array.write(packed[name])
            else:
                packed[name][...] = array
            begin = end
        head = _head(sources, names, plain, _checksum(packed, plain))
        buffer[: len(head)] = np.frombuffer(head, dtype=np.uint8)
        return buffer.data

    def checksum(self) -> str:
        """Return the checksum that `to_bytes` writes into the header; raises the errors of `to_bytes`."""
        sources = {name: _storable(name, array) for name, array in self.arrays.items()}
        packed = {name: np.asarray(array, _plain_type(array), order="C") for name, array in sources.items()}
        return _checksum(packed, _plain(self.header))

    @staticmethod
    def header_of(data: bytes | bytearray | memoryview, max_header_bytes: int | None = None) -> dict[str, Any]:
        """Return the unverified header of a state from its first bytes, with format and checksum; raise DamagedState if
        it is missing or incomplete.
        """
        return _header(_outer(memoryview(data).cast("B"), max_header_bytes)[0])

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, max_header_bytes: int | None = None) -> State:
        """Return the state that `to_bytes` wrote.

        Parameters
        ----------
        data : bytes-like
            The file. Aligned arrays are views of a writable buffer; arrays of bytes are copies.
        max_header_bytes : int, optional
            Maximum bytes of JSON to parse, because parsing holds the interpreter's lock. None: no maximum.

        Raises
        ------
        DamagedState
            If any relevant byte differs from what was written; `NewerState` if a later version wrote it.
        """
        view = memoryview(data).cast("B")
        outer, begin = _outer(view, max_header_bytes)
        header = _header(outer)
        version, checksum = header.pop("format", None), header.pop("checksum", None)
        if type(version) is not int or version < 1:
            raise DamagedState("the header has no format")
        if version > FORMAT:
            raise NewerState(f"the file has format {version}; this version reads formats up to {FORMAT}")
        arrays = _arrays(outer, view[begin:])
        try:
            sound = checksum == _checksum(arrays, header)
        except (ValueError, RecursionError) as error:
            raise DamagedState(f"the header is not plain JSON: {error}") from error
        if not sound:
            raise DamagedState("the checksum does not match the content")
        return cls(arrays, header)


def _plain(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header after a round trip through JSON: tuples become lists, and keys become strings."""
    try:
        return cast("dict[str, Any]", json.loads(json.dumps(dict(header), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"header: {error}") from error


def _storable(name: str, array: Any) -> Any:
    array = array if isinstance(array, LateArray) else np.asarray(array)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"arrays[{name!r}] must contain booleans, integers or floats, not {array.dtype}")
    return array


def _plain_type(array: NDArray[Any]) -> np.dtype[Any]:
    return array.dtype.newbyteorder("<")


def _head(arrays: Mapping[str, NDArray[Any]], names: list[str], plain: dict[str, Any], checksum: str) -> bytes:
    """Return the first bytes of the file, up to the arrays, which follow in the order of `names`."""
    document = {"format": FORMAT, "checksum": checksum, **plain}
    outer: dict[str, Any] = {"__metadata__": {KEY: json.dumps(document, sort_keys=True)}}
    end = 0
    for name in names:
        begin, end = end, end + arrays[name].nbytes
        _, code = _RANKS[_plain_type(arrays[name])]
        outer[name] = {"dtype": code, "shape": arrays[name].shape, "data_offsets": [begin, end]}
    text = json.dumps(outer, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def _checksum(arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> str:
    names = sorted(arrays)
    listing = [[name, arrays[name].dtype.str, arrays[name].shape] for name in names]
    manifest = {"format": FORMAT, "header": header, "arrays": listing}
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(text.encode())
    for name in names:
        digest.update(arrays[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _outer(view: memoryview, max_bytes: int | None) -> tuple[dict[str, Any], int]:
    """Return the JSON header of the file, and the offset of the arrays."""
    length = int.from_bytes(view[:_LENGTH_BYTES], "little")
    begin = _LENGTH_BYTES + length
    if begin > len(view):
        raise DamagedState(f"the header has {length:,} bytes, the file has {len(view):,}")
    if max_bytes is not None and length > max_bytes:
        raise DamagedState(f"the header has {length:,} bytes; at most {max_bytes:,} are possible")
    try:
        outer = json.loads(str(view[_LENGTH_BYTES:begin], "utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedState(f"the header is not JSON: {error}") from error
    if not isinstance(outer, dict):
        raise DamagedState("the header is not a JSON object")
    return outer, begin


def _header(outer: dict[str, Any]) -> dict[str, Any]:
    """Remove the header, with format and checksum, from the header of the file, and return it."""
    try:
        header = json.loads(outer.pop("__metadata__")[KEY])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedState(f"the metadata has no valid header under {KEY!r}: {error}") from error
    if not isinstance(header, dict):
        raise DamagedState("the header is not a JSON object")
    return header


def _arrays(entries: dict[str, Any], view: memoryview) -> dict[str, NDArray[Any]]:
    """Return the arrays of the entries of the header, which together cover all bytes."""
    places = {name: _place(name, entry) for name, entry in entries.items()}
    at = 0
    for name in sorted(places, key=lambda name: places[name][2:]):
        _, _, begin, end = places[name]
        if begin != at:
            raise DamagedState(f"array {name!r} begins at {begin}, not where the one before ends, at {at}")
        at = end
    if at != len(view):
        raise DamagedState(f"the arrays have {at:,} bytes, the file has {len(view):,} for them")
    return {name: _array(view, *place) for name, place in places.items()}


def _place(name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """Return the type, shape, start and end of an array."""
    try:
        dtype, shape, (begin, end) = _TYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedState(f"array {name!r} has a type that cannot be stored: {error!r}") from error
    counts = (*shape, begin, end)
    if len(entry) != 3 or len(shape) > 32 or not all(type(count) is int and 0 <= count < 2**63 for count in counts):
        raise DamagedState(f"array {name!r} has no shape or no offsets")
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise DamagedState(f"array {name!r} does not have the number of bytes that its shape requires")
    return dtype, shape, begin, end


def _array(view: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...], begin: int, end: int) -> NDArray[Any]:
    try:
        array = np.frombuffer(view[begin:end], dtype=dtype).reshape(shape)
    except ValueError as error:  # empty, with an axis that is too long for any array
        raise DamagedState(f"an array cannot have the shape {shape}: {error}") from error
    return array if array.flags.writeable and array.flags.aligned else array.copy()
