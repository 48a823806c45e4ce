"""Input kinds of an example in JSON."""

from typing import Any

_NOT_NUMBERS = (str, bool, dict, list)


def input_kind(x: Any) -> str | None:
    """Return the input kind: "dense", "sparse", "named", "record" (not only numbers) or "text"; None if it is not an
    example.
    """
    if isinstance(x, str):
        return "text"
    return "record" if isinstance(x, dict) and _is_record(x) else input_kind_of_numbers(x)


def input_kind_of_numbers(x: Any) -> str | None:
    """Return the input kind of numbers: "dense", "sparse" or "named"; None if the value is neither a list nor an
    object."""
    if isinstance(x, list):
        return "dense"
    if not isinstance(x, dict):
        return None
    # Values of named features are numbers, so a list can only mean the sparse kind.
    is_sparse = isinstance(x.get("indices"), list) or isinstance(x.get("values"), list)
    return "sparse" if is_sparse else "named"


def _is_record(x: dict[str, Any]) -> bool:
    kinds = set(map(type, x.values()))
    if kinds.isdisjoint(_NOT_NUMBERS):
        return False
    if input_kind_of_numbers(x) == "named":
        return True
    # Fields of a record may have the names of the two lists.
    has_more = not kinds.isdisjoint((str, bool, dict)) or any(map(_has_strings, x.values()))
    return has_more and not x.keys() <= {"indices", "values"}


def _has_strings(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, str) for one in value)
