"""Log entries: an Update as bytes and back.

An entry is a msgpack array; its first element is the version of the layout. Numbers are
little-endian float32 (values), int32 (indices) and int8 (signs), so that an entry replays to the
same bits on every machine. Decoding runs no code and reads only what `encode` writes.
"""

from collections.abc import Iterator

import msgpack
import numpy as np

from manylabel_service.replicas.examples import Example, Features, IdempotencyKey, Labels, Update

VERSION = 1
"""Of the layout: [version, durability, key, digest, want_predictions, examples]; an example is
[names, indices, values, label names, signs, complete]."""


class UnreadableEntry(Exception):
    """A log entry is damaged, or was written by a newer version."""


def encode(update: Update) -> bytes:
    """The entry of an update."""
    return b"".join(encode_parts(update))


def encode_parts(update: Update) -> Iterator[bytes]:
    """The entry of an update in parts: its head, then a part per example."""
    key, digest = update.key or (None, None)
    packer = msgpack.Packer()
    head = (VERSION, update.durability, key, digest, update.want_predictions)
    fields = b"".join(map(packer.pack, head))
    yield packer.pack_array_header(len(head) + 1) + fields + packer.pack_array_header(len(update.examples))
    for x, y in update.examples:
        yield packer.pack(_pack(x, y))


def decode(payload: bytes) -> Update:
    """The update of an entry.

    Raises
    ------
    UnreadableEntry
        The bytes are not an entry, or one of a newer version.
    """
    try:
        version, *fields = msgpack.unpackb(payload)
        if version != VERSION:
            raise UnreadableEntry(f"entry has version {version}, this program reads {VERSION}")
        durability, key, digest, want_predictions, examples = fields
        return Update(
            examples=tuple(_unpack(*example) for example in examples),
            durability=durability,
            key=None if key is None else IdempotencyKey(key, digest),
            want_predictions=want_predictions,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise UnreadableEntry(f"entry is damaged: {error}") from error


def _pack(x: Features, y: Labels) -> list[object]:
    return [
        x.names,
        None if x.indices is None else x.indices.astype("<i4", copy=False).tobytes(),
        x.values.astype("<f4", copy=False).tobytes(),
        y.names,
        y.signs.tobytes(),
        y.complete,
    ]


def _unpack(
    names: list[str] | None,
    indices: bytes | None,
    values: bytes,
    labels: list[str],
    signs: bytes,
    complete: bool,
) -> Example:
    x = Features(
        names=None if names is None else tuple(names),
        indices=None if indices is None else np.frombuffer(indices, dtype="<i4"),
        values=np.frombuffer(values, dtype="<f4"),
    )
    return Example(x, Labels(tuple(labels), np.frombuffer(signs, dtype=np.int8), complete))
