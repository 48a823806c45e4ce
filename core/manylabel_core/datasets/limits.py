"""Limits of a dataset, and the error for an invalid one."""

from __future__ import annotations

from dataclasses import dataclass, field

from manylabel_core.records.bounds import RecordLimits
from manylabel_core.rows import MAX_MAGNITUDE

MAX_NAME_BYTES = 256
"""Maximum length of the name of a feature, a label or a view, in bytes of UTF-8."""


class BadDataset(ValueError):
    """The file is invalid in its format, or larger than allowed.

    `detail` states the problem and the allowed values. The place is `line` (in a text file, from 1), `row` (in the
    arrays of an NPZ file, from 0) or `member` (an array of an NPZ file, or ``"labels"`` for the XML next to an ARFF
    file); the others are None.
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
    """Limits of a reader, each checked before memory is allocated."""

    rows: int = 10_000_000
    features: int = 500_000  # of all views together
    labels: int = 10_000
    # all values of dense features, the stored values of sparse features, and the relevant labels
    nonzeros: int = 2**28
    bytes: int = 2**30  # of memory for the arrays of a dataset, and of a file after decompression
    record: RecordLimits = field(default_factory=RecordLimits)  # limits of a row that is a record

    def check(self, what: str, count: int, *, line: int | None = None, member: str | None = None) -> None:
        """Raise BadDataset if there are more than allowed; `what` is the name of a limit."""
        most: int = getattr(self, what)
        if count > most:
            raise BadDataset(f"{count:,} {what}; at most {most:,} are allowed", line=line, member=member)


def check_number(value: float) -> float:
    """Return a value; raise ValueError if it is not finite, or above `MAX_MAGNITUDE` in absolute value."""
    if not abs(value) <= MAX_MAGNITUDE:
        raise ValueError(f"{value} is not a finite number of at most {MAX_MAGNITUDE:g} in absolute value")
    return value


def shown(value: object) -> str:
    """Return a value of a file as text for a message: in quotes, shortened to one line, in ASCII if it is not valid
    Unicode."""
    text = repr(value)
    text = text if text.isprintable() else ascii(value)
    return text if len(text) <= 80 else f"{text[:76]}...{text[-1]}"
