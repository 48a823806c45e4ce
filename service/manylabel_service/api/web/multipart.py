"""Bodies of type multipart/form-data (RFC 7578), parsed incrementally by python-multipart."""

from collections.abc import Collection

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from manylabel_service.api.web.problems import Problem


def boundary_of(content_type: str) -> bytes:
    """Return the boundary of a Content-Type.

    Raises
    ------
    Problem
        unsupported_media_type: it names none that is allowed.
    """
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"") if content_type.isascii() else b""
    if 1 <= len(boundary) <= 70 and boundary.decode().isprintable():
        return boundary
    raise Problem("unsupported_media_type", "multipart/form-data must name a boundary of 1 to 70 ASCII characters")


class Multipart:
    """Parser of a body whose parts have known names, each at most once.

    Parameters
    ----------
    boundary : between its parts.
    names : that parts may have.

    Attributes
    ----------
    seen : the names of the parts that have begun.
    ended : whether the end of the last part has come.
    """

    def __init__(self, boundary: bytes, names: Collection[str]) -> None:
        self._names = names
        self._found: list[tuple[str, bytes]] = []
        self._header = self._value = self._disposition = b""
        self.seen: list[str] = []
        self.ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._add_header,
                "on_header_value": self._add_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._name_part,
                "on_part_data": self._add_data,
                "on_end": self._end,
            },
        )

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Parse the next bytes of the body; return the bytes of each part.

        Raises
        ------
        Problem
            invalid_request: a part that is not expected, or is no part.
        """
        self._found = []
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _wrong(str(error)) from error
        return self._found

    def _begin_part(self) -> None:
        self._disposition = b""

    def _add_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _name_part(self) -> None:
        name = parse_options_header(self._disposition)[1].get(b"name", b"").decode("utf-8", "replace")
        if name not in self._names:
            raise _wrong(f"the parts are {' and '.join(self._names)}, not {name[:100]!r}")
        if name in self.seen:
            raise _wrong(f"the part {name} comes twice")
        self.seen.append(name)

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        self._found.append((self.seen[-1], data[start:end]))

    def _end(self) -> None:
        self.ended = True


def _wrong(detail: str) -> Problem:
    return Problem("invalid_request", f"the body is not multipart/form-data as expected: {detail}")
