"""Makes the list of specialisations, for `make kernels`: ``python -m tests.support.list_kernels FILE``.

The exercises of each tier run twice, each time in a process of its own: from nothing, which tells what is compiled, and
from what is stored then, which tells what Python calls. It takes minutes.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from manylabel_core.kernels.listing import TIERS
from manylabel_core.kernels.signatures import ROOT, call_of

Found = dict[str, str]
"""Tier of each specialisation."""


def listed() -> str:
    """Return the list."""
    with TemporaryDirectory() as directory:
        compiled, called = (_found_in_a_process(what, directory) for what in ("compiled", "called"))
    lines = (f"{tier} {called.get(call, '-')} {call}" for call, tier in compiled.items())
    return "".join(f"{line}\n" for line in lines)


def _found_in_a_process(what: str, directory: str) -> Found:
    command = [sys.executable, "-m", __spec__.name, "--", what]
    output = subprocess.run(
        command, env=os.environ | {"NUMBA_CACHE_DIR": directory}, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    lines = (line.removeprefix(_MARK).split(maxsplit=1) for line in output.splitlines() if line.startswith(_MARK))
    return {call: tier for tier, call in lines}


_MARK = "kernel: "


def _print(what: str) -> None:
    """Run the exercises, and print each specialisation when it is first compiled, or called by Python."""
    from numba.core import event
    from numba.core.dispatcher import Dispatcher
    from tests.support.exercises import EXERCISES

    import manylabel_core.compiled as compiling

    seen: set[str] = set()
    tier = TIERS[0]

    def show(dispatcher: Any, types: tuple[Any, ...]) -> None:
        function = dispatcher.py_func
        if function.__module__.startswith(ROOT) and "<locals>" not in function.__qualname__:
            call = call_of(function, types)
            if call not in seen:
                seen.add(call)
                sys.stdout.write(f"{_MARK}{tier} {call}\n")

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            pass

        def on_end(self, event: Any) -> None:
            show(event.data["dispatcher"], event.data["args"])

    if what == "compiled":
        compiling.SHIPPED = Path("/nonexistent")  # what came with the package is compiled here too
        event.register("numba:compile", Listener())
    for tier in TIERS:
        EXERCISES[tier]()
        if what == "called":
            for module in [each for name, each in sys.modules.items() if name.startswith(ROOT)]:
                for each in vars(module).values():
                    if isinstance(each, Dispatcher):
                        for types in each.overloads:
                            show(each, types)


if __name__ == "__main__":
    if sys.argv[1] == "--":
        _print(sys.argv[2])
    else:
        Path(sys.argv[1]).write_text(listed())
