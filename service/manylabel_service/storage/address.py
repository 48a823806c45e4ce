"""Address of a store, with and without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

EMBEDDED = "sqlite"
"""Value of the setting `store`, instead of an address, that selects the store in the data directory, for one
process."""

REDIS_SCHEMES = ("redis", "rediss")
"""URL schemes of Redis addresses."""

FORM = "redis://[user:password@]host[:port][/database], or rediss:// for TLS"


PLACE_FORM = "file:///DIRECTORY or s3://BUCKET/PREFIX"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def is_redis(store: str) -> bool:
    """Return whether a setting names a Redis store, which several processes can share."""
    return store.partition("://")[0] in REDIS_SCHEMES


def check_place(address: str, title: str) -> None:
    """Raise ValueError for an invalid address of a place; the message begins with the title."""
    parts = urlsplit(address)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost") and len(parts.path) > 1
    is_bucket = parts.scheme == "s3" and bool(_BUCKET.fullmatch(parts.netloc))
    if not (is_file or is_bucket) or parts.query or parts.fragment:
        raise ValueError(f"the address of {title} must have the form {PLACE_FORM}")


@dataclass(frozen=True)
class Address:
    """Address of a Redis server, or of any node of a Redis Cluster.

    Attributes
    ----------
    host, port, database : location of the database.
    tls : whether to encrypt the connection and check the server's certificate.
    username, password : None if missing.
    ca_file : certificates of trusted authorities, instead of those of the system.
    cert_file, key_file : client certificate and key, for a server that requires them; None if missing.
    """

    host: str
    port: int = 6379
    database: int = 0
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    @classmethod
    def parse(
        cls,
        url: str,
        password: str | None = None,
        ca_file: Path | None = None,
        cert_file: Path | None = None,
        key_file: Path | None = None,
    ) -> Address:
        """Parse a URL; its password takes precedence.

        Raises
        ------
        ValueError
            If the URL is invalid. The message does not repeat the URL, which may contain a password.
        """
        try:
            parts = urlsplit(url)
            database = parts.path.strip("/") or "0"
            if parts.scheme not in REDIS_SCHEMES or not parts.hostname or parts.query or parts.fragment:
                raise ValueError
            return cls(
                parts.hostname,
                6379 if parts.port is None else parts.port,
                int(database) if database.isascii() and database.isdecimal() else int("x"),
                parts.scheme == "rediss",
                unquote(parts.username) if parts.username else None,
                unquote(parts.password) if parts.password else password,
                ca_file,
                cert_file,
                key_file,
            )
        except ValueError:
            raise ValueError(f"the address of a Redis must have the form {FORM}") from None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.database}"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a redis-py client, except the host and the database."""
        arguments: dict[str, Any] = {"port": self.port, "username": self.username, "password": self.password}
        if self.tls:
            files = {"ssl_ca_certs": self.ca_file, "ssl_certfile": self.cert_file, "ssl_keyfile": self.key_file}
            arguments |= {name: None if file is None else str(file) for name, file in files.items()}
        return arguments
