"""Columns of one ARFF attribute: a label, a feature, or a feature per value."""

from __future__ import annotations

from dataclasses import dataclass

from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.limits import BadDataset, check_number, shown

_TRUTH = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0}


@dataclass(frozen=True, slots=True)
class Column:
    """Feature, category or label that one attribute provides."""

    name: str
    first: int  # first column, counted among the labels or the features
    n_features: int  # 0 for a label
    # column and value of each word of a nominal attribute; None for a numeric one
    choices: dict[str, tuple[int, float]] | None = None
    unsaid: tuple[int, float] | None = None  # column and value if a sparse row omits the attribute; None for 0

    @property
    def is_label(self) -> bool:
        """Return whether the attribute is a label."""
        return not self.n_features

    def read(self, token: str) -> tuple[int, float]:
        """Return the column and the value of a word of the file; raise ValueError if it is not a value of the
        attribute.
        """
        if self.is_label:
            if (truth := _TRUTH.get(token.lower())) is None:
                raise ValueError(f"label {shown(self.name)} is {shown(token)}: expected 0 or 1")
            return self.first, truth
        if self.choices is None:
            return self.first, self._number(token)
        if (choice := self.choices.get(token)) is None:
            allowed = ", ".join([*self.choices][:10]) + (", ..." if len(self.choices) > 10 else "")
            raise ValueError(f"attribute {shown(self.name)} is {shown(token)}: expected one of {allowed}")
        return choice

    def _number(self, token: str) -> float:
        try:
            return check_number(cells.number(token))
        except ValueError:
            raise ValueError(f"attribute {shown(self.name)} is {shown(token)}: expected a finite number") from None

    def feature_names(self) -> list[str]:
        """Return the names of the features of the attribute."""
        if self.n_features < 2:
            return [self.name][: self.n_features]
        return [f"{self.name}={value}" for value in self.choices or ()]


def label(name: str, values: tuple[str, ...] | None, first: int, line: int) -> Column:
    """Return the column of an attribute that is a label; raise BadDataset for values other than 0 and 1."""
    if values is not None and not all(value.lower() in _TRUTH for value in values):
        listed = ", ".join(values[:10])
        raise BadDataset(f"label {shown(name)} has the values {listed}: expected 0 and 1", line=line)
    unsaid = (first, 1.0) if values and _TRUTH[values[0].lower()] else None
    return Column(name, first, 0, None, unsaid)


def feature(name: str, values: tuple[str, ...] | None, first: int) -> Column:
    """Return the column of an attribute that is one feature or several."""
    if values is None:
        return Column(name, first, 1)
    if set(values) <= {"0", "1"}:
        return Column(
            name, first, 1, {v: (first, float(v)) for v in values}, (first, 1.0) if values[0] == "1" else None
        )
    choices = {value: (first + i, 1.0) for i, value in enumerate(values)}
    return Column(name, first, len(values), choices, choices[values[0]])
