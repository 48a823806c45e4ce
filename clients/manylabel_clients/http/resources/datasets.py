"""Datasets of a server: upload, list, show, delete."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from manylabel_clients.http.errors import Conflict
from manylabel_clients.http.resources.records import from_json, list_reader
from manylabel_clients.http.resources.requests import Requests
from manylabel_clients.http.transport.exchange import Exchange, Request, read, send
from manylabel_clients.http.transport.upload import (
    Body,
    ReportBytes,
    Source,
    body_of,
    format_of,
    multipart,
    reported,
)

LabelColumns: TypeAlias = int | str | list[str] | tuple[str, ...]
"""Label columns: a number of first columns (last columns, if negative), or their names."""

UPLOAD_SECONDS = 600.0
"""Timeout in seconds for a server to parse a received file."""

_TYPES = {
    "libsvm": "text/plain",
    "arff": "text/plain",
    "npz": "application/octet-stream",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
}


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A dataset of labelled rows on a server."""

    name: str
    format: str
    """Format of the upload."""
    rows: int
    features: int
    labels: int
    cardinality: float
    """Mean number of labels of a row."""
    density: float
    """Cardinality divided by the number of labels."""
    views: dict[str, int]
    """Number of features of each view; one view has the name ``x``."""
    splits: dict[str, int]
    """Number of rows of each split, as ``train`` and ``test``."""
    checksum: str
    bytes: int
    """Size on the server."""
    created: str
    """When: RFC 3339, UTC."""
    text: dict[str, Any] | None = None
    """Text options of records with all defaults; None if there are only numbers."""
    weighted: bool = False
    """Whether rows have weights."""
    details: dict[str, Any] | None = None
    """Details: the names of the labels, and the number of rows with each."""


def dataset_info(answer: Mapping[str, Any]) -> DatasetInfo:
    """Return a dataset from its JSON."""
    known = {field.name for field in fields(DatasetInfo)}
    details = {name: value for name, value in answer.items() if name not in known}
    return from_json(DatasetInfo, {**answer, "details": details or None})


class DatasetRequests(Requests):
    """Requests about the datasets of a server."""

    def upload_dataset(
        self,
        name: str,
        source: Source,
        *,
        format: str | None = None,
        labels: LabelColumns | Path | None = None,
        tags: str | None = None,
        separator: str | None = None,
        ignore: Sequence[str] | None = None,
        text: Mapping[str, Any] | Sequence[str] | None = None,
        weight: str | None = None,
        train_rows: int | None = None,
        label_details: Mapping[str, str | Mapping[str, str | None]] | None = None,
        report: ReportBytes | None = None,
    ) -> Exchange[DatasetInfo]:
        """Upload a labelled file for training.

        Parameters
        ----------
        name : str
            Lower-case letters, digits, dots, dashes and underscores; at most 64.
        source : str, Path, bytes or binary file
            A file by its name, the bytes themselves, or an open file. Only what can be read from its start again can
            be sent again when a connection breaks.
        format : str, optional
            ``libsvm``, ``arff``, ``npz``, ``ndjson``, ``csv`` or ``tsv``; all but ``npz`` may be gzip. None goes by the
            ending of the name.
        labels : Path, int or list of str, optional
            Which columns are labels. ARFF: a Mulan XML file, or how many of the first (the last, if negative)
            attributes; CSV, TSV: names, or how many of the last columns, or with a separator the column whose cells
            list labels; NDJSON of records: the field that has the labels.
        tags : str, optional
            The column or field that lists the labels, instead of `labels`.
        separator : str, optional
            Separator of labels in a cell; None is a space for `tags`.
        ignore : sequence of str, optional
            CSV, TSV, NDJSON: columns or fields that are neither features nor labels.
        text : sequence of str or mapping, optional
            CSV, TSV, NDJSON: columns or fields that are text, or all settings of how texts are read, as in the spec of
            a model.
        weight : str, optional
            CSV, TSV, NDJSON of records: the column or field that has what each row weighs, above 0 and at most 1,000.
            Examples of x and y have it in ``weight``, NPZ in an array ``weight``, ARFF in braces behind a row.
        train_rows : int, optional
            Number of first rows in the split ``train``; the other rows are the split ``test``.
        label_details : mapping of str, optional
            By label of the data: a title, or a mapping of "title", "description" and "uri". A model that a job trains
            from the dataset has them.
        report : callable, optional
            Called with how many bytes have been sent so far.

        Raises
        ------
        Invalid
            If the server cannot read the file; the message says where.
        Conflict
            If the name is taken. After an attempt that got no response, a dataset that was made of the same file
            counts as the one sent.
        TooLarge
            If it exceeds a limit of the server.
        """
        format = format_of(source) if format is None else format
        query = {"name": name, "format": format}
        if train_rows is not None:
            query["split"] = str(train_rows)
        table = {"tags": tags, "separator": separator, "ignore": _line(ignore) if ignore else None}
        table["weight"] = weight
        if text is not None:
            table["text"] = json.dumps(dict(text)) if isinstance(text, Mapping) else _line(text)
        query |= {part: value for part, value in table.items() if value is not None}
        file, content_type = body_of(source), _TYPES.get(format, "application/octet-stream")
        body, parts = file, {}
        if _is_xml(labels):
            parts["labels"] = body_of(labels)  # type: ignore[arg-type]
        elif labels is not None:
            query["label_columns"] = _columns(labels)
        if label_details is not None:
            details = {
                label: {"title": one} if isinstance(one, str) else dict(one) for label, one in label_details.items()
            }
            parts["label_details"] = body_of(json.dumps(details).encode())
        if parts:
            body, content_type = multipart({**parts, "file": file})
        try:
            return (yield from self._send(query, reported(body, report), content_type))
        except Conflict as conflict:
            found = (yield from self.dataset(name)) if conflict.maybe_done else None
            if found is None or (found.format, found.checksum) != (format, file.checksum()):
                raise
            return found

    def datasets(self) -> Exchange[list[DatasetInfo]]:
        """Return the datasets of the server."""
        return (yield from self._get("/v1/datasets", list_reader("datasets", dataset_info)))

    def dataset(self, name: str, *, details: bool = False) -> Exchange[DatasetInfo]:
        """Return a dataset; with the names and counts of its labels, if requested."""
        path = f"{_path(name)}?details=true" if details else _path(name)
        return (yield from self._get(path, dataset_info))

    def delete_dataset(self, name: str) -> Exchange[None]:
        """Delete a dataset; models trained on it stay.

        Raises
        ------
        Conflict
            If a job that has not ended needs it.
        """
        yield from self._delete(_path(name))

    def _send(self, query: Mapping[str, str], body: Body, content_type: str) -> Exchange[DatasetInfo]:
        headers = {"Content-Type": content_type, **body.headers}
        request = Request("POST", f"/v1/datasets?{urlencode(query)}", body.pieces, headers, UPLOAD_SECONDS)
        retry = self._retry if body.is_repeatable else replace(self._retry, attempts=1)
        return read((yield from send(request, retry)), dataset_info)


def _path(name: str) -> str:
    return f"/v1/datasets/{quote(name, safe='')}"


def _is_xml(labels: LabelColumns | Path | None) -> bool:
    return isinstance(labels, Path) or (isinstance(labels, str) and labels.lower().endswith(".xml"))


def _line(names: Sequence[str]) -> str:
    """Return names as a line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _columns(labels: LabelColumns | Path) -> str:
    return ",".join(labels) if isinstance(labels, (list, tuple)) else str(labels)
