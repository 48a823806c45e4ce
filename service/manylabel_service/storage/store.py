"""Protocol of a store."""

from typing import NamedTuple, Protocol

from manylabel_service.storage.models import Models
from manylabel_service.storage.protocol import Blobs, Documents, Logs, ModelMeta, Predictions
from manylabel_service.storage.snapshots import Snapshots


class Store(Protocol):
    """Store with six parts. The parts exist from the creation of the store, and work while it is open.

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

    async def format(self) -> int:
        """Return the format number of the store.

        If this release does not know it, this and all later calls, and `open`, raise `StoreTooNew`.
        """
        ...

    async def raise_format(self, number: int) -> None:
        """Raise the format number of the store."""
        ...

    async def erased(self) -> None:
        """Wait until data deleted so far is removed from all files and keys of the store."""
        ...


class Named(NamedTuple):
    """Model that documents or blobs name (None if it was deleted), and the keys of these blobs."""

    record: ModelMeta | None
    keys: list[str]


async def named_models(store: Store, kind: str, prefix: str) -> dict[int, Named]:
    """Return the incarnations in the names of documents of a kind, or of blobs under a prefix, with their models.

    If a model is damaged, the result is empty, because the data may belong to it.
    """
    keys: dict[int, list[str]] = {int(name): [] for name in await store.documents.revisions(kind) if name.isdecimal()}
    for key in await store.blobs.keys(prefix):
        name = key.removeprefix(prefix).partition("/")[0]
        if name.isdecimal():  # a later release may use other names
            keys.setdefault(int(name), []).append(key)
    records = await store.models.all() if keys else []
    if any(record.damaged for record in records):
        return {}
    models = {record.incarnation: record for record in records}
    return {incarnation: Named(models.get(incarnation), each) for incarnation, each in keys.items()}
