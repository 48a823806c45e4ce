"""Width of the terminal, and of a text in it."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterator


def terminal_width() -> int | None:
    """Return the width of the terminal in columns; None (unlimited) if the output is a file or a pipe.

    COLUMNS also sets the width of files and pipes, as in other commands.
    """
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def display_width(text: str) -> int:
    """Return the width of a text in columns: two for a wide character, none for a combining one."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def padded(text: str, width: int, right: bool = False) -> str:
    """Pad a text with spaces, after or before it, to a width."""
    spaces = " " * (width - display_width(text))
    return spaces + text if right else text + spaces


def printable(text: str) -> str:
    """Return a text on one line, without control characters."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or unicodedata.category(one) == "Cf" else " " for one in text)


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text wrapped between words; a longer word has its own line."""
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if line and display_width(longer) > width:
            yield line
            line = word
        else:
            line = longer
    yield line


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
