"""Arrays of an untrusted ``.npz`` file, without pickle.

NumPy allocates the size that a header claims, and ignores items after the end of an array. Therefore the header is
checked before NumPy reads an array, and the end afterwards.
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
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from manylabel_core.datasets.formats.text import check_names
from manylabel_core.datasets.limits import BadDataset, shown

MAX_DIRECTORY_BYTES = 2**20
"""Maximum bytes of the list of members, all of which is read first."""

MAX_HEADER_BYTES = 10_000
"""Maximum bytes of the header of an array; NumPy would read as many as the file claims."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, struct.error)
_TYPE = re.compile(r"[<>|=]?[fiubU][0-9]{1,10}")
_END, _LOCATOR, _END_BYTES = b"PK\x05\x06", b"PK\x06\x07", 22


class Header(NamedTuple):
    """Shape and type that the header of an array states."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Return the bytes of all items according to the header; the file may contain fewer."""
        return prod(self.shape) * self.dtype.itemsize


class Archive:
    """Members of an ``.npz`` file, a binary stream that can seek; it is not closed.

    Raises BadDataset unless it is a zip archive with the members, compression and encryption that NumPy writes.
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

    def header(self, name: str, dimensions: int) -> Header:
        """Return the header of an array; raise BadDataset unless it states the expected number of dimensions."""
        with self._opened(name) as file:
            try:
                shape, type_name = _read_header(file)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, TokenError, *_DAMAGE) as error:
                raise BadDataset(f"{name!r} is not a NumPy array: {_said(error)}") from None
        if not _TYPE.fullmatch(type_name):
            kind = "object" if "O" in type_name else shown(type_name)
            raise BadDataset(f"{name!r} must contain numbers or strings, not {kind}")
        header = Header(shape, np.dtype(type_name))
        if not header.dtype.itemsize:
            raise BadDataset(f"{name!r} must contain numbers or strings, not items of 0 bytes")
        if len(shape) != dimensions:
            raise BadDataset(f"{name!r} must have {dimensions} dimension(s), not {len(shape)}")
        return header

    def array(self, name: str, dimensions: int, most_bytes: int) -> NDArray[Any]:
        """Return an array; raise BadDataset if its header states more bytes than the maximum."""
        header = self.header(name, dimensions)
        if header.nbytes > most_bytes:
            raise BadDataset(f"{name!r} has {header.nbytes:,} bytes; at most {most_bytes:,} are allowed")
        with self._opened(name) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                array: NDArray[Any] = npy.read_array(file, allow_pickle=False, max_header_size=MAX_HEADER_BYTES)
                more = file.read(1)  # zipfile compares the checksum at the end of a member
            except (ValueError, *_DAMAGE) as error:
                raise BadDataset(f"{name!r} is damaged: {_said(error)}") from None
        if more:
            raise BadDataset(f"{name!r} has more items than its header states")
        return array

    def _opened(self, name: str) -> IO[bytes]:
        info = self._members.get(f"{name}.npy")
        if info is None:
            raise BadDataset(f"the array {name!r} is missing")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise BadDataset("it is encrypted, or compressed by a method that NumPy does not use", member=name)
        try:
            return self._zip.open(info)
        except (*_DAMAGE, RuntimeError, ValueError) as error:
            raise BadDataset(f"{name!r} is damaged: {_said(error)}") from None

    def shape(self, name: str, parts: tuple[str, ...]) -> tuple[int, int]:
        """Return the shape of a dense array, or of the CSR matrix in `parts`."""
        if name in self:
            n_rows, n_columns = self.header(name, 2).shape
            return n_rows, n_columns
        absent = [f"{name}_{part}" for part in parts if f"{name}_{part}" not in self]
        if absent:
            raise BadDataset(f"the file has neither {name!r} nor {', '.join(map(repr, absent))}")
        stated = self.header(f"{name}_shape", 1)
        sizes = self.array(f"{name}_shape", 1, stated.nbytes).tolist() if stated.shape == (2,) else []
        if len(sizes) != 2 or not all(isinstance(size, int) and size >= 0 for size in sizes):
            raise BadDataset(f"{name}_shape must be two sizes, not {sizes or stated.shape}")
        return sizes[0], sizes[1]


def read_names(archive: Archive, name: str, count: int, what: str, most_bytes: int) -> tuple[str, ...] | None:
    """Return the names in an array of length `count`; None if the array is missing."""
    if name not in archive:
        return None
    header = archive.header(name, 1)
    if header.dtype.kind != "U" or header.shape != (count,):
        raise BadDataset(f"{name!r} must be {count} strings")
    raw = archive.array(name, 1, most_bytes)
    if raw.nbytes and raw.view(f"{raw.dtype.byteorder}u4").max() > sys.maxunicode:
        raise BadDataset(f"{name!r} must be {count} strings, but one is not valid Unicode")
    return check_names(raw.tolist(), what)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], str]:
    """Read the shape and the type.

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
        shape, _, dtype = read(io.BytesIO(length + file.read(n_bytes)), max_header_size=MAX_HEADER_BYTES)
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("its shape is not a tuple of sizes")
    return shape, dtype.str


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
