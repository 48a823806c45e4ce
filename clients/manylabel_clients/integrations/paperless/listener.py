"""Receiver of the webhooks of paperless: any request makes the sidecar poll soon."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

TIMEOUT_SECONDS = 5.0
"""Timeout in seconds of a connection."""


@contextmanager
def listening(host: str, port: int, wake: threading.Event) -> Iterator[int]:
    """Listen in a context, and set an event at each POST; yields the port. Bodies are not read."""

    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_SECONDS

        def do_POST(self) -> None:
            wake.set()
            self.send_response(204)
            self.end_headers()
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer((host, port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
