"""Versions that another process publishes, and servers that hear of it by themselves."""

import asyncio
import http.client
import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_service.settings import Settings
from manylabel_service.storage import Address
from manylabel_service.storage.redis import RedisStore
from manylabel_service.trained.publishing import publish

WATCH_SECONDS = 600


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
