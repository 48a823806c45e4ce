"""Every call with every kind of key: which are let in, and the responses to the others."""

import json
from typing import Any

from starlette.testclient import TestClient
from tests.service.access.calls import LET_IN, MODEL, PLACES, SCOPES, expected, outcome
from tests.service.access.keyed import Keyed
from tests.service.api.answers import refused
from tests.support.cases import for_each

CALLS = sorted(SCOPES)


def answered(answer: Any) -> tuple[int, str]:
    """Return the outcome of a call."""
    media_type = answer.headers.get("content-type", "")
    return outcome(answer.request.url.path, answer.status_code, media_type, answer.content)


@for_each(("method", "path"), CALLS, ids=[f"{method} {path}" for method, path in CALLS])
def test_a_call_lets_in_the_keys_with_its_scopes(keyed: Keyed, method: str, path: str) -> None:
    place = path.format(**PLACES)
    found = {"no key": answered(keyed.client.request(method, place))}
    found |= {kind: answered(keyed.call(method, place, key)) for kind, key in keyed.wrong.items()}
    found |= {kind: answered(keyed.call(method, place, key)) for kind, key in keyed.keys.items()}
    assert found == expected(method, path, keyed.wrong)


@for_each("path", ["/docs", "/openapi.json", "/livez", "/readyz"])
def test_a_wrong_key_is_ignored_where_none_is_needed(keyed: Keyed, path: str) -> None:
    assert keyed.client.get(path).status_code == 200
    assert keyed.call("get", path, keyed.wrong["unknown"]).status_code == 200


def test_both_scopes_are_needed_to_predict_and_learn(keyed: Keyed) -> None:
    both = keyed.make(scopes=["predict", "learn"])["key"]
    assert keyed.call("post", "/v1/models/absent/predict-update", both).json()["code"] == "model_not_found"


def test_an_absent_model_is_not_found(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for method, path in CALLS:
        if "{name}" in path and path.startswith(MODEL) and (method, path) != ("put", MODEL):
            content = paths[path][method].get("requestBody", {}).get("content", {})
            media_type, described = next(iter(content.items()), ("application/json", {}))
            example = described.get("example")
            body = example if isinstance(example, str) else json.dumps(example)
            sent: dict[str, Any] = {"content": body, "headers": {"Content-Type": media_type}} if content else {}
            answer = client.request(method, path.format(**PLACES), **sent)
            refused(answer, 404, "model_not_found")
    app: Any = client.app
    assert PLACES["name"] not in app.state.context.telemetry.models


def test_a_server_without_keys_is_open(client: TestClient) -> None:
    for method, path in CALLS:
        assert answered(client.request(method, path.format(**PLACES))) == LET_IN
