"""Dates in the cells of a table, read as days since 1970-01-01."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

ORDERS = frozenset({"year-month-day", "day-month-year", "month-day-year"})
"""Orders of the numbers of a date."""

MAX_CHARACTERS = 40

_DATE = re.compile(
    r"(?:([0-9]{4})([-/])([0-9]{1,2})\2([0-9]{1,2})|([0-9]{1,2})([./-])([0-9]{1,2})\6([0-9]{4}))"
    r"(?:(?:T|,? )([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,9})?)?"
    r"(?:\s?([AaPp])\.?[Mm]\.?)?\s?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_TIME = re.compile(r"(?:[01]?[0-9]|2[0-4]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?(?:\s?[AaPp]\.?[Mm]\.?)?")
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1)


def orders_of(cell: str) -> frozenset[str]:
    """Return the orders of year, month and day in which a cell is a date; none if it is not a date. The year has four
    digits.

    Numbers with points between them are in the order of Europe, 29.11.2024. If slashes or dashes separate the numbers
    and the year is at the end, the order of day and month is unknown, unless one of them is above 12.
    """
    if len(cell) > MAX_CHARACTERS or (match := _DATE.fullmatch(cell)) is None:
        return frozenset()
    if match[1]:
        possible = ["year-month-day"]
    else:
        possible = ["day-month-year"] if match[6] == "." else ["day-month-year", "month-day-year"]
    return frozenset(order for order in possible if _days(match, order) is not None)


def has_offset(cell: str) -> bool:
    """Return whether a date has a time with an offset from UTC."""
    match = _DATE.fullmatch(cell)
    return match is not None and match[14] is not None


def is_time(cell: str) -> bool:
    """Return whether a cell is a time of day without a date."""
    return _TIME.fullmatch(cell) is not None


def days(order: str, cell: str) -> float:
    """Return the days from 1970-01-01 to a date, with the time as a fraction.

    The date may be surrounded by spaces. A time with an offset is converted to UTC; a time without one is not changed.
    Raises ValueError if the text is not a date.
    """
    match = _DATE.fullmatch(cell.strip())
    value = None if match is None or bool(match[1]) != (order == "year-month-day") else _days(match, order)
    if value is None:
        raise ValueError(f"{cell!r} is not a date")
    return value


def _days(match: re.Match[str], order: str) -> float | None:
    if match[1]:
        year, month, day = match[1], match[3], match[4]
    else:
        year, (day, month) = match[8], (match[5], match[7]) if order == "day-month-year" else (match[7], match[5])
    hour, minute, second = (int(match[place] or 0) for place in (9, 10, 11))
    if match[13]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match[13] in "Pp")
    try:
        time = datetime(int(year), int(month), int(day), hour, minute, second)
        time += timedelta(seconds=float(match[12] or 0))
        if match[14] not in (None, "Z", "UTC"):
            sign, hours, minutes = match[14][0], int(match[14][1:3]), int(match[14][-2:])
            offset = timedelta(hours=hours, minutes=minutes) * (-1 if sign == "-" else 1)
            time = time.replace(tzinfo=timezone(offset)).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return (time - _EPOCH) / _DAY
