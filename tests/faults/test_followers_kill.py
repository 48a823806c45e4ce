"""kill -9 while followers catch up: after a restart, they have learnt each entry exactly once."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_clients import Client, ManyLabelError, Retry, Unavailable
from manylabel_clients.http.responses import ModelStatus

FLAGS = ("--snapshot-every-updates", "2000", "--snapshot-retention-count", "2", "--load-timeout-seconds", "0.2")
EXAMPLES = 12_000


def status(client: Client, name: str) -> ModelStatus:
    """The status of a follower, once it has caught up."""
    while True:
        with suppress(Unavailable):
            found = client.model(name).status()
            assert isinstance(found, ModelStatus)
            return found


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_followers_learn_each_entry_once(kind: str, server_process: Callable[..., Any], request: Any) -> None:
    on_redis = ("--store", request.getfixturevalue("redis_server").url) if kind == "redis" else ()
    server = server_process(*FLAGS, *on_redis)
    server.start()
    with Client(server.url, timeout=DEADLINE_SECONDS) as client:
        model = client.create_model("m", algorithm="falt")
        items = [({f"w{n % 97}": 1.0, f"v{n % 31}": 0.5}, [f"l{n % 7}"]) for n in range(EXAMPLES)]
        for begin in range(0, EXAMPLES, 50):
            model.update_many(items[begin : begin + 50])
        end = model.status().position

    def create() -> None:
        with suppress(ManyLabelError), Client(server.url, retry=Retry(attempts=1), timeout=DEADLINE_SECONDS) as client:
            client.create_model("f", algorithm="salt", follow="m")

    creating = threading.Thread(target=create)
    creating.start()
    for seconds in (0.3, 0.6):
        time.sleep(seconds)
        server.kill()
        creating.join()
        server.start()
        with Client(server.url, timeout=DEADLINE_SECONDS) as client:
            client.create_model("f", algorithm="salt", follow="m", exist_ok=True)
    with Client(server.url, timeout=DEADLINE_SECONDS) as client:
        killed = status(client, "f")
        client.create_model("g", algorithm="salt", follow="m")
        other = status(client, "g")
        assert (killed.position, killed.updates) == (other.position, other.updates) == (end, EXAMPLES)
        assert killed.metrics == other.metrics
        x = [item[0] for item in items[:200]]
        first, second = (client.model(name).predict_many(x, batch_size=50) for name in ("f", "g"))
        assert [one.scores for one in first] == [one.scores for one in second]
