"""Grouping of the items of one call into requests of limited size."""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from manylabel_clients.http.transport.exchange import Draw, Exchange
from manylabel_clients.http.transport.json_body import encode, located

T = TypeVar("T")

Items: TypeAlias = Iterable[T] | AsyncIterable[T]
"""Items of a call; asynchronous ones for the asynchronous client only."""

BATCH_SIZE = 500
"""Default number of examples per request of a call with many examples."""
BATCH_BYTES = 2**20
"""Maximum bytes of the body of a request with many examples: a quarter of the default limit of a server."""


class Batch(NamedTuple):
    """Items of one request."""

    start: int
    """Number of earlier items of the call."""
    items: list[bytes]

    def body(self, wanted: Mapping[str, Any]) -> bytes:
        """Return the batch as one body of JSON, with the fields `wanted`."""
        return asking(b'{"examples":[' + b",".join(self.items) + b"]}", wanted)

    def halves(self) -> tuple["Batch", "Batch"]:
        """Return two batches with half of the items each; with an odd number, the first is larger."""
        half = (1 + len(self.items)) // 2
        return Batch(self.start, self.items[:half]), Batch(self.start + half, self.items[half:])


class Batches(Generic[T]):
    """Batches of items in order, limited in number of items and in bytes. An item above the limit of bytes is a batch
    alone.

    Items are read lazily. An error in an item states the number of the item. Raises ValueError if `batch_size` is not
    positive, and TypeError if `items` is a string or a mapping, which would be read as its characters or names.
    """

    def __init__(
        self,
        items: Items[T],
        encode: Callable[[T], bytes],
        batch_size: int,
        batch_bytes: int = BATCH_BYTES,
        what: str = "(x, y)",
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        if isinstance(items, (str, bytes, Mapping)) or hasattr(items, "columns"):
            raise TypeError(f"must be an iterable of {what}, not one {type(items).__name__}")
        self._items: Any = aiter(items) if isinstance(items, AsyncIterable) else iter(items)
        self._encode = encode
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._start = 0
        self._batch: list[bytes] = []
        self._size_bytes = 0
        self._next: bytes | None = None  # already taken from the input, and too large for the previous batch

    def draw(self) -> Exchange[Batch | None]:
        """Return the next batch; None when there are no more items."""
        self._start += len(self._batch)
        self._batch, self._size_bytes = [], 0
        if self._next is None or not self._take(self._next):
            yield Draw(self._items, self._add)
        return Batch(self._start, self._batch) if self._batch else None

    def limit(self, batch_size: int) -> None:
        """Limit the number of items of the next batches."""
        self._batch_size = min(self._batch_size, batch_size)

    def _add(self, item: T) -> bool:
        with located(f"/examples/{self._start + len(self._batch)}"):
            encoded = self._encode(item)
        return self._take(encoded)

    def _take(self, encoded: bytes) -> bool:
        """Add an item to the batch or the next one; return whether the batch is complete."""
        if self._batch and self._size_bytes + len(encoded) > self._batch_bytes:
            self._next = encoded
            return True
        self._next = None
        self._batch.append(encoded)
        self._size_bytes += len(encoded) + 1
        return len(self._batch) == self._batch_size


def asking(body: bytes, wanted: Mapping[str, Any]) -> bytes:
    """Return the JSON body of an item or a batch with more fields, except those that are None or false."""
    for name, value in wanted.items():
        if value is not None and value is not False:
            body = body[:-1] + b",%b:%b}" % (encode(name), encode(value))
    return body
