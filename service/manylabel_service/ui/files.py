"""Files of the web UI, read once."""

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Self

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
"""Page that refers to the other files with `{version}`; only its own URL has no version."""

MEDIA_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
"""Media types by file extension, which browsers need because content sniffing is disabled."""

DIGEST_DIGITS = 10


class UiFile(NamedTuple):
    """File of the web UI: the value of its Content-Type, and its bytes."""

    media_type: bytes
    content: bytes


class Files:
    """Files of the web UI by path, and the version in their addresses.

    Raises ValueError. The version consists of the release and a digest of all files, so that modules of two releases
    never mix.
    """

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.version = f"{version('manylabel')}-{_digest(contents)}"
        self._files = {path: _file(path, self._named(path, content)) for path, content in contents.items()}

    @classmethod
    @cache
    def shipped(cls) -> Self:
        """Return the files of this release, read once per process."""
        return cls.read(STATIC)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the files of a folder, without hidden files."""
        return cls({path: (folder / path).read_bytes() for path in sorted(_paths(folder))})

    def get(self, path: str) -> UiFile | None:
        """Return the file at a path; None if missing."""
        return self._files.get(path)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the paths."""
        return iter(self._files)

    def _named(self, path: str, content: bytes) -> bytes:
        return content.replace(b"{version}", self.version.encode()) if path == INDEX else content


def _paths(folder: Path) -> Iterator[str]:
    for file in folder.rglob("*"):
        path = file.relative_to(folder)
        if file.is_file() and not any(part.startswith(".") for part in path.parts):
            yield path.as_posix()


def _digest(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, content in sorted(contents.items()):
        digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:DIGEST_DIGITS]


def _file(path: str, content: bytes) -> UiFile:
    media_type = MEDIA_TYPES.get(Path(path).suffix)
    if media_type is None:
        raise ValueError(f"{path} of the page has a suffix without a media type; known are {', '.join(MEDIA_TYPES)}")
    return UiFile(media_type.encode(), content)
