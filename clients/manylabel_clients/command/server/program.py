"""Programs of the server, which replace the process of the command."""

import os
import sys
from typing import NoReturn

from manylabel_extras import require


def program(module: str, arguments: list[str]) -> list[str]:
    """Return the command line of a program; raises `MissingExtra` if the server is not installed."""
    require(module, "server")
    # -P: files in the current directory must not shadow modules, as they do not for `manylabel` itself.
    return [sys.executable, "-P", "-m", module, *arguments]


def become(module: str, arguments: list[str]) -> NoReturn:
    """Replace this process by a program of the server."""
    os.execv(sys.executable, program(module, arguments))
