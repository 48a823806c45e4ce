"""Bodies in many shapes to calls that take one, in this process: the limits hold.

`tests/bodies` sends more of them, and larger ones, to a server, and measures it.
"""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.body_shapes import SHAPES, infer_bodies, json_bodies, made
from tests.support.cases import for_each

SIZE = 2**17
MOST_TIMES_ITS_SIZE = 40
SLACK_BYTES = 2**24
"""Memory of a small body: 10,000 examples have about 10 MB of objects, however short they are."""


@pytest.fixture(scope="module")
def client(serve: Callable[..., TestClient]) -> Iterator[TestClient]:
    with serve() as client:
        for name in ("m", "infer"):
            client.post("/v1/models", json={"name": name, "algorithm": "falt"}).raise_for_status()
            client.post(f"/v1/models/{name}/update", json={"x": {"a": 1}, "y": ["pets"]}).raise_for_status()
        yield client


def operations(client: TestClient) -> dict[str, Any]:
    return {
        f"{method} {path}": operation
        for path, methods in client.app.openapi()["paths"].items()  # type: ignore[attr-defined]
        for method, operation in methods.items()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    }


def peak_of(client: TestClient, method: str, path: str, content: bytes) -> tuple[int, int]:
    """Return the status of the response, and the peak of memory."""
    tracemalloc.start()
    try:
        answer = client.request(method, path, content=content, headers={"Content-Type": "application/json"})
        return answer.status_code, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


CALLS = (
    "post /v1/models/{name}/predict",
    "post /v2/models/{name}/infer",
    "post /v1/models/{name}/labels",
    "post /v1/models",
    "post /v1/jobs",
    "post /v1/keys",
)
SAMPLE = 29
"""Only every 29th body is sent."""


@pytest.mark.parametrize("call", CALLS)
def test_no_body_takes_more_than_40_times_its_size(client: TestClient, call: str) -> None:
    kind = operations(client)[call]["requestBody"]["content"]["application/json"]
    models = kind["schema"].get("anyOf", [kind["schema"]])
    schemas = client.app.openapi()["components"]["schemas"]  # type: ignore[attr-defined]
    method, path = call.replace("{name}", "m").split()
    for body in list(json_bodies(models, schemas, kind["example"], SIZE))[::SAMPLE]:
        status, peak = peak_of(client, method, path, body.content)
        assert status < 500 or status == 507, body.shape
        assert peak < MOST_TIMES_ITS_SIZE * len(body.content) + SLACK_BYTES, body.shape


def test_tensors_are_checked_before_rows_are_made(client: TestClient) -> None:
    for body in infer_bodies(SIZE, 10_000):
        status, peak = peak_of(client, "POST", "/v2/models/infer/infer", body.content)
        assert status < 500, body.shape
        assert peak < MOST_TIMES_ITS_SIZE * len(body.content) + SLACK_BYTES, body.shape


@pytest.mark.parametrize("field", ["x", "y", "unknown"])
@pytest.mark.parametrize("shape", ["named numbers", "named strings", "different strings", "digits"])
def test_the_fields_of_an_example_are_limited(client: TestClient, shape: str, field: str) -> None:
    example = json.dumps({"x": {"a": 1}, "y": ["b"], field: None}).encode()
    content = example.replace(b"null", made(shape, 2**20))
    answer = client.post("/v1/models/m/update", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["pointer"] == f"/{field}"


@pytest.mark.parametrize("shape", ["different strings", "named flags"])
def test_the_labels_of_a_prediction_are_limited(client: TestClient, shape: str) -> None:
    content = b'{"id":"01KAHZY4T00000000000000000","y":' + made(shape, 2**20) + b"}"
    answer = client.post("/v1/models/m/labels", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/y")


@for_each("place", ["/params", "/limits", "/limits/labels", "/text", "/init_from", "/name"])
def test_the_fields_of_a_spec_are_limited(client: TestClient, place: str) -> None:
    value = made("named numbers", SIZE)
    for name in reversed(place.split("/")[1:]):
        value = b'{"%s":%s}' % (name.encode(), value)
    content = b'{"algorithm":"falt",' + (b'"name":"new",' if place != "/name" else b"") + value[1:]
    answer = client.post("/v1/models", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, [error["pointer"] for error in answer.json()["errors"]]) == (422, [place])


@pytest.mark.parametrize("field", ["labels", "features"])
def test_the_first_bad_name_of_a_spec_is_named(client: TestClient, field: str) -> None:
    answer = client.post("/v1/models", json={"name": "new", "algorithm": "falt", field: ["a", *[1] * 2_000]})
    assert (answer.status_code, [error["pointer"] for error in answer.json()["errors"]]) == (422, [f"/{field}/1"])


def test_labels_of_a_spec_are_counted_before_they_are_checked(client: TestClient) -> None:
    answer = client.post("/v1/models", json={"name": "new", "algorithm": "falt", "labels": ["a"] * 20_000})
    assert (answer.status_code, answer.json()["code"]) == (507, "limit_exceeded")


def test_the_bytes_of_a_document_are_limited(client: TestClient) -> None:
    for call in operations(client):
        method, path = call.split()
        if path.startswith(("/v1/jobs", "/v1/keys")) or path.endswith(
            ("/rename", "/retire", "/pause", "/resume", "/rollback", "/promote")
        ):
            path = path.replace("{name}", "m").replace("{key_id}", "x")
            content = made("one string", 2**19)
            answer = client.request(method, path, content=content, headers={"Content-Type": "application/json"})
            assert answer.status_code in (404, 409, 413), (call, answer.text)


def test_every_shape_is_json() -> None:
    for shape in set(SHAPES) - {"one name many times"}:
        assert json.loads(made(shape, 10_000)) is not None
