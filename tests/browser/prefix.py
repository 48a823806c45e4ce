"""A load balancer that serves the server below a path."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from tests.support.http_server import http_server


@contextmanager
def behind_prefix(port: int, prefix: str) -> Iterator[tuple[str, list[str]]]:
    """Forward requests to a port without a path prefix such as ``/labels``; yield the address and the requested paths."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def pass_on(self) -> None:
            asked.append(self.path)
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request(self.command, self.path.removeprefix(prefix), body, dict(self.headers))
            answer = connection.getresponse()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                while data := answer.read1(65536):
                    self.wfile.write(data)
                    self.wfile.flush()
            except (OSError, ValueError, http.client.HTTPException):
                pass  # the client or the server is gone
            finally:
                answer.close()
                connection.close()

        do_GET = do_POST = do_HEAD = do_DELETE = pass_on  # noqa: N815 - the names that http.server looks for

    with http_server(Handler) as address:
        yield address, asked
