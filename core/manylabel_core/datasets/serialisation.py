"""Datasets as bytes and back: arrays and names in the format of a state."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.datasets.label_details import LabelDetails, checked_details
from manylabel_core.records import TextSettings
from manylabel_core.rows import MAX_COLUMNS, MAX_EXAMPLE_WEIGHT, MAX_MAGNITUDE
from manylabel_core.state import DamagedState, NewerState, State
from manylabel_core.vocabulary import Vocabulary

View = NDArray[np.float32] | sp.csr_array
"""Features of shape (n_samples, n_features), float32, dense or CSR."""

VERSION = 2
"""Header: {"kind", "version", "views": [[name, columns, sparse, named]], "splits": [name]}. If rows lack views,
"missing" lists the numbers of the views that some rows lack. If rows are records, "text" has their text options. From
version 2 on, "weighted" is true for rows with weights. Without weights a dataset is written as version 1, which older
programs read.
"""

KIND = "dataset"

Arrays = dict[str, NDArray[Any]]


def to_bytes(attributes: Mapping[str, Any]) -> bytes:
    """Serialise the attributes of a dataset; the same attributes always give the same bytes."""
    arrays: Arrays = {"labelled": attributes["labelled"], **_names("labels", attributes["label_names"])}
    arrays |= _csr("Y", attributes["Y"], with_values=False)
    views = []
    for at, (name, view) in enumerate(attributes["views"].items()):
        names = attributes["feature_names"].get(name)
        views.append([name, int(view.shape[1]), sp.issparse(view), names is not None])
        arrays |= _csr(f"view{at}", view, with_values=True) if sp.issparse(view) else {f"view{at}": view}
        arrays |= {} if names is None else _names(f"features{at}", names)
    splits = attributes["splits"]
    arrays |= {f"split{at}": rows for at, rows in enumerate(splits.values())}
    header = {"kind": KIND, "version": 1, "views": views, "splits": list(splits)}
    if missing := {at: name for at, name in enumerate(attributes["views"]) if name in attributes["missing"]}:
        header["missing"] = list(missing)
        arrays |= {f"missing{at}": attributes["missing"][name] for at, name in missing.items()}
    if attributes["text"] is not None:
        header["text"] = attributes["text"].to_json()
    if attributes["label_details"]:
        arrays["label_details"] = details_to_array(attributes["label_details"])
    if attributes["weights"] is not None:
        header |= {"version": VERSION, "weighted": True}
        arrays["weights"] = attributes["weights"]
    return State(arrays, header).to_bytes()


def from_bytes(data: bytes) -> dict[str, Any]:
    """Parse the attributes of a dataset; check all conditions that trainers require."""
    arrays, header = State.from_bytes(data)
    if header.get("kind") != KIND or type(header.get("version")) is not int:
        raise DamagedState("not a dataset")
    if header["version"] > VERSION:
        raise NewerState(f"the dataset has version {header['version']}; this program reads versions up to {VERSION}")
    try:
        return _restored(arrays, header)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise DamagedState(f"not a dataset: {error}") from error


def _restored(arrays: Arrays, header: dict[str, Any]) -> dict[str, Any]:
    label_names = _read_names("labels", arrays)
    Y = _read_csr("Y", arrays, len(label_names))
    n_rows = Y.shape[0]
    views: dict[str, View] = {}
    feature_names: dict[str, tuple[str, ...] | None] = {}
    for at, (name, width, sparse, named) in enumerate(header["views"]):
        if not isinstance(name, str) or name in views or type(width) is not int or not 0 <= width <= MAX_COLUMNS:
            raise ValueError("views: expected distinct names and their numbers of features")
        views[name] = _read_csr(f"view{at}", arrays, width, True) if sparse else _dense(arrays[f"view{at}"], width)
        feature_names[name] = _read_names(f"features{at}", arrays) if named else None
        if views[name].shape[0] != n_rows or (named and len(feature_names[name] or ()) != width):
            raise ValueError(f"view {name!r} does not match the labels or its names")
    if not views:
        raise ValueError("views: expected at least one")
    labelled = arrays["labelled"]
    if labelled.dtype != np.bool_ or labelled.shape != (n_rows,) or np.diff(Y.indptr)[~labelled].any():
        raise ValueError("labelled: expected a flag for each row, and no labels in rows whose flag is false")
    splits = {name: _rows(arrays[f"split{at}"], n_rows) for at, name in enumerate(_distinct(header["splits"]))}
    return {
        "views": views,
        "Y": Y,
        "label_names": label_names,
        "feature_names": feature_names,
        "splits": splits,
        "labelled": labelled,
        "missing": _missing(arrays, header.get("missing", []), views, n_rows),
        "text": TextSettings.from_json(header["text"]) if "text" in header else None,
        "weights": _weights(arrays["weights"], n_rows) if header.get("weighted") else None,
        "label_details": details_from_array(arrays.get("label_details"), label_names),
    }


def details_to_array(details: LabelDetails) -> NDArray[np.uint8]:
    """Serialise label details; deterministic."""
    return np.frombuffer(json.dumps(details, sort_keys=True).encode(), dtype=np.uint8)


def details_from_array(array: NDArray[Any] | None, label_names: tuple[str, ...]) -> LabelDetails:
    """Parse untrusted label details; without an array, the result is empty. Raises ValueError if they are invalid."""
    if array is None:
        return {}
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError("label_details: expected bytes")
    try:
        return checked_details(json.loads(array.tobytes()), label_names)
    except (AttributeError, RecursionError) as error:
        raise ValueError("label_details: expected an object of labels") from error


def _missing(arrays: Arrays, numbers: Any, views: Mapping[str, View], n_rows: int) -> Arrays:
    """Return the rows that lack each view; check that no row lacks all views, and that missing rows are empty."""
    names = list(views)
    if not isinstance(numbers, list) or not all(type(at) is int and 0 <= at < len(names) for at in numbers):
        raise ValueError("missing: must list numbers of views")
    masks = {names[at]: arrays[f"missing{at}"] for at in numbers}
    for name, mask in masks.items():
        if mask.dtype != np.bool_ or mask.shape != (n_rows,):
            raise ValueError("missing: expected a flag for each row")
        view = views[name]
        if view[mask].any() if isinstance(view, np.ndarray) else np.diff(view.indptr)[mask].any():
            raise ValueError(f"missing: rows that lack view {name!r} have features there")
    if len(masks) == len(names) and np.all(list(masks.values()), axis=0).any():
        raise ValueError("missing: a row lacks every view")
    return masks


def _weights(weights: NDArray[Any], n_rows: int) -> NDArray[np.float64]:
    if weights.dtype != np.float64 or weights.shape != (n_rows,):
        raise ValueError("weights: expected a float64 number for each row")
    if not ((weights > 0.0) & (weights <= MAX_EXAMPLE_WEIGHT)).all():
        raise ValueError(f"weights: expected numbers above 0 and at most {MAX_EXAMPLE_WEIGHT:g}")
    return weights


def _distinct(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise ValueError("splits: expected distinct names")
    return names


def _rows(rows: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    rising = rows.dtype == np.int64 and rows.ndim == 1 and bool((rows[1:] > rows[:-1]).all())
    if not rising or (len(rows) and not 0 <= rows[0] <= rows[-1] < n_rows):
        raise ValueError("splits: expected ascending rows of the dataset")
    return rows


def _dense(array: NDArray[Any], width: int) -> NDArray[np.float32]:
    if array.dtype != np.float32 or array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"expected a view of {width} columns of float32")
    if array.size and max(-np.fmin.reduce(array, axis=None), np.fmax.reduce(array, axis=None)) > MAX_MAGNITUDE:
        raise ValueError(f"values must be NaN, or at most {MAX_MAGNITUDE:g} in absolute value")
    return array


def _check_values(array: NDArray[Any]) -> None:
    # Minimum and maximum are NaN if any value is NaN, and need no temporary array.
    if array.size and not (array.min() >= -MAX_MAGNITUDE and array.max() <= MAX_MAGNITUDE):
        raise ValueError(f"values must be finite and at most {MAX_MAGNITUDE:g} in absolute value")


def _csr(name: str, matrix: Any, with_values: bool) -> Arrays:
    arrays = {f"{name}.indptr": matrix.indptr.astype(np.int64), f"{name}.indices": matrix.indices.astype(np.int32)}
    return arrays | ({f"{name}.values": matrix.data} if with_values else {})


def _read_csr(name: str, arrays: Arrays, width: int, with_values: bool = False) -> sp.csr_array:
    indptr, indices = arrays[f"{name}.indptr"], arrays[f"{name}.indices"]
    values = arrays[f"{name}.values"] if with_values else np.ones(len(indices), dtype=np.int8)
    if indptr.dtype != np.int64 or indices.dtype != np.int32 or {indptr.ndim, indices.ndim, values.ndim} != {1}:
        raise ValueError(f"{name}: expected vectors of int64 (indptr), int32 (indices) and values")
    if with_values and values.dtype != np.float32:
        raise ValueError(f"{name}: expected values of float32")
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"{name}: indptr must ascend from 0 to the number of indices")
    if len(values) != len(indices) or (len(indices) and not 0 <= indices.min() <= indices.max() < width):
        raise ValueError(f"{name}: indices must be below {width}, each with a value")
    within = np.ones(len(indices), dtype=np.bool_)  # whether the previous index is in the same row
    within[indptr[:-1][indptr[:-1] < len(indices)]] = False
    if (indices[1:] <= indices[:-1])[within[1:]].any():
        raise ValueError(f"{name}: indices must ascend within a row")
    _check_values(values)
    return sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, width))


def _names(part: str, names: Sequence[str]) -> Arrays:
    return {f"{part}.{key}": array for key, array in Vocabulary(names).state().items()}


def _read_names(part: str, arrays: Arrays) -> tuple[str, ...]:
    return Vocabulary.from_state({key: arrays[f"{part}.{key}"] for key in ("bytes", "offsets")}).names
