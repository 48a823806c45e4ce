"""Permissions of the caller of a request: scopes, and patterns of names."""

import re
from collections.abc import Callable, Collection, Iterable
from typing import Literal, get_args

from manylabel_service.access.rates import RateLimiter
from manylabel_service.errors import ModelNotAllowed, ScopeMissing, ServiceError

Scope = Literal["predict", "learn", "read", "train", "export", "admin"]

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))
ADMIN: Scope = "admin"
"""Scope that includes all others."""


def included(scopes: Collection[Scope]) -> frozenset[Scope]:
    """Return scopes with the scopes that they include."""
    return SCOPES if ADMIN in scopes else frozenset(scopes)


ANY = "*"
PATTERN = r"^([a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?|([a-z0-9][a-z0-9._-]{0,62})?\*)$"
"""Syntax of a pattern: a name, or a prefix of names followed by an asterisk."""
_PATTERN = re.compile(PATTERN)
PATTERN_ALLOWED = "must be a name, or a prefix of names followed by an asterisk, such as tags-*"


def is_pattern(pattern: str) -> bool:
    """Return whether a text is a pattern."""
    return _PATTERN.fullmatch(pattern) is not None


class Patterns:
    """Patterns of names: ``tags`` matches only that name, ``tags-*`` all names that begin with ``tags-``."""

    __slots__ = ("_any", "_beginnings", "_names")

    def __init__(self, patterns: Iterable[str]) -> None:
        given = list(patterns)
        self._names = frozenset(each for each in given if not each.endswith(ANY))
        self._beginnings = tuple(each[:-1] for each in given if each.endswith(ANY))
        self._any = ANY in given

    def match(self, name: str) -> bool:
        """Return whether a name matches one of the patterns."""
        return self._any or name in self._names or name.startswith(self._beginnings)

    def within(self, prefix: str = "") -> list[str]:
        """Return sorted patterns that match the same names among those with a prefix; each name matches only one of
        them."""
        beginnings = {max(each, prefix, key=len) for each in self._beginnings if _overlap(each, prefix)}
        least = [each for each in beginnings if not any(each != b and each.startswith(b) for b in beginnings)]
        names = (name for name in self._names if name.startswith(prefix) and not name.startswith(tuple(least)))
        return sorted([*(each + ANY for each in least), *names])

    def include(self, pattern: str) -> bool:
        """Return whether these patterns match all names that another pattern matches."""
        return pattern.startswith(self._beginnings) or pattern in self._names


def _overlap(one: str, other: str) -> bool:
    """Return whether one text is a prefix of the other."""
    return one.startswith(other) or other.startswith(one)


class Access:
    """Permissions of the caller of a request.

    Parameters
    ----------
    key_id : id of the caller's key; None without a key.
    scopes : admin includes all others.
    models : names of models, datasets and job targets, or prefixes of names followed by ``*``.
    refusal : error that `require` raises instead of the one for a missing scope, for example for an invalid key.
    limits : rate limiter of the key; None for none.
    standing : returns the error to raise if the key is no longer valid, else None.

    Attributes
    ----------
    key_id, limits : the parameters.
    """

    __slots__ = ("_names", "_refusal", "_scopes", "_standing", "key_id", "limits")

    def __init__(
        self,
        key_id: str | None,
        scopes: Collection[Scope] = (),
        models: Iterable[str] = (),
        refusal: ServiceError | None = None,
        limits: RateLimiter | None = None,
        standing: Callable[[], ServiceError | None] | None = None,
    ) -> None:
        self.key_id = key_id
        self.limits = limits
        self._standing = standing
        self._scopes = included(scopes)
        self._names = Patterns(models)
        self._refusal = refusal

    def allows(self, scope: Scope) -> bool:
        """Return whether the caller has this scope."""
        return scope in self._scopes

    def may_see(self, name: str) -> bool:
        """Return whether the caller has access to the model or dataset of this name."""
        return self._names.match(name)

    def seen(self, prefix: str = "") -> list[str]:
        """Return sorted patterns of the names that begin with a prefix and that the caller may see; each name matches
        one of them only."""
        return self._names.within(prefix)

    @property
    def sees_all(self) -> bool:
        """True if the caller may use the scope with models and datasets of any name."""
        return self._names.include(ANY)

    def require(self, scopes: Iterable[Scope], name: str | None = None) -> None:
        """Raise an AccessError, or `refusal`, if the caller lacks a scope or access to a name."""
        for scope in scopes:
            if scope not in self._scopes:
                raise self._refusal or ScopeMissing(scope)
        if name is not None and not self._names.match(name):
            raise ModelNotAllowed(name)

    def require_names(self, *names: str) -> None:
        """Raise ModelNotAllowed if the caller may not see one of these models or datasets."""
        for name in names:
            if not self._names.match(name):
                raise ModelNotAllowed(name)

    def check(self) -> None:
        """Raise KeyInvalid if the key of a long request has expired or was revoked since its start."""
        if self._standing is not None and (refusal := self._standing()) is not None:
            raise refusal

    def charge(self, n_examples: int) -> None:
        """Count examples to predict or learn; raise RateLimited above the rate of the key."""
        if self.limits is not None:
            self.limits.charge(n_examples)

    def covers(self, scopes: Collection[Scope], models: Iterable[str]) -> bool:
        """Return whether the caller has at least the rights of a key with these scopes and models."""
        return included(scopes) <= self._scopes and all(map(self._names.include, models))

    def require_cover(self, scopes: Collection[Scope], models: Iterable[str]) -> None:
        """Raise an AccessError if the caller has fewer rights than a key with these scopes and models."""
        self.require(sorted(included(scopes)))
        for pattern in models:
            if not self._names.include(pattern):
                raise ModelNotAllowed(pattern)
