"""A server for the page on which elements are tried."""

import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import manylabel_service

STATIC = Path(manylabel_service.__file__).parent / "ui" / "static"
HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class _Handler(SimpleHTTPRequestHandler):
    """Files of the package below /ui/test/, those of this folder elsewhere."""

    def translate_path(self, path: str) -> str:
        folder, _, rest = path.removeprefix("/").partition("ui/test/")
        directory = STATIC if not folder and rest else HERE
        return str(directory / (rest or folder))

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class ElementsSite:
    """The server, in a thread."""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
