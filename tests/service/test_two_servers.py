"""Two servers on one Redis: a change on one reaches the other, even if that makes a change itself."""

import asyncio
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.service.conftest import Serve
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_core.batch import M3L
from manylabel_service.settings import Settings
from manylabel_service.storage import Address, collection
from manylabel_service.storage.redis import RedisStore
from manylabel_service.trained.artifact import Convergence, ModelArtifact
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version import VersionMeta


class Pair(NamedTuple):
    """Clients of two servers on one store."""

    here: TestClient
    there: TestClient
    address: str


@pytest.fixture(scope="module")
def pair(serve: Serve, shared_redis: Callable[[], str]) -> Iterator[Pair]:
    settings = {"store": shared_redis(), "job_slots": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "WHOLE_SECONDS", inf)  # a poll of everything would find what is hidden
        with serve(**settings) as here, serve(**settings) as there:
            yield Pair(here, there, settings["store"])


def do(server: TestClient, method: str, path: str, **content: Any) -> Any:
    """Return the document of an answer that must be a success."""
    answer = server.request(method, path, **content)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def test_positions_reported_by_another_server_are_seen(pair: Pair) -> None:
    for server, name in ((pair.there, "there"), (pair.here, "here")):
        do(server, "POST", "/v1/models", json={"name": name, "algorithm": "falt"})
        position = do(server, "POST", f"/v1/models/{name}/update", json={"x": [1.0], "y": ["a"]})["position"]
        for other in (pair.here, pair.there):
            eventually(lambda name=name, at=position, ask=other: at in reported_positions(ask, name))


def reported_positions(server: TestClient, model: str) -> list[str]:
    """Return the positions of a model that the members of a store tell."""
    members = do(server, "GET", "/v1/replicas")["replicas"]
    return [member["models"][model] for member in members if model in member["models"]]


def test_a_version_promoted_by_another_server_is_served(pair: Pair) -> None:
    names = ["one", "two"]
    asyncio.run(publish_versions(pair.address, names))
    wait_until_served(pair, names, 2)
    for version in (1, 2):  # the second time, both servers have looked for changes before
        do(pair.there, "POST", f"/v1/models/{names[0]}/promote", json={"version": version})
        do(pair.here, "POST", f"/v1/models/{names[1]}/promote", json={"version": version})
        wait_until_served(pair, names, version)


def wait_until_served(pair: Pair, models: list[str], version: int) -> None:
    for server in (pair.here, pair.there):
        for name in models:
            eventually(lambda ask=server, name=name: version_served(ask, name) == version)


def version_served(server: TestClient, model: str) -> int:
    version: int = do(server, "GET", f"/v1/models/{model}")["version"]
    return version


async def publish_versions(address: str, models: list[str]) -> None:
    """Publish two versions of each model, as a training worker does, and promote the second."""
    store = RedisStore(Address.parse(address), timeout_seconds=DEADLINE_SECONDS)
    await store.open()
    try:
        for model in models:
            for job in ("job-1", "job-2"):
                await publish(store, Settings(), model, contents(), meta(job), promote=True)
    finally:
        await store.close()


def contents() -> bytes:
    """Return the artifact of a version."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2)).astype(np.float32)
    fitted = M3L(tol=0.1).fit(X, (X > 0).astype(int))
    trace = Convergence([1], [1.0], [0.1], [0.1])
    return ModelArtifact(fitted.to_bytes(), ("a", "b"), {"x": ("v", "w")}, {}, trace).to_bytes()


def meta(job: str) -> VersionMeta:
    return VersionMeta(job, "m3l", {}, 20, None, 1_700_000_000_000)


def test_datasets_and_jobs_changed_by_another_server_are_seen(pair: Pair) -> None:
    changes = [(pair.there, "set-there"), (pair.here, "set-here")]
    names = {name for _, name in changes}
    rows = b"x,y,a,b\n" + b"".join(b"%d,%d,%d,%d\n" % (n, -n, n % 2, n % 3 == 0) for n in range(20))
    for server, name in changes:
        path = f"/v1/datasets?name={name}&format=csv&label_columns=2"
        do(server, "POST", path, content=rows, headers={"Content-Type": "text/csv"})
    assert all(names <= datasets(server) for server in (pair.here, pair.there))
    jobs = []
    for server, name in changes:
        asked = {"trainer": "m3l", "data": {"dataset": name}, "model": name}
        jobs.append(do(server, "POST", "/v1/jobs", json=asked)["id"])
    for (server, _), job in zip(changes, jobs, strict=True):
        do(server, "DELETE", f"/v1/jobs/{job}")
    for server in (pair.here, pair.there):
        states = {job["id"]: job["state"] for job in do(server, "GET", "/v1/jobs")["jobs"]}
        assert [states[id] for id in jobs] == ["cancelled", "cancelled"]
    for server, name in changes:
        do(server, "DELETE", f"/v1/datasets/{name}")
    assert not any(names & datasets(server) for server in (pair.here, pair.there))


def datasets(server: TestClient) -> set[str]:
    return {dataset["name"] for dataset in do(server, "GET", "/v1/datasets")["datasets"]}
