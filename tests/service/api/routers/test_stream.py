"""The NDJSON stream: every line gets its response, in order, even if other lines are refused."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api import answers
from tests.service.api.answers import NDJSON, create, lines_of, refused
from tests.support.cases import for_each

from manylabel_core.online.models.linear import sparse_table

GOOD = {"x": {"a": 1, "b": 2}, "y": ["p"]}


def as_lines(items: list[Any]) -> bytes:
    return b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in items)


def examples(n: int) -> list[dict[str, Any]]:
    return [{"x": {f"w{i % 7}": 1.5, f"v{i % 5}": -1}, "y": [f"t{i % 3}"]} for i in range(n)]


@pytest.fixture
def stream(client: TestClient, model: str) -> Callable[..., list[dict[str, Any]]]:
    def post(items: list[Any], key: str | None = None, query: str = "") -> list[dict[str, Any]]:
        return answers.stream(client, model, items, query, **({} if key is None else {"Idempotency-Key": key}))

    return post


def test_a_line_gets_the_response_of_a_single_update(
    client: TestClient, model: str, stream: Callable[..., Any]
) -> None:
    items, parts = examples(300), ("labels", "scores", "threshold", "updates")
    apart = create(client, "apart")
    single = [client.post(f"{apart}/predict-update", json=item).json() for item in items]
    answered = stream(items)
    assert [one["line"] for one in answered] == list(range(1, 301))
    assert [[one[part] for part in parts] for one in answered] == [[one[part] for part in parts] for one in single]
    assert answered[-1]["position"] == client.get(model).json()["position"]
    client.delete(apart)


def test_only_lines_that_do_not_fit_the_model_are_refused(
    client: TestClient, model: str, stream: Callable[..., Any]
) -> None:
    """The model alone knows its input kind; half of the lines have another one."""
    client.post(f"{model}/update", json=GOOD).raise_for_status()
    items = [GOOD if i % 2 else {"x": [1.0, 2.0], "y": []} for i in range(400)]
    answered = stream(items)
    assert [one["line"] for one in answered] == list(range(1, 401))
    assert ["error" in one for one in answered] == [not i % 2 for i in range(400)]
    assert client.get(model).json()["updates"] == 201


def test_blank_lines_are_counted_and_ignored(stream: Callable[..., Any]) -> None:
    answered = stream([b"", GOOD, b"   \r", b"\t", json.dumps(GOOD).encode() + b"\r", b""])
    assert [one["line"] for one in answered] == [2, 5]
    assert stream([]) == []
    assert stream([b"", b""]) == []


def test_the_last_line_needs_no_newline(client: TestClient, model: str) -> None:
    body = as_lines([GOOD, GOOD])[:-1]
    assert [one["line"] for one in lines_of(client.post(f"{model}/stream", content=body, headers=NDJSON))] == [1, 2]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_lines_may_arrive_in_pieces_of_any_size(client: TestClient, model: str, size: int) -> None:
    body = as_lines([*examples(40), b"", GOOD])

    def chunks() -> Iterator[bytes]:
        yield from (body[begin : begin + size] for begin in range(0, len(body), size))

    answered = lines_of(client.post(f"{model}/stream", content=chunks(), headers=NDJSON))
    assert [one["line"] for one in answered] == [*range(1, 41), 42]
    assert answered[-1]["updates"] == 41


def test_one_line_is_never_two_examples(client: TestClient, model: str, stream: Callable[..., Any]) -> None:
    """Lines are parsed one by one: no line completes another."""
    whole = json.dumps(GOOD)
    halves = [f'{whole},{{"x": {{"a": 1}}'.encode(), b'"y": []}']
    answered = stream([*halves, whole.encode() + b"," + whole.encode(), b"[" + whole.encode(), b"]"])
    assert ["error" in one for one in answered] == [True] * 5
    assert client.get(model).json()["updates"] == 0


# -- exactly once ---------------------------------------------------------------------------------------------


def test_lines_sent_again_with_their_key_are_learnt_once(
    client: TestClient, model: str, stream: Callable[..., Any]
) -> None:
    items = examples(50)
    stream(items[:30], key="s")
    again = stream(items, key="s")

    assert [one["line"] for one in again] == list(range(1, 51))
    assert all(one.keys() == {"line", "replayed", "position"} for one in again[:30])
    assert [one["updates"] for one in again[30:]] == list(range(31, 51))
    everything_again = stream(items, key="s")
    assert all(one.get("replayed") for one in everything_again)
    assert client.get(model).json()["updates"] == 50


def test_a_stream_resumes_at_a_line(client: TestClient, model: str, stream: Callable[..., Any]) -> None:
    items = examples(20)
    stream(items[:8], key="s")
    resumed = stream(items[5:], key="s", query="?from=6")
    assert [one["line"] for one in resumed] == list(range(6, 21))
    assert [bool(one.get("replayed")) for one in resumed] == [True] * 3 + [False] * 12
    assert client.get(model).json()["updates"] == 20
    stream(items, key="another")
    stream(items)
    stream(items)
    assert client.get(model).json()["updates"] == 80, "without a key, or under another, they are other lines"


def test_a_refused_line_is_corrected_at_the_end(client: TestClient, model: str, stream: Callable[..., Any]) -> None:
    answered = stream([GOOD, {"x": {"a": 1}}, GOOD], key="s")
    assert ["error" in one for one in answered] == [False, True, False]
    (again,) = stream([GOOD], key="s", query="?from=2")
    assert again["replayed"], "line 3 was learnt: line 2 has had its turn"
    (mended,) = stream([GOOD], key="s", query="?from=4")
    assert mended["updates"] == 3


# -- limits -------------------------------------------------------------------------------------------


def test_the_size_of_a_line_is_limited(serve: Callable[..., Any]) -> None:
    with serve(max_body_bytes=1000) as small:
        address = create(small, "m")
        fitting = json.dumps(GOOD).encode().ljust(1000)
        for body in (
            as_lines([fitting, fitting + b" ", GOOD]),
            fitting + b"\n" + b" " * 1001,
            fitting + b"\n" + b"x" * 100_000 + b"\n" + fitting,
        ):
            answered = lines_of(small.post(f"{address}/stream", content=body, headers=NDJSON))
            assert [one["line"] for one in answered] == [1, 2]
            assert (answered[1]["error"]["status"], answered[1]["error"]["code"]) == (413, "body_too_large")
            assert "the line has more than 1,000 bytes; the setting max_body_bytes" in answered[1]["error"]["detail"]
        assert small.get(address).json()["updates"] == 3


def test_no_line_is_refused_because_its_block_has_many_scores(serve: Callable[..., Any]) -> None:
    with serve(max_response_scores=20) as small:
        address = create(small, "m")
        items = [{"x": {"a": 1}, "y": [f"t{i}"]} for i in range(60)]
        answered = answers.stream(small, address, items)
        assert [one["updates"] for one in answered] == list(range(1, 61))


# -- bad requests -------------------------------------------------------------------------------------


@for_each(
    ("query", "place"),
    [
        ("?from=0", "from"),
        ("?from=", "from"),
        ("?from=1.5", "from"),
        ("?from=%C2%B2", "from"),
        ("?from=" + "9" * 16, "from"),
        ("?from=1&from=1", "from"),
        ("?form=1", "form"),
        ("?probabilities=1", "probabilities"),
        ("?answers=none", "answers"),
        ("?answers=errors&probabilities=true", "probabilities"),
        ("?from=1&key=2", "key"),
    ],
)
def test_a_wrong_parameter_is_refused(client: TestClient, model: str, query: str, place: str) -> None:
    answer = client.post(f"{model}/stream{query}", content=as_lines([GOOD]), headers=NDJSON)
    problem = refused(answer, 422, "invalid_request", place)
    assert problem["errors"][0].keys() == {"parameter", "detail"}
    assert client.get(model).json()["updates"] == 0


def test_headers_are_checked_before_anything_is_learnt(client: TestClient, model: str) -> None:
    body = as_lines([GOOD])
    for headers in ({}, {"Content-Type": "application/json"}, {**NDJSON, "Content-Encoding": "br"}):
        refused(client.post(f"{model}/stream", content=body, headers=headers), 415, "unsupported_media_type")
    bad_key = client.post(f"{model}/stream", content=body, headers={**NDJSON, "Idempotency-Key": "a b"})
    refused(bad_key, 422, "invalid_request", "Idempotency-Key")
    refused(client.post("/v1/models/nobody/stream", content=body, headers=NDJSON), 404, "model_not_found")
    assert client.get(model).json()["updates"] == 0
    for accepted in ("application/ndjson", "application/x-ndjson; charset=utf-8"):
        lines_of(client.post(f"{model}/stream", content=body, headers={"Content-Type": accepted}))
    assert client.get(model).json()["updates"] == 2


# -- answers=errors -----------------------------------------------------------------------------------


def test_only_refused_lines_are_answered_on_request(client: TestClient, model: str, stream: Callable[..., Any]) -> None:
    items = [*examples(20), {"x": {"a": "b"}, "y": 1}, *examples(30), b"not JSON", *examples(10)]
    apart = create(client, "answered")
    every = answers.stream(client, apart, items)

    *refused, summary = stream(items, query="?answers=errors")

    expected = [one for one in every if "error" in one]
    assert [one["error"]["detail"] for one in refused] == [one["error"]["detail"] for one in expected]
    assert [one["line"] for one in refused] == [21, 52]
    status = client.get(model).json()
    at = {"position": status["position"], "updates": 60}
    assert summary == {"learnt": 60, "replayed": 0, "refused": 2, "next": 63, **at}
    assert status["metrics"] == client.get(apart).json()["metrics"]


def test_a_summary_counts_replayed_lines(stream: Callable[..., Any]) -> None:
    items = examples(12)
    stream(items[:8], "s", "?answers=errors")
    (summary,) = stream(items, "s", "?answers=errors")
    assert (summary["learnt"], summary["replayed"], summary["updates"], summary["next"]) == (4, 8, 12, 13)


def test_an_empty_stream_has_a_summary(stream: Callable[..., Any]) -> None:
    nothing = {"learnt": 0, "replayed": 0, "refused": 0, "next": 5, "position": None, "updates": None}
    assert stream([], query="?answers=errors&from=5") == [nothing]


def test_the_number_of_listed_errors_is_limited(stream: Callable[..., Any]) -> None:
    items = [GOOD if i % 10 == 0 else b"[]" for i in range(2_000)]
    *refused, summary = stream(items, query="?answers=errors")
    assert len(refused) == 1_000
    assert (summary["learnt"], summary["refused"], summary["next"]) == (200, 1_800, 2_001)


def test_a_stream_that_was_ended_names_the_next_line(stream: Callable[..., Any]) -> None:
    *_, error, summary = stream([GOOD, b" " * 2**23, GOOD], query="?answers=errors")
    assert (error["line"], error["error"]["code"]) == (2, "body_too_large")
    assert (summary["learnt"], summary["next"]) == (1, 2)


@pytest.mark.parametrize("answered", ["all", "errors"])
def test_the_first_refused_line_ends_a_stream_with_stop(
    client: TestClient, model: str, stream: Callable[..., Any], answered: str
) -> None:
    items, query = [*examples(20), b"[]", *examples(20), b"{}"], f"?answers={answered}&stop=true"
    given = stream(items, "s", query)
    last = given[-2] if answered == "errors" else given[-1]
    assert (last["line"], last["error"]["errors"][0]["detail"]) == (
        21,
        "must be an object with x, y, weight, source, ref",
    )
    assert client.get(model).json()["updates"] == 20
    if answered == "errors":
        assert (given[-1]["learnt"], given[-1]["next"], len(given)) == (20, 21, 2)
    items[20], items[41] = GOOD, GOOD
    assert len(stream(items[20:], "s", f"{query}&from=21")) == (1 if answered == "errors" else 22)
    assert client.get(model).json()["updates"] == 42


def test_a_line_that_does_not_fit_the_model_ends_a_stream_with_stop(serve: Callable[..., Any]) -> None:
    """The line is found after its block was accepted: lines before it are learnt, and no line after it."""
    with serve(max_labels=3) as small:
        address = create(small, "m")
        items = [{"x": {"a": 1}, "y": y} for y in (["p"], ["q"], ["p", "r"], ["q", "s"], ["r"], ["t"])]
        *_, error, summary = answers.stream(small, address, items, "?answers=errors&stop=true")
        assert (error["line"], error["error"]["code"]) == (4, "limit_exceeded")
        assert (summary["learnt"], summary["next"], summary["updates"]) == (3, 4, 3)
        assert small.get(address).json()["updates"] == 3


def test_lines_that_exceed_a_limit_together_are_learnt_one_by_one(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Any]
) -> None:
    """Each new word could get weights for all labels; together the words of a block would exceed the limit."""
    monkeypatch.setattr(sparse_table, "DENSE_BYTES", 0)
    labels, size = [f"l{i}" for i in range(800)], 300
    items = [{"x": {"all": 1, **{f"w{i}-{j}": 1 for j in range(6)}}, "y": [f"l{i % 4}"]} for i in range(size)]
    with serve() as large:
        address = create(large, "m", labels=labels)
        expected = answers.stream(large, address, items)
        n_bytes = large.get(address).json()["bytes"]
    with serve(max_model_bytes=int(1.2 * n_bytes)) as small:
        for name, query in (("m", ""), ("stopping", "?stop=true")):
            address = create(small, name, labels=labels)
            assert small.post(f"{address}/update", json={"examples": items}).json()["code"] == "limit_exceeded"
            found = answers.stream(small, address, items, query)
            assert [line["scores"] for line in found] == [line["scores"] for line in expected]
        large_line = {"x": {f"u{i}": 1 for i in range(600)}, "y": []}
        last = answers.stream(small, address, [items[0], large_line, items[0]])
        assert [line.get("error", {}).get("code") for line in last] == [None, "limit_exceeded", None]
        assert small.get(address).json()["updates"] == size + 2
