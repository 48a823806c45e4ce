"""Exchanges about versions: requests, results and retries."""

import httpx2
from tests.clients.http.fake_server import FakeServer, ok, unsent

from manylabel_clients import (
    Retry,
)
from manylabel_clients.http.resources.models import ModelCalls

RETRY = Retry(attempts=3, base_seconds=1, cap_seconds=100, jitter=0)
CUT = httpx2.ReadError("cut")


def test_versions_are_listed_promoted_described_and_downloaded() -> None:
    one = {
        "version": 1, "served": True, "created": "t", "job": "j1", "trainer": "m3l", "params": {}, "measures": None,
        "converged": False, "gap": 0.66, "scaling": "auto", "not_promoted_because": "it was not evaluated",
        "rows": 3, "sampled": None, "bytes": 9, "position": "4",
    }  # fmt: skip
    detail = {
        "version": 1, "trainer": "m3l", "params": {}, "measures": None, "label_scores": None,
        "label_decisions": {}, "label_correlation": None, "view_weights": None, "convergence": {"iteration": [1]},
    }  # fmt: skip
    promoted = {"model": "m", "version": 1, "previous": 2, "position": "5"}
    fake = FakeServer(
        ok({"versions": [one]}), CUT, ok(promoted), ok(detail), ok(detail),
        httpx2.Response(200, content=b"model"),
    )  # fmt: skip
    calls = unsent(ModelCalls, "m", retry=RETRY)
    (version,) = fake(calls.versions())
    assert (version.served, version.bytes) == (True, 9)
    assert fake(calls.promote(1)).previous == 2
    assert fake(calls.detail()) == fake(calls.detail(1))
    assert fake(calls.download_version(1)) == b"model"
    assert [f"{request.method} {request.path}" for request in fake.requests] == [
        "GET /v1/models/m/versions", "POST /v1/models/m/promote", "POST /v1/models/m/promote",
        "GET /v1/models/m/detail", "GET /v1/models/m/detail?version=1",
        "GET /v1/models/m/versions/1",
    ]  # fmt: skip
    assert fake.bodies == [{"version": 1}] * 2


def test_a_follower_is_promoted_once() -> None:
    promoted = {
        "model": "m", "follower": "f", "algorithm": "salt", "position": "5", "updates": 3, "since": "0",
    }  # fmt: skip
    fake = FakeServer(CUT, ok(promoted))
    done = fake(unsent(ModelCalls, "f", retry=RETRY).promote())
    assert (done.model, done.follower, done.algorithm, done.version) == ("m", "f", "salt", None)
    assert [request.body for request in fake.requests] == [None, None]
    keys = {request.headers["Idempotency-Key"] for request in fake.requests}
    assert len(keys) == 1
