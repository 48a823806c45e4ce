"""Encoding of values as JSON, with errors that name the location of a bad value."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
BYTES = {"Content-Type": "application/octet-stream"}


def encode(value: Any) -> bytes:
    """Return a value as compact JSON in UTF-8; raise TypeError or ValueError, with the field path, if it has no
    JSON."""
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_scalar)
        return text.encode()
    except ValueError as error:
        place = next(_not_finite(value, ""), None)
        if place is None:
            raise
        raise ValueError(f"{place} must be a finite number") from error


@contextmanager
def located(place: str) -> Iterator[None]:
    """Prefix the message of a TypeError or ValueError with a location."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        message = str(error)
        raise kind(place + message if message.startswith("/") else f"{place} {message}") from error


def escaped(key: Any) -> str:
    """Return a name as a part of a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


def _scalar(value: Any) -> Any:
    """Return a NumPy scalar as a Python number, and an array as a list."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"has {value!r}, which is neither a number nor a name")


def _not_finite(value: Any, pointer: str) -> Iterator[str]:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        parts: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    else:
        if isinstance(value, float) and not math.isfinite(value):
            yield pointer
        return
    for key, part in parts:
        yield from _not_finite(part, f"{pointer}/{escaped(key)}")
