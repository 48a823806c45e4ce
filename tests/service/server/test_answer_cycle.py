"""Responses on the wire: a small response is one write, and no header can contain another."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.cases import for_each
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from manylabel_service.api.web.middleware import HEADERS
from manylabel_service.server.answer_cycle import ResponseCycle

JSON = (b"content-type", b"application/json")
Headers = Sequence[tuple[bytes, bytes]]


class Wire:
    """A transport that keeps what is written, and a flow that never holds back."""

    write_paused = False

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True


async def answered(
    kind: type[RequestResponseCycle], headers: Headers, *portions: bytes, method: str = "POST", keep_alive: bool = True
) -> Wire:
    """Return the bytes that a cycle of this kind writes for an answer."""
    wire: Any = Wire()
    cycle = kind(
        {"type": "http", "method": method},  # type: ignore[typeddict-item]
        wire,
        wire,
        logging.getLogger(),
        logging.getLogger(),
        access_log=False,
        default_headers=[(b"date", b"Sun, 22 Nov 2026 22:00:00 GMT")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )
    await cycle.send({"type": "http.response.start", "status": 200, "headers": list(headers)})
    for number, portion in enumerate(portions, 1):
        await cycle.send({"type": "http.response.body", "body": portion, "more_body": number < len(portions)})
    assert cycle.response_complete
    return wire  # type: ignore[no-any-return]


@for_each(
    ("headers", "portions", "method"),
    [
        ([JSON, (b"content-length", b"2"), *HEADERS, (b"x-request-id", b"a")], [b"{}"], "POST"),
        ([JSON, (b"content-length", b"4")], [b"{", b" }", b"\n"], "POST"),
        ([JSON, (b"content-length", b"0")], [b""], "POST"),
        ([JSON, (b"content-length", b"2")], [b""], "HEAD"),
        ([JSON], [b"{}"], "POST"),
        ([JSON, (b"transfer-encoding", b"chunked")], [b"{", b"}"], "POST"),
        ([(b"connection", b"close"), (b"content-length", b"2")], [b"{}"], "POST"),
        ([(b"Retry-After", b"1"), (b"content-length", b"2")], [b"{}"], "POST"),
    ],
)
@for_each("keep_alive", [True, False])
def test_a_response_is_the_one_of_uvicorn(
    headers: Headers, portions: list[bytes], method: str, keep_alive: bool
) -> None:
    ours, theirs = (
        asyncio.run(answered(kind, headers, *portions, method=method, keep_alive=keep_alive))
        for kind in (ResponseCycle, RequestResponseCycle)
    )
    assert b"".join(ours.written).lower() == b"".join(theirs.written).lower()
    assert ours.closed == theirs.closed


def test_a_small_response_is_one_write() -> None:
    wire = asyncio.run(answered(ResponseCycle, [JSON, (b"content-length", b"2")], b"{}"))
    assert len(wire.written) == 1


@pytest.mark.parametrize("header", [(b"location", b"/\r\nset-cookie: a=b"), (b"x\r\ny", b"z"), (b"x y", b"z")])
def test_a_header_cannot_contain_another(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(RuntimeError, match="Invalid HTTP header"):
        asyncio.run(answered(ResponseCycle, [JSON, (b"content-length", b"2"), header], b"{}"))


@pytest.mark.parametrize(("length", "body"), [(b"1", b"{}"), (b"3", b"{}")])
def test_a_wrong_content_length_is_an_error(length: bytes, body: bytes) -> None:
    with pytest.raises(RuntimeError, match="Content-Length"):
        asyncio.run(answered(ResponseCycle, [JSON, (b"content-length", length)], body))
