"""Two releases over one Redis, under load: no call fails, nothing is lost, and all compute the same bits."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.faults.log_oracle import LogReader, replay
from tests.support.balancer import Balancer
from tests.support.other_release import at_commit, copied
from tests.support.stores import opened
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_clients import AsyncClient
from manylabel_core.state import State
from manylabel_service.errors import StoreTooNew
from manylabel_service.release import RELEASE
from manylabel_service.storage import gate

CLIENTS = 3
SPEC = {"name": "tags", "algorithm": "falt"}
FLAGS = ("--snapshot-every-updates", "60")
KNOWS_MORE = {
    "release.py": ('RELEASE = version("manylabel")\n\nFORMAT = 1', 'RELEASE = "next"\n\nFORMAT = 2'),
}
ONE_MORE_FIELD = {
    "storage/collection.py": ("    release: str = RELEASE\n", '    release: str = RELEASE\n    later: str = "kept"\n'),
    "release.py": ('RELEASE = version("manylabel")', 'RELEASE = "next"'),
}
"""It writes one more field in each kind of document."""
WRITTEN_BY_BOTH = {"history", "job-claims", "jobs", "key", "lineages", "snapshots", "webhook-states", "webhooks"}
"""Kinds of documents that a release changes after another has made them."""
JOB = {"trainer": "m3l", "data": {"dataset": "rows"}, "model": "other"}
LEARNS_OTHERWISE = {
    "online/state/log_entries.py": (
        'values=np.frombuffer(values, dtype="<f4")',
        'values=np.frombuffer(values, dtype="<f4") * 1.0000001',
    ),
}
"""The last bits of values that are read from the log."""
Start = Callable[..., Any]


class Traffic:
    """Clients that learn and predict, and count on every call to be answered."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = asyncio.Event()
        self.acknowledged: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._run(number))
            try:
                yield
            finally:
                self._stop.set()

    async def go_on(self, n_examples: int = 40) -> None:
        """Return after this number of further acknowledgements."""
        enough = len(self.acknowledged) + n_examples
        await eventually_async(lambda: len(self.acknowledged) >= enough)

    async def _run(self, number: int) -> None:
        serial = 0
        async with AsyncClient(self._url) as client:
            model = client.model(SPEC["name"])
            while not self._stop.is_set():
                serial += 1
                name, common = f"{number}.{serial}", f"common {serial % 20}"
                receipt = await model.update({name: 1.0, common: serial % 7 / 3}, [f"label {serial % 11 % 5}"])
                self.acknowledged[name] = receipt.position
                if serial % 4 == 0:
                    assert (await model.predict({common: 1.0}, at_least=receipt.position)).scores
                await asyncio.sleep(0.01)  # its pace: the machine has other things to do


async def asked(server: Any, path: str, status: int = 200) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=DEADLINE_SECONDS) as http:
        response = await http.get(path)
    assert response.status_code == status, response.text
    return dict(response.json())


async def own_state(server: Any, traffic: Traffic) -> tuple[str, bytes]:
    """The state of one server, at a position where it stored it."""
    async with AsyncClient(server.url) as client:
        model = client.model(SPEC["name"])
        name = f"{server.url} {len(traffic.acknowledged)}"
        traffic.acknowledged[name] = (await model.update({name: 1.0}, ["label 0"])).position
        position = (await model.take_snapshot()).position
        return position, await model.download_snapshot(position)


async def replace(server: Any, by: Any, balancer: Balancer, traffic: Traffic) -> None:
    """Upgrade as an orchestrator does: one server more, and when it is ready, one less."""
    if by is not None:
        await asyncio.to_thread(by.wait_ready)
        balancer.backends.append(by.port)
        await traffic.go_on()
    assert await asyncio.to_thread(server.stop) == 0
    await traffic.go_on()
    balancer.backends.remove(server.port)


async def _answers(server: Any, status: int, code: str) -> bool:
    """Return whether it answers so for the model; raises TransportError before it answers at all."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=DEADLINE_SECONDS) as http:
        response = await http.get(f"/v1/models/{SPEC['name']}")
    return (response.status_code, response.json()["code"]) == (status, code)


async def check(url: str, states: Sequence[tuple[str, bytes]], traffic: Traffic) -> None:
    """Each server's state at its position is the replayed log by this process."""
    async with opened(url) as store:
        (record,) = await store.models.all()
        reader = LogReader(store, record)
        await reader.read_to_end()
    replayed = await asyncio.to_thread(replay, record, reader.entries, [at for at, _ in states])
    for position, data in states:
        arrays, header = State.from_bytes(data)
        expected, expected_header = State.from_bytes(replayed.states[position])
        assert header == expected_header
        assert {name: a.tobytes() for name, a in arrays.items()} == {name: a.tobytes() for name, a in expected.items()}
    assert set(replayed.learnt.values()) == {1}, "learnt more than once, or never"
    assert {name: replayed.positions.get(name) for name in traffic.acknowledged} == traffic.acknowledged


@contextlib.asynccontextmanager
async def under_load(old: Sequence[Any]) -> AsyncIterator[tuple[Balancer, Traffic]]:
    """Servers that have learnt for a while, and go on learning."""
    for server in old:
        server.start(wait=False)
    for server in old:
        await asyncio.to_thread(server.wait_ready)
    async with httpx2.AsyncClient(base_url=old[0].url, timeout=DEADLINE_SECONDS) as http:
        (await http.post("/v1/models", json=SPEC)).raise_for_status()
    async with Balancer() as balancer:
        balancer.backends = [server.port for server in old]
        traffic = Traffic(balancer.url)
        async with traffic():
            await traffic.go_on(100)
            yield balancer, traffic


async def test_a_release_that_computes_other_states_is_refused(
    server_process: Start, redis_server: Any, tmp_path: Path
) -> None:
    flags = ("--store", redis_server.url)
    old = server_process(*flags).start()
    wrong = server_process(*flags, release=copied(tmp_path, LEARNS_OTHERWISE))
    async with AsyncClient(old.url) as client:
        model = await client.create_model(**SPEC)
        await model.update_many([({"a": i % 3, "b": 1.0}, ["x"] if i % 2 else ["y"]) for i in range(20)])
        await model.take_snapshot()
        wrong.start(wait=False)
        await eventually_async(lambda: _is_refused(wrong))
        await eventually_async(lambda: _answers(wrong, 503, "replay_mismatch"), ignore=httpx2.TransportError)
        assert (await model.update({"a": 1.0}, ["x"])).updates == 21
        told = await eventually_async(lambda: _withheld(client))
        assert (told[True].withheld, told[False].withheld) == ({}, {"tags": "replay_mismatch"})
        assert told[True].build != told[False].build
        assert await asyncio.to_thread(wrong.stop) == 0
        await eventually_async(lambda: _alone(client))


@pytest.mark.long
async def test_a_new_release_takes_over_unless_it_computes_other_states(
    server_process: Start, redis_server: Any, tmp_path: Path
) -> None:
    flags = ("--store", redis_server.url, *FLAGS)
    old, late = [server_process(*flags) for _ in range(2)], server_process(*flags)
    release = copied(tmp_path / "new", KNOWS_MORE)
    new = server_process(*flags, release=release)
    wrong = server_process(*flags, release=copied(tmp_path / "wrong", LEARNS_OTHERWISE))
    async with under_load(old) as (balancer, traffic):
        await own_state(old[0], traffic)
        for server in (wrong, new):
            server.start(wait=False)
        await eventually_async(lambda: _is_refused(wrong))
        await eventually_async(lambda: _answers(wrong, 503, "replay_mismatch"), ignore=httpx2.TransportError)
        assert await asyncio.to_thread(old[0].is_ready)
        assert await asyncio.to_thread(wrong.stop) == 0
        states = [await own_state(old[1], traffic)]
        await replace(old[0], new, balancer, traffic)
        states.append(await own_state(new, traffic))
        versions = await asked(new, "/v1/replicas")
        assert (versions["format"], {one["release"] for one in versions["replicas"]} >= {"next"}) == (1, True)
        await asyncio.to_thread(_upgrade, release, redis_server.url, 1)
        await replace(old[1], None, balancer, traffic)
        await asyncio.to_thread(_upgrade, release, redis_server.url, 0)
        await eventually_async(lambda: _uses(new, 2))
        await traffic.go_on()
        late.start(wait=False)
        assert await asyncio.to_thread(late.process.wait, 120) == 1
        assert "run the newer release" in late.log_tail()
        states.append(await own_state(new, traffic))
        url = redis_server.url
    with pytest.raises(StoreTooNew):
        await check(url, states, traffic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "FORMAT", 2)
        await check(url, states, traffic)
    assert "replay_agrees" in new.log.read_text()
    assert await asyncio.to_thread(new.stop) == 0


@pytest.mark.long
async def test_this_release_takes_over_from_the_commit_before(
    server_process: Start, redis_server: Any, tmp_path: Path
) -> None:
    release = at_commit(tmp_path, "HEAD~1")
    if release is None:
        pytest.skip("needs the previous commit, which a checkout without git history does not have")
    flags = ("--store", redis_server.url, *FLAGS)
    old = [server_process(*flags, release=release) for _ in range(2)]
    new = [server_process(*flags) for _ in range(2)]
    async with under_load(old) as (balancer, traffic):
        states = [await own_state(server, traffic) for server in old]
        for one, other in zip(old, new, strict=True):
            other.start(wait=False)
            await replace(one, other, balancer, traffic)
            states.append(await own_state(other, traffic))
        states += [await own_state(server, traffic) for server in new]
    await check(redis_server.url, states, traffic)
    for server in new:
        assert await asyncio.to_thread(server.stop) == 0


async def _alone(client: AsyncClient) -> bool:
    return len((await client.replicas()).replicas) == 1


async def _withheld(client: AsyncClient) -> dict[bool, Any]:
    """Return what both servers report of themselves, once the other one has reported what it withholds."""
    told = {one.this: one for one in (await client.replicas()).replicas}
    return told if False in told and told[False].withheld else {}  # a busy server is not listed for a while


async def _is_refused(server: Any) -> bool:
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=DEADLINE_SECONDS) as http:
            answer = (await http.get("/readyz")).json()
    except httpx2.TransportError:
        return False
    assert "ready" not in answer, "it must not get ready"
    return bool(answer["code"] == "replay_mismatch")


def _upgrade(release: Path, url: str, status: int) -> None:
    """Run the upgrade of the store by a release."""
    program = [sys.executable, "-m", "manylabel_service.models", "--store", url]
    environment = {**os.environ, "PYTHONPATH": str(release)}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr


async def _uses(server: Any, form: int) -> bool:
    return bool((await asked(server, "/v1/replicas"))["format"] == form)


@pytest.mark.long
async def test_two_releases_of_one_format_change_the_same_documents(
    server_process: Start, redis_server: Any, tmp_path: Path
) -> None:
    flags = ("--store", redis_server.url, *FLAGS, "--job-slots", "0", "--webhook-urls", "http://127.0.0.1:9")
    old = [server_process(*flags) for _ in range(2)]
    release = copied(tmp_path / "new", ONE_MORE_FIELD)
    new = [server_process(*flags, release=release) for _ in range(2)]
    async with under_load(old[:1]) as (balancer, traffic):
        await asyncio.to_thread(new[0].start)
        balancer.backends.append(new[0].port)
        await traffic.go_on()
        made = await _make_documents(new[0])
        await _change_documents(old[0], made)
        states = [await own_state(server, traffic) for server in (new[0], old[0], new[0], old[0])]
        await replace(old[0], None, balancer, traffic)  # the newer release leads, and writes what only the leader does
        await eventually_async(lambda: _written(redis_server.url, "webhook-states", "next"))
        old[1].start(wait=False)
        await asyncio.to_thread(old[1].wait_ready)
        balancer.backends.append(old[1].port)
        await _change_documents(old[1], made)
        states += [await own_state(server, traffic) for server in (new[0], old[1])]
        await replace(new[0], None, balancer, traffic)
        await eventually_async(lambda: _written(redis_server.url, "webhook-states", RELEASE))
        states.append(await own_state(old[1], traffic))
    found = await _documents(redis_server.url)
    httpx2.delete(f"{old[1].url}/v1/models/short").raise_for_status()
    await check(redis_server.url, states, traffic)
    await _try_keys(old[1], new[1].start())
    found["key"] = (await _documents(redis_server.url))["key"]
    for kind, documents in found.items():
        kept = {document.get("later") for document in documents if document["release"] == RELEASE}
        assert kept >= {"kept"}, f"no document of {kind} has the field of the newer release that the older one rewrote"
    for server in (old[1], new[1]):
        assert "damaged" not in server.log.read_text()
        assert "unreadable" not in server.log.read_text()
        assert await asyncio.to_thread(server.stop) == 0


async def _make_documents(server: Any) -> dict[str, str]:
    """Have a server store a document of each kind; return their ids."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=DEADLINE_SECONDS) as http:
        csv = {"Content-Type": "text/csv"}
        rows = "x,y,a,b\n" + "".join(f"{n},{-n},{n % 2},{int(n % 3 == 0)}\n" for n in range(20))
        path = "/v1/datasets?name=rows&format=csv&label_columns=2"
        (await http.post(path, content=rows, headers=csv)).raise_for_status()
        job = await http.post("/v1/jobs", json={"trainer": "m3l", "data": {"dataset": "rows"}, "model": "later"})
        hook = {"url": "http://127.0.0.1:9/", "events": ["label"], "models": ["*"]}
        webhook = await http.post("/v1/webhooks", json=hook)
        (await http.post("/v1/models", json={"name": "short", "algorithm": "falt"})).raise_for_status()
        await _forget_one(http)
        return {"job": job.raise_for_status().json()["id"], "webhook": webhook.raise_for_status().json()["id"]}


async def _change_documents(server: Any, made: dict[str, str]) -> None:
    """Have a server read and change what another has made."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=DEADLINE_SECONDS) as http:
        assert (await http.get("/v1/datasets/rows")).json()["rows"] == 20
        (await http.post("/v1/jobs", json=JOB)).raise_for_status()  # which changes the claims
        (await http.delete(f"/v1/jobs/{made['job']}")).raise_for_status()
        (await http.post(f"/v1/jobs/{made['job']}/retry")).raise_for_status()
        (await http.post(f"/v1/webhooks/{made['webhook']}/enable")).raise_for_status()
        await _forget_one(http)


async def _forget_one(http: httpx2.AsyncClient) -> None:
    path = "/v1/models/short"
    for n in range(2):
        learnt = await http.post(f"{path}/update", json={"x": {"a": n}, "y": ["l"]})
    begun = await http.post(f"{path}/forget", json={"positions": [learnt.raise_for_status().json()["position"]]})
    receipt = begun.raise_for_status().json()["id"]

    async def is_done() -> bool:
        return bool((await http.get(f"{path}/forget/{receipt}")).json()["status"] == "done")

    await eventually_async(is_done)


async def _try_keys(old: Any, new: Any) -> None:
    """Each release accepts, and changes, a key that the other has made or changed."""
    made = httpx2.post(f"{new.url}/v1/keys", json={"name": "one", "scopes": ["admin"]}).raise_for_status().json()
    by = {"api-key": made["key"]}
    for number, server in enumerate((old, new, old)):

        async def accepts(server: Any = server, number: int = number) -> bool:
            changed = {"note": f"changed {number}"}
            return httpx2.patch(f"{server.url}/v1/keys/{made['id']}", json=changed, headers=by).is_success

        await eventually_async(accepts)


async def _documents(url: str) -> dict[str, list[dict[str, Any]]]:
    async with opened(url) as store:
        found = {kind: await store.documents.all(kind) for kind in WRITTEN_BY_BOTH}
    return {kind: [json.loads(each.value) for each in documents] for kind, documents in found.items()}


async def _written(url: str, kind: str, release: str) -> bool:
    """Whether all documents of a kind were last written by a release."""
    async with opened(url) as store:
        return {json.loads(each.value)["release"] for each in await store.documents.all(kind)} == {release}
