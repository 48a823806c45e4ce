"""Servers are killed while they deliver: each event arrives, and one of several servers delivers."""

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx2
import pytest
from tests.service.webhooks.conftest import receiver
from tests.service.webhooks.receiver import SECRET, Receiver, status
from tests.support.server_process import ServerProcess
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_clients import Busy, Client, ConnectionFailed, Retry, Unavailable
from manylabel_service.settings import origin_of
from manylabel_service.webhooks.deliverer import POLL_SECONDS

__all__ = ["receiver"]

Start = Callable[..., ServerProcess]


def flags(receiver: Receiver, *others: str) -> tuple[str, ...]:
    return ("--webhook-urls", str(origin_of(receiver.url)), "--job-slots", "0", *others)


def subscribe(client: Client, receiver: Receiver) -> None:
    client.webhooks.create(receiver.url, events=["label"], secret=SECRET)


def labels(receiver: Receiver) -> list[str]:
    return [label for event in receiver.of("label") for label in event["labels"]]


@pytest.mark.parametrize("responds", [False, True])
def test_an_event_whose_delivery_was_not_recorded_is_sent_again(
    responds: bool, receiver: Receiver, server_process: Start
) -> None:
    arrived, release = threading.Event(), threading.Event()

    def respond(handler: BaseHTTPRequestHandler) -> None:
        if responds:
            status(handler, 204)
        arrived.set()
        release.wait(DEADLINE_SECONDS)

    receiver.respond = respond
    server = server_process(*flags(receiver, "--log-level", "debug")).start()
    with Client(server.url) as client:
        subscribe(client, receiver)
        client.create_model("m", algorithm="falt")
        client.model("m").update({"a": 1.0}, ["x"])
        assert arrived.wait(DEADLINE_SECONDS)
        if not responds:
            time.sleep(2 * POLL_SECONDS)  # by now the server has stored its queue, with the event that it sends
    server.kill()
    receiver.respond = lambda handler: status(handler, 204)
    release.set()
    server.start()
    with Client(server.url) as client:
        client.model("m").update({"a": 1.0}, ["y"])
        eventually(lambda: labels(receiver)[-1:] == ["y"], otherwise=receiver.all)
    if not responds:
        assert labels(receiver) == ["x", "x", "y"]
        assert receiver.ids[0] == receiver.ids[1], "a receiver can tell that it had it"
    assert len(set(receiver.ids)) == 2
    server.stop()
    assert not {"t0p", SECRET} & set(re.findall(r"t0p|whsec_\w+", server.log.read_text()))


def test_kills_lose_no_event(receiver: Receiver, server_process: Start) -> None:
    """Events of a model that learns a new label with each update, under kills and a receiver that fails at times."""
    draw, over, acknowledged = random.Random(7), threading.Event(), list[str]()
    receiver.respond = lambda handler: status(handler, 204 if draw.random() < 0.98 else 500)
    server = server_process(*flags(receiver, "--snapshot-every-updates", "20")).start()
    with Client(server.url) as client:
        subscribe(client, receiver)
        client.create_model("m", algorithm="falt")

    def learn() -> None:
        number = 0
        with Client(server.url, retry=Retry(attempts=1)) as client:
            while not over.is_set():
                if len(acknowledged) > len(receiver.events) + 100:  # the queue has room for 1,000
                    time.sleep(0.01)  # until some more were delivered
                    continue
                number += 1
                with suppress(Busy, ConnectionFailed, Unavailable):  # not acknowledged
                    client.model("m").update({"a": 1.0}, [f"l{number}"])
                    acknowledged.append(f"l{number}")

    learning = threading.Thread(target=learn)
    learning.start()
    try:
        for kill in range(3):
            so_far = len(acknowledged)
            eventually(lambda so_far=so_far: len(acknowledged) > so_far + 40)  # type: ignore[misc]
            eventually(lambda kill=kill: len(receiver.events) > 5 * kill)  # type: ignore[misc]
            server.kill()
            server.start()
    finally:
        over.set()
        learning.join()
    eventually(lambda: not set(acknowledged) - set(labels(receiver)), otherwise=lambda: missing(acknowledged, receiver))
    assert receiver.of("dropped") == []
    server.stop()
    assert "t0p" not in server.log.read_text(), "an address may be a secret"


def missing(acknowledged: list[str], receiver: Receiver) -> str:
    lost = [label for label in acknowledged if label not in set(labels(receiver))]
    return f"{len(lost)} of {len(acknowledged)} are missing: {lost[:20]}; {receiver.of('dropped')}"


def delivered(server: ServerProcess) -> float:
    """Attempts that a server has made."""
    lines = httpx2.get(f"{server.url}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("manylabel_webhook_deliveries_total"))


def test_a_second_server_takes_over_deliveries(receiver: Receiver, server_process: Start, redis_server: Any) -> None:
    options = flags(receiver, "--store", redis_server.url)
    first, second = (server_process(*options).start() for _ in range(2))
    with Client(second.url) as client:
        subscribe(client, receiver)
        client.create_model("m", algorithm="falt")
        for label in "abc":
            client.model("m").update({"a": 1.0}, [label])
        eventually(lambda: labels(receiver) == ["a", "b", "c"], otherwise=receiver.all)
        assert (delivered(first), delivered(second)) == (3, 0)

        hold = threading.Event()
        receiver.respond = lambda handler: hold.wait(DEADLINE_SECONDS)
        client.model("m").update({"a": 1.0}, ["d"])
        eventually(lambda: labels(receiver)[-1] == "d")
        first.kill()
        receiver.respond = lambda handler: status(handler, 204)
        hold.set()
        client.model("m").update({"a": 1.0}, ["e"])
        eventually(lambda: labels(receiver) == [*"abcdd", "e"], otherwise=receiver.all)
        assert delivered(second) == 2

        first.start()
        client.model("m").update({"a": 1.0}, ["f"])
        eventually(lambda: labels(receiver)[-1] == "f")
        assert (delivered(first), delivered(second)) == (0, 3)
        assert len(client.webhooks.list()) == 1
    for server in (second, first):
        server.stop()


def test_a_frozen_server_loses_its_deliveries(receiver: Receiver, server_process: Start, redis_server: Any) -> None:
    options = flags(receiver, "--store", redis_server.url)
    first, second = (server_process(*options).start() for _ in range(2))
    with Client(second.url) as client:
        subscribe(client, receiver)
        client.create_model("m", algorithm="falt")
        client.model("m").update({"a": 1.0}, ["a"])
        receiver.waits_for("label")
        os.kill(first.pid, signal.SIGSTOP)
        try:
            client.model("m").update({"a": 1.0}, ["b"])
            eventually(lambda: "b" in labels(receiver), otherwise=receiver.all)
            assert delivered(second) >= 1, "more if the other had not written down what it delivered"
        finally:
            os.kill(first.pid, signal.SIGCONT)
        for number in range(20):
            client.model("m").update({"a": 1.0}, [f"l{number}"])
            time.sleep(0.05)  # the two may both deliver now
        eventually(lambda: {f"l{n}" for n in range(20)} <= set(labels(receiver)), otherwise=receiver.all)
    for server in (second, first):
        server.stop()
