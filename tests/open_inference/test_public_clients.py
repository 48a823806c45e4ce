"""The public clients of Triton and KServe get the scores of predict.

`make test-open-inference` installs them into an environment of their own and runs this.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from tests.support.waiting import DEADLINE_SECONDS

PYTHON = os.environ.get("MANYLABEL_TEST_INFERENCE_CLIENTS", ".venv-open-inference/bin/python")
SCRIPT = Path(__file__).with_name("public_clients.py")
ASKED: dict[str, list[Any]] = {
    "dense": [[0.5, -1.0, 2.0], [1.0, 0.25, 0.0]],
    "texts": ["a fox", {"title": "fox"}],
}

pytestmark = pytest.mark.open_inference


@pytest.mark.parametrize(("client", "calls_of_a_model"), [("triton", 4), ("kserve", 2)])
def test_public_clients_get_the_scores_of_predict(
    server_process: Callable[..., Any], client: str, calls_of_a_model: int
) -> None:
    with server_process() as server, httpx2.Client(base_url=server.start().url, timeout=DEADLINE_SECONDS) as http:
        for name, more in (("dense", {"features": 3, "labels": ["rock", "jazz", "pop"]}), ("texts", {})):
            http.post("/v1/models", json={"name": name, "algorithm": "falt", **more}).raise_for_status()
            examples = [{"x": x, "y": ["jazz"]} for x in ASKED[name]]
            http.post(f"/v1/models/{name}/update", json={"examples": examples}).raise_for_status()
        run = subprocess.run([PYTHON, SCRIPT, client, server.url], capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stderr
        found = [json.loads(line) for line in run.stdout.splitlines()]
        for name, xs in ASKED.items():
            body = {"examples": [{"x": x} for x in xs]}
            predictions = http.post(f"/v1/models/{name}/predict", json=body).json()["predictions"]
            due = np.array([list(each["scores"].values()) for each in predictions]).astype(np.float32)
            mine, found = found[:calls_of_a_model], found[calls_of_a_model:]
            assert len(mine) == calls_of_a_model
            for each in mine:
                assert np.array_equal(np.array(each["scores"], dtype=np.float32), due)
                assert each["labels"] == [prediction["labels"] for prediction in predictions]
        assert not found
