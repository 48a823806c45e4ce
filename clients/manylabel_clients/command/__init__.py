"""The `manylabel` command: a folder for each subject of its subcommands, and one for output."""

import os
import sys
from typing import NoReturn

from manylabel_extras import missing_modules

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command. `serve` starts the server without loading the other commands, which would take half a second."""
    if sys.argv[1:2] == ["serve"] and not missing_modules("server"):
        from manylabel_clients.command.server.program import SERVER, program

        os.execv(sys.executable, program(SERVER, sys.argv[2:]))
    from manylabel_clients.command.app import main

    main()
