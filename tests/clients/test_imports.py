"""Imports of the clients are light: none loads a library that it does not need."""

import subprocess
import sys

import pytest
from tests.support.cases import for_each

pytestmark = pytest.mark.usefixtures("programs")

HEAVY = {
    *("numpy", "scipy", "numba", "matplotlib", "sklearn", "fastapi", "pydantic", "river"),
    *("manylabel_core", "manylabel_service"),
}

CLIENT = """
import httpx2
import manylabel_clients as ml

def respond(request):
    return httpx2.Response(200, json={"position": "1", "updates": 1})

with ml.Client(transport=httpx2.MockTransport(respond)) as client:
    client.model("m").update({"a": 1}, ["b"])
"""
HELP = """
import contextlib, sys
sys.argv = ["manylabel", "--help"]
from manylabel_clients.command import main
with contextlib.suppress(SystemExit):
    main()
"""


@for_each(
    ("code", "unwanted"),
    [
        (CLIENT, {*HEAVY, "rich", "typer", "asyncio"}),
        (HELP, HEAVY),
        ("import manylabel_clients.plots", {"matplotlib", "numba"}),
        ("import manylabel_clients.river", {"numba", "fastapi", "rich", "sklearn"}),
    ],
    ids=["client", "help", "plots", "river"],
)
def test_no_unneeded_library_is_loaded(code: str, unwanted: set[str]) -> None:
    report = 'import sys; print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)'
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "manylabel_clients" in loaded
    assert loaded & unwanted == set()


def test_names_that_are_loaded_on_first_use_are_listed() -> None:
    import manylabel_clients

    assert {"Client", "Model", "Retry"} <= set(dir(manylabel_clients))
    scope: dict[str, object] = {}
    exec("from manylabel_clients import *", scope)
    assert scope["Client"] is manylabel_clients.Client
