"""A job of the deployment, whose worker is killed."""

import http.client
import json
import random
from collections.abc import Callable
from typing import Any

from tests.deployment.users import example
from tests.support.waiting import eventually

PATIENCE_SECONDS = 300.0
ROWS = 2_000
SLOW = {"scaling": "none", "optimise": "none", "C": 1e5, "tol": 1e-9, "max_iter": 40_000}
"""Parameters of m3l for some 10 seconds on one core, with checkpoints on the way."""


class Job:
    """A job, submitted through the balancer, and the data that it learns from.

    Parameters
    ----------
    port : of the balancer, on this machine.
    key : sent with every request.
    model : whose first version it makes.
    """

    def __init__(self, port: int, key: str, model: str) -> None:
        self._port, self._key = port, key
        source = random.Random(model)
        rows = [dict(zip("xy", example(source), strict=True)) for _ in range(ROWS)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        self._ask("POST", f"/v1/datasets?name={model}&format=ndjson", lines, "application/x-ndjson")
        order = {"trainer": "m3l", "params": SLOW, "data": {"dataset": model}, "model": model, "promote": "always"}
        self._path = f"/v1/jobs/{self._ask('POST', '/v1/jobs', json.dumps(order))['id']}"

    def wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until what is told of it is as wanted; return that."""

        def reached() -> dict[str, Any] | None:
            job: dict[str, Any] = self._ask("GET", self._path)
            if wanted(job):
                return job
            if job["state"] not in ("queued", "running"):
                raise RuntimeError(f"the job did not get there: {job}")
            return None

        return eventually(reached, PATIENCE_SECONDS)

    def _ask(self, method: str, path: str, body: str | None = None, kind: str = "application/json") -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": kind, "Authorization": f"Bearer {self._key}"})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status not in (200, 201, 202):
            raise RuntimeError(f"{method} {path}: {answer.status} {text}")
        return json.loads(text)


def has_checkpoint(job: dict[str, Any]) -> bool:
    """Return whether the job would resume if its worker died."""
    return job["state"] == "running" and (job["progress"] or {}).get("checkpoint") not in (None, 0)


def has_succeeded(job: dict[str, Any]) -> bool:
    """Its model is there."""
    return bool(job["state"] == "succeeded")
