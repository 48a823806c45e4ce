"""Place in an S3 bucket, or in a bucket of a compatible server.

Calls block, in threads, because the asynchronous calls of the library abort the interpreter at its exit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import S3Store

from manylabel_service.storage.places.place import (
    ARCHIVE,
    KEY,
    MAX_FILE_BYTES,
    MAX_OBJECT_BYTES,
    ObjectMissing,
    PlaceUnavailable,
    check_size,
    new_threads,
)

T = TypeVar("T")

CONNECT_SECONDS = 5
TIMEOUT_SECONDS = 60
"""Maximum duration of a whole call, which can upload 64 MiB."""
RETRIES = 2
RETRY_SECONDS = 30

MISSING = (NotFoundError, FileNotFoundError)
"""Errors that the library raises for a missing object."""

MAX_ERROR = 500
"""Maximum number of characters of the library's error that a message quotes."""


class ObjectPlace:
    """Implementation of `Place` at an address ``s3://BUCKET/PREFIX``.

    Credentials, region and endpoint are those of the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL), or of the role of the machine.
    """

    def __init__(self, address: str, title: str = ARCHIVE) -> None:
        self._address = address
        self._title = title
        self._threads = new_threads()
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        given: Any = {"endpoint": endpoint} if endpoint else {}
        self._store = S3Store.from_url(
            address,
            region=region,
            **given,
            client_options={
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                "timeout": timedelta(seconds=TIMEOUT_SECONDS),
                "allow_http": bool(endpoint and endpoint.startswith("http://")),
            },
            retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
        )

    async def put(self, key: str, data: bytes | Path) -> bool:
        def create() -> bool:
            try:
                obstore.put(self._store, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

        return await self._in_thread(key, create)

    async def get(self, key: str, most: int = MAX_OBJECT_BYTES) -> bytes:
        return await self._in_thread(key, lambda: bytes(self._found(key, most).bytes()))

    def _found(self, key: str, most: int) -> Any:
        found = obstore.get(self._store, key)
        check_size(key, found.meta["size"], most)
        return found

    async def fetch(self, key: str, path: Path, most: int = MAX_FILE_BYTES) -> None:
        def copy() -> None:
            with path.open("wb") as file:
                for piece in self._found(key, most).stream():
                    file.write(piece)

        await self._in_thread(key, copy)

    async def keys(self, prefix: str) -> list[str]:
        def listed() -> list[str]:
            pages = obstore.list(self._store, prefix.rstrip("/") or None)
            return [found["path"] for page in pages for found in page]

        return await self._in_thread("all", listed)

    async def delete(self, key: str) -> None:
        def removed() -> None:
            with suppress(*MISSING):
                obstore.delete(self._store, key)

        await self._in_thread(key, removed)

    async def _in_thread(self, key: str, work: Callable[[], T]) -> T:
        if not KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a valid key of an object")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except MISSING as error:
            raise ObjectMissing(key) from error
        except BaseError as error:
            detail = str(error).partition("\n")[0][:MAX_ERROR]
            raise PlaceUnavailable(f"{self._title} {self._address}: {detail}") from error
