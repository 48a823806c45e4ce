"""A model as the backend of Label Studio, by what Label Studio 1.23 sends."""

import asyncio
import base64
import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import structlog
from starlette.testclient import TestClient
from tests.service.api.answers import create, new_model

from manylabel_service.integrations.label_studio import router as label_studio
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

    def learnt(self, body: Any) -> tuple[int, int]:
        answer = self.ok("webhook", body)
        return answer["learnt"], answer["known"]

    @property
    def status(self) -> Any:
        return self.client.get(self.address).json()

    def examples(self) -> dict[str, int]:
        labels = self.client.get(f"{self.address}/labels").json()["labels"]
        return {one["label"]: one["examples"] for one in labels}


@pytest.fixture(scope="module")
def client(serve: Callable[..., Any]) -> Iterator[TestClient]:
    with serve() as client:
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
    assert backend.learnt(message()) == (1, 0)
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
        assert backend.learnt({**message(), "task": {**TASK, "data": data}}) == (1, 0)
        learnt.append(backend.client.post(f"{backend.address}/predict", json={"x": x}).json()["scores"])
    other = made(text={"fields": ["text"]})
    other.client.post(f"{other.address}/update", json={"x": x, "y": ["cats"]}).raise_for_status()
    assert learnt == [other.client.post(f"{other.address}/predict", json={"x": x}).json()["scores"]] * 2
    # After ten vectors of one length, the field accepts no other length.
    same = {"examples": [{"x": x, "y": ["cats"]}] * 9}
    backend.client.post(f"{backend.address}/update", json=same).raise_for_status()
    wrong = {**TASK, "data": {**x, "embedding": [1.0]}}
    refused = backend.ask("webhook", {**message(id=15), "task": wrong})
    assert (refused.status_code, "embedding" in refused.json()["errors"][0]["detail"]) == (422, True)
    assert backend.status["updates"] == 10


def test_an_annotation_is_learnt_once_and_again_when_edited(backend: Backend) -> None:
    assert [backend.learnt(message()) for _ in range(3)] == [(1, 0), (0, 1), (0, 1)]
    edited = message("ANNOTATION_UPDATED", updated=1, result=chosen("topic", "dogs"))
    assert backend.learnt(edited) == (1, 0)
    assert backend.learnt(edited) == (0, 1)
    assert (backend.status["updates"], backend.examples()) == (2, {"cats": 1, "dogs": 1})
    assert backend.learnt(message(id=15)) == (1, 0)


def test_a_message_may_have_several_annotations(backend: Backend) -> None:
    first, second = message()["annotation"], message(id=15)["annotation"]
    body = {"action": "ANNOTATIONS_CREATED", "annotation": [first, second], "task": [TASK, TASK], "project": PROJECT}
    assert backend.learnt(body) == (2, 0)
    assert backend.learnt(message()) == (0, 1)


def test_yes_and_no_are_partial_labels(backend: Backend) -> None:
    project = {**PROJECT, "label_config": SPAM}
    for number, answer in enumerate(("Yes", "No")):
        body = {**message(id=number, result=chosen("spam", answer)), "project": project}
        assert backend.learnt(body) == (1, 0)
    assert backend.learnt({**message(id=9, result=[]), "project": project}) == (0, 0)
    (one,) = backend.client.get(f"{backend.address}/labels").json()["labels"]
    assert (one["label"], one["frequency"]) == ("spam", 0.5)


@pytest.mark.parametrize(
    "body",
    [
        message(was_cancelled=True),
        {"action": "TASKS_CREATED", "tasks": [{"id": 31}], "project": PROJECT},
        {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 14}], "project": PROJECT},
        {"action": "START_TRAINING", "project": PROJECT},
        {"action": "SOMETHING_NEW"},
    ],
)
def test_other_messages_change_nothing(backend: Backend, body: Any) -> None:
    assert backend.learnt(body) == (0, 0)
    assert backend.status["updates"] == 0


def test_tasks_are_predicted_in_order(backend: Backend) -> None:
    texts = {"cats": "meow purr", "dogs": "bark fetch"}
    for number in range(40):
        label = ("cats", "dogs")[number % 2]
        body = message(id=number, result=chosen("topic", label))
        assert backend.learnt({**body, "task": {**TASK, "data": {"text": texts[label]}}}) == (1, 0)
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
        assert backend.learnt(body) == (1, 0)
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
    ]
    for at, what, body, pointer in wrong:
        answer = at.ask(what, body)
        assert (answer.status_code, answer.json().get("code")) == (422, "invalid_request"), (what, body, answer.text)
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert (backend.status["updates"], closed.status["updates"]) == (0, 0)


def details(answer: Any) -> Any:
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid_request"), answer.text
    return problem["detail"], problem["errors"]


def test_the_configuration_of_setup_is_bounded(backend: Backend) -> None:
    assert details(backend.ask("setup", {**SETUP, "schema": "x" * (2**18 + 1)}))[1][0]["pointer"] == "/schema"


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
    backend: Backend, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped = [message(was_cancelled=True)["annotation"]] * MANY
    body = {"action": "ANNOTATIONS_CREATED", "annotation": skipped, "task": [TASK] * MANY, "project": PROJECT}
    with turns(client, monkeypatch, label_studio.TaskReader, "example") as seen:
        assert backend.learnt(body) == (0, 0)
    assert len(set(seen)) == len(seen) == MANY


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
            assert backend.ask(what, {field: [{}] * 2, **others}).status_code != 413


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
