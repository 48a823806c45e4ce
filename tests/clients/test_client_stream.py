"""Streams and events as conversations: what is sent, where it goes on, when it ends. No I/O and no waiting."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.clients.talks import Talk

from manylabel_clients import ApiError, Busy, ConnectionFailed, Event, NotFound, Retry, Unavailable, UnexpectedAnswer
from manylabel_clients.http._exchange import Steps
from manylabel_clients.http._model_calls import ModelCalls
from manylabel_clients.http._stream import send_piece
from manylabel_clients.http._watching import Watching

RETRY = Retry(attempts=3, base_seconds=1, cap_seconds=100, jitter=0)
LINES = [b'{"x":[%d],"y":[]}' % i for i in range(1, 6)]


def learnt(line: int) -> dict[str, Any]:
    return {"line": line, "labels": ["a"], "scores": {"a": 0.5}, "threshold": 0.1, "position": "9", "updates": line}


def replayed(line: int) -> dict[str, Any]:
    return {"line": line, "replayed": True, "position": "9"}


def refused(line: int, status: int, code: str, **more: Any) -> dict[str, Any]:
    return {"line": line, "error": {"status": status, "code": code, "detail": f"about {code}"}, **more}


def answer(*lines: Any, content: bytes | None = None) -> httpx2.Response:
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines) if content is None else content
    return httpx2.Response(200, content=text, request=httpx2.Request("POST", "http://s/p"))


def piece(first: int = 1) -> Steps[Any]:
    return send_piece("/v1/models/m", first, LINES, "k", RETRY)


def test_a_piece_is_one_request_when_all_goes_well() -> None:
    talk = Talk(answer(learnt(1), refused(2, 422, "invalid_request"), learnt(3), replayed(4), learnt(5)))
    answers = talk(piece())
    (request,) = talk.requests
    assert (request.method, request.path) == ("POST", "/v1/models/m/stream?from=1")
    assert request.headers == {"Content-Type": "application/x-ndjson", "Idempotency-Key": "k"}
    assert request.body == b"\n".join(LINES)
    assert [one.line for one in answers] == [1, 2, 3, 4, 5]
    assert [one.updates for one in answers] == [1, None, 3, None, 5]
    assert [one.replayed for one in answers] == [False, False, False, True, False]
    assert answers[0].prediction.labels == ["a"]
    assert answers[1].error.code == "invalid_request"
    assert [one.prediction is None for one in answers] == [False, True, False, True, False]


def test_what_broke_off_goes_on_with_the_first_line_without_an_answer() -> None:
    talk = Talk(
        answer(learnt(11), refused(12, 503, "storage_unavailable", retry_after=5)),
        answer(learnt(12), learnt(13), refused(14, 429, "queue_full", retry_after=1)),
        answer(refused(14, 503, "not_ready")),
        answer(learnt(14), learnt(15)),
    )
    assert [one.line for one in talk(piece(11))] == [11, 12, 13, 14, 15]
    assert talk.pieces == [("from=11", 5), ("from=12", 4), ("from=14", 2), ("from=14", 2)]
    assert talk.pauses == [6, 2, 2], "what was asked for and the backoff, which begins anew after progress"


def test_a_passing_trouble_of_the_last_line_is_no_refusal() -> None:
    talk = Talk(answer(*map(learnt, range(1, 5)), refused(5, 503, "not_ready")), answer(learnt(5)))
    assert [one.error for one in talk(piece())] == [None] * 5


def test_no_answer_means_the_same_lines_again() -> None:
    cut = httpx2.ReadError("cut", request=httpx2.Request("POST", "http://s/p"))
    talk = Talk(cut, answer(*map(replayed, range(1, 4)), learnt(4), learnt(5)))
    assert [one.replayed for one in talk(piece())] == [True, True, True, False, False]
    assert talk.requests[0] == talk.requests[1]


def test_without_progress_it_gives_up() -> None:
    busy = answer(refused(3, 429, "queue_full"))
    talk = Talk(answer(learnt(1), learnt(2), refused(3, 429, "queue_full")), busy, busy)
    with pytest.raises(Busy) as caught:
        talk(piece())
    assert caught.value.done == 2


@pytest.mark.parametrize(("status", "code"), [(404, "model_not_found"), (413, "body_too_large")])
def test_what_will_not_pass_is_raised(status: int, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        Talk(answer(learnt(1), refused(2, status, code)))(piece())
    assert (caught.value.status, caught.value.code, caught.value.done) == (status, code, 1)


def test_refusals_of_the_whole_request_are_raised() -> None:
    problem = httpx2.Response(404, request=httpx2.Request("POST", "http://s/p"))
    with pytest.raises(NotFound):
        Talk(problem)(piece())


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>", b"[]\n", b"{}\n", b'{"line": 2}\n', json.dumps(learnt(2)).encode(), b'{"line": 1, "error": 3}'],
)
def test_an_answer_of_another_program_is_not_understood(content: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        Talk(answer(content=content))(piece())


def test_more_answers_than_lines_are_not_understood() -> None:
    with pytest.raises(UnexpectedAnswer):
        Talk(answer(*map(learnt, range(1, 7))))(piece())


def test_pieces_are_drawn_one_by_one_under_one_key() -> None:
    drawn = 0

    def examples() -> Iterator[tuple[list[float], list[str]]]:
        nonlocal drawn
        for _ in range(5):
            drawn += 1
            yield [1.0], ["a"]

    pieces = ModelCalls("m", RETRY).stream_pieces(examples(), None, 4, 2)
    talk = Talk(answer(learnt(4), learnt(5)), answer(learnt(6), learnt(7)), answer(learnt(8)))
    talk(next(pieces))
    assert drawn == 3, "the next piece has just begun"
    for each in pieces:
        talk(each)
    assert talk.pieces == [("from=4", 2), ("from=6", 2), ("from=8", 1)]
    assert len({one.headers["Idempotency-Key"] for one in talk.requests}) == 1


def test_wrong_parameters_are_refused_before_anything_is_sent() -> None:
    calls = ModelCalls("m", RETRY)
    for first, batch_size, key in ((0, 2, None), (1, 0, None), (1, 2, "a b")):
        with pytest.raises(ValueError, match=r"first|batch_size|key"):
            next(calls.stream_pieces([([1], [])], key, first, batch_size))
    with pytest.raises(TypeError, match=r"^/examples/1/x "):
        list(calls.stream_pieces([([1], []), ("cat", [])], None, 1, 2))


# -- events -------------------------------------------------------------------------------------------


def fed(watching: Watching[Event], text: str) -> list[Any]:
    return [event for line in text.split("\n") if (event := watching.feed(line)) is not None]


def test_events_are_read_as_they_are_written() -> None:
    watching = Watching("/v1/models/m", None, RETRY, Event)
    assert "Last-Event-ID" not in watching.request.headers
    one, other = 'event: update\ndata: {"updates": 3}\nid: 17', "id:18\nevent:x\ndata:{}\nretry: 3"
    first, second = fed(watching, f": hello\n\n{one}\n\n: still there\n\n{other}\n\n")
    assert (first.kind, first.position, first.data) == ("update", "17", {"updates": 3})
    assert (second.kind, second.position, second.data) == ("x", "18", {})
    assert watching.request.headers["Last-Event-ID"] == "18"
    assert watching.request.path == "/v1/models/m/events"


def test_a_half_event_is_forgotten_with_its_connection() -> None:
    watching = Watching("/v1/models/m", "5", RETRY, Event)
    assert fed(watching, 'event: update\ndata: {"updates": 3}\nid: 17') == []
    watching.pause_seconds(None)
    assert watching.request.headers["Last-Event-ID"] == "5"
    assert fed(watching, "\n") == []


def test_it_connects_again_until_nothing_comes() -> None:
    watching = Watching("/v1/models/m", None, RETRY, Event)
    cut = httpx2.ReadTimeout("silence", request=httpx2.Request("GET", "http://s/p"))
    assert [watching.pause_seconds(cut), watching.pause_seconds(cut)] == [1, 2]
    fed(watching, "event: update\ndata: {}\nid: 1\n\n")
    assert [watching.pause_seconds(cut), watching.pause_seconds(cut)] == [1, 2]
    with pytest.raises(ConnectionFailed):
        watching.pause_seconds(cut)


def test_a_clean_end_is_no_failure() -> None:
    watching = Watching("/v1/models/m", None, RETRY, Event)
    assert [watching.pause_seconds(None) for _ in range(10)] == [1] * 10


def test_a_model_that_is_gone_is_told() -> None:
    watching = Watching("/v1/models/m", None, RETRY, Event)
    with pytest.raises(NotFound):
        watching.pause_seconds(httpx2.Response(404, request=httpx2.Request("GET", "http://s/p")))
    starting = httpx2.Response(503, headers={"Retry-After": "3"}, request=httpx2.Request("GET", "http://s/p"))
    assert watching.pause_seconds(starting) == 3 + 2
    with pytest.raises(Unavailable):
        watching.pause_seconds(starting)
