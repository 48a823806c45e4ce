"""Publishing of large data: blobs that documents name.

A blob is stored first, under a key with an id that is never used again, and exists from the moment that a document
names it. A process that dies in between leaves a blob that no document names, which is removed by its age.
"""

from manylabel_service import ulid
from manylabel_service.clock import now_ms
from manylabel_service.storage.protocol import ModelMeta, Store

ORPHANED_SECONDS = 7_200.0
"""Age in seconds from which a blob that no document names counts as left by a dead process."""


def is_old(id: str) -> bool:
    """Return whether a blob with this id is an orphan if no document names it. Raises ValueError for no ULID."""
    return ulid.timestamp_of(id) < now_ms() - 1_000 * ORPHANED_SECONDS


async def named_models(store: Store, kind: str, prefix: str) -> dict[int, ModelMeta | None]:
    """Return the incarnations that name documents of a kind, or blobs under a prefix, with their models.

    Returns
    -------
    dict
        By incarnation: the model, None if it was deleted. Empty if a model is damaged, because the rest may belong to
        it.
    """
    blobs = {key.removeprefix(prefix).partition("/")[0] for key in await store.blobs.keys(prefix)}
    named = {int(name) for name in blobs | (await store.documents.revisions(kind)).keys()}
    records = await store.models.all() if named else []
    if any(record.damaged for record in records):
        return {}
    models = {record.incarnation: record for record in records}
    return {incarnation: models.get(incarnation) for incarnation in named}
