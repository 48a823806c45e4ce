"""Requests to checked addresses of other servers, without redirects, proxies or cookies.

A name is resolved once, its addresses are checked, and the connection goes to one of them, so DNS rebinding has no
effect.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from ssl import SSLContext
from typing import Any, TypeVar

import httpx2

IPAddress = IPv4Address | IPv6Address

T = TypeVar("T")

_NAT64 = ip_network("64:ff9b::/96")


class HostUnknown(Exception):
    """The name of a host does not resolve; the message is the name of the error."""


def embedded(address: IPAddress) -> IPAddress:
    """Return the IPv4 address inside an IPv6 address (mapped, 6to4, NAT64); return other addresses unchanged."""
    if isinstance(address, IPv4Address):
        return address
    nat64 = IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None
    return address.ipv4_mapped or address.sixtofour or nat64 or address


def literal(host: str) -> str | None:
    """Return a host that is an IP address in canonical form; None for a name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None


async def resolve(url: httpx2.URL, seconds: float) -> list[str]:
    """Return the IP addresses of the host of a URL. Raises HostUnknown."""
    if (address := literal(url.host)) is not None:
        return [address]
    try:
        async with asyncio.timeout(seconds):
            found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as error:  # UnicodeError for an invalid host name
        raise HostUnknown(type(error).__name__) from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def tls_context() -> SSLContext:
    """Return a TLS context that trusts the system's authorities; loading their certificates takes some 100 ms."""
    return await asyncio.to_thread(httpx2.create_ssl_context, trust_env=False)


def client(
    context: SSLContext,
    seconds: float,
    headers: dict[str, str],
    transport: httpx2.AsyncBaseTransport | None = None,
) -> httpx2.AsyncClient:
    """Return a client that follows no redirect, uses no proxy, and keeps no cookies.

    Parameters
    ----------
    context : result of `tls_context`.
    seconds : timeout of each step of a request.
    headers : headers of all requests.
    transport : transport to use instead of the default one.
    """
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    return httpx2.AsyncClient(
        verify=context,
        timeout=seconds,
        headers=headers,
        cookies=no_cookies,
        transport=transport,
        trust_env=False,
        follow_redirects=False,
    )


@asynccontextmanager
async def requested(
    client: httpx2.AsyncClient, method: str, url: httpx2.URL, address: str, **options: Any
) -> AsyncGenerator[httpx2.Response]:
    """Send a request to one address of the host of a URL, and yield the response before its body is read."""
    headers = {"Host": url.netloc.decode("ascii"), **options.pop("headers", {})}
    names = {"sni_hostname": url.host}
    async with client.stream(
        method, url.copy_with(host=address), headers=headers, extensions=names, **options
    ) as response:
        yield response


async def from_first(addresses: list[str], request: Callable[[str], Awaitable[T]]) -> T:
    """Return the result of a request to the first address that accepts a connection."""
    for address in addresses[:-1]:
        with suppress(httpx2.ConnectError):
            return await request(address)
    return await request(addresses[-1])
