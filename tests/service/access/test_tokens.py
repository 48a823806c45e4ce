"""Tokens: permissions of their holder, and which ones are valid."""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.service.access.keyed import Keyed
from tests.service.api.answers import refused
from tests.support.cases import for_each

from manylabel_service.access import key_text, token_text


def token(key: str, model: str, seconds: float = 600, secret: str | None = None) -> str:
    """Return a token, made as the documentation says, without code of the service."""
    _, id, own = key.split("_")
    name = base64.urlsafe_b64encode(model.encode()).decode().rstrip("=")
    text = f"{id}_{int(time.time() + seconds)}_{name}"
    inner = hmac.new(hashlib.sha256((secret or own).encode()).digest(), b"manylabel token", hashlib.sha256).digest()
    return f"mlt_{text}_{hmac.new(inner, text.encode(), hashlib.sha256).hexdigest()}"


@pytest.fixture(scope="module")
def models(keyed: Keyed) -> Keyed:
    for name in ("tags", "news"):
        spec = {"name": name, "algorithm": "falt", "labels": ["a"]}
        assert keyed.call("post", "/v1/models", json=spec).status_code == 201
    return keyed


def asked(keyed: Keyed, key: str, model: str = "tags") -> Any:
    return keyed.call("post", f"/v1/models/{model}/predict", key, json={"x": [1.0]})


def test_a_token_is_for_predictions_of_one_model(models: Keyed) -> None:
    key = models.make(scopes=["predict", "read"], models=["tags", "ne*"])["key"]
    mine = token(key, "tags")
    assert asked(models, mine).status_code == 200
    assert asked(models, token(key, "news"), "news").status_code == 200
    refused(asked(models, mine, "news"), 403, "model_not_allowed")
    refused(models.call("get", "/v1/models/tags", mine), 403, "scope_missing")
    refused(models.call("post", "/v1/models/tags/update", mine, json={"x": [1.0], "y": []}), 403, "scope_missing")
    assert models.client.get("/v1/label-studio/tags/health", auth=("any", mine)).status_code == 200


def test_a_token_permits_no_more_than_its_key(models: Keyed) -> None:
    refused(asked(models, token(models.keys["read"], "tags")), 403, "scope_missing")
    refused(asked(models, token(models.keys["other"], "tags")), 403, "model_not_allowed")
    assert asked(models, token(models.admin, "tags")).status_code == 200
    for state in ("revoked", "expired"):
        refused(asked(models, token(models.wrong[state], "tags")), 401, "key_invalid")


def test_revoking_a_key_ends_its_tokens(models: Keyed) -> None:
    key = models.make()
    mine = token(key["key"], "tags")
    assert asked(models, mine).status_code == 200
    models.call("delete", f"/v1/keys/{key['id']}")
    refused(asked(models, mine), 401, "key_invalid")


def test_rates_of_a_key_hold_for_its_tokens(models: Keyed) -> None:
    key = models.make(rates={"requests_per_second": 0.01})["key"]
    assert asked(models, token(key, "tags")).status_code == 200
    refused(asked(models, token(key, "news"), "news"), 429, "rate_limited")


@for_each(
    "make",
    [
        lambda key: token(key, "tags", -1),
        lambda key: token(key, "tags", 3700),
        lambda key: token(key, "tags", secret="another"),
        lambda key: token(key, "*"),
        lambda key: token(key, "ta*"),
        lambda key: token(key, ""),
        lambda key: token(key.replace(key[3:15], "a" * 12), "tags"),
        lambda key: token(key, "tags")[:-1] + "g",
        lambda key: token(key, "tags")[:-1],
        lambda key: token(key, "tags").upper(),
        lambda key: "mlt_",
        lambda key: forged(token(key, "news"), "tags"),
    ],
)
def test_an_invalid_token_is_refused(models: Keyed, make: Callable[[str], str]) -> None:
    refused(asked(models, make(models.admin)), 401, "key_invalid")


def forged(other: str, model: str) -> str:
    """Return a token for another model than it was signed for."""
    start, id, expires, _, signature = other.split("_")
    return "_".join([start, id, expires, base64.urlsafe_b64encode(model.encode()).decode().rstrip("="), signature])


def test_the_service_makes_the_same_tokens() -> None:
    key = key_text.make()
    theirs = token(str(key), "tags-1_a.b")
    expires = int(theirs.split("_")[2])
    assert token_text.derive(key.id, key_text.digest_of(key.secret), "tags-1_a.b", expires) == theirs
    parsed = token_text.parse(theirs)
    assert parsed is not None
    assert (parsed.key_id, parsed.expires_unix_seconds, parsed.model) == (key.id, expires, "tags-1_a.b")
