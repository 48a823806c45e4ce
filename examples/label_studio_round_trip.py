"""Label a project in Label Studio while a model of ManyLabel learns each annotation, and fills in its predictions.

The program does over Label Studio's HTTP interface the work of its users: it creates a project, connects the model,
imports tasks, annotates some of them and asks for predictions of all. Label Studio talks to ManyLabel by itself: it
sends each annotation when it is submitted, and asks for predictions.

    manylabel serve
    label-studio start --port 8080
    python examples/label_studio_round_trip.py --label-studio http://127.0.0.1:8080 --token TOKEN

Label Studio runs in a separate environment, with the settings of docs/label-studio.md; TOKEN is the legacy token of
its user (Account & Settings).

It prints:

    40 of 90 tasks annotated, 40 examples learnt
    44 of the other 50 have the right boxes ticked
    to be labelled next, the least certain: the bill is too high. thank you, it works very well
"""

import argparse
import os
import random
from collections.abc import Sequence
from typing import Any

import httpx2

from manylabel_clients import Client

MANYLABEL = os.environ.get("MANYLABEL_URL", "http://127.0.0.1:8000")  # Label Studio uses this address too
MODEL = "letters"
CONFIG = """
<View>
  <Text name="text" value="$text"/>
  <Choices name="topic" toName="text" choice="multiple">
    <Choice value="bill"/><Choice value="move"/><Choice value="praise"/>
  </Choices>
</View>
"""
PHRASES = {
    "bill": ["the bill is too high", "I have paid twice", "what is this charge on my bill"],
    "move": ["I am moving to Bern", "my new address is below", "please send it to my new address"],
    "praise": ["your staff were so kind", "what a lovely service", "thank you, it works very well"],
}


class Project:
    """Project in Label Studio, over the HTTP interface."""

    def __init__(self, address: str, token: str) -> None:
        self._http = httpx2.Client(base_url=address, headers={"Authorization": f"Token {token}"}, timeout=120.0)
        self.id: int = self._call("POST", "/api/projects", {"title": "Letters", "label_config": CONFIG})["id"]

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def connect(self, url: str) -> None:
        """Connect a model as the backend of the project; Label Studio adds the webhook for annotations by itself."""
        backend = self._call("POST", "/api/ml", {"url": url, "project": self.id, "title": MODEL})
        if backend["state"] != "CO":
            raise SystemExit(f"Label Studio cannot use {url}: {backend['error_message']}")

    def add(self, texts: Sequence[str]) -> None:
        """Import tasks."""
        self._call("POST", f"/api/projects/{self.id}/import", [{"text": text} for text in texts])

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks in the order of their import, with their annotations and predictions."""
        found = self._call("GET", f"/api/tasks?project={self.id}&page_size=100&fields=all")["tasks"]
        return sorted(found, key=lambda task: int(task["id"]))

    def annotate(self, task: dict[str, Any], labels: list[str]) -> None:
        """Submit an annotation, like the button "Submit"."""
        ticked = {"from_name": "topic", "to_name": "text", "type": "choices", "value": {"choices": labels}}
        self._call("POST", f"/api/tasks/{task['id']}/annotations", {"result": [ticked]})

    def predict(self) -> None:
        """Request predictions of all tasks, like the action "Retrieve Predictions"."""
        everything = {"selectedItems": {"all": True, "excluded": []}}
        self._call("POST", f"/api/dm/actions?id=retrieve_tasks_predictions&project={self.id}", everything)


def latest(task: dict[str, Any]) -> dict[str, Any]:
    """Return the latest prediction of a task."""
    return max(task["predictions"], key=lambda prediction: int(prediction["id"]))


def ticked(task: dict[str, Any]) -> list[str]:
    """Return the predicted labels of a task."""
    return sorted(label for result in latest(task)["result"] for label in result["value"]["choices"])


def new_letter(rng: random.Random) -> tuple[str, list[str]]:
    """Return a letter, and the labels that a person would tick."""
    labels = sorted(rng.sample(sorted(PHRASES), rng.choice([1, 1, 2])))
    return ". ".join(rng.choice(PHRASES[label]) for label in labels), labels


def main(address: str, token: str) -> None:
    rng = random.Random(0)
    letters = [new_letter(rng) for _ in range(90)]
    with Client(MANYLABEL) as client:
        model = client.create_model(MODEL, text={"fields": ["text"]})
        project = Project(address, token)
        project.connect(f"{MANYLABEL}/v1/label-studio/{MODEL}")
        project.add([text for text, _ in letters])

        for task, (_, labels) in list(zip(project.tasks(), letters, strict=True))[:40]:
            project.annotate(task, labels)
        print(f"40 of 90 tasks annotated, {model.status().updates} examples learnt")

        project.predict()
        unlabelled = list(zip(project.tasks(), letters, strict=True))[40:]
        right = sum(ticked(task) == labels for task, (_, labels) in unlabelled)
        first = min((task for task, _ in unlabelled), key=lambda task: float(latest(task)["score"]))
        print(f"{right} of the other 50 have the right boxes ticked")
        print(f"to be labelled next, the least certain: {first['data']['text']}")


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--label-studio", required=True, metavar="URL")
    options.add_argument("--token", required=True)
    given = options.parse_args()
    main(given.label_studio, given.token)
