"""Calls about data sets, as conversations without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlencode

from manylabel_clients.http._exchange import Request, Steps, exchange, read
from manylabel_clients.http._upload import Body, body_of, format_of, multipart, reported
from manylabel_clients.http.dataset_types import DatasetInfo, LabelColumns, ReportBytes, Source, dataset_info
from manylabel_clients.http.errors import Conflict, NotFound
from manylabel_clients.http.retry import Retry

UPLOAD_SECONDS = 600.0
"""How long a server may take to read a file that it has received."""

_TYPES = {
    "libsvm": "text/plain",
    "arff": "text/plain",
    "npz": "application/octet-stream",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
}


class DatasetCalls:
    """Upload, list, show, delete."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry

    def upload(
        self,
        name: str,
        source: Source,
        format: str | None,
        labels: LabelColumns | Path | None,
        options: Mapping[str, str],
        report: ReportBytes | None,
    ) -> Steps[DatasetInfo]:
        """Send a file to be a data set.

        If an attempt got no answer and the next one finds the name taken, the data set counts as the one just sent
        when it was made of the same file.
        """
        format = format_of(source) if format is None else format
        query = {"name": name, "format": format, **options}
        file, content_type = body_of(source), _TYPES.get(format, "application/octet-stream")
        body = file
        if _is_xml(labels):
            body, content_type = multipart(file, body_of(labels))  # type: ignore[arg-type]
        elif labels is not None:
            query["label_columns"] = _columns(labels)
        try:
            return (yield from self._send(query, reported(body, report), content_type))
        except Conflict as conflict:
            found = (yield from self.dataset(name, False)) if conflict.maybe_done else None
            if found is None or (found.format, found.checksum) != (format, file.checksum()):
                raise
            return found

    def _send(self, query: Mapping[str, str], body: Body, content_type: str) -> Steps[DatasetInfo]:
        headers = {"Content-Type": content_type, **body.headers}
        request = Request("POST", f"/v1/datasets?{urlencode(query)}", body.pieces, headers, UPLOAD_SECONDS)
        retry = self._retry if body.is_repeatable else replace(self._retry, attempts=1)
        response = yield from exchange(request, retry)
        return read(response, dataset_info)

    def datasets(self) -> Steps[list[DatasetInfo]]:
        """All of them."""
        response = yield from exchange(Request("GET", "/v1/datasets"), self._retry)
        return read(response, lambda answer: [dataset_info(one) for one in answer["datasets"]])

    def dataset(self, name: str, details: bool) -> Steps[DatasetInfo]:
        """One of them."""
        path = f"{_path(name)}?details=true" if details else _path(name)
        response = yield from exchange(Request("GET", path), self._retry)
        return read(response, dataset_info)

    def delete(self, name: str) -> Steps[None]:
        """Delete it; not to find it after an attempt without an answer is success."""
        try:
            yield from exchange(Request("DELETE", _path(name)), self._retry)
        except NotFound as error:
            if not error.maybe_done:
                raise


def _path(name: str) -> str:
    return f"/v1/datasets/{quote(name, safe='')}"


def _is_xml(labels: LabelColumns | Path | None) -> bool:
    return isinstance(labels, Path) or (isinstance(labels, str) and labels.lower().endswith(".xml"))


def _columns(labels: LabelColumns | Path) -> str:
    return ",".join(labels) if isinstance(labels, (list, tuple)) else str(labels)
