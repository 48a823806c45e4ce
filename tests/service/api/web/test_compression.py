"""Downloads are compressed on request, predictions and request bodies never."""

import gzip
import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.api.answers import create, refused
from tests.support.server_process import ServerProcess
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_service.api.dispatch import MIN_COMPRESSED_BYTES

JSON = {"Content-Type": "application/json"}
ITEM = {"x": {"a": 1.5, "b": -1}, "y": ["p", "q"]}
LARGE = "/openapi.json"


def asked(client: TestClient, path: str, coding: str | None, method: str = "GET", **parameters: Any) -> Any:
    """Return a response as it was sent, compressed or not."""
    client.headers.pop("accept-encoding", None)
    headers = {} if coding is None else {"Accept-Encoding": coding}
    with client.stream(method, path, headers=headers, **parameters) as answer:
        answer.raw_content = b"".join(answer.iter_raw())
    return answer


@pytest.mark.parametrize("coding", ["gzip", "gzip, deflate, br, zstd"])
def test_a_large_download_is_compressed_on_request(client: TestClient, coding: str) -> None:
    plain, answer = asked(client, LARGE, None), asked(client, LARGE, coding)
    assert len(plain.raw_content) > MIN_COMPRESSED_BYTES
    assert answer.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in answer.headers["vary"].lower()
    assert int(answer.headers["content-length"]) == len(answer.raw_content) < len(plain.raw_content) / 2
    assert gzip.decompress(answer.raw_content) == plain.raw_content


@pytest.mark.parametrize("coding", ["identity", "br", ""])
def test_a_download_is_plain_without_gzip(client: TestClient, coding: str) -> None:
    assert "content-encoding" not in asked(client, LARGE, coding).headers


def test_small_downloads_and_predictions_are_plain(client: TestClient) -> None:
    create(client, "m")
    client.post("/v1/models/m/update", json=ITEM).raise_for_status()
    body = {"examples": [{"x": {"a": n / 7}} for n in range(500)]}
    predicted = asked(client, "/v1/models/m/predict", "gzip", "POST", json=body)
    assert len(predicted.raw_content) > MIN_COMPRESSED_BYTES
    for answer in (predicted, asked(client, "/v1/none", "gzip")):
        assert "content-encoding" not in answer.headers


def test_head_has_the_headers_of_get(client: TestClient) -> None:
    get, head = (asked(client, LARGE, "gzip", method) for method in ("GET", "HEAD"))
    for name in ("content-encoding", "content-length"):
        assert get.headers[name] == head.headers[name]
    assert head.raw_content == b""


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br"])
def test_a_compressed_body_is_refused(client: TestClient, coding: str) -> None:
    create(client, coding)
    headers = {**JSON, "Content-Encoding": coding}
    body = gzip.compress(json.dumps(ITEM).encode())
    answer = client.post(f"/v1/models/{coding}/update", content=body, headers=headers)
    refused(answer, 415, "unsupported_media_type")
    assert f"must not be compressed; its Content-Encoding is '{coding}'" in answer.json()["detail"]
    assert answer.headers["accept-encoding"] == "identity"


def test_events_are_not_compressed(module_server_process: Callable[..., ServerProcess]) -> None:
    server = module_server_process().start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_SECONDS)
    connection.request("POST", "/v1/models", b'{"name": "m", "algorithm": "falt"}', JSON)
    created = connection.getresponse()
    assert created.status == 201
    created.read()
    connection.request("GET", "/v1/models/m/events", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Content-Encoding"]) == (200, None)
    connection.close()
