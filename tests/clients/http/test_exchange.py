"""Exchanges about models and servers: requests, retries, results and errors. No I/O and no waiting."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from tests.clients.http.fake_server import FakeServer, ok, problem, unsent
from tests.support.cases import for_each

from manylabel_clients import (
    ApiError,
    Busy,
    Compiling,
    Conflict,
    ConnectionFailed,
    Denied,
    Expired,
    FieldError,
    Invalid,
    ModelStatus,
    ModelSummary,
    NotFound,
    Retry,
    TooLarge,
    TrainedStatus,
    TrainedSummary,
    Unavailable,
    UnexpectedResponse,
)
from manylabel_clients.http.resources.datasets import DatasetCalls
from manylabel_clients.http.resources.jobs import JobCalls, TrainingCalls
from manylabel_clients.http.resources.models import ModelCalls
from manylabel_clients.http.resources.server import ServerCalls
from manylabel_core.metrics.measures import STREAMED
from manylabel_core.records import TextSettings

RETRY = Retry(attempts=4, base_seconds=1, cap_seconds=100, jitter=0)
REFUSED = httpx2.ConnectError("refused")
CUT = httpx2.ReadError("reset")
RECEIPT = {"position": "7", "updates": 7}
PREDICTION = {"labels": ["a"], "scores": {"a": 0.5, "b": -1.0}, "threshold": 0.1}
MEASURES = dict.fromkeys(STREAMED)
MEASURES = {**MEASURES, "examples": 0, "baseline": MEASURES}
GROUP = {"true": 0, "precision": 0.0, "recall": 0.0, "f1": 0.0}
BY_SEEN = dict.fromkeys(("never", "below_5", "below_20", "more"), GROUP)
METRICS = {"cumulative": MEASURES, "window": {**MEASURES, "size": 1000}, "by_seen": BY_SEEN}
STATUS = {
    "name": "m",
    "algorithm": "falt",
    "params": {"eta": 0.5, "passes": 20},
    "scaling": "unit",
    "missing": "mean",
    "text": {},
    "sources": {},
    "groups": [],
    "parents": {},
    "ignored": {},
    "alike_labels": [],
    "position": "0",
    "updates": 0,
    "labels": 0,
    "features": 0,
    "bytes": 64,
    "metrics": METRICS,
}


def model(retry: Retry = RETRY) -> Any:
    return unsent(ModelCalls, "m", retry=retry)


@for_each(
    "trouble",
    [
        REFUSED,
        CUT,
        httpx2.ReadTimeout("slow"),
        httpx2.ConnectTimeout("slow"),
        httpx2.RemoteProtocolError("cut"),
        problem(429, "queue_full"),
        problem(503, "not_ready"),
        problem(409, "idempotency_in_flight"),
        httpx2.Response(502, text="bad gateway"),
        httpx2.Response(504, text="gateway timeout"),
    ],
)
def test_a_retry_sends_the_same_bytes_under_the_same_key(trouble: Any) -> None:
    fake = FakeServer(trouble, trouble, trouble, ok(RECEIPT))
    receipt = fake(model().update({"f": 1}, ["a"]))
    assert receipt.updates == 7
    assert len(fake.requests) == 4
    assert len({request.body for request in fake.requests}) == 1
    assert len(set(fake.keys)) == 1
    assert fake.keys[0]
    assert fake.pauses == [1, 2, 4]


def test_each_update_has_its_own_key_and_predictions_have_none() -> None:
    fake = FakeServer(*[ok({**RECEIPT, **PREDICTION})] * 5)
    calls = model()
    fake(calls.update([1], ["a"]))
    fake(calls.update([1], ["a"]))
    fake(calls.predict_update([1], ["a"]))
    fake(calls.update([1], ["a"], key="mine"))
    fake(calls.predict([1]))
    assert len(set(fake.keys[:3])) == 3
    assert fake.keys[3:] == ["mine", None]


@for_each(
    ("refusal", "kind"),
    [
        (problem(400, "malformed_json"), Invalid),
        (problem(403, "forbidden"), Denied),
        (problem(404, "model_not_found"), NotFound),
        (problem(409, "model_exists"), Conflict),
        (problem(410, "history_expired"), Expired),
        (problem(413, "body_too_large"), TooLarge),
        (problem(415, "unsupported_media_type"), Invalid),
        (problem(422, "idempotency_key_reused"), Invalid),
        (problem(500, "internal_error"), ApiError),
        (problem(507, "model_too_large"), TooLarge),
        (httpx2.Response(307, headers={"location": "/elsewhere"}), ApiError),
    ],
)
def test_a_refusal_is_raised_at_once(refusal: httpx2.Response, kind: type[ApiError]) -> None:
    fake = FakeServer(refusal)
    with pytest.raises(kind) as caught:
        fake(model().update([1], ["a"]))
    assert type(caught.value) is kind
    assert caught.value.status == refusal.status_code
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (REFUSED, ConnectionFailed),
        (problem(429, "queue_full"), Busy),
        (problem(503, "not_ready"), Unavailable),
    ],
)
def test_after_the_last_attempt_the_error_is_raised(trouble: Any, kind: type[Exception]) -> None:
    fake = FakeServer(*[trouble] * 4)
    with pytest.raises(kind):
        fake(model().predict([1]))
    assert fake.pauses == [1, 2, 4]


@for_each(
    ("troubles", "expected"),
    [
        ([REFUSED, REFUSED], False),
        ([httpx2.ConnectTimeout("slow"), problem(503, "not_ready")], False),
        ([REFUSED, CUT], True),
        ([CUT, REFUSED], True),
        ([httpx2.ReadTimeout("slow"), problem(422, "idempotency_key_reused")], True),
        ([REFUSED, httpx2.Response(502, text="bad gateway")], True),
        ([REFUSED, problem(500, "internal_error")], True),
    ],
)
def test_an_error_says_whether_the_call_may_have_succeeded(troubles: Any, expected: bool) -> None:
    with pytest.raises((ConnectionFailed, ApiError)) as caught:
        FakeServer(*troubles)(model(Retry(attempts=2, jitter=0)).update([1], ["a"]))
    assert caught.value.maybe_done is expected


def test_retry_after_is_honoured_within_the_patience() -> None:
    fake = FakeServer(problem(429, "queue_full", {"retry-after": "9"}), ok(RECEIPT))
    fake(model().update([1], ["a"]))
    assert fake.pauses == [10]
    with pytest.raises(Busy) as caught:
        FakeServer(problem(429, "queue_full", {"retry-after": "3600"}))(model().update([1], ["a"]))
    assert caught.value.retry_after_seconds == 3600


@for_each("header", ["Fri, 31 Dec 2027 23:59:59 GMT", "-1", "nan", "1e9", "", "9" * 400])
def test_a_retry_after_that_is_no_number_of_seconds_is_ignored(header: str) -> None:
    fake = FakeServer(problem(503, "not_ready", {"retry-after": header}), ok(RECEIPT))
    fake(model().update([1], ["a"]))
    assert fake.pauses == [1]


def test_an_error_has_all_fields_of_the_problem() -> None:
    wrong = [
        {"pointer": "/x/indices/3", "detail": "must be >= 0"},
        {"header": "Idempotency-Key", "detail": "is too long"},
    ]
    with pytest.raises(Invalid) as caught:
        FakeServer(problem(422, "invalid_request", errors=wrong, request_id="r1"))(model().predict([1]))
    error = caught.value
    assert (error.code, error.detail, error.request_id) == ("invalid_request", "about invalid_request", "r1")
    assert error.errors == (
        FieldError("must be >= 0", pointer="/x/indices/3"),
        FieldError("is too long", header="Idempotency-Key"),
    )
    assert str(error) == "about invalid_request (422 invalid_request)"


@for_each("content", [b"", b"<html>", b"[1]", b"null", b'{"errors": 3}', b'{"errors": [3, {}]}', b"\xff"])
def test_a_damaged_problem_is_an_error_by_its_status(content: bytes) -> None:
    headers = {"content-type": "application/problem+json"}
    answer = httpx2.Response(404, content=content, headers=headers, request=httpx2.Request("GET", "http://s/"))
    with pytest.raises(NotFound, match="404"):
        FakeServer(answer)(model().predict([1]))


@for_each("content", [b"<html>", b"[]", b"{}", b'{"position": "3"}', b'{"id": 3}', b"null", b"\xff"])
def test_a_response_of_another_program_is_an_unexpected_response(content: bytes) -> None:
    response = httpx2.Response(200, content=content, request=httpx2.Request("GET", "http://s/"))
    models, job = model(), unsent(JobCalls, "j1", retry=RETRY)
    jobs, datasets = unsent(TrainingCalls, retry=RETRY), unsent(DatasetCalls, retry=RETRY)
    for call in (
        *(models.predict([1]), models.update([1], ["a"]), models.status(), models.metrics()),
        *(models.versions(), models.promote(1), models.detail()),
        *(job.status(), job.log(), jobs.jobs(), jobs.trainers(), datasets.datasets()),
    ):
        with pytest.raises(UnexpectedResponse, match="ManyLabel server"):
            FakeServer(response)(call)


def test_responses_become_values() -> None:
    fake = FakeServer(
        ok({**PREDICTION, "position": "7"}),
        ok({"predictions": [PREDICTION, PREDICTION], "position": "7"}),
        ok({**PREDICTION, **RECEIPT}, **{"Idempotent-Replayed": "true"}),
        ok({**STATUS, "new": "in a later version"}),
        ok({**METRICS, "position": "7", "updates": 7}),
    )
    calls = model()
    prediction = fake(calls.predict([1]))
    assert (prediction.labels, prediction.scores) == (["a"], {"a": 0.5, "b": -1.0})
    assert (prediction.threshold, prediction.position) == (0.1, "7")
    assert fake(calls.predict_many([[1], [2]], batch_size=10)) == [prediction, prediction]
    before, receipt = fake(calls.predict_update([1], ["a"]))
    assert before == prediction
    assert (receipt.position, receipt.updates) == ("7", 7)
    assert receipt.replayed
    status = fake(calls.status())
    assert (status.name, status.params, status.metrics.window.size) == ("m", STATUS["params"], 1000)
    assert (status.limits, status.ignored) == (None, {}), "an older server does not send them"
    assert fake(calls.metrics()) == status.metrics


def examples(n: int) -> list[tuple[list[float], list[str]]]:
    return [([float(i)], [f"l{i}"]) for i in range(n)]


def receipts(*updates: int) -> Sequence[httpx2.Response]:
    return [ok({**RECEIPT, "updates": count, "predictions": []}) for count in updates]


def test_a_long_call_is_split_in_order_and_returns_the_last_receipt() -> None:
    fake = FakeServer(*receipts(3, 6, 7))
    receipt = fake(model().update_many(iter(examples(7)), batch_size=3, key="k"))
    assert receipt.updates == 7
    assert [len(body["examples"]) for body in fake.bodies] == [3, 3, 1]
    sent = [(item["x"], item["y"]) for body in fake.bodies for item in body["examples"]]
    assert sent == examples(7)
    assert fake.keys == ["k", "k-3", "k-6"]


def test_a_split_call_repeated_repeats_its_keys_and_bytes() -> None:
    first, second = FakeServer(*receipts(3, 6, 7)), FakeServer(*receipts(3, 6, 7))
    first(model().update_many(examples(7), batch_size=3, key="k"))
    second(model().predict_update_many(examples(7), batch_size=3, key="k"))
    assert first.keys == second.keys
    assert [request.body for request in first.requests] == [request.body for request in second.requests]


def test_a_split_call_without_a_key_has_a_new_one_for_each_request() -> None:
    fake = FakeServer(*receipts(3, 6, 7, 3, 6, 7))
    fake(model().update_many(examples(7), batch_size=3))
    fake(model().update_many(examples(7), batch_size=3))
    assert len(set(fake.keys)) == 6
    assert None not in fake.keys


TOO_LARGE = problem(413, "batch_too_large")


def predicted(n: int) -> httpx2.Response:
    return ok({"predictions": [PREDICTION] * n, "position": "7"})


def test_predictions_too_large_for_a_response_are_divided() -> None:
    fake = FakeServer(TOO_LARGE, TOO_LARGE, *map(predicted, (2, 1, 2, 2, 1)))
    found = fake(model().predict_many([[float(i)] for i in range(8)], batch_size=5, keep=True))
    assert len(found) == 8
    sent = [[x for (x,) in (item["x"] for item in body["examples"])] for body in fake.bodies]
    assert sent == [[0, 1, 2, 3, 4], [0, 1, 2], [0, 1], [2], [3, 4], [5, 6], [7]]


def test_one_prediction_too_large_for_a_response_is_an_error_with_its_number() -> None:
    fake = FakeServer(TOO_LARGE, predicted(1), TOO_LARGE)
    with pytest.raises(TooLarge) as caught:
        fake(model().predict_many([[0.0], [1.0]]))
    assert caught.value.done == 1


@for_each("refusal", [TOO_LARGE, problem(413, "body_too_large")])
def test_a_batch_to_learn_is_not_divided(refusal: httpx2.Response) -> None:
    """The server learns all of its examples or none."""
    fake = FakeServer(refusal)
    with pytest.raises(TooLarge):
        fake(model().predict_update_many(examples(4)))
    assert len(fake.requests) == 1


def test_one_replayed_request_marks_the_whole_call() -> None:
    fake = FakeServer(ok(RECEIPT, **{"Idempotent-Replayed": "true"}), ok(RECEIPT))
    assert fake(model().update_many(examples(4), batch_size=2, key="k")).replayed


def test_an_error_of_a_later_request_has_the_index_in_the_whole_call() -> None:
    wrong = [{"pointer": "/examples/1/x", "detail": "must be finite"}, {"pointer": "", "detail": "bad"}]
    detail = "/examples/1/x must be finite; y/examples/1 is a name"
    fake = FakeServer(*receipts(3, 6), problem(422, "invalid_request", errors=wrong, detail=detail))
    with pytest.raises(Invalid) as caught:
        fake(model().update_many(examples(20), batch_size=3))
    assert caught.value.done == 6
    assert [field.pointer for field in caught.value.errors] == ["/examples/7/x", ""]
    assert caught.value.detail == "/examples/7/x must be finite; y/examples/1 is a name"
    assert len(fake.requests) == 3


@for_each(
    ("wrong", "kind", "message"),
    [
        ((3, ["a"]), TypeError, "^/examples/2/x must be a mapping"),
        (([1.0], "a"), TypeError, "^/examples/2/y must be a list"),
        (({"age": float("nan")}, ["a"]), ValueError, "^/examples/2/x/age must be a finite number"),
        (([object()], ["a"]), TypeError, "^/examples/2/x has <object"),
        (([1.0],), TypeError, r"^/examples/2 must be \(x, y\), .* not 1 values"),
        (([1.0], ["\ud800"]), ValueError, "^/examples/2/y 'utf-8' codec"),
    ],
)
def test_an_example_that_cannot_be_sent_is_named(wrong: Any, kind: type[Exception], message: str) -> None:
    fake = FakeServer()
    with pytest.raises(kind, match=message):
        fake(model().update_many([*examples(2), wrong], batch_size=3))
    assert not fake.requests


def test_examples_are_read_lazily() -> None:
    read = []

    def stream() -> Any:
        for i, example in enumerate(examples(100)):
            read.append(i)
            yield example

    fake = FakeServer(problem(404, "model_not_found"))
    with pytest.raises(NotFound):
        fake(model().update_many(stream(), batch_size=3))
    assert len(read) <= 4


def test_an_update_needs_an_example_and_a_prediction_does_not() -> None:
    assert FakeServer()(model().predict_many([], batch_size=3)) == []
    for call in (model().update_many([], batch_size=3), model().predict_update_many([], batch_size=3)):
        with pytest.raises(ValueError, match="at least one example"):
            FakeServer()(call)


@for_each("key", ["", " ", "a b", "\t", "ü", "k\r\nX: y"])
def test_a_key_that_fits_no_header_is_refused(key: str) -> None:
    for call in (
        model().update([1], ["a"], key=key),
        model().predict_update_many([([1], ["a"])], batch_size=3, key=key),
    ):
        with pytest.raises(ValueError, match="visible ASCII"):
            FakeServer()(call)


def test_a_key_leaves_room_for_the_offsets_of_a_long_call() -> None:
    """Otherwise the first requests would be learnt, and the request whose key is too long never."""
    with pytest.raises(ValueError, match="at most 240 characters"):
        FakeServer()(model().update_many([([1], ["a"])] * 2, batch_size=1, key="k" * 241))


def test_a_request_that_cannot_be_written_is_not_retried() -> None:
    fake = FakeServer(httpx2.LocalProtocolError("illegal header value"))
    with pytest.raises(ValueError, match="illegal header"):
        fake(model().predict([1]))
    assert len(fake.requests) == 1


def test_a_batch_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="batch_size"):
        FakeServer()(model().predict_many([[1]], batch_size=0))


def test_names_and_ids_are_quoted_in_the_path() -> None:
    fake = FakeServer(ok(STATUS), problem(404, "not_found"))
    fake(unsent(ModelCalls, "../a b?/ü", retry=RETRY).status())
    with pytest.raises(NotFound):
        fake(model().receipt("../a b?/c"))
    assert [request.path.removeprefix("/v1/models/") for request in fake.requests] == [
        "..%2Fa%20b%3F%2F%C3%BC", "m/forget/..%2Fa%20b%3F%2Fc",
    ]  # fmt: skip


SPEC: dict[str, Any] = {"name": "m", "algorithm": "falt", "params": {"eta": 0.5}, "scaling": "unit", "labels": None}
EXISTS = problem(409, "model_exists")


def create(*replies: Any, spec: Any = SPEC, exist_ok: bool = False) -> FakeServer:
    fake = FakeServer(*replies)
    unsent(ServerCalls, retry=RETRY, run=fake).create_model(**spec, exist_ok=exist_ok)
    return fake


def test_create_sends_only_the_given_fields() -> None:
    fake = create(ok(STATUS, 201))
    assert fake.bodies == [{"name": "m", "algorithm": "falt", "params": {"eta": 0.5}, "scaling": "unit"}]


LIMITS = {"labels": {"most": 9, "policy": "ignore"}}
OTHER_LIMITS = {"features": None, "labels": {"most": 8, "policy": "ignore"}}
TEXT = {"ngrams": 2}
EVEN_UNSAID = TextSettings.from_json(TEXT).to_json()


@for_each(
    ("spec", "found", "is_same"),
    [
        ({}, {}, True),
        *[({}, {name: value}, False) for name, value in (("updates", 1), ("algorithm", "salt"), ("scaling", "none"))],
        ({}, {"params": {"eta": 0.25, "passes": 20}}, False),
        ({}, {"params": {"passes": 20}}, False),
        ({"limits": LIMITS}, {"limits": {"features": None, **LIMITS}}, True),
        *[({"limits": LIMITS}, {"limits": limits}, False) for limits in (None, OTHER_LIMITS)],
        ({"text": TEXT}, {"text": EVEN_UNSAID}, True),
        ({"text": TEXT}, {"text": TextSettings().to_json()}, False),
    ],
)
def test_a_model_made_by_an_attempt_without_response_is_no_conflict(spec: Any, found: Any, is_same: bool) -> None:
    replies = CUT, EXISTS, ok({**STATUS, **found})
    if is_same:
        assert [request.method for request in create(*replies, spec={**SPEC, **spec}).requests] == [
            "POST",
            "POST",
            "GET",
        ]
        return
    with pytest.raises(Conflict):
        create(*replies, spec={**SPEC, **spec})


@for_each("before", [[], [REFUSED], [problem(503, "not_ready")]])
def test_a_taken_name_is_a_conflict(before: Any) -> None:
    with pytest.raises(Conflict):
        create(*before, EXISTS)


def test_exist_ok_accepts_an_existing_model() -> None:
    assert len(create(EXISTS, exist_ok=True).bodies) == 1


@for_each(
    ("path", "delete"),
    [
        ("models/m", lambda: model().delete()),
        ("models/m/versions/1", lambda: model().delete_version(1)),
        ("datasets/songs", lambda: unsent(DatasetCalls, retry=RETRY).delete_dataset("songs")),
    ],
    ids=["model", "version", "dataset"],
)
def test_deleting_what_an_attempt_without_response_may_have_deleted_succeeds(path: str, delete: Any) -> None:
    missing, fake = problem(404, "not_found"), FakeServer(httpx2.Response(204))
    fake(delete())
    assert [(request.method, request.path) for request in fake.requests] == [("DELETE", f"/v1/{path}")]
    FakeServer(CUT, missing)(delete())
    for replies in ([missing], [REFUSED, missing]):
        with pytest.raises(NotFound):
            FakeServer(*replies)(delete())
    with pytest.raises(ConnectionFailed):
        FakeServer(*[REFUSED] * 4)(delete())


class Clock:
    """Time that only pauses advance."""

    def __init__(self, fake: FakeServer) -> None:
        self.fake = fake

    def __call__(self) -> float:
        return sum(self.fake.pauses)


def test_waiting_ends_when_the_server_is_ready() -> None:
    fake = FakeServer(REFUSED, problem(503, "not_ready"), CUT, ok({}))
    fake(unsent(ServerCalls, retry=RETRY, clock=Clock(fake)).wait_ready(60))
    assert len(fake.pauses) == 3


@pytest.mark.parametrize(("reply", "kind"), [(REFUSED, ConnectionFailed), (problem(503, "not_ready"), Unavailable)])
def test_waiting_ends_when_the_time_is_over(reply: Any, kind: type[Exception]) -> None:
    fake = FakeServer(*[reply] * 100)
    with pytest.raises(kind):
        fake(unsent(ServerCalls, retry=RETRY, clock=Clock(fake)).wait_ready(0.75))
    assert sum(fake.pauses) == pytest.approx(0.75)
    for request in fake.requests:
        assert request.timeout_seconds is not None
        assert request.timeout_seconds <= 0.75


def test_waiting_ends_at_once_at_another_program() -> None:
    fake = FakeServer(httpx2.Response(404, text="not here"))
    with pytest.raises(NotFound):
        fake(unsent(ServerCalls, retry=RETRY, clock=Clock(fake)).wait_ready(60))


def compiling(done: int, retry_after: int = 30) -> httpx2.Response:
    progress = {"done": done, "total": 9, "seconds_left": None}
    return problem(503, "not_ready", {"retry-after": str(retry_after)}, compiling=progress)


def test_waiting_tells_the_progress_of_a_compilation() -> None:
    fake = FakeServer(REFUSED, compiling(1), problem(503, "not_ready"), compiling(2), ok({}))
    told: list[Any] = []
    fake(unsent(ServerCalls, retry=RETRY, clock=Clock(fake)).wait_ready(60, told.append))
    assert told == [Compiling(1, 9), Compiling(2, 9)]


@pytest.mark.parametrize("progress", [None, 7, {"done": 1}, [1, 2]])
def test_progress_that_is_not_understood_is_left_out(progress: Any) -> None:
    with pytest.raises(Unavailable) as caught:
        FakeServer(*[problem(503, "not_ready", compiling=progress)] * 4)(model().status())
    assert caught.value.compiling is None


def test_a_call_that_waits_for_a_compilation_lasts_while_more_is_compiled() -> None:
    waiting = replace(RETRY, wait_compiling=True, patience_seconds=9)
    fake = FakeServer(*[compiling(done) for done in range(9)], ok(STATUS))
    fake(unsent(ModelCalls, "m", retry=replace(waiting, clock=Clock(fake))).status())
    assert sum(fake.pauses) > 9 * 5
    assert max(fake.pauses) < 10, "not as long as Retry-After says"
    stuck = FakeServer(*[compiling(3)] * 99)
    with pytest.raises(Unavailable) as caught:
        stuck(unsent(ModelCalls, "m", retry=replace(waiting, clock=Clock(stuck))).status())
    assert caught.value.compiling == Compiling(3, 9)
    assert len(stuck.requests) < 9


def test_attempts_do_not_count_while_a_function_is_compiled() -> None:
    waiting = replace(RETRY, attempts=2, wait_compiling=True, patience_seconds=99)
    fake = FakeServer(*[compiling(8, retry_after=1)] * 20, ok(STATUS))
    fake(unsent(ModelCalls, "m", retry=replace(waiting, clock=Clock(fake))).status())
    assert len(fake.requests) == 21
    assert min(fake.pauses) >= 1


def test_another_call_does_not_wait_longer_for_a_compilation() -> None:
    fake = FakeServer(*[compiling(done, retry_after=0) for done in range(9)])
    with pytest.raises(Unavailable) as caught:
        fake(model().status())
    assert len(fake.requests) == RETRY.attempts
    assert caught.value.compiling == Compiling(RETRY.attempts - 1, 9)


def test_models_that_are_not_loaded_are_listed_as_summaries() -> None:
    parts = ("name", "algorithm", "params", "scaling", "missing", "text", "sources")
    stored = {**{part: STATUS[part] for part in parts}, "loaded": False}
    loaded, summary = FakeServer(ok({"models": [{**STATUS, "loaded": True}, stored]}))(
        unsent(ServerCalls, retry=RETRY).models()
    )
    assert isinstance(loaded, ModelStatus)
    assert type(summary) is ModelSummary
    assert [getattr(loaded, part) for part in parts] == [getattr(summary, part) for part in parts]


def test_models_are_read_page_by_page() -> None:
    stored = [{"name": name, "algorithm": "trained", "loaded": False} for name in "abc"]
    server = FakeServer(ok({"models": stored[:2], "next": "1.b"}), ok({"models": stored[2:]}))
    listed = server(unsent(ServerCalls, retry=RETRY).models("x-", sort="used"))
    assert [summary.name for summary in listed] == ["a", "b", "c"]
    path = "/v1/models?prefix=x-&sort=used"
    assert [request.path for request in server.requests] == [path, f"{path}&after=1.b"]


def test_trained_models_have_their_own_types() -> None:
    trained = {
        "name": "m", "algorithm": "trained", "trainer": "m3l", "params": {"C": 1.0}, "measures": None,
        "converged": True, "version": 2,
        "versions": 3, "position": "7", "labels": 2, "features": 3, "bytes": 64, "loaded": True, "metrics": METRICS,
    }  # fmt: skip
    stored = {"name": "n", "algorithm": "trained", "loaded": False}
    listed = FakeServer(ok({"models": [trained, stored]}))(unsent(ServerCalls, retry=RETRY).models())
    assert listed[0] == FakeServer(ok(trained))(model().status())
    assert isinstance(listed[0], TrainedStatus)
    assert (listed[0].version, listed[0].trainer) == (2, "m3l")
    assert listed[0].metrics is not None
    assert listed[0].metrics.window.size == METRICS["window"]["size"]
    idle = FakeServer(ok({**trained, "version": None, "metrics": None}))(model().status())
    assert isinstance(idle, TrainedStatus)
    assert idle.metrics is None
    assert listed[1] == TrainedSummary(name="n", algorithm="trained")
    with pytest.raises(Conflict):
        create(CUT, EXISTS, ok(trained))
