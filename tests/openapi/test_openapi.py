"""No 5xx, and no response outside the description, for valid and invalid requests of schemathesis.

`make test-openapi` installs it into an environment of its own and runs this; MANYLABEL_TEST_MINUTES says for how long a
store is tried.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

BIN = Path(os.environ.get("MANYLABEL_TEST_OPENAPI", ".venv-openapi/bin"))
SECONDS = 60 * float(os.environ.get("MANYLABEL_TEST_MINUTES", "20"))
ROWS = "a,b,red,round\n" + "".join(f"{i % 5},{i % 3},{i % 2},{int(i % 3 == 0)}\n" for i in range(60))

pytestmark = pytest.mark.openapi


@pytest.fixture(params=["sqlite", "redis"])
def server(
    request: pytest.FixtureRequest, server_process: Callable[..., ServerProcess], new_redis: Callable[..., Any]
) -> Iterator[ServerProcess]:
    flags = ["--store", new_redis().start().url] if request.param == "redis" else []
    with server_process(*flags, "--log-level", "warning").start() as server:
        yield server


def known_to(url: str) -> dict[str, list[str]]:
    """Make online models, a trained model and a dataset; return their path parameters."""
    with httpx2.Client(base_url=url, timeout=60) as client:

        def sent(method: str, path: str, **how: Any) -> Any:
            answer = client.request(method, path, **how)
            assert answer.status_code < 300, answer.text
            return answer.json()

        sent("POST", "/v1/models", json={"name": "online", "algorithm": "falt"})
        sent("POST", "/v1/models", json={"name": "kernel", "algorithm": "kernel_falt"})
        for name in ("online", "kernel"):
            examples = [{"x": {"a": i % 5, "b": i % 3}, "y": ["red"] if i % 2 else ["round"]} for i in range(60)]
            sent("POST", f"/v1/models/{name}/update", json={"examples": examples})
        position = sent("POST", "/v1/models/online/snapshots")["position"]
        sent(
            "POST",
            "/v1/datasets",
            params={"name": "rows", "format": "csv", "label_columns": "red,round"},
            content=ROWS,
            headers={"content-type": "text/csv"},
        )
        order = {"trainer": "m3l", "data": {"dataset": "rows"}, "model": "trained"}
        job = sent("POST", "/v1/jobs", json=order)["id"]
        eventually(lambda: sent("GET", f"/v1/jobs/{job}")["state"] == "succeeded", 120)
    names = ["online", "kernel", "trained"]
    return {"name": names, "dataset": ["rows"], "position": [position], "id": [job], "version": ["1"]}


def test_every_response_fits_the_description(server: ServerProcess, tmp_path: Path) -> None:
    command = [
        BIN.resolve() / "schemathesis", "--no-color", "--config-file", Path(__file__).with_name("schemathesis.toml"),
        "run", f"{server.url}/openapi.json",
        "--max-time", f"{SECONDS:.0f}",
    ]  # fmt: skip
    known = json.dumps(known_to(server.url))
    environment = {
        **os.environ,
        "MANYLABEL_TEST_KNOWN": known,
        "SCHEMATHESIS_HOOKS": "hooks",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    done = subprocess.run(
        [*map(str, command)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=2 * SECONDS + 300
    )
    assert done.returncode == 0, done.stdout[-30_000:] + done.stderr[-2_000:]
    assert server.is_ready(), server.log_tail()


def test_a_client_can_be_generated(server: ServerProcess, tmp_path: Path) -> None:
    """A client from openapi-python-client covers all calls; it creates a model, updates it and predicts."""
    config = Path(__file__).with_name("config.yaml")
    made = run(tmp_path, "openapi-python-client", "generate", "--url", f"{server.url}/openapi.json", "--config", config)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "WARNING" not in made.stdout + made.stderr
    used = run(tmp_path / "many-label-client", "python", "-c", USE, server.url)
    assert (used.returncode, used.stdout) == (0, "['red'] ['online']\n"), used.stderr


USE = """
import sys
from many_label_client import Client, models
from many_label_client.api.learning import predict, update
from many_label_client.api.models import create_model, list_models

client = Client(sys.argv[1], raise_on_unexpected_status=True)
create_model.sync(client=client, body=models.ModelRequest.from_dict({"name": "online", "algorithm": "falt"}))
example = {"x": {"a": 1.0}, "y": ["red"]}
for _ in range(5):
    update.sync("online", client=client, body=models.UpdateItem.from_dict(example))
answer = predict.sync("online", client=client, body=models.PredictRequest.from_dict({"x": {"a": 1.0}}))
print(answer.labels, [model.name for model in list_models.sync(client=client).models])
"""


def run(directory: Path, program: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PATH": f"{BIN.resolve()}:{os.environ['PATH']}"}
    return subprocess.run(
        [BIN.resolve() / program, *map(str, arguments)],
        cwd=directory, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
