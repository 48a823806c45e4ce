"""A balancer that has the server below a path."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Prefix:
    """Takes a prefix away and passes on what comes, both ways, until it is left.

    Attributes
    ----------
    origin : where it listens.
    asked : paths that were asked for.

    Parameters
    ----------
    port : of the server.
    path : the prefix, as ``/labels``.
    """

    def __init__(self, port: int, path: str) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def pass_on(self) -> None:
                asked.append(self.path)
                if not self.path.startswith(f"{path}/"):
                    self.send_error(404)
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request(self.command, self.path.removeprefix(path), body, dict(self.headers))
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
                    pass  # who asked has gone, or the server has
                finally:
                    answer.close()
                    connection.close()

            do_GET = do_POST = do_HEAD = do_DELETE = pass_on  # noqa: N815 - the names that http.server looks for

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.block_on_close = False  # events go on for as long as the browser listens
        self._server.server_close()
