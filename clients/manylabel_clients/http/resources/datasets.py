"""Datasets of a server: upload, list, show, delete."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from manylabel_clients.http.errors import Conflict
from manylabel_clients.http.resources.resource import Resource, call, given, path_of, with_query
from manylabel_clients.http.responses import DatasetInfo
from manylabel_clients.http.transport.exchange import Exchange, Request, read, send
from manylabel_clients.http.transport.json_body import from_json
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
"""Label columns: the number of columns at the beginning (negative: at the end), or their names."""

UPLOAD_SECONDS = 600.0
"""Timeout in seconds for a server to parse a received file."""


def dataset_info(answer: Mapping[str, Any]) -> DatasetInfo:
    """Return a dataset from its JSON."""
    known = {field.name for field in fields(DatasetInfo)}
    details = {name: value for name, value in answer.items() if name not in known}
    return from_json(DatasetInfo, {**answer, "details": details or None})


class DatasetCalls(Resource):
    """Calls about the datasets of a server."""

    @call
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
        number: Sequence[str] | None = None,
        category: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        decimal: str | None = None,
        missing: Sequence[str] | None = None,
        empty: str | None = None,
        encoding: str | None = None,
        merge_alike: bool | None = None,
        weight: str | None = None,
        train_rows: int | None = None,
        label_details: Mapping[str, str | Mapping[str, str | None]] | None = None,
        report: ReportBytes | None = None,
    ) -> Exchange[DatasetInfo]:
        """Upload a labelled file for training.

        The upload is retried only if the file can be read again from its start. If the first attempt got no response,
        an existing dataset of that name with the same file counts as success.

        Parameters
        ----------
        source : str, Path, bytes or binary file
            Path of a file, its bytes, or an open file.
        format : str, optional
            Format of the file. Default: by the ending of its name.
        labels : Path, int or list of str, optional
            Label columns. ARFF: a Mulan XML file, or the number of the first (the last, if negative) attributes; CSV,
            TSV: names, or the number of the last columns, or with a separator the column whose cells list labels;
            NDJSON: the field that has the labels.
        text : sequence of str or mapping, optional
            Columns or fields that are text, or all settings of texts as in the spec of a model.
        number, category : sequence of str, optional
            Columns or fields to read as numbers, or as categories, regardless of their cells.
        names : sequence of str, optional
            Names of all columns of a table without a line of names.
        decimal : str, optional
            Decimal mark of a table, "." or ",".
        missing : sequence of str, optional
            Cells of a table that mean a missing value, instead of the usual words.
        empty : str, optional
            Meaning of an empty cell of labels: "unknown" (default), or "none" for no labels.
        encoding : str, optional
            Encoding of a table or of JSON lines, such as "cp1252". Default: UTF-8, or UTF-16 with its mark.
        merge_alike : bool, optional
            Whether labels in lists that differ only in case, spaces or Unicode form are one.
        label_details : mapping of str, optional
            By label: a title, or a mapping of "title", "description" and "uri".
        report : callable, optional
            Called with the number of bytes sent so far.
        """
        format = format_of(source) if format is None else format
        query = given(
            name=name,
            format=format,
            split=train_rows,
            tags=tags,
            separator=separator,
            ignore=_line(ignore) if ignore else None,
            number=_line(number) if number else None,
            category=_line(category) if category else None,
            names=_line(names) if names else None,
            decimal=decimal,
            missing=None if missing is None else _line(missing),
            empty=empty,
            encoding=encoding,
            merge_alike=None if merge_alike is None else str(merge_alike).lower(),
            weight=weight,
            text=json.dumps(dict(text)) if isinstance(text, Mapping) else None if text is None else _line(text),
        )
        file, content_type = body_of(source), "application/octet-stream"
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
            found = (yield from self._get(path_of("datasets", name), dataset_info)) if conflict.maybe_done else None
            if found is None or (found.format, found.checksum) != (format, file.checksum()):
                raise
            return found

    @call
    def datasets(self) -> Exchange[list[DatasetInfo]]:
        """Return the datasets of the server."""
        return (yield from self._list("/v1/datasets", "datasets", dataset_info))

    @call
    def dataset(self, name: str, *, details: bool = False) -> Exchange[DatasetInfo]:
        """Return a dataset, with the names and counts of its labels if requested."""
        path = with_query(path_of("datasets", name), details="true" if details else None)
        return (yield from self._get(path, dataset_info))

    @call
    def delete_dataset(self, name: str) -> Exchange[None]:
        """Delete a dataset that no unfinished job needs; models trained on it stay."""
        yield from self._delete(path_of("datasets", name))

    def _send(self, query: Mapping[str, Any], body: Body, content_type: str) -> Exchange[DatasetInfo]:
        headers = {"Content-Type": content_type, **body.headers}
        request = Request("POST", with_query("/v1/datasets", **query), body.pieces, headers, UPLOAD_SECONDS)
        retry = self._retry if body.is_repeatable else replace(self._retry, attempts=1)
        return read((yield from send(request, retry)), dataset_info)


def _is_xml(labels: LabelColumns | Path | None) -> bool:
    return isinstance(labels, Path) or (isinstance(labels, str) and labels.lower().endswith(".xml"))


def _line(names: Sequence[str]) -> str:
    """Return names as a line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _columns(labels: LabelColumns | Path) -> str:
    return ",".join(labels) if isinstance(labels, (list, tuple)) else str(labels)
