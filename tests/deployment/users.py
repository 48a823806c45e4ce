"""Users of the deployment, who repeat what failed with the same idempotency key."""

import http.client
import json
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

PATIENCE_SECONDS = 300.0


class Acknowledged(NamedTuple):
    """An update that was answered 200: when, its position, its idempotency key, and its body."""

    at: float
    position: str
    key: str
    body: Any


class Client:
    """A user of one model, through the balancer: learns and predicts, repeats what failed with the same key.

    Parameters
    ----------
    port : of the balancer.
    key : sent with every request.
    model : the name of the model.

    Attributes
    ----------
    acknowledged : number of updates answered 200.
    updates : all of them.
    position : of the last of them.
    answers : how often each status came; "none" for a connection that broke.
    longest_seconds : longest time from an update to its answer, repetitions included.
    """

    def __init__(self, port: int, key: str, model: str) -> None:
        self.model = model
        self.acknowledged = 0
        self.updates: list[Acknowledged] = []
        self.position = ""
        self.answers: Counter[str] = Counter()
        self.longest_seconds = 0.0
        self._port, self._key = port, key
        self._random = random.Random(model)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def run(self, stop: threading.Event) -> None:
        """Learn and predict in turns."""
        while not stop.is_set():
            self.learn()
            self._once("POST", f"/v1/models/{self.model}/predict", {"x": example(self._random)[0]}, {})

    def create(self) -> None:
        """Make the model."""
        self.insist("POST", "/v1/models", {"name": self.model, "algorithm": "falt", "scaling": "unit"})

    def learn(self) -> None:
        """One update, acknowledged when this returns."""
        x, y = example(self._random)
        body, key = {"x": x, "y": y}, secrets.token_hex(8)
        answer = self.insist("POST", self.update_path, body, key)
        self.updates.append(Acknowledged(time.monotonic(), answer["position"], key, body))
        self.acknowledged += 1
        self.position = answer["position"]

    @property
    def update_path(self) -> str:
        """The path of updates of the model."""
        return f"/v1/models/{self.model}/update"

    def log(self) -> list[str]:
        """The positions of all entries of the log, in order."""
        positions: list[str] = []
        while True:
            after = f"?from={positions[-1]}" if positions else ""
            lines = self._once("GET", f"/v1/models/{self.model}/log{after}", None, {}, lines=True)
            if lines == []:
                return positions
            positions += [line["position"] for line in lines or ()]

    def insist(self, method: str, path: str, body: Any, key: str | None = None) -> Any:
        """Repeat, with one idempotency key, until it is answered 200 or 201."""
        headers, started = {"Idempotency-Key": f'"{key or secrets.token_hex(8)}"'}, time.monotonic()
        while (answer := self._once(method, path, body, headers)) is None:
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise RuntimeError(f"{path}: no answer in {PATIENCE_SECONDS:.0f} s")
            time.sleep(0.1)  # as clients do, who can observe nothing
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)
        return answer

    def _once(self, method: str, path: str, body: Any, headers: dict[str, str], lines: bool = False) -> Any:
        """The answer, or None if it is one to try again after."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}", **headers}
        try:
            self._connection.request(method, path, json.dumps(body), headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self.answers["none"] += 1
            return None
        self.answers[str(answer.status)] += 1
        if answer.status in (429, 502, 503, 504):
            return None
        if answer.status not in (200, 201):
            raise RuntimeError(f"{path}: {answer.status} {text.decode()}")
        return [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)


def example(source: random.Random) -> tuple[list[float], list[str]]:
    """Features, and labels that can be learnt from them."""
    x = [round(source.gauss(0, 1), 6) for _ in range(20)]
    return x, [f"label-{number}" for number in range(5) if x[number] + x[number + 5] > 0]


@contextmanager
def traffic(clients: list[Client]) -> Iterator[None]:
    """All clients at work inside."""
    stop, failures = threading.Event(), []

    def work(client: Client) -> None:
        try:
            client.run(stop)
        except Exception as error:
            failures.append(f"{client.model}: {error}")

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise RuntimeError("; ".join(failures))
