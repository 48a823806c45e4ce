"""Checkpoints of feeds: the progress of files, stored on this machine."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from manylabel_clients.command.failures import Failure


@dataclass(frozen=True, slots=True)
class FeedCheckpoint:
    """State from which a feed can resume exactly."""

    feed_id: str
    complete: bool
    offset: int = 0
    """Number of rows fed. The next batch may have been learnt too: its rows have the same numbers, and count once."""
    digest: str = ""
    """Digest of the fed rows."""
    updates: int = 0
    """Total number of examples that the model had learnt. A model that has learnt fewer is a different one."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the checkpoint at `path`; raise FileNotFoundError if it is missing, and Failure if it is damaged."""
        try:
            return cls(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise Failure(f"{path}, the checkpoint of the feed, is damaged; omit --resume") from error

    def save(self, path: Path) -> None:
        """Replace the file atomically: after a kill, it has the old checkpoint or the new one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)


class DigestedRows:
    """Stream that computes a digest of its rows, to verify the rows already learnt.

    If the rows before the checkpoint are not those that were fed, iteration raises Failure before it yields a new row.
    """

    def __init__(self, rows: Iterable[Any], checkpoint: FeedCheckpoint, n_samples: int | None = None) -> None:
        self.n_samples = n_samples
        self._rows = rows
        self._checkpoint = checkpoint
        self._hash = blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """Digest of all rows so far."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Any]:
        given = 0
        for row in self._rows:
            if given == self._checkpoint.offset:
                self._check()
            self._hash.update(repr(_plain(row)).encode())
            given += 1
            yield row
        if given <= self._checkpoint.offset:
            self._check()

    def _check(self) -> None:
        if self._checkpoint.offset and self.digest != self._checkpoint.digest:
            raise Failure("the file does not begin with the rows that were learnt")


def _plain(value: Any) -> Any:
    """Return a row with Python's built-in types. The texts of NumPy's types change between releases, and omit numbers
    of long arrays.
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def checkpoint_path(url: str, model: str, file: Path) -> Path:
    """Return the path of the checkpoint of this file and model."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    name = blake2b("\n".join((url, model, str(file.resolve()))).encode(), digest_size=16).hexdigest()
    return base / "manylabel" / "feeds" / f"{name}.json"
