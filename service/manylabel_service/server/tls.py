"""TLS in the process: the server's certificate, reloaded when its files change."""

import asyncio
import re
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import structlog

from manylabel_service.settings import Settings

POLL_SECONDS = 1.0
"""Poll interval in seconds for changed files."""

SHUTDOWN_SECONDS = 2.0
"""Timeout in seconds for a client to end TLS on a closed connection."""

HSTS = ("strict-transport-security", "max-age=31536000")
"""Header that tells browsers to use only https for this host, for a year."""

_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VALIDITY = re.compile(rb"\x30.(?:\x17\x0d\d{12}Z|\x18\x0f\d{14}Z)(?:\x17\x0d(\d{12})Z|\x18\x0f(\d{14})Z)", re.DOTALL)
"""Pattern of the validity in a certificate (RFC 5280, 4.1.2.5): the two times of its beginning and end."""

log = structlog.get_logger()


class Certificate:
    """Certificate of a server, with its chain and its key.

    Raises OSError or ValueError. Existing connections keep the certificate with which they began.

    Parameters
    ----------
    cert_file : path of the certificate and the intermediate ones, in PEM.
    key_file : path of the key, in PEM, not encrypted.

    Attributes
    ----------
    context : context of listening sockets, with the latest certificate.
    expires_at : expiry of this certificate in seconds since 1970.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._cert_file, self._key_file = cert_file, key_file
        self._seen = self._stamps()
        self._current = self.context = self._read()
        self.context.sni_callback = self._show

    async def watch(self) -> None:
        """Reload the files whenever they change. An invalid pair is logged, and the previous pair stays in use."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            stamps = self._stamps()
            if stamps != self._seen:
                self._seen = stamps
                self._read_again()

    def _read_again(self) -> None:
        try:
            self._current = self._read()
        except (OSError, ValueError) as error:
            action = "the previous certificate stays in use until these files are valid"
            log.error("tls_certificate_unusable", error=str(error), file=str(self._cert_file), action=action)
        else:
            expires = datetime.fromtimestamp(self.expires_at, UTC).isoformat()
            log.info("tls_certificate_read", file=str(self._cert_file), expires=expires)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self._cert_file, self._key_file, password=_refuse_encrypted)
        self.expires_at = expiry(self._cert_file.read_text())
        return context

    def _show(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Present the last loaded certificate on new connections."""
        connection.context = self._current

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Return a fingerprint that changes with the files or with symbolic links in their paths."""
        return tuple(_stamp(path) for path in (self._cert_file, self._key_file))


def certificate_of(settings: Settings) -> Certificate | None:
    """Return the certificate named by the settings, or None; raises the errors of `Certificate`."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    return Certificate(settings.tls_cert_file, settings.tls_key_file)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _refuse_encrypted() -> NoReturn:
    raise ValueError("the key is encrypted: use an unencrypted key in a file that only the server can read")


def expiry(pem: str) -> float:
    """Return the expiry of the first certificate of a file, in seconds since 1970; raise ValueError if there is
    none."""
    first = _PEM.search(pem)
    found = None if first is None else _VALIDITY.search(ssl.PEM_cert_to_DER_cert(first[0]))
    if found is None:
        raise ValueError("it contains no certificate")
    short, long = (None if each is None else each.decode() for each in found.groups())
    text = long or f"{'19' if short >= '50' else '20'}{short}"  # type: ignore[operator]  # one of them is there
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
