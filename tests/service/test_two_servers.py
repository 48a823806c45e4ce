"""Two servers on one Redis: a change on one reaches the other, however soon the other makes a change of its own."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.server_process import ServerProcess
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_core.batch import M3L
from manylabel_service.settings import Settings
from manylabel_service.storage import Address
from manylabel_service.storage.redis import RedisStore
from manylabel_service.trained.artifact import Convergence, ModelArtifact
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version import VersionMeta

LEARN = {"x": [1.0], "y": ["a"]}


class Server(NamedTuple):
    """A server, and the key that opens it."""

    url: str
    key: str

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
        """Return the status of an answer, and its document."""
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        shown = self.key if key is None else key
        headers = {"Content-Type": "application/json", **({"api-key": shown} if shown else {})}
        request = urllib.request.Request(f"{self.url}{path}", content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def do(self, method: str, path: str, body: Any = None) -> Any:
        """Return the document of an answer that must be a success."""
        status, document = self.ask(method, path, body)
        assert status < 300, document
        return document

    def opens(self, key: str) -> bool:
        return self.ask("GET", "/v1/models", key=key)[0] == 200


class Pair(NamedTuple):
    """Two servers on one store."""

    here: Server
    there: Server
    address: str


@pytest.fixture(scope="module")
def pair(shared_redis: Callable[[], str], server_process: Callable[..., ServerProcess]) -> Iterator[Pair]:
    address = shared_redis()
    flags = ("--store", address, "--job-slots", "0")
    with server_process(*flags).start(wait=False) as one, server_process(*flags).start() as two:
        one.wait_ready()
        key = Server(one.url, "").do("POST", "/v1/keys", {"name": "first", "scopes": ["admin"]})["key"]
        here, there = Server(one.url, key), Server(two.url, key)
        eventually(lambda: not there.opens("") and there.opens(key))
        yield Pair(here, there, address)


def test_a_member_that_changes_there(pair: Pair) -> None:
    names = ["there", "here"]
    for server, name in zip((pair.there, pair.here), names, strict=True):
        server.do("POST", "/v1/models", {"name": name, "algorithm": "falt"})
        position = server.do("POST", f"/v1/models/{name}/update", LEARN)["position"]
        for other in (pair.here, pair.there):
            eventually(lambda name=name, at=position, ask=other: at in positions_told(ask, name))


def positions_told(server: Server, model: str) -> list[str]:
    """Return the positions of a model that the members of a store tell."""
    members = server.do("GET", "/v1/replicas")["replicas"]
    return [member["models"][model] for member in members if model in member["models"]]


def test_a_version_that_is_promoted_there(pair: Pair) -> None:
    names = ["one", "two"]
    asyncio.run(publish_versions(pair.address, names))
    for server in pair[:2]:
        for name in names:
            eventually(lambda ask=server, name=name: version_served(ask, name) == 2)
    pair.there.do("POST", f"/v1/models/{names[0]}/promote", {"version": 1})
    pair.here.do("POST", f"/v1/models/{names[1]}/promote", {"version": 1})
    eventually(lambda: version_served(pair.here, names[0]) == 1)
    eventually(lambda: version_served(pair.there, names[1]) == 1)


def version_served(server: Server, model: str) -> int:
    version: int = server.do("GET", f"/v1/models/{model}")["version"]
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


def test_a_data_set_and_a_job_that_change_there(pair: Pair) -> None:
    names = ["set-there", "set-here"]
    rows = b"x,y,a,b\n" + b"".join(b"%d,%d,%d,%d\n" % (n, -n, n % 2, n % 3 == 0) for n in range(20))
    jobs = []
    for server, name in zip((pair.there, pair.here), names, strict=True):
        upload(server, name, rows)
    for server in (pair.here, pair.there):
        there_are = {dataset["name"] for dataset in server.do("GET", "/v1/datasets")["datasets"]}
        assert set(names) <= there_are
    for server, name in zip((pair.there, pair.here), names, strict=True):
        jobs.append(server.do("POST", "/v1/jobs", {"trainer": "m3l", "data": {"dataset": name}, "model": name})["id"])
    pair.there.do("DELETE", f"/v1/jobs/{jobs[0]}")
    pair.here.do("DELETE", f"/v1/jobs/{jobs[1]}")
    for server in (pair.here, pair.there):
        states = {job["id"]: job["state"] for job in server.do("GET", "/v1/jobs")["jobs"]}
        assert [states[id] for id in jobs] == ["cancelled", "cancelled"]
    pair.there.do("DELETE", f"/v1/datasets/{names[0]}")
    pair.here.do("DELETE", f"/v1/datasets/{names[1]}")
    for server in (pair.here, pair.there):
        assert not set(names) & {dataset["name"] for dataset in server.do("GET", "/v1/datasets")["datasets"]}


def upload(server: Server, name: str, rows: bytes) -> None:
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "text/csv"}
    path = f"{server.url}/v1/datasets?name={name}&format=csv&label_columns=2"
    with urllib.request.urlopen(urllib.request.Request(path, rows, headers), timeout=DEADLINE_SECONDS) as answer:
        assert answer.status == 201
