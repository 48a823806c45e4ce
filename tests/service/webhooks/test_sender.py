"""One POST: its signature, and addresses to which it is never sent."""

import asyncio
import base64
import contextlib
import gzip
import hashlib
import hmac
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx2._decoders import GZipDecoder
from tests.service.webhooks.receiver import SECRET, Receiver, receiving, status
from tests.support.cases import for_each
from tests.support.hosts import resolving
from tests.support.server_process import free_port

from manylabel_service.settings import Settings, origin_of
from manylabel_service.webhooks.deliverer import BACKOFF_SECONDS, backoff
from manylabel_service.webhooks.sender import Sender
from manylabel_service.webhooks.webhook import Message, Webhook, message_of


def webhook(url: str) -> Webhook:
    return Webhook(id="w", url=url, secret=SECRET, events=["label"], models=["*"], created_unix_ms=0)


def event() -> Message:
    return message_of("label", {"model": "m", "labels": ["\u00e9", "\U0001f44d", "\x00"]}, 1)


async def sent(url: str, *networks: str, urls: tuple[str, ...] | None = None) -> str | None:
    allowed = (str(origin_of(url)),) if urls is None else urls
    return (await Sender(allowed, networks).send(webhook(url), event(), 1)).delivery.error


async def test_the_signature_is_that_of_standard_webhooks(receiver: Receiver) -> None:
    message = event()
    await Sender([str(origin_of(receiver.url))], ()).send(webhook(receiver.url), message, 1)
    (headers,) = receiver.headers  # the receiver has verified them with the library of the standard
    assert headers["webhook-id"] == message.id
    assert headers["content-type"] == "application/json"
    signed = f"{message.id}.{headers['webhook-timestamp']}.{message.body}".encode()
    digest = hmac.new(base64.b64decode(SECRET.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


PRIVATE = [
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "127.0.0.1",
    "0.0.0.0",
    "100.64.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "fe80::1",
    "fd00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
]


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_host_that_resolves_to_a_private_address_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[Any] = []
    monkeypatch.setattr("manylabel_service.outgoing.requested", lambda *args, **_: connected.append(args))
    for addresses in ((address,), ("93.184.216.34", address)):
        resolving(monkeypatch, *addresses)
        assert await sent("http://hooks.test/x") == "address_not_allowed"
    assert not connected


async def test_allowed_networks_are_reached(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.1")
    url = receiver.url.replace("127.0.0.1", "n8n.test")
    assert await sent(url) == "address_not_allowed"
    assert await sent(url, "10.0.0.0/8") == "address_not_allowed"
    assert await sent(url, "10.0.0.0/8", "127.0.0.0/8") is None
    assert await sent(url, "127.0.0.1") is None
    assert await sent(receiver.url.replace("127.0.0.1", "localhost")) is None
    assert [each["host"].split(":")[0] for each in receiver.headers] == ["n8n.test", "n8n.test", "localhost"]


async def test_the_checked_address_is_the_one_connected_to(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves to another address the second time is of no use: it is resolved once."""
    asked = []

    def getaddrinfo(host: str, port: Any, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "127.0.0.9"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert await sent(receiver.url.replace("127.0.0.1", "n8n.test"), "127.0.0.1") is None
    assert asked == ["n8n.test"]


async def test_the_next_address_is_tried_when_one_refuses(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.2", "127.0.0.1")  # the first refuses connections
    assert await sent(receiver.url.replace("127.0.0.1", "n8n.test"), "127.0.0.0/8") is None


async def test_an_address_must_be_in_the_setting(receiver: Receiver) -> None:
    port = receiver.url.split(":")[2].split("/")[0]
    for url in (
        f"http://127.0.0.1:{port}@127.0.0.2/",
        f"http://[::ffff:127.0.0.1]:{port}/",
        f"http://2130706433:{port}/",
        f"http://127.1:{port}/",
        f"https://127.0.0.1:{port}/",
        "http://127.0.0.1/",
    ):
        assert await sent(url, urls=(f"http://127.0.0.1:{port}",)) == "url_not_allowed", url
    assert not receiver.events


async def test_no_proxy_is_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert await sent(receiver.url) is None
        assert not proxy.events


async def test_errors_of_a_connection_have_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await sent(f"http://127.0.0.1:{free_port()}/") == "connection_failed"

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert await sent("http://nowhere.test/") == "host_unknown"
    assert await sent("http://" + "a" * 70 + ".test/") == "host_unknown"


def test_pauses_grow_and_are_random() -> None:
    least, most = BACKOFF_SECONDS
    for failures in range(1, 200):
        longest = min(most, least * 2.0 ** (failures - 1)) if failures < 40 else most
        pauses = [backoff(failures) for _ in range(20)]
        assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert len(set(pauses)) > 1


def test_nothing_secret_is_in_a_repr() -> None:
    assert SECRET not in repr(webhook("https://hooks.test/?token=t0p"))
    assert "t0p" not in repr(webhook("https://hooks.test/?token=t0p"))


@contextlib.asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[tuple[str, list[int]]]:
    """A receiver that answers each request of a connection; its address, and the requests of each connection."""
    requests: list[int] = []
    handling: set[asyncio.Task[Any] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handling.add(asyncio.current_task())
        requests.append(0)
        connection = len(requests) - 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                (length,) = [line[16:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: ")]
                await reader.readexactly(int(length))
                requests[connection] += 1
                writer.write(answer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", requests
        await asyncio.gather(*filter(None, handling))  # the client has closed the connections


HINTS = b"HTTP/1.1 103 Early Hints\r\n\r\n"
DONE = b"HTTP/1.1 204 No Content\r\n\r\n"


async def test_interim_responses_are_limited() -> None:
    for number, error in ((0, None), (10, None), (3_000, "no_response")):
        async with answering(number * HINTS + DONE) as (url, requests):
            assert (number, await sent(url)) == (number, error)
            assert requests == [1]


@pytest.mark.parametrize("answer", [DONE, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
async def test_events_of_a_webhook_share_a_connection(answer: bytes) -> None:
    async with answering(answer) as (url, requests):
        sender = Sender([str(origin_of(url))], ())
        async with sender.connected() as client:
            for _ in range(5):
                assert (await sender.send(webhook(url), event(), 1, client)).delivery.error is None
        assert requests == [5]


async def test_cookies_of_a_receiver_are_not_kept(receiver: Receiver) -> None:
    receiver.respond = lambda handler: status(handler, 204, **{"Set-Cookie": f"c{len(receiver.events)}=1"})
    sender = Sender([str(origin_of(receiver.url))], ())
    async with sender.connected() as client:
        for _ in range(3):
            assert (await sender.send(webhook(receiver.url), event(), 1, client)).delivery.error is None
    assert len(receiver.headers) == 3
    assert not any("cookie" in headers for headers in receiver.headers)


async def test_a_body_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(*_: Any) -> bytes:
        raise AssertionError

    monkeypatch.setattr(GZipDecoder, "decode", decode)
    body = gzip.compress(bytes(2**20))
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunked = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    async with answering(head + chunked) as (url, requests):
        assert await sent(url) is None
        assert requests == [1]


@for_each(
    "url",
    [
        *("localhost:8080", "ftp://a", "http://a/b", "http://a?", "http://u@a", "http://a:0"),
        *("http://999.1.1.1", "http://2130706433", "http://[1:2]"),
    ],
)
def test_a_bad_address_in_the_setting_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="webhook_urls"):
        Settings(webhook_urls=f"http://localhost:8080,{url}")
