"""Bodies, batches, responses and models have limits; over a real socket, no connection hangs."""

import contextlib
import http.client
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, refused, state_of

MAX_BODY_BYTES = 2_000
ITEM = {"x": {"a": 1}, "y": ["p"]}


@pytest.fixture(scope="module")
def small(serve: Callable[..., TestClient]) -> Iterator[TestClient]:
    """A client of an application with small limits."""
    limits = {
        "max_body_bytes": MAX_BODY_BYTES,
        "max_batch_examples": 3,
        "max_response_scores": 4,
        "max_models": 3,
        "max_features": 5,
        "max_labels": 4,
    }
    with serve(**limits) as client:
        yield client


@pytest.fixture
def tiny(small: TestClient) -> Iterator[str]:
    yield create(small, "tiny")
    small.delete("/v1/models/tiny")


def padded(item: dict[str, Any], size: int) -> bytes:
    raw = json.dumps(item).encode()
    return raw + b" " * (size - len(raw))


def test_a_body_has_a_limit(small: TestClient, tiny: str) -> None:
    def chunks(size: int) -> Iterator[bytes]:
        body = padded(ITEM, size)
        yield from (body[begin : begin + 100] for begin in range(0, size, 100))

    headers = {"Content-Type": "application/json"}
    for path in ("/v1/models", f"{tiny}/predict", f"{tiny}/update", f"{tiny}/predict-update"):
        for content in (padded(ITEM, MAX_BODY_BYTES + 1), chunks(MAX_BODY_BYTES + 1)):
            problem = refused(small.post(path, content=content, headers=headers), 413, "body_too_large")
            assert "the setting max_body_bytes has this limit" in problem["detail"]
    for updates, content in enumerate((padded(ITEM, MAX_BODY_BYTES), chunks(MAX_BODY_BYTES)), 1):
        fitting = small.post(f"{tiny}/update", content=content, headers=headers)
        assert (fitting.status_code, fitting.json()["updates"]) == (200, updates)


def test_a_batch_has_a_limit(small: TestClient, tiny: str) -> None:
    for operation in ("predict", "update", "predict-update"):
        answer = small.post(f"{tiny}/{operation}", json={"examples": [ITEM] * 4})
        problem = refused(answer, 413, "batch_too_large")
        assert "has 4 examples; at most 3 are allowed; no setting changes this limit" in problem["detail"]
    assert small.post(f"{tiny}/update", json={"examples": [ITEM] * 3}).json()["updates"] == 3


def test_a_response_has_a_limit(small: TestClient, tiny: str) -> None:
    small.post(f"{tiny}/update", json={"x": {"a": 1}, "y": ["p", "q"]}).raise_for_status()
    for operation in ("predict", "predict-update"):
        problem = refused(small.post(f"{tiny}/{operation}", json={"examples": [ITEM] * 3}), 413, "batch_too_large")
        assert (
            "send at most about 2 examples, because of the number of labels; no setting changes this limit"
            in problem["detail"]
        )
        small.post(f"{tiny}/{operation}", json={"examples": [ITEM] * 2}).raise_for_status()


def test_a_model_has_limits(small: TestClient, tiny: str) -> None:
    small.post(f"{tiny}/update", json={"x": {"a": 1, "b": 1}, "y": ["p", "q", "r"]}).raise_for_status()
    state = state_of(small, tiny)
    two_more_labels = {"examples": [{"x": {"a": 1}, "y": ["s"]}, {"x": {"a": 1}, "y": {"t": False}}]}
    refused(small.post(f"{tiny}/update", json=two_more_labels), 507, "limit_exceeded")
    four_more_features = {"x": dict.fromkeys("cdef", 1), "y": []}
    refused(small.post(f"{tiny}/update", json=four_more_features), 507, "limit_exceeded")
    six_features = {"x": [1] * 6, "y": []}
    refused(small.post(f"{tiny}/update", json=six_features), 422, "invalid_request", "/x")
    index = {"x": {"indices": [1, 5], "values": [1, 1]}, "y": []}
    refused(small.post(f"{tiny}/update", json=index), 422, "invalid_request", "/x/indices/1")
    assert state_of(small, tiny) == state


def test_the_number_of_models_has_a_limit(small: TestClient, tiny: str) -> None:
    for name in ("second", "third"):
        create(small, name)
    fourth = small.post("/v1/models", json={"name": "fourth", "algorithm": "falt"})
    refused(fourth, 507, "limit_exceeded")
    for name in ("second", "third"):
        small.delete(f"/v1/models/{name}").raise_for_status()


@pytest.fixture(scope="module")
def server(module_server_process: Any) -> Any:
    """A real server with a small limit, and a model."""
    server = module_server_process("--max-body-bytes", str(MAX_BODY_BYTES)).start()
    with connected(server) as connection:
        connection.request("POST", "/v1/models", json.dumps({"name": "m", "algorithm": "falt"}), JSON)
        assert connection.getresponse().status == 201
    return server


JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v1/models/m/update HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@contextlib.contextmanager
def connected(server: Any) -> Iterator[http.client.HTTPConnection]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)) as connection:
        yield connection


@contextlib.contextmanager
def raw_connection(server: Any) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        yield connection


def read_answer(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, json.loads(response.read())


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
def test_a_declared_length_is_refused_before_the_body_is_sent(server: Any, expect: bytes) -> None:
    with raw_connection(server) as connection:
        connection.sendall(HEAD + b"Content-Length: 1000000000\r\n" + expect + b"\r\n")
        status, problem = read_answer(connection)
    assert (status, problem["code"]) == (413, "body_too_large")


def test_an_endless_body_is_refused_while_it_is_sent(server: Any) -> None:
    with raw_connection(server) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(30):
            connection.sendall(b"64\r\n" + b" " * 100 + b"\r\n")
        status, problem = read_answer(connection)  # the body has no end
    assert (status, problem["code"]) == (413, "body_too_large")


def test_the_connection_of_a_refused_body_serves_the_next_request(server: Any) -> None:
    with connected(server) as connection:
        connection.request("POST", "/v1/models/m/update", b" " * 1_000_000, JSON)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (413, "body_too_large")
        connection.request("POST", "/v1/models/m/predict", json.dumps(ITEM), JSON)
        assert connection.getresponse().status == 200


def test_a_client_that_disconnects_changes_nothing(server: Any) -> None:
    with connected(server) as connection:
        connection.request("GET", "/v1/models/m")
        before = json.loads(connection.getresponse().read())
        with raw_connection(server) as other:
            other.sendall(HEAD + b'Content-Length: 1000\r\n\r\n{"x": {"a": 1},')
        connection.request("GET", "/v1/models/m")
        assert json.loads(connection.getresponse().read()) == before
    assert "Traceback" not in server.log_tail()


def test_a_retry_gets_its_response_beyond_the_limit(small: TestClient, tiny: str) -> None:
    body = {"examples": [{"x": {"a": 1}, "y": [label]} for label in "pqr"]}
    first = small.post(f"{tiny}/predict-update", json=body, headers={"Idempotency-Key": "k"})
    assert first.status_code == 200
    again = small.post(f"{tiny}/predict-update", json=body, headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.content) == (200, first.content)
    assert small.post(f"{tiny}/predict-update", json=body).status_code == 413
