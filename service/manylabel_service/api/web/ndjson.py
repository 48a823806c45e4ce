"""Lines of a body, as they arrive (NDJSON)."""


class Splitter:
    """Cuts chunks of bytes into lines.

    Parameters
    ----------
    max_line_bytes : longest line that is put together; what would be longer is given up.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._rest = bytearray()
        self.too_long = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in the next chunk; up to the first that is too long, which sets `too_long`."""
        begin, *ends = chunk.split(b"\n")
        self._rest += begin
        if not ends:
            self.too_long = len(self._rest) > self._max_line_bytes
            return []
        lines = [bytes(self._rest), *ends[:-1]]
        self._rest = bytearray(ends[-1])
        return self._short([*lines, ends[-1]])[: len(lines)]

    def end(self) -> list[bytes]:
        """The last line, when it has no end of its own."""
        last = bytes(self._rest)
        self._rest.clear()
        return [last] if last else []

    def _short(self, lines: list[bytes]) -> list[bytes]:
        for place, line in enumerate(lines):
            if len(line) > self._max_line_bytes:
                self.too_long = True
                return lines[:place]
        return lines
