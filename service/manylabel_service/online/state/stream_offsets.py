"""Last learnt line of each stream, so that an interrupted stream can be resent from an earlier line."""

from bisect import bisect_right
from collections import OrderedDict
from typing import Any, NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

MAX_STREAMS = 1_000
"""Maximum number of streams per model; above it, the least recently used one is forgotten, and its lines would be
learnt again.
"""

_STREAM_BYTES = 300
"""Estimated bytes of a stream without its key."""


class StreamPart(NamedTuple):
    """Position of an update in a stream: the key of the stream, and the line number of each example.

    Line numbers ascend from 1, and identify repeated lines. `through` is the number of the last line if its example was
    forgotten.
    """

    key: str
    lines: tuple[int, ...]
    through: int | None = None

    @property
    def last(self) -> int:
        """Number of the last line."""
        return self.lines[-1] if self.through is None else self.through


class StreamOffsets:
    """Last learnt line of each of the latest streams."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, int] = OrderedDict()
        self._text_bytes = 0

    def __len__(self) -> int:
        return len(self._last)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return _STREAM_BYTES * len(self._last) + self._text_bytes

    def last(self, key: str) -> int:
        """Return the last line learnt; 0 for an unknown stream."""
        return self._last.get(key, 0)

    def n_learnt(self, part: StreamPart) -> int:
        """Return the number of leading lines of the part that have been learnt."""
        return bisect_right(part.lines, self.last(part.key))

    def add(self, part: StreamPart) -> None:
        """Record the lines of a part as learnt."""
        if part.key not in self._last:
            self._text_bytes += len(part.key.encode())
        self._last[part.key] = max(part.last, self.last(part.key))
        self._last.move_to_end(part.key)
        if len(self._last) > MAX_STREAMS:
            oldest, _ = self._last.popitem(last=False)
            self._text_bytes -= len(oldest.encode())

    def to_array(self) -> NDArray[np.uint8]:
        """Return the offsets as bytes."""
        return np.frombuffer(msgpack.packb(list(self._last.items())), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8]) -> "StreamOffsets":
        """Restore from the output of `to_array`. Raises ValueError."""
        try:
            rows: Any = msgpack.unpackb(packed.tobytes())
            last: OrderedDict[Any, Any] = OrderedDict(rows)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise ValueError(f"streams: {error}") from error
        if not isinstance(rows, list) or len(last) != len(rows) or len(last) > MAX_STREAMS:
            raise ValueError(f"streams: at most {MAX_STREAMS:,} streams are allowed, each listed once")
        for key, line in last.items():
            if not isinstance(key, str) or type(line) is not int or line < 1:
                raise ValueError("streams: each stream must have a name and a line number")
        streams = cls()
        streams._last = last
        streams._text_bytes = sum(len(key.encode()) for key in last)
        return streams
