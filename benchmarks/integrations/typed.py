"""Commands as a user types them, with their output."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.http.servers import CORES, Server, manylabel, sqlite

MANYLABEL = [sys.executable, "-c", "from manylabel_clients.command import main; main()"]


@contextmanager
def server(port: int, *flags: str) -> Iterator[tuple[str, Server]]:
    """Print the command that starts a server; yield the address of the ready server, and the server."""
    shown = ["manylabel", "serve", *(["--port", str(port)] if port != 8000 else []), *flags]
    print(f"$ {shlex.join(shown)} &", flush=True)
    with sqlite() as store, manylabel(port, [*store, *flags], CORES) as started:
        yield f"http://127.0.0.1:{port}", started


def typed(
    program: Sequence[str],
    shown: str,
    *arguments: str,
    folder: Path | None = None,
    more: Mapping[str, str] | None = None,
    wanted: Callable[[str], bool] | None = None,
) -> float:
    """Run a command, print it and selected lines of its output; return its seconds.

    Parameters
    ----------
    shown : name of the program.
    more : additional environment variables, which are printed.
    wanted : returns whether a line is printed; None: all lines.
    """
    variables = "".join(f"{name}={value} " for name, value in (more or {}).items())
    print(f"$ {variables}{shlex.join([shown, *arguments])}", flush=True)
    began = time.monotonic()
    done = subprocess.run(
        [*program, *arguments],
        cwd=folder,
        env={**os.environ, **(more or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    for line in done.stdout.splitlines():
        if done.returncode or wanted is None or wanted(line):
            print(line)
    if done.returncode:
        raise SystemExit(f"{shown} ended with {done.returncode}")
    sys.stdout.flush()
    return seconds
