"""A retry never counts twice, when responses are lost and when the server is killed during a request."""

import asyncio
import contextlib
import itertools
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from manylabel_clients import AsyncClient, Client, Model, Retry

QUICK = Retry(attempts=50, base_seconds=0.01, cap_seconds=0.05)
PATIENT = Retry(attempts=400, base_seconds=0.02, cap_seconds=0.2)


class FaultyProxy:
    """Proxy on real sockets that forwards requests to a server, and loses responses on demand.

    `fault` is called with the text of each request, before it is forwarded, and returns the fate of the response:
    ``pass``, ``drop`` (the connection is closed after the server has responded), ``cut`` (after half of the response),
    ``hold`` (nothing is sent), or a function to call instead.
    """

    def __init__(self, port: int, fault: Callable[[str], str | Callable[[], None]]) -> None:
        self.fault = fault
        self.lost: list[bytes] = []
        self.connections = 0
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._run(self._accept)

    def _run(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                self._open.append(client)
                self._run(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        # An error on either side ends this connection, as in a broken proxy.
        with client, contextlib.suppress(OSError):
            while (request := read_message(client)) is not None:
                fault = self.fault(request.decode("latin-1"))
                with socket.create_connection(self._server) as server:
                    self._open.append(server)
                    server.sendall(request)
                    if callable(fault):
                        fault()
                        return
                    answer = read_message(server)
                assert answer is not None
                if fault == "pass":
                    client.sendall(answer)
                    continue
                self.lost.append(answer)
                if fault == "cut":
                    client.sendall(answer[: len(answer) // 2])
                if fault == "hold":
                    client.recv(1)  # until the client gives up
                return

    def close(self) -> None:
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()


def read_message(source: socket.socket) -> bytes | None:
    """One HTTP message with a Content-Length, or none; None at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (part := source.recv(65536)):
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = int(lengths[0]) - len(body) if lengths else 0
    while missing > 0:
        if not (part := source.recv(65536)):
            raise OSError("the message is cut")
        data += part
        missing -= len(part)
    return data


@pytest.fixture
def proxy(server: Any) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(server.port, lambda request: "pass")
    yield proxy
    proxy.close()


def lose_first(proxy: FaultyProxy, how: str) -> None:
    """Lose the response to the first attempt of a request with a key, and to every other request without."""
    others, seen = itertools.cycle([how, "pass"]), set[str]()

    def fault(request: str) -> str:
        key = re.search(r"^idempotency-key: .*$", request, re.IGNORECASE | re.MULTILINE)
        if key is None:
            return next(others)
        if key[0] in seen:
            return "pass"
        seen.add(key[0])
        return how

    proxy.fault = fault


def test_calls_share_connections(proxy: FaultyProxy, client: Client, name: str) -> None:
    client.create_model(name)
    with Client(proxy.url) as behind:
        for _ in range(20):
            behind.model(name).update({"a": 1.0}, ["b"])
            behind.model(name).predict({"a": 1.0})
    assert proxy.connections == 1


@pytest.mark.parametrize("how", ["drop", "cut", "hold"])
def test_an_update_whose_response_is_lost_counts_once(proxy: FaultyProxy, client: Client, name: str, how: str) -> None:
    model = client.create_model(name)
    lose_first(proxy, how)
    with Client(proxy.url, retry=QUICK, timeout=0.5 if how == "hold" else 120) as behind:
        receipts = [behind.model(name).update({"a": 1.0}, ["b"]) for _ in range(3)]
        receipts.append(behind.model(name).update_many([({"a": 1.0}, ["b"])] * 5))
        prediction, receipt = behind.model(name).predict_update({"a": 1.0}, ["b"])
    assert len(proxy.lost) == 5
    assert [r.updates for r in receipts] == [1, 2, 3, 8]
    assert receipt.updates == 9
    assert all(r.replayed for r in [*receipts, receipt])
    assert prediction.labels == ["b"]
    assert model.status().updates == 9


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_responses_lost_at_random_never_count_twice(proxy: FaultyProxy, client: Client, name: str, kind: type) -> None:
    """Forty updates from eight concurrent connections; a third of the responses is lost."""
    model = client.create_model(name)
    chance, lock = random.Random(7), threading.Lock()

    def fault(request: str) -> str:
        with lock:
            return chance.choice(["pass", "pass", "pass", "pass", "drop", "cut"])

    proxy.fault = fault
    receipts = forty_updates(kind, proxy.url, name)
    assert len(proxy.lost) >= 5
    assert sorted(r.updates for r in receipts) == list(range(1, 41))
    assert model.status().updates == 40
    assert sum(r.replayed for r in receipts) > 0


def forty_updates(kind: type, url: str, name: str) -> list[Any]:
    retry = Retry(attempts=50, base_seconds=0.01, cap_seconds=0.05)
    if kind is Client:
        with Client(url, retry=retry) as client, ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda i: client.model(name).update({"a": float(i)}, ["b"]), range(40)))

    async def run() -> list[Any]:
        limit = asyncio.Semaphore(8)
        async with AsyncClient(url, retry=retry) as client:

            async def update(i: int) -> Any:
                async with limit:
                    return await client.model(name).update({"a": float(i)}, ["b"])

            return await asyncio.gather(*map(update, range(40)))

    return asyncio.run(run())


@pytest.fixture(scope="module")
def mortal(module_server_process: Callable[..., Any]) -> Iterator[Any]:
    """A server that tests kill and start again."""
    with module_server_process() as server:
        yield server.start()


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
def test_a_server_is_killed_during_a_request_and_restarted(mortal: Any, name: str, answered: bool) -> None:
    """The request has arrived; the response is lost, whether or not the server has sent one."""
    proxy = FaultyProxy(mortal.port, lambda request: "pass")

    def kill_and_restart() -> None:
        proxy.fault = lambda request: "pass"
        if answered:
            with Client(mortal.url) as direct:
                wait_for_updates(direct.model(name), 2)
        mortal.kill()
        mortal.start()

    try:
        with Client(proxy.url, retry=PATIENT) as client:
            model = client.create_model(name)
            model.update({"a": 1.0}, ["b"])
            proxy.fault = lambda request: kill_and_restart
            receipt = model.update({"a": 1.0}, ["b"])
            assert receipt.updates == 2
            if answered:
                assert receipt.replayed
            assert model.update({"a": 1.0}, ["b"]).updates == 3
            assert model.status().updates == 3
    finally:
        proxy.close()


def wait_for_updates(model: Model, count: int) -> None:
    while model.status().updates < count:
        pass


def test_streams_and_events_continue_after_a_kill(server_process: Callable[..., Any]) -> None:
    server = server_process().start()
    with Client(server.url, retry=PATIENT) as client:
        model = client.create_model("m")
        events = model.events()
        assert next(events).data["updates"] == 0
        lines = []
        for answer in model.stream((({f"w{i % 9}": 1.0}, [f"t{i % 3}"]) for i in range(400)), batch_size=50):
            lines.append(answer.line)
            if answer.line == 175:
                server.kill()
                server.start()
        assert lines == list(range(1, 401))
        assert model.status().updates == 400
        assert next(event for event in events if event.data.get("updates") == 400)
