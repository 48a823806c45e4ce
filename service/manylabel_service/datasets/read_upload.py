"""Child process that parses an uploaded file.

Its files are the upload, the dataset to write, and optional parts: the Mulan XML of an ARFF file, and details of
labels.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np

from manylabel_core.datasets import BadDataset, Dataset, ReaderLimits, read_dataset
from manylabel_core.datasets.label_details import read_label_details
from manylabel_core.datasets.report import report_of_counts
from manylabel_core.records import RecordLimits
from manylabel_service.datasets.sandbox_child import serve_request

CHUNK_BYTES = 2**20


def main(arguments: Sequence[str], fds: Sequence[int]) -> int:
    """Handle one request, as a child of the fork server."""
    return serve_request(read, fds)


def read(request: dict[str, Any], files: list[IO[bytes]]) -> dict[str, Any]:
    """Convert the upload to a dataset; return its description."""
    upload, result, *others = files
    parts = dict(zip(request["parts"], others, strict=True))
    checksum = _checksum(upload)
    upload.seek(0)
    details_file = parts.pop("label_details", None)
    options = {**request["options"], **parts}
    train_rows = options.pop("train_rows", None)
    limits = ReaderLimits(**request["limits"], record=RecordLimits(**request["record"]))
    dataset = read_dataset(upload, request["format"], limits=limits, **options)
    if details_file is not None:
        dataset = replace(dataset, label_details=read_label_details(details_file, dataset.label_names))
    if train_rows is not None:
        _split(dataset, train_rows)
    data = dataset.to_bytes()
    result.write(data)
    description = {**dataset.describe(), "text": None if dataset.text is None else dataset.text.to_json()}
    details: dict[str, Any] = {
        "label_names": list(dataset.label_names),
        "label_counts": dataset.label_counts().tolist(),
        "unlabelled": description.pop("unlabelled"),
    }
    if dataset.label_details:
        details["label_details"] = dataset.label_details
    report = dataset.report or report_of_counts(
        dict(zip(details["label_names"], details["label_counts"], strict=True)), dataset.n_rows, details["unlabelled"]
    )
    details["report"] = report.to_json()
    if dataset.missing:
        details["missing"] = description.pop("missing")
    return {"record": {**description, "checksum": checksum, "bytes": len(data)}, "details": details}


def _checksum(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def _split(dataset: Dataset, train_rows: int) -> None:
    """Add the splits train and test: the first rows are for training, the others for testing."""
    if not 0 < train_rows < dataset.n_rows:
        raise BadDataset(f"both splits need rows: the split must be 1 to {dataset.n_rows - 1}, not {train_rows}")
    rows = np.arange(dataset.n_rows, dtype=np.int64)
    dataset.splits.update(train=rows[:train_rows], test=rows[train_rows:])
