"""A fake server: it gives prepared replies to an exchange, and records its requests."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx2

from manylabel_clients import Retry
from manylabel_clients.http.transport.exchange import Draw, Exchange, Pause, Request


def ok(body: Any, status: int = 200, **headers: str) -> httpx2.Response:
    """A success."""
    return httpx2.Response(status, json=body, headers=headers, request=httpx2.Request("GET", "http://s/p"))


def problem(status: int, code: str, headers: Any = None, **more: Any) -> httpx2.Response:
    """A refusal as the server writes it."""
    content = json.dumps({"status": status, "code": code, "detail": f"about {code}"} | more)
    headers = {"content-type": "application/problem+json", **(headers or {})}
    return httpx2.Response(status, content=content, headers=headers, request=httpx2.Request("GET", "http://s/p"))


def unsent(
    kind: Callable[..., Any],
    *name: str,
    retry: Retry,
    clock: Callable[[], float] = lambda: 0.0,
    run: Callable[[Any], Any] = lambda exchange: exchange,
) -> Any:
    """Return the calls of a resource; they return exchanges and streams, or results if `run` is a fake server."""
    return kind(SimpleNamespace(retry=retry, clock=clock, run=run, each=lambda stream: stream), *name)


class FakeServer:
    """Fake server that runs exchanges with prepared replies, and records requests and pauses."""

    def __init__(self, *replies: httpx2.Response | httpx2.RequestError) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.pauses: list[float] = []

    def __call__(self, exchange: Exchange[Any]) -> Any:
        reply = None
        try:
            while True:
                step = exchange.send(reply)
                reply = None
                if isinstance(step, Pause):
                    self.pauses.append(step.seconds)
                elif isinstance(step, Draw):
                    any(map(step.add, step.items))  # type: ignore[arg-type]  # no asynchronous ones here
                else:
                    self.requests.append(step)
                    reply = self._reply(step)
        except StopIteration as stop:
            return stop.value

    def _reply(self, request: Request) -> httpx2.Response | httpx2.RequestError:
        reply = self.replies.pop(0)
        if isinstance(reply, httpx2.RequestError):
            reply.request = httpx2.Request(request.method, f"http://s{request.path}")
        return reply

    @property
    def keys(self) -> list[str | None]:
        return [request.headers.get("Idempotency-Key") for request in self.requests]

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.body) for request in self.requests if request.body]

    @property
    def pieces(self) -> list[tuple[str, int]]:
        """The query of each request, and how many lines its body had."""
        return [(one.path.partition("?")[2], len((one.body or b"").splitlines())) for one in self.requests]
