"""Receipts of forgetting: one document per model, which also names the running rewrite."""

from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from manylabel_service.errors import RevisionConflict
from manylabel_service.storage import Store

KIND = "forgets"
"""Kind of the documents, which are named by the model."""

MAX_RECEIPTS = 100
"""Receipts that are kept of a model; the oldest go."""


class Receipt(BaseModel):
    """Result of a request to forget examples."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    status: Literal["running", "done", "failed"] = "running"
    created: str
    ended: str | None = None
    key_id: str | None = None
    entries: int = 0
    examples: int = 0
    predictions: int = 0
    since: str | None = None
    first: str | None = None
    position: str | None = None
    checksum_before: str | None = None
    checksum_after: str | None = None
    build: str | None = None
    replay_version: int | None = None
    kept: tuple[str, ...] = ()
    beyond_reach: tuple[str, ...] = ()
    error: str | None = None


class Forgetting(BaseModel):
    """The receipts of a model, the latest last.

    While the latest is running, `owner` is the process that works on it, and `successor` is the incarnation that is
    made to replace `incarnation`. `lineage` has the incarnations that the model has had, the latest last.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    receipts: tuple[Receipt, ...] = ()
    owner: str | None = None
    incarnation: int | None = None
    successor: int | None = None
    lineage: tuple[int, ...] = ()

    @property
    def running(self) -> Receipt | None:
        """Receipt of the running request."""
        return self.receipts[-1] if self.receipts and self.receipts[-1].status == "running" else None

    def with_last(self, receipt: Receipt) -> "Forgetting":
        """Return the receipts with the latest one replaced."""
        return self.model_copy(update={"receipts": (*self.receipts[:-1], receipt)})


class Found(NamedTuple):
    """A document, and its revision; None if missing."""

    forgetting: Forgetting
    revision: int | None


class ReceiptStore:
    """Reads and changes the receipts of models; every method raises StorageUnavailable and DocumentDamaged."""

    def __init__(self, store: Store) -> None:
        self._documents = store.documents

    async def find(self, name: str) -> Found:
        """Return the receipts of a model."""
        document = await self._documents.get(KIND, name)
        if document is None:
            return Found(Forgetting(), None)
        return Found(_read(document.value), document.revision)

    async def put(self, name: str, found: Found, forgetting: Forgetting) -> bool:
        """Replace a document; return False if it has changed."""
        value = forgetting.model_dump_json().encode()
        try:
            await self._documents.put(KIND, name, value, revision=found.revision, urgent=True)
        except RevisionConflict:
            return False
        return True

    async def change(self, name: str, change: Callable[[Forgetting], Forgetting]) -> Forgetting:
        """Change the document as it is by then; return it as it is afterwards."""
        while True:
            found = await self.find(name)
            changed = change(found.forgetting)
            if changed == found.forgetting or await self.put(name, found, changed):
                return changed

    async def all(self) -> dict[str, Forgetting]:
        """Return the receipts of all models, by name."""
        documents = await self._documents.all(KIND)
        return {document.name: _read(document.value) for document in documents if not document.damaged}

    async def delete(self, name: str) -> None:
        """Remove the receipts of a deleted model."""
        while (revision := (await self._documents.revisions(KIND)).get(name)) is not None:
            with suppress(RevisionConflict):
                await self._documents.delete(KIND, name, revision=revision)


def _read(value: bytes) -> Forgetting:
    try:
        return Forgetting.model_validate_json(value)
    except ValidationError:  # of a later release
        return Forgetting()
