"""Every error of the service becomes a problem document with a status and a code."""

from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.support.cases import for_each

from manylabel_service import errors
from manylabel_service.api.web import problems
from manylabel_service.api.web.problems import STATUS_AND_TITLE, Problem, invalid, pointer, problem_of, problem_response

RAISED: list[tuple[errors.ServiceError, int, str, str | None]] = [
    (errors.ModelNotFound("a"), 404, "model_not_found", None),
    (errors.ModelGone("a", 3), 404, "model_not_found", None),
    (errors.ModelExists("a"), 409, "model_exists", None),
    (errors.NotReady("restoring"), 503, "not_ready", "1"),
    (errors.NotReady("restoring", retry_after=2.1), 503, "not_ready", "3"),
    (errors.QueueFull("a", "10 examples", retry_after=0.2), 429, "queue_full", "1"),
    (errors.TooManyWatchers("a", 64, retry_after=5), 429, "queue_full", "5"),
    (errors.InvalidExample(0, ("x",), "is bad"), 422, "invalid_request", None),
    (errors.KeyInFlight("k"), 409, "idempotency_in_flight", None),
    (errors.KeyReused("k"), 422, "idempotency_key_reused", None),
    (errors.LimitExceeded("labels", 3, 2), 507, "limit_exceeded", None),
    (errors.LabelNotFound("p"), 404, "label_not_found", None),
    (errors.LabelExists("p"), 409, "label_exists", None),
    (errors.LabelsDeclared("a"), 409, "labels_declared", None),
    (errors.PredictionNotFound("01K"), 404, "prediction_not_found", None),
    (errors.PredictionExpired("01K", "2026-11-20T21:00:00Z (ttl 86400 s)"), 410, "prediction_expired", None),
    (errors.PredictionLabelled("01K"), 409, "prediction_labelled", None),
    (errors.PredictionNotDeferred("01K", "machine"), 409, "prediction_not_deferred", None),
    (errors.PredictionsFull("a", "10 predictions"), 429, "predictions_full", "60"),
    (errors.SnapshotNotFound("a", "7"), 404, "snapshot_not_found", None),
    (errors.DatasetNotFound("a"), 404, "dataset_not_found", None),
    (errors.DatasetExists("a"), 409, "dataset_exists", None),
    (errors.DatasetInUse("a"), 409, "dataset_in_use", None),
    (errors.InvalidDataset("line 2: 'x' is not feature:number", line=2), 422, "invalid_dataset", None),
    (errors.ModelIsTrained("a"), 409, "model_is_trained", None),
    (errors.ModelIsOnline("a"), 409, "model_is_online", None),
    (errors.NoProbabilities(), 422, "invalid_request", None),
    (errors.NotCalibrated("a"), 422, "invalid_request", None),
    (errors.NoReliability("a"), 409, "model_is_trained", None),
    (errors.NoRollback("a"), 409, "model_is_trained", None),
    (errors.VersionNotFound("a", 2), 404, "version_not_found", None),
    (errors.VersionServed("a", 2), 409, "version_served", None),
    (errors.VersionDiffers("a", 2, 1, "its features differ"), 409, "version_differs", None),
    (errors.ModelDamaged("a", "its log ends too early"), 500, "model_damaged", None),
    (errors.DocumentDamaged("jobs", "a"), 500, "storage_damaged", None),
    (errors.BlobDamaged("a"), 500, "storage_damaged", None),
    (errors.VersionDamaged("a", 2, "its contents are missing"), 500, "version_damaged", None),
    (errors.NoVersionServed("a"), 409, "no_version_served", None),
    (errors.CannotInitialise(("algorithm",), "must be falt"), 422, "invalid_request", None),
    (errors.InvalidJob(("data", "split"), "must be one of train, all"), 422, "invalid_request", None),
    (errors.JobNotFound("01k"), 404, "job_not_found", None),
    (errors.JobEnded("01k", "has failed"), 409, "job_ended", None),
    (errors.JobNotRetryable("01k", "queued"), 409, "job_not_retryable", None),
    (errors.JobsFull(100), 429, "jobs_full", "30"),
    (errors.StorageUnavailable("disk full", heals=True), 503, "storage_unavailable", "5"),
    (errors.StorageUnavailable("no such file", heals=False), 503, "storage_unavailable", None),
    (errors.ReleaseTooOld("the log has an entry of form 2"), 503, "release_too_old", "1"),
    (errors.DocumentNewer.of("key", "a", "9.9"), 503, "release_too_old", "1"),
    (errors.ReplayMismatch("model 'a' differs at 7"), 503, "replay_mismatch", "1"),
    (errors.FollowerFailed("follower 'a' cannot continue"), 409, "follower_failed", None),
    (errors.ModelFailed("model 'a' could not be restored"), 503, "not_ready", None),
    (errors.StorageFull("disk full"), 507, "storage_full", "5"),
    (errors.RevisionConflict("jobs", "a", 1, 2), 503, "storage_unavailable", "5"),
    (errors.BlobNotFound("b"), 503, "storage_unavailable", "5"),
    (errors.BlobGone("b"), 503, "storage_unavailable", "5"),
    (errors.BlobLost("b", "file:///shared"), 503, "storage_unavailable", "5"),
    (errors.LogTrimmed("a", "1", "2"), 503, "storage_unavailable", "5"),
    (errors.LogLost("a", "7"), 503, "storage_unavailable", "5"),
    (errors.StoreUnusable("no write-ahead log"), 503, "storage_unavailable", "5"),
    (errors.StoreLocked(Path("d"), 1), 503, "storage_unavailable", "5"),
    (errors.StoreDamaged(Path("d"), "?"), 503, "storage_unavailable", "5"),
    (errors.StoreTooNew("d", found=2, known=1), 503, "release_too_old", "5"),
    (errors.KeyRequired(), 401, "key_required", None),
    (errors.KeyInvalid(), 401, "key_invalid", None),
    (errors.ScopeMissing("learn"), 403, "scope_missing", None),
    (errors.ModelNotAllowed("a"), 403, "model_not_allowed", None),
    (errors.JobNotAllowed("01k"), 403, "model_not_allowed", None),
    (errors.BeyondOwnKey("expires_at", "must be 2027-01-31T12:00:00.000Z or earlier"), 403, "beyond_own_key", None),
    (errors.RateLimited("your key allows 2 requests per second", 0.4), 429, "rate_limited", "1"),
    (errors.KeyNotFound("a" * 12), 404, "key_not_found", None),
    (errors.KeysFull(1_000), 507, "limit_exceeded", None),
    (errors.DoubtsNotFound("a"), 404, "doubts_not_found", None),
    (errors.CannotUndo("a", "7", "it was rejected"), 409, "cannot_undo", None),
    (errors.ExampleNotFound("a", "7", 2, "the entry has 2 examples"), 404, "example_not_found", None),
    (errors.PositionNotFound("a", "7"), 404, "position_not_found", None),
    (errors.BeforeHistory("a", "position 3", "7"), 410, "before_history", None),
    (errors.HistoryDamaged("a", "3", "7", "?"), 500, "history_damaged", None),
    (errors.WebhookNotFound("a" * 26), 404, "webhook_not_found", None),
    (errors.WebhooksFull(20), 507, "limit_exceeded", None),
    (errors.ModelFollows("a"), 409, "model_follows", None),
    (errors.ModelHasFollowers("a", ["b"]), 409, "model_has_followers", None),
    (errors.ForgetRunning("a", "01k"), 409, "forget_running", None),
    (errors.NotPromotable("a", "b"), 409, "not_promotable", None),
    (errors.ReceiptNotFound("a", "01k"), 404, "receipt_not_found", None),
    (errors.LogSealed(name="a"), 503, "storage_unavailable", "5"),
    (errors.HasKeys(2), 500, "internal_error", None),
    (errors.CannotServeOpenly("0.0.0.0"), 500, "internal_error", None),
]


@for_each(("error", "status", "code", "retry_after"), RAISED, ids=lambda v: type(v).__name__)
def test_an_error_becomes_its_problem(
    error: errors.ServiceError, status: int, code: str, retry_after: str | None
) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.code) == (status, code)
    assert problem.detail == error.answer()
    assert (problem.headers or {}).get("Retry-After") == retry_after


@pytest.mark.parametrize("kind", [errors.StorageUnavailable, errors.StorageFull])
def test_details_for_the_operator_are_logged_only(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "_logged_at", {})
    error = kind("/var/lib/data/manylabel.sqlite3 at 10.0.0.7: script f_9a0364b9", heals=True)
    with structlog.testing.capture_logs() as lines:
        details = {problem_of(error).detail for _ in range(3)}
    (detail,) = details
    assert "retry" in detail
    assert not any(secret in detail for secret in ("/var", "10.0", "script"))
    (line,) = lines  # one line per second, for any number of refusals
    assert (line["event"], line["code"], line["error"]) == ("storage_refused", error.code, str(error))


def leaves(cls: type) -> set[type]:
    below = [each for each in cls.__subclasses__() if each.__module__ == errors.__name__]
    return set().union(*map(leaves, below)) if below else {cls}


def test_every_error_is_in_the_table() -> None:
    assert leaves(errors.ServiceError) <= {type(error) for error, *_ in RAISED} | {errors.ModelGone}


def test_every_code_has_an_error_status() -> None:
    assert all(400 <= status < 600 and title for status, title in STATUS_AND_TITLE.values())


@for_each(
    ("path", "expected"),
    [
        ((), ""),
        (("x", 3), "/x/3"),
        (("examples", 0, "x", "indices", 3), "/examples/0/x/indices/3"),
        (("x", "word=cat"), "/x/word=cat"),
        (("x", "a/b~c~1"), "/x/a~1b~0c~01"),
        (("x", ""), "/x/"),
    ],
)
def test_pointers_are_rfc_6901(path: tuple[str | int, ...], expected: str) -> None:
    assert pointer(path) == expected


def test_the_document_is_rfc_9457() -> None:
    scope: Any = {"path": "/v1/models/a b", "request_id": "r-1"}
    response = problem_response(invalid(("x", 0), "must be a number"), scope)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert response.body == (
        b'{"type":"about:blank","title":"Invalid request","status":422,"detail":"/x/0 must be a number",'
        b'"code":"invalid_request","instance":"/v1/models/a%20b","request_id":"r-1",'
        b'"errors":[{"pointer":"/x/0","detail":"must be a number"}]}'
    )


def test_headers_of_a_problem_are_sent() -> None:
    problem = Problem("queue_full", "full", headers={"Retry-After": "7"})
    scope: Any = {"path": "/"}
    assert problem_response(problem, scope).headers["retry-after"] == "7"
