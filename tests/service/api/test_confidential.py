"""Client data stays between clients and models: no log, audit or metric has a feature, a text or a label."""

import io
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.support.server_process import ServerProcess
from tests.support.waiting import DEADLINE_SECONDS, eventually

MARK = "zq7secret"
"""Part of every feature name, text, label and free text that is sent."""
RECORD = {f"{MARK}-field": f"{MARK} word", "n": 1.5}
EXAMPLE = {"x": RECORD, "y": [f"{MARK}-label"]}


class Sender:
    """A client that sends requests and records the statuses of the responses."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.statuses: dict[tuple[str, str], list[int]] = {}

    def __call__(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": kind, "User-Agent": MARK, "Cookie": MARK, "Authorization": f"Bearer {MARK}"}
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        self.statuses.setdefault((method, path.partition("?")[0]), []).append(status)
        try:
            return json.loads(text)
        except ValueError:
            return text


def learn_online(send: Sender) -> None:
    send("POST", "/v1/models", {"name": "tags", "algorithm": "falt", "text": {"fields": [f"{MARK}-field"]}})
    for _ in range(3):
        send("POST", "/v1/models/tags/update", EXAMPLE)
    send("POST", "/v1/models/tags/predict-update", EXAMPLE)
    send("POST", "/v1/models/tags/predict", {"x": RECORD, "explain": 3})
    for keep in ("true", "record"):
        kept = send("POST", f"/v1/models/tags/predict?keep={keep}", {"x": RECORD})
        send("GET", "/v1/models/tags/predictions")
        for _ in range(2):  # the second one is refused
            send("POST", "/v1/models/tags/labels", {"id": kept["id"], "y": [f"{MARK}-label"]})
    lines = [EXAMPLE, {"x": {MARK: {MARK: [1, {}]}}, "y": [MARK]}, EXAMPLE]
    stream = b"".join(json.dumps(line).encode() + b"\n" for line in lines) + f'{{"{MARK}'.encode()
    send("POST", "/v1/models/tags/stream", stream, "application/x-ndjson")
    for wrong in (
        {"x": RECORD, "y": [1]},
        {"x": {f"{MARK}": [[1]]}, "y": []},
        {MARK: 1},
        {"x": RECORD, "y": [f"{MARK}", f"{MARK}"]},
        {"x": RECORD, "y": [MARK * 100]},
        f'{{"x": {{"{MARK}": 1, "{MARK}": 2}}, "y": []}}'.encode(),
        f'{{"{MARK}'.encode(),
    ):
        for call in ("update", "predict", "predict-update", "labels"):
            send("POST", f"/v1/models/tags/{call}", wrong)
    send("POST", "/v1/models", {"name": "few", "algorithm": "falt", "labels": [f"{MARK}-a"], "features": [f"{MARK}-b"]})
    send("POST", "/v1/models/few/update", EXAMPLE)
    send("POST", "/v1/models", {"name": "wrong", "algorithm": "falt", MARK: MARK, "labels": [MARK, MARK]})
    send("GET", "/v1/models/tags/labels")
    send("POST", "/v1/models/tags/snapshots", {"note": MARK})
    for to in (f"{MARK}-other", f"{MARK}-other"):
        send("POST", "/v1/models/tags/labels/rename", {"label": f"{MARK}-label", "to": to})
    for _ in range(2):
        send("POST", "/v1/models/tags/labels/retire", {"label": f"{MARK}-other"})
    for details in ({"title": MARK, "uri": MARK}, {MARK: MARK}, {"title": 5 * [MARK]}):
        send("PATCH", "/v1/models/tags/labels", {"labels": {f"{MARK}-other": details, f"{MARK}-new": details}})
    send("GET", f"/v1/models/tags?{MARK}={MARK}")
    send("GET", f"/v1/models/tags/labels?{MARK}={MARK}")
    rows = {"name": "x", "shape": [2], "datatype": "BYTES", "data": [json.dumps(RECORD), MARK]}
    send("POST", "/v2/models/tags/infer", {"inputs": [rows]})
    send("POST", "/v2/models/tags/infer", {"id": MARK, "inputs": [{**rows, "name": MARK, "datatype": MARK}]})
    send("POST", "/v1/label-studio/tags/setup", {"schema": f"<View><Text name='{MARK}' value='${MARK}'/></View>"})
    send("POST", "/v1/label-studio/tags/predict", {"tasks": [{"id": 1, "data": {MARK: MARK}}], "label_config": MARK})
    send("POST", "/v1/label-studio/tags/webhook", {"action": "ANNOTATION_CREATED", "task": {"data": {MARK: MARK}}})


def train(send: Sender) -> None:
    csv = f"{MARK}-f,{MARK}-g,{MARK}-label,{MARK}-other\n" + "1,2,1,0\n3,1,0,1\n" * 20
    send("POST", "/v1/datasets?name=rows&format=csv&label_columns=2", csv.encode(), "text/csv")
    send("POST", "/v1/datasets?name=bad&format=csv&label_columns=2", f"{MARK},b,c\n1,{MARK},x\n".encode(), "text/csv")
    arff = f"@relation {MARK}\n@attribute {MARK} real\n@attribute {MARK} {{0,{MARK}}}\n@data\n{MARK},1\n"
    send("POST", "/v1/datasets?name=worse&format=arff&label_columns=1", arff.encode(), "text/plain")
    file = io.BytesIO()
    np.savez(file, X=np.float32([[1], [2]]), Y=np.int8([[1, 0], [0, 1]]), label_names=np.array([MARK, MARK]))
    send("POST", "/v1/datasets?name=npz&format=npz", file.getvalue(), "application/octet-stream")
    orders: tuple[dict[str, Any], ...] = (
        {"trainer": "m3l", "data": {"dataset": "rows"}, "holdout": 0.2, "model": "trained"},
        {"trainer": "m3l", "data": {"model": "tags"}, "model": "from-stream"},
        {"trainer": "m3l", "data": {"dataset": "rows"}, "model": "x", MARK: MARK},
    )
    jobs = [job["id"] for order in orders if "id" in (job := send("POST", "/v1/jobs", order))]
    assert jobs

    def ended() -> bool:
        return all(send("GET", f"/v1/jobs/{job}")["state"] in ("succeeded", "failed") for job in jobs)

    eventually(ended)
    send("POST", "/v1/models/trained/predict", {"x": {f"{MARK}-f": 1, f"{MARK}-g": 2}, "explain": 2})
    send("POST", "/v1/models/trained/predict", {"x": {f"{MARK}-unknown": 1}})
    kept = send("POST", "/v1/models/trained/predict?keep=true", {"x": {f"{MARK}-f": 1, f"{MARK}-g": 2}})
    send("POST", "/v1/models/trained/labels", {"id": kept.get("id", ""), "y": [f"{MARK}-label"]})
    send("POST", "/v1/models/trained/update", EXAMPLE)
    send("POST", "/v1/models", {"name": "warm", "algorithm": "falt", "init_from": {"model": "trained"}})
    send("GET", "/v1/models/trained/detail")


def test_no_client_data_are_in_logs_audits_and_metrics(server_process: Callable[..., ServerProcess]) -> None:
    server = server_process("--log-level", "debug").start()
    send = Sender(server.url)
    learn_online(send)
    train(send)
    metrics = send("GET", "/metrics")
    server.kill()
    server.start()  # what restoring says of it
    assert server.stop() == 0

    refused = {status for statuses in send.statuses.values() for status in statuses}
    assert {200, 201, 202, 400, 422, 404} <= refused, "all kinds of answers were given"
    texts = {"metrics": metrics.decode(), "log": server.log.read_text()}
    texts["audit"] = (server.data_dir / "audit.jsonl").read_text()
    assert len(texts["audit"].splitlines()) > 40
    for place, text in texts.items():
        assert len(text) > 1000
        lines = [line for line in text.splitlines() if MARK in line]
        assert not lines, (place, lines[:3])
