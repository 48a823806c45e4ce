"""Keys in the metrics and in the audit log."""

import json
import re
from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.service.access.keyed import Keyed, in_seconds
from tests.support.audited import audited

Serve = Callable[..., Any]
ITEM = {"x": {"a": 1}, "y": ["p"]}


def of_keys(text: str) -> dict[str, dict[str, float]]:
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return {
        name: {sample.labels["key"]: sample.value for sample in families[f"manylabel_key_{name}_seconds"].samples}
        for name in ("age", "expires")
    }


def test_metrics_have_the_age_and_expiry_of_every_key(keyed: Keyed) -> None:
    begun = keyed.make(name="begun", scopes=["read"], expires_at=in_seconds(3600))
    text = keyed.call("get", "/metrics").text
    shown = of_keys(text)
    listed = {key["id"]: key for key in keyed.call("get", "/v1/keys").json()["keys"]}
    assert shown["age"].keys() == {id for id, key in listed.items() if key["state"] != "revoked"}
    assert all(0 <= age < 600 for age in shown["age"].values())
    assert 3000 < shown["expires"][begun["id"]] <= 3600
    (expired,) = [id for id, key in listed.items() if key["state"] == "expired"]
    assert shown["expires"][expired] < 0
    assert shown["expires"].keys() == {begun["id"], expired}
    keyed.call("delete", f"/v1/keys/{begun['id']}")
    assert begun["id"] not in keyed.call("get", "/metrics").text
    limited = keyed.make(scopes=["read"], models=["some"])["key"]
    assert "manylabel_key_age_seconds{" not in keyed.call("get", "/metrics", limited).text
    secrets = [re.sub(r"^ml_\w{12}_", "", key) for key in (keyed.admin, *keyed.keys.values(), begun["key"])]
    assert not [secret for secret in secrets if secret in text]


def test_the_audit_has_the_key_of_each_call_and_every_refusal(serve: Serve) -> None:
    with serve() as client:
        check_audit(Keyed(client))


def test_the_audit_has_the_deletion_of_a_damaged_key(serve: Serve) -> None:
    with serve() as client:
        keyed = Keyed(client)
        keyed.damage(damaged := keyed.make()["id"])
        assert keyed.call("delete", f"/v1/keys/{damaged}").status_code == 204
        line = audited(client)[-1]
        assert (line["target"], line["status"], line["key_id"]) == (damaged, 204, keyed.admin.split("_")[1])


def check_audit(keyed: Keyed) -> None:
    admin = keyed.admin.split("_")[1]
    n_before = len(audited(keyed.client))
    keyed.call("post", "/v1/models", json={"name": "watched", "algorithm": "falt"})
    keyed.call("post", "/v1/models/watched/update", keyed.keys["learn"], json=ITEM)
    keyed.call("post", "/v1/models/watched/update", keyed.keys["read"], json=ITEM)
    keyed.call("get", "/v1/models/watched", keyed.keys["other"])
    for wrong in ("malformed", "unknown", "wrong secret", "revoked", "expired"):
        keyed.call("get", "/v1/models/watched", keyed.wrong[wrong])
    keyed.client.get("/v1/models/watched")
    keyed.client.get("/v1/nowhere")
    keyed.call("post", "/v1/models/watched/predict", keyed.keys["predict"], json={"x": {"a": 1}})
    made = keyed.make(name="made", scopes=["read"])
    keyed.call("delete", f"/v1/keys/{made['id']}")
    found = audited(keyed.client)[n_before:]

    told = [(line["key_id"], line["status"], line["code"]) for line in found]
    learn, read, other = (keyed.keys[name].split("_")[1] for name in ("learn", "read", "other"))
    revoked, expired = (keyed.wrong[name].split("_")[1] for name in ("revoked", "expired"))
    assert told == [
        (admin, 201, None),
        (learn, 200, None),
        (read, 403, "scope_missing"),
        (other, 403, "model_not_allowed"),
        *[(None, 401, "key_invalid")] * 3,
        (revoked, 401, "key_invalid"),
        (expired, 401, "key_invalid"),
        (None, 401, "key_required"),
        (admin, 201, None),
        (admin, 204, None),
    ]
    assert [line["target"] for line in found[-2:]] == [made["id"], made["id"]]
    texts = json.dumps(found)
    assert not [key for key in (keyed.admin, *keyed.keys.values(), made["key"]) if key[16:] in texts]
