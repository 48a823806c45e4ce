"""Dismissed suggestions: what they hide, their bound, and damaged ones."""

from typing import Any

import msgpack
import numpy as np
import pytest
from tests.service.online.folds import append, learn, named, new_model

from manylabel_service.errors import UnreadableEntry
from manylabel_service.online.state import dismissals
from manylabel_service.online.state.controls import Dismiss, Relabel
from manylabel_service.online.state.dismissals import Dismissals
from manylabel_service.online.state.log_entries import decode, encode
from manylabel_service.online.state.model import OnlineModel


def test_a_suggestion_is_hidden_until_its_examples_have_doubled() -> None:
    found = Dismissals()
    found.add("pause", 3, None, 4.0)
    assert found.hides("pause", 3, None, 7.9)
    assert not found.hides("pause", 3, None, 8.0)
    assert not found.hides("vague", 3, None, 4.0)
    assert not found.hides("pause", 2, None, 4.0)
    found.add("pause", 3, None, 0.0)
    assert found.hides("pause", 3, None, 1.9)


def test_a_merge_is_hidden_for_any_reason_and_in_both_directions() -> None:
    found = Dismissals()
    found.add("name", 3, 1, 4.0)
    assert found.hides("merge", 1, 3, 5.0)
    assert not found.hides("parent", 3, 1, 5.0)
    found.add("parent", 3, 1, 4.0)
    assert found.hides("parent", 3, 1, 5.0)
    assert not found.hides("parent", 1, 3, 5.0)


def test_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dismissals, "MAX_DISMISSED", 2)
    found = Dismissals()
    for column in (0, 1, 0, 2):
        found.add("pause", column, None, 1.0)
    assert [found.hides("pause", column, None, 1.0) for column in range(3)] == [True, False, True]


def test_an_entry_counts_the_examples_of_the_rarer_label() -> None:
    model = new_model()
    learn(model, *[(named(a=1), ["p"])] * 6, *[(named(a=1), ["q"])] * 4)
    append(model, Dismiss("merge", "p", "q"))
    assert model.dismissals.hides("merge", 0, 1, 7.0)
    assert not model.dismissals.hides("merge", 0, 1, 8.0)
    append(model, Relabel("p", "r", None))
    restored = OnlineModel.from_bytes(model.to_bytes())
    assert restored.dismissals.hides("merge", 0, 1, 7.0)
    assert restored.to_bytes() == model.to_bytes()


@pytest.mark.parametrize(
    "rows",
    [
        [["merge", 1, 0, 1.0]],
        [["name", 0, 1, 1.0]],
        [["merge", 0, 2, 1.0]],
        [["merge", 0, -1, 1.0]],
        [["pause", 0, 1, 1.0]],
        [["retire", 0, -1, 1.0]],
        [["pause", 0, -1, 1]],
        [["pause", 0, -1, float("nan")]],
        [["pause", 0, -1, -1.0]],
        [["pause", 0, -1, 1.0]] * 2,
        [["pause", "0", -1, 1.0]],
        [["pause", 0]],
        7,
    ],
)
def test_damaged_dismissals(rows: Any) -> None:
    packed = np.frombuffer(msgpack.packb(rows), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"dismissal|expected|unpack"):
        Dismissals.from_array(packed, 2)


def test_the_last_column_is_restored() -> None:
    found = Dismissals()
    found.add("parent", 1, 0, 2.5)
    assert Dismissals.from_array(found.to_array(), 2).hides("parent", 1, 0, 4.9)


@pytest.mark.parametrize(
    ("kind", "label", "other"),
    [("retire", "a", None), ("merge", "a", None), ("pause", "a", "b"), ("merge", 1, "b"), ("parent", "a", 1)],
)
def test_a_damaged_entry(kind: Any, label: Any, other: Any) -> None:
    with pytest.raises(UnreadableEntry, match="suggestion"):
        decode(encode(Dismiss(kind, label, other)))
