"""Checks of parts of an untrusted state of a model."""

from itertools import pairwise
from typing import Any

from manylabel_service.storage import position_key

_MAX_POSITION = 64


def check_names(given: set[str], due: set[str]) -> None:
    """Raise ValueError unless a state has exactly the required parts."""
    if given != due:
        raise ValueError(f"parts are missing or unexpected: {', '.join(sorted(given ^ due)[:3])}")


def check_position(position: Any) -> str:
    """Return a position unchanged, after a check. Raises ValueError."""
    if not isinstance(position, str) or len(position) > _MAX_POSITION:
        raise ValueError(f"a position must be a string of at most {_MAX_POSITION} characters")
    position_key(position)
    return position


def check_rollbacks(rollbacks: Any, most: int) -> list[tuple[str, str]]:
    """Return the list of rollbacks; raise ValueError if it is invalid."""
    if not isinstance(rollbacks, list) or len(rollbacks) > most:
        raise ValueError(f"rollbacks: the list may have at most {most:,} items")
    checked = [(check_position(at), check_position(to)) for at, to in rollbacks]
    keys = [position_key(at) for at, _ in checked]
    if any(position_key(to) >= at for at, (_, to) in zip(keys, checked, strict=True)):
        raise ValueError("rollbacks: each must return to an earlier position")
    if any(a >= b for a, b in pairwise(keys)):
        raise ValueError("rollbacks: positions must ascend")
    return checked
