"""A receiver of webhooks that verifies requests with the library of Standard Webhooks."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

from standardwebhooks.webhooks import Webhook
from tests.support.http_server import http_server
from tests.support.waiting import eventually

SECRET = "whsec_" + "c2VjcmV0" * 4


class Receiver:
    """Keeps the events that it has accepted.

    Attributes
    ----------
    url : of the receiver, with a path.
    respond : handles a request whose event was verified; by default it responds with 204.
    """

    def __init__(self, secret: str = SECRET) -> None:
        self.url = ""
        self.secret = secret
        self.respond: Callable[[BaseHTTPRequestHandler], None] = lambda handler: status(handler, 204)
        self.headers: list[dict[str, str]] = []
        self.events: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def of(self, type: str) -> list[dict[str, Any]]:
        """Data of the events of a type, in the order of their arrival."""
        return [event["data"] for event in list(self.events) if event["type"] == type]

    def waits_for(self, type: str, number: int = 1) -> list[dict[str, Any]]:
        """Wait until that number of events of a type came."""
        return eventually(lambda: found if len(found := self.of(type)) >= number else None, otherwise=self.all)  # type: ignore[return-value]

    def all(self) -> str:
        """All that came, for the message of a failed test."""
        return repr(self.events)

    @property
    def ids(self) -> list[str]:
        """Ids of all events, in the order of their arrival."""
        return [each["webhook-id"] for each in list(self.headers)]


def status(handler: BaseHTTPRequestHandler, code: int, **headers: str) -> None:
    """Respond without a body."""
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


@contextlib.contextmanager
def receiving(secret: str = SECRET, port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver(secret)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            event = Webhook(receiver.secret).verify(body, headers)
            with receiver.lock:
                receiver.headers.append(headers)
                receiver.events.append(event)
            receiver.respond(self)

    with http_server(Handler, port) as address:
        receiver.url = f"{address}/hook?token=t0p"
        yield receiver
