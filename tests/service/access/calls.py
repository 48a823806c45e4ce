"""All calls of the interface: the scopes and problems of each, and the answer to each kind of caller."""

import json
from collections.abc import Iterable
from typing import NamedTuple

ALL_SCOPES = ("predict", "learn", "read", "train", "export", "admin")

OTHER = "other"
"""A caller with all scopes for models of other names."""

MODEL = "/v1/models/{name}"
V2_MODEL = "/v2/models/{name}"
STUDIO = "/v1/label-studio/{name}"


class Call(NamedTuple):
    """Scopes that a call needs, and statuses of the problems that are its own."""

    scopes: tuple[str, ...]
    problems: set[int]


CALLS: dict[tuple[str, str], Call] = {
    ("get", "/livez"): Call((), set()),
    ("get", "/readyz"): Call((), {503}),
    ("get", "/metrics"): Call(("read",), set()),
    ("get", "/v1/replicas"): Call(("read",), set()),
    ("post", "/v1/models"): Call(("admin",), {400, 404, 409, 410, 413, 415, 422, 503, 507}),
    ("get", "/v1/models"): Call(("read",), {422, 503}),
    ("delete", "/v1/models"): Call(("admin",), {409, 422, 503}),
    ("get", "/v1/export"): Call(("export",), {404, 410, 422, 503, 507}),
    ("get", MODEL): Call(("read",), {404, 409, 503}),
    ("put", MODEL): Call(("export",), {408, 409, 413, 415, 422, 503, 507}),
    ("delete", MODEL): Call(("admin",), {404, 409, 422, 503}),
    ("get", f"{MODEL}/metrics"): Call(("read",), {404, 409, 422, 503}),
    ("get", f"{MODEL}/metrics/history"): Call(("read",), {404, 409, 422, 503}),
    ("get", f"{MODEL}/metrics/reliability"): Call(("read",), {404, 409, 422, 503}),
    ("get", f"{MODEL}/labels"): Call(("read",), {404, 409, 422, 503}),
    ("get", f"{MODEL}/events"): Call(("read",), {404, 409, 422, 429, 503}),
    ("get", f"{MODEL}/detail"): Call(("read",), {404, 409, 422, 503}),
    ("get", f"{MODEL}/versions"): Call(("read",), {404, 409, 503}),
    ("get", f"{MODEL}/snapshots"): Call(("read",), {404, 409, 503}),
    ("get", f"{MODEL}/predictions"): Call(("learn",), {404, 409, 413, 422, 503}),
    ("post", f"{MODEL}/predict"): Call(("predict",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/update"): Call(("learn",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/predict-update"): Call(("predict", "learn"), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/labels"): Call(("learn",), {400, 404, 409, 410, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/stream"): Call(("learn",), {404, 409, 415, 422, 503}),
    ("patch", f"{MODEL}/labels"): Call(("admin",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("put", f"{MODEL}/groups"): Call(("admin",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("put", f"{MODEL}/promise"): Call(("admin",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/labels/rename"): Call(("admin",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/labels/merge"): Call(("admin",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/labels/retire"): Call(("admin",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/labels/pause"): Call(("admin",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/labels/resume"): Call(("admin",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/snapshots"): Call(("admin",), {404, 409, 503, 507}),
    ("get", f"{MODEL}/snapshots/{{position}}"): Call(("export",), {404, 409, 503, 507}),
    ("post", f"{MODEL}/rollback"): Call(("admin",), {400, 404, 409, 410, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/health/dismiss"): Call(("learn",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", f"{MODEL}/health/dry-run"): Call(("learn",), {400, 404, 409, 413, 415, 422, 429, 503}),
    ("post", f"{MODEL}/undo"): Call(("admin",), {400, 404, 409, 410, 413, 415, 422, 429, 500, 503, 507}),
    ("get", f"{MODEL}/health"): Call(("read",), {404, 409, 422, 503}),
    ("get", f"{MODEL}/doubts"): Call(("learn",), {404, 409, 422, 503}),
    ("post", f"{MODEL}/doubts"): Call(("learn",), {400, 404, 409, 413, 415, 422, 429, 503}),
    ("post", f"{MODEL}/correct"): Call(("learn",), {400, 404, 409, 410, 413, 415, 422, 429, 500, 503, 507}),
    ("get", f"{MODEL}/log"): Call(("export",), {404, 409, 410, 422, 503}),
    ("get", f"{MODEL}/forget"): Call(("admin",), {404, 409, 503}),
    ("post", f"{MODEL}/forget"): Call(("admin",), {400, 404, 409, 410, 413, 415, 422, 500, 503}),
    ("get", f"{MODEL}/forget/{{id}}"): Call(("admin",), {404, 409, 503}),
    ("post", f"{MODEL}/verify"): Call(("admin",), {404, 409, 410, 500, 503, 507}),
    ("get", f"{MODEL}/versions/{{version}}"): Call(("export",), {404, 409, 503, 507}),
    ("delete", f"{MODEL}/versions/{{version}}"): Call(("admin",), {404, 409, 503}),
    ("post", f"{MODEL}/promote"): Call(("train",), {400, 404, 409, 413, 415, 422, 503, 507}),
    ("post", "/v1/datasets"): Call(("train",), {408, 409, 413, 415, 422, 503, 507}),
    ("get", "/v1/datasets"): Call(("read",), {503}),
    ("get", "/v1/datasets/{name}"): Call(("read",), {404, 422, 503}),
    ("delete", "/v1/datasets/{name}"): Call(("train",), {404, 409, 503}),
    ("post", "/v1/jobs"): Call(("train",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("get", "/v1/jobs"): Call(("read",), {422, 503}),
    ("get", "/v1/jobs/{id}"): Call(("read",), {404, 503}),
    ("delete", "/v1/jobs/{id}"): Call(("train",), {404, 409, 503}),
    ("get", "/v1/jobs/{id}/log"): Call(("read",), {404, 503}),
    ("get", "/v1/jobs/{id}/events"): Call(("read",), {404, 422, 503}),
    ("post", "/v1/jobs/{id}/retry"): Call(("train",), {404, 409, 429, 503}),
    ("get", "/v1/trainers"): Call(("read",), set()),
    ("post", "/v1/keys"): Call(("admin",), {400, 413, 415, 422, 503, 507}),
    ("get", "/v1/keys"): Call(("admin",), {503}),
    ("get", "/v1/keys/{key_id}"): Call(("admin",), {404, 503}),
    ("patch", "/v1/keys/{key_id}"): Call(("admin",), {400, 404, 413, 415, 422, 503, 507}),
    ("delete", "/v1/keys/{key_id}"): Call(("admin",), {404, 503}),
    ("post", "/v1/webhooks"): Call(("admin",), {400, 413, 415, 422, 503, 507}),
    ("get", "/v1/webhooks"): Call(("admin",), {503}),
    ("get", "/v1/webhooks/{id}"): Call(("admin",), {404, 503}),
    ("delete", "/v1/webhooks/{id}"): Call(("admin",), {404, 503}),
    ("post", "/v1/webhooks/{id}/test"): Call(("admin",), {404, 503}),
    ("post", "/v1/webhooks/{id}/enable"): Call(("admin",), {404, 503}),
    ("get", f"{STUDIO}/health"): Call(("predict",), {404, 409, 503}),
    ("post", f"{STUDIO}/setup"): Call(("predict",), {400, 404, 409, 413, 415, 422, 503}),
    ("post", f"{STUDIO}/predict"): Call(("predict",), {400, 404, 409, 413, 415, 422, 503}),
    ("get", f"{STUDIO}/versions"): Call(("predict",), {404, 409, 503}),
    ("post", f"{STUDIO}/webhook"): Call(("learn",), {400, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("get", "/annif/v1/"): Call((), set()),
    ("get", "/annif/v1/projects"): Call(("read",), {503}),
    ("get", "/annif/v1/projects/{name}"): Call(("read",), {404, 409, 503}),
    ("get", "/annif/v1/vocabs"): Call(("read",), {503}),
    ("post", "/annif/v1/projects/{name}/learn"): Call(("learn",), {400, 403, 404, 409, 413, 415, 422, 429, 503, 507}),
    ("post", "/annif/v1/projects/{name}/suggest"): Call(("predict",), {400, 404, 409, 413, 415, 429, 503}),
    ("post", "/annif/v1/projects/{name}/suggest-batch"): Call(("predict",), {400, 404, 409, 413, 415, 429, 503}),
    ("get", "/v2"): Call((), set()),
    ("get", "/v2/health/live"): Call((), set()),
    ("get", "/v2/health/ready"): Call((), {503}),
    ("get", V2_MODEL): Call(("read",), {404, 409, 503}),
    ("get", f"{V2_MODEL}/ready"): Call(("predict",), {404, 409, 503}),
    ("post", f"{V2_MODEL}/infer"): Call(("predict",), {400, 404, 409, 413, 415, 422, 429, 503}),
    ("get", f"{V2_MODEL}/versions/{{version}}"): Call(("read",), {404, 409, 503}),
    ("get", f"{V2_MODEL}/versions/{{version}}/ready"): Call(("predict",), {404, 409, 503}),
    ("post", f"{V2_MODEL}/versions/{{version}}/infer"): Call(("predict",), {400, 404, 409, 413, 415, 422, 429, 503}),
}
"""All calls, by method and path. A new call needs a row, so that its scopes and problems are chosen deliberately."""

SCOPES = {call: row.scopes for call, row in CALLS.items()}

PAGE: dict[tuple[str, str], tuple[str, ...]] = {("get", "/"): (), ("get", "/ui/{version}/{path:path}"): ()}
"""Calls of the web UI, which has no data and is not described."""
PLACES = {"name": "absent", "position": "7", "version": "7", "id": "0" * 26, "key_id": "a" * 12}
"""Values of path parameters. None exists, so a call that is let in changes nothing."""
REFUSALS = {"key_required", "key_invalid", "scope_missing", "model_not_allowed"}
IN_WORDS = {
    "this request needs the scope": "scope_missing",
    "this request needs a key": "key_required",
    "the key": "key_invalid",
    "your key": "model_not_allowed",
}
"""Beginnings of messages, because errors of the Open Inference Protocol have no codes."""
LET_IN = (0, "let in")


def outcome(path: str, status: int, media_type: str, body: bytes) -> tuple[int, str]:
    """Return status and code of a response that refuses a key, or `LET_IN`."""
    told = json.loads(body) if "json" in media_type else {}
    words = told.get("error", "") if path.startswith("/v2") else ""
    code = next((code for begin, code in IN_WORDS.items() if words.startswith(begin)), told.get("code"))
    if code in REFUSALS:
        return status, code
    assert status < 500, body
    return LET_IN


def expected(method: str, path: str, wrong: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return the outcome for each kind of caller.

    Parameters
    ----------
    method, path : of the call, as in `SCOPES`.
    wrong : kinds of invalid keys.
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
