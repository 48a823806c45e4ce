"""Rates of keys."""

import json
from typing import Any

import pytest
from tests.service.access.keyed import Keyed
from tests.service.api.answers import refused

from manylabel_service.access.rates import RateLimiter, RateLimits, TokenBucket
from manylabel_service.errors import RateLimited

SELDOM = 0.01
"""A rate so low that no token is added while a test runs."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_no_more_than_its_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(10, clock=clock)
    assert [bucket.take(1) for _ in range(10)] == [0.0] * 10
    assert bucket.take(1) == pytest.approx(0.1)
    clock.now += 0.25
    assert [bucket.take(1), bucket.take(1)] == [0.0, 0.0]
    assert bucket.take(1) == pytest.approx(0.05)
    clock.now += 3600
    assert [bucket.take(1) for _ in range(10)] == [0.0] * 10  # the bucket holds at most the requests of one second
    assert bucket.take(1) > 0


def test_a_request_beyond_the_capacity_leaves_a_deficit() -> None:
    clock = Clock()
    bucket = TokenBucket(10, clock=clock)
    assert bucket.take(50) == 0.0
    assert bucket.take(1) == pytest.approx(4.1)
    clock.now += 4.5
    assert bucket.take(50) == pytest.approx(0.5)  # full only then
    assert bucket.take(5) == 0.0


def test_a_slow_bucket_holds_one() -> None:
    bucket = TokenBucket(SELDOM)
    assert bucket.take(1) == 0.0
    assert 0 < bucket.take(1) <= 100


def test_concurrent_requests_are_counted() -> None:
    limits = RateLimiter(RateLimits(max_concurrent_requests=2))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), limits:
            raise ZeroDivisionError
    with limits, limits:
        with pytest.raises(RateLimited, match="2 requests in progress"), limits:
            pass
        limits.charge(10**6)
    with limits:
        pass


async def test_examples_wait_until_they_are_within_the_rate() -> None:
    clock, slept = Clock(), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds

    limits = RateLimiter(RateLimits(examples_per_second=200.0), clock, sleep)
    for n_examples in (200, 100, 100):
        await limits.hold(n_examples)
    assert slept == pytest.approx([0.5, 0.5])
    limits.charge(0)
    with pytest.raises(RateLimited, match="200 examples per second"):
        limits.charge(1)


def test_too_many_requests_are_refused_with_retry_after(keyed: Keyed) -> None:
    key = keyed.make(rates={"requests_per_second": SELDOM})
    assert keyed.call("get", "/v1/models", key["key"]).status_code == 200
    answer = keyed.call("get", "/v1/models", key["key"])
    refused(answer, 429, "rate_limited")
    assert 1 <= int(answer.headers["retry-after"]) <= 100
    assert keyed.call("get", "/v1/models").status_code == 200  # others do not feel it
    keyed.call("patch", f"/v1/keys/{key['id']}", json={"note": "has nothing to do with the rates"})
    refused(keyed.call("get", "/v1/models", key["key"]), 429, "rate_limited")
    keyed.call("patch", f"/v1/keys/{key['id']}", json={"rates": None})
    assert keyed.call("get", "/v1/models", key["key"]).status_code == 200


@pytest.fixture
def model(keyed: Keyed) -> Any:
    spec = {"name": "m", "algorithm": "falt", "labels": ["a", "b"]}
    assert keyed.call("post", "/v1/models", json=spec).status_code == 201
    yield "/v1/models/m"
    keyed.call("delete", "/v1/models/m")


EXAMPLE = {"x": [1.0, 2.0], "y": ["a"]}
KEPT = {"examples": [{"x": [1.0]}, {"x": [2.0]}]}
V2 = {"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ["[1, 2]"]}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/models/m/predict", {"x": [1.0, 2.0]}),
        ("/v1/models/m/predict", KEPT),
        ("/v1/models/m/update", EXAMPLE),
        ("/v1/models/m/predict-update", EXAMPLE),
        ("/v2/models/m/infer", V2),
    ],
)
def test_examples_count_for_the_rate(keyed: Keyed, model: str, path: str, body: Any) -> None:
    key = keyed.make(rates={"examples_per_second": SELDOM})["key"]
    assert keyed.call("post", path, key, json=body).status_code == 200
    late = keyed.call("post", path, key, json=body)
    assert late.status_code == 429
    assert "examples per second" in late.text
    assert int(late.headers["retry-after"]) >= 1
    assert keyed.call("get", model, key).status_code == 200


def test_labels_of_stored_predictions_count_for_the_rate(keyed: Keyed, model: str) -> None:
    ids = [item["id"] for item in keyed.call("post", f"{model}/predict?keep=true", json=KEPT).json()["predictions"]]
    key = keyed.make(rates={"examples_per_second": SELDOM})["key"]
    answers = [keyed.call("post", f"{model}/labels", key, json={"id": id, "y": ["a"]}).status_code for id in ids]
    assert answers == [200, 429]


def stream(keyed: Keyed, key: str, n_lines: int) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(EXAMPLE) + "\n" for _ in range(n_lines))
    headers = {"api-key": key, "Content-Type": "application/x-ndjson"}
    answer = keyed.client.post("/v1/models/m/stream", content=lines, headers=headers)
    assert answer.status_code == 200
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_stream_is_slowed_down(keyed: Keyed, model: str) -> None:
    key = keyed.make(rates={"examples_per_second": 200.0})["key"]
    answers = stream(keyed, key, 400)
    assert [answer["updates"] for answer in answers] == list(range(1, 401))


def test_a_stream_that_would_wait_too_long_is_ended(keyed: Keyed, model: str) -> None:
    key = keyed.make(rates={"examples_per_second": SELDOM})["key"]
    learnt, refused = stream(keyed, key, 5)
    assert learnt["updates"] == 1
    assert (refused["line"], refused["error"]["code"]) == (2, "rate_limited")
    assert refused["retry_after"] >= 1
