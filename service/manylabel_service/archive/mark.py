"""Marker of a store with an incomplete restore."""

from manylabel_service.errors import StoreUnusable
from manylabel_service.storage import Store

RESTORE = "restore"
"""Kind and name of the document that marks a store."""


async def check_complete(store: Store) -> None:
    """Raise StoreUnusable for a store that is not complete."""
    if await store.documents.revisions(RESTORE):
        raise StoreUnusable("a restore into this store is incomplete: run manylabel restore again")
