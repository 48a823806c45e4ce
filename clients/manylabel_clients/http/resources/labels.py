"""Labels of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manylabel_clients.http.resources.model_status import model_status
from manylabel_clients.http.resources.resource import MAX_KEY_OF_MANY, Resource, call, new_key, with_query
from manylabel_clients.http.responses import LabelPage, Updated
from manylabel_clients.http.transport.exchange import Exchange

MAX_DESCRIBED = 1_000
"""Maximum number of labels that one request describes."""


class LabelCalls(Resource):
    """Calls about the labels of one model."""

    @call
    def labels(
        self,
        *,
        sort: str = "frequency",
        descending: bool = True,
        offset: int = 0,
        limit: int = 100,
        version: int | None = None,
    ) -> Exchange[LabelPage]:
        """Return labels of the model with frequencies and metrics. Labels without a value to sort by come last."""
        query = {"sort": sort, "descending": str(descending).lower(), "offset": offset, "limit": limit}
        return (yield from self._get(with_query(f"{self._path}/labels", **query, version=version), LabelPage))

    @call
    def describe_labels(
        self, labels: Mapping[str, str | Mapping[str, str | None]], *, key: str | None = None
    ) -> Exchange[Updated]:
        """Set titles, descriptions and URIs of labels on every server; unknown labels are declared.

        More than 1,000 labels are sent in several requests, each of which is atomic.

        Parameters
        ----------
        labels : mapping of str
            By name, a title or a mapping of "title", "description" and "uri"; omitted fields stay, None removes a
            field.
        key : str, optional
            Idempotency key.
        """
        if not labels:
            raise ValueError("labels must have at least one label")
        edits = [(name, {"title": edit} if isinstance(edit, str) else dict(edit)) for name, edit in labels.items()]
        key, path = new_key(key, MAX_KEY_OF_MANY), f"{self._path}/labels"
        for begin in range(0, len(edits), MAX_DESCRIBED):
            body = {"labels": dict(edits[begin : begin + MAX_DESCRIBED])}
            receipt = yield from self._learn(path, body, f"{key}-{begin}" if begin else key, Updated, "PATCH")
        return receipt

    @call
    def set_groups(
        self,
        groups: Sequence[Mapping[str, Any]] = (),
        parents: Mapping[str, str] | None = None,
        *,
        key: str | None = None,
    ) -> Exchange[Updated]:
        """Replace all groups and parents of labels on every server; unknown labels are declared."""
        body = {"groups": [dict(group) for group in groups], "parents": dict(parents or {})}
        return (yield from self._learn(f"{self._path}/groups", body, key, Updated, "PUT"))

    @call
    def set_promise(
        self,
        precision: float | None,
        *,
        settled: float | None = 0.9,
        missed: float = 0.02,
        audit_rate: float = 0.05,
        parity: float | None = None,
        of: str = "machine",
        agreement: str = "exact",
        key: str | None = None,
    ) -> Exchange[Updated]:
        """Promise a precision, or parity with a teacher (the source `of`), or both, on every server. With a precision,
        predictions have `auto` and `review`; with parity, stored predictions have `ask` and `why`. Without either, end
        the promises."""
        target: dict[str, Any] = {"audit_rate": audit_rate}
        if precision is not None:
            target |= {"precision": precision, "settled": settled, "missed": missed}
        if parity is not None:
            target |= {"parity": parity, "of": of, "agreement": agreement}
        body = None if precision is None and parity is None else target
        return (yield from self._learn(f"{self._path}/promise", body, key, Updated, "PUT"))

    @call
    def rename_label(self, label: str, to: str, *, key: str | None = None) -> Exchange[Updated]:
        """Rename a label on every server. The model retains what it learnt, and updates may still use the old name."""
        return (yield from self._relabel("rename", {"label": label, "to": to}, key))

    @call
    def merge_label(self, label: str, into: str, *, key: str | None = None) -> Exchange[Updated]:
        """Merge a label into another on every server. The label is retired, and its names then mean the other label;
        its weights are dropped.
        """
        return (yield from self._relabel("merge", {"label": label, "into": into}, key))

    @call
    def merge_alike(self) -> Exchange[dict[str, str]]:
        """Merge labels that differ only in case, spaces or Unicode form into the most frequent of them, one by one.

        Returns, for each merged label, the label that continues to learn.
        """
        merged: dict[str, str] = {}
        while groups := getattr((yield from self._get(self._path, model_status)), "alike_labels", ()):
            for into, *labels in groups:
                for label in labels:
                    yield from self._relabel("merge", {"label": label, "into": into}, None)
                    merged[label] = into
        return merged

    @call
    def retire_label(self, label: str, *, key: str | None = None) -> Exchange[Updated]:
        """Retire a label on every server: it is no longer learnt or predicted."""
        return (yield from self._relabel("retire", {"label": label}, key))

    @call
    def pause_label(self, label: str, *, key: str | None = None) -> Exchange[Updated]:
        """Pause a label on every server: it is neither learnt nor predicted, and its truth is unknown, until it is
        resumed."""
        return (yield from self._relabel("pause", {"label": label}, key))

    @call
    def resume_label(self, label: str, *, key: str | None = None) -> Exchange[Updated]:
        """Resume a paused label on every server, with what was learnt before the pause."""
        return (yield from self._relabel("resume", {"label": label}, key))

    def _relabel(self, what: str, body: dict[str, str], key: str | None) -> Exchange[Updated]:
        return (yield from self._learn(f"{self._path}/labels/{what}", body, key, Updated))
