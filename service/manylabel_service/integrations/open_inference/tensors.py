"""Tensors of the Open Inference Protocol: their elements as numbers or as strings, in JSON or as binary data."""

import struct
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StrictBool, StrictStr, TypeAdapter, ValidationError

from manylabel_core.rows import MAX_MAGNITUDE
from manylabel_service.api.schemas.requests import Value
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.validation import Path, invalid_body
from manylabel_service.integrations.open_inference.schemas import InferInput
from manylabel_service.slices import Pace, in_slices

PIECE_ELEMENTS = 2**12
"""Number of elements processed between yields to other requests."""

BINARY_SIZE = "binary_data_size"
"""Parameter of a tensor whose elements follow the JSON."""

_FLOATS = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
_INTEGERS = {
    f"{sign}INT{bits}": f"<{kind}{bits // 8}" for sign, kind in (("", "i"), ("U", "u")) for bits in (8, 16, 32, 64)
}
_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(code) for name, code in {**_FLOATS, **_INTEGERS, "BOOL": "?"}.items()
}
"""NumPy types of the binary elements, by numeric datatype."""


def _list_of(element: Any) -> TypeAdapter[list[Any]]:
    return TypeAdapter(Annotated[list[element], Field(fail_fast=True)])


def _integer(code: str) -> Any:
    bounds = np.iinfo(code)
    return Annotated[int, Field(strict=True, ge=int(bounds.min), le=int(bounds.max))]


_ELEMENTS = {
    **dict.fromkeys(_FLOATS, _list_of(Value)),
    **{name: _list_of(_integer(code)) for name, code in _INTEGERS.items()},
    "BOOL": _list_of(StrictBool),
    "BYTES": _list_of(StrictStr),
}
"""Validator of the JSON list of elements, by datatype."""


class Tensor(NamedTuple):
    """Input: its description, its index in the body, and its elements if they are binary data."""

    asked: InferInput
    at: Path
    binary: memoryview | None


def split(inputs: Sequence[InferInput], binary: memoryview) -> list[Tensor]:
    """Return the inputs of a request, each with its part of the binary data after the JSON. Raises a Problem
    invalid_request."""
    tensors, begin = [], 0
    for index, each in enumerate(inputs):
        at: Path = ("inputs", index)
        size = (each.parameters or {}).get(BINARY_SIZE)
        if (size is None) == (each.data is None):
            raise invalid(at, f"must have either data or the parameter {BINARY_SIZE}")
        if size is None:
            tensors.append(Tensor(each, at, None))
            continue
        if type(size) is not int or not 0 <= size <= len(binary) - begin:
            detail = f"must be an integer from 0 to {len(binary) - begin}, the remaining bytes after the JSON"
            raise invalid((*at, "parameters", BINARY_SIZE), detail)
        tensors.append(Tensor(each, at, binary[begin : begin + size]))
        begin += size
    if begin != len(binary):
        raise invalid(
            ("inputs",),
            f"must have a total {BINARY_SIZE} of {len(binary)}, the number of bytes after the JSON, not {begin}",
        )
    return tensors


def n_examples(tensor: Tensor) -> int:
    """Return the number of examples of a tensor; raises a Problem invalid_request for a shape without examples."""
    shape, at = tensor.asked.shape, (*tensor.at, "shape")
    if tensor.asked.datatype == "BYTES":
        if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
            return _at_least_one(shape[0], at)
        raise invalid(at, "must be [n] or [n, 1] for BYTES: an element is an example")
    if len(shape) != 2:
        raise invalid(at, "must be [n, d]: n examples of d features")
    return _at_least_one(shape[0], at)


def _at_least_one(n: int, at: Path) -> int:
    if n < 1:
        raise invalid(at, "must have at least one example")
    return n


async def to_matrix(tensor: Tensor) -> NDArray[np.float32]:
    """Return the rows of a tensor of numbers, shape (n_samples, n_features), float32; NaN where a value is missing.
    Raises a Problem."""
    n, d = tensor.asked.shape
    if tensor.binary is not None:
        return _from_bytes(tensor, n, d)
    found = np.empty(_checked(tensor, n, d), dtype=np.float32)
    done = 0
    async for piece in _pieces(tensor, n, d):
        found[done : done + len(piece)] = np.array(piece, dtype=np.float64)
        done += len(piece)
    return found.reshape(n, d)


def _from_bytes(tensor: Tensor, n: int, d: int) -> NDArray[np.float32]:
    dtype = _DTYPES[tensor.asked.datatype]
    assert tensor.binary is not None
    if len(tensor.binary) != n * d * dtype.itemsize:
        detail = f"must be {n * d * dtype.itemsize} for shape [{n}, {d}] and {tensor.asked.datatype}"
        raise invalid((*tensor.at, "parameters", BINARY_SIZE), detail)
    values = np.frombuffer(tensor.binary, dtype=dtype).reshape(n, d)
    if (np.abs(values.astype(np.float64, copy=False)) > MAX_MAGNITUDE).any():
        raise invalid((*tensor.at, "data"), f"must be at most {MAX_MAGNITUDE:g} in absolute value")
    return values.astype(np.float32)


async def to_strings(tensor: Tensor, n: int) -> list[str]:
    """Return the elements of a tensor of BYTES; raises the errors of `to_matrix`."""
    if tensor.binary is not None:
        return await _strings_from_bytes(tensor, n)
    _checked(tensor, n, 1)
    return [element async for piece in _pieces(tensor, n, 1) for element in piece]


async def _strings_from_bytes(tensor: Tensor, n: int) -> list[str]:
    """Return elements that are each preceded by a length of four bytes."""
    assert tensor.binary is not None
    found: list[str] = []
    begin, size = 0, len(tensor.binary)
    at = (*tensor.at, "data")
    pace = Pace()
    while begin < size and len(found) < n:
        await pace.rest()
        end = begin + 4 + (struct.unpack_from("<I", tensor.binary, begin)[0] if begin + 4 <= size else size)
        if end > size:
            raise invalid((*at, len(found)), "is longer than the binary data")
        try:
            found.append(str(tensor.binary[begin + 4 : end], "utf-8"))
        except UnicodeDecodeError:
            raise invalid((*at, len(found)), "must be UTF-8") from None
        begin = end
    if begin != size or len(found) != n:
        raise invalid((*tensor.at, "parameters", BINARY_SIZE), f"must be the size of {n} elements, according to shape")
    return found


def _checked(tensor: Tensor, n: int, d: int) -> int:
    """Return the number of elements of the shape (n, d); raise a Problem unless the data, flat or in rows, has this
    number."""
    data, at = tensor.asked.data, (*tensor.at, "data")
    assert data is not None
    if not (data and isinstance(data[0], list)):
        if len(data) != n * d:
            raise invalid(at, f"must have {n * d} elements, according to shape; has {len(data)}")
        return n * d
    if len(data) != n:
        raise invalid(at, f"must have {n} rows, according to shape; has {len(data)}")
    for place, row in enumerate(data):
        if not isinstance(row, list) or len(row) != d:
            raise invalid((*at, place), f"must be a list of {d} elements, according to shape")
    return n * d


async def _pieces(tensor: Tensor, n: int, d: int) -> Any:
    """Yield the validated elements in chunks between which other requests run."""
    elements = _ELEMENTS[tensor.asked.datatype]
    for at, values in _lists(tensor):
        async for begin in in_slices(range(0, len(values), PIECE_ELEMENTS)):
            try:
                yield elements.validate_python(values[begin : begin + PIECE_ELEMENTS])
            except ValidationError as error:
                raise invalid_body(error, at, _behind(begin), {}) from error


def _lists(tensor: Tensor) -> Iterator[tuple[Path, list[Any]]]:
    """Yield the lists of elements with their locations: one flat list, or one list per row."""
    data: list[Any] = tensor.asked.data or []
    at: Path = (*tensor.at, "data")
    if data and isinstance(data[0], list):
        for place, row in enumerate(data):
            yield (*at, place), row
    else:
        yield at, data


def _behind(begin: int) -> Any:
    """Return a function that shifts the location of an element by the start of its chunk."""
    return lambda location: tuple(part + begin if isinstance(part, int) else part for part in location[:1])
