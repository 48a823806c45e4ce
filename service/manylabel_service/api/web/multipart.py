"""Bodies of type multipart/form-data (RFC 7578), taken apart as they come."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from email.message import Message
from email.parser import HeaderParser

from manylabel_service.api.web.problems import Problem

MAX_HEADER_BYTES = 8 * 2**10
"""Of one part."""


def boundary_of(content_type: str) -> bytes:
    """The boundary that a Content-Type names.

    Raises
    ------
    Problem
        unsupported_media_type: it names none that is allowed.
    """
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_param("boundary")
    if isinstance(boundary, str) and 1 <= len(boundary) <= 70 and boundary.isascii() and boundary.isprintable():
        return boundary.encode()
    raise Problem("unsupported_media_type", "multipart/form-data must name a boundary of 1 to 70 ASCII characters")


class Multipart:
    """One body.

    Parameters
    ----------
    boundary : between its parts.
    names : that parts may have; each comes once at most.

    Attributes
    ----------
    seen : the names of the parts that have begun.
    ended : whether the end of the last part has come.
    """

    def __init__(self, boundary: bytes, names: Collection[str]) -> None:
        self._delimiter = b"\r\n--" + boundary
        self._names = names
        self._held = bytearray(b"\r\n")  # so that the first boundary looks like the others
        self._part: str | None = None  # None: before the first
        self._in_headers = False
        self.seen: list[str] = []
        self.ended = False

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Take the next bytes of the body; what they are of which part.

        Raises
        ------
        Problem
            invalid_request: a part that is not expected, or is no part.
        """
        self._held += data
        while not self.ended:
            if self._in_headers:
                if not self._read_headers():
                    return
                continue
            at = self._held.find(self._delimiter)
            if at < 0:
                # The beginning of a delimiter may be at the end.
                yield from self._content(max(len(self._held) - len(self._delimiter) + 1, 0))
                return
            yield from self._content(at)
            if len(self._held) < len(self._delimiter) + 2:
                return
            self._pass_delimiter()

    def _content(self, length: int) -> Iterator[tuple[str, bytes]]:
        if length and self._part is not None:
            yield self._part, bytes(self._held[:length])
        del self._held[:length]

    def _pass_delimiter(self) -> None:
        after = bytes(self._held[len(self._delimiter) : len(self._delimiter) + 2])
        if after not in (b"--", b"\r\n"):
            raise _wrong("a boundary is followed by something else than the end of its line")
        self.ended = after == b"--"
        self._in_headers = not self.ended
        # The line end stays: with it, headers that are none end at once.
        del self._held[: len(self._delimiter)]

    def _read_headers(self) -> bool:
        """Whether the headers of the part are complete."""
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            if len(self._held) > MAX_HEADER_BYTES:
                raise _wrong(f"the headers of a part have more than {MAX_HEADER_BYTES} bytes")
            return False
        headers = HeaderParser().parsestr(bytes(self._held[2:end]).decode("utf-8", "replace"))
        name = headers.get_param("name", header="content-disposition")
        if not isinstance(name, str) or name not in self._names:
            raise _wrong(f"the parts are {' and '.join(self._names)}, not {str(name)[:100]!r}")
        if name in self.seen:
            raise _wrong(f"the part {name} comes twice")
        self.seen.append(name)
        self._part, self._in_headers = name, False
        del self._held[: end + 4]
        return True


def _wrong(detail: str) -> Problem:
    return Problem("invalid_request", f"the body is not multipart/form-data as expected: {detail}")
