"""Exchanges about suggestions for labels: requests and results."""

import pytest
from tests.clients.http.fake_server import FakeServer, ok, unsent
from tests.clients.http.resources.test_jobs import JOB

from manylabel_clients import Retry
from manylabel_clients.http.resources.jobs import JobCalls
from manylabel_clients.http.resources.models import ModelCalls

ROW = {
    "kind": "parent", "why": "implied", "label": "poodle", "into": None, "parent": "dog",
    "evidence": {"examples": [12, 40.5], "together": 12, "changes": 0, "alike": None, "means": None,
                 "last_seen": [31, None]},
    "request": {"method": "PUT", "path": "/v1/models/m/groups", "body": {"groups": [], "parents": {"poodle": "dog"}}},
}  # fmt: skip


def test_suggestions_are_read() -> None:
    fake = FakeServer(*[ok({"job": "j", "position": "21", "examined": 40, "suggestions": [ROW]})] * 2)
    calls = unsent(ModelCalls, "m", retry=Retry(attempts=1))
    found = fake(calls.health())
    (suggestion,) = found.suggestions
    assert (found.job, suggestion.parent, suggestion.evidence.examples) == ("j", "dog", [12, 40.5])
    assert suggestion.request is not None
    assert suggestion.request.body["parents"] == {"poodle": "dog"}
    fake(calls.health("pause", top=3))
    assert [request.path for request in fake.requests] == [
        "/v1/models/m/health?top=100",
        "/v1/models/m/health?kind=pause&top=3",
    ]


def test_a_suggestion_is_dismissed_with_a_key() -> None:
    found = ok({"job": None, "position": None, "examined": None, "suggestions": [ROW]})
    fake = FakeServer(found, *[ok({"position": "22", "updates": 41})] * 2)
    calls = unsent(ModelCalls, "m", retry=Retry(attempts=1))
    (suggestion,) = fake(calls.health()).suggestions
    assert fake(calls.dismiss(suggestion)).position == "22"
    fake(calls.dismiss(suggestion, key="k"))
    assert fake.bodies[-1] == {"kind": "parent", "label": "poodle", "other": "dog"}
    assert fake.requests[-1].path == "/v1/models/m/health/dismiss"
    keys = [request.headers["Idempotency-Key"] for request in fake.requests[1:]]
    assert keys[0]
    assert keys[1] == "k"


def test_a_dry_run_has_its_metrics_as_result() -> None:
    found = ok({"job": None, "position": None, "examined": None, "suggestions": [ROW]})
    tried = {"suggestion": {}, "before": {"micro_f1": 0.5}, "after": {"micro_f1": 0.6}, "conflicts": []}
    job = {**JOB, "id": "01k", "trainer": "dry_run", "result": tried}
    fake = FakeServer(found, ok(job), ok(job))
    calls = unsent(ModelCalls, "m", retry=Retry(attempts=1), run=fake)
    (suggestion,) = calls.health().suggestions
    assert calls.dry_run(suggestion).id == "01k"
    assert fake.bodies[-1] == {"kind": "parent", "label": "poodle", "other": "dog"}
    assert fake.requests[-1].path == "/v1/models/m/health/dry-run"
    assert fake(unsent(JobCalls, "01k", retry=Retry(attempts=1)).status()).result == tried


def test_a_change_is_undone_with_a_key() -> None:
    fake = FakeServer(*[ok({"position": "23", "updates": 41, "how": "rollback"})] * 2)
    calls = unsent(ModelCalls, "m", retry=Retry(attempts=1))
    assert fake(calls.undo("22", key="k")).how == "rollback"
    assert (fake.requests[-1].path, fake.bodies[-1]) == ("/v1/models/m/undo", {"position": "22"})
    assert fake.requests[-1].headers["Idempotency-Key"] == "k"


def test_a_suggestion_is_applied_by_its_request() -> None:
    vague = {**ROW, "kind": "vague", "parent": None, "request": None}
    found = ok({"job": None, "position": None, "examined": None, "suggestions": [ROW, vague]})
    fake = FakeServer(found, ok({"position": "22", "updates": 41}))
    calls = unsent(ModelCalls, "m", retry=Retry(attempts=1))
    parent, other = fake(calls.health()).suggestions
    assert fake(calls.apply(parent)).position == "22"
    assert (fake.requests[-1].method, fake.requests[-1].path) == ("PUT", "/v1/models/m/groups")
    assert fake.bodies[-1] == {"groups": [], "parents": {"poodle": "dog"}}
    assert fake.requests[-1].headers["Idempotency-Key"]
    with pytest.raises(ValueError, match="'poodle' has no request"):
        fake(calls.apply(other))
