"""Documents of the archive in a store: the identity of the store, and the mark of an incomplete restore."""

from pydantic import ConfigDict, Field

from manylabel_service.environment import secrets
from manylabel_service.errors import StoreUnusable
from manylabel_service.storage import Collection, Store, StoredModel

STORE_ID = r"^[0-9a-f]{32}$"

ARCHIVE = "archive"
"""Kind and name of the document that identifies a store."""

RESTORE = "restore"
"""Kind and name of the document that marks a store until its restore is complete."""


class Origin(StoredModel):
    """Identity of a store, in the store and in an archive."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(default_factory=lambda: secrets.token_hex(16), pattern=STORE_ID)
    restored_from: tuple[str, ...] = ()
    """Ids of the store from which this store was restored, of the origin of that store, and so on."""


class RestoreMark(StoredModel):
    """Mark of an incomplete restore; `model` is the only restored model, None for all models."""

    model: str | None


def origins(store: Store) -> Collection[Origin]:
    """Return the documents that identify stores."""
    return Collection(store.documents, ARCHIVE, Origin)


def restore_marks(store: Store) -> Collection[RestoreMark]:
    """Return the marks of incomplete restores."""
    return Collection(store.documents, RESTORE, RestoreMark)


async def check_complete(store: Store) -> None:
    """Raise StoreUnusable for a store with an incomplete restore."""
    if await store.documents.revisions(RESTORE):
        raise StoreUnusable("a restore into this store is incomplete: run manylabel restore again")
