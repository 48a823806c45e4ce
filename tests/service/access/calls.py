"""All calls of the interface, with what they need, and what each kind of caller is answered."""

import json
from collections.abc import Iterable
from typing import get_args

from manylabel_service.access.scopes import Scope

ALL_SCOPES = get_args(Scope)

OTHER = "other"
"""A caller who may do everything, with models of other names."""

MODEL = "/v1/models/{name}"
V2_MODEL = "/v2/models/{name}"
STUDIO = "/v1/label-studio/{name}"
SCOPES: dict[tuple[str, str], tuple[str, ...]] = {
    ("get", "/livez"): (),
    ("get", "/readyz"): (),
    ("get", "/metrics"): ("read",),
    ("get", "/v1/audit"): ("admin",),
    ("get", "/v1/replicas"): ("read",),
    ("post", "/v1/models"): ("admin",),
    ("get", "/v1/models"): ("read",),
    ("get", MODEL): ("read",),
    ("put", MODEL): ("export",),
    ("delete", MODEL): ("admin",),
    ("get", f"{MODEL}/metrics"): ("read",),
    ("get", f"{MODEL}/metrics/history"): ("read",),
    ("get", f"{MODEL}/metrics/reliability"): ("read",),
    ("get", f"{MODEL}/labels"): ("read",),
    ("get", f"{MODEL}/events"): ("read",),
    ("get", f"{MODEL}/detail"): ("read",),
    ("get", f"{MODEL}/versions"): ("read",),
    ("get", f"{MODEL}/snapshots"): ("read",),
    ("get", f"{MODEL}/predictions"): ("learn",),
    ("post", f"{MODEL}/predict"): ("predict",),
    ("post", f"{MODEL}/update"): ("learn",),
    ("post", f"{MODEL}/predict-update"): ("predict", "learn"),
    ("post", f"{MODEL}/labels"): ("learn",),
    ("post", f"{MODEL}/stream"): ("learn",),
    ("patch", f"{MODEL}/labels"): ("admin",),
    ("put", f"{MODEL}/groups"): ("admin",),
    ("put", f"{MODEL}/promise"): ("admin",),
    ("post", f"{MODEL}/labels/rename"): ("admin",),
    ("post", f"{MODEL}/labels/merge"): ("admin",),
    ("post", f"{MODEL}/labels/retire"): ("admin",),
    ("post", f"{MODEL}/labels/pause"): ("admin",),
    ("post", f"{MODEL}/labels/resume"): ("admin",),
    ("post", f"{MODEL}/snapshots"): ("admin",),
    ("delete", f"{MODEL}/snapshots/{{position}}"): ("admin",),
    ("get", f"{MODEL}/snapshots/{{position}}"): ("export",),
    ("post", f"{MODEL}/rollback"): ("admin",),
    ("get", f"{MODEL}/log"): ("export",),
    ("get", f"{MODEL}/forget"): ("admin",),
    ("post", f"{MODEL}/forget"): ("admin",),
    ("get", f"{MODEL}/forget/{{id}}"): ("admin",),
    ("post", f"{MODEL}/verify"): ("admin",),
    ("get", f"{MODEL}/versions/{{version}}"): ("export",),
    ("delete", f"{MODEL}/versions/{{version}}"): ("admin",),
    ("post", f"{MODEL}/promote"): ("train",),
    ("post", "/v1/datasets"): ("train",),
    ("get", "/v1/datasets"): ("read",),
    ("get", "/v1/datasets/{name}"): ("read",),
    ("delete", "/v1/datasets/{name}"): ("train",),
    ("post", "/v1/jobs"): ("train",),
    ("get", "/v1/jobs"): ("read",),
    ("get", "/v1/jobs/{id}"): ("read",),
    ("delete", "/v1/jobs/{id}"): ("train",),
    ("get", "/v1/jobs/{id}/log"): ("read",),
    ("get", "/v1/jobs/{id}/events"): ("read",),
    ("post", "/v1/jobs/{id}/retry"): ("train",),
    ("get", "/v1/trainers"): ("read",),
    ("post", "/v1/keys"): ("admin",),
    ("get", "/v1/keys"): ("admin",),
    ("get", "/v1/keys/{key_id}"): ("admin",),
    ("patch", "/v1/keys/{key_id}"): ("admin",),
    ("delete", "/v1/keys/{key_id}"): ("admin",),
    ("post", "/v1/webhooks"): ("admin",),
    ("get", "/v1/webhooks"): ("admin",),
    ("get", "/v1/webhooks/{id}"): ("admin",),
    ("delete", "/v1/webhooks/{id}"): ("admin",),
    ("post", "/v1/webhooks/{id}/test"): ("admin",),
    ("post", "/v1/webhooks/{id}/enable"): ("admin",),
    ("get", f"{STUDIO}/health"): ("predict",),
    ("post", f"{STUDIO}/setup"): ("predict",),
    ("post", f"{STUDIO}/predict"): ("predict",),
    ("get", f"{STUDIO}/versions"): ("predict",),
    ("post", f"{STUDIO}/webhook"): ("learn",),
    ("get", "/annif/v1/"): (),
    ("get", "/annif/v1/projects"): ("read",),
    ("get", "/annif/v1/projects/{name}"): ("read",),
    ("get", "/annif/v1/vocabs"): ("read",),
    ("post", "/annif/v1/projects/{name}/learn"): ("learn",),
    ("post", "/annif/v1/projects/{name}/suggest"): ("predict",),
    ("post", "/annif/v1/projects/{name}/suggest-batch"): ("predict",),
    ("get", "/v2"): (),
    ("get", "/v2/health/live"): (),
    ("get", "/v2/health/ready"): (),
    ("get", V2_MODEL): ("read",),
    ("get", f"{V2_MODEL}/ready"): ("predict",),
    ("post", f"{V2_MODEL}/infer"): ("predict",),
    ("get", f"{V2_MODEL}/versions/{{version}}"): ("read",),
    ("get", f"{V2_MODEL}/versions/{{version}}/ready"): ("predict",),
    ("post", f"{V2_MODEL}/versions/{{version}}/infer"): ("predict",),
}
"""Scopes that each call needs. A new call needs a row, so that its scopes are chosen deliberately."""

PAGE: dict[tuple[str, str], tuple[str, ...]] = {("get", "/"): (), ("get", "/ui/{version}/{path:path}"): ()}
"""Those of the page, which holds no data and stands in no description."""
PLACES = {"name": "absent", "position": "7", "version": "7", "id": "0" * 26, "key_id": "a" * 12}
"""Values in addresses: none exists, so that a call that is let in changes nothing."""
REFUSALS = {"key_required", "key_invalid", "scope_missing", "model_not_allowed"}
IN_WORDS = {
    "this request needs the scope": "scope_missing",
    "this request needs a key": "key_required",
    "the key": "key_invalid",
    "your key": "model_not_allowed",
}
"""How the messages begin: the errors of the Open Inference Protocol have no codes."""
LET_IN = (0, "let in")


def outcome(path: str, status: int, media_type: str, body: bytes) -> tuple[int, str]:
    """Return the status and the code of an answer that refuses; of any other, that it is none."""
    told = json.loads(body) if "json" in media_type else {}
    words = told.get("error", "") if path.startswith("/v2") else ""
    code = next((code for begin, code in IN_WORDS.items() if words.startswith(begin)), told.get("code"))
    if code in REFUSALS:
        return status, code
    assert status < 500, body
    return LET_IN


def expected(method: str, path: str, wrong: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return what each kind of caller is answered.

    Parameters
    ----------
    method, path : of the call, as in `SCOPES`.
    wrong : kinds of keys that open nothing.
    """
    needed = SCOPES[method, path]
    kinds = ["no key", *wrong, *ALL_SCOPES, OTHER]
    if not needed:
        return dict.fromkeys(kinds, LET_IN)
    found = dict.fromkeys(kinds, (401, "key_invalid")) | dict.fromkeys(ALL_SCOPES, LET_IN)
    found["no key"] = (401, "key_required")
    found |= {scope: (403, "scope_missing") for scope in ALL_SCOPES if scope != "admin" and {scope} != set(needed)}
    found[OTHER] = (403, "model_not_allowed") if "{name}" in path else LET_IN
    return found
