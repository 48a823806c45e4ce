"""Where feeds of files have got to, kept on this machine."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from manylabel_clients.command.failures import Failure


@dataclass(frozen=True, slots=True)
class Bookmark:
    """What it takes to go on with a feed exactly."""

    feed_id: str
    batch_size: int
    complete: bool
    offset: int = 0
    """Rows fed. The batch after them may have been learnt too; its key sees to it that it counts once."""
    digest: str = ""
    """Digest of these rows."""
    updates: int = 0
    """Examples the model had learnt in all. A model that has learnt fewer is another one."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """The bookmark at `path`.

        Raises
        ------
        FileNotFoundError
            If there is none.
        Failure
            If it is damaged.
        """
        try:
            return cls(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise Failure(f"{path}, where the feed had got to, is damaged; leave out --resume") from error

    def save(self, path: Path) -> None:
        """Put it in place in one step: a kill leaves the old one or the new one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)


class DigestedRows:
    """A stream that keeps a digest of the rows it has given, and checks those that were given before.

    Parameters
    ----------
    rows : the stream.
    mark : where the feed had got to.

    Raises
    ------
    Failure
        On iteration, before the first row after the mark, if those up to it are not the ones it stands for.
    """

    def __init__(self, rows: Iterable[Any], mark: Bookmark) -> None:
        self.n_samples: int | None = getattr(rows, "n_samples", None)
        self._rows = rows
        self._mark = mark
        self._hash = blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """Of all rows given so far."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Any]:
        given = 0
        for row in self._rows:
            if given == self._mark.offset:
                self._check()
            self._hash.update(repr(row).encode())
            given += 1
            yield row
        if given <= self._mark.offset:
            self._check()

    def _check(self) -> None:
        if self._mark.offset and self.digest != self._mark.digest:
            raise Failure("the file does not begin with the rows that were fed")


def bookmark_path(url: str, model: str, file: Path) -> Path:
    """Where the feed of this file into this model has its bookmark."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    name = blake2b("\n".join((url, model, str(file.resolve()))).encode(), digest_size=16).hexdigest()
    return base / "manylabel" / "feeds" / f"{name}.json"
