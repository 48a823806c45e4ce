"""NDJSON: one example a line, in the form that it would have over HTTP."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

from manylabel_core.datasets.building import Columns, DatasetBuilder
from manylabel_core.datasets.dataset import SINGLE, Dataset
from manylabel_core.datasets.formats.npz import MAX_VIEWS
from manylabel_core.datasets.formats.text import Source, check_name, numbered_lines, opened, shown
from manylabel_core.datasets.limits import BadDataset, Limits, check_number

_SPARSE = {"indices", "values"}


MERGED_LINES = "; each line has one value: curl -d leaves out the ends of lines, --data-binary sends them"
"""A hint for who has sent a file without its lines."""


def read_ndjson(source: Source, *, limits: Limits = Limits()) -> Dataset:  # noqa: B008
    """Return a data set from examples ``{"x": ..., "y": [...]}``, one a line; empty lines are skipped.

    ``x`` is a list of numbers, ``{"indices": [...], "values": [...]}``, an object of names and numbers, or
    ``{"views": {name: one of these}}``; a view has the same form in each line. A line may lack views, but not all. A
    number that is null is missing, as is what has no index or name; a 0 is a value. ``y`` lists the relevant labels;
    null, or no ``y``, is a row whose labels are not known. Views, features and labels have their places in the order in
    which they first appear.

    Parameters
    ----------
    source : path or binary stream
    limits : Limits

    Raises
    ------
    BadDataset
        With the line: what is no JSON or no example, a value that is no finite number, a name or index that comes
        twice.
    """
    with opened(source) as file:
        reading = _Reading(limits)
        for line, text in numbered_lines(file):
            if text.strip():
                try:
                    reading.add(_object(text), line)
                except ValueError as error:
                    raise BadDataset(error.detail if isinstance(error, BadDataset) else str(error), line=line) from None
    return reading.done()


class _Reading:
    """A reading takes rows of examples into columns."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._builder = DatasetBuilder(limits)
        self._single = True
        self._views: dict[str, _View] = {}
        self._labels: dict[str, int] = {}

    def add(self, item: dict[str, Any], line: int) -> None:
        if "x" not in item or set(item) - {"x", "y"}:
            raise ValueError(f"an example has x and y, not {', '.join(shown(key) for key in [*item][:5]) or 'nothing'}")
        self._add_features(item["x"])
        self._builder.end_row(self._relevant(item.get("y")), line)
        self._limits.check("features", sum(view.width for view in self._views.values()))
        self._limits.check("labels", len(self._labels))

    def _add_features(self, x: Any) -> None:
        views = x["views"] if isinstance(x, dict) and set(x) == {"views"} and isinstance(x["views"], dict) else None
        given = {SINGLE: x} if views is None else views
        if not self._builder.n_rows:
            self._single = views is None
        if self._single != (views is None):
            raise ValueError(f"x has {'no views' if views is None else 'views'}, unlike the rows before")
        if not given or len(self._views.keys() | given.keys()) > MAX_VIEWS:
            raise ValueError(f"views must have 1 to {MAX_VIEWS} views, all rows together")
        for name, features in given.items():
            if name not in self._views:
                check_name(name, "views")
                self._views[name] = view = _View(_form(features))
                view.columns.skip_to(self._builder.n_rows)
                self._builder.views[name] = view.columns
        for name, features in given.items():
            try:
                self._views[name].add(features)
            except ValueError as error:
                place = "x" if views is None else f"x.views.{name}"
                raise ValueError(f"{place}: {error.detail if isinstance(error, BadDataset) else error}") from None

    def _relevant(self, y: Any) -> list[int] | None:
        if y is None:
            return None
        if not isinstance(y, list) or not all(isinstance(label, str) for label in y):
            raise ValueError("y must be a list of labels, all that are relevant, or null")
        if len(set(y)) < len(y):
            raise ValueError("y: a label comes twice")
        for label in y:
            if label not in self._labels:
                check_name(label, "labels")
                self._labels[label] = len(self._labels)
        return [self._labels[label] for label in y]

    def done(self) -> Dataset:
        widths = {name: view.width for name, view in self._views.items()}
        return self._builder.done((*self._labels,), widths, {name: v.names() for name, v in self._views.items()})


class _View:
    """A view takes the features of one view."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.width, self._begun = 0, False
        self.columns = Columns(dense=form == "list")
        self._names: dict[str, int] = {}
        adds: dict[str, Callable[[Any], None]] = {"list": self._list, "sparse": self._sparse, "named": self._named}
        self._add = adds[form]

    def names(self) -> tuple[str, ...] | None:
        return tuple(self._names) if self.form == "named" else None

    def add(self, x: Any) -> None:
        if (form := _form(x)) != self.form:
            raise ValueError(f"features are {_FORMS[form]}, in the rows before {_FORMS[self.form]}")
        self._add(x)

    def _list(self, x: list[Any]) -> None:
        values = _numbers(x)
        if self._begun and len(values) != self.width:
            raise ValueError(f"{len(values)} numbers, the rows before have {self.width}")
        self.width, self._begun = len(values), True
        self.columns.add_dense([math.nan if value is None else value for value in values])

    def _sparse(self, x: dict[str, Any]) -> None:
        indices, values = x["indices"], _numbers(x["values"])
        if not isinstance(indices, list) or not all(type(i) is int and 0 <= i < 2**31 - 1 for i in indices):
            raise ValueError("indices must be integers, at least 0 and below 2^31 - 1")
        row = dict(zip(indices, values, strict=False))
        if not len(row) == len(indices) == len(values):
            raise ValueError("indices must be as many as values, each once")
        self.width = max(self.width, max(indices, default=-1) + 1)
        self.columns.add_sparse(_known(row))

    def _named(self, x: dict[str, Any]) -> None:
        _numbers([*x.values()])
        known = _known(x)
        for name in known:
            if name not in self._names:
                check_name(name, "features")
                self._names[name] = len(self._names)
        self.width = len(self._names)
        self.columns.add_sparse({self._names[name]: value for name, value in known.items()})


_FORMS = {"list": "a list", "sparse": "indices and values", "named": "named"}


def _form(x: Any) -> str:
    if isinstance(x, list):
        return "list"
    if isinstance(x, dict):
        return "sparse" if set(x) == _SPARSE and isinstance(x["indices"], list) else "named"
    raise ValueError("must be a list of numbers, indices and values, or an object of names and numbers")


def _known(x: dict[Any, float | None]) -> dict[Any, float]:
    return {key: value for key, value in x.items() if value is not None}


def _numbers(values: Any) -> list[float | None]:
    if not isinstance(values, list):
        raise ValueError("values must be a list of numbers")
    for value in values:
        if value is None:
            continue
        if type(value) is not float and type(value) is not int:
            raise ValueError(f"{shown(value)} is not a number")
        check_number(value)
    return values


def _object(text: str) -> dict[str, Any]:
    try:
        item = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        hint = MERGED_LINES if error.msg == "Extra data" else ""
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}{hint}") from None
    except RecursionError:
        raise ValueError("not an example: nested too deeply") from None
    if not isinstance(item, dict):
        raise ValueError('must be an object, {"x": ..., "y": [...]}')
    return item


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for at, key in enumerate(keys) if key in set(keys[:at]))
        raise ValueError(f"{shown(twice)} comes twice in an object")
    return result


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a finite number")
