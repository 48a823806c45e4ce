"""The audit in the client and in the command, from a real server."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.clients.http.fake_server import FakeServer, ok, unsent

from manylabel_clients import Client, NotFound, Retry
from manylabel_clients.http.resources.audit import AuditCalls


def test_calls_are_listed_filtered_and_paged(client: Client, name: str) -> None:
    after = client.audit(limit=1).after
    model = client.create_model(name)
    receipts = [model.update({"a": 1}, ["p"]) for _ in range(3)]
    with pytest.raises(NotFound):
        client.model("nothing-here").delete()
    newest = client.audit(model=name, limit=2)
    assert [call.position for call in newest.calls] == [receipts[2].position, receipts[1].position]
    older = client.audit(model=name, limit=2, before=newest.before)
    assert [(call.method, call.route, call.status) for call in older.calls] == [
        ("POST", "/v1/models/{name}/update", 200),
        ("POST", "/v1/models", 201),
    ]
    later = client.audit(after=after, model="nothing-here").calls
    assert [(call.code, call.status) for call in later] == [("model_not_found", 404)]
    assert client.audit(model=name, since="2999-01-01T00:00:00Z").calls == []


def test_the_command_lists_calls(manylabel: Callable[..., Any], client: Client, name: str) -> None:
    client.create_model(name)
    shown = manylabel("audit", "--model", name).checked()
    assert "POST models" in shown.out
    told = manylabel("audit", "--model", name, "--json")
    assert json.loads(told.out)["model"] == name
    assert manylabel("audit", "--model", "never-named").out == "no such calls\n"


def test_only_given_filters_are_sent() -> None:
    fake = FakeServer(*[ok({"calls": [], "before": None, "after": "1-0"})] * 2)
    requests = unsent(AuditCalls, retry=Retry(attempts=1))
    assert fake(requests.audit()).before is None
    fake(requests.audit(limit=5, since="2026-11-23T12:00:00+01:00"))
    assert [request.path for request in fake.requests] == [
        "/v1/audit",
        "/v1/audit?limit=5&since=2026-11-23T12%3A00%3A00%2B01%3A00",
    ]
