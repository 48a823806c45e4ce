"""A small HTTP server in the tests' own process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

POLL_SECONDS = 0.02
"""Time in which a server notices that it should end; each test of a server waits for that."""


@contextmanager
def http_server(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    """Answer by a handler until it is left, and yield the address. No answer that goes on by then is waited for."""

    class Quiet(handler):  # type: ignore[misc,valid-type]
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Quiet) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
