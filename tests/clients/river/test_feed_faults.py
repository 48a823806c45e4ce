"""Feeds into a real server that is killed in the middle: every row counts once."""

import random
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from river import datasets

from manylabel_clients import Client, Retry, StreamSummary
from manylabel_clients.river import FeedInterrupted, FeedResult, feed

ROWS, BATCH_SIZE = 600, 8
SPEC: dict[str, Any] = {"algorithm": "falt", "params": {"eta": 0.5}, "scaling": "unit", "window": 100}


class AnswerLost(httpx2.BaseTransport):
    """Transport that kills the server after one batch, and loses its response."""

    def __init__(self, kill: Callable[[], object], update: int) -> None:
        self._carrier = httpx2.HTTPTransport()
        self._kill = kill
        self._left = update

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._carrier.handle_request(request)
        if request.url.path.endswith("/stream"):
            self._left -= 1
            if self._left == 0:
                assert response.status_code == 200
                response.read()
                self._kill()
                raise httpx2.ReadError("the answer is lost", request=request)
        return response

    def close(self) -> None:
        self._carrier.close()


def test_a_feed_continues_after_two_kills(client: Client, name: str, server_process: Callable[..., Any]) -> None:
    undisturbed = feed(datasets.Yeast().take(ROWS), client.create_model(name, **SPEC), batch_size=BATCH_SIZE)
    process = server_process().start()
    transport = AnswerLost(process.kill, update=20)
    with Client(process.url, retry=Retry(attempts=1), transport=transport) as other:
        model = other.create_model("genes", **SPEC)

        def go_on(start: int, on_batch: Callable[[int, StreamSummary], object] | None = None) -> FeedResult:
            rows = datasets.Yeast().take(ROWS)
            return feed(rows, model, start=start, feed_id="genes", batch_size=BATCH_SIZE, on_batch=on_batch)

        # First the worst case: learnt, acknowledged, and the acknowledgement lost.
        with pytest.raises(FeedInterrupted, match="the answer is lost") as stopped:
            go_on(0)
        offset = stopped.value.offset
        assert offset == 19 * BATCH_SIZE
        process.start()
        assert model.status().updates == 20 * BATCH_SIZE

        # Then at a moment of chance, with a batch under way or not.
        summaries: list[StreamSummary] = []
        killer = threading.Timer(random.Random(3).uniform(0, 0.005), process.kill)

        def on_batch(offset: int, summary: StreamSummary) -> None:
            summaries.append(summary)
            if offset == 50 * BATCH_SIZE:
                killer.start()

        with pytest.raises(FeedInterrupted) as stopped:
            go_on(offset, on_batch)
        offset = stopped.value.offset
        assert 50 * BATCH_SIZE <= offset < ROWS, stopped.value
        killer.join()
        process.start()
        assert 0 <= model.status().updates - offset <= BATCH_SIZE
        result = go_on(offset)
    assert [summary.replayed for summary in summaries[:3]] == [BATCH_SIZE, 0, 0]
    assert (result.next_offset, result.updates) == (ROWS, ROWS)
    assert result.metrics == undisturbed.metrics
