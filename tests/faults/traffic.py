"""Clients that use every operation of a model, record the responses, and repeat keyed updates until they succeed."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import httpx2
from tests.faults.history import History, Violation

from manylabel_service.storage import position_key

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
RETRIED = {409, 429, 503}
"""Statuses after which a keyed request is repeated, at another replica. 409: its first attempt is under way."""
LABELLED = frozenset({"prediction_labelled"})
REPEATED = 0.1
"""Share of the answered requests that are sent once more, as if the answer had been lost."""
ANSWER_SECONDS = 120.0
"""A keyed update is answered within this time, whatever dies meanwhile."""


class TrafficClient:
    """One client: its next request goes to any replica, the repetition of a failed one to another.

    Parameters
    ----------
    number : tells its examples from the others'.
    urls : of the replicas.
    models : names of the models to use.
    history : where it writes what it was told.
    seed : of what it does, in which order.
    rolls_back : whether it also rolls models back.
    """

    def __init__(
        self, number: int, urls: Sequence[str], models: Sequence[str], history: History, seed: int, rolls_back: bool
    ) -> None:
        self._number = number
        self._urls = urls
        self._models = models
        self._history = history
        self._rng = random.Random(f"{seed}/{number}")
        self._serial = 0
        self._seen = dict.fromkeys(models, "0")
        self._http = httpx2.AsyncClient()
        self._operations: dict[Callable[[str], Awaitable[None]], int] = {
            self._keyed_update: 40,
            self._update: 20,
            self._keyed_batch: 8,
            self._batch: 8,
            self._predict: 10,
            self._labels: 10,
            self._stream: 4,
            self._snapshot: 2,
        }
        if rolls_back:
            self._operations[self._rollback] = 2

    async def run(self, stop: asyncio.Event) -> None:
        """Ask this and that until told to stop; what is begun is finished."""
        operations, weights = list(self._operations), list(self._operations.values())
        async with self._http:
            while not stop.is_set():
                (operation,) = self._rng.choices(operations, weights)
                await operation(self._rng.choice(self._models))

    # -- what it asks -----------------------------------------------------------------------------

    async def _keyed_update(self, model: str) -> None:
        await self._learn_surely(model, [self._item(model)], self._rng.choice(["update", "predict-update"]))

    async def _keyed_batch(self, model: str) -> None:
        items = [self._item(model) for _ in range(self._rng.randrange(2, 20))]
        await self._learn_surely(model, items, self._rng.choice(["update", "predict-update"]))

    async def _learn_surely(self, model: str, items: list[dict[str, Any]], operation: str) -> None:
        names = self._send(items)
        body = items[0] if len(items) == 1 else {"examples": items}
        key = {"Idempotency-Key": names[0]}
        answer = await self._surely(operation, model, body, key)
        self._learnt(model, names, answer.json())
        self._history.replayed += "idempotent-replayed" in answer.headers
        if self._rng.random() < REPEATED:
            again = await self._surely(operation, model, body, key)
            if again.content != answer.content or "idempotent-replayed" not in again.headers:
                raise Violation(f"{operation}: {answer.text} was repeated as {again.text}")

    async def _update(self, model: str) -> None:
        await self._learn_perhaps(model, [self._item(model)])

    async def _batch(self, model: str) -> None:
        await self._learn_perhaps(model, [self._item(model) for _ in range(self._rng.randrange(2, 20))])

    async def _learn_perhaps(self, model: str, items: list[dict[str, Any]]) -> None:
        """Without a key: after a failure the result is unknown, and the request must not be repeated."""
        names = self._send(items)
        operation = self._rng.choice(["update", "predict-update"])
        body = items[0] if len(items) == 1 else {"examples": items}
        answer = await self._once(operation, model, body)
        if answer is not None:
            self._learnt(model, names, answer.json())

    async def _predict(self, model: str) -> None:
        """A prediction has seen what this client was told is learnt, wherever that was."""
        at_least = self._seen[model]
        answer = await self._once("predict", model, self._item(model), query=f"?at_least={at_least}")
        if answer is None:
            return
        document = answer.json()
        if position_key(document["position"]) < position_key(at_least):
            raise Violation(f"asked for position {at_least}, predicted at {document['position']}")
        self._history.stale += "stale_seconds" in document

    async def _labels(self, model: str) -> None:
        """Keep predictions at one replica, and tell the truth about them to another."""
        items = [self._item(model) for _ in range(self._rng.randrange(1, 4))]
        examples = {"examples": [{"x": item["x"]} for item in items]}
        answer = await self._once("predict", model, examples, query="?keep=true")
        if answer is None:
            return
        names = self._send(items)
        ids = [prediction["id"] for prediction in answer.json()["predictions"]]
        truth = {"examples": [{"id": i, "y": item["y"]} for i, item in zip(ids, items, strict=True)]}
        if self._rng.random() < 0.5:
            answer = await self._surely("labels", model, truth, {"Idempotency-Key": names[0]})
        else:  # the ids themselves make it safe to repeat
            answer = await self._surely("labels", model, truth, {}, accepts=LABELLED)
        self._history.acknowledge(names, answer.json()["position"] if answer.is_success else None)
        if self._rng.random() < REPEATED:
            again = await self._surely("labels", model, truth, {}, accepts=LABELLED)
            if again.is_success:
                raise Violation(f"labels: {names} were taken twice")

    async def _stream(self, model: str) -> None:
        items = [self._item(model) for _ in range(self._rng.randrange(1, 40))]
        names = self._send(items)
        await self._send_lines(model, items, names, learnt=0)
        if self._rng.random() < REPEATED:
            await self._send_lines(model, items, names, learnt=len(items))

    async def _send_lines(self, model: str, items: list[dict[str, Any]], names: list[str], learnt: int) -> None:
        """A stream that is taken up again, at another replica, behind the last line answered.

        The number of lines that are known to be learnt; they are not learnt again.
        """
        key = {"Idempotency-Key": names[0], **NDJSON}
        answered = 0
        deadline = asyncio.get_running_loop().time() + ANSWER_SECONDS
        url = self._any_url()
        while answered < len(items):
            lines = "".join(f"{json.dumps(item)}\n" for item in items[answered:]).encode()
            response = await self._post("stream", f"{url}/v1/models/{model}/stream?from={answered + 1}", lines, key)
            if response is not None and response.status_code == 200:
                answered = self._read_stream(model, response.text, names, answered, learnt)
            elif response is not None and response.status_code not in RETRIED:
                raise Violation(f"stream: {response.status_code} {response.text}")
            if answered < len(items):
                url = await self._another(url, deadline, "stream")

    def _read_stream(self, model: str, text: str, names: Sequence[str], answered: int, learnt: int) -> int:
        for line in text.splitlines():
            document = json.loads(line)
            if "error" in document:
                if document["error"]["status"] not in RETRIED:
                    raise Violation(f"stream: {line}")
                return answered
            if document["line"] != answered + 1 or (answered < learnt and not document.get("replayed")):
                raise Violation(f"stream: of {learnt} lines learnt, {answered} repeated, came {line}")
            if answered >= learnt:
                self._history.acknowledge([names[answered]], None if document.get("replayed") else document["position"])
            self._saw(model, document["position"])
            answered += 1
        return answered

    async def _snapshot(self, model: str) -> None:
        answer = await self._once("snapshots", model, {})
        if answer is None:
            return
        position = answer.json()["position"]
        await self._get("snapshot", f"{self._any_url()}/v1/models/{model}/snapshots/{position}", allowed={404})

    async def _rollback(self, model: str) -> None:
        listed = await self._get("snapshots list", f"{self._any_url()}/v1/models/{model}/snapshots")
        if listed is None or not (snapshots := listed.json()["snapshots"]):
            return
        self._serial += 1
        key = f"{model}/r{self._number}.{self._serial}"
        body = {"position": self._rng.choice(snapshots)["position"]}
        accepts = {"snapshot_not_found"}  # another client's snapshot replaced this one
        answer = await self._surely("rollback", model, body, {"Idempotency-Key": key}, accepts=accepts)
        if answer.is_success:
            self._history.rollbacks[key] = answer.json()["position"]
            self._saw(model, answer.json()["position"])

    # -- how it asks ------------------------------------------------------------------------------

    async def _surely(
        self,
        operation: str,
        model: str,
        body: dict[str, Any],
        headers: dict[str, str],
        accepts: Collection[str] = (),
    ) -> httpx2.Response:
        """Repeat a request, at another replica each time, until it is answered."""
        url, content = self._any_url(), json.dumps(body).encode()
        deadline = asyncio.get_running_loop().time() + ANSWER_SECONDS
        while True:
            response = await self._post(operation, f"{url}/v1/models/{model}/{operation}", content, JSON | headers)
            if response is not None:
                if response.is_success or response.json()["code"] in accepts:
                    return response
                if response.status_code not in RETRIED or response.json()["code"] == "prediction_labelled":
                    raise Violation(f"{operation}: {response.status_code} {response.text}")
            url = await self._another(url, deadline, operation)

    async def _once(self, operation: str, model: str, body: dict[str, Any], query: str = "") -> httpx2.Response | None:
        """One attempt; None if it was not answered, or refused for a reason that passes."""
        url = f"{self._any_url()}/v1/models/{model}/{operation}{query}"
        response = await self._post(operation, url, json.dumps(body).encode(), JSON)
        return await self._judged(operation, response)

    async def _get(self, operation: str, url: str, allowed: Collection[int] = ()) -> Any:
        return await self._judged(operation, await self._request(operation, "GET", url), allowed)

    async def _judged(
        self, operation: str, response: httpx2.Response | None, allowed: Collection[int] = ()
    ) -> httpx2.Response | None:
        if response is not None and response.is_success:
            return response
        if response is not None and response.status_code not in {429, 503, *allowed}:
            raise Violation(f"{operation}: {response.status_code} {response.text}")
        await self._back_off()
        return None

    async def _back_off(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.01, 0.1))  # as clients do, who can observe nothing

    async def _post(self, operation: str, url: str, content: bytes, headers: dict[str, str]) -> httpx2.Response | None:
        return await self._request(operation, "POST", url, content=content, headers=headers)

    async def _request(self, operation: str, method: str, url: str, **options: Any) -> httpx2.Response | None:
        """The answer, whatever it is; None if there is none. Some clients have very little patience."""
        timeout = 5.0 if self._rng.random() < 0.9 else self._rng.uniform(0.005, 0.1)
        try:
            response = await self._http.request(method, url, timeout=timeout, **options)
        except httpx2.TransportError:
            self._history.statuses[operation, 0] += 1
            return None
        self._history.statuses[operation, response.status_code] += 1
        if response.status_code in {429, 503} and int(response.headers.get("retry-after", 0)) < 1:
            raise Violation(f"{operation}: {response.status_code} without Retry-After: {response.text}")
        return response

    async def _another(self, url: str, deadline: float, operation: str) -> str:
        if asyncio.get_running_loop().time() > deadline:
            raise Violation(f"{operation}: no answer in {ANSWER_SECONDS:g} s, by any replica")
        await self._back_off()
        return self._rng.choice([other for other in self._urls if other != url])

    # -- what it knows ----------------------------------------------------------------------------

    def _any_url(self) -> str:
        return self._rng.choice(self._urls)

    def _item(self, model: str) -> dict[str, Any]:
        """An example with a feature of its own, and common features and labels."""
        self._serial += 1
        rng = self._rng
        own, common = f"{model}/e{self._number}.{self._serial}", f"common {rng.randrange(20)}"
        x = {own: 1.0, common: round(rng.uniform(-1, 1), 3)}
        names = [f"label {rng.randrange(12)}" for _ in range(rng.randrange(3))]
        y = dict.fromkeys(names, rng.random() < 0.7) if rng.random() < 0.2 else sorted(set(names))
        return {"x": x, "y": y}

    def _send(self, items: Sequence[dict[str, Any]]) -> list[str]:
        names = [next(iter(item["x"])) for item in items]
        self._history.sent.update(names)
        return names

    def _learnt(self, model: str, names: Sequence[str], document: dict[str, Any]) -> None:
        self._history.acknowledge(names, document["position"])
        self._saw(model, document["position"])

    def _saw(self, model: str, position: str) -> None:
        self._seen[model] = max(self._seen[model], position, key=position_key)
