"""/v1/datasets: labelled files to train from."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pydantic_core
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.datasets import FORMATS
from manylabel_service.api import schemas
from manylabel_service.api.context import context_of
from manylabel_service.api.translation.dataset_uploads import FILE, LABELS, MULTIPART, PLAIN, receive
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.query import described, parameters, read_flag, wrong
from manylabel_service.api.web.routes import DirectRoute, JSONAnswer, RawHeaders, content, problems
from manylabel_service.datasets.records import NAME
from manylabel_service.errors import NotReady

router = APIRouter(route_class=DirectRoute, tags=["data sets"])

_STORED = ("not_ready", "storage_unavailable")
_COUNT = re.compile(r"-?[0-9]{1,9}")


def _read_name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError("must have 1 to 64 lower-case letters, digits, and dots, dashes or underscores between them")
    return value


def _read_format(value: str) -> str:
    if value not in FORMATS:
        raise ValueError(f"must be one of {', '.join(FORMATS)}")
    return value


def _read_columns(value: str) -> int | list[str]:
    """A number, or names as a line of CSV."""
    if _COUNT.fullmatch(value):
        return int(value)
    try:
        (names,) = csv.reader([value], strict=True)
    except (csv.Error, ValueError):
        names = []
    if not all(names) or not names:
        raise ValueError("must be a number of columns, or names with commas between them")
    return names


def _read_rows(value: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", value):
        raise ValueError("must be a number of rows, at least 1")
    return int(value)


_READ = {
    "name": _read_name,
    "format": _read_format,
    "label_columns": _read_columns,
    "zero_based": read_flag,
    "split": _read_rows,
}
_OF_FORMAT = {"label_columns": ("arff", "csv"), "zero_based": ("libsvm",)}

_PARAMETERS = [
    {**described("name", "What to call it.", {"type": "string"}), "required": True},
    {**described("format", "What the file is.", {"enum": list(FORMATS)}), "required": True},
    described(
        "label_columns",
        "Which columns are labels: names with commas between them; or a number, in arff of the first (of the last if "
        "it is negative), in csv of the last columns. In arff without it, the part labels of a multipart body (a Mulan "
        "XML file), or what MEKA's option in the relation's name says.",
        {"type": "string"},
    ),
    described(
        "zero_based",
        "Whether the features of libsvm count from 0; without it, they do if the file has a feature 0.",
        {"type": "boolean"},
    ),
    described("split", "So many rows, the first, are the split train, and the others test.", {"type": "integer"}),
]


def _body() -> dict[str, Any]:
    parts = {"file": {"type": "string", "format": "binary"}, "labels": {"type": "string", "format": "binary"}}
    media = {name: content(media_type=name)["content"][name] for name in PLAIN}
    media[MULTIPART] = {"schema": {"type": "object", "properties": parts, "required": ["file"]}}
    return {"requestBody": {"required": True, "content": media}}


@router.post(
    "/v1/datasets",
    summary="Upload a data set",
    status_code=201,
    response_model=schemas.Dataset,
    responses=problems(
        "stream_idle",
        "dataset_exists",
        "body_too_large",
        "unsupported_media_type",
        "invalid_request",
        "invalid_dataset",
        "limit_exceeded",
        "storage_full",
        *_STORED,
    ),
    openapi_extra={"parameters": _PARAMETERS, **_body()},
)
async def upload_dataset(request: Request) -> Response:
    """The body is the file; for arff with a Mulan XML file, two parts, `file` and `labels`. It is read before the
    answer. Its address is in the header Location."""
    context = context_of(request)
    name, format, options = _ordered(parameters(request, _READ))
    context.registry.require_ready()
    datasets = context.datasets
    if datasets.uploading.locked():
        raise NotReady("as many data sets are being uploaded as the server takes at a time")
    async with datasets.uploading:
        await datasets.check_free(name)
        with ExitStack() as stack:
            files = await receive(request, datasets, context.settings, stack)
            if LABELS in files and (format != "arff" or "labels" in options):
                raise Problem("invalid_request", "the part labels is for arff without the parameter label_columns only")
            record = await datasets.add(name, files[FILE], format, options, files.get(LABELS))
    return _json(record.model_dump(), 201, [(b"location", f"/v1/datasets/{name}".encode())])


def _ordered(given: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Name, format and the options of its reader."""
    for due in ("name", "format"):
        if due not in given:
            raise wrong(due, "is missing")
    format = given["format"]
    for parameter, formats in _OF_FORMAT.items():
        if parameter in given and format not in formats:
            raise wrong(parameter, f"is for {' and '.join(formats)} only, not for {format}")
    if format == "csv":
        columns = given.get("label_columns")
        if columns is None:
            raise wrong("label_columns", "is missing: csv needs it")
        options = {"label_columns": abs(columns) if isinstance(columns, int) else columns}
    else:
        options = {"labels": given["label_columns"]} if "label_columns" in given else {}
    if "zero_based" in given:
        options["zero_based"] = given["zero_based"]
    if "split" in given:
        options["train_rows"] = given["split"]
    return given["name"], format, options


@router.get(
    "/v1/datasets",
    summary="List data sets",
    response_model=schemas.DatasetList,
    responses=problems(*_STORED),
)
async def list_datasets(request: Request) -> Response:
    """All data sets, by name."""
    context = context_of(request)
    context.registry.require_ready()
    return _json({"datasets": [record.model_dump() for record in await context.datasets.list()]})


@router.get(
    "/v1/datasets/{name}",
    summary="Show a data set",
    response_model=schemas.Dataset,
    responses=problems("dataset_not_found", "invalid_request", *_STORED),
    openapi_extra={
        "parameters": [described("details", "Whether to name its labels, with the rows of each.", {"type": "boolean"})]
    },
)
async def show_dataset(request: Request, name: str) -> Response:
    """What is in it."""
    context = context_of(request)
    details = parameters(request, {"details": read_flag}).get("details", False)
    context.registry.require_ready()
    record = await context.datasets.get(name)
    return _json({**record.model_dump(), **(await context.datasets.details(name) if details else {})})


@router.delete(
    "/v1/datasets/{name}",
    summary="Delete a data set",
    status_code=204,
    responses=problems("dataset_not_found", "dataset_in_use", *_STORED),
)
async def delete_dataset(request: Request, name: str) -> Response:
    """Models that were trained from it stay. While a job that has not ended needs it, it stays too."""
    context = context_of(request)
    context.registry.require_ready()
    await context.datasets.delete(name, context.jobs.uses_dataset)
    return Response(status_code=204)


def _json(document: object, status: int = 200, headers: RawHeaders = ()) -> Response:
    return JSONAnswer(pydantic_core.to_json(document), status, headers)
