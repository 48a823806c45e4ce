"""Store of one simulated server: calls reach the shared disk over a network with delays and losses."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Mapping, Sequence, Set
from contextlib import aclosing, suppress
from typing import TypeVar

from tests.simulation.disk import Disk, StoredBlob

from manylabel_service.errors import BlobGone, BlobNotFound, StorageUnavailable
from manylabel_service.storage import Document, Entry, LogChanges, ModelMeta
from manylabel_service.storage.background import BackgroundTasks
from manylabel_service.storage.blob_pieces import PIECE_BYTES, BlobManifest, evenly
from manylabel_service.storage.blob_places import KIND, OutsidePieces, is_outside
from manylabel_service.storage.document_pages import check_document, check_key
from manylabel_service.storage.gate import Gate, gated
from manylabel_service.storage.models import Models, Succession, Use, leader_of
from manylabel_service.storage.protocol import ALL, UNBOUNDED_BYTES, position_key
from manylabel_service.storage.snapshots import Snapshots

T = TypeVar("T")

ORPHAN_SECONDS = 3_600.0
"""Time after which the pieces outside of a writer that died are removed, as by a Redis store."""

DELETED_SECONDS = 60.0
"""Time for which the objects of a deleted blob stay, as by a Redis store."""


class Network:
    """Way from a server to the disk. This one is perfect; a subclass delays and loses calls."""

    async def call(self, step: Callable[[], T]) -> T:
        """Run a step on the disk, and return its result."""
        await asyncio.sleep(0)
        return step()


class _Part:
    def __init__(self, gate: Gate, network: Network, disk: Disk) -> None:
        self.gate = gate
        self._network = network
        self._disk = disk


class _Models(Models):
    def __init__(self, store: "SimulatedStore", background: BackgroundTasks) -> None:
        super().__init__(store.gate, background, store.logs, store.snapshots)
        self._network, self._disk = store.network, store.disk

    def position_at(self, position: str) -> str:
        position_key(position)
        return position

    @gated
    async def find(self, name: str) -> ModelMeta | None:
        return await self._network.call(lambda: self._disk.models.get(name))

    @gated
    async def all(self) -> list[ModelMeta]:
        return await self._network.call(
            lambda: sorted(self._disk.models.values(), key=lambda record: record.incarnation)
        )

    @gated
    async def count(self) -> int:
        return await self._network.call(lambda: len(self._disk.models))

    @gated
    async def existing(self, incarnations: Set[int]) -> dict[int, str]:
        def step() -> dict[int, str]:
            there = {each.incarnation: each.name for each in self._disk.models.values()}
            there |= dict.fromkeys(self._disk.staged, "")
            return {number: there[number] for number in incarnations & there.keys()}

        return await self._network.call(step)

    @gated
    async def page(self, prefix: str, after: str, limit: int) -> list[ModelMeta]:
        def step() -> list[ModelMeta]:
            names = sorted(name for name in self._disk.models if name.startswith(prefix) and name > after)
            return [self._disk.models[name] for name in names[:limit]]

        return await self._network.call(step)

    @gated
    async def recent(self, before: tuple[int, str] | None, limit: int) -> list[Use]:
        def step() -> list[Use]:
            found = sorted(((unix_ms, name) for name, unix_ms in self._disk.uses.items()), reverse=True)
            later = [each for each in found if before is None or each < before]
            now_ms = self._disk.now_ms()
            return [Use(self._disk.models[name], unix_ms, now_ms - unix_ms) for unix_ms, name in later[:limit]]

        return await self._network.call(step)

    @gated
    async def use(self, ages_ms: Mapping[str, int]) -> None:
        def step() -> None:
            known, now_ms = self._disk.uses, self._disk.now_ms()
            known.update({name: max(known[name], now_ms - age) for name, age in ages_ms.items() if name in known})

        await self._network.call(step)

    @gated
    async def followers(self, leader: ModelMeta) -> list[ModelMeta]:
        return [each for each in await self.all() if leader_of(each.spec) == leader.incarnation]

    async def _prepare(self, name: str, spec: bytes, at: str) -> ModelMeta:
        return await self._network.call(lambda: self._disk.prepare(name, spec, at))

    async def _name(self, successions: Sequence[Succession]) -> None:
        await self._network.call(lambda: self._disk.name(successions))

    async def _unname(self, record: ModelMeta) -> None:
        await self._network.call(lambda: self._disk.unname(record))

    async def _discard(self, successor: ModelMeta) -> bool:
        return await self._network.call(lambda: self._disk.discard(successor))

    async def _purge(self, record: ModelMeta) -> None:
        """Nothing remains: the step that removed the name removed the log."""


class _Logs(_Part):
    @gated
    async def check(self, record: ModelMeta) -> None:
        await self._network.call(lambda: self._disk.log(record))

    @gated
    async def append(self, record: ModelMeta, payloads: Sequence[bytes], after: str) -> list[Entry]:
        if not payloads:
            raise ValueError("an append needs at least one payload")
        position_key(after)
        return await self._network.call(lambda: self._disk.append(record, payloads, after))

    @gated
    async def read(self, record: ModelMeta, after: str, limit: int) -> list[Entry]:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        return await self._network.call(lambda: self._disk.log(record).after(record, after)[:limit])

    async def changed(self, after: str, seconds: float) -> LogChanges:
        return await self.gate.until_closed(self._changed(after, seconds))

    async def _changed(self, after: str, seconds: float) -> LogChanges:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            changed = self._disk.when_changed()
            found = await self._network.call(lambda: self._disk.changes_after(after))
            left = until - loop.time()
            if found.ends or not found.complete or left <= 0:
                return found
            await asyncio.wait([changed], timeout=left)

    @gated
    async def ends(self, records: Collection[ModelMeta]) -> dict[int, str | None]:
        return await self._network.call(lambda: self._disk.ends([record.incarnation for record in records]))

    @gated
    async def entries_after(self, positions: Mapping[ModelMeta, str], most: int) -> dict[ModelMeta, int]:
        def count() -> dict[ModelMeta, int]:
            logs = {record: self._disk.logs.get(record.incarnation) for record in positions}
            return {
                record: min(most, sum(key > position_key(positions[record]) for key in log.keys))
                for record, log in logs.items()
                if log is not None
            }

        return await self._network.call(count)

    @gated
    async def trim(self, record: ModelMeta, through: str) -> None:
        await self._network.call(lambda: self._disk.trim(record, through))

    @gated
    async def adopt(self, successor: ModelMeta, entries: Sequence[Entry]) -> None:
        await self._network.call(lambda: self._disk.adopt(successor, entries))

    @gated
    async def seal(self, record: ModelMeta, sealed: bool) -> None:
        await self._network.call(lambda: self._disk.seal(record, sealed))


class _Predictions(_Part):
    @gated
    async def put(
        self,
        record: ModelMeta,
        predictions: Mapping[str, bytes],
        seconds: float,
        most: int,
        most_bytes: int = UNBOUNDED_BYTES,
    ) -> int:
        return await self._network.call(
            lambda: self._disk.put_predictions(record, dict(predictions), seconds, most, most_bytes)
        )

    @gated
    async def get(self, record: ModelMeta, ids: Sequence[str]) -> list[bytes | None]:
        return await self._network.call(lambda: self._disk.get_predictions(record, ids))

    @gated
    async def ids(self, record: ModelMeta, most: int, before: str | None = None) -> list[str]:
        return await self._network.call(lambda: self._disk.prediction_ids(record, most, before))


class _Documents(_Part):
    @gated
    async def put(
        self, kind: str, name: str, value: bytes, *, revision: int | None, urgent: bool = False, least: int = 0
    ) -> int:
        check_document(kind, name, value)
        return await self._network.call(lambda: self._disk.put_document(kind, name, value, revision, least))

    @gated
    async def get(self, kind: str, name: str) -> Document | None:
        check_document(kind, name)
        found = await self._network.call(lambda: self._disk.documents.get((kind, name)))
        return None if found is None else Document(name, *found)

    @gated
    async def all(self, kind: str, after: int = 0) -> list[Document]:
        check_document(kind)
        return await self._network.call(lambda: self._disk.documents_of(kind, after))

    def changes(self, kind: str) -> None:
        return

    @gated
    async def revisions(self, kind: str) -> dict[str, int]:
        check_document(kind)
        return await self._network.call(lambda: {each.name: each.revision for each in self._disk.documents_of(kind)})

    @gated
    async def revision(self, kind: str, name: str) -> int | None:
        check_document(kind, name)
        found = await self._network.call(lambda: self._disk.documents.get((kind, name)))
        return None if found is None else found[0]

    @gated
    async def delete(self, kind: str, name: str, *, revision: int) -> None:
        check_document(kind, name)
        await self._network.call(lambda: self._disk.delete_document(kind, name, revision))


class _Blobs(_Part):
    """Blobs in the store, or outside of it by the steps of a Redis store."""

    def __init__(self, store: "SimulatedStore", background: BackgroundTasks) -> None:
        super().__init__(store.gate, store.network, store.disk)
        self.outside = OutsidePieces(store.gate, store.documents)
        self._background = background

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        check_key(key)
        token = await self.outside.new_token() if (KIND, KIND) in self._disk.documents else None
        if token is not None:
            return await self._put_outside(key, BlobManifest(token), pieces)
        blob = StoredBlob(BlobManifest(), [])
        self._disk.unfinished.append(blob)
        try:
            await self._collect(pieces, blob)
            with self.gate:
                await self._network.call(lambda: self._disk.blobs.__setitem__(key, blob))
        finally:
            self._disk.unfinished.remove(blob)
        return blob.manifest.size_bytes

    async def _collect(self, pieces: AsyncIterable[bytes], blob: StoredBlob) -> None:
        async for piece in evenly(pieces, PIECE_BYTES):
            await blob.manifest.count(piece)
            with self.gate:
                await self._network.call(lambda piece=piece: blob.pieces.append(piece))

    async def _put_outside(self, key: str, head: BlobManifest, pieces: AsyncIterable[bytes]) -> int:
        await self._loosen(head.token)
        try:
            async for piece in evenly(pieces, PIECE_BYTES):
                await head.count(piece)
                await self.outside.put(head.token, head.pieces - 1, piece)
            old = await self._claim(key, head)
        except BaseException:
            if self.gate.is_open:
                await self._background.finish(self._discard(key, head.token))
            raise
        await self._drop_old(old)
        return head.size_bytes

    @gated
    async def _loosen(self, token: str) -> None:
        await self._network.call(lambda: self._disk.loose.__setitem__(token, self._disk.now_ms()))

    @gated
    async def _claim(self, key: str, head: BlobManifest) -> str | None:
        return await self._network.call(lambda: self._disk.claim(key, StoredBlob(head, [])))

    async def _discard(self, key: str, token: str) -> None:
        with suppress(StorageUnavailable):
            if await self._network.call(lambda: self._disk.abandon(key, token)):
                await self._drop(token)

    async def _drop_old(self, token: str | None) -> None:
        if token is not None:
            with suppress(StorageUnavailable):
                await self._background.finish(self._drop(token))

    async def _drop(self, token: str) -> None:
        await self.outside.drop(token)
        await self._network.call(lambda: self._disk.forget_token(token))

    @gated
    async def drop_loose(self) -> None:
        for token in await self._network.call(lambda: self._disk.abandoned(ORPHAN_SECONDS)):
            await self._drop(token)

    def read(self, key: str) -> AsyncGenerator[bytes, None]:
        check_key(key)
        return self._read(key)

    async def _read(self, key: str) -> AsyncGenerator[bytes, None]:
        with self.gate:
            blob = await self._network.call(lambda: self._disk.blobs.get(key))
        if blob is None:
            raise BlobNotFound(key)
        async for piece in blob.manifest.stored.checked(key, self._pieces(key, blob)):
            yield piece
        if not blob.whole:
            self._disk.accepted.append(key)

    async def _pieces(self, key: str, blob: StoredBlob) -> AsyncGenerator[bytes, None]:
        if is_outside(blob.manifest.token):

            async def is_current() -> bool:
                return await self._network.call(lambda: self._disk.blobs.get(key)) is blob

            async with aclosing(self.outside.pieces(key, blob.manifest.stored, is_current)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        for number, piece in enumerate(blob.pieces):
            with self.gate:
                found = await self._network.call(lambda: self._disk.blobs.get(key)) if number else blob
            if found is not blob:
                raise BlobGone(key)
            yield piece

    @gated
    async def delete(self, key: str) -> None:
        check_key(key)
        await self._network.call(lambda: self._disk.unclaim(key, DELETED_SECONDS))

    @gated
    async def keys(self, prefix: str = "", after: str = "", limit: int = ALL) -> list[str]:
        found = await self._network.call(lambda: [key for key in self._disk.blobs if key.startswith(prefix)])
        return sorted(key for key in found if key > after)[:limit]


class SimulatedStore:
    """Implements `manylabel_service.storage.Store` on a disk that several servers share.

    Parameters
    ----------
    disk : the shared data.
    network : way of the calls to the disk.
    """

    shared = True

    def __init__(self, disk: Disk, network: Network | None = None) -> None:
        self.disk, self.network = disk, network or Network()
        self.gate = Gate()
        self._background = BackgroundTasks()
        self.logs = _Logs(self.gate, self.network, disk)
        self.predictions = _Predictions(self.gate, self.network, disk)
        self.documents = _Documents(self.gate, self.network, disk)
        self.blobs = _Blobs(self, self._background)
        self.snapshots = Snapshots(self.gate, self.logs, self.documents, self.blobs)
        self.models = _Models(self, self._background)

    async def open(self) -> None:
        await self._format()
        self.gate.open()

    async def close(self) -> None:
        await self.gate.close()
        await self._background.done()

    @gated
    async def format(self) -> int:
        return await self._format()

    async def _format(self) -> int:
        return self.gate.supported("the simulated store", await self.network.call(lambda: self.disk.format))

    @gated
    async def raise_format(self, number: int) -> None:
        await self.network.call(lambda: setattr(self.disk, "format", number))

    @gated
    async def erased(self) -> None:
        await self._background.done()
        if self.disk.loose or self.disk.deleted:
            await self.blobs.drop_loose()


def new_disk(now_ms: Callable[[], int], seed: int = 0) -> Disk:
    """Return an empty disk."""
    return Disk(now_ms, random.Random(seed))
