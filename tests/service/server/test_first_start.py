"""A server that has to compile its functions first listens at once, and says how far it is."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.processes import COMPILER, has_ended, processes
from tests.support.waiting import eventually


def test_a_killed_server_that_was_compiling_leaves_no_process(
    server_process: Callable[..., Any], tmp_path: Path
) -> None:
    server = server_process(environment={"NUMBA_CACHE_DIR": str(tmp_path / "numba")}, fresh=True).start(wait=False)

    def problem() -> Any:
        try:
            urllib.request.urlopen(f"{server.url}/readyz", timeout=60).close()
        except urllib.error.HTTPError as error:
            document = json.load(error)
            return document if "compiling" in document else None
        except urllib.error.URLError:  # not listening yet
            return None
        return pytest.fail("the server is ready without its functions")

    document = eventually(problem, 120.0)
    with urllib.request.urlopen(f"{server.url}/livez", timeout=60) as answer:
        assert answer.status == 200
    assert (document["status"], document["code"]) == (503, "not_ready")
    assert "functions for all models are being compiled" in document["detail"]
    assert 0 <= document["compiling"]["done"] < document["compiling"]["total"]
    compilers = eventually(lambda: processes(COMPILER, ancestor=server.pid), 120.0)
    server.kill()
    if sys.platform == "linux":
        eventually(lambda: all(map(has_ended, compilers)))
