"""kill -9 while a follower replaces its leader: one of them leads, and nothing acknowledged is lost."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx2
from tests.faults.test_forgetting import FLAGS, KILLS, PATIENT, Load, log_of
from tests.support.waiting import eventually

from manylabel_clients import Client, ManyLabelError, Retry

LOST = (ManyLabelError, httpx2.HTTPError)


def test_a_server_killed_while_it_promotes(server_process: Callable[..., Any]) -> None:
    rng = random.Random(5)
    server = server_process(*FLAGS).start()
    with Client(server.url, retry=PATIENT) as client:
        model = client.create_model("m", algorithm="falt")
        client.create_model("f", algorithm="salt", follow="m")
        loads: list[Load] = []
        seen = set[str]()
        for attempt in range(KILLS):
            load = Load(server.url, 100_000 * (attempt + 1))
            loads.append(load)
            with load.running():
                eventually(lambda load=load: len(load.numbers) > 10)
                before = _algorithms(client)
                promoting = threading.Thread(target=_promote, args=(server.url,))
                promoting.start()
                time.sleep(rng.uniform(0.0, 0.4))  # a fault at any moment, not a state that is waited for
                server.kill()
                server.start()
                promoting.join()
                reached = len(load.numbers)
                eventually(lambda load=load, n=reached: len(load.numbers) > n + 10)
            # A promotion that was cut off either has come to its end, or leaves a follower that can be promoted.
            eventually(lambda key=f"after-{attempt}": _promoted(client, key), ignore=LOST)
            after = eventually(lambda: _algorithms(client), ignore=LOST)
            seen.add("done" if after == before else "undone")
            assert sorted(after) == ["falt", "salt"]
            position = model.status().position
            follower = eventually(lambda p=position: _at(client, p), ignore=LOST)
            assert follower.updates == model.status().updates == sum(len(each.numbers) for each in loads)
            assert model.verify().equal
        assert len(log_of(model)) == sum(len(each.numbers) for each in loads)
        assert seen <= {"done", "undone"}


def _promote(url: str) -> None:
    with suppress(*LOST), Client(url, retry=Retry(attempts=1)) as client:
        client.model("f").promote()


def _promoted(client: Client, key: str) -> bool:
    return client.model("f").promote(key=key).follower == "f"


def _algorithms(client: Client) -> list[str]:
    return [client.model(name).status().algorithm for name in ("m", "f")]


def _at(client: Client, position: str) -> Any:
    client.model("f").predict({"b": 1}, at_least=position)
    return client.model("f").status()
