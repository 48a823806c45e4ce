"""Headers of responses, HEAD, and streams of bad lines."""

import json

import pytest
from starlette.testclient import TestClient
from tests.support.cases import for_each

EXPECTED = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@pytest.mark.parametrize("path", ["/livez", "/metrics", "/v1/models", "/nothing", "/docs", "/openapi.json"])
def test_every_response_has_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert {name: headers.get(name) for name in EXPECTED} == EXPECTED
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


@for_each("path", ["/livez", "/metrics", "/v1/models", "/v1/models/none", "/v1/models/test"])
def test_head_is_get_without_a_body(client: TestClient, model: str, path: str) -> None:
    whole, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_head_of_events_ends(client: TestClient, model: str) -> None:
    head = client.head(f"{model}/events")
    assert (head.status_code, head.content) == (200, b"")


def test_head_changes_nothing(client: TestClient, model: str) -> None:
    assert client.head(f"{model}/update").status_code == 405


def test_a_stream_of_bad_lines_is_ended(client: TestClient, model: str) -> None:
    n_lines = 100_000
    answer = client.post(f"{model}/stream", content=b"x\n" * n_lines, headers={"Content-Type": "application/x-ndjson"})
    lines = [json.loads(line) for line in answer.iter_lines()]
    assert lines[-1]["error"]["code"] == "too_many_refused"
    assert 1_000 <= lines[-1]["line"] <= 3_000
    assert [line["line"] for line in lines] == list(range(1, len(lines) + 1))


def test_wrong_lines_among_good_ones_do_not_end_a_stream(client: TestClient, model: str) -> None:
    good = b'{"x": {"a": 1}, "y": []}\n'
    answer = client.post(
        f"{model}/stream", content=(b"x\n" * 500 + good) * 5, headers={"Content-Type": "application/x-ndjson"}
    )
    assert sum("labels" in line for line in map(json.loads, answer.iter_lines())) == 5
