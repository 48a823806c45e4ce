"""Blobs of a SQLite store: files under random tokens, published by the row of the key."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import structlog

from manylabel_service.errors import BlobDamaged, StorageUnavailable
from manylabel_service.storage.blobs import BlobManifest, PiecewiseBlobs, StoredManifest
from manylabel_service.storage.checksums import seal, unseal
from manylabel_service.storage.document_pages import check_key
from manylabel_service.storage.gate import gated
from manylabel_service.storage.sqlite.engine import Engine, Part, in_writer

PIECES_PER_SYNC = 8
"""Number of pieces between two syncs to disk, because a single sync at the end would delay snapshots."""

log = structlog.get_logger()


class SQLiteBlobs(Part, PiecewiseBlobs):
    """Implements `Blobs` on the engine of a store."""

    def __init__(self, engine: Engine) -> None:
        Part.__init__(self, engine)
        PiecewiseBlobs.__init__(self, engine.gate, engine.background)

    async def _write(self, manifest: BlobManifest, piece: bytes) -> None:
        sync = manifest.pieces % PIECES_PER_SYNC == 0
        await self._engine.threads.file(self._engine.blob_files.add, manifest.token, piece, sync)

    async def _publish(self, key: str, manifest: BlobManifest) -> None:
        with self.gate:
            await self._engine.threads.file(self._engine.blob_files.complete, manifest.token)
        with self.gate:
            old = await self._engine.threads.write(self._put, key, manifest.text())
        await self._remove(old)

    def _put(self, key: str, manifest: str) -> str | None:
        """Map a key to a file; return the token of the previous file, which can be deleted."""
        with self._tables.transaction("fsync"):
            old = self._token(key)
            self._connection.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (key, seal(manifest.encode(), key)))
        return old

    async def _discard(self, key: str, manifest: BlobManifest) -> None:
        # The next opening removes a file that stays here.
        with suppress(StorageUnavailable), self.gate:
            found = await self._find(key)
            if found is None or found.token != manifest.token:
                await self._engine.threads.file(self._engine.blob_files.remove, manifest.token)

    async def _find(self, key: str) -> StoredManifest | None:
        return await self._engine.threads.write(self._manifest, key)

    def _reads(self, manifest: StoredManifest) -> list[Callable[[], Awaitable[bytes | None]]]:
        read = partial(self._engine.threads.file, self._engine.blob_files.read, manifest.token)
        return [partial(read, *extent) for extent in manifest.extents]

    @gated
    async def delete(self, key: str) -> None:
        check_key(key)
        await self._remove(await self._engine.threads.write_urgent(self._delete, key))

    def _delete(self, key: str) -> str | None:
        """Remove the row of a key; return the token of its file, which can be deleted."""
        with self._tables.transaction("fsync"):
            old = self._token(key)
            self._connection.execute("DELETE FROM blobs WHERE key = ?", (key,))
        return old

    async def _remove(self, token: str | None) -> None:
        """Remove a file in any case, but leave it to the next opening if that fails."""
        if token is not None:
            with suppress(StorageUnavailable):
                await self._background.finish(self._engine.threads.file(self._engine.blob_files.remove, token))

    @in_writer
    def keys(self, prefix: str = "") -> list[str]:
        return sorted(key for key in self._keys() if key.startswith(prefix))

    def sweep(self) -> None:
        """Remove the files that no row names, in the writer, unless a row is damaged."""
        try:
            tokens = {head.token for key in self._keys() if (head := self._manifest(key)) is not None}
        except BlobDamaged as error:
            log.error("blob_damaged", error=str(error))
            self._engine.blob_files.sweep((), keep_others=True)
        else:
            self._engine.blob_files.sweep(tokens)

    def _manifest(self, key: str) -> StoredManifest | None:
        """Return the manifest of the file that a key leads to; raise `BlobDamaged`."""
        row = self._connection.execute("SELECT head FROM blobs WHERE key = ?", (key,)).fetchone()
        return row and StoredManifest.parse(key, (unseal(row[0], key) or b"").decode())

    def _token(self, key: str) -> str | None:
        """Return the token of the file of a key, None if there is no file or the row is damaged."""
        try:
            found = self._manifest(key)
        except BlobDamaged:
            return None
        return None if found is None else found.token

    def _keys(self) -> list[str]:
        return [str(key) for (key,) in self._connection.execute("SELECT key FROM blobs")]
