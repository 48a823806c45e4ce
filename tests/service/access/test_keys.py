"""/v1/keys: keys are created, shown, changed and revoked, and permit no more than the key that creates them."""

import base64
import re
from collections.abc import Callable
from typing import Any

from tests.service.access.keyed import Keyed, in_seconds
from tests.service.api.answers import refused
from tests.support.cases import for_each

NO_RATES = {"requests_per_second": None, "examples_per_second": None, "max_concurrent_requests": None}


def test_a_key_is_shown_once(keyed: Keyed) -> None:
    until = "2099-01-31T12:00:00.000Z"
    wanted = {"name": "page", "scopes": ["predict"], "models": ["tags-*"], "expires_at": until, "note": "of Ada"}
    answer = keyed.call("post", "/v1/keys", json=wanted)
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/keys/{made['id']}"
    text = made.pop("key")
    assert re.fullmatch(rf"ml_{made['id']}_[A-Za-z0-9]{{43}}", text)
    assert re.fullmatch("[a-z0-9]{12}", made["id"])
    assert made.pop("created_at") <= in_seconds(1)
    assert made == {**wanted, "id": made["id"], "revoked_at": None, "rates": NO_RATES, "state": "active"}
    shown = keyed.shown(made["id"])
    assert {**made, "created_at": shown["created_at"]} == shown
    listed = keyed.call("get", "/v1/keys")
    assert listed.json()["keys"][0] == shown  # the newest first
    assert text.rsplit("_")[-1] not in listed.text


@for_each(
    "header",
    [
        lambda key: {"Authorization": f"Bearer {key}"},
        lambda key: {"authorization": f"bearer   {key} "},
        lambda key: {"api-key": key},
        lambda key: {"Authorization": "Basic " + base64.b64encode(f"anybody:{key}".encode()).decode()},
        lambda key: {"Authorization": "basic " + base64.b64encode(f":{key}".encode()).decode()},
    ],
)
def test_a_key_can_be_sent_in_three_ways(keyed: Keyed, header: Callable[[str], dict[str, str]]) -> None:
    assert keyed.client.get("/v1/keys", headers=header(keyed.admin)).status_code == 200


@for_each(
    "header",
    [
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic !!"},
        {"Authorization": "Basic " + base64.b64encode(b"no colon").decode()},
        {"Authorization": "Digest username=a"},
        {"api-key": ""},
        {"api-key": "ml_\u00fc"},
    ],
)
def test_a_bad_key_is_refused(keyed: Keyed, header: dict[str, str]) -> None:
    sent = {name: value.encode("latin-1") for name, value in header.items()}
    answer = keyed.client.get("/v1/keys", headers=sent)
    refused(answer, 401, "key_invalid")
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert "Basic " in answer.headers["www-authenticate"]


def test_a_request_without_a_key_is_told_how_to_send_one(keyed: Keyed) -> None:
    answer = keyed.client.get("/v1/models")
    assert "Bearer" in refused(answer, 401, "key_required")["detail"]
    assert answer.headers["www-authenticate"].startswith("Bearer ")


@for_each(
    ("change", "place"),
    [
        ({"name": ""}, "/name"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["write"]}, "/scopes/0"),
        ({"models": []}, "/models"),
        ({"models": ["Tags"]}, "/models/0"),
        ({"models": ["a"] * 101}, "/models"),
        ({"expires_at": "2020-01-31T12:00:00Z"}, "/expires_at"),
        ({"expires_at": "2099-01-31T12:00:00"}, "/expires_at"),
        ({"expires_at": 4_073_544_000}, "/expires_at"),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, "/expires_at"),
        ({"expires_at": "9999-12-31T23:59:59.001Z"}, "/expires_at"),
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, "/expires_at"),
        ({"note": "n" * 2_001}, "/note"),
        ({"rates": {"requests_per_second": 0}}, "/rates/requests_per_second"),
        ({"rates": {"max_concurrent_requests": 1.5}}, "/rates/max_concurrent_requests"),
        ({"rates": {"requests_per_hour": 1}}, "/rates/requests_per_hour"),
        ({"secret": "mine"}, "/secret"),
    ],
)
def test_a_bad_specification_of_a_key_is_refused(keyed: Keyed, change: dict[str, Any], place: str) -> None:
    body = {"name": "page", "scopes": ["predict"], **change}
    refused(keyed.call("post", "/v1/keys", json=body), 422, "invalid_request", place)


def test_a_key_may_expire_at_the_last_time(keyed: Keyed) -> None:
    last = "9999-12-31T23:59:59.000Z"
    made = keyed.make(expires_at="9999-12-31T23:59:59Z")
    assert made["expires_at"] == last
    made = keyed.make(expires_at="9999-12-31T09:59:59-14:00")
    assert keyed.shown(made["id"])["expires_at"] == last
    assert last in {key["expires_at"] for key in keyed.call("get", "/v1/keys").json()["keys"]}


def test_some_fields_can_be_changed(keyed: Keyed) -> None:
    made = keyed.make(scopes=["read"], note="old", expires_at="2099-01-31T12:00:00.000Z")
    address, text = f"/v1/keys/{made['id']}", made.pop("key")
    rates = {**NO_RATES, "requests_per_second": 500.0}
    changed = keyed.call("patch", address, json={"name": "new", "rates": rates})
    assert changed.json() == {**made, "name": "new", "rates": rates}
    changed = keyed.call("patch", address, json={"note": None, "expires_at": None, "rates": None})
    assert changed.json() == {**made, "name": "new", "note": None, "expires_at": None} == keyed.shown(made["id"])
    assert keyed.call("get", "/v1/models", text).status_code == 200
    for field in ({"scopes": ["admin"]}, {"models": ["*"]}, {"state": "active"}):
        refused(keyed.call("patch", address, json=field), 422, "invalid_request", f"/{next(iter(field))}")
    refused(keyed.call("patch", address, json={}), 422, "invalid_request", "")
    refused(keyed.call("patch", address, json={"name": None}), 422, "invalid_request", "/name")


def test_a_revoked_key_is_refused_and_listed(keyed: Keyed) -> None:
    made = keyed.make()
    address = f"/v1/keys/{made['id']}"
    assert keyed.call("get", "/v1/models", made["key"]).status_code == 200
    assert keyed.call("delete", address).status_code == 204
    refused(keyed.call("get", "/v1/models", made["key"]), 401, "key_invalid")
    shown = keyed.shown(made["id"])
    assert shown["state"] == "revoked"
    assert shown["revoked_at"] >= shown["created_at"]
    assert keyed.call("delete", address).status_code == 204  # again: nothing changes
    assert keyed.shown(made["id"]) == shown
    assert shown in keyed.call("get", "/v1/keys").json()["keys"]
    changed = keyed.call("patch", address, json={"expires_at": None}).json()
    assert changed["state"] == "revoked"


def test_an_unknown_key_is_not_found(keyed: Keyed) -> None:
    for method, body in (("get", None), ("patch", {"name": "n"}), ("delete", None)):
        options = {} if body is None else {"json": body}
        refused(keyed.call(method, f"/v1/keys/{'z' * 12}", **options), 404, "key_not_found")
        refused(keyed.call(method, f"/v1/keys/{'z' * 300}", **options), 404, "key_not_found")


def test_a_key_cannot_grant_more_models_than_it_has(keyed: Keyed) -> None:
    mine = keyed.make(models=["tags-*", "spam"])
    others = keyed.make(models=["tags-*", "news"])
    every = keyed.make()
    for allowed in (["tags-*"], ["tags-en*", "spam"], ["tags-x"]):
        body = {"name": "n", "scopes": ["admin"], "models": allowed}
        assert keyed.call("post", "/v1/keys", mine["key"], json=body).status_code == 201
    for excess in (["*"], ["tags*"], ["spam*"], ["spam", "news"], ["tag-x"]):
        body = {"name": "n", "scopes": ["read"], "models": excess}
        refused(keyed.call("post", "/v1/keys", mine["key"], json=body), 403, "model_not_allowed")
    for key in (others, every):
        address = f"/v1/keys/{key['id']}"
        refused(keyed.call("get", address, mine["key"]), 403, "model_not_allowed")
        refused(keyed.call("patch", address, mine["key"], json={"name": "n"}), 403, "model_not_allowed")
        refused(keyed.call("delete", address, mine["key"]), 403, "model_not_allowed")
    seen = {key["id"] for key in keyed.call("get", "/v1/keys", mine["key"]).json()["keys"]}
    assert mine["id"] in seen
    assert not seen & {others["id"], every["id"]}
    assert keyed.call("delete", f"/v1/keys/{mine['id']}", mine["key"]).status_code == 204  # its own


def test_the_number_of_keys_is_limited(serve: Callable[..., Any]) -> None:
    with serve(max_keys=12) as client:
        keyed = Keyed(client)  # 10 keys, one of them revoked
        gone = next(key for key in keyed.call("get", "/v1/keys").json()["keys"] if key["state"] == "revoked")
        last = [keyed.make()["id"] for _ in range(3)]
        refused(keyed.call("get", f"/v1/keys/{gone['id']}"), 404, "key_not_found")
        one_more = {"name": "n", "scopes": ["read"]}
        refused(keyed.call("post", "/v1/keys", json=one_more), 507, "limit_exceeded")
        for id in reversed(last):
            keyed.call("delete", f"/v1/keys/{id}")
        newer = keyed.make()["id"]
        ids = {key["id"] for key in keyed.call("get", "/v1/keys").json()["keys"]}
        assert last[2] not in ids  # revoked first
        assert {newer, last[0], last[1]} <= ids


def test_a_damaged_key_is_refused(serve: Callable[..., Any], tmp_path: Any) -> None:
    with serve(data_dir=tmp_path) as client:
        keyed = Keyed(client)
        keyed.damage(*(key["id"] for key in keyed.call("get", "/v1/keys").json()["keys"]))
        key = keyed.admin
    with serve(data_dir=tmp_path) as client:
        assert client.get("/v1/models").json()["code"] == "key_required"
        assert client.get("/v1/models", headers={"api-key": key}).json()["code"] == "key_invalid"


def test_a_damaged_key_is_deleted_by_a_key_for_all_models(keyed: Keyed) -> None:
    damaged, whole = keyed.make()["id"], keyed.make()["id"]
    partial = keyed.make(scopes=["admin"], models=["tags-*"])["key"]
    keyed.damage(damaged)
    assert keyed.call("get", "/v1/keys").json()["damaged"] == [damaged]
    refused(keyed.call("delete", f"/v1/keys/{damaged}", partial), 404, "key_not_found")
    assert keyed.call("delete", f"/v1/keys/{damaged}").status_code == 204
    listed = keyed.call("get", "/v1/keys").json()
    assert "damaged" not in listed
    assert whole in {key["id"] for key in listed["keys"]}
    refused(keyed.call("delete", f"/v1/keys/{damaged}"), 404, "key_not_found")


def test_a_key_cannot_grant_more_time_and_rate_than_it_has(keyed: Keyed) -> None:
    rates = {"requests_per_second": 500.0, "max_concurrent_requests": 4}
    mine = keyed.make(expires_at="2099-01-31T12:00:00Z", rates=rates)
    wanted = {"name": "n", "scopes": ["admin"], "expires_at": "2099-01-31T12:00:00Z", "rates": rates}
    made = keyed.call("post", "/v1/keys", mine["key"], json=wanted)
    assert made.status_code == 201
    excesses: list[tuple[str, Any]] = [
        ("expires_at", None),
        ("expires_at", "2099-01-31T12:00:01Z"),
        ("rates", {"requests_per_second": 500.0}),
        ("rates", {"max_concurrent_requests": 4}),
        ("rates", {**rates, "requests_per_second": 500.5}),
    ]
    for field, value in excesses:
        refused(keyed.call("post", "/v1/keys", mine["key"], json={**wanted, field: value}), 403, "beyond_own_key")
        for id in (mine["id"], made.json()["id"]):
            answer = keyed.call("patch", f"/v1/keys/{id}", mine["key"], json={field: value})
            refused(answer, 403, "beyond_own_key")
    refused(keyed.call("patch", f"/v1/keys/{mine['id']}", mine["key"], json={"rates": None}), 403, "beyond_own_key")
    less = {"expires_at": "2098-01-31T12:00:00.000Z", "rates": {**NO_RATES, **rates, "examples_per_second": 1.0}}
    changed = keyed.call("patch", f"/v1/keys/{made.json()['id']}", mine["key"], json=less)
    assert changed.json().items() >= less.items()
    free = keyed.make()["id"]  # fields that do not change, or become stricter, do not exceed the own key
    assert keyed.call("patch", f"/v1/keys/{free}", mine["key"], json={"note": "n"}).status_code == 200
    later = {"expires_at": "2099-12-31T12:00:00.000Z", "rates": {"requests_per_second": 5000.0}}
    assert keyed.call("patch", f"/v1/keys/{free}", mine["key"], json=later).status_code == 200
    assert keyed.call("delete", f"/v1/keys/{free}", mine["key"]).status_code == 204


def test_the_first_key_must_be_an_admin(serve: Callable[..., Any]) -> None:
    with serve() as client:
        for field, value in (("scopes", ["read"]), ("scopes", ["learn", "export"]), ("models", ["tags-*"])):
            wanted = {"name": "first", "scopes": ["admin"], field: value}
            refused(client.post("/v1/keys", json=wanted), 422, "invalid_request", f"/{field}")
        assert client.get("/v1/models").status_code == 200
        made = client.post("/v1/keys", json={"name": "first", "scopes": ["admin"]}).json()
        assert client.get("/v1/models").status_code == 401
        by = {"headers": {"api-key": made["key"]}}
        assert client.post("/v1/keys", json={"name": "n", "scopes": ["read"]}, **by).status_code == 201
