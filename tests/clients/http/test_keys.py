"""Keys in the clients: sent and never shown, created and changed."""

import copy
import logging
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from tests.clients.http.fake_server import FakeServer, ok, problem, unsent
from tests.support.lazy import lazy

from manylabel_clients import (
    ApiKey,
    AsyncClient,
    Client,
    ConnectionFailed,
    Invalid,
    NotFound,
    RateLimits,
    Retry,
    Secret,
    Unauthorized,
)
from manylabel_clients.http.resources.keys import KeyCalls
from manylabel_clients.river import RemoteModel, feed

compose = lazy("river.compose")
preprocessing = lazy("river.preprocessing")

UNKNOWN = f"ml_{'a' * 12}_{'A' * 43}"
ONCE = Retry(attempts=1)


@pytest.fixture(autouse=True)
def _no_key_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANYLABEL_API_KEY", raising=False)


@pytest.fixture
def admin(keyed: tuple[str, str]) -> Iterator[Client]:
    url, key = keyed
    with Client(url, api_key=key) as client:
        yield client


# -- headers of requests -----------------------------------------------------------------------------------------------


def sent(**options: Any) -> httpx2.Headers:
    """The headers of a request of a client."""
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"models": []})

    with Client(transport=httpx2.MockTransport(answer), **options) as client:
        client.models()
    return seen[0].headers


def test_the_key_is_sent_as_a_bearer_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "authorization" not in sent()
    assert sent(api_key=UNKNOWN)["authorization"] == f"Bearer {UNKNOWN}"
    assert sent(api_key=Secret(UNKNOWN))["authorization"] == f"Bearer {UNKNOWN}"
    monkeypatch.setenv("MANYLABEL_API_KEY", "of-the-environment")
    assert sent()["authorization"] == "Bearer of-the-environment"
    assert sent(api_key=UNKNOWN)["authorization"] == f"Bearer {UNKNOWN}"
    assert sent(headers={"authorization": "Basic abc"})["authorization"] == "Basic abc"
    monkeypatch.setenv("MANYLABEL_API_KEY", "")
    assert "authorization" not in sent()


@pytest.mark.parametrize("bad", ["two words-xyz", "umläut-xyz", "line\nxyz", "", "x" * 5000])
def test_an_invalid_key_is_refused_without_showing_it(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=r"^api_key must consist of visible ASCII") as caught:
            kind(api_key=bad)
        assert "xyz" not in str(caught.value)
    with pytest.raises(ValueError, match="api_key and the header Authorization cannot both be given"):
        Client(api_key=UNKNOWN, headers={"AUTHORIZATION": "x"})
    if bad:
        monkeypatch.setenv("MANYLABEL_API_KEY", bad)
        with pytest.raises(ValueError, match=r"^MANYLABEL_API_KEY must consist of visible ASCII") as caught:
            Client()
        assert "xyz" not in str(caught.value)


def test_a_key_is_in_no_text_and_no_log(keyed: tuple[str, str], caplog: pytest.LogCaptureFixture) -> None:
    url, key = keyed
    caplog.set_level(logging.DEBUG)
    secret = key.rsplit("_", 1)[1]
    told = []
    with Client(url, api_key=key) as client:
        told.append(repr(client))
        made = client.keys.create("second", scopes=["read"])
        with pytest.raises(NotFound) as refused:
            client.model("absent").predict({"a": 1})
        told += [str(refused.value), repr(refused.value), repr(refused.value.__dict__), repr(made), repr(Secret(key))]
    with Client("http://127.0.0.1:1", api_key=key, retry=ONCE) as client, pytest.raises(ConnectionFailed) as failed:
        client.models()
    told += [str(failed.value), repr(failed.value), caplog.text]
    assert "HTTP Request" in caplog.text
    for text in told:
        assert secret not in text
        assert made.key not in text
    assert made.id in repr(made)
    with pytest.raises(TypeError, match="an API key cannot be pickled"):
        pickle.dumps(Secret(key))


# -- keys of a server --------------------------------------------------------------------------------------------------


def test_keys_are_created_changed_and_revoked(keyed: tuple[str, str], admin: Client) -> None:
    url, _ = keyed
    expires_at = datetime.now(UTC) + timedelta(days=9)
    rates = RateLimits(requests_per_second=50.0)
    made = admin.keys.create("page", scopes=["predict"], models=["tags*"], expires_at=expires_at, rates=rates)
    assert made.expires_at is not None
    found = admin.keys.get(made.id)
    assert type(found) is ApiKey
    assert {name: getattr(found, name) for name in ApiKey.__dataclass_fields__} == {
        name: getattr(made, name) for name in ApiKey.__dataclass_fields__
    }
    assert admin.keys.list()[0] == found
    changed = admin.keys.update(made.id, name="pages", expires_at=None)
    assert (changed.name, changed.expires_at, changed.rates) == ("pages", None, rates)
    assert admin.keys.update(made.id, rates=None).rates == RateLimits()
    limited = admin.keys.update(made.id, rates={"max_concurrent_requests": 7})
    assert limited.rates == RateLimits(max_concurrent_requests=7)
    admin.keys.revoke(made.id)
    with Client(url, api_key=made.key, retry=ONCE) as page, pytest.raises(Unauthorized, match="revoked"):
        page.model("tags").predict({"a": 1})
    for call in (admin.keys.get, admin.keys.revoke):
        with pytest.raises(NotFound):
            call("absent")


def test_invalid_keys_are_refused_with_their_fields(admin: Client) -> None:
    with pytest.raises(Invalid) as caught:
        admin.keys.create("x", scopes=["everything"])
    assert caught.value.errors[0].pointer == "/scopes/0"
    with pytest.raises(TypeError, match="scopes must be a list of strings"):
        admin.keys.create("x", scopes="read")
    with pytest.raises(ValueError, match="expires_at must have an offset"):
        admin.keys.create("x", scopes=["read"], expires_at=datetime(2099, 1, 1))
    with pytest.raises(ValueError, match="nothing to change"):
        admin.keys.update("abcdefghijkl")


KEY: dict[str, Any] = {
    "id": "a" * 12, "name": "n", "note": None, "scopes": ["read"], "models": ["*"], "created_at": "t",
    "expires_at": None, "revoked_at": None, "rates": {}, "state": "active", "key": UNKNOWN,
}  # fmt: skip


def test_a_key_is_not_created_twice_when_a_response_is_lost() -> None:
    fake = FakeServer(httpx2.ReadError("cut"), ok(KEY))
    with pytest.raises(ConnectionFailed) as caught:
        fake(unsent(KeyCalls, retry=Retry()).create("n", scopes=["read"]))
    assert caught.value.maybe_done
    assert len(fake.requests) == 1
    fake = FakeServer(problem(503, "not_ready"), problem(429, "rate_limited"), ok(KEY))
    assert fake(unsent(KeyCalls, retry=Retry()).create("n", scopes=["read"])).key == UNKNOWN
    assert len(fake.requests) == 3


# -- river -------------------------------------------------------------------------------------------------------------


def test_remote_models_send_a_key(keyed: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    url, key = keyed
    model = RemoteModel(url, "tags", api_key=key)
    pipeline = compose.Pipeline(preprocessing.StandardScaler(), model)
    for text in (repr(model), str(model), repr(pipeline), str(model._get_params())):
        assert key.rsplit("_", 1)[1] not in text
    for handle in (model, model.clone(), copy.deepcopy(model)):
        handle.learn_one({"a": 1.0}, {"x": True})
        assert handle.predict_one({"a": 1.0}) == {"x": True}
    data = pickle.dumps(model)
    assert key.encode() not in data
    monkeypatch.setenv("MANYLABEL_API_KEY", key)
    assert pickle.loads(data).predict_one({"a": 1.0}) == {"x": True}  # noqa: S301 - our own
    with Client(url, api_key=key) as client:
        assert feed([({"a": 1.0}, ["x"])] * 3, client.model("tags")).examples == 3
        with pytest.raises(ValueError, match="api_key applies to an address"):
            RemoteModel(client, "tags", api_key=key)
