"""Vector fields of records: lists of numbers, or base64 of their bytes."""

from binascii import Error, a2b_base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.records.bounds import MAX_VECTOR_FIELDS, MAX_VECTOR_LENGTH, PACKED, Path, RecordError
from manylabel_core.rows import MAX_MAGNITUDE

Vector = NDArray[np.float32]

_EMPTY = np.zeros(0, np.float32)

_TYPES: dict[str, np.dtype[Any]] = dict(zip(PACKED, (np.dtype("<f4"), np.dtype("<f2")), strict=True))

_WANTED = f"must be a finite number of at most {MAX_MAGNITUDE:g} in absolute value"


class Encoded(NamedTuple):
    """Record as features and vectors."""

    features: dict[str, float]  # values by the name of the feature: finite, at most `MAX_MAGNITUDE`
    vectors: dict[str, Vector]  # (n_values,) by the name of the field; an empty vector is a field without a value


def read_vectors(found: Sequence[tuple[str, Any, Path]]) -> dict[str, Vector]:
    """Return vectors by field name, from vectors with field paths; raises RecordError."""
    vectors: dict[str, Vector] = {}
    for name, value, path in found:
        if isinstance(value, Mapping):
            vectors[name] = _read_packed(value, path)
        elif len(value):
            vectors[name] = _read_numbers(value, path)
    if len(vectors) > MAX_VECTOR_FIELDS:
        raise RecordError((), f"must have at most {MAX_VECTOR_FIELDS} vectors")
    empty = [name for name, *_ in found if name not in vectors]
    return vectors | dict.fromkeys(empty[:MAX_VECTOR_FIELDS], _EMPTY)


def _read_numbers(value: Sequence[Any] | NDArray[Any], path: Path) -> Vector:
    """Return a vector from a list or an array of numbers; raise RecordError if invalid."""
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or value.dtype.kind not in "fiu":
            raise RecordError(path, "must be an array of numbers, of one dimension")
        numbers = value
    _check_length(len(value), path)
    if not isinstance(value, np.ndarray):
        for place, one in enumerate(value if not set(map(type, value)) <= {int, float} else ()):
            if not isinstance(one, int | float | np.number) or isinstance(one, bool):
                raise RecordError((*path, place), _WANTED)
        try:
            numbers = np.array(value, dtype=np.float64)
        except OverflowError:
            numbers = np.array([one if abs(one) <= MAX_MAGNITUDE else np.inf for one in value], dtype=np.float64)
    return _finite(numbers, path)


def _read_packed(value: Mapping[str, str], path: Path) -> Vector:
    """Return a vector from base64 of little-endian float32 ("f32") or float16 ("f16"); raise RecordError if invalid."""
    ((key, text),) = value.items()
    path, dtype = (*path, key), _TYPES[key]
    if len(text) > 2 * MAX_VECTOR_LENGTH * dtype.itemsize:
        raise RecordError(path, f"must be base64 of at most {MAX_VECTOR_LENGTH:,} numbers")
    try:
        raw = a2b_base64(text, strict_mode=True)
    except (Error, ValueError) as error:
        raise RecordError(path, f"must be base64: an object with {key!r} alone is a vector") from error
    if len(raw) % dtype.itemsize:
        raise RecordError(path, f"must be base64 of numbers of {dtype.itemsize} bytes, has {len(raw)} bytes")
    numbers = np.frombuffer(raw, dtype=dtype)
    _check_length(len(numbers), path)
    return _finite(numbers, path)


def _check_length(length: int, path: Path) -> None:
    if not 1 <= length <= MAX_VECTOR_LENGTH:
        raise RecordError(path, f"must have 1 to {MAX_VECTOR_LENGTH:,} numbers, not {length:,}")


def _finite(numbers: NDArray[Any], path: Path) -> Vector:
    sizes = np.abs(numbers if numbers.dtype != np.float16 else numbers.astype(np.float32))
    if not sizes.max() <= MAX_MAGNITUDE:  # NaN is excluded too
        raise RecordError((*path, int(np.argmin(sizes <= MAX_MAGNITUDE))), _WANTED)
    return numbers.astype(np.float32)
