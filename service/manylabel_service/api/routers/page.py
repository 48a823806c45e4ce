"""/ and /ui: the web UI. It contains no data; it shows what it requests from the public API."""

from collections.abc import Iterable

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api.context import context_of
from manylabel_service.api.web.access import OPEN
from manylabel_service.api.web.middleware import PAGE
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.routes import DirectRoute, RawHeaders
from manylabel_service.ui import INDEX, UiFile

router = APIRouter(route_class=DirectRoute, include_in_schema=False)

_ALWAYS_ASK = b"no-cache"
_FOR_GOOD = b"public, max-age=31536000, immutable"


@router.get("/")
@OPEN
async def index(request: Request) -> Response:
    """Returns the page of the web UI, which names the version of its files; browsers revalidate it each time."""
    files = context_of(request).page
    found = files.get(INDEX)
    assert found is not None
    tag = f'W/"{files.version}"'.encode()  # digest of the content, regardless of its compression
    if any(each.strip() in (tag, b"*") for each in _header(request, b"if-none-match").split(b",")):
        return _response(request, 304, b"", [(b"etag", tag), (b"cache-control", _ALWAYS_ASK)])
    return _file(request, found, [(b"etag", tag), (b"cache-control", _ALWAYS_ASK)])


@router.get("/ui/{version}/{path:path}")
@OPEN
async def file(request: Request, version: str, path: str) -> Response:
    """Returns a file of this release's web UI, which never changes at its URL."""
    files = context_of(request).page
    if version != files.version:
        detail = f"this server has the web UI of another release, {files.version}: reload the page"
        raise Problem("not_found", detail)
    found = files.get(path)
    if found is None:
        raise Problem("not_found", "the web UI has no such file")
    return _file(request, found, [(b"cache-control", _FOR_GOOD)])


def _file(request: Request, file: UiFile, headers: RawHeaders) -> Response:
    return _response(request, 200, file.content, [(b"content-type", file.media_type), *headers])


def _response(request: Request, status: int, content: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Response:
    request.scope["security_headers"] = PAGE
    response = Response(content, status)
    response.raw_headers = [*headers]
    if status != 304:
        response.raw_headers.append((b"content-length", b"%d" % len(content)))
    return response


def _header(request: Request, name: bytes) -> bytes:
    return b",".join(value for each, value in request.scope["headers"] if each == name)
