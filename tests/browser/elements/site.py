"""A server for the page that tests elements."""

from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import manylabel_service

STATIC = Path(manylabel_service.__file__).parent / "ui" / "static"
HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Elements(SimpleHTTPRequestHandler):
    """Files of the package below /ui/test/, those of this folder elsewhere."""

    def translate_path(self, path: str) -> str:
        folder, _, rest = path.removeprefix("/").partition("ui/test/")
        directory = STATIC if not folder and rest else HERE
        return str(directory / (rest or folder))

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()
