"""Exchanges about doubtful labels and corrections: requests and results."""

import pytest
from tests.clients.http.fake_server import FakeServer, ok, unsent

from manylabel_clients import Retry
from manylabel_clients.http.resources.models import ModelCalls

ROW = {
    "position": "21", "index": 1, "ref": None, "time": "2026-11-30T10:00:00.000Z",
    "label": "dogs", "given": False, "kind": "missing", "probability": 0.9,
    "share": 0.1, "seen": 9, "neighbours": 1.0,
    "similar": [{"position": "3", "index": 0, "ref": "r3", "time": "2026-11-29T10:00:00.000Z"}],
    "for": [{"feature": "bark", "contribution": 0.5}], "score": 3.0, "existed": True,
}  # fmt: skip
LIST = {
    "job": "j", "position": "21", "since": "1", "examined": 40, "doubts": [ROW],
    "left_out": {"not_human": 1, "before_since": 2, "too_rare": 3, "checked": 4},
}  # fmt: skip


def test_a_list_of_doubts_is_read() -> None:
    fake = FakeServer(ok(LIST), ok(LIST))
    calls = unsent(ModelCalls, "m", retry=Retry(attempts=1))
    found = fake(calls.doubts())
    (doubt,) = found.doubts
    assert (doubt.label, doubt.for_[0].feature, doubt.similar[0].ref) == ("dogs", "bark", "r3")
    assert found.left_out.checked == 4
    fake(calls.doubts("wrong", label="dogs", top=5))
    assert [request.path for request in fake.requests] == [
        "/v1/models/m/doubts?kind=missing&top=100",
        "/v1/models/m/doubts?kind=wrong&label=dogs&top=5",
    ]


def test_an_example_is_corrected_with_a_key() -> None:
    fake = FakeServer(*[ok({"position": "22", "updates": 41})] * 2)
    calls = unsent(ModelCalls, "m", retry=Retry(attempts=1))
    assert fake(calls.correct("21", {"dogs": True}, index=1)).updates == 41
    fake(calls.correct("3", ["cats"], key="k"))
    assert fake.bodies == [
        {"position": "21", "y": {"dogs": True}, "index": 1},
        {"position": "3", "y": ["cats"]},
    ]
    assert [request.path for request in fake.requests] == ["/v1/models/m/correct"] * 2
    keys = [request.headers["Idempotency-Key"] for request in fake.requests]
    assert keys[0]
    assert keys[1] == "k"
    with pytest.raises(TypeError, match="/y"):
        fake(calls.correct("3", 7))  # type: ignore[arg-type]
