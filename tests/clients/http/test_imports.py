"""The HTTP client is light: importing it, or using it, loads nothing of learners, server or event loops."""

import subprocess
import sys

HEAVY = (
    "numpy",
    "scipy",
    "numba",
    "matplotlib",
    "sklearn",
    "fastapi",
    "pydantic",
    "river",
    "rich",
    "typer",
    "asyncio",
    "manylabel_core",
)

CODE = f"""
import sys
import httpx2
import manylabel_clients as ml

def answer(request):
    return httpx2.Response(200, json={{"position": "1", "updates": 1, "durability": "log"}})

with ml.Client(transport=httpx2.MockTransport(answer)) as client:
    client.model("m").update({{"a": 1}}, ["b"])
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(sorted(loaded & {set(HEAVY)!r}), "manylabel_service" in loaded)
"""


def test_the_client_loads_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"
