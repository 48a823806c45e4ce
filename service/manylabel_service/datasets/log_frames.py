"""File of alternating snapshots and log entries."""

import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

BASE, SNAPSHOT, ENTRY = 0, 1, 2
"""A snapshot that a log starts from, a snapshot that a rollback returns to, or an entry."""

_HEAD = struct.Struct(">BIQ")  # kind, bytes of the position, bytes of the payload


class Frame(NamedTuple):
    """Location of a frame in the file."""

    kind: int
    position: str
    offset: int
    size: int


def write_frame(file: IO[bytes], kind: int, position: str, payload: bytes | memoryview) -> None:
    """Add a snapshot or an entry at the end."""
    write_head(file, kind, position, len(payload))
    file.write(payload)


def write_head(file: IO[bytes], kind: int, position: str, size: int) -> None:
    """Add the head of a frame; `size` bytes follow it."""
    name = position.encode()
    file.write(_HEAD.pack(kind, len(name), size) + name)


def read_frames(file: IO[bytes]) -> Iterator[Frame]:
    """Yield all frames in order; the file may be read elsewhere between two frames."""
    at = 0
    while True:
        file.seek(at)
        head = file.read(_HEAD.size)
        if not head:
            return
        kind, name_bytes, size = _HEAD.unpack(head)
        position = file.read(name_bytes).decode()
        at += _HEAD.size + name_bytes
        yield Frame(kind, position, at, size)
        at += size


def payload_of(file: IO[bytes], frame: Frame) -> bytes:
    """Return the content of a frame."""
    file.seek(frame.offset)
    return file.read(frame.size)
