"""Collections: documents of one kind as pydantic models."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from manylabel_service.errors import DocumentDamaged, RevisionConflict
from manylabel_service.storage.document_follower import DocumentFollower
from manylabel_service.storage.protocol import Document, Documents

MAX_INLINE = 8
"""Maximum number of documents parsed on the event loop; more are parsed in a thread."""


class StoredModel(BaseModel):
    """Base of the models of a collection."""

    model_config = ConfigDict(extra="forbid")

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
        return self.model_dump_json().encode()


T = TypeVar("T", bound=StoredModel)


class Changes(NamedTuple, Generic[T]):
    """Documents that changed since the last poll, by name; None for a damaged one.

    Attributes
    ----------
    names : set of str or None
        Names of all documents after a whole poll: any other document has been deleted. Otherwise None.
    """

    values: dict[str, T | None]
    names: set[str] | None


class Collection(Generic[T]):
    """Documents of one kind by name; every method raises StorageError.

    Parameters
    ----------
    documents : Documents
        Documents of the store.
    kind : str
        The kind of the documents.
    model : type Pydantic model that parses and serialises a document.
    """

    def __init__(self, documents: Documents, kind: str, model: type[T]) -> None:
        self.kind = kind
        self._documents = documents
        self._model = model
        self._follower = DocumentFollower(documents, kind)

    async def get(self, name: str) -> T | None:
        """Return a document; None if it does not exist. Raises DocumentDamaged."""
        document = await self._documents.get(self.kind, name)
        if document is None:
            return None
        try:
            return self._parsed(document)
        except ValidationError as error:
            raise DocumentDamaged(self.kind, name) from error

    async def all(self, after: int = 0) -> dict[str, T | None]:
        """Return the documents that changed after a revision, by name, ordered by revision; None for damaged ones."""
        return await self._read_many(await self._documents.all(self.kind, after))

    async def names(self) -> set[str]:
        """Return the names of all documents."""
        return set(await self._documents.revisions(self.kind))

    async def put(self, name: str, value: T, *, urgent: bool = False) -> T:
        """Store a model at its new revision, and return it.

        Raises RevisionConflict if the document is not at the revision of the model (0: if it exists). `urgent` is as in
        `Documents.put`.
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
        """Delete a document, only at the given revision if there is one; return whether the document no longer
        exists."""
        while (found := revision or (await self._documents.revisions(self.kind)).get(name)) is not None:
            try:
                await self._documents.delete(self.kind, name, revision=found)
            except RevisionConflict as error:
                if revision is None:
                    continue
                return error.found is None
            return True
        return True

    async def delete_damaged(self, name: str) -> bool:
        """Delete a document if it is damaged; return whether it was damaged."""
        for document in await self._documents.all(self.kind):
            if document.name == name and self._read([document])[name] is None:
                return await self.delete(name, document.revision)
        return False

    def restart(self) -> None:
        """Make the next poll return all documents."""
        self._follower.restart()

    @asynccontextmanager
    async def changes(self, whole: bool = False) -> AsyncIterator[Changes[T]]:
        """Poll for changes, and for all names if `whole` is set or due.

        If an error ends the block, the next poll returns all documents.
        """
        documents, names = await self._follower.poll(whole)
        try:
            yield Changes(await self._read_many(documents), names)
        except BaseException:
            self._follower.restart()
            raise

    def _parsed(self, document: Document) -> T:
        return self._model.model_validate_json(document.value).at(document.revision)

    async def _read_many(self, documents: list[Document]) -> dict[str, T | None]:
        if len(documents) <= MAX_INLINE:
            return self._read(documents)
        return await asyncio.to_thread(self._read, documents)

    def _read(self, documents: list[Document]) -> dict[str, T | None]:
        found: dict[str, T | None] = {}
        for document in documents:
            try:
                found[document.name] = self._parsed(document)
            except ValidationError:  # a damaged document has no value
                found[document.name] = None
        return found
