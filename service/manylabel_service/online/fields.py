"""Fields of the records of a model, as its status lists them: kinds, counts, example values and warnings."""

from __future__ import annotations

import re
from array import array
from heapq import nsmallest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.alike import spelling
from manylabel_core.datasets.formats.cells import styled, word_behind
from manylabel_core.datasets.formats.tables.dates import orders_of
from manylabel_core.records import TextSettings
from manylabel_core.records.encoder import BARE
from manylabel_core.records.number_fields import SETTLED, given_name
from manylabel_core.scaling.scaling import FeatureCounts
from manylabel_service.online.state.feature_space import FeatureSpace
from manylabel_service.online.state.model import OnlineModel

MAX_LISTED = 100
"""Maximum number of listed fields."""
READ_AT_ONCE = 20_000
"""Maximum number of feature names that one request reads, which takes some 10 ms; later requests read the rest."""
N_EXAMPLES = 3
"""Number of example values of a field."""
MANY = 20
"""Minimum number of categories for the warnings about codes and ids."""
FEW = 3
"""Minimum number of categories for the warnings about dates and written numbers."""
MOST = 0.9
"""Minimum share of the categories, or of the examples, for these warnings."""
N_BEFORE, SHARE_BEFORE = 20, 0.05
"""A change of the level of a number is reported if at least this number, and this share, of its values came before."""
SHOWN_CHARACTERS = 80

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_DIGIT = re.compile("[0-9]")


class _Field:
    """Facts about a field from the feature names."""

    __slots__ = ("column", "first", "is_text", "n_categories", "n_dates", "n_numeric", "n_written", "name", "number")

    def __init__(self, name: str, number: int, is_text: bool) -> None:
        self.name = name
        self.number = number
        self.is_text = is_text
        self.column: int | None = None
        """Column of the number."""
        self.n_categories = self.n_numeric = self.n_written = self.n_dates = 0
        self.first: list[str] = []


class ModelFields:
    """Fields of a model, read from its feature names when its status is requested.

    Names are only appended, so each is read once. Nothing is stored, and learning does not depend on it.

    Parameters
    ----------
    features : features of the model.
    text : text options of its records.
    """

    def __init__(self, features: FeatureSpace, text: TextSettings) -> None:
        self.features = features
        self._texts = frozenset(text.fields or (BARE,))
        self._has_long = text.longer_than is not None
        self._fields: dict[str, _Field] = {}
        self._alike: dict[str, list[str]] = {}
        self._n_read = 0
        # Columns of categories, and for each the number of its field; texts are not included.
        self._columns, self._owners = array("i"), array("i")

    def to_json(self, model: OnlineModel) -> dict[str, Any]:
        """Return the fields with the largest shares of the examples, and the number of all fields."""
        if self.features.layout.kind != "named":
            return {"fields": [], "n_fields": 0}
        self._read()
        counts = model.learner.pipeline.feature_counts()
        vectors = self._vectors()
        has_numbers = self.features.layout.numbers.seen is not None
        listed = [f for f in self._fields.values() if f.column is None or f.n_categories or has_numbers]
        only_vectors = [name for name in vectors if name not in self._fields]
        totals = self._totals(counts)
        n_left = MAX_LISTED - len(only_vectors)
        first = nsmallest(n_left, listed, key=lambda field: -_examples(field, totals, counts))
        fields = [_listed_vector(name, vectors[name]) for name in only_vectors]
        fields += [self._listed(field, vectors.get(field.name), totals, counts) for field in first]
        return {"fields": fields, "n_fields": len(listed) + len(only_vectors)}

    def _read(self) -> None:
        """Read the next names."""
        names, fields = self.features.names, self._fields
        new = names.newest(len(names) - self._n_read)[:READ_AT_ONCE]
        for column, feature in enumerate(new, self._n_read):
            name, equals, value = feature.partition("=")
            field = fields.get(name)
            if field is None:
                field = fields[name] = _Field(name, len(fields), name in self._texts)
                self._alike.setdefault(spelling(name), []).append(name)
            if not equals:
                field.column = column
            elif field.column is None or feature != given_name(name):
                self._read_category(field, value, column)
        self._n_read += len(new)

    def _read_category(self, field: _Field, value: str, column: int) -> None:
        field.n_categories += 1
        if len(field.first) < N_EXAMPLES:
            field.first.append(value[:SHOWN_CHARACTERS])
        if not field.is_text:
            if _NUMBER.fullmatch(value):
                field.n_numeric += 1
            elif _DIGIT.search(value[:3]):
                field.n_written += _is_written(value)
                field.n_dates += bool(orders_of(value))
            self._columns.append(column)
            self._owners.append(field.number)

    def _vectors(self) -> dict[str, dict[int, int]]:
        """Return the lengths of the vectors of each field, with the numbers of examples up to `SETTLED`."""
        found: dict[str, dict[int, int]] = {}
        layout = self.features.layout
        for (name, length), seen in zip(layout.vectors, layout.n_vectors, strict=True):
            found.setdefault(name, {})[length] = seen
        return found

    def _totals(self, counts: FeatureCounts | None) -> NDArray[np.float64]:
        """Return the number of times each field had a category, shape (n_fields,); zeros if unknown."""
        totals = np.zeros(len(self._fields))
        if counts is not None and self._columns:
            columns, owners = np.array(self._columns), np.array(self._owners)
            known = columns < len(counts.having)
            totals += np.bincount(owners[known], weights=counts.having[columns[known]], minlength=len(totals))
        return totals

    def _listed(
        self,
        field: _Field,
        lengths: dict[int, int] | None,
        totals: NDArray[np.float64],
        counts: FeatureCounts | None,
    ) -> dict[str, Any]:
        n_number, n_category = _having(field.column, counts), float(totals[field.number])
        n = 0 if counts is None else counts.n_samples
        is_text = field.is_text or (self._has_long and field.n_categories >= MANY and n_category > 3 * n > 0)
        kinds = [_kind_of_number(field.column, counts)] if field.column is not None else []
        kinds += ["text" if is_text else "category"] if field.n_categories else []
        kinds += ["vector"] if lengths else []
        kind = kinds[0] if len(kinds) == 1 else "mixed"
        examples = None
        if counts is not None and not is_text and not lengths:
            examples = int(min(n_number + n_category, n))
        warnings = list(_warnings_of_kinds(kinds, n_number, n_category, None if is_text else counts))
        warnings += _warnings_of_lengths(lengths or {})
        if field.n_categories and not is_text:
            warnings += _warnings_of_categories(field, n_category)
        if field.column is not None and counts is not None:
            warnings += _warnings_of_levels(field.column, counts)
        alike = self._alike[spelling(field.name)]
        if len(alike) > 1:
            warnings.append(f"names differ only in case, spaces or Unicode form: {', '.join(map(repr, alike[:5]))}")
        return {
            "name": field.name,
            "kind": kind,
            "share": examples / n if examples is not None and n else None,
            "count": examples,
            "examples": [*_last(field.column, counts), *field.first][:N_EXAMPLES],
            "warnings": warnings,
        }


def _examples(field: _Field, totals: NDArray[np.float64], counts: FeatureCounts | None) -> float:
    """Return the number of examples with a field. It is unknown for texts; they are listed first."""
    if counts is None:
        return 0.0
    return float("inf") if field.is_text else totals[field.number] + _having(field.column, counts)


def _having(column: int | None, counts: FeatureCounts | None) -> float:
    return float(counts.having[column]) if counts and column is not None and column < len(counts.having) else 0.0


def _kind_of_number(column: int | None, counts: FeatureCounts | None) -> str:
    """Return "flag" if all values were 0 or 1 and both occurred, else "number"."""
    if counts is None or column is None or column >= len(counts.having):
        return "number"
    has_both = 0 < counts.nonzero[column] < counts.having[column]
    return "flag" if has_both and counts.mean[column] == 1.0 and counts.squares[column] == 0.0 else "number"


def _last(column: int | None, counts: FeatureCounts | None) -> list[float]:
    """Return the last nonzero value of a number; 0 if all values were 0."""
    if counts is None or column is None or not _having(column, counts):
        return []
    return [float(str(np.float32(counts.last[column])))] if counts.nonzero[column] else [0.0]


def _listed_vector(name: str, lengths: dict[int, int]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "vector",
        "share": None,
        "count": None,
        "examples": [],
        "warnings": _warnings_of_lengths(lengths),
    }


def _warnings_of_lengths(lengths: dict[int, int]) -> list[str]:
    if len(lengths) < 2:
        return []
    listed = " and ".join(f"{length:,}" for length in lengths)
    settled = [length for length, seen in lengths.items() if seen >= SETTLED]
    return [f"had vectors of {listed} numbers" + (f": only {settled[0]:,} are accepted now" if settled else "")]


_SEND_ONE = "each is another feature; send one kind"


def _warnings_of_kinds(kinds: list[str], n_number: float, n_category: float, counts: FeatureCounts | None) -> list[str]:
    if len(kinds) < 2:
        return []
    n = n_number + n_category
    if "vector" in kinds or counts is None or not n:
        return [f"was a {' in some examples and a '.join(kinds)} in others: {_SEND_ONE}"]
    shares = n_number / n, n_category / n
    each = " and ".join(f"a {kind} in {_percent(share)}" for kind, share in zip(kinds, shares, strict=True))
    return [f"was {each} of its examples: {_SEND_ONE}"]


def _percent(share: float) -> str:
    if 0.01 <= share <= 0.99:
        return f"{100 * share:.0f} %"
    return "less than 1 %" if share < 0.5 else "more than 99 %"


def _warnings_of_levels(column: int, counts: FeatureCounts) -> list[str]:
    """Return a warning if the level or the unit of a number has changed."""
    if column >= len(counts.since):
        return []
    n, n_all = int(counts.since[column]), counts.nonzero[column]
    if n_all - n < max(N_BEFORE, SHARE_BEFORE * n_all):
        return []
    return [f"its level or unit has changed: only the last {n:,} values scale it; check whether it is still the same"]


def _warnings_of_categories(field: _Field, n_category: float) -> list[str]:
    n, warnings = field.n_categories, list[str]()
    if n >= MANY and field.n_numeric >= MOST * n:
        warnings.append(
            f"{field.n_numeric:,} values that are all numbers: send numbers if the size matters, such as 42 instead of "
            f'"42"; codes stay strings'
        )
    if n >= FEW and field.n_dates >= MOST * n:
        warnings.append(
            f"{field.n_dates:,} values that are all dates, such as {field.first[0]!r}: send a number, such as the days "
            "since 1970-01-01, if their order matters"
        )
    elif n >= FEW and field.n_written and field.n_written + field.n_numeric >= MOST * n:
        warnings.append(
            f"{field.n_written:,} values that are all numbers with marks or units, such as "
            f'{field.first[0]!r}: send numbers, such as 1234.5 instead of "1.234,5 kg"'
        )
    if n >= MANY and n_category > 0 and n >= MOST * n_category:
        warnings.append(f"{n:,} values in {int(n_category):,} examples, such as an id: leave it out if it is one")
    return warnings


def _is_written(value: str) -> bool:
    """Return whether a category is a number with a decimal comma, marks of thousands or a unit."""
    word = word_behind(value)
    return styled(value) is not None if word is None else word[1]
