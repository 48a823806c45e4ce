"""Probabilities and alarms in the fold: a function of the log, kept with the answers that they are part of."""

from typing import Any

import msgpack
import numpy as np
import pytest
from tests.service.online.folds import DRIFTING_LENGTH as LENGTH
from tests.service.online.folds import append, drifting, fold, learn, named, new_model

from manylabel_core import FALT
from manylabel_core.rows import Rows
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
    def test_are_those_of_core_before_learning(self) -> None:
        """Labels that an example brings are unknown before it, so they have none there."""
        model, learner = new_model(), FALT()
        rng = np.random.default_rng(0)
        for n in range(40):
            values = rng.normal(size=3).astype(np.float32)
            truth = ["x"] if n < 10 else [name for name, value in zip("xy", values, strict=False) if value > 0]
            outcome = learn(model, (named(**dict(zip("abc", values.tolist(), strict=True))), truth), **BOTH)
            (shown,) = predictions(model, outcome.answer)
            if n:
                row = Rows(np.array([0, 3]), np.arange(3, dtype=np.int32), values)
                due = dict(
                    zip("xy", learner.pipeline.probabilities(learner.pipeline.score(row))[0].tolist(), strict=False)
                )
                assert shown.probabilities == due
            else:
                assert shown.probabilities == {}
            width = len(model.labels)
            learner.partial_fit(values[None], np.array([[name in truth for name in "xy"[:width]]], dtype=np.int8))
        assert shown.probabilities.keys() == {"x", "y"}
        assert 0 < shown.probabilities["x"] < 1

    def test_a_retry_gets_what_the_first_got_also_after_a_restart_and_a_rollback(self) -> None:
        model = new_model()
        learn(model, (named(a=1), ["x"]), (named(b=1), ["y"]))
        states = {model.position: model.to_bytes()}
        first = predictions(model, learn(model, (named(a=1), ["z"]), (named(b=1), ["y"]), key=KEY, **BOTH).answer)
        for _ in range(5):
            learn(model, (named(a=1), ["y"]))
        append(model, Rollback("1", "log"), states)
        learn(model, (named(a=1), ["another"]))
        restarted = OnlineModel.from_bytes(model.to_bytes())
        for again in (model, restarted):
            outcome = learn(again, (named(a=1), ["z"]), (named(b=1), ["y"]), key=KEY, **BOTH)
            assert outcome.replayed
            assert predictions(again, outcome.answer) == first
        assert [list(one.probabilities) for one in first] == [["x", "y"], ["x", "y", "z"]]
        assert restarted.to_bytes() == model.to_bytes()

    def test_count_in_the_memory_of_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def kept(n_keys: int, **wants: bool) -> tuple[int, int]:
            model = new_model(labels=list("abcdefgh"))
            for n in range(n_keys):
                learn(model, (named(a=1), ["a"]), key=IdempotencyKey(f"k{n}", b"d" * 16), **wants)
            return model.keys.nbytes, len(model.keys)

        plain, both = kept(1, want_predictions=True)[0], kept(1, **BOTH)[0]
        assert both - plain == 8 * 8
        monkeypatch.setattr(key_window, "MAX_ANSWER_BYTES", 10 * (8 * 9 + 8 * 8))
        assert kept(50, **BOTH)[1] == 10

    def test_count_with_the_text_of_their_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
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
    def rows(self, window: IdempotencyWindow) -> list[Any]:
        rows: list[Any] = msgpack.unpackb(window.to_array().tobytes())
        return rows

    def read(self, rows: list[Any]) -> IdempotencyWindow:
        return IdempotencyWindow.from_array(np.frombuffer(msgpack.packb(rows), dtype=np.uint8))

    @pytest.fixture
    def window(self) -> IdempotencyWindow:
        model = new_model()
        learn(model, (named(a=1), ["x"]), (named(b=1), ["y"]), key=KEY, **BOTH)
        return model.keys

    def test_with_a_part_missing_is_refused(self, window: IdempotencyWindow) -> None:
        ((*row, _),) = self.rows(window)
        with pytest.raises(ValueError, match="10 parts"):
            self.read([row])

    @pytest.mark.parametrize(
        "probabilities",
        [
            [b""],
            [b"", np.array([0.5, 0.5]).tobytes()],
            [b"", np.array([1.5]).tobytes()],
            [b"", np.array([-0.5]).tobytes()],
            [b"", np.array([np.nan]).tobytes()],
            [b"", b"123"],
            ["", ""],
            3,
        ],
    )
    def test_with_probabilities_that_cannot_be_is_refused(self, window: IdempotencyWindow, probabilities: Any) -> None:
        ((*row, good, decisions),) = self.rows(window)
        assert good[0] == b""
        self.read([[*row, good, decisions]])
        with pytest.raises((ValueError, TypeError)):
            self.read([[*row, probabilities, decisions]])

    @pytest.mark.parametrize("decisions", [[], [[2], [1]], [[1], [1, 5]], [[1, -1], [0]], [[], []], 3])
    def test_with_decisions_that_cannot_be_is_refused(self, window: IdempotencyWindow, decisions: Any) -> None:
        ((*row, none),) = self.rows(window)
        assert none is None
        self.read([[*row, packed_columns([[1], [0, 0]])]])
        with pytest.raises((ValueError, TypeError)):
            self.read([[*row, decisions if decisions == 3 else packed_columns(decisions)]])

    def test_with_probabilities_but_no_scores_is_refused(self, window: IdempotencyWindow) -> None:
        (row,) = self.rows(window)
        row[5] = None
        with pytest.raises(ValueError, match="one probability per label"):
            self.read([row])


class TestAlarms:
    def log(self, size: int) -> list[LogEntry]:
        parts = [tuple(map(drifting, range(start, start + size))) for start in range(0, LENGTH, size)]
        return [LogEntry(str(1 + n), Update(part, "log")) for n, part in enumerate(parts)]

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

    def test_come_where_the_stream_changes_however_it_is_folded(self) -> None:
        found = self.alarms(1, 1000)
        assert {name for _, name in found} >= {"first", "second"}
        assert all(LENGTH // 2 < updates <= LENGTH for updates, _ in found)
        assert [updates for updates, _ in found] == sorted(updates for updates, _ in found)
        for size, max_examples in ((1, 1), (7, 3), (LENGTH, 1000), (50, 64)):
            assert self.alarms(size, max_examples) == found

    def test_lines_that_come_again_have_none(self) -> None:
        model = new_model(**DRIFT)
        examples = tuple(map(drifting, range(LENGTH)))
        append(model, Update(examples[:200], "log", stream=StreamPart("s", tuple(range(1, 201)))))
        rest = append(model, Update(examples, "log", stream=StreamPart("s", tuple(range(1, LENGTH + 1)))))
        assert list(rest.alarms) == self.alarms(LENGTH, 1000)

    def test_a_model_that_does_not_watch_says_nothing(self) -> None:
        model = new_model()
        outcomes = fold(model, self.log(50))
        assert not any(outcome.alarms for outcome in outcomes)
        assert "drift" not in model.measures()
