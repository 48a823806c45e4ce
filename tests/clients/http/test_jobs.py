"""Exchanges about data sets, jobs and versions: what is sent, and what one that broke off becomes."""

import io
import json
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from tests.clients.http.fake_server import FakeServer, ok, problem

from manylabel_clients import (
    Conflict,
    ConnectionFailed,
    DatasetInfo,
    Invalid,
    JobFailed,
    JobProgress,
    NotFound,
    Retry,
    UnexpectedAnswer,
)
from manylabel_clients.http.resources.datasets import DatasetRequests
from manylabel_clients.http.resources.examples import encode_example
from manylabel_clients.http.resources.jobs import MAX_POLL_SECONDS, JobRequests, TrainingRequests
from manylabel_clients.http.resources.models import ModelRequests
from manylabel_clients.http.transport.exchange import Request
from manylabel_clients.http.transport.upload import PIECE_BYTES

RETRY = Retry(attempts=3, base_seconds=1, cap_seconds=100, jitter=0)
DATASET = {
    "name": "songs", "format": "csv", "rows": 3, "features": 2, "labels": 2, "cardinality": 1.0, "density": 0.5,
    "views": {"x": 2}, "splits": {}, "checksum": "sha256:00", "bytes": 100, "created": "2026-11-21T00:00:00Z",
}  # fmt: skip
PROGRESS = {
    "iteration": 3, "objective": 1.5, "gap": 0.1, "seconds": 0.5, "checkpoint": None, "trials": None, "best": None,
}  # fmt: skip
JOB = {
    "id": "j1", "state": "running", "trainer": "m3l", "params": {"C": 1.0}, "data": {"dataset": "songs"},
    "holdout": None, "search": None, "seed": 0, "model": "m", "promote": True, "created": "2026-11-21T00:00:00Z",
    "started": None, "ended": None, "attempt": 1, "progress": PROGRESS, "result": None, "error": None,
}  # fmt: skip
RESULT = {
    "model": "m", "version": 2, "rows": 3, "held_out": None, "params": {"C": 1.0}, "trials": [], "seconds": 0.1,
}  # fmt: skip
DONE = {**JOB, "state": "succeeded", "progress": None, "result": RESULT}
FAILED = {**JOB, "state": "failed", "error": {"code": "training_refused", "detail": "Y has one class"}}
CUT = httpx2.ReadError("cut")


def job(clock: Any = lambda: 0.0) -> JobRequests:
    return JobRequests("j1", RETRY, clock)


def body_of(request: Request) -> bytes:
    assert callable(request.body)
    return b"".join(request.body())


def query_of(request: Request) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(urlsplit(request.path).query).items()}


# -- data sets ----------------------------------------------------------------------------------------


def uploaded(*replies: Any, source: Any, labels: Any = None, format: Any = None, report: Any = None) -> FakeServer:
    fake = FakeServer(*replies)
    fake(DatasetRequests(RETRY).upload_dataset("songs", source, format=format, labels=labels, report=report))
    return fake


def test_a_file_is_sent_in_pieces_with_its_length_and_its_format(tmp_path: Path) -> None:
    path = tmp_path / "songs.SVM"
    path.write_bytes(b"1 1:0.5\n" * 100_000)
    told: list[int] = []
    (request,) = uploaded(ok(DATASET, 201), source=path, report=told.append).requests
    assert (request.method, urlsplit(request.path).path) == ("POST", "/v1/datasets")
    assert query_of(request) == {"name": "songs", "format": "libsvm"}
    assert body_of(request) == path.read_bytes()
    assert request.headers["Content-Length"] == str(path.stat().st_size)
    assert told == [*range(PIECE_BYTES, 800_000, PIECE_BYTES), 800_000]


@pytest.mark.parametrize("kind", [bytes, io.BytesIO, str])
def test_a_source_that_can_be_read_again_is_sent_again_whole(kind: type, tmp_path: Path) -> None:
    data = b"a,b\n1,0\n"
    (tmp_path / "songs.csv").write_bytes(data)
    source = str(tmp_path / "songs.csv") if kind is str else kind(data)
    fake = uploaded(CUT, problem(503, "not_ready"), ok(DATASET, 201), source=source, format="csv", labels=1)
    assert [body_of(request) for request in fake.requests] == [data] * 3
    assert query_of(fake.requests[0])["label_columns"] == "1"


def test_an_open_file_is_sent_from_where_it_stands() -> None:
    file = io.BytesIO(b"header\n1 1:1\n")
    file.readline()
    (request,) = uploaded(ok(DATASET, 201), source=file, format="libsvm").requests
    assert (body_of(request), body_of(request)) == (b"1 1:1\n", b"1 1:1\n")
    assert request.headers["Content-Length"] == "6"


def test_what_can_be_read_only_once_is_not_sent_again() -> None:
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.pieces = [b"1 1:1\n", b""]

        def read(self, size: int = -1) -> bytes:
            return self.pieces.pop(0)

        def seekable(self) -> bool:
            return False

    fake = FakeServer(problem(503, "not_ready"))
    with pytest.raises(Exception, match="not_ready"):
        fake(DatasetRequests(RETRY).upload_dataset("songs", Pipe(), format="libsvm"))  # type: ignore[arg-type]
    (request,) = fake.requests
    assert body_of(request) == b"1 1:1\n"
    assert "Content-Length" not in request.headers


def test_an_xml_goes_along_as_a_part_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "songs.xml").write_bytes(b"<labels/>")
    path = tmp_path / "songs.arff"
    path.write_bytes(b"@relation songs\n\xff")
    (request,) = uploaded(ok(DATASET, 201), source=path, labels=str(tmp_path / "songs.xml")).requests
    body = body_of(request)
    assert request.headers["Content-Length"] == str(len(body))
    received = httpx2.Request("POST", "http://s/p", headers=request.headers, content=body)
    kind, _, boundary = received.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    first, second = body.removesuffix(f"\r\n--{boundary}--\r\n".encode()).split(f"--{boundary}\r\n".encode())[1:]
    parts = {one.partition(b'name="')[2].partition(b'"')[0]: one.partition(b"\r\n\r\n")[2] for one in (first, second)}
    assert parts == {b"labels": b"<labels/>\r\n", b"file": path.read_bytes()}


@pytest.mark.parametrize(("labels", "columns"), [(-3, "-3"), (["rock", "jazz"], "rock,jazz")])
def test_columns_of_labels_are_named_in_the_address(labels: Any, columns: str) -> None:
    (request,) = uploaded(ok(DATASET, 201), source=b"x", labels=labels, format="csv").requests
    assert query_of(request)["label_columns"] == columns


def test_a_source_that_is_none_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    for source, kind, message in (
        (b"x", ValueError, "format must be given"),
        (tmp_path / "songs.txt", ValueError, "format must be given"),
        (tmp_path / "none.csv", FileNotFoundError, "none.csv"),
        (3, ValueError, "format must be given"),
    ):
        with pytest.raises(kind, match=message):
            uploaded(source=source)
    for source in (3, io.StringIO("x")):
        with pytest.raises(TypeError, match="binary mode"):
            uploaded(source=source, format="csv")


def test_a_data_set_says_what_it_is() -> None:
    calls = DatasetRequests(RETRY)
    found = FakeServer(ok(DATASET, 201))(calls.upload_dataset("songs", b"x", format="csv", labels=1))
    assert found == DatasetInfo(**DATASET)
    (listed,) = FakeServer(ok({"datasets": [DATASET]}))(calls.datasets())
    assert listed == found
    fake = FakeServer(ok({**DATASET, "label_names": ["rock"]}))
    assert fake(calls.dataset("songs", details=True)).details == {"label_names": ["rock"]}
    assert fake.requests[0].path == "/v1/datasets/songs?details=true"


def test_a_name_taken_by_the_attempt_that_got_no_answer_is_no_conflict() -> None:
    data = b"a,b\n1,0\n"
    same = {**DATASET, "checksum": f"sha256:{sha256(data).hexdigest()}"}
    taken = problem(409, "dataset_exists")
    fake = uploaded(CUT, taken, ok(same), source=data, format="csv", labels=1)
    assert [request.method for request in fake.requests] == ["POST", "POST", "GET"]
    for replies in ([taken], [CUT, taken, ok(DATASET)], [CUT, taken, ok({**same, "format": "libsvm"})]):
        with pytest.raises(Conflict):
            uploaded(*replies, source=data, format="csv", labels=1)


# -- submitting ---------------------------------------------------------------------------------------

SPEC: dict[str, Any] = {"trainer": "m3l", "model": "m", "params": {"C": 1.0}, "search": None, "seed": None}


@pytest.mark.parametrize("key", [None, "mine"])
def test_a_job_is_submitted_once_whatever_its_retries(key: str | None) -> None:
    fake = FakeServer(CUT, problem(503, "not_ready"), ok(JOB, 202))
    assert fake(TrainingRequests(RETRY).train(data="songs", key=key, **SPEC)) == "j1"
    assert len(fake.requests) == 3
    assert len({(request.headers["Idempotency-Key"], request.body) for request in fake.requests}) == 1
    assert key in (None, fake.keys[0])
    assert fake.bodies[0] == {"trainer": "m3l", "model": "m", "params": {"C": 1.0}, "data": {"dataset": "songs"}}


def test_two_jobs_are_two() -> None:
    fake = FakeServer(ok(JOB, 202), ok(JOB, 202))
    for _ in range(2):
        fake(TrainingRequests(RETRY).train(data={"stream": "tags", "last": 10}, **SPEC))
    assert fake.keys[0] != fake.keys[1]
    assert fake.bodies[0]["data"] == {"stream": "tags", "last": 10}


def test_what_is_wrong_with_a_job_is_told() -> None:
    wrong = [{"pointer": "/params/c", "detail": "is not known here, only C"}]
    with pytest.raises(Invalid) as caught:
        FakeServer(problem(422, "invalid_request", errors=wrong))(TrainingRequests(RETRY).train(data="songs", **SPEC))
    assert caught.value.errors[0].pointer == "/params/c"


def test_jobs_and_trainers_are_listed() -> None:
    fake = FakeServer(ok({"jobs": [JOB, DONE]}), ok({"jobs": []}))
    running, done = fake(TrainingRequests(RETRY).jobs(state="running", limit=5))
    assert running.progress == JobProgress(**PROGRESS)  # type: ignore[arg-type]
    assert (running.has_ended, done.has_ended, done.result.version) == (False, True, 2)
    fake(TrainingRequests(RETRY).jobs())
    assert [request.path for request in fake.requests] == ["/v1/jobs?state=running&limit=5", "/v1/jobs"]
    described = {"name": "m3l", "title": "M3L", "needs": "rows", "params": {}}
    (one,) = FakeServer(ok({"trainers": [described]}))(TrainingRequests(RETRY).trainers())
    assert one.title == "M3L"


# -- one job ------------------------------------------------------------------------------------------


def test_waiting_asks_less_and_less_often_until_the_end() -> None:
    fake = FakeServer(*[ok(JOB)] * 20, ok(DONE))
    assert fake(job().wait()).result.version == 2
    assert fake.pauses == sorted(fake.pauses)
    assert (fake.pauses[0], fake.pauses[-1]) == (0.05, MAX_POLL_SECONDS)


def test_waiting_goes_on_over_a_restart_of_the_server() -> None:
    fake = FakeServer(ok(JOB), CUT, problem(503, "not_ready"), ok(DONE))
    assert fake(job().wait()).state == "succeeded"


@pytest.mark.parametrize(
    ("end", "message"), [(FAILED, "failed: Y has one class"), ({**JOB, "state": "cancelled"}, "was")]
)
def test_a_job_without_a_result_is_an_error(end: Any, message: str) -> None:
    with pytest.raises(JobFailed, match=message) as caught:
        FakeServer(ok(JOB), ok(end))(job().wait())
    assert caught.value.job.state == end["state"]


def test_waiting_ends_when_the_time_is_over() -> None:
    fake = FakeServer(*[ok(JOB)] * 100)
    with pytest.raises(TimeoutError, match="still running"):
        fake(job(lambda: sum(fake.pauses)).wait(2.0))
    assert sum(fake.pauses) == pytest.approx(2.0)


def test_a_cancel_whose_answer_was_lost_is_no_conflict() -> None:
    cancelled = {**JOB, "state": "cancelled"}
    assert FakeServer(ok(cancelled))(job().cancel()).state == "cancelled"
    assert FakeServer(CUT, problem(409, "job_ended"), ok(cancelled))(job().cancel()).state == "cancelled"
    with pytest.raises(Conflict):
        FakeServer(problem(409, "job_ended"))(job().cancel())
    with pytest.raises(Conflict):
        FakeServer(CUT, problem(409, "job_ended"), ok(DONE))(job().cancel())


def test_a_retry_whose_answer_was_lost_is_no_conflict() -> None:
    queued = {**JOB, "state": "queued"}
    assert FakeServer(CUT, problem(409, "job_not_retryable"), ok(queued))(job().retry()).state == "queued"
    with pytest.raises(Conflict):
        FakeServer(problem(409, "job_not_retryable"))(job().retry())


def test_the_log_has_its_lines() -> None:
    (line,) = FakeServer(ok({"lines": [{"n": 1, "time": "t", "text": "begins"}]}))(job().log())
    assert (line.n, line.time, line.text) == (1, "t", "begins")


def test_events_of_a_job_are_read_and_resumed() -> None:
    events = job().events()
    text = f"event: progress\ndata: {json.dumps(PROGRESS)}\nid: 41\n\n"
    (event,) = [event for line in text.split("\n") if (event := events.feed(line)) is not None]
    assert (event.kind, event.id, event.data["gap"]) == ("progress", "41", 0.1)
    assert events.request.path == "/v1/jobs/j1/events"
    assert events.request.headers["Last-Event-ID"] == "41"


@pytest.mark.parametrize("content", [b"<html>", b"{}", b'{"id": 3}', b"[]"])
def test_an_answer_of_another_program_is_not_understood(content: bytes) -> None:
    answer = httpx2.Response(200, content=content, request=httpx2.Request("GET", "http://s/"))
    versions = ModelRequests("m", RETRY)
    for call in (
        job().status(), job().log(), TrainingRequests(RETRY).jobs(), TrainingRequests(RETRY).trainers(),
        DatasetRequests(RETRY).datasets(), versions.versions(), versions.promote(1), versions.detail(),
    ):  # fmt: skip
        with pytest.raises(UnexpectedAnswer):
            FakeServer(answer)(call)


# -- versions -----------------------------------------------------------------------------------------


def test_versions_are_listed_promoted_and_looked_into() -> None:
    one = {
        "version": 1, "served": True, "created": "t", "job": "j1", "trainer": "m3l", "params": {}, "measures": None,
        "rows": 3, "bytes": 9, "position": "4",
    }  # fmt: skip
    detail = {
        "version": 1, "trainer": "m3l", "params": {}, "measures": None, "label_scores": None,
        "label_correlation": None, "view_weights": None, "convergence": {"iteration": [1]},
    }  # fmt: skip
    promoted = {"model": "m", "version": 1, "previous": 2, "position": "5"}
    fake = FakeServer(
        ok({"versions": [one]}), CUT, ok(promoted), ok(detail), ok(detail),
        httpx2.Response(200, content=b"model"),
    )  # fmt: skip
    calls = ModelRequests("m", RETRY)
    (version,) = fake(calls.versions())
    assert (version.served, version.bytes) == (True, 9)
    assert fake(calls.promote(1)).previous == 2
    assert fake(calls.detail()) == fake(calls.detail(1))
    assert fake(calls.download_version(1)) == b"model"
    assert [f"{request.method} {request.path}" for request in fake.requests] == [
        "GET /v1/models/m/versions", "POST /v1/models/m/promote", "POST /v1/models/m/promote",
        "GET /v1/models/m/detail", "GET /v1/models/m/detail?version=1",
        "GET /v1/models/m/versions/1",
    ]  # fmt: skip
    assert fake.bodies == [{"version": 1}] * 2


def test_deleting_what_an_attempt_without_an_answer_deleted_is_success() -> None:
    for call, code in (
        (lambda: ModelRequests("m", RETRY).delete_version(1), "version_not_found"),
        (lambda: DatasetRequests(RETRY).delete_dataset("songs"), "dataset_not_found"),
    ):
        FakeServer(httpx2.Response(204))(call())
        FakeServer(CUT, problem(404, code))(call())
        with pytest.raises(NotFound):
            FakeServer(problem(404, code))(call())
        with pytest.raises(ConnectionFailed):
            FakeServer(*[httpx2.ConnectError("refused")] * 3)(call())


def test_views_are_written_each_in_its_form() -> None:
    class Row:
        def tolist(self) -> list[float]:
            return [1.0, 2.0]

    views = {"views": {"text": {"word=cat": 1}, "image": Row()}}
    assert json.loads(encode_example(views)) == {"views": {"text": {"word=cat": 1}, "image": [1.0, 2.0]}}
    assert json.loads(encode_example(views, ["pets"]))["y"] == ["pets"]
    assert json.loads(encode_example({"views": 3.0})) == {"x": {"views": 3.0}}, "a feature may have that name"
    with pytest.raises(TypeError, match=r"^/views must be a mapping"):
        encode_example({"views": {"text": "cat"}})
