"""A stream can be sent again from anywhere before where it broke: each line is learnt once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.online.folds import dense, learn, named, new_model
from tests.support.cases import for_each

from manylabel_service.errors import InvalidExample
from manylabel_service.online.state import stream_offsets as stream_lines
from manylabel_service.online.state.apply import ApplyResult
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.outcome import UpdateOutcome
from manylabel_service.online.state.stream_offsets import StreamPart


def send(model: OnlineModel, key: str, *lines: int, **kwargs: bool) -> ApplyResult:
    """Learn lines, each with the label of its number."""
    return learn(model, *((named(a=1), [f"{key}{line}"]) for line in lines), stream=StreamPart(key, lines), **kwargs)


@given(st.lists(st.tuples(st.sampled_from("st"), st.integers(1, 9), st.integers(1, 4)), max_size=15), st.data())
def test_each_line_is_learnt_once(sent: list[tuple[str, int, int]], data: st.DataObject) -> None:
    model, last, learnt = new_model(), {"s": 0, "t": 0}, list[str]()
    for key, first, size in sent:
        lines = range(first, first + size)
        outcome = send(model, key, *lines, want_predictions=True)
        new = [line for line in lines if line > last[key]]
        answer = outcome.answer
        assert isinstance(answer, UpdateOutcome)
        assert (answer.skipped, outcome.learnt, outcome.replayed) == (size - len(new), len(new), not new)
        assert answer.scores is not None
        assert [len(row) for row in answer.scores] == [1 + len(learnt) + i for i in range(len(new))]
        learnt += [f"{key}{line}" for line in new]
        last[key] = max([last[key], *new])
        assert model.labels.names == tuple(learnt)
        assert model.updates == len(learnt)
        if data.draw(st.booleans()):
            model = OnlineModel.from_bytes(model.to_bytes())


def test_the_index_of_a_bad_example_counts_skipped_lines() -> None:
    model = new_model()
    send(model, "s", 1, 2)
    good, bad = (named(a=1), ["x"]), (dense(1.0), ["x"])
    outcome = learn(model, good, good, good, bad, stream=StreamPart("s", (1, 2, 3, 4)))
    assert isinstance(outcome.answer, InvalidExample)
    assert outcome.answer.index == 3
    assert (model.streams.last("s"), model.updates) == (2, 2)
    assert isinstance(learn(model, bad, bad, good, stream=StreamPart("s", (1, 2, 3))).answer, UpdateOutcome)


def test_the_least_recently_used_stream_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_lines, "MAX_STREAMS", 2)
    model = new_model()
    send(model, "r", 1)
    send(model, "s", 1)
    assert send(model, "r", 1).replayed  # a use of it
    send(model, "t", 1)
    assert [model.streams.last(key) for key in "rst"] == [1, 0, 1]
    again = OnlineModel.from_bytes(model.to_bytes())
    for one in (model, again):
        send(one, "u", 1)
        assert [one.streams.last(key) for key in "rstu"] == [0, 0, 1, 1]


@for_each("lines", [(0, 1), (1, 1), (2, 1), (1, 2**63)], ids=str)
def test_lines_are_ascending_numbers(lines: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ascending from 1"):
        send(new_model(), "s", *lines)


def test_memory_counts_the_text_of_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(*keys: str) -> int:
        model = new_model()
        for key in keys:
            send(model, key, 1)
            send(model, key, 1, 2)
        assert OnlineModel.from_bytes(model.to_bytes()).streams.nbytes == model.streams.nbytes
        return model.streams.nbytes

    assert kept("s" * 200) - kept("s") == 199
    monkeypatch.setattr(stream_lines, "MAX_STREAMS", 1)
    assert kept("s" * 200, "s") == kept("s")
