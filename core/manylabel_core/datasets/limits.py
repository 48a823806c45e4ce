"""Limits of a dataset, and the error for an invalid one."""

from __future__ import annotations

from dataclasses import dataclass, field

from manylabel_core.records.bounds import RecordLimits
from manylabel_core.rows import MAX_MAGNITUDE

MAX_NAME_BYTES = 256
"""Longest name of a feature, a label or a view, in UTF-8."""


class BadDataset(ValueError):
    """The file is invalid in its format, or larger than allowed.

    Attributes
    ----------
    detail : str
        The problem, and the allowed values.
    line : int or None
        Line number in a text file, from 1.
    row : int or None
        Row of the arrays of an NPZ file, from 0.
    member : str or None
        The array of an NPZ file, or ``"labels"`` for the XML beside an ARFF file.
    """

    def __init__(
        self, detail: str, *, line: int | None = None, row: int | None = None, member: str | None = None
    ) -> None:
        places = (("", member), ("line ", line), ("row ", row))
        place = ", ".join(f"{word}{value}" for word, value in places if value is not None)
        super().__init__(f"{place}: {detail}" if place else detail)
        self.detail = detail
        self.line = line
        self.row = row
        self.member = member


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """Limits of a reader, each checked before memory is allocated.

    Attributes
    ----------
    rows, features, labels : int
        Most rows, features (of all views together) and labels.
    nonzeros : int
        Most values stored: of dense features all of them, of sparse ones those given, and the relevant labels.
    bytes : int
        Most memory for the arrays of a dataset, and most bytes of a file without its gzip.
    record : RecordLimits
        How much one row may have that is a record.
    """

    rows: int = 10_000_000
    features: int = 500_000
    labels: int = 10_000
    nonzeros: int = 2**28
    bytes: int = 2**30
    record: RecordLimits = field(default_factory=RecordLimits)

    def check(self, what: str, count: int, *, line: int | None = None, member: str | None = None) -> None:
        """Raise BadDataset if there are more than allowed; `what` is the name of a limit."""
        most: int = getattr(self, what)
        if count > most:
            raise BadDataset(f"{count:,} {what}, allowed are {most:,}", line=line, member=member)


def check_number(value: float) -> float:
    """Return a value that a learner can use.

    Raises
    ------
    ValueError
        It is not finite, or beyond `MAX_MAGNITUDE`.
    """
    if not abs(value) <= MAX_MAGNITUDE:
        raise ValueError(f"{value} is not a finite number of at most {MAX_MAGNITUDE:g} in absolute value")
    return value
