"""Keys that may connect a project of Label Studio."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.service.access.keyed import Keyed
from tests.support.http_server import http_server

CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="topic" toName="text" choice="multiple">'
    '<Choice value="a"/></Choices></View>'
)
TRAIN = {"action": "START_TRAINING", "project": {"id": 7, "label_config": CONFIG}}


class Studio(BaseHTTPRequestHandler):
    tokens: list[str | None] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.tokens.append(self.headers["Authorization"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"tasks": []}')


@pytest.fixture
def studio() -> Iterator[str]:
    Studio.tokens.clear()
    with http_server(Studio) as url:
        yield url


@pytest.fixture
def keyed(serve: Callable[..., Any], studio: str) -> Iterator[Keyed]:
    with serve(label_studio_urls=studio, job_slots=0) as client:
        keyed = Keyed(client)
        assert keyed.call("post", "/v1/models", json={"name": "tags", "algorithm": "falt"}).status_code == 201
        yield keyed


def test_only_a_key_that_may_learn_connects_a_project(keyed: Keyed, studio: str) -> None:
    def ask(what: str, key: str, **body: Any) -> Any:
        return keyed.call("post", f"/v1/label-studio/tags/{what}", key, json=body)

    def setup(key: str, token: str) -> None:
        answer = ask("setup", key, project="7.1", schema=CONFIG, hostname=studio, access_token=token)
        assert answer.status_code == 200
        assert answer.json()["model_version"]

    learner = keyed.make(scopes=["predict", "learn"])["key"]
    others = (keyed.make(scopes=["predict"])["key"], keyed.make(scopes=["predict"], models=["tags"])["key"])
    for other in others:
        setup(other, "theirs")
    assert ask("webhook", learner, **TRAIN).status_code == 422
    annotation = {"id": 1, "project": 7, "updated_at": "2026-11-23T05:09:56Z", "result": []}
    body = {
        "action": "ANNOTATION_CREATED",
        "annotation": annotation,
        "task": {"data": {"text": "a"}},
        "project": {"id": 7},
    }
    assert ask("webhook", learner, **body).status_code == 422, "the configuration of others is not used"
    setup(learner, "ours")
    for other in others:
        setup(other, "theirs")
    assert ask("webhook", learner, **TRAIN).status_code == 200
    assert ask("webhook", learner, **body).status_code == 200
    assert Studio.tokens == ["Token ours"]
