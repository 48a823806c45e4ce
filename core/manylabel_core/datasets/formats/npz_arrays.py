"""Arrays of an untrusted ``.npz`` file, read sequentially, without pickle.

`np.load(allow_pickle=False)` allocates the size that a header claims, and ignores further items after an array.
"""

from __future__ import annotations

import io
import os
import re
import struct
import sys
import warnings
import zipfile
import zlib
from math import prod
from tokenize import TokenError
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from manylabel_core.datasets.formats.text import check_names
from manylabel_core.datasets.limits import BadDataset, shown

MAX_DIRECTORY_BYTES = 2**20
"""Maximum bytes of the list of members, which is read as a whole first."""

MAX_HEADER_BYTES = 10_000
"""Maximum bytes of the header of an array; NumPy would read as many as the file claims."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, struct.error)
_TYPE = re.compile(r"[<>|=]?[fiubU][0-9]{1,10}")
_END, _LOCATOR, _END_BYTES = b"PK\x05\x06", b"PK\x06\x07", 22


class Archive:
    """Members of an ``.npz`` file, a binary stream that can seek; it is not closed.

    Raises BadDataset for anything but a zip archive with the members, compression and encryption that NumPy writes.
    """

    def __init__(self, file: IO[bytes]) -> None:
        _check_directory(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except (*_DAMAGE, ValueError) as error:
            raise BadDataset(f"not an .npz file (no zip archive: {_said(error)})") from None
        members = self._zip.infolist()
        self._members = {info.filename: info for info in members}
        if len(self._members) < len(members):
            raise BadDataset("an array is in the file twice")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return f"{name}.npy" in self._members

    def open(self, name: str, dimensions: int) -> Array:
        """Return the array with this name, which must have the expected number of dimensions."""
        info = self._members.get(f"{name}.npy")
        if info is None:
            raise BadDataset(f"array {name!r} is missing")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise BadDataset("it is encrypted, or compressed by a method that NumPy does not use", member=name)
        try:
            file = self._zip.open(info)
        except (*_DAMAGE, RuntimeError, ValueError) as error:
            raise BadDataset(f"{name!r} is damaged: {_said(error)}") from None
        try:
            return Array(name, file, dimensions)
        except BaseException:
            file.close()
            raise

    def shape(self, name: str, parts: tuple[str, ...]) -> tuple[int, int]:
        """Return the shape of a dense array, or of the CSR matrix in `parts`."""
        if name in self:
            with self.open(name, 2) as array:
                return array.shape[0], array.shape[1]
        absent = [f"{name}_{part}" for part in parts if f"{name}_{part}" not in self]
        if absent:
            raise BadDataset(f"neither {name!r} nor {', '.join(map(repr, absent))} is there")
        with self.open(f"{name}_shape", 1) as array:
            shape = array.read(min(array.shape[0], 3)).tolist()
        if len(shape) != 2 or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise BadDataset(f"{name}_shape must be two sizes, not {shape}")
        return shape[0], shape[1]


class Array:
    """Sequential reader of one array of the archive: its header, then its items."""

    def __init__(self, name: str, file: IO[bytes], dimensions: int) -> None:
        self._name, self._file = name, file
        self.shape, self.by_columns, type_name = self._header()
        if not _TYPE.fullmatch(type_name):
            kind = "object" if "O" in type_name else shown(type_name)
            raise BadDataset(f"{name!r} must hold numbers or strings, not {kind}")
        self.dtype = np.dtype(type_name)
        if not self.dtype.itemsize:
            raise BadDataset(f"{name!r} must hold numbers or strings, not items of 0 bytes")
        if len(self.shape) != dimensions:
            raise BadDataset(f"{name!r} must have {dimensions} dimension(s), not {len(self.shape)}")

    @property
    def nbytes(self) -> int:
        """Return the bytes of all items according to the header; there may be fewer."""
        return prod(self.shape) * self.dtype.itemsize

    def _header(self) -> tuple[tuple[int, ...], bool, str]:
        try:
            return _read_header(self._file)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, TokenError, *_DAMAGE) as error:
            raise BadDataset(f"{self._name!r} is not a NumPy array: {_said(error)}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, count: int) -> NDArray[Any]:
        """Return the next `count` items."""
        size = count * self.dtype.itemsize
        try:
            data = self._file.read(size) if size else b""
        except _DAMAGE as error:
            raise BadDataset(f"{self._name!r} is damaged: {_said(error)}") from None
        if len(data) != size:
            raise BadDataset(f"{self._name!r} ends too early")
        return np.frombuffer(data, self.dtype)

    def whole(self, most_bytes: int) -> NDArray[Any]:
        """Return all items in the shape of the array."""
        if self.nbytes > most_bytes:
            raise BadDataset(f"{self._name!r} has {self.nbytes:,} bytes; at most {most_bytes:,} are allowed")
        items = self.read(prod(self.shape))
        self._check_end()
        return items.reshape(self.shape, order="F" if self.by_columns else "C")

    def _check_end(self) -> None:
        """Read to the end of the member, where zipfile compares its checksum."""
        try:
            more = self._file.read(1)
        except _DAMAGE as error:
            raise BadDataset(f"{self._name!r} is damaged: {_said(error)}") from None
        if more:
            raise BadDataset(f"{self._name!r} has more items than its header states")


def read_names(archive: Archive, name: str, count: int, what: str, most_bytes: int) -> tuple[str, ...] | None:
    """Return the names in an array of this length; None without the array."""
    if name not in archive:
        return None
    with archive.open(name, 1) as array:
        if array.dtype.kind != "U" or array.shape != (count,):
            raise BadDataset(f"{name!r} must be {count} strings")
        raw = array.whole(most_bytes)
    if raw.nbytes and raw.view(f"{raw.dtype.byteorder}u4").max() > sys.maxunicode:
        raise BadDataset(f"{name!r} must be {count} strings, but one is not valid Unicode")
    return check_names(raw.tolist(), what)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, str]:
    """Read the shape, the storage order (True for columns first) and the type.

    NumPy's reader would first read as many bytes as the header claims, and accepts sizes below 0.
    """
    version = npy.read_magic(io.BytesIO(file.read(npy.MAGIC_LEN)))
    length = file.read(2 if version == (1, 0) else 4)
    n_bytes = int.from_bytes(length, "little")
    if n_bytes > MAX_HEADER_BYTES:
        raise ValueError(f"its header has {n_bytes:,} bytes; at most {MAX_HEADER_BYTES:,} are allowed")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about escapes in strings, and about headers of Python 2
        shape, by_columns, dtype = read(io.BytesIO(length + file.read(n_bytes)), max_header_size=MAX_HEADER_BYTES)
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("its shape is not a tuple of sizes")
    return shape, by_columns, dtype.str


def _check_directory(file: IO[bytes]) -> None:
    """Reject a list of members that is too large to read into memory."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 2**16 - _END_BYTES))
    tail = file.read(2**16 + _END_BYTES)
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + _END_BYTES:
        raise BadDataset("not an .npz file (no zip archive)")
    directory_bytes = int.from_bytes(tail[at + 12 : at + 16], "little")
    if tail[max(0, at - 20) : at].startswith(_LOCATOR) or directory_bytes > MAX_DIRECTORY_BYTES:
        raise BadDataset(f"its list of arrays is larger than {MAX_DIRECTORY_BYTES:,} bytes")
    file.seek(0)


def _said(error: BaseException) -> str:
    """Return the message of an error, shortened because it may contain a long quotation of the file."""
    return str(error)[:100]
