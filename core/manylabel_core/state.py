"""Named arrays and a JSON header to bytes and back: the form of a snapshot.

The bytes are a safetensors file, so that reading one can run no code. Its metadata has one key, "manylabel",
whose value is one JSON object, the caller's header with two more keys:

- "format": the version of this layout, an integer;
- "checksum": SHA-256, in hexadecimal, over the canonical JSON (sorted keys, no spaces) of the format, the
  header and the list of `[name, dtype, shape]` sorted by name, and then over the arrays' bytes in that order.

So a flipped bit, a cut or an appended byte is noticed wherever it matters: `State.from_bytes` gives back
what was written, or it raises. What it does not notice is another spelling of the same content (a space in the JSON).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

FORMAT = 1
KEY = "manylabel"
_RESERVED = ("format", "checksum")
_LENGTH_BYTES = 8  # a safetensors file starts with the length of its JSON header, little-endian


class DamagedState(Exception):
    """The bytes are not a state that `State.to_bytes` wrote, or not any more."""


class NewerState(DamagedState):
    """The bytes come from a later version of this library; they may be sound, but cannot be read here."""


class State(NamedTuple):
    """A state is arrays by name and a header, as bytes and back; the same content always gives the same bytes.

    Attributes
    ----------
    arrays : mapping of str to ndarray
        Booleans, integers or floats of any shape. Those read from bytes are writable and C-contiguous.
    header : mapping
        Anything JSON can say, without NaN and infinity. The keys "format" and "checksum" are taken.

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
        """Return arrays and header as bytes.

        Raises
        ------
        ValueError
            If a key or a name is taken, or JSON or safetensors cannot hold some value.
        """
        if taken := [key for key in _RESERVED if key in self.header]:
            raise ValueError(f"header: the key {taken[0]!r} is taken")
        if "__metadata__" in self.arrays:
            raise ValueError("arrays: the name '__metadata__' is taken")
        plain = _plain(self.header)
        dense = {name: _dense(name, array) for name, array in self.arrays.items()}
        document = {"format": FORMAT, "checksum": _checksum(dense, plain), **plain}
        return safetensors.numpy.save(dense, metadata={KEY: json.dumps(document, sort_keys=True)})

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """Return the state that `to_bytes` wrote.

        Raises
        ------
        DamagedState
            If anything that matters differs from what was written; `NewerState` if a later version wrote it.
        """
        header = _header(data)
        version, checksum = header.pop("format", None), header.pop("checksum", None)
        if type(version) is not int or version < 1:
            raise DamagedState("the header names no format")
        if version > FORMAT:
            raise NewerState(f"written in format {version}; this version reads up to format {FORMAT}")
        arrays = _arrays(data)
        try:
            sound = checksum == _checksum(arrays, header)
        except (ValueError, RecursionError) as error:
            raise DamagedState(f"the header is not plain JSON: {error}") from error
        if not sound:
            raise DamagedState("the checksum does not match the content")
        return cls(arrays, header)


def _plain(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header as it will come back: tuples are lists, keys are strings."""
    try:
        return cast("dict[str, Any]", json.loads(json.dumps(dict(header), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"header: {error}") from error


def _dense(name: str, array: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(array)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"arrays[{name!r}]: expected booleans, integers or floats, not {array.dtype}")
    # Not ascontiguousarray, which would turn a scalar array into a vector.
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _checksum(arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> str:
    names = sorted(arrays)
    listing = [[name, arrays[name].dtype.str, arrays[name].shape] for name in names]
    manifest = {"format": FORMAT, "header": header, "arrays": listing}
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(text.encode())
    for name in names:
        digest.update(arrays[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _header(data: bytes) -> dict[str, Any]:
    # safetensors gives the metadata only of files, not of bytes.
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    try:
        outer = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
        header = json.loads(outer["__metadata__"][KEY])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedState(f"no header under {KEY!r}: {error}") from error
    if not isinstance(header, dict):
        raise DamagedState("the header is not a JSON object")
    return header


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    try:
        arrays = safetensors.numpy.load(data)
    except safetensors.SafetensorError as error:
        raise DamagedState(f"not a safetensors file: {error}") from error
    except (KeyError, ValueError) as error:
        raise DamagedState(f"an array of a type that is never written: {error}") from error
    return {name: array if array.flags.writeable else array.copy() for name, array in arrays.items()}
