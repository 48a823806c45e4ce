"""A project in a real Label Studio: annotations are learnt and predictions shown, also after kills of the server.

`make test-label-studio` installs Label Studio into an environment of its own and runs this.
"""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.server_process import ServerProcess, free_port
from tests.support.waiting import eventually
from tests.support.worked_examples import assert_shown, run_example

from manylabel_clients import Client

ROOT = Path(__file__).parents[2]
COMMAND = os.environ.get("MANYLABEL_TEST_LABEL_STUDIO", ".venv-label-studio/bin/label-studio")
TOKEN = "0123456789abcdef0123456789abcdef01234567"
WORDS = {"cats": "meow purr whiskers", "dogs": "bark fetch leash", "birds": "tweet wings nest"}
CHOICES = "".join(f'<Choice value="{label}"/>' for label in WORDS)
CONFIG = (
    '<View><Text name="text" value="$text"/>'
    f'<Choices name="topic" toName="text" choice="multiple">{CHOICES}</Choices></View>'
)
SECONDS = 900.0
"""Its first start makes its database."""

pytestmark = pytest.mark.label_studio


class Studio:
    """A Label Studio in a separate process, on SQLite, used through its HTTP API."""

    def __init__(self, directory: Path) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self._log = directory / "label-studio.log"
        environment = {
            **os.environ, "LABEL_STUDIO_BASE_DATA_DIR": str(directory / "data"), "DJANGO_DB": "sqlite",
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true", "ML_BLOCK_LOCAL_IP": "false",
            "SSRF_PROTECTION_ENABLED": "false", "COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false",
            "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": "",
        }  # fmt: skip
        flags = ["--no-browser", "--port", str(port), "--internal-host", "127.0.0.1", "--user-token", TOKEN]
        user = ["--username", "somebody@example.org", "--password", "not-a-secret"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [COMMAND, "start", *flags, *user], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._client = httpx2.Client(base_url=self.url, headers={"Authorization": f"Token {TOKEN}"}, timeout=120.0)
        eventually(self._is_ready, SECONDS, otherwise=lambda: self._log.read_text()[-3_000:])

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()[-3_000:]
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._client.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def stop(self) -> None:
        self._client.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    if not Path(COMMAND).exists():
        pytest.fail(f"there is no {COMMAND}: run make test-label-studio")
    studio = Studio(tmp_path_factory.mktemp("studio"))
    yield studio
    studio.stop()


class Project:
    """A project whose backend is a model of a server."""

    def __init__(self, studio: Studio, server: ServerProcess) -> None:
        self.studio, self.server = studio, server
        self.id = studio.call("POST", "/api/projects", {"title": "Animals", "label_config": CONFIG})["id"]
        address = f"{server.url}/v1/label-studio/animals"
        self.backend = studio.call("POST", "/api/ml", {"url": address, "project": self.id, "title": "ManyLabel"})

    def tasks(self) -> list[Any]:
        found: list[Any] = self.studio.call("GET", f"/api/tasks?project={self.id}&page_size=100&fields=all")["tasks"]
        return sorted(found, key=lambda task: int(task["id"]))

    def annotate(self, task: Any, *labels: str) -> Any:
        return self.studio.call("POST", f"/api/tasks/{task['id']}/annotations", {"result": result(*labels)})

    def feed_lost(self, since: str, directory: Path) -> None:
        """Feed an export to the model, by the commands of the documentation."""
        exported = self.studio.call("GET", f"/api/projects/{self.id}/export?exportType=JSON")
        (directory / "export.json").write_text(json.dumps(exported))
        page = (ROOT / "docs" / "label-studio.md").read_text()
        (script,) = re.findall(r"^```sh\n(jq .*?)^```$", page, re.DOTALL | re.MULTILINE)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "MANYLABEL_URL": self.server.url}
        command = ["bash", "-euo", "pipefail", "-c", script.replace("2026-11-23T14:00", since)]
        subprocess.run(command, cwd=directory, env=environment, check=True)

    def predict(self) -> None:
        path = f"/api/dm/actions?id=retrieve_tasks_predictions&project={self.id}"
        self.studio.call("POST", path, {"selectedItems": {"all": True, "excluded": []}})


def result(*labels: str) -> list[Any]:
    return [{"from_name": "topic", "to_name": "text", "type": "choices", "value": {"choices": list(labels)}}]


def true_label(task: Any) -> str:
    return next(label for label, words in WORDS.items() if words in task["data"]["text"])


def test_annotations_are_learnt_once_and_predictions_shown(
    studio: Studio, server_process: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = server_process().start()
    with Client(server.url) as client:
        model = client.create_model("animals", text={"fields": ["text"]})

        def updates() -> int:
            return model.status().updates  # type: ignore[union-attr]

        project = Project(studio, server)
        assert (project.backend["state"], project.backend["error_message"]) == ("CO", None)
        texts = [{"text": f"{words} {number}", "source": "web"} for number in range(10) for words in WORDS.values()]
        studio.call("POST", f"/api/projects/{project.id}/import", texts)
        tasks = project.tasks()
        assert len(tasks) == 30

        # Each annotation is learnt once, an edited one again with its new truth.
        annotations = [project.annotate(task, true_label(task)) for task in tasks[:12]]
        eventually(lambda: updates() == 12)
        studio.call("PATCH", f"/api/annotations/{annotations[0]['id']}", {"result": result("cats", "dogs")})
        eventually(lambda: updates() == 13)
        assert {one.label: one.examples for one in model.labels().labels} == {"cats": 5, "dogs": 5, "birds": 4}

        # Predictions are seen, with the version and the certainty.
        project.predict()
        shown = {task["id"]: task["predictions"] for task in project.tasks()}
        for task in tasks[15:]:
            (prediction,) = shown[task["id"]]
            assert prediction["result"][0]["value"]["choices"] == [true_label(task)]
            assert 0 < prediction["score"] <= 1
            assert prediction["model_version"].endswith(".10")
        listed = studio.call("GET", f"/api/ml/{project.backend['id']}/versions")["versions"]
        assert listed[-1] == prediction["model_version"]

        # Annotations and edits during an outage of the server are learnt from an export.
        server.kill()
        since = datetime.now(UTC).isoformat()
        project.annotate(tasks[15], "cats")
        studio.call("PATCH", f"/api/annotations/{annotations[1]['id']}", {"result": result("birds")})
        server.start()
        assert updates() == 13
        project.feed_lost(since, tmp_path)
        assert updates() == 15
        project.annotate(tasks[16], true_label(tasks[16]))
        eventually(lambda: updates() == 16)

        # The version is unchanged, so nothing is predicted again; it changes at 20 examples.
        before = {task["id"]: task["predictions"] for task in project.tasks()}
        project.predict()
        assert {task["id"]: task["predictions"] for task in project.tasks()} == before
        for task in tasks[17:21]:
            project.annotate(task, true_label(task))
        eventually(lambda: updates() == 20)
        project.predict()
        for task in project.tasks():
            assert {prediction["model_version"].rpartition(".")[2] for prediction in task["predictions"]} >= {"20"}


def test_the_worked_example(studio: Studio, server_process: Callable[..., ServerProcess]) -> None:
    name, server = "label_studio_round_trip.py", server_process().start()
    assert_shown(name, run_example(name, server.url, "--label-studio", studio.url, "--token", TOKEN))
