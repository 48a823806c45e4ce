"""The synchronous and the asynchronous client carry out the same exchanges: most tests run with both."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import httpx2
import pytest
from tests.support.cases import for_each

import manylabel_clients
from manylabel_clients import (
    AsyncClient,
    AsyncJob,
    AsyncKeys,
    AsyncModel,
    AsyncWebhooks,
    Client,
    ConnectionFailed,
    Job,
    JobEvent,
    Keys,
    Model,
    NotFound,
    Retry,
    Webhooks,
)

T = TypeVar("T")
Handler = Callable[[httpx2.Request], httpx2.Response]
RECEIPT = {"position": "1", "updates": 1}
DATASET = {
    "name": "songs", "format": "csv", "rows": 3, "features": 1, "labels": 1, "cardinality": 0.0, "density": 0.0,
    "views": {"x": 1}, "splits": {}, "checksum": "sha256:00", "bytes": 9, "created": "2026-11-21T00:00:00Z",
}  # fmt: skip


class Caller:
    """A client of one kind, whose requests go to a handler; the sleeps are recorded."""

    def __init__(self, kind: type[Client] | type[AsyncClient]) -> None:
        self.kind = kind
        self.sleeps: list[float] = []

    def __call__(self, handler: Handler, call: Callable[[Any], Any], **options: Any) -> Any:
        transport = httpx2.MockTransport(handler)
        if self.kind is Client:
            with Client(transport=transport, sleep=self.sleeps.append, **options) as client:
                return call(client)
        return asyncio.run(self._awaited(transport, call, options))

    async def _awaited(self, transport: Any, call: Callable[[Any], Any], options: Any) -> Any:
        async def sleep(seconds: float) -> None:
            self.sleeps.append(seconds)

        async with AsyncClient(transport=transport, sleep=sleep, **options) as client:
            result = call(client)
            return await result if inspect.isawaitable(result) else result


@pytest.fixture(params=[Client, AsyncClient])
def call(request: pytest.FixtureRequest) -> Caller:
    return Caller(request.param)


def test_a_request_has_the_address_body_and_headers_of_the_call(call: Caller) -> None:
    seen: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json=RECEIPT)

    receipt = call(
        handler,
        lambda client: client.model("tags").update({"word=cat": 1}, ["pets"]),
        base_url="http://host:1/prefix",
        headers={"X-Trace": "t"},
    )
    assert receipt.updates == 1
    (request,) = seen
    assert (request.method, str(request.url)) == ("POST", "http://host:1/prefix/v1/models/tags/update")
    assert json.loads(request.content) == {"x": {"word=cat": 1}, "y": ["pets"]}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-trace"] == "t"
    assert request.headers["user-agent"].startswith("manylabel/")
    assert len(request.headers["idempotency-key"]) == 32


def test_a_failed_attempt_is_retried_after_a_sleep(call: Caller) -> None:
    keys = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            raise httpx2.ReadTimeout("slow")
        return httpx2.Response(503 if len(keys) == 2 else 200, json=RECEIPT)

    retry = Retry(base_seconds=1, jitter=0)
    call(handler, lambda client: client.model("tags").update([1], ["pets"]), retry=retry)
    assert call.sleeps == [1, 2]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_errors_are_raised(call: Caller) -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with pytest.raises(ConnectionFailed, match=r"GET http://127\.0\.0\.1:8000/v1/models .*refused") as caught:
        call(refuse, lambda client: client.models(), retry=Retry(attempts=1))
    assert isinstance(caught.value.__cause__, httpx2.ConnectError)
    with pytest.raises(NotFound):
        call(lambda request: httpx2.Response(404), lambda client: client.model("none").delete())


def test_attempts_have_the_timeout_of_the_client_or_of_the_call(call: Caller) -> None:
    timeouts = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        timeouts.append(request.extensions["timeout"]["read"])
        return httpx2.Response(200, json={"models": []})

    call(handler, lambda client: client.models(), timeout=12)
    call(handler, lambda client: client.wait_ready(3))
    assert timeouts == [12, 3]


def test_create_returns_a_model(call: Caller) -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(201, json=json.loads(request.content))

    model = call(handler, lambda client: client.create_model("tags"))
    assert isinstance(model, Model | AsyncModel)
    assert model.name == "tags"
    assert repr(model).endswith("Model('http://127.0.0.1:8000', 'tags')")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_password_is_sent_and_not_shown(kind: Any) -> None:
    client = kind("http://ann:secret@host:8000")
    for shown in map(repr, (client, client.model("tags"), client.job("one"))):
        assert "ann:***@host:8000" in shown
        assert "secret" not in shown
    assert repr(kind("http://host")) == f"{kind.__name__}('http://host')"

    sent = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append((request.headers["Authorization"], request.headers["X-Own"]))
        return httpx2.Response(200, json={"models": []})

    with Client("http://ann:secret@host", transport=httpx2.MockTransport(answer), headers={"X-Own": "1"}) as client:
        client.models()
    assert sent == [("Basic YW5uOnNlY3JldA==", "1")]


@pytest.mark.parametrize(("given", "due"), [({}, "identity"), ({"accept-encoding": "gzip"}, "gzip")])
def test_compression_is_requested_only_by_an_explicit_header(given: dict[str, str], due: str) -> None:
    sent = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.headers.get_list("Accept-Encoding"))
        return httpx2.Response(200, json={"models": []})

    with Client("http://host", transport=httpx2.MockTransport(answer), headers=given) as client:
        client.models()
    assert sent == [[due]]


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://host", ""])
def test_an_invalid_address_is_refused(call: Caller, address: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        call.kind(address)


def test_the_environment_names_the_server(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, url in (
        ("http://named:1", "http://named:1"),
        ("", "http://127.0.0.1:8000"),
        (None, "http://127.0.0.1:8000"),
    ):
        monkeypatch.setenv("MANYLABEL_URL", value) if value is not None else monkeypatch.delenv("MANYLABEL_URL")
        assert call.kind().base_url == url
        assert call.kind("http://given:2").base_url == "http://given:2"
    monkeypatch.setenv("MANYLABEL_URL", "localhost:8000")
    with pytest.raises(ValueError, match=r"^MANYLABEL_URL must start with http.*'localhost:8000'"):
        call.kind()


EXAMPLES: list[tuple[list[float], list[str]]] = [([float(n)], ["a"]) for n in range(5)]


async def arriving(items: Iterable[T], drawn: list[T]) -> AsyncIterator[T]:
    """Yield items one by one, and record each as it is drawn."""
    for item in items:
        await asyncio.sleep(0)
        drawn.append(item)
        yield item


@pytest.mark.parametrize("kind", [list, iter, arriving])
def test_calls_with_many_examples_take_asynchronous_iterables(kind: Any) -> None:
    """The requests are those of the synchronous client."""
    seen: list[tuple[str, str, Any]] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        key = request.headers.get("idempotency-key", "")
        seen.append((request.url.path, key, json.loads(request.content)))
        return httpx2.Response(200, json={**RECEIPT, "predictions": []})

    def calls(items: Callable[[list[Any]], Any]) -> Callable[[Any], list[Any]]:
        def made(client: Any) -> list[Any]:
            model, size = client.model("m"), {"batch_size": 2}
            return [
                model.update_many(items(EXAMPLES), key="k", **size),
                model.predict_update_many(items(EXAMPLES), key="k", **size),
                model.predict_many(items([x for x, _ in EXAMPLES]), **size),
                model.label_many(items([("id", y) for _, y in EXAMPLES]), key="k", **size),
            ]

        return made

    drawn: list[Any] = []

    async def awaited(client: Any) -> None:
        for made in calls((lambda items: arriving(items, drawn)) if kind is arriving else kind)(client):
            await made

    Caller(Client)(handler, calls(list))
    expected = list(seen)
    assert [path.rpartition("/")[2] for path, _, _ in expected] == [
        call for call in ("update", "predict-update", "predict", "labels") for _ in range(3)
    ]
    seen.clear()
    Caller(AsyncClient)(handler, awaited)
    assert seen == expected
    assert len(drawn) == (20 if kind is arriving else 0)


def test_a_stream_yields_the_results_of_a_batch_before_it_draws_the_next() -> None:
    line = {"labels": [], "scores": {}, "threshold": 0.0, "position": "1", "updates": 1}

    def handler(request: httpx2.Request) -> httpx2.Response:
        first, n_lines = int(request.url.params["from"]), len(request.content.splitlines())
        lines = [json.dumps({"line": first + n, **line}) for n in range(n_lines)]
        return httpx2.Response(200, text="\n".join(lines))

    async def streamed(client: Any) -> list[tuple[int, int]]:
        drawn: list[Any] = []
        answers = client.model("m").stream(arriving(EXAMPLES, drawn), batch_size=2)
        return [(answer.line, len(drawn)) async for answer in answers]

    assert Caller(AsyncClient)(handler, streamed) == [(1, 2), (2, 2), (3, 4), (4, 4), (5, 5)]
    with pytest.raises(TypeError, match="async_generator"):
        Caller(Client)(handler, lambda client: list(client.model("m").stream(arriving(EXAMPLES, []))))


BOTH = [
    (Client, AsyncClient),
    (Model, AsyncModel),
    (Job, AsyncJob),
    (Keys, AsyncKeys),
    (Webhooks, AsyncWebhooks),
]


@for_each(("sync", "awaited"), BOTH)
def test_both_clients_have_the_same_calls(sync: type, awaited: type) -> None:
    """Parameters, docstrings and return types of each method are equal, apart from the awaiting."""
    handles = {"Model": "AsyncModel", "Job": "AsyncJob"}
    ours, theirs = public_methods(sync), public_methods(awaited)
    if "aclose" in theirs:
        theirs["close"] = theirs.pop("aclose")
    assert ours.keys() == theirs.keys()
    assert len(ours) >= 5
    for name, method in ours.items():
        other = theirs[name]
        assert parameters_of(method) == parameters_of(other), name
        if name == "close":
            continue
        assert method.__name__ == other.__name__ == name
        assert method.__doc__ == other.__doc__
        assert get_type_hints(method).keys() == get_type_hints(other).keys()
        returned, returned_by_other = (str(inspect.signature(each).return_annotation) for each in (method, other))
        assert "Exchange" not in returned + returned_by_other
        if name in ("stream", "learn", "events"):
            assert returned_by_other == f"Async{returned}"
            assert not inspect.iscoroutinefunction(other)
        else:
            assert returned_by_other == handles.get(returned, returned)
            assert inspect.iscoroutinefunction(other) == (name not in ("model", "job")), name


def public_methods(kind: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def parameters_of(method: Any) -> list[tuple[str, Any]]:
    return [(parameter.name, parameter.default) for parameter in inspect.signature(method).parameters.values()]


def test_everything_public_is_exported_and_described() -> None:
    for name in manylabel_clients.__all__:
        member = getattr(manylabel_clients, name)
        assert member.__doc__, name
        for call, function in inspect.getmembers(member, inspect.isfunction):
            if not call.startswith("_"):
                assert function.__doc__, f"{name}.{call}"
    errors = {
        name
        for name, member in vars(manylabel_clients.http.errors).items()
        if isinstance(member, type) and issubclass(member, Exception)
    }
    assert errors <= set(manylabel_clients.__all__)
    assert manylabel_clients.http.errors.__doc__
    assert all(name in manylabel_clients.http.errors.__doc__ for name in errors)


def test_a_file_is_uploaded_in_pieces(call: Caller, tmp_path: Path) -> None:
    path = tmp_path / "songs.csv"
    path.write_bytes(b"a,b\n" + b"1,0\n" * 200_000)
    attempts = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        attempts.append(request)
        return httpx2.Response(503) if len(attempts) == 1 else httpx2.Response(201, json=DATASET)

    retry = Retry(base_seconds=0, jitter=0)
    found = call(handler, lambda client: client.upload_dataset("songs", path, labels=1), retry=retry)
    assert found.rows == 3
    for request in attempts:
        assert request.content == path.read_bytes()
        assert request.headers["content-length"] == str(path.stat().st_size)
        assert "transfer-encoding" not in request.headers


def test_events_of_a_job_reconnect_until_it_ends(call: Caller) -> None:
    """The first connection ends after one event. Events after the end of the job are not awaited."""
    seen = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("last-event-id"))
        kinds = [("state", "running")] if len(seen) == 1 else [("progress", ""), ("state", "failed"), ("log", "")]
        lines = [f'id: {5 * len(seen)}\nevent: {kind}\ndata: {{"state": "{state}"}}\n\n' for kind, state in kinds]
        return httpx2.Response(200, text="".join(lines))

    def watched(client: Any) -> Any:
        events = client.job("j1").events()
        return _gathered(events) if hasattr(events, "__aiter__") else [event.kind for event in events]

    assert call(handler, watched, retry=Retry(base_seconds=0)) == ["state", "progress", "state"]
    assert seen == [None, "5"]


async def _gathered(events: AsyncIterator[JobEvent]) -> list[str]:
    return [event.kind async for event in events]
