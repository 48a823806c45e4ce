"""Lineages of models: one document for each, with the incarnations that a model has had, and why each was replaced.

Forgetting examples and promoting a follower replace a model by a successor. The document says which change is under
way, which process works on it, and which successors it has staged, so that another process can end it.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from manylabel_service.errors import RevisionConflict
from manylabel_service.storage import Store

KIND = "lineages"
"""Kind of the documents, which are named by the model."""

MAX_INCARNATIONS = 100
"""Incarnations of a model that are remembered."""

MAX_CHANGES = 100
"""Receipts, and promotions, that are kept of a model; the oldest go."""


class _Change(BaseModel):
    """A change that replaces a model by a successor."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    status: Literal["running", "done", "failed"] = "running"
    created: str
    ended: str | None = None
    key_id: str | None = None
    since: str | None = None
    position: str | None = None
    error: str | None = None


class Receipt(_Change):
    """Result of a request to forget examples."""

    entries: int = 0
    examples: int = 0
    predictions: int = 0
    first: str | None = None
    checksum_before: str | None = None
    checksum_after: str | None = None
    metrics_before: dict[str, Any] | None = None
    metrics_after: dict[str, Any] | None = None
    build: str | None = None
    replay_version: int | None = None
    kept: tuple[str, ...] = ()
    beyond_reach: tuple[str, ...] = ()
    archive: Literal["pending", "purged"] | None = None


class Promotion(_Change):
    """Result of a request to promote a follower; `key` and `digest` (hexadecimal) are those of the request."""

    follower: str
    algorithm: str
    updates: int = 0
    key: str | None = None
    digest: str | None = None


class Succession(NamedTuple):
    """A name, the incarnation that has it, and the one that is to have it."""

    name: str
    incarnation: int
    successor: int


class Lineage(BaseModel):
    """Receipts and promotions of a model, the latest last.

    While one is running, `owner` is the process that works on it, `incarnation` the model that is to be replaced, and
    `successions` has what was staged for it, that of the model itself first. `incarnations` has those of the model, the
    latest last. `origins` has those that it was restored from, each after the id of its store.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    receipts: tuple[Receipt, ...] = ()
    promotions: tuple[Promotion, ...] = ()
    owner: str | None = None
    incarnation: int | None = None
    successions: tuple[Succession, ...] = ()
    incarnations: tuple[int, ...] = ()
    origins: tuple[tuple[str, int], ...] = ()

    @property
    def running(self) -> Receipt | Promotion | None:
        """Running change."""
        latest: list[Receipt | Promotion] = [*self.receipts[-1:], *self.promotions[-1:]]
        return next((each for each in latest if each.status == "running"), None)

    def with_change(self, change: Receipt | Promotion) -> Self:
        """Return it with a change added, or in the place of the latest one of its kind if that has the same id."""
        field = "receipts" if isinstance(change, Receipt) else "promotions"
        changes: tuple[Receipt | Promotion, ...] = getattr(self, field)
        if changes and changes[-1].id == change.id:
            changes = changes[:-1]
        return self.model_copy(update={field: (*changes, change)[-MAX_CHANGES:]})

    def restored(self, origins: Iterable[tuple[str, int]], incarnation: int) -> Self:
        """Return the lineage of another incarnation that was restored from others."""
        lost = {"status": "failed", "error": "the store was lost"}
        ended = self if self.running is None else self.with_change(self.running.model_copy(update=lost))
        origins = tuple(dict.fromkeys((*self.origins, *origins)))[-MAX_INCARNATIONS:]
        rest = {"owner": None, "incarnation": None, "successions": ()}
        return ended.model_copy(update={**rest, "incarnations": (incarnation,), "origins": origins})

    def purged(self, ids: Collection[str]) -> Self:
        """Return it with receipts that say that the archive was purged."""
        receipts = (each.model_copy(update={"archive": "purged"}) if each.id in ids else each for each in self.receipts)
        return self.model_copy(update={"receipts": tuple(receipts)})


class Found(NamedTuple):
    """A document, and its revision; None if missing."""

    lineage: Lineage
    revision: int | None


class LineageStore:
    """Reads and changes the lineages of models; every method raises StorageUnavailable and DocumentDamaged."""

    def __init__(self, store: Store) -> None:
        self._documents = store.documents

    async def find(self, name: str) -> Found:
        """Return the lineage of a model."""
        document = await self._documents.get(KIND, name)
        if document is None:
            return Found(Lineage(), None)
        return Found(read_lineage(document.value), document.revision)

    async def put(self, name: str, found: Found, lineage: Lineage) -> bool:
        """Replace a document; return False if it has changed."""
        value = lineage.model_dump_json().encode()
        try:
            await self._documents.put(KIND, name, value, revision=found.revision, urgent=True)
        except RevisionConflict:
            return False
        return True

    async def change(self, name: str, change: Callable[[Lineage], Lineage]) -> Lineage:
        """Change the document as it is by then; return it as it is afterwards."""
        while True:
            found = await self.find(name)
            changed = change(found.lineage)
            if changed == found.lineage or await self.put(name, found, changed):
                return changed

    async def all(self) -> dict[str, Lineage]:
        """Return the receipts of all models, by name."""
        documents = await self._documents.all(KIND)
        return {document.name: read_lineage(document.value) for document in documents if not document.damaged}

    async def delete(self, name: str) -> None:
        """Remove that of a model that has been deleted."""
        while (revision := (await self._documents.revisions(KIND)).get(name)) is not None:
            with suppress(RevisionConflict):
                await self._documents.delete(KIND, name, revision=revision)


def read_lineage(value: bytes) -> Lineage:
    """Return what a document has; nothing if it is of a later release."""
    try:
        return Lineage.model_validate_json(value)
    except ValidationError:
        return Lineage()
