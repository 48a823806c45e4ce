"""A reader that fails as the request says."""

import os
import resource
import signal
from collections.abc import Sequence
from typing import IO, Any

from manylabel_core.datasets import BadDataset
from manylabel_service.datasets.sandbox_child import serve_request


def main(arguments: Sequence[str], fds: Sequence[int]) -> int:
    return serve_request(read, fds)


def read(request: dict[str, Any], files: list[IO[bytes]]) -> dict[str, Any]:
    match request["how"]:
        case "bad":
            raise BadDataset("the third row is wrong")
        case "defect":
            raise ZeroDivisionError("nobody foresaw this")
        case "memory":
            raise MemoryError
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "time":
            resource.setrlimit(resource.RLIMIT_CPU, (1, 600))
            while True:
                pass
    return {}
