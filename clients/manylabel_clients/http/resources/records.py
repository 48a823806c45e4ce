"""Values from the JSON objects of responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def from_json(kind: type[T], answer: Mapping[str, Any]) -> T:
    """Return a dataclass from the known keys: a newer server may send more, an older one fewer if there is a default.

    Raises
    ------
    LookupError
        If a field without a default is missing.
    """
    known: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]
    return kind(**{one.name: answer[one.name] for one in known if one.name in answer or not _has_default(one)})


def list_reader(name: str, convert: Callable[[dict[str, Any]], T]) -> Callable[[dict[str, Any]], list[T]]:
    """Return a function that converts each element of the list `name` in the JSON object of an answer."""
    return lambda answer: [convert(one) for one in answer[name]]


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
