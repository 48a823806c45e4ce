"""Segment: consecutive entries of a log in an immutable compressed blob.

The blob consists of `MAGIC`, the length of the header (4 bytes, little-endian), the header, and one compressed body.
The header is JSON with the bounds of the segment and the SHA-256 of the body. The body is msgpack with [position, time,
payload] of each entry in order.
"""

import hashlib
import json
import zlib
from collections.abc import Sequence
from typing import Any

import msgpack

from manylabel_service.errors import ReleaseTooOld
from manylabel_service.storage import Entry

ANY_MAGIC = b"MLSEG"
MAGIC = ANY_MAGIC + b"1"

_LENGTH_BYTES = 4


class DamagedSegment(ValueError):
    """The bytes are not a segment."""


def encode(after: str, entries: Sequence[Entry]) -> bytes:
    """Return the segment of one or more entries that follow the position `after`."""
    packer = msgpack.Packer()
    raw = b"".join([packer.pack((position, time_ms, payload)) for position, payload, time_ms in entries])
    body = zlib.compress(raw)
    header = {
        "after": after,
        "through": entries[-1].position,
        "entries": len(entries),
        "bytes": len(raw),
        "first": entries[0].time_ms,
        "last": entries[-1].time_ms,
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    written = json.dumps(header).encode()
    return b"".join((MAGIC, len(written).to_bytes(_LENGTH_BYTES, "little"), written, body))


def decode(data: bytes) -> tuple[str, list[Entry]]:
    """Return the position before a segment, and its entries.

    Raises
    ------
    DamagedSegment
        The bytes are not a result of `encode`.
    ReleaseTooOld
        A newer release wrote them in another format.
    """
    try:
        begin = len(MAGIC) + _LENGTH_BYTES
        if data.startswith(ANY_MAGIC) and not data.startswith(MAGIC):
            raise ReleaseTooOld("a segment of the history has a later format")
        if not data.startswith(MAGIC):
            raise ValueError("its first bytes are not those of a segment")
        end = begin + int.from_bytes(data[len(MAGIC) : begin], "little")
        header, body = json.loads(data[begin:end]), data[end:]
        if hashlib.sha256(body).hexdigest() != header["sha256"]:
            raise ValueError("its body does not match its checksum")
        raw = zlib.decompressobj().decompress(body, header["bytes"] + 1)  # 0 would mean no limit
        entries = _unpacked(raw, header)
        facts = (len(entries), entries[-1].position, entries[0].time_ms, entries[-1].time_ms)
        if facts != tuple(header[name] for name in ("entries", "through", "first", "last")):
            raise ValueError("its entries are not those of its header")
        return str(header["after"]), entries
    except (ValueError, KeyError, TypeError, IndexError, msgpack.UnpackException, zlib.error) as error:
        raise DamagedSegment(str(error)) from error


def _unpacked(raw: bytes, header: dict[str, Any]) -> list[Entry]:
    if len(raw) != header["bytes"]:
        raise ValueError(f"its body has {len(raw)} bytes, not {header['bytes']}")
    unpacker = msgpack.Unpacker(max_buffer_size=len(raw))
    unpacker.feed(raw)
    return [Entry(position, payload, time_ms) for position, time_ms, payload in unpacker]
