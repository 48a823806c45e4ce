"""Every call with every kind of key: who gets through, and what the others are answered."""

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.access.calls import ALL_SCOPES, SCOPES
from tests.service.access.keyed import Keyed

REFUSALS = {"key_required", "key_invalid", "scope_missing", "model_not_allowed"}
IN_WORDS = {
    "this needs a key with": "scope_missing",
    "this needs a key": "key_required",
    "the key": "key_invalid",
    "your key": "model_not_allowed",
}
"""How the messages begin: the errors of the Open Inference Protocol have no codes."""
PLACES = {"name": "absent", "position": "7", "version": "7", "id": "0" * 26, "key_id": "a" * 12}
"""What stands in addresses: nothing that is there, so that whoever is let in changes nothing."""
CALLS = sorted(SCOPES)


def outcome(answer: Any) -> tuple[int, str]:
    """The status and the code of an answer that refuses; of any other, that it is none."""
    told = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    words = told.get("error", "") if answer.request.url.path.startswith("/v2") else ""
    code = next((code for begin, code in IN_WORDS.items() if words.startswith(begin)), told.get("code"))
    if code in REFUSALS:
        return answer.status_code, code
    assert answer.status_code < 500, answer.text
    return 0, "let in"


@pytest.mark.parametrize(("method", "path"), CALLS, ids=[f"{method} {path}" for method, path in CALLS])
def test_a_call_lets_in_whom_it_should(keyed: Keyed, method: str, path: str) -> None:
    needed, place = SCOPES[method, path], path.format(**PLACES)

    def answered(key: str | None) -> tuple[int, str]:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return outcome(keyed.client.request(method, place, headers=headers))

    found = {"no key": answered(None)}
    found |= {kind: answered(text) for kind, text in keyed.wrong.items()}
    found |= {scope: answered(keyed.keys[scope]) for scope in ALL_SCOPES}
    found["another model"] = answered(keyed.keys["other"])

    let_in = (0, "let in")
    expected = dict.fromkeys(found, let_in)
    if needed:
        expected |= dict.fromkeys(keyed.wrong, (401, "key_invalid"))
        expected["no key"] = (401, "key_required")
        expected |= {
            scope: (403, "scope_missing") for scope in ALL_SCOPES if scope != "admin" and {scope} != set(needed)
        }
        expected["another model"] = (403, "model_not_allowed") if "{name}" in path else let_in
    assert found == expected


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/livez", "/readyz"])
def test_a_wrong_key_does_no_harm_where_none_is_needed(keyed: Keyed, path: str) -> None:
    assert keyed.client.get(path).status_code == 200
    assert keyed.call("get", path, keyed.wrong["unknown"]).status_code == 200


def test_both_scopes_are_needed_to_predict_and_learn(keyed: Keyed) -> None:
    both = keyed.make(scopes=["predict", "learn"])["key"]
    assert keyed.call("post", "/v1/models/absent/predict-update", both).json()["code"] == "model_not_found"


def test_a_server_without_keys_lets_in_everybody(client: TestClient) -> None:
    for method, path in CALLS:
        assert outcome(client.request(method, path.format(**PLACES))) == (0, "let in")
