"""Exchanges about suggestions for labels: requests and results."""

from tests.clients.http.fake_server import FakeServer, ok, unsent

from manylabel_clients import Retry
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
