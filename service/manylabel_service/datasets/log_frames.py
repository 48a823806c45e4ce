"""File of alternating snapshots and log entries."""

import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

BASE, SNAPSHOT, ENTRY = 0, 1, 2
"""Kinds of frames: a snapshot from which a log starts, a snapshot to which a rollback returns, an entry."""

_HEAD = struct.Struct(">BIQQ")  # kind, bytes of the position, bytes of the payload, time


class Frame(NamedTuple):
    """Location of a frame in the file; `time_ms` is the time of an entry."""

    kind: int
    position: str
    offset: int
    size: int
    time_ms: int


def write_frame(file: IO[bytes], kind: int, position: str, payload: bytes | memoryview, time_ms: int = 0) -> None:
    """Add a snapshot, or an entry with its time, at the end."""
    write_head(file, kind, position, len(payload), time_ms)
    file.write(payload)


def write_head(file: IO[bytes], kind: int, position: str, size: int, time_ms: int = 0) -> None:
    """Add the header of a frame; `size` bytes follow it."""
    name = position.encode()
    file.write(_HEAD.pack(kind, len(name), size, time_ms) + name)


def read_frames(file: IO[bytes]) -> Iterator[Frame]:
    """Yield all frames in order; the caller may move the position of the file between two frames."""
    at = 0
    while True:
        file.seek(at)
        head = file.read(_HEAD.size)
        if not head:
            return
        kind, name_bytes, size, time_ms = _HEAD.unpack(head)
        position = file.read(name_bytes).decode()
        at += _HEAD.size + name_bytes
        yield Frame(kind, position, at, size, time_ms)
        at += size


def payload_of(file: IO[bytes], frame: Frame) -> bytes:
    """Return the content of a frame."""
    file.seek(frame.offset)
    return file.read(frame.size)
