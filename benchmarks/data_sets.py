"""Public datasets, one file each, in a folder named by the user."""

import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class DataSet(NamedTuple):
    """Examples, label indicators, label names, and the official training and test rows."""

    name: str
    X: Any
    Y: NDArray[np.int8]
    label_names: list[str]
    train: NDArray[np.int64]
    test: NDArray[np.int64]


def load(folder: Path, name: str) -> DataSet:
    """Return a multi-label dataset."""
    file = _open(folder, name)
    X = file["X"].astype(np.float64) if "X" in file else _csr(file)
    train, test = (file[key].astype(np.int64) for key in ("train_idx", "test_idx"))
    return DataSet(name, X, file["Y"], [str(label) for label in file["label_names"]], train, test)


def load_stream(folder: Path, name: str) -> tuple[Any, Any]:
    """Return features and labels of all examples in file order, each dense or CSR as stored."""
    if name == "debtags":
        return _debtags(folder)
    file = _open(folder, name)
    if name == "mfeat":  # its six views side by side
        return np.hstack([file[part] for part in sorted(file) if part.startswith("X_")]), file["Y"]
    X, Y = (file[part] if part in file else _csr(file, part) for part in ("X", "Y"))
    return X, Y


def load_split(folder: Path, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the training and test rows of a set with an official split; else None."""
    if name == "debtags":
        return None
    file = _open(folder, name)
    return tuple(file[key].astype(np.int64) for key in ("train_idx", "test_idx")) if "train_idx" in file else None


def load_records(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return records, one JSON object per line."""
    path = folder / f"{name}.jsonl.gz"
    _check_exists(path)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def load_views(folder: Path, name: str) -> tuple[dict[str, Any], NDArray[np.int8]]:
    """Return the views of a dataset by name, sparse ones in CSR, and its labels.

    emotions and mfeat are standardised; histograms of corel5k_inria are roots of shares, sparse where most are 0; scene
    has a view for each of its colours, 49 means and 49 variances of blocks of the image.
    """
    file = _open(folder, name)
    if name == "corel5k_inria":
        return {part[2:]: _root_histograms(file[part]) for part in sorted(file) if part.startswith("X_")}, file["Y"]
    if name == "mfeat":
        parts = {part[2:]: file[part].astype(np.float64) for part in sorted(file) if part.startswith("X_")}
        return {part: standardised(view, view)[0] for part, view in parts.items()}, file["Y"]
    if name == "scene":
        X, colour = file["X"].astype(np.float64), np.arange(294) // 49 % 3
        return {part: X[:, colour == at] for at, part in enumerate("LUV")}, file["Y"]
    X = file["X"].astype(np.float64) if "X" in file else _csr(file)
    if name == "emotions":  # tempi and spectral moments have different scales
        X = standardised(X, X)[0]
    which = file["view_id"]
    return {str(view): X[:, np.flatnonzero(which == k)] for k, view in enumerate(file["view_names"])}, file["Y"]


def load_views_split(folder: Path, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the official training and test rows of a dataset with views; else None."""
    return load_split(folder, name) if name == "corel5k_inria" else None


def _root_histograms(counts: NDArray[Any]) -> Any:
    """Return the roots of the shares of a histogram, whose inner products give the Hellinger distance."""
    counts = counts.astype(np.float64)
    roots = np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))
    return sp.csr_array(roots) if np.mean(roots != 0) < 0.2 else roots


def load_attributes(folder: Path) -> tuple[NDArray[np.int8], list[str]]:
    """Return the attributes of Animals with Attributes, shape (50 classes, 85), and the class names."""
    file = _open(folder, "awa_attributes")
    return file["A"], [str(name) for name in file["class_names"]]


def standardised(train: Any, test: Any) -> tuple[Any, Any]:
    """Return features standardised by the training examples."""
    mean, spread = train.mean(axis=0), train.std(axis=0)
    spread[spread == 0] = 1.0
    return (train - mean) / spread, (test - mean) / spread


def _debtags(folder: Path) -> tuple[sp.csr_array, sp.csr_array]:
    """Return Debian packages in CSR: words of title and description and two categories as features, tags as labels."""
    packages = load_records(folder, "debtags")
    X = named_columns(dict(_package_features(package)) for package in packages)
    return X, named_columns(dict.fromkeys(package["tags"], 1) for package in packages).astype(np.int8)


def _package_features(package: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for part in ("title", "text"):
        yield from ((f"{part}={word}", value) for word, value in words_of(package[part]))
    for part in ("section", "priority"):
        yield f"{part}={package[part]}", 1.0


def words_of(text: str) -> Iterator[tuple[str, float]]:
    """Yield the words of a text with the logarithm of their count, plus 1."""
    for word, count in Counter(re.findall(r"[a-z]{2,}", text.lower())).items():
        yield word, 1.0 + math.log(count)


def named_columns(rows: Iterator[dict[str, float]]) -> sp.csr_array:
    """Return named rows as CSR; a name gets the next column when it first appears."""
    columns: dict[str, int] = {}
    indices, values, ends = [], [], [0]
    for row in rows:
        found = sorted((columns.setdefault(name, len(columns)), value) for name, value in row.items())
        indices += [column for column, _ in found]
        values += [value for _, value in found]
        ends.append(len(indices))
    return sp.csr_array((np.array(values, np.float64), indices, ends), shape=(len(ends) - 1, len(columns)))


def _open(folder: Path, name: str) -> Any:
    path = folder / f"{name}.npz"
    _check_exists(path)
    return np.load(path, allow_pickle=False)


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise SystemExit(f"{path} is missing: --data must name the folder with the datasets")


def _csr(file: Any, part: str = "X") -> sp.csr_array:
    indices, indptr, shape = (file[f"{part}_{name}"] for name in ("indices", "indptr", "shape"))
    values = file["X_data"].astype(np.float64) if part == "X" else np.ones(len(indices), np.int8)
    return sp.csr_array((values, indices, indptr), shape=tuple(shape))
