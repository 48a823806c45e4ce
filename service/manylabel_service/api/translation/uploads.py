"""Uploads, which are written to unnamed files in the data directory; at most a megabyte of each is in memory."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from manylabel_core.datasets.formats.mulan import MAX_XML_BYTES
from manylabel_core.datasets.label_details import MAX_DETAILS_BYTES
from manylabel_service.api.web.bodies import check_coding, check_headers, in_time, length_of, too_large
from manylabel_service.api.web.problems import Problem
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.datasets.upload_slots import Upload
from manylabel_service.errors import DISK_FULL, NotReady, StorageFull
from manylabel_service.settings import Settings
from manylabel_service.storage import open_in_thread


def boundary_of(content_type: str) -> bytes:
    """Return the boundary of a Content-Type. Raises a Problem unsupported_media_type."""
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"") if content_type.isascii() else b""
    if 1 <= len(boundary) <= 70 and boundary.decode().isprintable():
        return boundary
    raise Problem("unsupported_media_type", "multipart/form-data must name a boundary of 1 to 70 ASCII characters")


class Multipart:
    """Parser of a body whose parts have known names, each at most once. `seen` has the names of the parts so far."""

    def __init__(self, boundary: bytes, names: Collection[str]) -> None:
        self._names = names
        self._found: list[tuple[str, bytes]] = []
        self._header = self._value = self._disposition = b""
        self.seen: list[str] = []
        self.ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._add_header,
                "on_header_value": self._add_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._name_part,
                "on_part_data": self._add_data,
                "on_end": self._end,
            },
        )

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Parse the next bytes of the body, and return the data of each part. Raises a Problem invalid_request."""
        self._found = []
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _wrong(str(error)) from error
        return self._found

    def _begin_part(self) -> None:
        self._disposition = b""

    def _add_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _name_part(self) -> None:
        name = parse_options_header(self._disposition)[1].get(b"name", b"").decode("utf-8", "replace")
        if name not in self._names:
            raise _wrong(f"the parts are {' and '.join(self._names)}, not {name[:100]!r}")
        if name in self.seen:
            raise _wrong(f"the part {name} is repeated")
        self.seen.append(name)

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        self._found.append((self.seen[-1], data[start:end]))

    def _end(self) -> None:
        self.ended = True


def _wrong(detail: str) -> Problem:
    return Problem("invalid_request", f"the body is not multipart/form-data as expected: {detail}")


UPLOAD_SECONDS = 3_600.0
"""Maximum seconds of an upload."""

PORTION_BYTES = 2**20
"""Bytes written to the disk at a time, in a thread."""

PLAIN = (
    "application/octet-stream",
    "text/plain",
    "text/csv",
    "text/tab-separated-values",
    "application/x-ndjson",
    "application/gzip",
)
MULTIPART = "multipart/form-data"
FILE, LABELS, DETAILS = "file", "labels", "label_details"


@dataclass
class Part:
    """File with a part of a body. It grows in large chunks up to `max_bytes`, the value of `setting`, if any."""

    name: str
    file: IO[bytes]
    max_bytes: int
    setting: str | None
    size: int = 0
    waiting: bytearray = field(default_factory=bytearray)

    async def write(self, data: bytes) -> None:
        """Write received bytes; raises a Problem body_too_large, or StorageFull."""
        self.size += len(data)
        if self.size > self.max_bytes:
            raise too_large(self.max_bytes, self.setting, "file" if self.name == FILE else f"part {self.name}")
        self.waiting += data
        if len(self.waiting) >= PORTION_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Write the buffered bytes; raise StorageFull."""
        portion, self.waiting = bytes(self.waiting), bytearray()
        with full_disk():
            await asyncio.to_thread(self._write, portion)

    def _write(self, portion: bytes) -> None:
        self.file.write(portion)
        self.file.flush()


async def receive(
    request: Request, datasets: DatasetStore, settings: Settings, stack: ExitStack
) -> dict[str, IO[bytes]]:
    """Return the file of an upload, with the labels and label details if present, as files that `stack` closes.
    Raises NotReady, a Problem, StorageFull or ClientDisconnect.

    Until they are closed, they count against the quota of uploads; an idle upload can be displaced by others.
    """
    content_type = request.headers.get("content-type", "")
    essence = content_type.partition(";")[0].strip().lower()
    _check_headers(request, essence, settings.max_dataset_bytes)
    max_bytes = {FILE: settings.max_dataset_bytes, LABELS: MAX_XML_BYTES, DETAILS: MAX_DETAILS_BYTES}
    names = list(max_bytes) if essence == MULTIPART else [FILE]
    multipart = Multipart(boundary_of(content_type), names) if essence == MULTIPART else None
    limits = {name: max_bytes[name] for name in names}
    idle_seconds = settings.limits.idle_timeout_seconds
    parts = await _receive(request, limits, "max_dataset_bytes", multipart, idle_seconds, datasets, stack)
    seen = names if multipart is None else _complete(multipart)
    return {name: parts[name].file for name in seen}


async def receive_file(
    request: Request,
    media_type: bytes,
    max_bytes: int,
    setting: str,
    idle_seconds: float,
    datasets: DatasetStore,
    stack: ExitStack,
) -> tuple[IO[bytes], int]:
    """Return a body of the given type as a file, which `stack` closes, and its size in bytes. `setting` has the limit.

    Until it is closed, it counts against the quota of uploads; an idle upload can be displaced by others.
    """
    check_headers(request, media_type, max_bytes, setting)
    part = (await _receive(request, {FILE: max_bytes}, setting, None, idle_seconds, datasets, stack))[FILE]
    return part.file, part.size


async def _receive(
    request: Request,
    limits: Mapping[str, int],
    setting: str,
    multipart: Multipart | None,
    idle_seconds: float,
    datasets: DatasetStore,
    stack: ExitStack,
) -> dict[str, Part]:
    """Write the parts of a body, or the whole body, to files of at most these bytes; `setting` limits the file."""
    upload = stack.enter_context(datasets.uploads.upload())
    parts = {
        name: Part(name, await scratch_file(datasets, stack), most, setting if name == FILE else None)
        for name, most in limits.items()
    }
    async with giving_way(upload, UPLOAD_SECONDS):
        async for chunk in chunks(request, idle_seconds):
            datasets.uploads.add(upload, len(chunk))
            for name, data in [(FILE, chunk)] if multipart is None else multipart.feed(chunk):
                await parts[name].write(data)
        for part in parts.values():
            await part.flush()
    return parts


@asynccontextmanager
async def giving_way(upload: Upload, seconds: float) -> AsyncIterator[None]:
    """Receive an upload in the context; while it stalls, other uploads may displace it. Raises NotReady or a Problem
    stream_idle."""
    try:
        async with asyncio.timeout(seconds) as timeout:
            upload.release = partial(timeout.reschedule, 0.0)
            yield
    except TimeoutError:
        if upload.gave_way:
            raise NotReady("the upload was aborted, because it was idle and another upload needed its slot") from None
        raise Problem("stream_idle", f"the upload took longer than the limit of {seconds:g} s") from None
    finally:
        upload.release = None


def _complete(multipart: Multipart) -> list[str]:
    if not multipart.ended or FILE not in multipart.seen:
        missing = "the part file" if FILE not in multipart.seen else "its last boundary"
        raise Problem("invalid_request", f"the body is not multipart/form-data as expected: {missing} is missing")
    return multipart.seen


def _check_headers(request: Request, essence: str, max_bytes: int) -> None:
    check_coding(request.headers.get("content-encoding", "").encode("latin-1"))
    if essence not in (*PLAIN, MULTIPART):
        allowed = ", ".join((*PLAIN, MULTIPART))
        sent = f"not {essence[:100]!r}" if essence else "which is missing"
        raise Problem("unsupported_media_type", f"the Content-Type must be one of {allowed}, {sent}")
    around = MAX_XML_BYTES + MAX_DETAILS_BYTES if essence == MULTIPART else 0
    if length_of(request.headers.get("content-length", "0").encode("latin-1")) > max_bytes + around:
        raise too_large(max_bytes, "max_dataset_bytes")


async def chunks(request: Request, idle_seconds: float) -> AsyncIterator[bytes]:
    """Yield the chunks of a body; raise a Problem stream_idle, or ClientDisconnect."""
    take = in_time(request.receive, idle_seconds)
    more = True
    while more:
        message = await take()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        more = message.get("more_body", False)
        if chunk := message.get("body", b""):
            yield chunk


async def scratch_file(datasets: DatasetStore, stack: ExitStack) -> IO[bytes]:
    """Return a new file, which `stack` closes; raise StorageFull."""
    with full_disk():
        return stack.enter_context(await open_in_thread(datasets.scratch_file))


@contextmanager
def full_disk() -> Iterator[None]:
    """Raise StorageFull if a file cannot be written in the context because the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            text = f"the disk of the data directory is full ({error}); free space on it"
            raise StorageFull(text) from error
        raise
