"""Calls about the versions of one trained model, as conversations without I/O."""

from __future__ import annotations

from urllib.parse import urlencode

from manylabel_clients.http import _wire
from manylabel_clients.http._exchange import Request, Steps, exchange, read
from manylabel_clients.http._model_calls import model_path
from manylabel_clients.http.errors import NotFound
from manylabel_clients.http.retry import Retry
from manylabel_clients.http.version_types import ModelDetail, Promoted, Version, model_detail, promoted, version


class VersionCalls:
    """List, serve, download, delete; look into one."""

    def __init__(self, name: str, retry: Retry) -> None:
        self._path = model_path(name)
        self._retry = retry

    def versions(self) -> Steps[list[Version]]:
        """All of them."""
        response = yield from exchange(Request("GET", f"{self._path}/versions"), self._retry)
        return read(response, lambda answer: [version(one) for one in answer["versions"]])

    def promote(self, number: int) -> Steps[Promoted]:
        """Serve this one; twice is as once."""
        body = _wire.encode({"version": number})
        response = yield from exchange(Request("POST", f"{self._path}/promote", body, _wire.JSON), self._retry)
        return read(response, promoted)

    def download(self, number: int) -> Steps[bytes]:
        """The trained estimator."""
        response = yield from exchange(Request("GET", f"{self._path}/versions/{number}"), self._retry)
        return response.content

    def delete(self, number: int) -> Steps[None]:
        """Delete one; not to find it after an attempt without an answer is success."""
        try:
            yield from exchange(Request("DELETE", f"{self._path}/versions/{number}"), self._retry)
        except NotFound as error:
            if not error.maybe_done:
                raise

    def detail(self, number: int | None) -> Steps[ModelDetail]:
        """What there is to see of one."""
        response = yield from exchange(Request("GET", f"{self._path}/detail{_query(number)}"), self._retry)
        return read(response, model_detail)

    def plot(self, what: str, format: str, number: int | None) -> Steps[bytes]:
        """One picture of it."""
        path = f"{self._path}/plots/{what}.{format}{_query(number)}"
        return (yield from exchange(Request("GET", path), self._retry)).content


def _query(number: int | None) -> str:
    return "" if number is None else f"?{urlencode({'version': number})}"
