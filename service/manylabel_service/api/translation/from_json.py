"""Conversion of items of a request to examples."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from manylabel_core.records import RecordEncoder, RecordError, RecordLimits
from manylabel_core.records.forms import input_kind
from manylabel_service.api.schemas import (
    LabelsBody,
    PredictItem,
    PredictNumbers,
    PredictRequest,
    SparseFeatures,
    TrainedItem,
    TrainedNumbers,
    TrainedRequest,
    UpdateItem,
    UpdateNumbers,
    form_of_trained,
)
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.validation import Path, check_known, invalid_body, validated
from manylabel_service.clock import unix_ms
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.spec.spec import MAX_NAME_BYTES
from manylabel_service.storage import position_key
from manylabel_service.trained.inputs import Inputs, Record, Views, as_features

MAX_POSITION_CHARACTERS = MAX_TIME_CHARACTERS = 64

MAX_FIELDS = RecordLimits().fields

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_PLUS_LOST = re.compile(r":\d\d(\.\d+)? \d\d:?\d\d$")

LABELS: TypeAdapter[list[str] | dict[str, bool]] = TypeAdapter(LabelsBody)
"""Validator of labels."""


def read_position(value: str) -> str:
    """Return a position that this server has returned; raises ValueError for other text."""
    try:
        if len(value) <= MAX_POSITION_CHARACTERS:
            position_key(value)
            return value
    except ValueError:
        pass
    raise ValueError("must be a position from a response of this model")


def read_moment(value: str) -> str | int:
    """Return a position unchanged, or a time as milliseconds of Unix time; raises ValueError for other text."""
    if _DATE.match(value):  # a date without a time looks like a position
        if _PLUS_LOST.search(value):
            raise ValueError("must have its + written as %2B, because a + in an address is a space")
    else:
        with suppress(ValueError):
            return read_position(value)
    with suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(value)
        if at.tzinfo is not None and len(value) <= MAX_TIME_CHARACTERS:
            return unix_ms(at)
    raise ValueError("must be a position of the model's log, or a time with an offset, such as 2026-11-27T10:03:00Z")


def to_features(
    item: Any, at: Path, max_features: int, records: RecordEncoder, max_fields: int | None = MAX_FIELDS
) -> Features:
    """Return the features of an item to predict at the path `at` of the body.

    `max_fields` limits the numbers of the item, its labels, and the numbers of all its views together; None if the body
    is too small to exceed the limit.
    """
    check_fields(item, at, max_fields)
    kind = PredictItem if at else PredictRequest
    if _has_record(item):
        return record_features(validated(kind, item, at, path_in_item).x, (*at, "x"), max_features, records)
    valid = validated(PredictNumbers, item, at, path_in_item, {(): kind})
    return _features(valid.x, (*at, "x"), max_features)


def to_inputs(
    item: Any, at: Path, max_features: int, records: RecordEncoder | None, max_fields: int | None = MAX_FIELDS
) -> Inputs:
    """Return the inputs of an item to predict by a trained model, which may have views.

    Without an encoder of records, only numbers are accepted. Raises the errors of `to_features`.
    """
    check_fields(item, at, max_fields)
    try:
        valid = TrainedNumbers.model_validate(item)
    except ValidationError as error:
        if records is None or not (isinstance(item, dict) and form_of_trained(item.get("x")) in ("record", "text")):
            raise invalid_body(error, at, path_in_item, {(): TrainedItem if at else TrainedRequest}) from error
        return _trained_record(item, at, max_features, records)
    if (valid.x is None) == (valid.views is None):
        raise invalid(at, "must have either x or views")
    if isinstance(valid.x, list | SparseFeatures | dict):
        return _features(valid.x, (*at, "x"), max_features)
    path, views = (("views",), valid.views) if valid.x is None else (("x", "views"), valid.x.views)
    assert views is not None
    return Views({view: _features(x, (*at, *path, view), max_features) for view, x in views.items()}, path)


def _trained_record(item: Any, at: Path, max_features: int, records: RecordEncoder) -> Record:
    valid = validated(TrainedItem, item, at, path_in_item, {(): TrainedItem if at else TrainedRequest})
    if valid.views is not None:
        raise invalid(at, "must have either x or views")
    return Record(valid.x, record_features(valid.x, (*at, "x"), max_features, records), records)


def to_example(
    item: Any,
    at: Path,
    max_features: int,
    records: RecordEncoder,
    alone: type[UpdateItem] = UpdateItem,
    max_fields: int | None = MAX_FIELDS,
) -> Example:
    """Return the example of an item to learn. `alone` is the schema of an item outside of a batch. Raises the errors of
    `to_features`."""
    check_fields(item, at, max_fields)
    kind = UpdateItem if at else alone
    if _has_record(item):
        record = validated(kind, item, at, path_in_item)
        x = record_features(record.x, (*at, "x"), max_features, records)
        return Example(x, to_labels(record.y, (*at, "y")), record.weight, record.source, record.ref)
    valid = validated(UpdateNumbers, item, at, path_in_item, {(): kind})
    y = to_labels(valid.y, (*at, "y"))
    return Example(_features(valid.x, (*at, "x"), max_features), y, valid.weight, valid.source, valid.ref)


def max_fields_of(body: bytes, most: int) -> int | None:
    """Return the maximum number of fields of an item in a body of JSON; None if the body is too small to have more."""
    return None if len(body) <= most else most


def check_fields(item: Any, at: Path, max_fields: int | None) -> None:
    """Raise a Problem for an item with too many fields, numbers or labels, before it is validated."""
    if not isinstance(item, dict):
        return
    check_known(item, at)
    if max_fields is not None:
        for name in ("x", "y", "views"):
            check_count(item.get(name), (*at, name), max_fields)


def check_count(value: Any, at: Path, max_fields: int) -> None:
    """Raise a Problem for an object or a list with too many fields, numbers or labels."""
    if (count := _n_fields(value)) > max_fields:
        raise invalid(at, f"must have at most {max_fields:,} fields, numbers or labels, has {count:,}")


def _n_fields(value: Any) -> int:
    """Return the number of elements of an object or a list, including nested ones."""
    if not isinstance(value, list | dict):
        return 0
    count = len(value)
    if isinstance(value, dict):
        for inside in value.values():
            if isinstance(inside, list):
                count += len(inside)
            elif isinstance(inside, dict):
                count += _n_fields(inside)
    return count


def _has_record(item: Any) -> bool:
    return isinstance(item, dict) and input_kind(item.get("x")) in ("record", "text")


def record_features(x: Any, at: Path, max_features: int, records: RecordEncoder) -> Features:
    """Return the features of a record at the path `at` of the body. Raises the errors of `to_features`."""
    try:
        record = records.read(x)
    except RecordError as error:
        raise invalid((*at, *error.path), error.detail) from error
    _check_count(record.features, at, max_features)
    return as_features(record)


def _features(
    x: list[float | None] | SparseFeatures | dict[str, float | None], at: Path, max_features: int
) -> Features:
    if isinstance(x, list):
        _check_count(x, at, max_features)
        return Features(None, None, np.array(x, dtype=np.float32))  # None becomes NaN
    if isinstance(x, SparseFeatures):
        return _sparse(x, at, max_features)
    _check_count(x, at, max_features)
    _check_bytes(x, at)
    values = np.array(list(x.values()), dtype=np.float32)
    if _lacks_some(values):
        x = {name: value for name, value in x.items() if value is not None}
        values = np.array(list(x.values()), dtype=np.float32)
    return Features(tuple(x), None, values)


def _sparse(x: SparseFeatures, at: Path, max_features: int) -> Features:
    if len(x.indices) != len(x.values):
        raise invalid((*at, "values"), f"must have {len(x.indices)} elements, one for each index; has {len(x.values)}")
    indices = np.array(x.indices, dtype=np.int32)
    values = np.array(x.values, dtype=np.float32)
    if (indices[1:] <= indices[:-1]).any():
        order = np.argsort(indices, kind="stable")
        indices, values = indices[order], values[order]
        repeated = np.flatnonzero(indices[1:] == indices[:-1])
        if repeated.size:
            place = int(order[repeated + 1].min())
            raise invalid((*at, "indices", place), f"repeats the index {x.indices[place]}")
    if indices.size and indices[-1] >= max_features:
        place = next(i for i, index in enumerate(x.indices) if index >= max_features)
        raise invalid((*at, "indices", place), f"must be below {max_features}, the limit of this server")
    if _lacks_some(values):
        known = ~np.isnan(values)
        indices, values = indices[known], values[known]
    return Features(None, indices, values)


def _lacks_some(values: NDArray[np.float32]) -> bool:
    """Return whether a value is NaN; a dot product detects it faster than a loop."""
    square = values.dot(values)
    return bool(square != square)


def to_labels(y: list[str] | dict[str, bool], at: Path) -> Labels:
    """Return the labels at the path `at` of the body; raise a Problem for a repeated label."""
    if isinstance(y, dict):
        _check_bytes(y, at)
        signs = np.array([1 if relevant else -1 for relevant in y.values()], dtype=np.int8)
        return Labels(tuple(y), signs, complete=False)
    _check_bytes(y, at)
    if len(set(y)) < len(y):
        first = dict(zip(reversed(y), range(len(y) - 1, -1, -1), strict=True))
        place = next(place for place, name in enumerate(y) if first[name] < place)
        raise invalid((*at, place), "repeats a label")
    return Labels.all_of(y)


def _check_count(values: Collection[Any], at: Path, max_features: int) -> None:
    if len(values) > max_features:
        raise invalid(at, f"must have at most {max_features} features, the limit of this server")


def _check_bytes(names: Sequence[str] | dict[str, Any], at: Path) -> None:
    if "".join(names).isascii():  # one byte per character, and pydantic has limited the characters
        return
    for place, name in enumerate(names):
        if len(name.encode()) > MAX_NAME_BYTES:
            raise invalid((*at, name if isinstance(names, dict) else place), "must have 1 to 256 bytes")


def path_in_item(location: Sequence[str | int]) -> Path:
    """Return the path inside an item. In a location, pydantic inserts its name of the input kind after `x`, `y` or a
    view; it is dropped."""
    if len(location) > 1 and location[0] == "views":
        _, view, *inside = location
        return ("views", view, *path_in_item(("x", *inside))[1:])
    if len(location) < 2 or location[0] not in ("x", "y"):
        return tuple(location)
    field, form, *place = location
    if form == "several":
        return (field, *path_in_item(place))
    if form in ("named", "partial"):  # the other parts only repeat that the name is invalid
        return (field, *place[:1])
    return (field, *place)


def path_in_spec(location: Sequence[str | int]) -> Path:
    """Return the path inside a model's spec, without pydantic's names of the kinds of `features` and `labels`."""
    if location and location[0] == "features":
        return ("features", *(part for part in location[1:] if not isinstance(part, str)))
    if location and location[0] == "labels":
        return (*location[:2], *location[3:])
    if location and location[0] == "parents":
        return tuple(part for part in location if part != "[key]")
    return tuple(location)
