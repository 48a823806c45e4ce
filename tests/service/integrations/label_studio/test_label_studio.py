"""A model as the backend of Label Studio, by what Label Studio 1.23 sends."""

import asyncio
import base64
import copy
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import numpy as np
import pytest
import structlog
from starlette.testclient import TestClient
from tests.service.api.answers import create, new_model
from tests.support.cases import for_each
from tests.support.http_server import http_server
from tests.support.server_process import free_port

from manylabel_service.integrations.label_studio import connection
from manylabel_service.integrations.label_studio import router as label_studio
from manylabel_service.settings import Settings
from manylabel_service.slices import Pace

CONFIG = (
    '<View><Text name="text" value="$text"/><Image name="picture" value="$photo"/>'
    '<Choices name="topic" toName="text" choice="multiple"><Choice value="cats"/><Choice value="dogs"/></Choices>'
    "</View>"
)
SPAM = (
    '<View><Text name="text" value="$text"/><Choices name="spam" toName="text" choice="single">'
    '<Choice value="Yes"/><Choice value="No"/></Choices></View>'
)
TASK: dict[str, Any] = {
    "id": 31, "data": {"text": "A cat meows", "source": "web", "photo": "/data/upload/1.jpg"}, "meta": {},
    "created_at": "2026-11-23T05:09:56.380750Z", "updated_at": "2026-11-23T05:09:56.904255Z", "is_labeled": True,
    "allow_skip": True, "overlap": 1, "inner_id": 1, "total_annotations": 1, "cancelled_annotations": 0,
    "total_predictions": 0, "precomputed_agreement": None, "comment_count": 0, "unresolved_comment_count": 0,
    "last_comment_updated_at": None, "project": 2, "updated_by": 1, "file_upload": None, "comment_authors": [],
}  # fmt: skip
ANNOTATION: dict[str, Any] = {
    "id": 14, "result": [{"from_name": "topic", "to_name": "text", "type": "choices", "value": {"choices": ["cats"]}}],
    "was_cancelled": False, "ground_truth": False, "created_at": "2026-11-23T05:09:56.665814Z",
    "updated_at": "2026-11-23T05:09:56.665852Z", "draft_created_at": None, "lead_time": 3.2, "prediction": {},
    "result_count": 1, "unique_id": "8ac4c8cf-8b4a-40d6-8450-19735937c9f6", "import_id": None, "last_action": None,
    "bulk_created": False, "task": 31, "project": 2, "completed_by": 1, "updated_by": 1, "parent_prediction": None,
    "parent_annotation": None, "last_created_by": None,
}  # fmt: skip
PROJECT: dict[str, Any] = {
    "id": 2, "task_number": 1, "total_annotations_number": 1, "title": "capture", "label_config": CONFIG,
    "maximum_annotations": 1, "sampling": "Sequential sampling", "model_version": "cap", "organization": 1,
}  # fmt: skip
SETUP = {
    "project": "2.1795410596", "schema": CONFIG, "hostname": "http://localhost:18080", "access_token": "0123",
    "extra_params": None,
}  # fmt: skip


def message(action: str = "ANNOTATION_CREATED", id: int = 14, updated: int = 0, **changed: Any) -> Any:
    """Return a webhook's message about annotation `id` after a number of updates."""
    annotation = {**copy.deepcopy(ANNOTATION), "id": id, "updated_at": f"2026-11-23T05:09:56.{665_852 + updated}Z"}
    return {"action": action, "annotation": {**annotation, **changed}, "task": TASK, "project": PROJECT}


def chosen(name: str, *choices: str) -> list[Any]:
    return [{"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": list(choices)}}]


class Backend:
    """A model at both its addresses."""

    def __init__(self, client: TestClient, address: str) -> None:
        self.client, self.address = client, address
        self.name = address.rpartition("/")[2]

    def ask(self, what: str, body: Any = None) -> Any:
        path = f"/v1/label-studio/{self.name}/{what}"
        return self.client.get(path) if body is None else self.client.post(path, json=body)

    def ok(self, what: str, body: Any = None) -> Any:
        answer = self.ask(what, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def learnt(self, body: Any) -> tuple[int, int, int]:
        answer = self.ok("webhook", body)
        return answer["learnt"], answer["known"], answer["refused"]

    @property
    def status(self) -> Any:
        return self.client.get(self.address).json()

    def examples(self) -> dict[str, int]:
        labels = self.client.get(f"{self.address}/labels").json()["labels"]
        return {one["label"]: one["examples"] for one in labels}


@pytest.fixture(scope="module")
def studio_server() -> Iterator[type["Studio"]]:
    with http_server(Studio) as Studio.address:
        yield Studio


@pytest.fixture
def studio(studio_server: type["Studio"]) -> type["Studio"]:
    """A Label Studio without tasks, the only server that the application may request."""
    studio_server.tasks, studio_server.asked = [], []
    studio_server.status, studio_server.headers_sent, studio_server.body = 200, {}, None
    return studio_server


@pytest.fixture(scope="module")
def client(serve: Callable[..., Any], studio_server: type["Studio"]) -> Iterator[TestClient]:
    with serve(label_studio_urls=studio_server.address) as client:
        yield client


@pytest.fixture
def made(client: TestClient) -> Callable[..., Backend]:
    return lambda **spec: Backend(client, new_model(client, **spec))


@pytest.fixture
def backend(made: Callable[..., Backend]) -> Backend:
    return made(text={"fields": ["text"]})


def test_a_project_is_connected(backend: Backend) -> None:
    assert backend.ok("health") == {"status": "UP", "model_class": backend.name}
    version = backend.ok("setup", SETUP)["model_version"]
    assert backend.ok("setup", SETUP) == {"model_version": version}
    assert backend.ok("versions") == {"versions": [version]}


def test_calls_about_an_absent_model_do_not_find_it(client: TestClient) -> None:
    bodies = {"setup": SETUP, "predict": {"tasks": [], "label_config": CONFIG}, "webhook": message()}
    for what in ("health", "versions", *bodies):
        path = f"/v1/label-studio/none/{what}"
        answer = client.post(path, json=bodies[what]) if what in bodies else client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "model_not_found")


def test_annotations_are_learnt_as_records_are(backend: Backend, made: Callable[..., Backend]) -> None:
    other = made(text={"fields": ["text"]})
    assert backend.learnt(message()) == (1, 0, 0)
    x = {"text": "A cat meows", "source": "web"}  # images are no features
    other.client.post(f"{other.address}/update", json={"x": x, "y": ["cats"]}).raise_for_status()
    ours, theirs = backend.status, other.status
    assert (ours["features"], ours["labels"], ours["metrics"]) == (theirs["features"], 1, theirs["metrics"])
    for address in (backend, other):
        address.answer = address.client.post(f"{address.address}/predict", json={"x": x}).json()  # type: ignore[attr-defined]
    assert backend.answer["scores"] == other.answer["scores"]  # type: ignore[attr-defined]


def test_a_vector_of_a_task_is_learnt_as_that_of_a_record(made: Callable[..., Backend]) -> None:
    x = {"text": "A cat meows", "embedding": [0.5, -0.25, 1.0]}
    packed = {**x, "embedding": {"f32": base64.b64encode(np.array(x["embedding"], "<f4").tobytes()).decode()}}
    learnt = []
    for data in (x, packed):
        backend = made(text={"fields": ["text"]})
        assert backend.learnt({**message(), "task": {**TASK, "data": data}}) == (1, 0, 0)
        learnt.append(backend.client.post(f"{backend.address}/predict", json={"x": x}).json()["scores"])
    other = made(text={"fields": ["text"]})
    other.client.post(f"{other.address}/update", json={"x": x, "y": ["cats"]}).raise_for_status()
    assert learnt == [other.client.post(f"{other.address}/predict", json={"x": x}).json()["scores"]] * 2
    same = {"examples": [{"x": x, "y": ["cats"]}] * 9}  # a field takes vectors of one length once ten had it
    backend.client.post(f"{backend.address}/update", json=same).raise_for_status()
    wrong = {**TASK, "data": {**x, "embedding": [1.0]}}
    refused = backend.ask("webhook", {**message(id=15), "task": wrong})
    assert (refused.status_code, "embedding" in refused.json()["errors"][0]["detail"]) == (422, True)
    assert backend.status["updates"] == 10


def test_an_annotation_is_learnt_once_and_again_when_edited(backend: Backend) -> None:
    assert [backend.learnt(message()) for _ in range(3)] == [(1, 0, 0), (0, 1, 0), (0, 1, 0)]
    edited = message("ANNOTATION_UPDATED", updated=1, result=chosen("topic", "dogs"))
    assert backend.learnt(edited) == (1, 0, 0)
    assert backend.learnt(edited) == (0, 1, 0)
    assert (backend.status["updates"], backend.examples()) == (2, {"cats": 1, "dogs": 1})
    assert backend.learnt(message(id=15)) == (1, 0, 0)


def test_a_message_may_have_several_annotations(backend: Backend) -> None:
    first, second = message()["annotation"], message(id=15)["annotation"]
    body = {"action": "ANNOTATIONS_CREATED", "annotation": [first, second], "task": [TASK, TASK], "project": PROJECT}
    assert backend.learnt(body) == (2, 0, 0)
    assert backend.learnt(message()) == (0, 1, 0)


def test_yes_and_no_are_partial_labels(backend: Backend) -> None:
    project = {**PROJECT, "label_config": SPAM}
    for number, answer in enumerate(("Yes", "No")):
        body = {**message(id=number, result=chosen("spam", answer)), "project": project}
        assert backend.learnt(body) == (1, 0, 0)
    assert backend.learnt({**message(id=9, result=[]), "project": project}) == (0, 0, 0)
    (one,) = backend.client.get(f"{backend.address}/labels").json()["labels"]
    assert (one["label"], one["frequency"]) == ("spam", 0.5)


@pytest.mark.parametrize(
    "body",
    [
        message(was_cancelled=True),
        {"action": "TASKS_CREATED", "tasks": [{"id": 31}], "project": PROJECT},
        {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 14}], "project": PROJECT},
        {"action": "SOMETHING_NEW"},
    ],
)
def test_other_messages_change_nothing(backend: Backend, body: Any) -> None:
    assert backend.learnt(body) == (0, 0, 0)
    assert backend.status["updates"] == 0


def test_tasks_are_predicted_in_order(backend: Backend) -> None:
    texts = {"cats": "meow purr", "dogs": "bark fetch"}
    for number in range(40):
        label = ("cats", "dogs")[number % 2]
        body = message(id=number, result=chosen("topic", label))
        assert backend.learnt({**body, "task": {**TASK, "data": {"text": texts[label]}}}) == (1, 0, 0)
    tasks = [{**TASK, "id": at, "data": data} for at, data in enumerate(
        [{"text": "bark fetch"}, {"text": "meow purr", "photo": "x"}, {"text": {"no": [["record"]]}}, {}]
    )]  # fmt: skip
    params = {"login": None, "password": None, "context": None}
    body = {"tasks": tasks, "project": "2.1795410596", "label_config": CONFIG, "params": params}
    answer = backend.ok("predict", body)
    dog, cat, broken, empty = answer["results"]
    assert (dog["result"], cat["result"]) == (chosen("topic", "dogs"), chosen("topic", "cats"))
    assert broken == {"result": [], "score": 0.0, "model_version": dog["model_version"]}
    assert 0 <= empty["score"] < dog["score"] <= 1
    assert dog["model_version"] == backend.ok("setup", SETUP)["model_version"] == backend.ok("versions")["versions"][-1]
    assert backend.status["updates"] == 40


def test_a_model_that_knows_nothing_predicts_nothing(backend: Backend) -> None:
    (one,) = backend.ok("predict", {"tasks": [TASK], "label_config": CONFIG})["results"]
    assert (one["result"], one["score"]) == ([], 0.0)
    assert backend.ok("predict", {"tasks": [], "label_config": CONFIG}) == {"results": []}


def test_fields_shown_as_text_are_text(made: Callable[..., Backend]) -> None:
    plain = made()
    plain.learnt(message())
    assert plain.status["features"] == 3  # cat, meows, source=web; a single letter is no word


def test_fields_that_no_record_has_are_skipped_and_logged_once(backend: Backend) -> None:
    body = message()
    body["task"] = {**TASK, "data": {**TASK["data"], "regions": [{"x": 1, "y": 2}]}}
    with structlog.testing.capture_logs() as logs:
        assert backend.learnt(body) == (1, 0, 0)
        (one,) = backend.ok("predict", {"tasks": [body["task"]], "label_config": CONFIG})["results"]
    assert one["score"] > 0
    assert [line["fields"] for line in logs if line["event"] == "task_fields_skipped"] == [["regions"]]


def test_bad_requests_are_refused_at_their_place(backend: Backend, made: Callable[..., Backend]) -> None:
    bomb = '<!DOCTYPE v [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><View>&b;</View>'
    closed = made(labels=["cats"])
    wrong: list[tuple[Backend, str, Any, str]] = [
        (backend, "setup", {**SETUP, "schema": bomb}, "/schema"),
        (backend, "setup", {**SETUP, "schema": "<View/>"}, "/schema"),
        (closed, "setup", SETUP, "/schema"),
        (backend, "predict", {"tasks": [TASK], "label_config": bomb}, "/label_config"),
        (backend, "predict", {"tasks": [{"id": 1}], "label_config": CONFIG}, "/tasks/0/data"),
        (backend, "webhook", {**message(), "project": {**PROJECT, "label_config": bomb}}, "/project/label_config"),
        (backend, "webhook", {"action": "ANNOTATION_CREATED"}, ""),
        (backend, "webhook", message(updated_at="now"), "/annotation"),
        (backend, "webhook", message(result=chosen("topic", "x" * 257)), "/annotation/result"),
        (backend, "webhook", message(result=chosen("topic", "")), "/annotation/result"),
        (backend, "webhook", {**message(), "task": {"id": 1, "data": {"a": {"b": [[1]]}}}}, "/task/data/a/b/0"),
        (closed, "webhook", message(result=chosen("topic", "dogs")), "/annotation/result"),
        (backend, "webhook", {"action": "START_TRAINING", "project": {**PROJECT, "id": 77}}, "/project/id"),
    ]
    for at, what, body, pointer in wrong:
        answer = at.ask(what, body)
        assert (answer.status_code, answer.json().get("code")) == (422, "invalid_request"), (what, body, answer.text)
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert (backend.status["updates"], closed.status["updates"]) == (0, 0)


# -- lost messages --------------------------------------------------------------------------


class Studio(BaseHTTPRequestHandler):
    """A Label Studio that sends its tasks in pages to clients with its token."""

    address: str
    tasks: list[Any]
    asked: list[str]
    status: int
    headers_sent: dict[str, str]
    body: bytes | None

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        status = self.status if self.headers["Authorization"] == "Token 0123" else 401
        page = int(self.path.partition("&page=")[2].partition("&")[0])
        found = self.tasks[(page - 1) * 100 : page * 100]
        raw = self.body or json.dumps({"total": len(self.tasks), "tasks": found}).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(raw)), **self.headers_sent}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)


def annotated(id: int, **changed: Any) -> Any:
    annotation = message(id=id, **changed)["annotation"]
    del annotation["prediction"]
    return {**TASK, "id": id, "annotations": [annotation], "predictions": []}


TRAIN = {"action": "START_TRAINING", "project": PROJECT}


def test_a_training_learns_annotations_whose_messages_were_lost(backend: Backend, studio: Any) -> None:
    backend.ok("setup", {**SETUP, "hostname": studio.address})
    assert backend.learnt(message(id=1)) == (1, 0, 0)
    skipped, broken = annotated(3, was_cancelled=True), annotated(4, updated_at=None)
    studio.tasks = [annotated(1), annotated(2), skipped, broken, *(annotated(id) for id in range(100, 210)), {"id": 5}]
    assert backend.learnt(TRAIN) == (111, 1, 1)
    assert backend.learnt(TRAIN) == (0, 112, 1)
    assert backend.learnt(message(id=2)) == (0, 1, 0)
    assert backend.status["updates"] == 112
    assert len(studio.asked) == 4
    studio.tasks[1] = annotated(2, updated_at="2027-01-01T00:00:00Z", result=chosen("topic", "dogs"))
    assert backend.learnt(TRAIN) == (1, 111, 1)


def test_no_content_of_a_refused_annotation_is_logged(backend: Backend, studio: Any) -> None:
    backend.ok("setup", {**SETUP, "hostname": studio.address})
    studio.tasks = [{**annotated(7), "data": {"text": "a dog", "zebra": {"zebra": [["zebra"]]}}}]
    with structlog.testing.capture_logs() as logs:
        assert backend.learnt(TRAIN) == (0, 0, 1)
    (logged,) = [line for line in logs if line["event"] == "annotation_refused"]
    assert (logged["id"], logged["code"]) == (7, "invalid_request")
    assert "zebra" not in str(logs)


def connected(backend: Backend, studio: Any, **changed: Any) -> None:
    backend.ok("setup", {**SETUP, "hostname": studio.address, **changed})


def details(answer: Any) -> Any:
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid_request"), answer.text
    return problem["detail"], problem["errors"]


def test_all_failures_to_read_tasks_get_the_same_response(
    backend: Backend, studio: Any, serve: Callable[..., Any]
) -> None:
    connected(backend, studio)
    tasks, told = b'{"tasks": [%s]}', []
    failures: list[tuple[int, dict[str, str], bytes | None]] = [
        (301, {"Location": f"{studio.address}/elsewhere"}, None), (401, {}, None), (404, {}, None), (500, {}, None),
        (200, {}, b"<html>"), (200, {}, b"[]"), (200, {}, tasks % b"{no}"), (200, {}, tasks % b"[]"),
        (200, {}, b'{"tasks": [{}'), (200, {}, tasks % b",".join([b"{}"] * 101)),
        (200, {"Content-Encoding": "gzip"}, gzip.compress(tasks % b"")),
    ]  # fmt: skip
    for studio.status, studio.headers_sent, studio.body in failures:
        studio.asked.clear()
        told.append(details(backend.ask("webhook", TRAIN)))
        assert len(studio.asked) == 1, "a redirect is not followed"
    with serve(label_studio_urls=(closed := f"http://127.0.0.1:{free_port()}")) as client:
        other = Backend(client, create(client, "closed"))
        other.ok("setup", {**SETUP, "hostname": closed})
        told.append(details(other.ask("webhook", TRAIN)))
    assert told == told[:1] * len(told)
    assert backend.status["updates"] == 0


@pytest.mark.parametrize("rest", ["", "/", "/admin?x=#", "?x=", "#"])
def test_only_scheme_host_and_port_of_an_address_are_used(backend: Backend, studio: Any, rest: str) -> None:
    connected(backend, studio, hostname=studio.address.upper().replace("HTTP", "http") + rest)
    assert backend.learnt(TRAIN) == (0, 0, 0)
    assert [path.partition("?")[0] for path in studio.asked] == ["/api/tasks"]


def test_no_other_address_is_requested(backend: Backend, studio: Any) -> None:
    class Other(Studio):
        tasks, asked, status, headers_sent, body = [annotated(1)], [], 200, {}, None  # type: ignore[var-annotated]

    allowed = studio.address.removeprefix("http://")
    with http_server(Other) as address:
        other = address.removeprefix("http://")
        for hostname in (
            *(address, f"http://{allowed}@{other}", f"http://{other}#@{allowed}", f"http://{other}\\@{allowed}"),
            *(f"https://{allowed}", f"http://u:p@{allowed}", f"http://{allowed}0", f" {studio.address}", "", allowed),
        ):
            connected(backend, studio, hostname=hostname)
            assert details(backend.ask("webhook", TRAIN))[1][0]["pointer"] == "/project/id"
    assert (studio.asked, Other.asked) == ([], [])


def test_no_address_is_requested_without_the_setting(serve: Callable[..., Any], studio: Any) -> None:
    with serve() as client:
        backend = Backend(client, create(client, "off"))
        connected(backend, studio)
        detail, _ = details(backend.ask("webhook", TRAIN))
        assert "label_studio_urls" in detail
        assert backend.learnt(message()) == (1, 0, 0)
    assert studio.asked == []


@for_each(
    "url",
    [
        *("localhost:8080", "ftp://a", "http://a/b", "http://a?", "http://u@a", "http://a:0"),
        *("http://999.1.1.1", "http://2130706433", "http://[1:2]"),
    ],
)
def test_a_bad_address_in_the_setting_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="label_studio_urls"):
        Settings(label_studio_urls=f"http://localhost:8080,{url}")


def test_the_fields_of_setup_are_bounded(backend: Backend, studio: Any) -> None:
    long = {
        "hostname": f"{studio.address}/".ljust(2048, "x"),
        "access_token": "x" * 512,
        "project": "2.".ljust(64, "1"),
    }
    connected(backend, studio, **long)
    for field, value in long.items():
        answer = backend.ask("setup", {**SETUP, field: f"{value}x"})
        assert details(answer)[1][0]["pointer"] == f"/{field}"
    for token in ("\u00e9", "a b", "a\n"):
        assert details(backend.ask("setup", {**SETUP, "access_token": token}))[1][0]["pointer"] == "/access_token"
    assert details(backend.ask("setup", {**SETUP, "schema": "x" * (2**18 + 1)}))[1][0]["pointer"] == "/schema"


def test_an_annotation_that_cannot_be_learnt_does_not_end_the_training(backend: Backend, studio: Any) -> None:
    connected(backend, studio)
    times = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
    bad = [annotated(id, updated_at=time) for id, time in enumerate(times)]
    for task in bad:
        answer = backend.ask("webhook", {"action": "ANNOTATION_CREATED", "annotation": task["annotations"][0],
                                         "task": TASK, "project": PROJECT})  # fmt: skip
        assert details(answer)[1][0]["pointer"] == "/annotation"
    used = {"Idempotency-Key": "label-studio-2-7-20261123T050956.665852"}
    body = {"x": {"a": 1}, "y": []}
    backend.client.post(f"{backend.address}/update", json=body, headers=used).raise_for_status()
    wide = {**annotated(8), "data": {"text": [0] * (connection.MAX_TASK_VALUES + 1)}}
    long = {**annotated(9), "data": {"text": "x" * connection.MAX_TASK_BYTES}}
    studio.tasks = [*bad, annotated(7), wide, long, annotated(10)]
    with structlog.testing.capture_logs() as logs:
        assert backend.learnt(TRAIN) == (1, 0, 5)
    codes = [line["code"] for line in logs if line["event"] == "annotation_refused"]
    assert codes == ["invalid_request"] * 2 + ["idempotency_key_reused"] + ["task_too_large"] * 2


def test_a_page_is_not_requested_after_the_deadline(
    backend: Backend, studio: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected(backend, studio)
    studio.tasks = [{**TASK, "id": id} for id in range(300)]  # without annotations
    monkeypatch.setattr(label_studio, "RECONCILING_SECONDS", -1.0)
    assert backend.learnt(TRAIN) == (0, 0, 0)
    assert studio.asked == []


# -- long requests and limits -------------------------------------------------------


@contextmanager
def turns(client: TestClient, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[list[int]]:
    """Yield a list that gets the number of turns of the event loop at each call of a function.

    Long work yields to the event loop as often as it can.
    """
    count, ended, seen, function = 0, False, list[int](), getattr(owner, name)
    monkeypatch.setattr(Pace, "seconds", 0.0)

    def noting(*args: Any) -> Any:
        seen.append(count)
        return function(*args)

    async def run() -> None:
        nonlocal count
        while not ended:
            count += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(owner, name, noting)
    portal = client.portal
    assert portal is not None
    task = portal.start_task_soon(run)
    try:
        yield seen
    finally:
        ended = True
        task.result()


MANY = 50


@pytest.mark.parametrize(("owner", "name"), [(label_studio.TaskReader, "features"), (label_studio, "shown")])
def test_other_requests_are_served_between_tasks(
    backend: Backend, client: TestClient, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    body = {"tasks": [{"data": {"text": [[1]]}}] * MANY, "label_config": CONFIG}
    with turns(client, monkeypatch, owner, name) as seen:
        backend.ok("predict", body)
    assert len(set(seen)) == len(seen) == MANY


def test_other_requests_are_served_between_annotations(
    backend: Backend, studio: Any, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped = annotated(1, was_cancelled=True)["annotations"] * MANY
    body = {"action": "ANNOTATIONS_CREATED", "annotation": skipped, "task": [TASK] * MANY, "project": PROJECT}
    connected(backend, studio)
    studio.tasks = [{**TASK, "annotations": skipped}]
    with turns(client, monkeypatch, label_studio.TaskReader, "example") as seen:
        for sent in (body, TRAIN):
            assert backend.learnt(sent) == (0, 0, 0)
    assert len(set(seen)) == len(seen) == 2 * MANY


def test_tasks_times_choices_are_bounded(serve: Callable[..., Any]) -> None:
    with serve(max_response_scores=100) as client:
        backend = Backend(client, create(client, "narrow"))
        tasks = [{"data": {}}] * 50
        assert len(backend.ok("predict", {"tasks": tasks, "label_config": CONFIG})["results"]) == 50
        answer = backend.ask("predict", {"tasks": [*tasks, *tasks[:1]], "label_config": CONFIG})
        assert (answer.status_code, answer.json()["code"]) == (413, "batch_too_large")


def test_items_of_a_message_are_bounded(serve: Callable[..., Any]) -> None:
    with serve(max_batch_examples=2) as client:
        backend = Backend(client, create(client, "few"))
        for what, field, others in (
            ("predict", "tasks", {"label_config": CONFIG}),
            ("webhook", "annotation", {"action": "ANNOTATIONS_CREATED"}),
            ("webhook", "task", {"action": "ANNOTATIONS_CREATED"}),
        ):
            answer = backend.ask(what, {field: [{}] * 3, **others})
            assert (answer.status_code, answer.json()["code"]) == (413, "batch_too_large")


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"annotation": 5}, {"/annotation"}),
        ({"annotation": [5], "task": [TASK]}, {"/annotation", "/annotation/0"}),
        ({"task": {"data": []}}, {"/task", "/task/data"}),
        ({"task": [{"id": []}]}, {"/task", "/task/0/id", "/task/0/data"}),
        ({"project": "x"}, {"/project"}),
    ],
)
def test_a_refused_message_names_its_places(backend: Backend, changes: Any, places: set[str]) -> None:
    answer = backend.ask("webhook", {**message(), **changes})
    assert (answer.status_code, {error["pointer"] for error in answer.json()["errors"]}) == (422, places)


def test_a_task_with_too_many_fields_is_not_learnt(backend: Backend) -> None:
    task = {"data": {f"f{number}": number for number in range(50_001)}}
    answer = backend.ask("webhook", {**message(), "task": task})
    assert (answer.status_code, [error["pointer"] for error in answer.json()["errors"]]) == (422, ["/task/data"])
    (shown,) = backend.ok("predict", {"tasks": [task], "label_config": CONFIG})["results"]
    assert (shown["result"], shown["score"]) == ([], 0)
