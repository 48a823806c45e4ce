"""Body of an upload: a file in chunks, which can be resent."""

import io
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

from manylabel_clients.http.responses import EXTENSIONS
from manylabel_clients.http.transport.exchange import Pieces

Source: TypeAlias = str | Path | bytes | IO[bytes]
"""Path of a file, bytes, or a binary file, which is read from its current position."""

ReportBytes: TypeAlias = Callable[[int], object]
"""Callback with the number of bytes of a body sent so far."""

PIECE_BYTES = 2**18


class Body(NamedTuple):
    """Body that is sent in chunks, more than once if necessary."""

    pieces: Pieces
    size_bytes: int | None
    """Size in bytes; None if unknown before the body is sent."""
    is_repeatable: bool
    """Whether the body can be sent again; otherwise a retry is impossible."""

    @property
    def headers(self) -> dict[str, str]:
        """Header with the length, if known."""
        return {} if self.size_bytes is None else {"Content-Length": str(self.size_bytes)}

    def checksum(self) -> str:
        """Return the checksum of all bytes in the server's format."""
        digest = sha256()
        for piece in self.pieces():
            digest.update(piece)
        return f"sha256:{digest.hexdigest()}"


def format_of(source: Source) -> str:
    """Return the format of a file by the ending of its name, without .gz; raise ValueError if it is unknown."""
    name = str(source) if isinstance(source, (str, Path)) else getattr(source, "name", "")
    suffix = extension_of(name) if isinstance(name, str) else ""
    if suffix not in EXTENSIONS:
        raise ValueError(f"pass a format, because the name has none of the endings {', '.join(EXTENSIONS)}")
    return EXTENSIONS[suffix]


def extension_of(name: str | PathLike[str]) -> str:
    """Return the file extension of the format: ``.csv`` for ``rows.csv.gz``."""
    path = Path(name)
    return (Path(path.stem) if path.suffix.lower() == ".gz" else path).suffix.lower()


def body_of(source: Source) -> Body:
    """Return a body with the bytes of a source; raise OSError if the file cannot be read, and TypeError if it is open
    in text mode."""
    if isinstance(source, (str, Path)):
        path = Path(source)
        return Body(lambda: _of_path(path), path.stat().st_size, True)
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        return Body(lambda: _of_file(io.BytesIO(data)), len(data), True)
    if isinstance(source, io.TextIOBase) or not hasattr(source, "read"):
        kind = type(source).__name__
        raise TypeError(f"source must be a file name, bytes or a file opened in binary mode, not {kind}")
    return _of_stream(source)


def multipart(parts: Mapping[str, Body]) -> tuple[Body, str]:
    """Return a body of parts with these names, in this order, and its content type."""
    boundary = uuid.uuid4().hex
    heads = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'.encode()
        for name in parts
    ]
    end, last = b"\r\n", f"--{boundary}--\r\n".encode()

    def pieces() -> Iterator[bytes]:
        for head, part in zip(heads, parts.values(), strict=True):
            yield head
            yield from part.pieces()
            yield end
        yield last

    sizes = [part.size_bytes for part in parts.values()]
    around = sum(len(head) + len(end) for head in heads) + len(last)
    size = None if None in sizes else around + sum(size or 0 for size in sizes)
    whole = Body(pieces, size, all(part.is_repeatable for part in parts.values()))
    return whole, f"multipart/form-data; boundary={boundary}"


def reported(body: Body, report: ReportBytes | None) -> Body:
    """Return a body that reports the number of bytes sent."""
    if report is None:
        return body

    def pieces() -> Iterator[bytes]:
        done = 0
        for piece in body.pieces():
            yield piece
            done += len(piece)
            report(done)

    return body._replace(pieces=pieces)


def _of_path(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from _of_file(file)


def _of_file(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def _of_stream(file: IO[bytes]) -> Body:
    if not (hasattr(file, "seekable") and file.seekable()):
        return Body(lambda: _of_file(file), None, False)
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start

    def pieces() -> Iterator[bytes]:
        file.seek(start)
        yield from _of_file(file)

    return Body(pieces, size, True)
