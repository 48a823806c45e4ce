"""Versions that another process publishes, and servers that hear of it by themselves."""

import asyncio
import http.client
import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_service.settings import Settings
from manylabel_service.storage import Address
from manylabel_service.storage.redis import RedisStore
from manylabel_service.trained.publishing import publish

WATCH_SECONDS = 30


@pytest.fixture
def put(redis_server: Any, meta_of: Any) -> Callable[..., int]:
    """Publish as a worker on another machine does."""

    def make(version: Any, job: str) -> int:
        async def run() -> int:
            store = RedisStore(Address.parse(redis_server.url), timeout_seconds=DEADLINE_SECONDS)
            await store.open()
            try:
                return await publish(store, Settings(), "m", version.contents, meta_of(job), promote="always")
            finally:
                await store.close()

        return asyncio.run(run())

    return make


def call(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WATCH_SECONDS) as answer:
        return json.load(answer)


def events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    kind = ""
    for raw in answer:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


def test_a_server_serves_what_a_worker_publishes(
    redis_server: Any, server_process: Callable[..., Any], put: Callable[..., int], one: Any, two: Any
) -> None:
    with server_process("--store", redis_server.url) as server:
        server.start()
        model = f"{server.url}/v1/models/m"
        assert put(one, "job-1") == 1
        assert call(model)["version"] == 1
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=WATCH_SECONDS)) as connection:
            connection.request("GET", "/v1/models/m/events")
            answer = connection.getresponse()
            assert answer.status == 200
            told = events(answer)
            assert put(two, "job-2") == 2
            kind, data = next(told)
            assert (kind, data["version"], data["previous"]) == ("promoted", 2, 1)
            predicted = call(f"{model}/predict", {"examples": [{"x": row} for row in two.X.tolist()]})
            assert predicted["position"] == data["position"]
            assert [list(p["scores"].values()) for p in predicted["predictions"]] == two.scores(two.X)
            back = call(f"{model}/promote", {"version": 1})
            assert next(told) == ("promoted", {"position": back["position"], "version": 1, "previous": 2})
        predicted = call(f"{model}/predict?at_least={back['position']}", {"x": one.X[0].tolist()})
        assert list(predicted["scores"].values()) == one.scores(one.X[:1])[0]


def test_measures_outlive_kills_and_are_alike_everywhere(
    redis_server: Any, server_process: Callable[..., Any], put: Callable[..., int], one: Any, two: Any
) -> None:
    """Each answer counts for the version that gave it, wherever it was given and wherever its labels came."""
    put(one, "job-1")
    flags = ("--store", redis_server.url, "--snapshot-every-updates", "10")
    with server_process(*flags) as a, server_process(*flags) as b:
        a.start(), b.start()
        due: dict[int, Any] = {}
        past: dict[int, Any] = {}
        for version, trained in ((1, one), (2, two)):
            if version == 2:
                put(two, "job-2")
            for turn, row in enumerate(trained.X[:30].tolist()):
                here, there = (a, b) if turn % 2 else (b, a)
                position = call(f"{here.url}/v1/models/m/versions")["versions"][0]["position"]
                path = f"/v1/models/m/predict?keep=true&at_least={position}"
                kept = call(here.url + path, {"x": row})
                told = {"id": kept["id"], "y": [*kept["labels"][turn % 2 :], "unheard of"]}
                receipt = call(f"{there.url}/v1/models/m/labels", told)
                if turn == 15:
                    there.kill()
                    there.start()
            assert receipt["updates"] == 30 * version
            due[version] = eventually_alike(a, b, f"/v1/models/m/metrics?version={version}")
            assert (due[version]["updates"], due[version]["cumulative"]["examples"]) == (30, 30)
            past[version] = eventually_alike(a, b, f"/v1/models/m/metrics/history?version={version}&label=unheard+of")
            assert (past[version]["version"], past[version]["examples"]) == (version, list(range(1, 31)))
            assert past[version]["window"]["micro_f1"][-1] == due[version]["window"]["micro_f1"]
            assert past[version]["labels"]["unheard of"]["cumulative"]["recall"] == [0.0] * 30
        for version in (1, 2):
            again = eventually_alike(a, b, f"/v1/models/m/metrics?version={version}")
            assert {**again, "position": ""} == {**due[version], "position": ""}
            again = eventually_alike(a, b, f"/v1/models/m/metrics/history?version={version}&label=unheard+of")
            assert {**again, "position": ""} == {**past[version], "position": ""}
        eventually_alike(a, b, "/v1/models/m/labels?version=1")


def eventually_alike(a: Any, b: Any, path: str) -> Any:
    eventually(lambda: call(a.url + path) == call(b.url + path))
    return call(a.url + path)
