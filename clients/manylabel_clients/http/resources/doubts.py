"""Doubtful labels of learnt examples, and corrections."""

from __future__ import annotations

from typing import Literal, TypeAlias

from manylabel_clients.http.resources.examples import Labels, labels_to_json
from manylabel_clients.http.resources.jobs import AsyncJob, Job, JobStatus
from manylabel_clients.http.resources.resource import Resource, call, handle, with_query
from manylabel_clients.http.responses import DoubtList, Updated
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode, located

KindOfDoubt: TypeAlias = Literal["missing", "wrong"]
"""Labels that were not given but are probable, or that were given but are improbable."""


class DoubtCalls(Resource):
    """Calls about the doubtful labels of the examples of one model."""

    @handle(Job, AsyncJob)
    def search_doubts(self, *, label: str | None = None, top: int = 100, last: int = 100_000) -> Exchange[str]:
        """Start a job that searches for doubtful labels of learnt examples. When it has ended, `doubts` returns the
        list.

        Parameters
        ----------
        label : str, optional
            The only label to judge.
        top : int
            Maximum number of doubts of each kind, at most 1,000.
        last : int
            Maximum number of the latest examples to examine, at most 1,000,000.
        """
        body = {"label": label, "top": top, "last": last}
        return read((yield from self._post(f"{self._path}/doubts", encode(body))), JobStatus).id

    @call
    def doubts(self, kind: KindOfDoubt = "missing", *, label: str | None = None, top: int = 100) -> Exchange[DoubtList]:
        """Return the newest list of doubtful labels, the most doubtful first.

        Parameters
        ----------
        kind : {"missing", "wrong"}
            Labels that were not given but are probable, or that were given but are improbable. Many of the latter are
            right: read the examples.
        label : str, optional
            The only label to list.
        top : int
            Maximum number of doubts.

        Raises
        ------
        NotFound
            If no search has ended.
        """
        query = {"kind": kind, "label": label, "top": top}
        return (yield from self._get(with_query(f"{self._path}/doubts", **query), DoubtList))

    @call
    def correct(
        self, position: str, y: Labels, *, index: int | None = None, key: str | None = None
    ) -> Exchange[Updated]:
        """Correct the true labels of a learnt example on every server, or confirm them.

        If `y` differs from the labels of the example, the model learns the corrected example again.

        Parameters
        ----------
        position : str
            Position of the entry with the example.
        y : names or mapping
            All true labels, or a mapping from checked labels to true or false; other labels stay.
        index : int, optional
            Index of the example in its entry, required if the entry has several.
        key : str, optional
            Idempotency key.

        Raises
        ------
        NotFound
            If there is no such example, or the model does not have a label.
        Expired
            If the history of the model begins later.
        """
        with located("/y"):
            truth = labels_to_json(y)
        body = {"position": position, "y": truth, **({} if index is None else {"index": index})}
        return (yield from self._learn(f"{self._path}/correct", body, key, Updated))
