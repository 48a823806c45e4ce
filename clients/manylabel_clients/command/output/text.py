"""JSON for scripts, and values in a readable form."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import click

T = TypeVar("T")

MAX_LABELS = 20
"""Maximum number of labels shown to a person; JSON has all."""


def as_json(value: Any) -> str:
    """Return a value, or a dataclass, as JSON on one line."""
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value, dict_factory=_as_document)
    return json.dumps(value, ensure_ascii=False)


def _as_document(facts: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return fields by their JSON names; `for_` has an underscore because `for` is a Python keyword."""
    return {name.rstrip("_"): value for name, value in facts}


def print_json(value: Any) -> None:
    """Print and flush one line of JSON, because another program may wait for it."""
    click.echo(as_json(value))
    sys.stdout.flush()


def print_as(as_json: bool, found: T, show: Callable[[T], object]) -> None:
    """Print a result as JSON, one line per item of a list, or show it to a person."""
    if not as_json:
        show(found)
        return
    for one in found if isinstance(found, list) else [found]:
        print_json(one)


def count_of(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as "1 label" or "2 labels". `many` is an irregular plural."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def alternatives(values: Sequence[str]) -> str:
    """Return values as a choice: "a, b or c"."""
    return f"{', '.join(values[:-1])} or {values[-1]}"


def short_time(time: str | None) -> str:
    """Return a time of the API in UTC, without fractions of a second."""
    return "" if time is None else time[:19].replace("T", " ")


def human_size(size_bytes: int) -> str:
    """Return a number of bytes in a readable unit."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
