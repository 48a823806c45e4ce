"""Cursor over the documents of one kind, to follow the changes of other processes."""

from typing import NamedTuple

from manylabel_service.environment import time
from manylabel_service.storage.protocol import Document, Documents

WHOLE_SECONDS = 60.0
"""Interval in seconds between two polls that return all documents of a kind."""


class Poll(NamedTuple):
    """Documents that a poll returned.

    Attributes
    ----------
    documents : list of Document
        Documents that changed since the last poll, ordered by revision.
    names : set of str or None
        Names of all documents of the kind after a whole poll: any other document has been deleted. Otherwise None.
    """

    documents: list[Document]
    names: set[str] | None


class DocumentFollower:
    """Cursor over the documents of one kind.

    Only `poll` moves the cursor, to the highest revision that it returned. Changes by this process do not move it,
    because another process may have made an earlier change that no poll has returned yet.

    Deletions have no revision, and a store may come back with older data. So the first poll, each poll after a failure,
    and one poll per `WHOLE_SECONDS` compare the revisions of all documents.
    """

    def __init__(self, documents: Documents, kind: str) -> None:
        self._documents = documents
        self._kind = kind
        self._revisions: dict[str, int] = {}
        self._seen = 0
        self._whole_at: float | None = None

    def restart(self) -> None:
        """Make the next poll return all documents, because the caller did not process the last ones."""
        self._revisions, self._seen, self._whole_at = {}, 0, None

    async def poll(self, whole: bool = False) -> Poll:
        """Return the documents that changed since the last poll; also all names, if `whole` is set or due. Raises
        StorageError."""
        now = time.monotonic()
        whole = whole or self._whole_at is None or now - self._whole_at >= WHOLE_SECONDS
        before, self._whole_at = self._whole_at, None  # stays None if a call below fails
        there = await self._documents.revisions(self._kind) if whole else None
        documents = await self._documents.all(self._kind, self._seen)
        changed = _revisions(documents)
        if there is not None and (there | changed).items() - (self._revisions | changed).items():
            documents = await self._documents.all(self._kind)  # the store was restored with older data
            there = {}
        self._revisions = (self._revisions if there is None else there) | _revisions(documents)
        self._seen = max(self._revisions.values(), default=0)
        self._whole_at = now if whole else before
        return Poll(documents, None if there is None else set(self._revisions))


def _revisions(documents: list[Document]) -> dict[str, int]:
    return {document.name: document.revision for document in documents}
