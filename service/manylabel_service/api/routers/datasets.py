"""/v1/datasets: labelled files for training."""

import csv
import re
from contextlib import ExitStack
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.datasets import FORMATS
from manylabel_core.datasets.formats.text import ENCODINGS
from manylabel_service import names
from manylabel_service.api.context import ContextOf
from manylabel_service.api.schemas.base import ResponseModel, omitted_if_empty
from manylabel_service.api.translation.uploads import DETAILS, FILE, LABELS, MULTIPART, PLAIN, receive
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.parameters import Flag, Parameters, from_query, one_of, wrong
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.routes import Router, content
from manylabel_service.api.web.validation import words
from manylabel_service.audit.call import note
from manylabel_service.datasets.records import DatasetMeta
from manylabel_service.online.spec.text import Text, text_to_dict

router = Router("datasets", errors=["dataset_not_found"])

TABLES = ("csv", "tsv")
RECORDS = (*TABLES, "ndjson")
"""Formats whose rows can be records."""
_LISTS = ("ignore", "number", "category", "names")
"""Parameters that list columns."""
_COUNT = re.compile(r"-?[0-9]{1,9}")


def _check_rows(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"[1-9][0-9]{0,8}", value):
        raise ValueError("must be a number of rows, at least 1")
    return value


class Upload(Parameters):
    """Parameters of an upload: the format of the file and how to read it."""

    name: Annotated[str, Field(pattern=names.PATTERN)]
    """Name of the dataset."""
    format: one_of(tuple(FORMATS))  # type: ignore[valid-type]
    """Format of the file."""
    label_columns: str | None = None
    """Label columns: names separated by commas, or a number. The number counts the last columns in csv and tsv, and the
    first columns in arff (the last columns if it is negative). By default, arff takes them from the part `labels` of a
    multipart body (a Mulan XML file) or from MEKA's option in the relation's name. With a `separator`: the column of
    csv or tsv whose cells list the relevant labels; in ndjson, the field of a record that lists them."""
    tags: Annotated[str, Field(max_length=256)] | None = None
    """Column or field that lists the relevant labels, instead of `label_columns`."""
    separator: Annotated[str, Field(max_length=16)] | None = None
    """Separator of labels in a cell of csv or tsv, or in a string of ndjson. By default, the separator of the column
    `tags` is detected from its cells, and a string is one label. If `separator` is empty, a cell is one label."""
    ignore: str | None = None
    """Columns or fields to ignore, separated by commas."""
    text: str | None = None
    """Text columns or fields, separated by commas; or a JSON object with text options, as for a new model."""
    number: str | None = None
    """Columns or fields that are numbers, separated by commas; their other cells are missing values."""
    category: str | None = None
    """Columns or fields that are categories, separated by commas, such as codes of digits."""
    names: str | None = None
    """Names of all columns of csv or tsv without a line of names, separated by commas."""
    decimal: one_of((".", ",")) | None = None  # type: ignore[valid-type]
    """Decimal mark of csv and tsv; by default, it is detected from the columns of numbers."""
    missing: str | None = None
    """Cells of csv and tsv that mean a missing value in any column, separated by commas. They replace the usual words
    such as NA. If the list is empty, only empty cells are missing values."""
    empty: one_of(("unknown", "none")) | None = None  # type: ignore[valid-type]
    """Meaning of an empty cell of labels: `unknown` labels (default), or `none`."""
    merge_alike: Flag | None = None
    """Whether labels in lists that differ only in case, spaces or Unicode form are merged into the label that comes
    first."""
    encoding: one_of(ENCODINGS) | None = None  # type: ignore[valid-type]
    """Encoding of csv, tsv and ndjson; default: UTF-8, or UTF-16 with its mark."""
    weight: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Column or field of records with the weight of each row, above 0 and at most 1,000. Without it, the weight is in
    `weight` of an ndjson item, in the array `weight` of npz, or in braces after a row of arff."""
    zero_based: Flag | None = None
    """Whether libsvm features count from 0; default: if the file has a feature 0."""
    split: Annotated[int, Field(ge=1, lt=10**9), BeforeValidator(_check_rows)] | None = None
    """Number of rows at the start of the file that form the split `train`; the others form `test`."""

    def columns(self) -> int | list[str] | None:
        """Return the label columns: a number, or names from a line of CSV. Raises a Problem."""
        if self.label_columns is None or _COUNT.fullmatch(self.label_columns):
            return None if self.label_columns is None else int(self.label_columns)
        return _names("label_columns", self.label_columns, "a number of columns, or names separated by commas")

    def options(self) -> dict[str, Any]:
        """Return the options of the reader of the format. Raises a Problem for an option that the format lacks."""
        for parameter, formats in _OF_FORMAT.items():
            if getattr(self, parameter) is not None and self.format not in formats:
                raise wrong(parameter, f"is allowed only for {' and '.join(formats)}, not for {self.format}")
        columns = self.columns()
        of_others = {"labels": columns, "zero_based": self.zero_based}
        options = self._parts(columns) if self.format in RECORDS else of_others
        given = {**options, "train_rows": self.split}
        return {name: value for name, value in given.items() if value is not None}

    def _parts(self, columns: int | list[str] | None) -> dict[str, Any]:
        """Return the kinds of the columns of a table, or of the fields of records. Raises a Problem."""
        if columns is not None and self.tags is not None:
            raise wrong("label_columns", "cannot be combined with tags")
        if columns is None and self.tags is None:
            if self.format != "ndjson":
                raise wrong("label_columns", f"is missing: the format {self.format} needs label_columns or tags")
            if self.separator is not None:
                raise wrong("separator", "needs label_columns, the name of the field with labels")
            if self.weight is not None:
                raise wrong("weight", "needs label_columns; items with x and y have their weight in the field weight")
        lists = self.format == "ndjson" or self.separator is not None
        is_one = columns in (1, -1) and self.format != "ndjson" if isinstance(columns, int) else len(columns or ()) == 1
        if columns is not None and lists and not is_one:
            raise wrong("label_columns", "must be one name, that of the column or field that lists the labels")
        return {
            "label_columns": abs(columns) if isinstance(columns, int) else columns,
            "tags": self.tags,
            "separator": self.separator,
            **{name: getattr(self, name) and _listed(name, getattr(self, name)) for name in _LISTS},
            "missing": self.missing if not self.missing else _listed("missing", self.missing),
            "decimal": self.decimal,
            "empty": self.empty,
            "encoding": self.encoding,
            "merge_alike": self.merge_alike,
            "text": None if self.text is None else _text(self.text),
            "weight": self.weight,
        }


def _text(text: str) -> dict[str, Any]:
    """Return text options with all defaults. Raises a Problem."""
    try:
        if text.lstrip().startswith("{"):
            return text_to_dict(Text.model_validate_json(text))
        names = _names("text", text, "names separated by commas, or an object")
        return text_to_dict(Text(fields=names))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise wrong("text", f"{place} {words(first)}".lstrip()) from error


def _listed(parameter: str, text: str) -> list[str]:
    return _names(parameter, text, "names separated by commas")


def _names(parameter: str, text: str, allowed: str) -> list[str]:
    """Return the names in a line of CSV. Raises a Problem."""
    try:
        (found,) = csv.reader([text], strict=True)
    except (csv.Error, ValueError):
        found = []
    found = [name.strip() for name in found]
    if not all(found) or not found:
        raise wrong(parameter, f"must be {allowed}")
    return found


class Details(Parameters):
    """Level of detail of a dataset."""

    details: Flag = False
    """Whether to include label names and the number of rows of each."""


_OF_FORMAT = {
    "label_columns": ("arff", *RECORDS),
    "tags": RECORDS,
    "separator": RECORDS,
    "ignore": RECORDS,
    "text": RECORDS,
    "number": RECORDS,
    "category": RECORDS,
    "empty": RECORDS,
    "encoding": RECORDS,
    "merge_alike": RECORDS,
    "names": TABLES,
    "decimal": TABLES,
    "missing": TABLES,
    "weight": RECORDS,
    "zero_based": ("libsvm",),
}


def _body() -> dict[str, Any]:
    parts = {name: {"type": "string", "format": "binary"} for name in (FILE, LABELS, DETAILS)}
    media = {name: content(media_type=name)["content"][name] for name in PLAIN}
    media[MULTIPART] = {"schema": {"type": "object", "properties": parts, "required": ["file"]}}
    return {"requestBody": {"required": True, "content": media}}


class Dataset(DatasetMeta):
    """Dataset. The last six fields are present only with `details=true`."""

    label_names: list[str] = Field(default_factory=list)
    """Names of the labels, in the order of their columns."""
    label_counts: list[int] = Field(default_factory=list)
    """For each label, the number of rows for which it is relevant."""
    unlabelled: int = 0
    """Number of rows without known labels."""
    missing: dict[str, int] = Field(default_factory=dict)
    """For each view, the number of rows that lack it; empty if every row has all views."""
    label_details: dict[str, dict[str, str]] = Field(default_factory=dict)
    """`title`, `description` and `uri` of labels, as uploaded; empty if labels have none."""
    report: dict[str, Any] = Field(default_factory=dict)
    """Report of how the file was read: `rows`, `columns` (with `kind`, `values`, `missing`, `example`, `note`, `odd`
    and `odd_cells` with lines), `labels` with counts, `unlabelled` rows, rows `omitted` by reason, `settings` of the
    file, the `first` rows as they are learnt, and `warnings`. Absent for datasets that were not uploaded."""


class DatasetList(ResponseModel):
    """All datasets, by name."""

    datasets: list[DatasetMeta]
    damaged: list[str] = omitted_if_empty()
    """Names of datasets that cannot be read; present only if there are any."""


@router.endpoint(
    "POST /v1/datasets",
    "Upload a dataset",
    "train",
    Dataset,
    [
        "stream_idle",
        "dataset_exists",
        "body_too_large",
        "unsupported_media_type",
        "invalid_dataset",
        "limit_exceeded",
        "storage_full",
    ],
    status=201,
    openapi_extra=_body(),
    response_model_exclude_unset=True,
)
async def upload_dataset(
    request: Request,
    response: Response,
    context: ContextOf,
    access: AccessOf,
    query: Annotated[Upload, from_query(Upload)],
) -> dict[str, Any]:
    """Uploads a file as the body, or as multipart form data with the part `file`. The file can be gzipped, except for
    npz. Other parts are `labels` (for arff, a Mulan XML file) and `label_details` (a JSON object with titles,
    descriptions and URIs of labels). The file is parsed before the response. The header Location has the address of the
    dataset."""
    note(request.scope, dataset=query.name)
    access.require_names(query.name)
    options = query.options()
    context.registry.require_ready()
    datasets = context.datasets
    await datasets.check_free(query.name)
    with ExitStack() as stack:
        files = await receive(request, datasets, context.settings, stack)
        if LABELS in files and (query.format != "arff" or "labels" in options):
            detail = "the part labels is allowed only for arff, and only without the parameter label_columns"
            raise Problem("invalid_request", detail)
        file = files.pop(FILE)
        record = await datasets.add(query.name, file, query.format, options, files)
    response.headers["Location"] = f"/v1/datasets/{query.name}"
    return record.model_dump()


@router.endpoint("GET /v1/datasets", "List datasets", "read", DatasetList)
async def list_datasets(context: ContextOf, access: AccessOf) -> dict[str, Any]:
    """Lists the datasets that the caller may see, by name."""
    context.registry.require_ready()
    records, damaged = await context.datasets.listed()
    seen = [record for record in records if access.may_see(record.name)]
    return {"datasets": seen, "damaged": list(filter(access.may_see, damaged))}


@router.endpoint("GET /v1/datasets/{name}", "Show a dataset", "read", Dataset, response_model_exclude_unset=True)
async def show_dataset(context: ContextOf, name: str, query: Annotated[Details, from_query(Details)]) -> dict[str, Any]:
    """Shows a dataset."""
    context.registry.require_ready()
    record = await context.datasets.get(name)
    return {**record.model_dump(), **(await context.datasets.details(name) if query.details else {})}


@router.endpoint("DELETE /v1/datasets/{name}", "Delete a dataset", "train", None, ["dataset_in_use"], status=204)
async def delete_dataset(context: ContextOf, name: str) -> None:
    """Deletes a dataset. Models trained on it stay. A dataset of an unfinished job cannot be deleted."""
    context.registry.require_ready()
    await context.datasets.delete(name, context.jobs.uses_dataset)
