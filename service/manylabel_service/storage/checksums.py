"""Checksums that detect damaged values in a store.

An entry of a log has a link, which is computed from the previous link and from the position, time and payload of the
entry. The first link depends on the incarnation. Changed, lost, repeated and misplaced entries are therefore detected.
The component that fixes the order computes the links (SQLite's writer, a script in Redis); readers check them.

Other values (metadata, documents, stored predictions) are sealed: a checksum precedes the value. Blobs have a checksum
over all bytes, and snapshots an additional one inside.
"""

import hashlib
from zlib import crc32

import structlog

from manylabel_service.errors import ModelDamaged
from manylabel_service.storage.protocol import ModelMeta

MULTIPLIER = 1_000_003
"""Multiplier of a link: a prime small enough for exact arithmetic in a Redis script, which uses doubles."""

SEAL_BYTES = 8

log = structlog.get_logger()


def first_link(incarnation: int) -> int:
    """Return the link before the first entry of a log, 32 bits like every link."""
    return crc32(b"log %d" % incarnation)


def next_link(link: int, number: int, payload: bytes) -> int:
    """Return the link of an entry; the script APPEND of Redis computes the same from the CRC-32 of the payload.

    Parameters
    ----------
    link : link of the previous entry.
    number : sum of the parts of the entry's position, plus its time if the position does not contain it.
    payload : payload of the entry.
    """
    return (link * MULTIPLIER + crc32(payload) + number) & 0xFFFFFFFF


def damaged_entry(name: str, position: str) -> ModelDamaged:
    """Return the error for an entry that does not match the log of a model."""
    return ModelDamaged(name, f"its log does not match its checksums at position {position}")


def seal(value: bytes, *context: object) -> bytes:
    """Prefix a value with its checksum, which also covers its `context`."""
    return _seal_of(value, context) + value


def unseal(sealed: object, *context: object) -> bytes | None:
    """Return a value sealed with this context; None if it is damaged or not sealed."""
    if not isinstance(sealed, bytes):  # for a damaged row, SQLite may return a value of any type
        return None
    value = sealed[SEAL_BYTES:]
    return value if sealed[:SEAL_BYTES] == _seal_of(value, context) else None


def unsealed_prediction(record: ModelMeta, id: str, sealed: object) -> bytes | None:
    """Return a stored prediction; None if it is missing or damaged. Damage is logged."""
    if sealed is None:
        return None
    payload = unseal(sealed, record.incarnation, id)
    if payload is None:
        log.error("prediction_damaged", model=record.name, prediction=id, action="it counts as expired")
    return payload


def _seal_of(value: bytes, context: tuple[object, ...]) -> bytes:
    checksum = hashlib.blake2b(repr(context).encode(errors="replace"), digest_size=SEAL_BYTES)
    checksum.update(value)
    return checksum.digest()
