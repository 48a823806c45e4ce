"""Servers are killed while a model forgets: it has forgotten or not, and nothing acknowledged is lost."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from tests.support.waiting import eventually

from manylabel_clients import Client, ManyLabelError
from manylabel_clients.http.transport.retry import Retry

REF = "customer-4711"
FLAGS = ("--snapshot-every-updates", "200")
PATIENT = Retry(attempts=40)
KILLS = 2
"""Number of kills: lifetimes of `tests/simulation` crash at each step."""


class Load:
    """Updates, one after the other, each with a number of its own as a feature; those that were acknowledged."""

    def __init__(self, url: str, first: int) -> None:
        self.numbers: list[int] = []
        self._first, self._url = first, url
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _run(self) -> None:
        number = self._first
        with Client(self._url, retry=PATIENT) as client:
            while not self._ended.is_set():
                client.model("m").update({f"n{number}": 1.0, "b": number % 3}, [f"l{number % 4}"])
                self.numbers.append(number)
                number += 1


def test_a_server_killed_while_it_forgets(server_process: Callable[..., Any]) -> None:
    rng = random.Random(5)
    server = server_process(*FLAGS).start()
    seen = set[str]()
    with Client(server.url, retry=PATIENT) as client:
        model = client.create_model("m", algorithm="falt")
        loads: list[Load] = []
        for attempt in range(KILLS):
            first = 100_000 * (attempt + 1)
            model.update_many([({f"r{first + n}": 1.0, "b": n % 3}, ["l0"], None, None, REF) for n in range(100)])
            load = Load(server.url, first)
            loads.append(load)
            with load.running():
                eventually(lambda load=load: len(load.numbers) > 10)
                with Client(server.url) as own:
                    begun = own.model("m").forget(refs=[REF])
                time.sleep(rng.uniform(0.0, 0.4))  # a fault at any moment, not a state that is waited for
                server.kill()
                server.start()
                receipt = eventually(lambda id=begun.id: _ended(client, id), ignore=(ManyLabelError, httpx2.HTTPError))
                reached = len(load.numbers)
                eventually(lambda load=load, n=reached: len(load.numbers) > n + 10)
            seen.add(receipt.status)
            entries = log_of(model)
            refs = [one for entry in entries for one in entry["examples"] if one.get("ref") == REF]
            assert (len(refs) == 0) == (receipt.status == "done")
            learnt = {name for entry in entries for one in entry["examples"] for name in one["x"] if name[0] == "n"}
            assert {f"n{number}" for each in loads for number in each.numbers} <= learnt
            assert model.verify().equal
    assert seen <= {"done", "failed"}


def _ended(client: Client, id: str) -> Any:
    receipt = client.model("m").receipt(id)
    return None if receipt.status == "running" else receipt


def log_of(model: Any) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    while page := model.log(entries[-1]["position"] if entries else None, limit=10_000):
        entries += page
    return entries
