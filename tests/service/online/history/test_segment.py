"""Segments of a history: what `encode` wrote is read again, and nothing else."""

import json
import tracemalloc
import zlib
from hashlib import sha256
from typing import Any

import pytest

from manylabel_service.online.history.segment import MAGIC, DamagedSegment, decode, encode
from manylabel_service.storage import Entry

ENTRIES = [Entry("7", b"first", 1_000), Entry("9", b"second", 2_000)]
DATA = encode("5", ENTRIES)
BEGIN = len(MAGIC) + 4


def test_a_segment_is_read_again() -> None:
    assert decode(DATA) == ("5", ENTRIES)


def _with(body: bytes | None = None, **changed: Any) -> bytes:
    """Return the segment with other fields in its header, and possibly another body with its checksum."""
    end = BEGIN + int.from_bytes(DATA[len(MAGIC) : BEGIN], "little")
    header = json.loads(DATA[BEGIN:end]) | changed
    if body is not None:
        header["sha256"] = sha256(body).hexdigest()
    written = json.dumps(header).encode()
    return b"".join((MAGIC, len(written).to_bytes(4, "little"), written, DATA[end:] if body is None else body))


def _longer(n_bytes: int) -> bytes:
    """Return a body with more bytes after the entries."""
    end = BEGIN + int.from_bytes(DATA[len(MAGIC) : BEGIN], "little")
    return zlib.compress(zlib.decompress(DATA[end:]) + bytes(n_bytes))


@pytest.mark.parametrize("data", [_with(), _with(body=_longer(0))], ids=["same", "compressed again"])
def test_the_changes_below_are_all_that_differs(data: bytes) -> None:
    assert decode(data) == ("5", ENTRIES)


@pytest.mark.parametrize(
    "data",
    [
        *(_with(None, **{name: 1}) for name in ("entries", "through", "first", "last", "bytes", "sha256")),
        *(_with(bytes=value) for value in (0, -1, None, "many", 10**6)),
        _with(body=_longer(1)),
        DATA[:-1],
        DATA[:BEGIN],
        DATA[:-1] + bytes([DATA[-1] ^ 1]),
        b"",
    ],
)
def test_a_changed_segment_is_damaged(data: bytes) -> None:
    with pytest.raises(DamagedSegment):
        decode(data)


@pytest.mark.parametrize("stated", [0, 100])
def test_a_body_is_not_expanded_beyond_the_bytes_that_the_header_states(stated: int) -> None:
    bomb = _with(body=_longer(1 << 26), bytes=stated)
    tracemalloc.start()
    try:
        with pytest.raises(DamagedSegment):
            decode(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()
