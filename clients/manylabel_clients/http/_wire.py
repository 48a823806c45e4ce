"""Examples and labels as bytes of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from manylabel_clients.http.types import Features, Labels, Sparse

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
BYTES = {"Content-Type": "application/octet-stream"}


def encode(value: Any) -> bytes:
    """Compact JSON in UTF-8.

    Raises
    ------
    TypeError, ValueError
        If a value has no JSON, or a number is not finite; the message then begins with its place.
    """
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_scalar)
        return text.encode()
    except ValueError as error:
        place = next(_not_finite(value, ""), None)
        if place is None:
            raise
        raise ValueError(f"{place} must be a finite number") from error


def item(x: Features, y: Labels | None = None) -> bytes:
    """One item, the shape that every call has in common: ``{"x": ..., "y": ...}``, or with ``"views"`` for ``"x"``.

    Raises
    ------
    TypeError, ValueError
        If it cannot be sent; the message begins with the place, as the server's messages do.
    """
    views = _views(x)
    name = "x" if views is None else "views"
    with located(f"/{name}"):
        shown = features(x) if views is None else {view: features(one) for view, one in views.items()}
        x_bytes = b'"%b":%b' % (name.encode(), encode(shown))
    if y is None:
        return b"{%b}" % x_bytes
    with located("/y"):
        return b'{%b,"y":%b}' % (x_bytes, encode(labels(y)))


def _views(x: Any) -> Mapping[str, Any] | None:
    """The views of an example ``{"views": {...}}``; None for any other, also one with a feature of that name."""
    if isinstance(x, Mapping) and x.keys() == {"views"} and isinstance(views := x["views"], Mapping):
        return views
    return None


def truth(id: str, y: Labels) -> bytes:
    """The truth of a kept prediction: ``{"id": ..., "y": ...}``; raises as `item`."""
    if not isinstance(id, str):
        raise TypeError(f"/id must be a string, not {type(id).__name__}")
    with located("/y"):
        return b'{"id":%b,"y":%b}' % (encode(id), encode(labels(y)))


@contextmanager
def located(place: str) -> Iterator[None]:
    """Put a place in front of the message of a TypeError or ValueError."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        message = str(error)
        raise kind(place + message if message.startswith("/") else f"{place} {message}") from error


def features(x: Any) -> Any:
    """One example as JSON writes it.

    Raises
    ------
    TypeError
        If `x` has none of the forms of an example.
    """
    if isinstance(x, Mapping):
        views = x.get("views") if len(x) == 1 else None
        return (
            {"views": {name: features(one) for name, one in views.items()}} if isinstance(views, Mapping) else dict(x)
        )
    if isinstance(x, Sparse):
        return {"indices": _plain(x.indices), "values": _plain(x.values)}
    if isinstance(x, (list, tuple)):
        return x
    if hasattr(x, "tocsr"):
        row = x.tocsr()
        if len(row.shape) == 2 and row.shape[0] != 1:
            raise TypeError(f"must be one row, not {row.shape[0]}")
        return {"indices": row.indices.tolist(), "values": row.data.tolist()}
    if hasattr(x, "items"):  # a pandas Series
        return dict(x.items())
    if hasattr(x, "tolist") and isinstance(plain := x.tolist(), list):
        return plain
    raise TypeError(
        "must be a mapping of names to numbers, a sequence of numbers, an array of one dimension, "
        f"Sparse(indices, values) or one sparse row, not {type(x).__name__}"
    )


def labels(y: Any) -> Any:
    """The truth of one example as JSON writes it.

    Raises
    ------
    TypeError
        If `y` is neither a collection of names nor a mapping of names to true or false.
    """
    if isinstance(y, Mapping):
        return {name: _truth(name, value) for name, value in y.items()}
    if isinstance(y, (set, frozenset)):
        # Sets have another order in each process; a retry from a new process must send the same bytes.
        return sorted(y)
    if isinstance(y, (list, tuple)):
        return y
    if hasattr(y, "tolist") and isinstance(plain := y.tolist(), list):
        return plain
    raise TypeError(
        f"must be a list of names (complete) or a mapping of names to true or false (partial), not {type(y).__name__}"
    )


def _truth(name: str, value: Any) -> bool:
    if value not in (0, 1):  # True, False, 0, 1 and NumPy's forms of them
        raise TypeError(f"/{_escaped(name)} must be true or false, not {value!r}")
    return bool(value)


def _plain(numbers: Any) -> Any:
    return numbers.tolist() if hasattr(numbers, "tolist") else list(numbers)


def _scalar(value: Any) -> Any:
    """A NumPy scalar as the Python number it stands for."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"has {value!r}, which is neither a number nor a name")


def _not_finite(value: Any, pointer: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        parts: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    else:
        plain = value.item() if hasattr(value, "item") else value
        if isinstance(plain, float) and not math.isfinite(plain):
            yield pointer
        return
    for key, part in parts:
        yield from _not_finite(part, f"{pointer}/{_escaped(key)}")


def _escaped(key: Any) -> str:
    """A name as a part of a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


class Piece(NamedTuple):
    """Items that are sent together."""

    start: int
    """How many items of the call came before."""
    items: list[bytes]


def pieces(items: Iterable[bytes], batch_size: int, batch_bytes: int) -> Iterator[Piece]:
    """Items in order, in pieces of at most so many items and, if one item alone is not larger, bytes."""
    start, size_bytes = 0, 0
    piece: list[bytes] = []
    for one in items:
        if piece and (len(piece) == batch_size or size_bytes + len(one) > batch_bytes):
            yield Piece(start, piece)
            start, size_bytes, piece = start + len(piece), 0, []
        piece.append(one)
        size_bytes += len(one) + 1
    if piece:
        yield Piece(start, piece)


class Batch(NamedTuple):
    """The body of one request of a call with many examples."""

    start: int
    """How many examples of the call came before."""
    body: bytes


def batches(items: Iterable[bytes], batch_size: int, batch_bytes: int, probabilities: bool = False) -> Iterator[Batch]:
    """The same pieces as JSON."""
    for start, piece in pieces(items, batch_size, batch_bytes):
        yield Batch(start, asking(b'{"examples":[' + b",".join(piece) + b"]}", probabilities))


def asking(body: bytes, probabilities: bool) -> bytes:
    """The body of a request, an item or a batch, that asks for probabilities, or does not."""
    return body[:-1] + b',"probabilities":true}' if probabilities else body
