"""Sources of bytes, gzip or not, read as numbered lines of text of bounded length."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import PathLike
from typing import IO, Protocol

from manylabel_core.datasets.limits import MAX_NAME_BYTES, BadDataset, shown

Source = str | PathLike[str] | IO[bytes]
"""A path, or a binary stream at its current position."""

MAX_LINE_BYTES = 16 * 2**20
"""Maximum length of a line, so that a file without line ends does not fill the memory."""


def opened(source: Source) -> AbstractContextManager[IO[bytes]]:
    """Open a source of bytes; a file opened here is closed afterwards."""
    return open(source, "rb") if isinstance(source, (str, PathLike)) else nullcontext(source)


_GZIP = b"\x1f\x8b"
_SHEET = "save it as CSV UTF-8 first"
_OTHERS = {
    b"PK\x03\x04": f"this is a ZIP archive or an Excel workbook, not text: unpack it, or {_SHEET}",
    b"\xd0\xcf\x11\xe0": f"this is an old Excel workbook, not text: {_SHEET}",
    b"PAR1": "this is a Parquet file, not text: save it as CSV first, for example with to_csv(index=False) of pandas",
    b"ARROW1": "this is an Arrow file, not text: save it as CSV first, for example with to_csv(index=False) of pandas",
    b"BZh": "this is a bzip2 file: unpack it, or compress it with gzip",
    b"\xfd7zXZ": "this is an xz file: unpack it, or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "this is a Zstandard file: unpack it, or compress it with gzip",
    b"7z\xbc\xaf": "this is a 7-Zip archive: unpack it, or compress the file with gzip",
    b"\x89HDF": "this is an HDF5 file, not text: save it as CSV first",
    b"SQLite format 3": "this is an SQLite database, not text: export a table as CSV first",
    b"%PDF": "this is a PDF, not text",
    b"\x93NUMPY": "this is a NumPy array: save X and Y to one .npz file",
    b"RDX": "this is a file of R: save it with write.csv(d, row.names = FALSE) first",
}
"""Other kinds of files by their first bytes, with the advice for each."""

ENCODINGS = (
    *("utf-8", "utf-16", "latin-1", "iso-8859-2", "iso-8859-15", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254"),
    *("big5", "euc-kr", "gb18030", "shift_jis"),
)
"""Encodings that an option can state."""

_UTF16 = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_PEEKED_BYTES = 2**16


class Lines(Protocol):
    """Iterator over the lines of a file, as bytes."""

    def readline(self, size: int, /) -> bytes: ...


@contextmanager
def opened_text(source: Source, max_bytes: int = 2**62, encoding: str | None = None) -> Iterator[Lines]:
    """Return the lines of a source in UTF-8, decompressed if its first two bytes are those of gzip.

    Other encodings of `ENCODINGS` are converted, also UTF-16 with its mark, which Excel writes, and lines that end in a
    carriage return. A mark of UTF-8 or UTF-16 takes precedence over `encoding`. Raises BadDataset for a file of another
    kind by its first bytes, such as a ZIP archive.
    """
    with opened(source) as file:
        lines: Lines = file
        if file.seekable():
            start = file.tell()
            peeked = file.read(_PEEKED_BYTES)
            file.seek(start)
            if peeked[:2] == _GZIP:
                lines = _Unpacked(file, max_bytes)
                peeked = lines.peek(_PEEKED_BYTES)
            lines = _recoded(lines, peeked, encoding)
        yield lines


def _recoded(lines: Lines, begin: bytes, encoding: str | None) -> Lines:
    """Return the lines in UTF-8 with line feeds, given the first bytes of the file."""
    if any(byte < 9 or 13 < byte < 32 or byte > 126 for byte in begin[:64]):
        for magic, refusal in _OTHERS.items():
            if begin.startswith(magic):
                raise BadDataset(refusal)
    if begin[:2] in _UTF16:
        return _Recoded(lines, "utf-16")
    if encoding is not None and encoding != "utf-8" and not begin.startswith(codecs.BOM_UTF8):
        if encoding == "utf-16":  # without its mark
            encoding = "utf-16-be" if begin[:1] == b"\x00" else "utf-16-le"
        return _Recoded(lines, encoding)
    if b"\r" in begin and b"\n" not in begin:
        return _Recoded(lines, "utf-8")
    return lines


class _Unpacked:
    """Lines of a gzip file, with at most one in memory, and a limit of the decompressed bytes."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self._file = gzip.GzipFile(fileobj=file, mode="rb")
        self._left = self._max_bytes = max_bytes

    def peek(self, size: int) -> bytes:
        """Return the first bytes without consuming them."""
        with _unpacking():
            return self._file.peek(size)[:size]

    def readline(self, size: int, /) -> bytes:
        with _unpacking():
            line = self._file.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise BadDataset(f"the file exceeds the limit of {self._max_bytes:,} bytes after decompression")
        return line


@contextmanager
def _unpacking() -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadDataset(f"the gzip file is invalid or incomplete: {error}") from None


class _Recoded:
    """Lines converted to UTF-8 with line feeds."""

    def __init__(self, lines: Lines, encoding: str) -> None:
        self._encoding = encoding
        self._lines = lines
        decoder = codecs.getincrementaldecoder(encoding)()
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
        self._buffer = bytearray()
        self._has_ended = False

    def readline(self, size: int, /) -> bytes:
        end, seen = -1, 0
        while (end := self._buffer.find(b"\n", seen)) < 0 and len(self._buffer) < size and not self._has_ended:
            seen = len(self._buffer)
            self._fill()
        end = min(size, end + 1 if end >= 0 else len(self._buffer))
        line = bytes(self._buffer[:end])
        del self._buffer[:end]
        return line

    def _fill(self) -> None:
        raw = self._lines.readline(_PEEKED_BYTES)
        self._has_ended = not raw
        try:
            self._buffer += self._decoder.decode(raw, final=not raw).encode()
        except UnicodeError as error:
            detail = f"not {self._encoding.upper()}: {error}; state its encoding, or convert the file to UTF-8"
            raise BadDataset(detail) from None


def numbered_lines(file: Lines) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its line end) of a UTF-8 file."""
    number = 0
    while raw := file.readline(MAX_LINE_BYTES):
        number += 1
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raise BadDataset(f"the line has more than {MAX_LINE_BYTES} bytes", line=number)
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            cure = (
                "state its encoding, such as cp1252, or convert the file to UTF-8: in Excel, save it as CSV UTF-8; "
                "elsewhere, iconv -f WINDOWS-1252 -t UTF-8"
            )
            detail = f"not UTF-8 (byte {error.start + 1} of the line); {cure}"
            raise BadDataset(detail, line=number) from None
        if number == 1 and "\x00" in text:
            detail = "has a NUL byte, which no text has: is it UTF-16 without its mark? State the encoding"
            raise BadDataset(detail, line=number)
        # A file that was joined from others may contain the mark of UTF-8 in the middle.
        yield number, text.removeprefix("\ufeff").rstrip("\r\n")


def check_names(names: list[str] | tuple[str, ...], what: str, line: int | None = None) -> tuple[str, ...]:
    """Return the names as a tuple; raises BadDataset for duplicates, which would silently merge columns."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadDataset(f"two {what} are called {shown(name)}: rename one", line=line)
        check_name(name, what, line)
        seen.add(name)
    return tuple(names)


def check_name(name: str, what: str, line: int | None = None) -> None:
    """Raise BadDataset unless a name has 1 to `MAX_NAME_BYTES` bytes; `what` is the kind of name."""
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise BadDataset(f"a name of {what} is not Unicode: {shown(name)}", line=line) from None
    if not 1 <= size_bytes <= MAX_NAME_BYTES:
        raise BadDataset(f"names of {what} have 1 to {MAX_NAME_BYTES} bytes, not {shown(name)}", line=line)
