"""Protocol of a store."""

from typing import Protocol

from manylabel_service.storage.models import Models
from manylabel_service.storage.protocol import Blobs, Documents, Logs, ModelMeta, Predictions
from manylabel_service.storage.snapshots import Snapshots


class Store(Protocol):
    """Store with six parts, which exist from its creation and work while the store is open.

    Attributes
    ----------
    shared : whether several processes can open it.
    """

    shared: bool

    @property
    def models(self) -> Models: ...
    @property
    def logs(self) -> Logs: ...
    @property
    def snapshots(self) -> Snapshots: ...
    @property
    def predictions(self) -> Predictions: ...
    @property
    def documents(self) -> Documents: ...
    @property
    def blobs(self) -> Blobs: ...

    async def open(self) -> None:
        """Make the store ready; called before anything else.

        Raises `StoreUnusable` if the store cannot be used, and `StorageUnavailable` if it cannot be reached now; in
        that case the call may be repeated. After either error, no resource stays open. Unfinished work of a dead
        process is completed or undone, possibly in the background.
        """
        ...

    async def close(self) -> None:
        """Wait for the calls in progress, then release all resources.

        Later calls raise `StorageUnavailable`; a second close does nothing.
        """
        ...

    async def erased(self) -> None:
        """Wait until no file or key of the store has data deleted so far."""
        ...


async def named_models(store: Store, kind: str, prefix: str) -> dict[int, ModelMeta | None]:
    """Return the incarnations that name documents of a kind, or blobs under a prefix, with their models.

    Returns
    -------
    dict
        Model by incarnation; None if it was deleted. Empty if any model is damaged: the data may belong to it.
    """
    blobs = {key.removeprefix(prefix).partition("/")[0] for key in await store.blobs.keys(prefix)}
    names = blobs | (await store.documents.revisions(kind)).keys()
    named = {int(name) for name in names if name.isdecimal()}  # a later release may use other names
    records = await store.models.all() if named else []
    if any(record.damaged for record in records):
        return {}
    models = {record.incarnation: record for record in records}
    return {incarnation: models.get(incarnation) for incarnation in named}
