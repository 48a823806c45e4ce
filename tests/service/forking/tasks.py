"""Tasks for children, chosen by the first argument."""

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str], files: Sequence[int]) -> int:
    match arguments[0]:
        case "tell":
            facts = {
                "descriptors": {int(name): os.readlink(f"/proc/self/fd/{name}") for name in _descriptors()},
                "files": list(files),
                "input": os.fdopen(0, closefd=False).read(),
                "threads": [os.environ["OPENBLAS_NUM_THREADS"], _blas_threads()],
                "parent": os.getppid(),
            }
            sys.stdout.write(json.dumps(facts))
            sys.stderr.write("an error\n")
            return 7
        case "write":
            os.write(files[0], b"written")
            return 0
        case "raise":
            raise ZeroDivisionError("an unexpected error")
        case "wait":
            os.write(1, b"waits\n")
            threading.Event().wait()
    return 1


def _descriptors() -> list[str]:
    return [name for name in os.listdir("/proc/self/fd") if Path(f"/proc/self/fd/{name}").exists()]


def _blas_threads() -> list[int]:
    from threadpoolctl import threadpool_info

    return sorted({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})
