"""Training jobs that are long enough for faults, seen over HTTP and in the list of processes."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx2
import numpy as np
from tests.support.processes import TRAINER, processes
from tests.support.waiting import DEADLINE_SECONDS, eventually

FLAGS = ("--job-checkpoint-work", "1e8", "--job-niceness", "0", "--job-max-attempts", "9")
"""Checkpoints after a fraction of a second; normal priority, since no requests are served meanwhile."""
ITERATIONS = 10_000
"""Some seconds, and two dozen checkpoints."""
PATIENCE_SECONDS = 120.0
"""For what happens after all; nothing is measured with it."""

Job = Mapping[str, Any]


def data_set(rows: int = 1500, features: int = 60, labels: int = 8) -> bytes:
    """Labels that no line separates, as an NPZ file: a solver that is asked for a small gap has long to do."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((rows, features))
    Y = X @ rng.standard_normal((features, labels)) + 6.0 * rng.standard_normal((rows, labels)) > 0
    file = io.BytesIO()
    np.savez(file, X=X, Y=Y.astype(np.int8))
    return file.getvalue()


def job_request(model: str, iterations: int = ITERATIONS) -> dict[str, Any]:
    """Return a request for a job with this number of iterations in one fit: without thresholds there are no folds."""
    params = {"scaling": "none", "optimise": "none", "tol": 1e-10, "max_iter": iterations}
    return {"trainer": "m3l", "params": params, "data": {"dataset": "noise"}, "model": model, "promote": "always"}


@dataclass
class JobClient:
    """A client keeps asking its server while that is away.

    Attributes
    ----------
    seen : of every job, the checkpoints it was seen with, each change.
    http : connections.
    """

    url: str
    seen: dict[str, list[int]] = field(default_factory=dict)
    http: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=DEADLINE_SECONDS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def upload(self) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        self.call("POST", "/v1/datasets?name=noise&format=npz", content=data_set(), headers=headers)

    def submit(self, body: Mapping[str, Any], key: str | None = None) -> str:
        headers = {} if key is None else {"Idempotency-Key": key}
        return str(self.call("POST", "/v1/jobs", json=body, headers=headers).json()["id"])

    def job(self, id: str) -> Job:
        job: Job = self.call("GET", f"/v1/jobs/{id}").json()
        seen = self.seen.setdefault(id, [0])
        if (at := checkpoint(job)) and at != seen[-1]:
            seen.append(at)
        return job

    def until(self, id: str, holds: Callable[[Job], bool]) -> Job:
        def reached() -> Job | None:
            job = self.job(id)
            if holds(job):
                return job
            assert job["state"] in ("queued", "running"), job
            return None

        return eventually(reached, PATIENCE_SECONDS, otherwise=lambda: str(self.job(id)))

    def ended(self, id: str) -> Job:
        job = self.until(id, lambda job: job["state"] not in ("queued", "running"))
        assert job["state"] == "succeeded", job
        return job

    def checkpointed(self, id: str) -> Job:
        """The job once it can go on from a checkpoint, or from a later one."""
        before = checkpoint(self.job(id))
        return self.until(id, lambda job: job["state"] == "running" and checkpoint(job) > before)

    def version(self, model: str, number: int = 1) -> bytes:
        return self.call("GET", f"/v1/models/{model}/versions/{number}").content

    def versions(self, model: str) -> list[Job]:
        return list(self.call("GET", f"/v1/models/{model}/versions").json()["versions"])

    def log(self, id: str) -> str:
        return "\n".join(line["text"] for line in self.call("GET", f"/v1/jobs/{id}/log").json()["lines"])

    def call(self, method: str, path: str, **parts: Any) -> httpx2.Response:
        """Return the answer to a request, which is repeated while the server, or its store, is away."""

        def answered() -> httpx2.Response | None:
            answer = self.http.request(method, f"{self.url}{path}", **parts)
            if answer.status_code == 503:
                return None
            assert answer.status_code < 300, answer.text
            return answer

        return eventually(answered, PATIENCE_SECONDS, ignore=httpx2.TransportError)


def checkpoint(job: Job) -> int:
    """The iteration that a job would go on from; 0 for the beginning."""
    return int((job["progress"] or {}).get("checkpoint") or 0)


def assert_never_back(client: JobClient, id: str) -> None:
    """A checkpoint is never lost: the checkpoints seen never go down."""
    assert client.seen[id] == sorted(client.seen[id])


def children(data_dir: Path) -> set[int]:
    """Return the training processes of the server or worker with a data directory."""
    return processes(TRAINER, directory=data_dir)


def child_of(data_dir: Path) -> int:
    """Return the only one, once it is there."""

    def only() -> set[int] | None:
        found = children(data_dir)
        return found if len(found) == 1 else None

    (child,) = eventually(only, PATIENCE_SECONDS)
    return child
