"""Streams of examples: requests, continuation after interruptions, and errors. No I/O and no waiting."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.clients.http.fake_server import FakeServer, unsent
from tests.support.cases import for_each

from manylabel_clients import ApiError, Busy, Invalid, Retry, StreamSummary, UnexpectedResponse
from manylabel_clients.http.resources.examples import Example
from manylabel_clients.http.resources.models import ModelCalls
from manylabel_clients.http.transport.exchange import Exchange

RETRY = Retry(attempts=3, base_seconds=1, cap_seconds=100, jitter=0)
LINES = [b'{"x":[%d],"y":[]}' % i for i in range(1, 6)]
EXAMPLES: list[Example] = [([i], []) for i in range(1, 6)]


def learnt(line: int) -> dict[str, Any]:
    return {"line": line, "labels": ["a"], "scores": {"a": 0.5}, "threshold": 0.1, "position": "9", "updates": line}


def replayed(line: int) -> dict[str, Any]:
    return {"line": line, "replayed": True, "position": "9"}


def refused(line: int, status: int, code: str, **more: Any) -> dict[str, Any]:
    return {"line": line, "error": {"status": status, "code": code, "detail": f"about {code}"}, **more}


def answer(*lines: Any, content: bytes | None = None) -> httpx2.Response:
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines) if content is None else content
    return httpx2.Response(200, content=text, request=httpx2.Request("POST", "http://s/p"))


def batch(first: int = 1) -> Exchange[Any]:
    return unsent(ModelCalls, "m", retry=RETRY).stream(EXAMPLES, key="k", first=first).next()


def test_a_batch_is_one_request() -> None:
    fake = FakeServer(answer(learnt(1), refused(2, 422, "invalid_request"), learnt(3), replayed(4), learnt(5)))
    answers = fake(batch())
    (request,) = fake.requests
    assert (request.method, request.path) == ("POST", "/v1/models/m/stream?from=1")
    assert request.headers == {"Content-Type": "application/x-ndjson", "Idempotency-Key": "k"}
    assert request.body == b"\n".join(LINES)
    assert [one.line for one in answers] == [1, 2, 3, 4, 5]
    assert [one.updates for one in answers] == [1, None, 3, None, 5]
    assert [one.replayed for one in answers] == [False, False, False, True, False]
    assert answers[0].prediction.labels == ["a"]
    assert answers[1].error.code == "invalid_request"
    assert [one.prediction is None for one in answers] == [False, True, False, True, False]


def test_an_interrupted_batch_continues_with_the_first_unanswered_line() -> None:
    fake = FakeServer(
        answer(learnt(11), refused(12, 503, "storage_unavailable", retry_after=5)),
        answer(learnt(12), learnt(13), refused(14, 429, "queue_full", retry_after=1)),
        answer(refused(14, 503, "not_ready")),
        answer(learnt(14), learnt(15)),
    )
    assert [one.line for one in fake(batch(11))] == [11, 12, 13, 14, 15]
    assert fake.pieces == [("from=11", 5), ("from=12", 4), ("from=14", 2), ("from=14", 2)]
    assert fake.pauses == [6, 2, 2], "what was asked for and the backoff, which begins anew after progress"


def test_a_transient_error_of_the_last_line_is_retried() -> None:
    fake = FakeServer(answer(*map(learnt, range(1, 5)), refused(5, 503, "not_ready")), answer(learnt(5)))
    assert [one.error for one in fake(batch())] == [None] * 5


def test_without_a_response_the_same_lines_are_sent_again() -> None:
    cut = httpx2.ReadError("cut", request=httpx2.Request("POST", "http://s/p"))
    fake = FakeServer(cut, answer(*map(replayed, range(1, 4)), learnt(4), learnt(5)))
    assert [one.replayed for one in fake(batch())] == [True, True, True, False, False]
    assert fake.requests[0] == fake.requests[1]


def test_a_batch_without_progress_is_given_up() -> None:
    busy = answer(refused(3, 429, "queue_full"))
    fake = FakeServer(answer(learnt(1), learnt(2), refused(3, 429, "queue_full")), busy, busy)
    with pytest.raises(Busy) as caught:
        fake(batch())
    assert caught.value.done == 2


@pytest.mark.parametrize(("status", "code"), [(404, "model_not_found"), (413, "body_too_large")])
def test_a_permanent_error_is_raised(status: int, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        FakeServer(answer(learnt(1), refused(2, status, code)))(batch())
    assert (caught.value.status, caught.value.code, caught.value.done) == (status, code, 1)


@for_each(
    "content",
    [b"", b"<html>", b"[]\n", b"{}\n", b'{"line": 2}\n', json.dumps(learnt(2)).encode(), b'{"line": 1, "error": 3}'],
)
def test_a_response_of_another_program_is_an_unexpected_response(content: bytes) -> None:
    with pytest.raises(UnexpectedResponse):
        FakeServer(answer(content=content))(batch())


def test_more_results_than_lines_are_an_unexpected_response() -> None:
    with pytest.raises(UnexpectedResponse):
        FakeServer(answer(*map(learnt, range(1, 7))))(batch())


def test_batches_are_drawn_one_by_one_under_one_key() -> None:
    drawn = 0

    def examples() -> Iterator[tuple[list[float], list[str]]]:
        nonlocal drawn
        for _ in range(5):
            drawn += 1
            yield [1.0], ["a"]

    stream = unsent(ModelCalls, "m", retry=RETRY).stream(examples(), first=4, batch_size=2)
    fake = FakeServer(answer(learnt(4), learnt(5)), answer(learnt(6), learnt(7)), answer(learnt(8)))
    for done, so_far in ((0, 2), (2, 4), (4, 5)):
        assert [one.line for one in fake(stream.next())] == list(range(4 + done, 4 + so_far))
        assert drawn == so_far, "a full batch is sent before anything of the next is drawn"
    assert fake(stream.next()) is None
    assert fake.pieces == [("from=4", 2), ("from=6", 2), ("from=8", 1)]
    assert len({one.headers["Idempotency-Key"] for one in fake.requests}) == 1


def test_invalid_parameters_are_refused_before_anything_is_sent() -> None:
    calls = unsent(ModelCalls, "m", retry=RETRY)
    for first, batch_size, key in ((0, 2, None), (1, 0, None), (1, 2, "a b")):
        with pytest.raises(ValueError, match=r"first|batch_size|key"):
            calls.stream([([1], [])], key=key, first=first, batch_size=batch_size)
    with pytest.raises(TypeError, match=r"^/examples/1/x "):
        FakeServer()(calls.stream([([1], []), (3, [])], batch_size=2).next())


def counted(following: int, learnt: int, replayed: int = 0) -> dict[str, Any]:
    at = {"position": "9", "updates": following - 1}
    return {"learnt": learnt, "replayed": replayed, "refused": 0, "next": following, **at}


def lesson(first: int = 1) -> Exchange[Any]:
    (summary,) = (yield from unsent(ModelCalls, "m", retry=RETRY).learn(EXAMPLES, key="k", first=first).next()) or ()
    return summary


def test_a_learnt_batch_has_one_summary() -> None:
    fake = FakeServer(answer(counted(16, 3, 2)))
    assert fake(lesson(11)) == StreamSummary(next=16, learnt=3, replayed=2, position="9", updates=15)
    (request,) = fake.requests
    assert request.path == "/v1/models/m/stream?from=11&answers=errors&stop=true"
    assert request.headers == {"Content-Type": "application/x-ndjson", "Idempotency-Key": "k"}
    assert request.body == b"\n".join(LINES)


def test_a_summary_adds_up_interrupted_requests() -> None:
    fake = FakeServer(
        answer(refused(2, 503, "storage_unavailable", retry_after=5), counted(2, 0, 1)),
        answer(refused(4, 429, "queue_full", retry_after=1), counted(4, 2)),
        answer(refused(4, 503, "not_ready"), counted(4, 0)),
        answer(counted(6, 2)),
    )
    assert fake(lesson()) == StreamSummary(next=6, learnt=4, replayed=1, position="9", updates=5)
    assert [path.split("&")[0] for path, _ in fake.pieces] == ["from=1", "from=2", "from=4", "from=4"]
    assert [n for _, n in fake.pieces] == [5, 4, 2, 2]
    assert fake.pauses == [6, 2, 2]


def test_a_refused_example_ends_a_learning_stream() -> None:
    with pytest.raises(Invalid, match="about invalid_request") as caught:
        FakeServer(answer(refused(13, 422, "invalid_request"), counted(13, 2)))(lesson(11))
    assert caught.value.done == 12


def test_a_learning_stream_has_numbers_without_an_example_and_examples_as_json() -> None:
    lines = [EXAMPLES[0], None, LINES[2], None]
    fake = FakeServer(answer(counted(15, 2)))
    (summary,) = fake(unsent(ModelCalls, "m", retry=RETRY).learn(lines, key="k", first=11).next())
    assert summary == StreamSummary(next=15, learnt=2, replayed=0, position="9", updates=14)
    (request,) = fake.requests
    assert request.body == b"%b\n\n%b\n\n" % (LINES[0], LINES[2])  # the server counts a line that ends


@for_each("line", [b"", b" ", b"{}\n{}"])
def test_the_json_of_an_example_is_one_line(line: bytes) -> None:
    with pytest.raises(ValueError, match="/examples/0 the JSON of an example must be exactly one line"):
        FakeServer()(unsent(ModelCalls, "m", retry=RETRY).learn([line], key="k").next())


@pytest.mark.parametrize("following", [0, 5, 7])
def test_a_summary_of_other_lines_is_an_unexpected_response(following: int) -> None:
    with pytest.raises(UnexpectedResponse):
        FakeServer(answer(counted(following, 1)))(lesson())


@for_each("content", [b"", b"[]\n", b"{}\n", json.dumps(learnt(1)).encode(), b"3"])
def test_a_summary_of_another_program_is_an_unexpected_response(content: bytes) -> None:
    with pytest.raises(UnexpectedResponse):
        FakeServer(answer(content=content))(lesson())
