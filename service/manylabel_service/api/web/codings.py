"""Incremental decoding and encoding of the content codings gzip and zstd."""

import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from manylabel_service.api.web.problems import Problem
from manylabel_service.zstd import zstd

PORTION_BYTES = 2**16
"""Bytes decompressed or compressed at a time, in some tenths of a millisecond."""

MAX_WINDOW_BYTES = 2**23
"""Maximum zstd window, the memory of a decoder. All encoders for HTTP respect it (RFC 9659)."""

LEVEL = 1
"""Compression level; the next levels take twice as long for a tenth fewer bytes."""

FREE_FRAMES, BYTES_PER_FRAME = 16, 2**10
"""Number of frames that a body may have, and minimum decompressed bytes per further frame, because headers cost time.
"""

_GZIP_BITS = 16 + zlib.MAX_WBITS


class _Frame(Protocol):
    """Decoder of one zstd frame or gzip member."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Compressor(Protocol):
    """Incremental compressor of one body."""

    def pack(self, data: bytes) -> bytes:
        """Compress the next bytes; return the output so far."""

    def flush(self) -> bytes:
        """Return the output needed to decompress all bytes so far."""

    def end(self) -> bytes:
        """Return the rest."""


class _GzipPacker:
    def __init__(self) -> None:
        self._encoder = zlib.compressobj(LEVEL, wbits=_GZIP_BITS)
        self.pack = self._encoder.compress

    def flush(self) -> bytes:
        return self._encoder.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        return self._encoder.flush()


class _ZstdPacker:
    def __init__(self) -> None:
        self._encoder = zstd.ZstdCompressor(LEVEL)

    def pack(self, data: bytes) -> bytes:
        packed: bytes = self._encoder.compress(data)
        return packed

    def flush(self) -> bytes:
        packed: bytes = self._encoder.flush(self._encoder.FLUSH_BLOCK)
        return packed

    def end(self) -> bytes:
        packed: bytes = self._encoder.flush()
        return packed


class Coding(NamedTuple):
    """Content coding.

    Attributes
    ----------
    name : name in headers.
    frame : creates a decoder of one frame.
    packer : creates a compressor of one body.
    errors : errors raised for other bytes.
    window_bytes : maximum memory of a decoder.
    """

    name: bytes
    frame: Callable[[], _Frame]
    packer: Callable[[], Compressor]
    errors: tuple[type[Exception], ...]
    window_bytes: int


def _codings() -> dict[bytes, Coding]:
    gzip = Coding(b"gzip", lambda: zlib.decompressobj(_GZIP_BITS), _GzipPacker, (zlib.error,), 2**15)
    if zstd is None:
        return {gzip.name: gzip}
    options = {zstd.DecompressionParameter.window_log_max: MAX_WINDOW_BYTES.bit_length() - 1}

    def frame() -> Any:
        return zstd.ZstdDecompressor(options=options)

    return {b"zstd": Coding(b"zstd", frame, _ZstdPacker, (zstd.ZstdError,), MAX_WINDOW_BYTES), gzip.name: gzip}


CODINGS = _codings()
"""Codings by name, the preferred one first."""

SUPPORTED = ", ".join(name.decode() for name in sorted(CODINGS))
"""Value of the header Accept-Encoding in responses to an unsupported coding."""


@lru_cache(maxsize=256)
def accepted(header: bytes) -> Coding | None:
    """Return the preferred coding of a header Accept-Encoding; among equals, the first in our order."""
    weights = dict(_weights(header))
    liked = [(weights.get(name, weights.get(b"*", 0.0)), coding) for name, coding in CODINGS.items()]
    weight, coding = max(liked, key=lambda each: each[0])
    return coding if weight > 0 and weight >= weights.get(b"identity", 0.0) else None


@lru_cache(maxsize=256)
def takes(header: bytes, name: bytes) -> bool:
    """Return whether a header Accept-Encoding allows a coding."""
    weights = dict(_weights(header))
    return weights.get(name, weights.get(b"*", 0.0)) > 0


def _weights(header: bytes) -> Iterator[tuple[bytes, float]]:
    for each in header.lower().split(b","):
        name, _, parameter = each.partition(b";")
        key, _, value = parameter.strip().partition(b"=")
        try:
            yield name.strip(), float(value) if key.strip() == b"q" else 1.0
        except ValueError:
            yield name.strip(), 0.0


class Unpacker:
    """Decompressor of one body, which may have several frames."""

    def __init__(self, coding: Coding) -> None:
        self._coding = coding
        self._frame: _Frame | None = None
        self._n_frames = self._n_bytes = 0

    @property
    def complete(self) -> bool:
        return self._frame is None

    def unpack(self, data: bytes) -> Iterator[bytes]:
        """Decompress the next bytes of the body, in chunks, some of which may be empty. Raises a Problem
        malformed_request."""
        while data or self._frame is not None:
            frame = self._frame or self._begin()
            try:
                portion = frame.decompress(data, PORTION_BYTES)
            except self._coding.errors as error:
                raise self.damaged(str(error)) from error
            self._n_bytes += len(portion)
            data = frame.unused_data if frame.eof else getattr(frame, "unconsumed_tail", b"")
            if frame.eof:
                self._frame = None
            yield portion
            if not (data or frame.eof or len(portion) == PORTION_BYTES):
                return

    def _begin(self) -> _Frame:
        self._n_frames += 1
        if self._n_frames > FREE_FRAMES + self._n_bytes // BYTES_PER_FRAME:
            raise self.damaged("it consists of too many small parts")
        self._frame = self._coding.frame()
        return self._frame

    def damaged(self, detail: str) -> Problem:
        """Return the problem for a body that cannot be decompressed."""
        name = self._coding.name.decode()
        return Problem("malformed_request", f"the body is not valid {name}, its Content-Encoding: {detail}")
