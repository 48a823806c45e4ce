"""The tools for agents, called with the public client of the Model Context Protocol against a real server."""

from __future__ import annotations

import gc
import random
import socket
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import uvicorn
from click.testing import CliRunner
from tests.support.cases import for_each
from tests.support.lazy import lazy
from tests.support.server_process import ServerProcess, free_port
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_clients import AsyncClient
from manylabel_clients.command.app import app

if TYPE_CHECKING:
    from mcp import Client
else:
    Client = lazy("mcp", "Client")
StdioServerParameters = lazy("mcp", "StdioServerParameters")
streamable_http_client = lazy("mcp.client.streamable_http", "streamable_http_client")
mcp = lazy("manylabel_clients.integrations.mcp")

COMMAND = ["-c", "from manylabel_clients.command import main; main()"]


pytestmark = pytest.mark.usefixtures("dev_extra")


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect the processes that the SDK has ended without waiting for them: their warnings would fail a later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


READING = {"explain", "list_labels", "review_next", "list_suggestions", "list_doubts"}
REPLACING = {"correct", "apply_suggestion", "undo"}
TOOLS = {"classify", "teach", "dry_run", *READING, *REPLACING}
FOX, DOG = {"text": "a quick fox runs"}, {"text": "a lazy dog sleeps"}


@pytest.fixture(scope="module")
def server(module_server_process: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    with module_server_process() as server:
        yield server.start()


@pytest.fixture(scope="module")
def keys(server: ServerProcess) -> dict[str, str]:
    """Keys of an admin, of a teacher of `animals`, and of a reader, who may only predict with it."""
    with httpx2.Client(base_url=server.url, timeout=DEADLINE_SECONDS) as http:
        asked = {"name": "admin", "scopes": ["admin"], "models": ["*"]}
        keys = {"admin": http.post("/v1/keys", json=asked).json()["key"]}
        http.headers["Authorization"] = f"Bearer {keys['admin']}"
        for name in ("animals", "plants"):
            spec = {"name": name, "algorithm": "falt", "text": {"fields": ["text"]}}
            http.post("/v1/models", json=spec).raise_for_status()
        titles = {"labels": {"fox": {"title": "Foxes", "description": "Red and quick"}}}
        http.patch("/v1/models/animals/labels", json=titles).raise_for_status()
        for name, scopes in (("teacher", ["predict", "learn", "read"]), ("reader", ["predict"])):
            asked = {"name": name, "scopes": scopes, "models": ["animals"]}
            keys[name] = http.post("/v1/keys", json=asked).json()["key"]
    return keys


@asynccontextmanager
async def in_process(server: ServerProcess, key: str, model: str | None = None) -> AsyncIterator[Client]:
    """An agent whose tools run in this process."""
    async with (
        AsyncClient(server.url, api_key=key) as client,
        Client(mcp.server(mcp.with_one_key(client), model)) as agent,
    ):
        yield agent


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


async def error_of(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    text: str = result.content[0].text
    return text


async def test_an_agent_teaches_asks_and_reviews_over_stdio(server: ServerProcess, keys: dict[str, str]) -> None:
    environment = {"MANYLABEL_API_KEY": keys["teacher"], "MANYLABEL_URL": server.url}
    command = [*COMMAND, "mcp", "--model", "animals"]
    async with Client(StdioServerParameters(command=sys.executable, args=command, env=environment)) as agent:
        listed = {tool.name: tool for tool in (await agent.list_tools()).tools}
        assert listed.keys() == TOOLS
        assert all(tool.description and "context" not in tool.input_schema["properties"] for tool in listed.values())
        assert {name for name, tool in listed.items() if tool.annotations.read_only_hint} == READING
        assert {name for name, tool in listed.items() if tool.annotations.destructive_hint} == REPLACING
        for _ in range(5):
            await call(agent, "teach", record=FOX, labels=["fox", "wild"])
            taught = await call(agent, "teach", record=DOG, labels=["dog"])
        with httpx2.Client(base_url=server.url, headers={"Authorization": f"Bearer {keys['teacher']}"}) as http:
            status = http.get("/v1/models/animals").json()
            due = http.post("/v1/models/animals/predict", json={"x": FOX, "probabilities": True, "top": 2}).json()
        assert taught == {"updates": 10, "position": status["position"]}

        found = await call(agent, "classify", record=FOX, top=2, keep=True)
        assert {name: found[name] for name in ("labels", "scores", "probabilities")} == {
            name: due[name] for name in ("labels", "scores", "probabilities")
        }
        assert set(found["labels"]) == {"fox", "wild"}

        why = await call(agent, "explain", record=FOX, features=2)
        assert why["labels"] == found["labels"]
        assert why["explanations"]["fox"]["for"][0]["feature"].startswith("text=")

        labels = await call(agent, "list_labels", limit=2)
        assert (labels["total"], len(labels["labels"])) == (3, 2)
        (fox,) = (each for each in (await call(agent, "list_labels"))["labels"] if each["label"] == "fox")
        assert (fox["title"], fox["description"], fox["examples"]) == ("Foxes", "Red and quick", 5)

        (waiting,) = (await call(agent, "review_next"))["predictions"]
        assert (waiting["id"], waiting["record"]) == (found["id"], FOX)
        assert (await call(agent, "teach", id=waiting["id"], labels=["fox"]))["updates"] == 11
        assert (await call(agent, "review_next"))["predictions"] == []


async def test_an_agent_is_the_teacher_of_a_model_that_promises_parity(
    server: ServerProcess, keys: dict[str, str]
) -> None:
    name = "taught"
    async with (
        AsyncClient(server.url, api_key=keys["admin"]) as client,
        Client(mcp.server(mcp.with_one_key(client), name, teacher=True)) as agent,
    ):
        model = await client.create_model(name, text={"fields": ["text"]}, sources={"machine": 1})
        assert {tool.name for tool in (await agent.list_tools()).tools} == {"classify", "teach", "list_labels"}
        assert "promises no parity" in await error_of(agent, "classify", record=FOX)
        await model.set_promise(None, parity=0.5, audit_rate=0.01)
        alone = None
        for _ in range(300):  # it learns until it is trusted
            found = await call(agent, "classify", record=FOX)
            if not found["ask"]:
                alone = found
                break
            assert found.keys() == {"ask", "id", "expires"}  # the agent does not see the model's answer
            await call(agent, "teach", id=found["id"], labels=["fox"])
        assert alone == {"ask": False, "labels": ["fox"]}
        stored = await model.predict(FOX, keep=True)
        while stored.ask:  # a random audit
            stored = await model.predict(FOX, keep=True)
        refusal = await error_of(agent, "teach", id=stored.id, labels=["fox"])
        assert "(409 prediction_not_deferred)" in refusal


async def test_an_agent_looks_after_labels(server: ServerProcess, keys: dict[str, str]) -> None:
    name = "grown"
    async with (
        AsyncClient(server.url, api_key=keys["admin"]) as client,
        Client(mcp.server(mcp.with_one_key(client), name)) as agent,
    ):
        model = await client.create_model(name)
        chance = random.Random(1)
        for animal in chance.choices(["Fox", "fox", "hen", "cow"], k=100):
            await model.update({animal.lower(): 1.0, "all": 1.0}, [animal])
        at = (await model.update({"hen": 1.0, "all": 1.0}, [])).position
        assert "(404 doubts_not_found)" in await error_of(agent, "list_doubts")
        await (await model.search_doubts()).wait()

        found = await call(agent, "list_suggestions", kind="name")
        assert found["examined"] == 101
        (listed,) = found["suggestions"]
        assert (listed["why"], listed["request"]) == ("spelling", True)
        names = {"kind": "name", "label": listed["label"], "other": listed["into"]}
        assert "no such suggestion" in await error_of(agent, "apply_suggestion", **{**names, "other": "cow"})
        applied = await call(agent, "apply_suggestion", **names)
        assert (await call(agent, "list_suggestions"))["suggestions"] == []
        assert (await call(agent, "undo", position=applied["position"]))["how"]
        assert len((await call(agent, "list_suggestions"))["suggestions"]) == 1
        assert "(409 cannot_undo)" in await error_of(agent, "undo", position=at)

        (doubt,) = (await call(agent, "list_doubts", limit=1))["doubts"]
        assert (doubt["position"], doubt["index"], doubt["label"]) == (at, 0, "hen")
        assert doubt["for"][0]["feature"] == "hen"
        assert (await call(agent, "correct", position=at, labels={"hen": True}))["updates"] == 102
        assert (at, "hen") not in [
            (each["position"], each["label"]) for each in (await call(agent, "list_doubts"))["doubts"]
        ]
    async with in_process(server, keys["teacher"], name) as agent:
        assert "(403 model_not_allowed)" in await error_of(agent, "list_suggestions")


async def test_a_text_that_is_json_is_a_text(server: ServerProcess, keys: dict[str, str]) -> None:
    async with in_process(server, keys["teacher"], "animals") as agent:
        for text in ("null", "[1, 2]", '["fox", "den"]', "true", "17", '"fox"'):
            assert "scores" in await call(agent, "classify", record=text, top=2)


async def test_errors_have_the_message_of_the_server(server: ServerProcess, keys: dict[str, str]) -> None:
    async with in_process(server, keys["teacher"]) as agent:
        assert "name a model, one of: animals" in await error_of(agent, "classify", record=FOX)
        assert "(403 model_not_allowed)" in await error_of(agent, "classify", record=FOX, model="plants")
        assert "1 to 256 bytes" in await error_of(agent, "teach", record=FOX, labels=["a" * 300], model="animals")
        assert "either record or id" in await error_of(agent, "teach", labels=["a"], model="animals")
        assert "(410 prediction_expired)" in await error_of(agent, "teach", id="0" * 26, labels=["a"], model="animals")
        assert "less than or equal to 100" in await error_of(agent, "classify", record=FOX, model="animals", top=1000)
        assert "valid string" in await error_of(agent, "classify", record=3, model="animals")
    async with in_process(server, keys["reader"], "animals") as agent:
        assert (await call(agent, "classify", record=FOX))["position"]
        for tool, arguments in (("teach", {"record": FOX, "labels": ["fox"]}), ("list_labels", {})):
            assert "(403 scope_missing)" in await error_of(agent, tool, **arguments)


@contextmanager
def over_http(server: ServerProcess, tmp_path: Path) -> Iterator[str]:
    """The address of the tools, served by a process that has an admin's key in its environment."""
    port = free_port()
    arguments = [sys.executable, *COMMAND, "mcp", "--http", f"127.0.0.1:{port}", "--url", server.url]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(arguments, stderr=log) as process:
        try:
            url = f"http://127.0.0.1:{port}/mcp"
            eventually(lambda: listens(port))
            yield url
        finally:
            process.terminate()


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


async def called_with(url: str, key: str | None) -> str:
    """The error message of a call of classify; empty if it succeeds."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=DEADLINE_SECONDS) as http,
        Client(streamable_http_client(url, http_client=http)) as agent,
    ):
        result = await agent.call_tool("classify", {"record": FOX, "model": "animals"})
        return str(result.content[0].text) if result.is_error else ""


async def test_over_http_each_call_has_the_key_of_its_caller(
    server: ServerProcess, keys: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYLABEL_API_KEY", keys["admin"])
    with over_http(server, tmp_path) as url:
        assert await called_with(url, keys["reader"]) == ""
        assert "(401 key_invalid)" in await called_with(url, "ml_wrong")
        assert "401 key_required" in await called_with(url, None)
        with httpx2.Client(timeout=DEADLINE_SECONDS) as http:
            told = http.get(url, headers={"Accept": "text/event-stream"})  # a stream would hold the connection
            assert (told.status_code, told.headers["allow"]) == (405, "POST")
            for name, status in (("Host", 421), ("Origin", 403)):
                assert http.post(url, json={}, headers={name: "http://example.org"}).status_code == status


async def test_at_a_public_address_browsers_are_refused() -> None:
    def make(headers: Mapping[str, str]) -> AsyncClient:
        raise AssertionError("no client is made")

    def http(host: str) -> httpx2.AsyncClient:
        app = mcp.http_app(mcp.server(mcp.with_keys_of_callers(make, needed=True)), host)
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1:8765")

    async with http("0.0.0.0") as client:
        for headers, status in (({"Origin": "http://example.org"}, 403), ({"Origin": "null"}, 403)):
            assert (await client.post("/mcp", json={}, headers=headers)).status_code == status
        for method in ("GET", "DELETE", "OPTIONS"):
            assert (await client.request(method, "/mcp")).status_code == 405


async def test_the_command_refuses_calls_without_a_key_at_a_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("manylabel_clients.integrations.mcp.http_app", lambda tools, host: made.append(tools))
    monkeypatch.setattr(uvicorn, "run", lambda *_, **__: None)
    monkeypatch.delenv("MANYLABEL_API_KEY", raising=False)
    done = CliRunner().invoke(app, ["mcp", "--model", "animals", "--http", "0.0.0.0:8765"])
    assert done.exit_code == 0, done.output
    async with Client(made[0]) as agent:
        assert "send the header Authorization" in await error_of(agent, "classify", record=FOX)


@for_each(
    ("host", "is_local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("10.0.0.1", False), ("h", False)],
)
def test_only_loopback_addresses_are_local(host: str, is_local: bool) -> None:
    assert mcp.is_loopback(host) == is_local


@for_each("address", ["127.0.0.1", ":80", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:70000"])
def test_an_invalid_address_is_refused(address: str) -> None:
    done = CliRunner().invoke(app, ["mcp", "--http", address])
    assert done.exit_code == 2
    assert "must be HOST:PORT" in done.stderr
