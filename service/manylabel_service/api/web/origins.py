"""Host and origin checks: a page of another site in a user's browser must not reach this server.

A browser sends the host name of the server (Host) and the origin of the page (Origin, Sec-Fetch-Site). An unknown host
indicates that a foreign name resolves to the server's address (DNS rebinding), an unknown origin that the page belongs
to another site. Programs other than browsers send no Origin.
"""

import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from starlette.types import Scope

from manylabel_service.api.web.problems import Problem

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARDS = frozenset({"0.0.0.0", "::"})
"""Addresses of a server that listens on every interface."""
MAX_REMEMBERED = 1_000
"""Maximum number of allowed values of Host that are cached."""


class OriginCheck:
    """Check of the host that a request names, and of the page that sends it.

    Parameters
    ----------
    listens_on : listening address of the server; if it listens on every interface, any IP address is allowed as host.
    hosts : more allowed host names: `*.example.org` for all names below a domain, `*` for any.
    origins : allowed origins of pages, such as `https://tags.example.org`; `*` for any.
    """

    def __init__(self, listens_on: str, hosts: Iterable[str], origins: Iterable[str]) -> None:
        self._any_address = listens_on in WILDCARDS
        own = {socket.gethostname().lower()} if self._any_address else {listens_on.lower()}
        self._hosts = {*LOOPBACK, *own, *(host.lower() for host in hosts)}
        self._below = tuple(host[1:] for host in self._hosts if host.startswith("*."))
        self._origins = {origin.lower() for origin in origins}
        self._good: set[bytes] = set()

    def refusal(self, scope: Scope) -> Problem | None:
        """Return the problem of a request whose host or origin is not allowed; None if both are."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"")
        if host and host not in self._good and not self._is_own(host):
            named = host.decode("latin-1")[:100]
            return Problem("host_not_allowed", f"this server is not {named!r}; its operator can set allowed_hosts")
        if (b"origin" in headers or b"sec-fetch-site" in headers) and not self._may_ask(scope["method"], headers):
            detail = "pages of other sites may not use this server; its operator can set allowed_origins"
            return Problem("origin_not_allowed", detail)
        return None

    def _is_own(self, host: bytes) -> bool:
        name = _without_port(host.decode("latin-1")).lower().removesuffix(".")
        own = name in self._hosts or "*" in self._hosts or name.endswith(self._below)
        own = own or (self._any_address and _is_address(name))
        if own and len(self._good) < MAX_REMEMBERED:
            self._good.add(host)
        return own

    def _may_ask(self, method: str, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether the requesting page is allowed. Following a link to this server is always allowed."""
        if "*" in self._origins:
            return True
        if b"origin" in headers:
            origin, host = (headers.get(name, b"").decode("latin-1").lower() for name in (b"origin", b"host"))
            return origin in self._origins or origin.partition("://")[2] == host
        return headers[b"sec-fetch-site"] != b"cross-site" or _is_followed_link(method, headers)


def _is_followed_link(method: str, headers: Mapping[bytes, bytes]) -> bool:
    document = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return document and method in ("GET", "HEAD")


def _without_port(host: str) -> str:
    if host.startswith("["):  # IPv6 address
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
