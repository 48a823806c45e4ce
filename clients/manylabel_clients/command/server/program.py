"""Programs of the server, which the command becomes."""

import os
import sys
from typing import NoReturn

from manylabel_extras import require


def program(module: str, arguments: list[str]) -> list[str]:
    """Return the command line of a program; raises `MissingExtra` where the server is not installed."""
    require(module, "server")
    # -P: files in the current directory must not shadow modules, as they do not for `manylabel` itself.
    return [sys.executable, "-P", "-m", module, *arguments]


def become(module: str, arguments: list[str]) -> NoReturn:
    """Become a program of the server, in this process."""
    os.execv(sys.executable, program(module, arguments))
