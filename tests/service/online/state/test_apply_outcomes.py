"""Probabilities and alarms are a function of the log; answers keep their probabilities."""

from typing import Any

import msgpack
import numpy as np
import pytest
from tests.service.online.folds import DRIFTING_LENGTH as LENGTH
from tests.service.online.folds import append, drifting, fold, learn, named, new_model
from tests.support.cases import for_each

from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state import idempotency_window as key_window
from manylabel_service.online.state.apply import Alarm, LogEntry
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.idempotency_window import IdempotencyWindow
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.online.state.stream_offsets import StreamPart

KEY = IdempotencyKey("k", b"d" * 16)
BOTH = {"want_predictions": True, "want_probabilities": True}
"""Results that an update requests."""
DRIFT = {"algorithm": "falt", "params": {"drift": "adwin"}}


def predictions(model: OnlineModel, answer: Any) -> list[Any]:
    assert isinstance(answer, UpdateOutcome)
    return list(answer.predictions(model.labels.names) or ())


class TestProbabilities:
    def test_a_retry_gets_the_first_answer_after_a_restart_and_a_rollback(self) -> None:
        model = new_model()
        learn(model, (named(a=1), ["x"]), (named(b=1), ["y"]))
        states = {model.position: model.to_bytes()}
        first = predictions(model, learn(model, (named(a=1), ["z"]), (named(b=1), ["y"]), key=KEY, **BOTH).answer)
        for _ in range(5):
            learn(model, (named(a=1), ["y"]))
        append(model, Rollback("1"), states)
        learn(model, (named(a=1), ["another"]))
        restarted = OnlineModel.from_bytes(model.to_bytes())
        for again in (model, restarted):
            outcome = learn(again, (named(a=1), ["z"]), (named(b=1), ["y"]), key=KEY, **BOTH)
            assert outcome.replayed
            assert predictions(again, outcome.answer) == first
        assert [list(one.probabilities) for one in first] == [["x", "y"], ["x", "y", "z"]]
        assert restarted.to_bytes() == model.to_bytes()

    def test_probabilities_count_in_the_bytes_of_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def kept(n_keys: int, **wants: bool) -> tuple[int, int]:
            model = new_model(labels=list("abcdefgh"))
            for n in range(n_keys):
                learn(model, (named(a=1), ["a"]), key=IdempotencyKey(f"k{n}", b"d" * 16), **wants)
            return model.keys.nbytes, len(model.keys)

        plain, both = kept(1, want_predictions=True)[0], kept(1, **BOTH)[0]
        assert both - plain == 8 * 8
        monkeypatch.setattr(key_window, "MAX_ANSWER_BYTES", 10 * (8 * 9 + 8 * 8))
        assert kept(50, **BOTH)[1] == 10

    def test_answers_count_with_the_text_of_their_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def kept(*keys: str) -> int:
            model = new_model()
            for key in keys:
                learn(model, (named(a=1), ["a"]), key=IdempotencyKey(key, b"d" * 16))
            assert OnlineModel.from_bytes(model.to_bytes()).keys.nbytes == model.keys.nbytes
            return model.nbytes

        assert kept("k" * 255) - kept("k") == 254
        assert kept("\u00e9") - kept("k") == 1
        monkeypatch.setattr(key_window, "MAX_KEYS", 1)
        assert kept("k" * 255, "k") == kept("l", "k")


def packed_columns(decisions: list[list[int]]) -> list[bytes]:
    return [np.array(row, dtype="<i4").tobytes() for row in decisions]


class TestTheWindowAsBytes:
    """A row has 9 parts, among them scores, and at the end probabilities and decisions of each example."""

    SCORES, PROBABILITIES, DECISIONS = 4, -2, -1

    @pytest.fixture
    def row(self) -> list[Any]:
        model = new_model()
        learn(model, (named(a=1), ["x"]), (named(b=1), ["y"]), key=KEY, **BOTH)
        ((*row, probabilities, decisions),) = msgpack.unpackb(model.keys.to_array().tobytes())
        assert (probabilities[0], decisions) == (b"", None)
        return [*row, probabilities, decisions]

    def read(self, row: list[Any]) -> IdempotencyWindow:
        return IdempotencyWindow.from_array(np.frombuffer(msgpack.packb([row]), dtype=np.uint8))

    def test_a_row_with_decisions_is_read(self, row: list[Any]) -> None:
        assert len(self.read([*row[:-1], packed_columns([[1], [0, 0]])])) == 1

    def test_a_missing_part_is_refused(self, row: list[Any]) -> None:
        with pytest.raises(ValueError, match="9 parts"):
            self.read(row[:-1])

    @for_each(
        ("part", "forged"),
        [
            (SCORES, None),
            (PROBABILITIES, [b""]),
            (PROBABILITIES, [b"", np.array([0.5, 0.5]).tobytes()]),
            (PROBABILITIES, [b"", np.array([1.5]).tobytes()]),
            (PROBABILITIES, [b"", np.array([-0.5]).tobytes()]),
            (PROBABILITIES, [b"", np.array([np.nan]).tobytes()]),
            (PROBABILITIES, [b"", b"123"]),
            (PROBABILITIES, ["", ""]),
            (PROBABILITIES, 3),
            (DECISIONS, packed_columns([])),
            (DECISIONS, packed_columns([[2], [1]])),
            (DECISIONS, packed_columns([[1], [1, 5]])),
            (DECISIONS, packed_columns([[1, -1], [0]])),
            (DECISIONS, packed_columns([[], []])),
            (DECISIONS, 3),
        ],
    )
    def test_a_forged_part_is_refused(self, row: list[Any], part: int, forged: Any) -> None:
        changed = list(row)
        changed[part] = forged
        with pytest.raises((ValueError, TypeError)):
            self.read(changed)


class TestAlarms:
    def log(self, size: int) -> list[LogEntry]:
        parts = [tuple(map(drifting, range(start, start + size))) for start in range(0, LENGTH, size)]
        return [LogEntry(str(1 + n), Update(part)) for n, part in enumerate(parts)]

    def alarms(self, size: int, max_examples: int) -> list[Alarm]:
        model = new_model(**DRIFT)
        found = []
        for outcome in fold(model, self.log(size), max_examples):
            assert isinstance(outcome.answer, UpdateOutcome)
            assert outcome.previous_position == str(int(outcome.answer.position) - 1)
            before = outcome.answer.updates - outcome.learnt
            assert all(before < updates <= outcome.answer.updates for updates, _ in outcome.alarms)
            found += outcome.alarms
        shown = model.drift()["drift"]
        for label in ("first", "second"):
            updates = [updates for updates, name in found if name == label]
            assert shown["labels"].get(label) == ({"alarms": len(updates), "last": updates[-1]} if updates else None)
        overall = [updates for updates, name in found if name is None]
        assert (shown["alarms"], shown["last"]) == (len(overall), overall[-1] if overall else None)
        return found

    def test_alarms_do_not_depend_on_how_the_log_is_applied(self) -> None:
        found = self.alarms(1, 1000)
        assert {name for _, name in found} >= {"first", "second"}
        assert all(LENGTH // 2 < updates <= LENGTH for updates, _ in found)
        assert [updates for updates, _ in found] == sorted(updates for updates, _ in found)
        for size, max_examples in ((1, 1), (7, 3), (LENGTH, 1000), (50, 64)):
            assert self.alarms(size, max_examples) == found

    def test_repeated_lines_raise_no_alarms(self) -> None:
        model = new_model(**DRIFT)
        examples = tuple(map(drifting, range(LENGTH)))
        append(model, Update(examples[:200], stream=StreamPart("s", tuple(range(1, 201)))))
        rest = append(model, Update(examples, stream=StreamPart("s", tuple(range(1, LENGTH + 1)))))
        assert list(rest.alarms) == self.alarms(LENGTH, 1000)

    def test_a_model_without_detectors_raises_no_alarms(self) -> None:
        model = new_model()
        outcomes = fold(model, self.log(50))
        assert not any(outcome.alarms for outcome in outcomes)
        assert "drift" not in model.measures()
