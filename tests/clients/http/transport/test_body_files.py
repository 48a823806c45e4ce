"""A failed request closes the file of its body."""

import asyncio
import threading
from collections.abc import AsyncIterable, Iterable, Iterator
from typing import Any

import httpx2
import pytest
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_clients.http.client import AsyncClient, Client
from manylabel_clients.http.transport.exchange import Request


class File:
    """A body in pieces, and whether it is open."""

    def __init__(self) -> None:
        self.is_open = False
        self.reads = threading.Event()
        self.may_go_on = threading.Event()

    def pieces(self) -> Iterator[bytes]:
        self.is_open = True
        try:
            yield b"first"
            self.reads.set()
            assert self.may_go_on.wait(DEADLINE_SECONDS)
            yield b"second"
        finally:
            self.is_open = False

    def request(self) -> Request:
        return Request("POST", "/", body=self.pieces)


class CutOff(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """The connection ends after the first piece, or lasts."""

    def __init__(self, ends: bool = True) -> None:
        self._ends = ends

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, Iterable)
        for _ in request.stream:
            raise httpx2.WriteError("cut off")
        raise AssertionError("unreachable")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, AsyncIterable)
        async for _ in request.stream:
            if self._ends:
                raise httpx2.WriteError("cut off")
        raise AssertionError("unreachable")


def test_a_file_is_closed_when_the_connection_is_cut_off() -> None:
    file = File()
    with Client("http://nobody", transport=CutOff()) as client:
        error: Any = client._connections._send(file.request())
    assert isinstance(error, httpx2.WriteError)
    assert not file.is_open


async def test_a_file_is_closed_when_an_asynchronous_connection_is_cut_off() -> None:
    file = File()
    async with AsyncClient("http://nobody", transport=CutOff()) as client:
        error: Any = await client._connections._send(file.request())
    assert isinstance(error, httpx2.WriteError)
    assert not file.is_open


async def test_a_file_is_closed_when_the_call_is_cancelled() -> None:
    file = File()
    async with AsyncClient("http://nobody", transport=CutOff(ends=False)) as client:
        sending = asyncio.create_task(client._connections._send(file.request()))
        await asyncio.to_thread(file.reads.wait, 60)
        sending.cancel()
        await asyncio.sleep(0)
        file.may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert not file.is_open
