"""Progress bar in a terminal."""

import shutil
import sys
import time
from types import TracebackType
from typing import Self, TextIO

REDRAW_SECONDS = 0.1
WIDTH = 30


class ProgressBar:
    """Progress bar on one line of standard error, erased at the end; shown in a terminal only.

    Parameters
    ----------
    visible : whether the bar is shown.
    stays : whether the last text stays visible at the end, even without a terminal.
    """

    def __init__(self, visible: bool = True, stays: bool = False) -> None:
        self._stream: TextIO = sys.stderr
        self._is_seen = visible and self._stream.isatty()
        self._drawn = float("-inf")
        self._stays = visible and stays
        self._text = ""

    def draw(self, share: float | None, text: str) -> None:
        """Show a share from 0 to 1, or None if it is unknown, and a text after it."""
        self._text = text
        if not self._is_seen or time.monotonic() - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = time.monotonic()
        bar = "" if share is None else "━" * round(share * WIDTH) + "╌" * (WIDTH - round(share * WIDTH)) + " "
        room = shutil.get_terminal_size().columns - 1
        self._write("\r\x1b[K" + (bar + text)[:room])

    def print(self, line: str) -> None:
        """Print a line that stays to standard output, above the bar."""
        self.clear()
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def clear(self) -> None:
        """Erase the bar until it is drawn again."""
        if self._is_seen:
            self._write("\r\x1b[K")
            self._drawn = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
        if self._stays and self._text:
            self._write(f"{self._text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def counted(done: int, total: int | None) -> tuple[float | None, str]:
    """Return the share and the text of a bar for a count."""
    if not total:
        return None, f"{done}/?"
    return min(1.0, done / total), f"{done}/{total}"
