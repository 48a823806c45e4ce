"""POST of an event to an allowed address, signed as in Standard Webhooks; only a limited part of the response is
read."""

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from ssl import SSLContext
from typing import Any, NamedTuple

import httpcore2
import httpx2
from standardwebhooks.webhooks import Webhook as Signer

from manylabel_service import outgoing
from manylabel_service.clock import now_ms
from manylabel_service.settings import origin_of
from manylabel_service.webhooks.webhook import Delivery, Message, Webhook

MAX_RESPONSE_BYTES = 2**14
"""Maximum bytes that are read of the headers and interim responses to a request."""
READ_BYTES = 2**12
"""Maximum bytes read at once; other requests run in between."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Transport that ends a request whose responses have more than `MAX_RESPONSE_BYTES`."""

    def __init__(self, context: SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        # A receiver may send interim responses (1xx) without end, and the library skips them in one step.
        self._pool = httpcore2.AsyncConnectionPool(ssl_context=context, network_backend=_Backend())


class _Stream(httpcore2.AsyncNetworkStream):
    """Stream that counts the bytes read since the last write."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream, self._left = stream, MAX_RESPONSE_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._left <= 0:
            raise httpcore2.ReadError(f"the responses have more than {MAX_RESPONSE_BYTES:,} bytes")
        await asyncio.sleep(0)
        data = await self._stream.read(min(max_bytes, READ_BYTES, self._left), timeout)
        self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._left = MAX_RESPONSE_BYTES
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


TIMEOUT_SECONDS = 15.0
"""Timeout in seconds of an attempt, from the name of the host to the headers of the response."""
MAX_RETRY_AFTER_SECONDS = 3_600.0

GONE = "gone"
NOT_ALLOWED = "url_not_allowed"
UNEXPECTED = "internal_error"
FINAL = frozenset({GONE, NOT_ALLOWED})
"""Errors after which a webhook is disabled at once, until an operator enables it."""


class _AddressRefused(Exception):
    """An allowed host resolves to a forbidden address."""


class Sent(NamedTuple):
    """Result of an attempt, and the seconds until the receiver accepts another one."""

    delivery: Delivery
    retry_after: float


class Sender:
    """Sender of events, which does not read the body of a response.

    Events may be sent to the origins `urls`, whose host names may resolve to the non-public addresses `networks`.
    """

    def __init__(self, urls: Collection[str], networks: Collection[str]) -> None:
        self.urls = urls
        self._networks = [ip_network(network) for network in networks]
        self._context: SSLContext | None = None

    def allows(self, url: str) -> bool:
        """Return whether events may be sent to a URL."""
        return origin_of(url) in self.urls

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[httpx2.AsyncClient]:
        """Yield a client for several events of one webhook, which share a connection if the receiver keeps it open."""
        self._context = self._context or await outgoing.tls_context()
        transport = BoundedTransport(self._context)
        async with outgoing.client(self._context, TIMEOUT_SECONDS, {}, transport) as client:
            yield client

    async def send(
        self, webhook: Webhook, message: Message, attempt: int, client: httpx2.AsyncClient | None = None
    ) -> Sent:
        """Post an event once, by a client of `connected` if there is one, and return the result."""
        started, unix_ms, status, wait = time.monotonic(), now_ms(), None, 0.0
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                status, wait = await self._post(webhook, message, client)
            error = None if 200 <= status < 300 else GONE if status == 410 else "status"
        except _AddressRefused:
            error = NOT_ALLOWED if not self.allows(webhook.url) else "address_not_allowed"
        except outgoing.HostUnknown:
            error = "host_unknown"
        except (TimeoutError, httpx2.TimeoutException):
            error = "timeout"
        except httpx2.ConnectError:
            error = "connection_failed"
        except (httpx2.HTTPError, httpx2.InvalidURL):
            error = "no_response"
        milliseconds = round(1000 * (time.monotonic() - started))
        delivery = Delivery(
            event=message.id,
            type=message.type,
            unix_ms=unix_ms,
            attempt=attempt,
            milliseconds=milliseconds,
            status=status,
            error=error,
        )
        return Sent(delivery, wait)

    async def _post(self, webhook: Webhook, message: Message, client: httpx2.AsyncClient | None) -> tuple[int, float]:
        if not self.allows(webhook.url):
            raise _AddressRefused
        url = httpx2.URL(webhook.url)
        addresses = await outgoing.resolve(url, TIMEOUT_SECONDS)
        if outgoing.literal(url.host) is None and not all(self._may_have(url.host, address) for address in addresses):
            raise _AddressRefused
        if client is None:
            async with self.connected() as client:
                return await _request(client, url, addresses, webhook, message)
        return await _request(client, url, addresses, webhook, message)

    def _may_have(self, host: str, address: str) -> bool:
        """Return whether a host name may resolve to an address: a public one, or one of the allowed networks."""
        plain = outgoing.embedded(ip_address(address))
        if any(plain in network for network in self._networks) or (host == "localhost" and plain.is_loopback):
            return True
        return plain.is_global and not plain.is_multicast


def failed_delivery(message: Message, attempt: int) -> Delivery:
    """Return the result of an attempt that an unexpected error has ended."""
    return Delivery(
        event=message.id,
        type=message.type,
        unix_ms=now_ms(),
        attempt=attempt,
        milliseconds=0,
        status=None,
        error=UNEXPECTED,
    )


async def _request(
    client: httpx2.AsyncClient, url: httpx2.URL, addresses: list[str], webhook: Webhook, message: Message
) -> tuple[int, float]:
    """Return the status of the response, and the seconds that it asks to wait."""
    options = {"content": message.body.encode(), "headers": _headers(webhook, message)}

    async def post(address: str) -> tuple[int, float]:
        async with outgoing.requested(client, "POST", url, address, **options) as response:
            if response.status_code == 204 or response.headers.get("content-length") == "0":
                async for _ in response.aiter_raw():  # the response has no body, and the connection can be used again;
                    pass  # a chunked body, which is longer than it says, is not decompressed
            return response.status_code, _retry_after(response)

    return await outgoing.from_first(addresses, post)


def _headers(webhook: Webhook, message: Message) -> dict[str, str]:
    at = datetime.now(UTC)
    return {
        "Content-Type": "application/json",
        "User-Agent": "ManyLabel",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Signer(webhook.secret).sign(message.id, at, message.body),
    }


def _retry_after(response: httpx2.Response) -> float:
    value = response.headers.get("retry-after", "")
    return min(float(value), MAX_RETRY_AFTER_SECONDS) if value.isascii() and value.isdigit() else 0.0
