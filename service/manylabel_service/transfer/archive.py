"""An archive: plain files (JSON, safetensors) in a directory, or in one ZIP file without compression.

The manifest lists every other file with its size and its SHA-256. An archive exists from the moment all of it is
written; nothing of one is believed that does not match its manifest.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import zipfile
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

MANIFEST = "manifest.json"
FORMAT = "manylabel-archive"
VERSION = 1
"""Version of the archive: which files there are, and what stands in them."""

MAX_MANIFEST_BYTES = 2**26
_FILE = re.compile(r"(?:[a-z0-9][a-z0-9._-]*/)+[a-z0-9][a-z0-9._-]*")
"""Pattern of file names: below a folder, and never outside the archive."""


_UNREADABLE = (zipfile.BadZipFile, EOFError, ValueError, KeyError, FileNotFoundError, RuntimeError)
"""Raised by reading a file that is not there, or not whole; the last where zipfile does not know how it is written."""


class BadArchive(ValueError):
    """An archive cannot be read, or written."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"the archive {path}: {detail}")


def is_file(path: Path) -> bool:
    """Return whether an archive at this path is one file, by its name."""
    return path.suffix == ".zip"


class ArchiveWriter:
    """Writes an archive to a directory of its own beside its path, and moves it there in the end.

    Only the user of the process can read the archive.

    Parameters
    ----------
    path : its place; a name that ends with .zip is one file, any other a directory.
    overwrite : whether what is there may be replaced.
    """

    def __init__(self, path: Path, overwrite: bool) -> None:
        self._path = path
        if path.exists() and not overwrite:
            raise BadArchive(path, "it exists; choose another name, or say --overwrite")
        _check_replaceable(path)
        self._files: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        # A directory created by this run, with a unique name, on the same file system.
        self._directory = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        self._draft = self._directory / path.name
        self._zip = zipfile.ZipFile(self._draft, "x", zipfile.ZIP_STORED) if is_file(path) else None
        if self._zip is None:
            self._draft.mkdir()
        self._draft.chmod(0o700 if self._zip is None else 0o600)

    def add(self, name: str, data: bytes | memoryview) -> None:
        """Write a file; raise OSError."""
        self._files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        self._write(name, data)

    def finish(self, contents: dict[str, Any]) -> None:
        """Write the manifest with these contents, and put the archive in its place; raise OSError."""
        manifest = {"format": FORMAT, "version": VERSION, **contents, "files": self._files}
        self._write(MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False).encode())
        if self._zip is not None:
            self._zip.close()
            with self._draft.open("rb") as file:
                os.fsync(file.fileno())
        _check_replaceable(self._path)
        replaced = self._directory / "replaced"
        if self._path.is_dir():
            self._path.rename(replaced)
        try:
            self._draft.replace(self._path)
        except BaseException:
            if replaced.exists():
                replaced.rename(self._path)
            raise
        shutil.rmtree(self._directory)

    def give_up(self) -> None:
        """Remove what was written."""
        if self._zip is not None:
            self._zip.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _write(self, name: str, data: bytes | memoryview) -> None:
        if self._zip is not None:
            self._zip.writestr(name, bytes(data))
            return
        path = self._draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


class ArchiveReader:
    """Reads an archive from any source, which need not be trusted.

    Attributes
    ----------
    contents : the manifest, as it was given to `ArchiveWriter.finish`.
    """

    def __init__(self, path: Path) -> None:
        """Open an archive; raises BadArchive, OSError."""
        self._path = path
        try:
            self._zip = None if path.is_dir() else zipfile.ZipFile(path)
            self.contents = json.loads(self._bytes(MANIFEST, MAX_MANIFEST_BYTES))
            files = self.contents["files"]
            known = self.contents["format"] == FORMAT and self.contents["version"] == VERSION
            whole = all(_FILE.fullmatch(name) for name in files)
            self._files = {name: (_size(file["bytes"]), str(file["sha256"])) for name, file in files.items()}
        except (*_UNREADABLE, TypeError, AttributeError) as error:
            raise BadArchive(path, f"it is not one of ManyLabel: {error}") from error
        if not known:
            raise BadArchive(path, f"it is not of version {VERSION}, which this program reads")
        if not whole:
            raise BadArchive(path, "it names files outside of it")

    @property
    def names(self) -> set[str]:
        """The names of all files, the manifest included."""
        return {MANIFEST, *self._files}

    def check(self) -> None:
        """Check every file against the manifest; raises BadArchive, OSError."""
        for name in self._files:
            self.read(name)

    def read(self, name: str) -> bytes:
        """Return the contents of a file; raises BadArchive where they are not those that were written, and OSError."""
        if name not in self._files:
            raise BadArchive(self._path, f"{name} is missing in it")
        size_bytes, digest = self._files[name]
        try:
            data = self._bytes(name, size_bytes)
        except _UNREADABLE as error:
            raise BadArchive(self._path, f"{name} cannot be read: {error}") from error
        if len(data) != size_bytes or hashlib.sha256(data).hexdigest() != digest:
            raise BadArchive(self._path, f"{name} does not match its checksum")
        return data

    def _bytes(self, name: str, most: int) -> bytes:
        """Return a file, or its beginning if it has more bytes than there should be."""
        if self._zip is None:
            path = self._path / name
            if not stat.S_ISREG(path.lstat().st_mode):
                raise ValueError("it is no plain file")
            if path.resolve() != self._path.resolve() / name:
                raise ValueError("a folder on its path is a symbolic link, which could lead out of the archive")
            with path.open("rb") as file:
                return file.read(most + 1)
        if self._zip.getinfo(name).compress_type != zipfile.ZIP_STORED:
            raise ValueError("it is compressed")
        try:
            with self._zip.open(name) as member:
                return member.read(most + 1)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise ValueError("it begins before the file") from error


def _check_replaceable(path: Path) -> None:
    """Refuse to replace a directory that has anything but an archive; raises BadArchive."""
    if not path.is_dir() or not any(path.iterdir()):
        return
    try:
        names = ArchiveReader(path).names
    except BadArchive:
        names = set()
    if {file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir()} != names:
        raise BadArchive(path, "it is a directory of something else, which is not replaced; choose another name")


def _size(bytes: Any) -> int:
    """Return a size of a manifest; raises ValueError for any other value."""
    if type(bytes) is not int or bytes < 0:
        raise ValueError(f"the size of a file must be an integer of at least 0, not {bytes!r}")
    return bytes
