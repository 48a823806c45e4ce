"""Tests of number fields: which of them are optional, in any stream of records."""

import copy
import json
import pickle

import pytest

from manylabel_core.records.number_fields import (
    MAX_NUMBER_FIELDS,
    SETTLED,
    NumberFields,
    given_name,
    numbers_of,
)


def after(*records, fields=None):
    """Return the fields after records, each a list of feature names."""
    fields = fields or NumberFields()
    for names in records:
        numbers = numbers_of(names)
        fields = fields.after(numbers, len(numbers) < len(names))
    return fields


def test_names_without_equals_sign_are_numbers() -> None:
    assert numbers_of(["b", "country=FR", "a", "title=x", "a.b"]) == ["b", "a", "a.b"]


def test_a_number_that_a_record_lacked_is_optional_in_the_order_of_the_record() -> None:
    fields = after(["b", "a", "c=x"], ["c=x"])
    assert fields.given(["b", "a"]) == ["b=given", "a=given"]
    assert fields.given(["a", "b"]) == ["a=given", "b=given"]


def test_a_number_of_all_records_is_not_optional() -> None:
    assert after(["a", "b", "c=x"], ["b", "a"]).given(["a", "b"]) == []


def test_a_number_that_appears_late_is_optional_from_its_first_record_on() -> None:
    fields = after(["a", "c=x"], ["a", "b"])
    assert fields.given(["a", "b"]) == ["b=given"]


def test_always_shrinks_by_what_a_record_lacks() -> None:
    fields = after(["a", "b", "c=x"])
    assert fields.always == {"a", "b"}
    assert after(["b"], fields=fields).always == {"b"}
    assert after(["b"], ["a"], ["a", "b"], fields=fields).always == frozenset()


def test_there_is_none_before_the_first_category_or_text_and_then_for_all_fields() -> None:
    fields = after(["a"], ["b"], ["a", "b"])
    assert fields.given(["a", "b"]) == []
    fields = after(["c=x"], fields=fields)
    assert fields.given(["a", "b"]) == ["a=given", "b=given"]
    assert after(["a"], fields=fields).of_records


def test_the_value_is_the_same_object_when_nothing_changes() -> None:
    fields = after(*[["a", "b", "c=x"]] * SETTLED, ["a"])
    assert after(["a", "c=y"], fields=fields) is fields
    assert after(["a", "b"], fields=fields) is fields
    assert after(["b"], fields=fields) is not fields


def test_too_many_fields_end_it_for_good() -> None:
    names = [f"n{i}" for i in range(MAX_NUMBER_FIELDS)]
    fields = after([*names, "c=x"], ["c=x"])
    assert fields.given(["n7"]) == ["n7=given"]
    ended = after(["one more"], fields=fields)
    assert ended.given(["n7", "one more"]) == []
    assert after(["n7"], fields=ended) is ended
    assert not after(["n7"] * SETTLED).given(["n7"])


def test_a_field_is_settled_after_ten_records() -> None:
    fields = after(*[["a"]] * (SETTLED - 1))
    assert not fields.is_settled("a")
    assert after(["a"], fields=fields).is_settled("a")


def test_long_names_end_in_a_digest_and_stay_different() -> None:
    one, other = "é" * 128, "é" * 127 + "fg"
    assert {len(given_name(name).encode()) <= 256 for name in (one, other)} == {True}
    assert given_name(one) != given_name(other)
    assert given_name("x" * 250) == "x" * 250 + "=given"


@pytest.mark.parametrize(
    "fields",
    [
        NumberFields(),
        NumberFields(None, None),
        after(["b", "a", "c=x"], ["b"]),
        after(*[["é"]] * 20),
        after(["c=x"]),
    ],
)
def test_fields_as_json(fields: NumberFields) -> None:
    assert NumberFields.from_json(json.loads(json.dumps(fields.to_json()))) == fields
    assert copy.deepcopy(fields) == fields
    assert pickle.loads(pickle.dumps(fields)) == fields  # noqa: S301 - bytes of our own


def test_equal_fields_are_equal_as_json_whatever_the_order_was() -> None:
    one, other = after(["b", "a", "c=x"]), after(["a", "c=x", "b"])
    assert one == other
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())
    assert pickle.dumps(one) == pickle.dumps(other)


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"of_records": 1},
        {"seen": None},
        {"seen": {"a": -1}},
        {"seen": {"a": SETTLED + 1}},
        {"seen": {"a": True}},
        {"seen": {"a": 1.0}},
        {"seen": {"a": 1, "c=x": 1}},
        {"seen": {"a": 1, "": 1}},
        {"seen": {"a": 1, "x" * 257: 1}},
        {"seen": {"a": 1, "\ud800": 1}},
        {"seen": {"a": 1} | {f"n{i}": 1 for i in range(MAX_NUMBER_FIELDS)}},
        {"seen": ["a"]},
        {"always": None},
        {"always": "a"},
        {"always": ["b"]},
        {"always": [["a"]]},
    ],
)
def test_json_that_no_records_lead_to_is_refused(change: dict) -> None:
    whole = {"seen": {"a": 1}, "always": ["a"], "of_records": True}
    assert NumberFields.from_json(whole) == after(["a", "c=x"])
    with pytest.raises(ValueError):  # noqa: PT011
        NumberFields.from_json({**whole, **change})


@pytest.mark.parametrize("value", [None, [], "x", {}, {"always": ["a"]}])
def test_json_of_another_form_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="number fields: the fields must be"):
        NumberFields.from_json(value)
