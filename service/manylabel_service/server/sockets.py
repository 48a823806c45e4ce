"""Listening sockets of the server."""

import socket

import structlog

from manylabel_service.settings import Settings

BACKLOG = 2048
"""Maximum number of connections that wait to be accepted."""

log = structlog.get_logger()


def warn_if_open(settings: Settings) -> None:
    """Log a warning if the server accepts requests from other hosts without keys."""
    if settings.insecure and not settings.is_local:
        action = "create a key, or restrict access by a firewall; 127.0.0.1 is this machine only"
        log.warning("open_to_others", host=settings.host, reason="insecure: no key is required", action=action)


def listen(settings: Settings) -> socket.socket:
    """Return a listening socket. Raises OSError if the address is taken, or not one of this machine."""
    return socket.create_server((settings.host, settings.port), family=_family(settings), backlog=BACKLOG)


def share(settings: Settings) -> socket.socket:
    """Return a bound socket that does not listen yet and whose address other processes of this user may share. Raises
    OSError like `listen`.

    The kernel spreads connections over all listening sockets of an address, by a hash of the client's address. With one
    socket shared by several processes, nearly all connections would go to the process that wakes first.
    """
    bound = socket.socket(_family(settings), socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((settings.host, settings.port))
    except OSError:
        bound.close()
        raise
    return bound


def reserve(settings: Settings) -> socket.socket:
    """Return a socket like `share`, for an address that no other server uses. Raises OSError like `listen`.

    While the socket is open, no other server can bind the address exclusively.
    """
    listen(settings).close()  # sharing would also succeed if the workers of another server used the port
    return share(settings)


def url_of(settings: Settings, bound: socket.socket) -> str:
    """Return the URL of the socket, with the port that the system assigned."""
    scheme = "http" if settings.tls_cert_file is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{bound.getsockname()[1]}"


def _family(settings: Settings) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in settings.host else socket.AF_INET
