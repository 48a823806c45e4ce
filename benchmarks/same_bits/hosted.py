"""Models on a server: responses to the same requests, before and after the server is killed and replays its log."""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from benchmarks.same_bits import streams
from benchmarks.same_bits.digest import print_digests

SPECS: list[dict[str, Any]] = [
    {"algorithm": "falt"},
    {"algorithm": "falt", "params": {"step": "gradient", "eta": 0.5}, "scaling": "unit"},
    {"algorithm": "falt", "params": {"passes": 2}},
    {"algorithm": "falt", "limits": {"features": {"most": 32, "policy": "hash"}}},
    {"algorithm": "falt", "limits": {"features": {"most": 20, "policy": "ignore"}}},
    {"algorithm": "salt", "params": {"optimise": "macro_f1", "drift": "adwin", "on_drift": "restart"}},
    {"algorithm": "kernel_falt", "params": {"budget": 30}},
    {"algorithm": "kernel_salt", "params": {"budget": 30}, "scaling": "auto"},
    {"algorithm": "passive_aggressive"},
    {"algorithm": "kernel_passive_aggressive", "params": {"budget": 30, "strategy": "nystroem"}},
]
ANSWERED = ("labels", "scores", "threshold", "probabilities")
"""Compared fields of a response, without positions, ids and times."""


def outcomes() -> dict[str, dict[str, Any]]:
    """Teach a model of each spec by all kinds of requests, and query it before and after a kill of the server."""
    examples = _examples()
    asked = {"examples": [{"x": example["x"]} for example in examples[:50]], "probabilities": True}
    with tempfile.TemporaryDirectory() as directory:
        with _server(directory) as ask:
            found = {str(spec): _learn(partial(ask, f"m{i}"), spec, examples) for i, spec in enumerate(SPECS)}
            for i, values in enumerate(found.values()):
                values["predictions"] = _told(ask(f"m{i}", "predict", asked))
        with _server(directory) as ask:
            for i, values in enumerate(found.values()):
                values["predictions after a replay"] = _told(ask(f"m{i}", "predict", asked))
    return found


def _examples() -> list[dict[str, Any]]:
    """Return examples with named features; every seventh has partial labels."""
    examples: list[dict[str, Any]] = [
        {"x": {f"f{i}": float(row[i]) for i in np.flatnonzero(row)}, "y": [f"l{i}" for i in np.flatnonzero(truth)]}
        for part in streams.words(n=160)
        for row, truth in zip(part.X.toarray(), part.Y, strict=True)
    ]
    for example in examples[::7]:
        example["y"] = {"l0": "l0" in example["y"], "l2": "l2" in example["y"]}
    return examples


def _learn(ask: Callable[..., Any], spec: Mapping[str, Any], examples: list[dict[str, Any]]) -> dict[str, Any]:
    """Create a model and teach it by single updates, a batch, and a stream."""
    ask(None, spec)
    said = [_told(ask("predict-update", {**example, "probabilities": True})) for example in examples[:60]]
    ask("update", {"examples": examples[60:120]})
    streamed = ask("stream?probabilities=true", "\n".join(map(json.dumps, examples[120:])).encode())
    metrics = ask("metrics", None)
    return {
        "before each update": said,
        "of the stream": [_told(json.loads(line)) for line in streamed.splitlines()],
        "measures": {name: metrics[name] for name in ("cumulative", "window")},
    }


def _told(answer: Any) -> Any:
    if "predictions" in answer:
        return [_told(one) for one in answer["predictions"]]
    answer = answer.get("prediction", answer)
    return {name: answer[name] for name in ANSWERED if name in answer}


@contextmanager
def _server(directory: str) -> Iterator[Callable[..., Any]]:
    """Start a server on a data directory, and yield a function that sends requests; kill the server at the end, so that
    only its log remains.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["--port", str(port), "--data-dir", directory, "--log-level", "error"]
    process = subprocess.Popen([sys.executable, "-m", "manylabel_service", *flags], stdout=sys.stderr)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, f"{address}/readyz")
        yield partial(_ask, f"{address}/v1/models")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)


def _wait(process: "subprocess.Popen[bytes]", address: str) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60):
                return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server did not start") from error
            time.sleep(0.05)


def _ask(models: str, name: str, path: str | None, body: Any) -> Any:
    """Return the response to a request about a model, text of a stream, else JSON. Without a path, create it."""
    address = models if path is None else f"{models}/{name}/{path}"
    if path is None:
        body = {"name": name, **body}
    lines = isinstance(body, bytes)
    content = body if lines or body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/x-ndjson" if lines else "application/json"}
    request = urllib.request.Request(address, content, headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{address}: {error.code} {error.read().decode()}") from error
    return text if lines else json.loads(text)


if __name__ == "__main__":
    answers = outcomes()
    print_digests({f"{spec['algorithm']} {spec}": partial(dict, answers[str(spec)]) for spec in SPECS})
