"""Places of closed stores, whose documents and blobs are read, changed and copied as they are stored."""

import asyncio
import contextlib
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis
from tests.support.limits import settings_of

from manylabel_service.storage import Address, Store, blob_bytes, open_store, pieces_of
from manylabel_service.storage.checksums import SEAL_BYTES, seal
from manylabel_service.storage.redis.keys import BLOBS, piece_keys

Document = tuple[str, str]
"""Kind and name."""


class Place(ABC):
    """A directory with all data of a server, and perhaps a database of Redis.

    Attributes
    ----------
    settings : settings of a server of this place.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def settings(self) -> dict[str, Any]:
        return {"data_dir": self.directory / "data", "archive": f"file://{self.directory}/archive"}

    @abstractmethod
    def copy(self, other: "Place") -> None:
        """Copy everything into an empty place."""

    @abstractmethod
    def documents(self) -> dict[Document, bytes]:
        """Return the sealed value of each document."""

    @abstractmethod
    def write_document(self, document: Document, sealed: bytes) -> None:
        """Replace the sealed value of a document, at the same revision."""

    @abstractmethod
    def blobs(self) -> dict[str, bytes]:
        """Return the bytes of each blob, whatever its checksum."""

    @abstractmethod
    def flip_blob(self, key: str) -> None:
        """Flip a bit in the middle of a blob."""

    def value(self, document: Document) -> bytes:
        """Return the value of a document, which is intact."""
        return self.documents()[document][SEAL_BYTES:]

    def put_document(self, document: Document, value: bytes) -> None:
        """Replace the value of a document, at the same revision."""
        self.write_document(document, seal(value, *document))

    def flip_document(self, document: Document) -> None:
        """Flip a bit in the middle of a document."""
        self.write_document(document, flipped(self.documents()[document]))

    def put_blob(self, key: str, data: bytes) -> None:
        """Replace a blob by another, whose checksum is right."""

        async def put(store: Store) -> None:
            await store.blobs.put(key, pieces_of(data))

        self.run(put)

    def run(self, work: Callable[[Store], Any]) -> Any:
        """Return the result of work on the open store."""

        async def running() -> Any:
            store = open_store(settings_of(**self.settings))
            await store.open()
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(running())

    def blob(self, key: str) -> bytes:
        """Return the bytes of an intact blob."""

        async def read(store: Store) -> bytes:
            return await blob_bytes(store.blobs, key)

        found: bytes = self.run(read)
        return found


def flipped(data: bytes) -> bytes:
    """Return bytes with one bit flipped in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


class InDirectory(Place):
    """A place of a store on SQLite."""

    def copy(self, other: Place) -> None:
        shutil.copytree(self.directory, other.directory, dirs_exist_ok=True)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with (
            contextlib.closing(sqlite3.connect(self.directory / "data" / "manylabel.sqlite3")) as connection,
            connection,
        ):
            yield connection

    def documents(self) -> dict[Document, bytes]:
        with self._connection() as connection:
            rows = connection.execute("SELECT kind, name, value FROM documents").fetchall()
        return {(kind, name): value for kind, name, value in rows}

    def write_document(self, document: Document, sealed: bytes) -> None:
        with self._connection() as connection:
            connection.execute("UPDATE documents SET value = ? WHERE kind = ? AND name = ?", (sealed, *document))

    def _files(self) -> dict[str, Path]:
        with self._connection() as connection:
            rows = connection.execute("SELECT key, head FROM blobs").fetchall()
        directory = self.directory / "data" / "blobs"
        return {key: directory / head[SEAL_BYTES:].split(b" ")[0].decode() for key, head in rows}

    def blobs(self) -> dict[str, bytes]:
        return {key: file.read_bytes() for key, file in self._files().items()}

    def flip_blob(self, key: str) -> None:
        file = self._files()[key]
        file.write_bytes(flipped(file.read_bytes()))


class OnRedis(Place):
    """A place of a store on Redis, in a database of its own."""

    def __init__(self, directory: Path, url: str) -> None:
        super().__init__(directory)
        self.url = url

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "store": self.url}

    @contextlib.contextmanager
    def _client(self) -> Iterator[Any]:
        address = Address.parse(self.url)
        with redis.Redis(port=address.port, db=address.database) as client:
            yield client

    def copy(self, other: Place) -> None:
        assert isinstance(other, OnRedis)
        shutil.copytree(self.directory, other.directory, dirs_exist_ok=True)
        database = Address.parse(other.url).database
        with self._client() as client:
            for key in client.scan_iter():
                client.copy(key, key, destination_db=database)

    def documents(self) -> dict[Document, bytes]:
        prefix = "ml:{documents}:values:"
        with self._client() as client:
            return {
                (key.decode().removeprefix(prefix), name.decode()): value.split(b" ", 1)[1]
                for key in client.keys(f"{prefix}*")
                for name, value in client.hgetall(key).items()
            }

    def write_document(self, document: Document, sealed: bytes) -> None:
        kind, name = document
        with self._client() as client:
            values = f"ml:{{documents}}:values:{kind}"
            revision = client.hget(values, name).split(b" ", 1)[0]
            client.hset(values, name, revision + b" " + sealed)

    def _pieces(self, client: Any) -> dict[str, list[str]]:
        heads = {key.decode(): value.decode().split(" ") for key, value in client.hgetall(BLOBS).items()}
        return {key: piece_keys(head[0], int(head[1])) for key, head in heads.items()}

    def blobs(self) -> dict[str, bytes]:
        with self._client() as client:
            return {
                key: b"".join(client.get(piece) or b"" for piece in pieces)
                for key, pieces in self._pieces(client).items()
            }

    def flip_blob(self, key: str) -> None:
        with self._client() as client:
            piece = self._pieces(client)[key][0]
            client.set(piece, flipped(client.get(piece)))
