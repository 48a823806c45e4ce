"""A stand-in for Label Studio: the calls of the worked example, with the recorded messages of Label Studio 1.23.2.

It shows that the example works with those messages. What Label Studio does with others, only a real one tells:
`make test-label-studio`.
"""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.support.http_server import http_server
from tests.support.waiting import DEADLINE_SECONDS

TOKEN = "0123"
TIME = "2026-11-23T14:15:42.626093Z"
# Recorded from Label Studio, without fields that follow from the other fields.
TASK: dict[str, Any] = {
    "meta": {}, "created_at": TIME, "updated_at": TIME, "is_labeled": False, "overlap": 1, "total_annotations": 0,
    "cancelled_annotations": 0, "total_predictions": 0, "comment_count": 0, "unresolved_comment_count": 0,
    "last_comment_updated_at": None, "project": 4, "updated_by": 1, "file_upload": None, "comment_authors": [],
}  # fmt: skip
ANNOTATION: dict[str, Any] = {
    "was_cancelled": False, "ground_truth": False, "created_at": TIME, "updated_at": TIME, "draft_created_at": None,
    "lead_time": None, "import_id": None, "last_action": None, "bulk_created": False, "project": 4, "completed_by": 1,
    "updated_by": 1, "parent_prediction": None, "parent_annotation": None, "last_created_by": None,
}  # fmt: skip
LOST = {
    **ANNOTATION,
    "result": [{"from_name": "topic", "to_name": "text", "type": "choices", "value": {"choices": ["dogs"]}}],
}
PREDICTION: dict[str, Any] = {
    "created_ago": "0 minutes", "cluster": None, "neighbors": None, "mislabeling": 0.0, "created_at": TIME,
    "updated_at": TIME, "model": None, "model_run": None, "project": 4,
}  # fmt: skip


class StandIn:
    """One project, with one backend, in memory."""

    def __init__(self) -> None:
        self.url = ""
        self.project: dict[str, Any] = {}
        self.tasks: list[dict[str, Any]] = []
        self.backend = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Do what a call asks for; return status and answer."""
        match method, path.strip("/").split("/")[1:]:
            case "POST", ["projects"]:
                self.project = {"id": 4, **body}
                return 201, self.project
            case "POST", ["ml"]:
                self.backend = body["url"]
                self._ask("/health")
                version = self._set_up()["model_version"]
                return 201, {"id": 5, "state": "CO", "error_message": None, "model_version": version, **body}
            case "POST", ["projects", "4", "import"]:
                for number, data in enumerate(body, 1):
                    task = {**TASK, "id": 210 + number, "inner_id": number, "data": data}
                    self.tasks.append({**task, "annotations": [], "predictions": []})
                return 201, {"task_count": len(body), "annotation_count": 0, "prediction_count": 0}
            case "GET", ["tasks"]:
                return 200, {"tasks": self.tasks, "total": len(self.tasks)}
            case "POST", ["tasks", id, "annotations"]:
                return 201, self._annotate(next(task for task in self.tasks if task["id"] == int(id)), body["result"])
            case "POST", ["dm", "actions"]:
                return 200, {"processed_items": len(self.tasks), "detail": f"Retrieved {self._predict()} predictions"}
        return 404, {"detail": f"{method} {path} was not recorded"}

    def _annotate(self, task: dict[str, Any], result: Any) -> Any:
        annotation = {**ANNOTATION, "id": task["id"] - 130, "result": result, "task": task["id"]}
        task["annotations"].append(annotation)
        shown = {name: value for name, value in task.items() if name not in ("annotations", "predictions")}
        sent = {**annotation, "prediction": {}, "result_count": 1}
        message = {"action": "ANNOTATION_CREATED", "annotation": sent, "project": self.project, "task": shown}
        self._ask("/webhook", message)
        return annotation

    def _predict(self) -> int:
        self._ask("/health")
        self._set_up()
        config = self.project["label_config"]
        request = {"tasks": self.tasks, "project": "4.1795443340", "label_config": config, "params": {"login": None}}
        results = self._ask("/predict", request)["results"]
        for task, prediction in zip(self.tasks, results, strict=True):
            task["predictions"].append({**PREDICTION, "id": task["id"] - 90, "task": task["id"], **prediction})
        return len(results)

    def _set_up(self) -> Any:
        request = {"project": "4.1795443340", "schema": self.project["label_config"], "hostname": self.url}
        return self._ask("/setup", {**request, "access_token": TOKEN, "extra_params": None})

    def _ask(self, path: str, body: Any = None) -> Any:
        """Call the backend."""
        raw = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.backend + path, raw, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            return json.load(answer)


@contextmanager
def label_studio() -> Iterator[StandIn]:
    """A stand-in that answers at `url`."""

    class Handler(_Handler):
        studio = StandIn()

    with http_server(Handler) as Handler.studio.url:
        yield Handler.studio


class _Handler(BaseHTTPRequestHandler):
    """HTTP for a stand-in."""

    studio: StandIn

    def _handle(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"null")
        if self.headers["Authorization"] == f"Token {TOKEN}":
            status, answer = self.studio.answer(self.command, urlsplit(self.path).path, body)
        else:
            status, answer = 401, {"detail": "Invalid token."}
        raw = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = _handle  # noqa: N815 - BaseHTTPRequestHandler names them
