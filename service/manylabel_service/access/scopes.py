"""Scopes of keys, which the calls of the API require."""

from collections.abc import Collection
from typing import Literal, get_args

Scope = Literal["predict", "learn", "read", "train", "export", "admin"]

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))
ADMIN: Scope = "admin"
"""Scope that includes all others."""


def included(scopes: Collection[Scope]) -> frozenset[Scope]:
    """Return scopes with the scopes that they include."""
    return SCOPES if ADMIN in scopes else frozenset(scopes)
