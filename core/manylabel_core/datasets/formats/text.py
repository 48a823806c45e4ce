"""Sources of bytes, gzip or not, read as numbered lines of text of bounded length."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import PathLike
from typing import IO, Protocol

from manylabel_core.datasets.limits import MAX_NAME_BYTES, BadDataset

Source = str | PathLike[str] | IO[bytes]
"""A path, or a binary stream at its current position."""

MAX_LINE_BYTES = 16 * 2**20
"""Maximum length of a line, so that a file without line ends does not fill the memory."""


def opened(source: Source) -> AbstractContextManager[IO[bytes]]:
    """Open a source of bytes; a file opened here is closed afterwards."""
    return open(source, "rb") if isinstance(source, (str, PathLike)) else nullcontext(source)


_GZIP = b"\x1f\x8b"


class Lines(Protocol):
    """Iterator over the lines of a file, as bytes."""

    def readline(self, size: int, /) -> bytes: ...


@contextmanager
def opened_text(source: Source, max_bytes: int = 2**62) -> Iterator[Lines]:
    """Return the decompressed bytes of a source; gzip is recognised by its first two bytes."""
    with opened(source) as file:
        start = file.tell() if file.seekable() else None
        is_packed = start is not None and file.read(len(_GZIP)) == _GZIP
        if start is not None:
            file.seek(start)
        yield _Unpacked(file, max_bytes) if is_packed else file


class _Unpacked:
    """Lines of a gzip file: at most one is in memory, and the decompressed bytes are limited."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self._file = gzip.GzipFile(fileobj=file, mode="rb")
        self._left = self._max_bytes = max_bytes

    def readline(self, size: int, /) -> bytes:
        try:
            line = self._file.readline(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadDataset(f"invalid or incomplete gzip: {error}") from None
        self._left -= len(line)
        if self._left < 0:
            raise BadDataset(f"more than {self._max_bytes:,} bytes after decompression, the limit")
        return line


def numbered_lines(file: Lines) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its line end) of a UTF-8 file."""
    number = 0
    while raw := file.readline(MAX_LINE_BYTES):
        number += 1
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raise BadDataset(f"longer than {MAX_LINE_BYTES} bytes", line=number)
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            detail = f"not UTF-8 (byte {error.start + 1} of the line); convert the file to UTF-8"
            raise BadDataset(detail, line=number) from None
        yield number, text.rstrip("\r\n")


def check_names(names: list[str] | tuple[str, ...], what: str, line: int | None = None) -> tuple[str, ...]:
    """Return the names as a tuple; raises BadDataset for duplicates, which would silently merge columns."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadDataset(f"two {what} are called {shown(name)}", line=line)
        check_name(name, what, line)
        seen.add(name)
    return tuple(names)


def check_name(name: str, what: str, line: int | None = None) -> None:
    """Raise BadDataset unless a name has 1 to `MAX_NAME_BYTES` bytes; `what` is the kind of names."""
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise BadDataset(f"a name of {what} is not Unicode: {shown(name)}", line=line) from None
    if not 1 <= size_bytes <= MAX_NAME_BYTES:
        raise BadDataset(f"names of {what} have 1 to {MAX_NAME_BYTES} bytes, not {shown(name)}", line=line)


def shown(value: object) -> str:
    """Return a value from a file for a message: quoted, shortened to a line, in ASCII if it is not Unicode."""
    text = repr(value)
    text = text if text.isprintable() else ascii(value)
    return text if len(text) <= 80 else f"{text[:76]}...{text[-1]}"
