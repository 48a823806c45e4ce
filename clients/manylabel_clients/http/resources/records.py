"""Dataclasses from the JSON of responses, declared by their type hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Convert = Callable[[Any], Any]


def from_json(kind: type[T], answer: Mapping[str, Any]) -> T:
    """Return a dataclass from a JSON object, with the dataclasses, and lists and mappings of them, in its fields.

    A newer server may send further fields. An older one may omit fields with a default, or send null for them. A field
    whose name is a keyword in Python ends in an underscore.

    Raises
    ------
    LookupError
        A field without a default is missing.
    """
    values: dict[str, Any] = {}
    for name, key, convert, is_optional, has_default in _fields(kind):  # type: ignore[arg-type]  # a class is hashable
        if has_default and (key not in answer or (answer[key] is None and not is_optional)):
            continue
        values[name] = answer[key] if convert is None else convert(answer[key])
    return kind(**values)


def list_reader(name: str, convert: Callable[[dict[str, Any]], T]) -> Callable[[dict[str, Any]], list[T]]:
    """Return a function that converts each element of the list `name` in the JSON object of a response."""
    return lambda answer: [convert(one) for one in answer[name]]


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
    """Return the conversion to a type; None if the JSON value stays as it is."""
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(from_json, hint)
    options = get_args(hint)
    if NoneType in options:
        found = [convert for convert in map(_converter, options) if convert is not None]
        return _unless_none(found[0]) if found else None
    inner = _converter(options[-1]) if options else None
    if inner is None:
        return None
    return _each(inner) if get_origin(hint) is list else _each_value(inner)


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _each(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


def _each_value(convert: Convert) -> Convert:
    return lambda values: {name: convert(value) for name, value in values.items()}
