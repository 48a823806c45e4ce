"""Receivers, and applications that may send to them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.webhooks.receiver import Receiver, receiving

from manylabel_service.settings import origin_of
from manylabel_service.webhooks import deliverer, sources


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliverers poll more often, and wait less between attempts."""
    monkeypatch.setattr(deliverer, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(deliverer, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(deliverer, "BACKOFF_SECONDS", (0.02, 0.1))
    monkeypatch.setattr(sources, "PREDICTIONS_AGE_MS", 1_000)


@pytest.fixture
def client(serve: Callable[..., Any], receiver: Receiver, quick: None) -> Iterator[TestClient]:
    with serve(webhook_urls=origin_of(receiver.url), job_slots=1) as client:
        yield client
