"""Suggestions for the labels of a model, and their dismissal."""

from __future__ import annotations

from typing import Literal, TypeAlias

from manylabel_clients.http.resources.resource import Resource, call, with_query
from manylabel_clients.http.responses import LabelHealth, Suggestion, Updated
from manylabel_clients.http.transport.exchange import Exchange

KindOfSuggestion: TypeAlias = Literal["name", "merge", "parent", "pause", "vague"]
"""Labels to merge because of their names, or for other reasons; to put under a parent; to pause; to define better."""


class LabelHealthCalls(Resource):
    """Calls about suggestions for the labels of one model."""

    @call
    def health(self, kind: KindOfSuggestion | None = None, *, top: int = 100) -> Exchange[LabelHealth]:
        """Return suggested changes of labels, with evidence and the request that applies each; nothing is changed.

        Only equal names in other spellings, and rare labels that are no longer used, are found without a search for
        doubtful labels (`search_doubts`).

        Parameters
        ----------
        kind : {"name", "merge", "parent", "pause", "vague"}, optional
            The only kind to list.
        top : int
            Maximum number of suggestions of each kind, at most 1,000.
        """
        return (yield from self._get(with_query(f"{self._path}/health", kind=kind, top=top), LabelHealth))

    @call
    def apply(self, suggestion: Suggestion, *, key: str | None = None) -> Exchange[Updated]:
        """Apply a suggestion on every server. List the suggestions again before you apply another one: the request for
        a parent has all groups and parents of the time when it was listed, and would remove a later one.

        Parameters
        ----------
        suggestion : Suggestion
            A suggestion of `health`.
        key : str, optional
            Idempotency key.

        Raises
        ------
        ValueError
            If the suggestion has no request.
        NotFound
            If the model no longer has a label of the suggestion.
        """
        request = suggestion.request
        if request is None:
            raise ValueError(f"the suggestion for {suggestion.label!r} has no request")
        return (yield from self._learn(request.path, request.body, key, Updated, request.method))

    @call
    def dismiss(self, suggestion: Suggestion, *, key: str | None = None) -> Exchange[Updated]:
        """Dismiss a suggestion on every server: it is not listed until the number of examples of its rarer label has
        doubled.

        Parameters
        ----------
        suggestion : Suggestion
            A suggestion of `health`.
        key : str, optional
            Idempotency key.

        Raises
        ------
        NotFound
            If the model no longer has a label of the suggestion.
        """
        other = suggestion.into or suggestion.parent
        body = {"kind": suggestion.kind, "label": suggestion.label, "other": other}
        return (yield from self._learn(f"{self._path}/health/dismiss", body, key, Updated))
