"""Calls that list, apply, dismiss, try and undo suggestions for the labels of a model."""

from __future__ import annotations

from typing import Literal, TypeAlias

from manylabel_clients.http.resources.jobs import AsyncJob, Job, JobStatus
from manylabel_clients.http.resources.resource import Resource, call, handle, with_query
from manylabel_clients.http.responses import LabelHealth, Suggestion, Undone, Updated
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode

KindOfSuggestion: TypeAlias = Literal["name", "merge", "parent", "pause", "vague"]
"""Kinds of suggestions: merge labels because of their names, or for other reasons; set a parent; pause a label; define
a label better."""


class LabelHealthCalls(Resource):
    """Calls about suggestions for the labels of one model."""

    @call
    def health(self, kind: KindOfSuggestion | None = None, *, top: int = 100) -> Exchange[LabelHealth]:
        """Return suggested changes of labels, with evidence and the request that applies each; nothing is changed.

        Most suggestions need a search for doubtful labels (`search_doubts`). Without a search, only different spellings
        of a name and unused rare labels are found.

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
        """Apply a suggestion on every server. List the suggestions again before you apply another one. The request for
        a parent contains all groups and parents at the time of the listing, so it would remove groups and parents that
        were added since.

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
        """Dismiss a suggestion on every server. It is listed again when the number of examples of its rarer label has
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
        return (yield from self._learn(f"{self._path}/health/dismiss", _named(suggestion), key, Updated))

    @handle(Job, AsyncJob)
    def dry_run(self, suggestion: Suggestion) -> Exchange[str]:
        """Compare the metrics without and with a suggested change, in a job whose result has both; the model does not
        change.

        Parameters
        ----------
        suggestion : Suggestion
            A suggestion of `health` that has a request.

        Raises
        ------
        NotFound
            If the model no longer has a label of the suggestion.
        """
        body = encode(_named(suggestion))
        return read((yield from self._post(f"{self._path}/health/dry-run", body)), JobStatus).id

    @call
    def undo(self, position: str, *, key: str | None = None) -> Exchange[Undone]:
        """Undo a change of labels on every server: a rename, merge, pause, resumption, retirement or dismissal, or a
        change of groups and parents. Later updates stay learnt.

        Parameters
        ----------
        position : str
            Position of the entry of the change, from its response.
        key : str, optional
            Idempotency key.

        Raises
        ------
        Conflict
            If the entry is no change of labels, or a later entry changed the label or the groups too.
        Expired
            If the history of the model begins later.
        """
        return (yield from self._learn(f"{self._path}/undo", {"position": position}, key, Undone))


def _named(suggestion: Suggestion) -> dict[str, str | None]:
    """Return the fields that identify a suggestion."""
    other = suggestion.into or suggestion.parent
    return {"kind": suggestion.kind, "label": suggestion.label, "other": other}
