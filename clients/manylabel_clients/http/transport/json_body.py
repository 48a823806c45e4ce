"""JSON of values, with errors that name the location of an invalid value; dataclasses from JSON, by their type
hints."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from functools import cache, partial
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Convert = Callable[[Any], Any]

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
BYTES = {"Content-Type": "application/octet-stream"}


def encode(value: Any) -> bytes:
    """Return a value as compact JSON in UTF-8. If JSON has no such value, raise TypeError or ValueError with the field
    path."""
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_scalar)
        return text.encode()
    except ValueError as error:
        place = next(_not_finite(value, ""), None)
        if place is None:
            raise
        raise ValueError(f"{place} must be a finite number, or None where it is missing") from error


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
    """Return a NumPy scalar or a decimal as a Python number, and an array as a list."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Decimal):
        return float(value)
    if hasattr(value, "isoformat"):
        raise TypeError(f"has {value!r}: send a date as a number, such as days since 1970-01-01, or as a string")
    raise TypeError(f"has {value!r}, which is neither a number nor a name")


def _not_finite(value: Any, pointer: str) -> Iterator[str]:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        parts: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    else:
        if isinstance(value, (float, Decimal)) and not math.isfinite(value):
            yield pointer
        return
    for key, part in parts:
        yield from _not_finite(part, f"{pointer}/{escaped(key)}")


def from_json(kind: Callable[..., T], answer: Mapping[str, Any]) -> T:
    """Return a dataclass from a JSON object. Its fields may be dataclasses, or lists and mappings of dataclasses.

    `kind` is the dataclass, or a function that converts the object.

    A newer server may send more fields. An older server may omit fields with a default, or send null. A field whose
    name is a keyword in Python ends in an underscore.

    Raises
    ------
    LookupError
        A field without a default is missing.
    """
    if not is_dataclass(kind):
        return kind(answer)
    values: dict[str, Any] = {}
    for name, key, convert, is_optional, has_default in _fields(kind):
        if has_default and (key not in answer or (answer[key] is None and not is_optional)):
            continue
        values[name] = answer[key] if convert is None else convert(answer[key])
    return kind(**values)  # type: ignore[return-value]  # the dataclass itself is T


@cache
def _fields(kind: type[Any]) -> list[tuple[str, str, Convert | None, bool, bool]]:
    """Return, for each field, its name, its key in JSON, its converter, and whether it may be None or be omitted."""
    hints = get_type_hints(kind)
    return [
        (
            one.name,
            one.name.removesuffix("_"),
            _converter(hints[one.name]),
            hints[one.name] is Any or NoneType in get_args(hints[one.name]),
            one.default is not MISSING or one.default_factory is not MISSING,
        )
        for one in fields(kind)
    ]


def _converter(hint: Any) -> Convert | None:
    """Return the conversion to a type; None if the JSON value needs no conversion."""
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(from_json, hint)
    options = get_args(hint)
    if NoneType in options:
        found = [convert for convert in map(_converter, options) if convert is not None]
        kinds = [option for option in options if isinstance(option, type) and is_dataclass(option)]
        if kinds and any(get_origin(option) is dict for option in options):
            return _unless_none(partial(_if_it_has_all, kinds[0]))
        return _unless_none(found[0]) if found else None
    inner = _converter(options[-1]) if options else None
    if inner is None:
        return None
    return _each_value(inner) if issubclass(get_origin(hint) or dict, Mapping) else _each(inner)


def _if_it_has_all(kind: Any, answer: Mapping[str, Any]) -> Any:
    """Return a dataclass from an object that has the required fields; return other objects unchanged."""
    fits = all(has_default or key in answer for _, key, _, _, has_default in _fields(kind))
    return from_json(kind, answer) if fits else answer


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _each(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


def _each_value(convert: Convert) -> Convert:
    return lambda values: {name: convert(value) for name, value in values.items()}
