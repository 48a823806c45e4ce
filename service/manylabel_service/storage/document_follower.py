"""A cursor over the documents of one kind, for processes that follow what other processes change."""

from __future__ import annotations

import time
from typing import NamedTuple

from manylabel_service.storage.protocol import Document, Documents

WHOLE_SECONDS = 60.0
"""Interval in seconds between two polls that return all documents of a kind."""


class Poll(NamedTuple):
    """Documents that a poll returned.

    Attributes
    ----------
    documents : list of Document
        Ordered by their revisions.
    whole : bool
        True if these are all documents of the kind: others that the caller knows have been deleted.
    """

    documents: list[Document]
    whole: bool


class DocumentFollower:
    """A cursor over the documents of one kind.

    The cursor moves in `poll` alone, to the highest revision that the poll returned. A change that this process makes
    must not move the cursor: another process may have made an earlier change that no poll has returned yet.

    A deletion has no revision, and a store may come back with older data. So the first poll, each poll after one that
    failed, and one poll in each `WHOLE_SECONDS` return all documents.

    Parameters
    ----------
    documents : Documents
        Of the store.
    kind : str
        The kind of the documents.
    """

    def __init__(self, documents: Documents, kind: str) -> None:
        self._documents = documents
        self._kind = kind
        self._seen = 0
        self._whole_at: float | None = None

    async def poll(self, whole: bool = False) -> Poll:
        """Return the documents that changed since the last poll, or all if `whole` is set or due.

        Raises
        ------
        StorageError
        """
        now = time.monotonic()
        whole = whole or self._whole_at is None or now - self._whole_at >= WHOLE_SECONDS
        before, self._whole_at = self._whole_at, None  # stays None if the call below fails
        documents = await self._documents.all(self._kind, 0 if whole else self._seen)
        self._whole_at = now if whole else before
        if documents or whole:
            self._seen = documents[-1].revision if documents else 0
        return Poll(documents, whole)
