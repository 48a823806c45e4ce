"""Collections: documents of one kind as pydantic models, and the cursor that follows changes of other processes.

A document has the number of its format and the release that wrote it. When a document is read, it is missing, intact,
*newer* (its format is unknown to this release:

`DocumentNewer`) or *damaged* (`DocumentDamaged`). A newer or damaged document is never overwritten or deleted because
it could not be read. A new field that an older release may ignore does not raise the number of the format: older
releases read the document, and write the field back unchanged. Any other change raises the number, for example:

- a field that restricts something, such as the permissions of a key, because an older release would ignore it;
- a field of a part that cannot keep unknown fields (a dataclass, a named tuple, or a model that forbids them); a
  document with one is newer, whatever its number.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from manylabel_service.environment import time
from manylabel_service.errors import DocumentDamaged, DocumentNewer, RevisionConflict
from manylabel_service.release import RELEASE
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

    A poll that is not whole reads nothing if no other process can change the documents, and this process has changed
    none.

    Deletions have no revision, and a store may return with older data. Therefore the first poll, each poll after a
    failure, and one poll per `WHOLE_SECONDS` compare the revisions of all documents.
    """

    def __init__(self, documents: Documents, kind: str) -> None:
        self._documents = documents
        self._kind = kind
        self._revisions: dict[str, int] = {}
        self._seen = 0
        self._whole_at: float | None = None
        self._changes: int | None = None
        """Number of changes that the last poll has seen; None if the next poll must read."""

    def restart(self) -> None:
        """Make the next poll return all documents, because the caller did not process the last ones."""
        self._revisions, self._seen, self._whole_at, self._changes = {}, 0, None, None

    async def poll(self, whole: bool = False) -> Poll:
        """Return the documents that changed since the last poll, and all names if `whole` is set or a whole poll is
        due. Raises StorageError."""
        now = time.monotonic()
        whole = whole or self._whole_at is None or now - self._whole_at >= WHOLE_SECONDS
        changes, known, self._changes = self._documents.changes(self._kind), self._changes, None
        if changes is not None and changes == known and not whole:
            self._changes = changes
            return Poll([], None)
        before, self._whole_at = self._whole_at, None  # is None until all calls below have succeeded
        there = await self._documents.revisions(self._kind) if whole else None
        documents = await self._documents.all(self._kind, self._seen)
        changed = _revisions(documents)
        if there is not None and (there | changed).items() - (self._revisions | changed).items():
            documents = await self._documents.all(self._kind)  # the store was restored with older data
            there = {}
        if there is not None:
            self._revisions, self._seen = there, max(there.values(), default=0)
        read = _revisions(documents)
        self._revisions |= read
        self._seen = max(self._seen, max(read.values(), default=0))
        self._whole_at, self._changes = now if whole else before, changes
        return Poll(documents, None if there is None else set(self._revisions))


def _revisions(documents: list[Document]) -> dict[str, int]:
    return {document.name: document.revision for document in documents}


MAX_INLINE = 8
"""Maximum number of documents parsed on the event loop; more are parsed in a thread."""


_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument", "too_long"})
"""Types of pydantic errors for a field that a part does not know; an unknown field makes a named tuple too long."""

Unreadable = DocumentDamaged | DocumentNewer
"""Errors of a document that cannot be read."""

UNREADABLE = (DocumentDamaged, DocumentNewer)


class StoredPart(BaseModel, defer_build=True):
    """Part of a stored model that keeps the fields of later releases."""

    model_config = ConfigDict(extra="allow")


class StoredModel(BaseModel, defer_build=True):
    """Base of the models of a collection, which keep the fields of later releases.

    Attributes
    ----------
    format : number of the format of the document. `FORMAT` of a class is the number that it writes and reads.
    release : release that wrote the document.
    """

    FORMAT: ClassVar[int] = 1

    model_config = ConfigDict(extra="allow")

    format: int = Field(default=1, ge=1, strict=True)
    release: str = RELEASE

    _revision: int = PrivateAttr(default=0)

    @property
    def revision(self) -> int:
        """Revision of the document that the model was read from or written to; 0 for a model that was not stored."""
        return self._revision

    def at(self, revision: int) -> Self:
        """Set the revision, and return the model."""
        self._revision = revision
        return self

    def to_bytes(self) -> bytes:
        """Return the value of the document."""
        written = self.model_copy(update={"format": self.FORMAT, "release": RELEASE})
        return written.model_dump_json(exclude=self._omitted()).encode()

    def _omitted(self) -> Any:
        """Return the fields that the document omits, as `exclude` of pydantic."""
        return None

    @classmethod
    def from_bytes(cls, kind: str, name: str, value: bytes, revision: int = 0) -> Self:
        """Return the model in a document; raise `DocumentNewer` or `DocumentDamaged`."""
        try:
            model = cls.model_validate_json(value)
        except ValidationError as error:
            # Other errors may come from the alternatives of a union.
            unknown = any(each["type"] in _UNKNOWN for each in error.errors(include_input=False, include_url=False))
            if (release := newer_than(cls.FORMAT - unknown, value)) is not None:
                raise DocumentNewer.of(kind, name, release, revision) from error
            raise DocumentDamaged(kind, name, revision) from error
        if model.format > cls.FORMAT:
            raise DocumentNewer.of(kind, name, model.release, revision)
        if "format" not in model.model_fields_set:
            raise DocumentDamaged(kind, name, revision)
        return model.at(revision)


def newer_than(format: int, value: bytes) -> str | None:
    """Return the release that wrote a JSON object with a larger format number; None for other values."""
    try:
        found = pydantic_core.from_json(value)
    except ValueError:
        return None
    number = found.get("format") if isinstance(found, dict) else None
    return str(found.get("release")) if type(number) is int and number > format else None


T = TypeVar("T", bound=StoredModel)


def intact(found: Mapping[str, T | Unreadable]) -> dict[str, T]:
    """Return the documents that can be read."""
    return {name: value for name, value in found.items() if not isinstance(value, UNREADABLE)}


class Changes(NamedTuple, Generic[T]):
    """Documents that changed since the last poll, by name; the value is an error if a document cannot be read.

    Attributes
    ----------
    names : set of str or None
        Names of all documents after a whole poll: any other document has been deleted. Otherwise None.
    """

    values: dict[str, T | Unreadable]
    names: set[str] | None


class Collection(Generic[T]):
    """Documents of one kind by name; every method raises StorageError.

    Parameters
    ----------
    documents : Documents
        Documents of the store.
    kind : str
        The kind of the documents.
    model : type
        Pydantic model that parses and serialises a document.
    """

    def __init__(self, documents: Documents, kind: str, model: type[T]) -> None:
        self.kind = kind
        self._documents = documents
        self._model = model
        self._follower = DocumentFollower(documents, kind)

    async def get(self, name: str) -> T | None:
        """Return a document; None if it does not exist. Raises DocumentNewer or DocumentDamaged."""
        document = await self._documents.get(self.kind, name)
        return None if document is None else self._parsed(document)

    async def all(self, after: int = 0) -> dict[str, T | Unreadable]:
        """Return the documents that changed after a revision, by name, ordered by revision; the value is an error if a
        document cannot be read."""
        return await self._read_many(await self._documents.all(self.kind, after))

    async def names(self) -> set[str]:
        """Return the names of all documents."""
        return set(await self._documents.revisions(self.kind))

    async def put(self, name: str, value: T, *, urgent: bool = False) -> T:
        """Store a model, and return it with its new revision.

        Raises RevisionConflict if the stored revision differs from that of `value`, or, if that is 0, if the document
        exists. `urgent` is as in `Documents.put`.
        """
        revision = value.revision or None
        return value.at(await self._documents.put(self.kind, name, value.to_bytes(), revision=revision, urgent=urgent))

    async def change(self, name: str, change: Callable[[T | None], T | None], *, urgent: bool = False) -> T | None:
        """Replace a document by the result of a function, and return the current document.

        Parameters
        ----------
        change : callable
            Called with the document, None if it does not exist, and again if another process changed the document in
            the meantime. Returns the document to store, or None to leave it unchanged. Its exceptions are passed on.
        """
        while True:
            found = await self.get(name)
            before = None if found is None else found.to_bytes()
            changed = change(found)
            if changed is None or changed.to_bytes() == before:
                return found
            try:
                return await self.put(name, changed, urgent=urgent)
            except RevisionConflict:
                continue

    async def delete(self, name: str, revision: int | None = None) -> bool:
        """Delete a document, if a revision is passed only at this revision; return whether the document no longer
        exists."""
        while (found := revision or await self._documents.revision(self.kind, name)) is not None:
            try:
                await self._documents.delete(self.kind, name, revision=found)
            except RevisionConflict as error:
                if revision is None:
                    continue
                return error.found is None
            return True
        return True

    async def delete_damaged(self, name: str) -> bool:
        """Delete a document if it is damaged, on request of an operator; return whether it was damaged.

        A newer document stays.
        """
        for document in await self._documents.all(self.kind):
            if document.name == name and isinstance(self._read([document])[name], DocumentDamaged):
                return await self.delete(name, document.revision)
        return False

    def restart(self) -> None:
        """Make the next poll return all documents."""
        self._follower.restart()

    @asynccontextmanager
    async def changes(self, whole: bool = False) -> AsyncIterator[Changes[T]]:
        """Poll for changes, and for all names if `whole` is set or a whole poll is due.

        If an error ends the block, the next poll returns all documents.
        """
        documents, names = await self._follower.poll(whole)
        try:
            yield Changes(await self._read_many(documents), names)
        except BaseException:
            self._follower.restart()
            raise

    def _parsed(self, document: Document) -> T:
        if document.damaged:
            raise DocumentDamaged(self.kind, document.name, document.revision)
        return self._model.from_bytes(self.kind, document.name, document.value, document.revision)

    async def _read_many(self, documents: list[Document]) -> dict[str, T | Unreadable]:
        if len(documents) <= MAX_INLINE:
            return self._read(documents)
        return await asyncio.to_thread(self._read, documents)

    def _read(self, documents: list[Document]) -> dict[str, T | Unreadable]:
        found: dict[str, T | Unreadable] = {}
        for document in documents:
            try:
                found[document.name] = self._parsed(document)
            except UNREADABLE as error:
                found[document.name] = error
        return found
