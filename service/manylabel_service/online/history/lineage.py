"""Lineages of models: one document per model, with its incarnations and the changes that replaced them.

Forgetting examples and promoting a follower replace a model by a successor. The document has the running change, the
process that owns it, and the staged successors, so that another process can complete or undo it.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any, Literal, NamedTuple, Self

import structlog
from pydantic import ConfigDict

from manylabel_service.errors import DocumentDamaged
from manylabel_service.storage import Collection, Store, StoredModel, StoredPart, intact

KIND = "lineages"
"""Kind of the documents, which are named by the model."""

MAX_INCARNATIONS = 100
"""Maximum number of stored incarnations of a model."""

MAX_CHANGES = 100
"""Maximum number of receipts, and of promotions, of a model; the oldest are dropped."""

log = structlog.get_logger()


class _Change(StoredPart):
    """Change that replaces a model by a successor."""

    model_config = ConfigDict(frozen=True)

    id: str
    status: Literal["running", "done", "failed"] = "running"
    created: str
    ended: str | None = None
    key_id: str | None = None
    since: str | None = None
    position: str | None = None
    error: str | None = None


class Receipt(_Change):
    """Receipt of a request to forget examples."""

    entries: int = 0
    examples: int = 0
    predictions: int = 0
    first: str | None = None
    checksum_before: str | None = None
    checksum_after: str | None = None
    metrics_before: dict[str, Any] | None = None
    metrics_after: dict[str, Any] | None = None
    build: str | None = None
    kept: tuple[str, ...] = ()
    beyond_reach: tuple[str, ...] = ()
    archive: Literal["pending", "purged"] | None = None


class Promotion(_Change):
    """Result of a request to promote a follower; `key` and `digest` (hexadecimal) identify the request."""

    follower: str
    algorithm: str
    updates: int = 0
    key: str | None = None
    digest: str | None = None


class Succession(NamedTuple):
    """Name with its current incarnation and its successor."""

    name: str
    incarnation: int
    successor: int


class Lineage(StoredModel):
    """Receipts and promotions of a model, oldest first.

    During a change, `owner` is the process that works on the change, and `incarnation` is the model to replace.
    `successions` has the staged successors, beginning with the successor of the model itself. `incarnations` has the
    incarnations of the model, oldest first. `origins` has the incarnations from which the model was restored, each with
    the id of its store.
    """

    model_config = ConfigDict(frozen=True)

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
        """Return the lineage with a change added; the change replaces the latest one of its kind if both have the same
        id."""
        field = "receipts" if isinstance(change, Receipt) else "promotions"
        changes: tuple[Receipt | Promotion, ...] = getattr(self, field)
        if changes and changes[-1].id == change.id:
            changes = changes[:-1]
        return self.model_copy(update={field: (*changes, change)[-MAX_CHANGES:]})

    def restored(self, origins: Iterable[tuple[str, int]], incarnation: int) -> Self:
        """Return the lineage for an incarnation that was restored from the incarnations of this lineage."""
        lost = {"status": "failed", "error": "the store was lost"}
        ended = self if self.running is None else self.with_change(self.running.model_copy(update=lost))
        origins = tuple(dict.fromkeys((*self.origins, *origins)))[-MAX_INCARNATIONS:]
        rest = {"owner": None, "incarnation": None, "successions": ()}
        return ended.model_copy(update={**rest, "incarnations": (incarnation,), "origins": origins})

    def purged(self, ids: Container[str]) -> Self:
        """Return the lineage in which the receipts say that the archive is purged."""
        receipts = (each.model_copy(update={"archive": "purged"}) if each.id in ids else each for each in self.receipts)
        return self.model_copy(update={"receipts": tuple(receipts)})


class LineageStore(Collection[Lineage]):
    """The lineages of models, by name; every method raises StorageUnavailable, DocumentNewer and DocumentDamaged."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.documents, KIND, Lineage)

    async def find(self, name: str) -> Lineage:
        """Return the lineage of a model."""
        return await self.get(name) or Lineage()

    async def update(self, name: str, change: Callable[[Lineage], Lineage]) -> None:
        """Change the current lineage of a model, even on a full disk."""

        def changed(found: Lineage | None) -> Lineage | None:
            before = found or Lineage()
            lineage = change(before)
            return None if lineage == before else lineage.at(before.revision)

        await self.change(name, changed, urgent=True)

    async def intact(self) -> dict[str, Lineage]:
        """Return the lineages of all models by name, except unreadable ones."""
        return intact(await self.all())


def read_lineage(name: str, value: bytes) -> Lineage:
    """Return the lineage in an archived document; an empty one if it is damaged. Raises DocumentNewer."""
    try:
        return Lineage.from_bytes(KIND, name, value)
    except DocumentDamaged as error:
        log.error("lineage_damaged", model=name, error=str(error), action="the model is restored without its receipts")
        return Lineage()
