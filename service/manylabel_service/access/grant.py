"""An access says what the caller of a request may do."""

from collections.abc import Collection, Iterable

from manylabel_service.access.patterns import Patterns
from manylabel_service.access.scopes import SCOPES, Scope, included


class Access:
    """An access says what a caller may do.

    Parameters
    ----------
    key_id : of the key that the caller has shown; None for nobody in particular.
    scopes : admin includes all others.
    models : names of models, data sets and targets of jobs, or their beginnings with ``*`` at the end.
    """

    __slots__ = ("_names", "_scopes", "key_id")

    def __init__(self, key_id: str | None, scopes: Collection[Scope], models: Iterable[str]) -> None:
        self.key_id = key_id
        self._scopes = included(scopes)
        self._names = Patterns(models)

    def allows(self, scope: Scope) -> bool:
        """Return whether the caller may do what needs this scope."""
        return scope in self._scopes

    def may_see(self, name: str) -> bool:
        """Return whether the caller may do it with the model, or the data set, of this name."""
        return self._names.match(name)


ANYONE = Access(None, SCOPES, ("*",))
"""Whoever asks a server that has no keys."""
