"""Positions and times in addresses."""

import pytest
from tests.support.cases import for_each

from manylabel_service.api.translation.from_json import read_moment


@for_each(
    ("value", "expected"),
    [
        ("17", "17"),
        ("1764410400000-0", "1764410400000-0"),
        ("2026-11-29T10:00:00Z", 1_795_946_400_000),
        ("2026-11-29T11:00:00+01:00", 1_795_946_400_000),
        ("2026-11-29T10:00:00.250Z", 1_795_946_400_250),
    ],
)
def test_positions_and_times_are_told_apart(value: str, expected: str | int) -> None:
    assert read_moment(value) == expected


@for_each(
    ("value", "words"),
    [
        ("2026-11-29", "a time with an offset"),
        ("2026-11-29T10:00:00", "a time with an offset"),
        ("2026-11-29T11:00:00 01:00", r"must have its \+ written as %2B"),
        ("2026-11-29 11:00:00 0100", r"must have its \+ written as %2B"),
        ("yesterday", "a time with an offset"),
    ],
)
def test_other_text_is_refused_with_the_cure(value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_moment(value)
