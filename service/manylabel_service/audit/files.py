"""Files of an audit log: the current one, and the full ones, numbered in order.

Several processes may write to one log. Each holds a lock while it appends lines or rotates, so lines stay whole; a line
truncated by a full disk is removed. A reader holds the lock only while it opens the files.
"""

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

BLOCK_BYTES = 1 << 18
"""Bytes read at a time."""

Keep = Callable[[dict[str, Any]], bool]


class Cursor(NamedTuple):
    """Cursor between two lines: file number and offset."""

    number: int
    offset: int

    def __str__(self) -> str:
        return f"{self.number}-{self.offset}"


CURSOR = r"^[0-9]{1,15}-[0-9]{1,15}$"
"""Pattern of a cursor."""


def read_cursor(text: str) -> Cursor:
    """Return a cursor from its text; raise ValueError for other text."""
    if not re.fullmatch(CURSOR, text):
        raise ValueError(f"a cursor is two numbers joined by '-', not {text!r}")
    number, offset = map(int, text.split("-"))
    return Cursor(number, offset)


class Page(NamedTuple):
    """Page of lines with the cursors of the adjacent pages.

    `before` is the cursor of older lines, or None; `after` that of later lines.
    """

    lines: list[dict[str, Any]]
    before: Cursor | None
    after: Cursor


class AuditFiles:
    """Audit files, which are appended to, rotated, and read from either end. All methods block.

    Parameters
    ----------
    path : current file; full files are renamed with the suffixes ``.1``, ``.2`` and so on.
    max_bytes : maximum bytes of a file before it is rotated.
    kept : number of the newest full files to retain.
    """

    def __init__(self, path: Path, max_bytes: int, kept: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._kept = kept

    def append(self, text: bytes) -> None:
        """Append lines, all or none; raises OSError."""
        with self._locked(fcntl.LOCK_EX):
            if (size := _size(self.path)) and size + len(text) > self._max_bytes:
                self._rotate()
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                try:
                    _write_all(descriptor, text)
                except OSError:
                    os.ftruncate(descriptor, size)
                    raise
            finally:
                os.close(descriptor)

    def read_back(self, before: Cursor | None, keep: Keep, limit: int, max_bytes: int) -> Page:
        """Return the newest matching lines before a cursor, or before the end, newest first.

        The search ends after about `max_bytes`; the page may then have fewer lines than match.
        """
        with self._opened() as files:
            sizes = {number: os.fstat(descriptor).st_size for number, descriptor in files.items()}
            newest = max(sizes, default=1)
            end = Cursor(newest, sizes.get(newest, 0))
            at = min(before or end, end)
            lines: list[dict[str, Any]] = []
            looked_at = 0
            for number in sorted((each for each in files if each <= at.number), reverse=True):
                at = Cursor(number, min(at.offset, sizes[number]) if number == at.number else sizes[number])
                for start, raw in _back(files[number], at.offset):
                    if len(lines) >= limit or looked_at >= max_bytes:
                        return Page(lines, at, end)
                    at = Cursor(number, start)
                    looked_at += len(raw)
                    if (line := _parsed(raw)) is not None and keep(line):
                        lines.append(line)
            return Page(lines, None, end)

    def read_on(self, after: Cursor, keep: Keep, limit: int, max_bytes: int) -> Page:
        """Return the matching lines after a cursor, oldest first, within the limits of `read_back`.

        A cursor into a deleted file means the oldest line.
        """
        with self._opened() as files:
            lines: list[dict[str, Any]] = []
            looked_at, at = 0, after
            for number in sorted(each for each in files if each >= after.number):
                at = Cursor(number, after.offset if number == after.number else 0)
                for end, raw in _on(files[number], at.offset):
                    if len(lines) >= limit or looked_at >= max_bytes:
                        return Page(lines, None, at)
                    at = Cursor(number, end)
                    looked_at += len(raw)
                    if (line := _parsed(raw)) is not None and keep(line):
                        lines.append(line)
            return Page(lines, None, at)

    def _rotate(self) -> None:
        numbers = self._full()
        os.rename(self.path, self._numbered(max(numbers, default=0) + 1))
        for number in numbers[: max(0, len(numbers) + 1 - self._kept)]:
            self._numbered(number).unlink(missing_ok=True)

    def _full(self) -> list[int]:
        """Return the numbers of the full files, the oldest first."""
        beginning = f"{self.path.name}."
        ends = (each.name.removeprefix(beginning) for each in self.path.parent.glob(f"{self.path.name}.*"))
        return sorted(int(end) for end in ends if re.fullmatch("[0-9]{1,15}", end))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    @contextmanager
    def _opened(self) -> Iterator[dict[int, int]]:
        """Open all files for reading, by number; the current file has the highest number."""
        with ExitStack() as stack:
            files = {}
            with self._locked(fcntl.LOCK_SH):
                full = self._full()
                named = [(number, self._numbered(number)) for number in full]
                for number, path in [*named, (max(full, default=0) + 1, self.path)]:
                    if path.exists():
                        files[number] = os.open(path, os.O_RDONLY)
                        stack.callback(os.close, files[number])
            yield files

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _write_all(descriptor: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _back(descriptor: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines before an offset with their offsets, the last line first."""
    rest, at = b"", end
    while at > 0:
        size = min(BLOCK_BYTES, at)
        at -= size
        first, *others = (os.pread(descriptor, size, at) + rest).split(b"\n")
        lines, start = [], at + len(first) + 1
        for line in others:
            lines.append((start, line))
            start += len(line) + 1
        yield from ((start, line) for start, line in reversed(lines) if line)
        rest = first + b"\n"
    if rest.strip():
        yield 0, rest[:-1]


def _on(descriptor: int, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines from an offset on, each with the offset of its end."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(start)
        for line in file:
            start += len(line)
            yield start, line


def _parsed(raw: bytes) -> dict[str, Any] | None:
    """Return a parsed line; None if it is not JSON, for example from another program."""
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
