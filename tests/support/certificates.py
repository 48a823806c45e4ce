"""Certificates for tests, made by openssl."""

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple


class Pair(NamedTuple):
    """The files of a certificate and of its key."""

    cert: Path
    key: Path


class Authority:
    """An authority that issues any certificate that a test needs.

    Parameters
    ----------
    folder : where its files are put.

    Attributes
    ----------
    file : its own certificate, for those who trust it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.file = folder / "ca.pem"
        own = ("-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
        _openssl(folder, "req", "-x509", *_KEY, *own, *_SIGNS, *_DAYS)

    def issue(self, name: str, cert: str | None = None) -> Pair:
        """Issue a certificate for 127.0.0.1, in files of this name."""
        pair = Pair(self._folder / (cert or f"{name}.pem"), self._folder / f"{name}.key")
        _openssl(self._folder, "req", *_KEY, "-keyout", pair.key.name, "-out", "request.csr", "-subj", f"/CN={name}")
        (self._folder / "names").write_text(_NAMES)
        signed_by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        _openssl(self._folder, "x509", "-req", "-in", "request.csr", *signed_by, "-out", pair.cert.name, *_DAYS)
        return pair

    def trusted(self) -> ssl.SSLContext:
        """Return the TLS context of a client that trusts this authority alone."""
        return ssl.create_default_context(cafile=str(self.file))


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DAYS = ("-days", "2")

# Python 3.13 and later refuse certificates that say less than RFC 5280 wants.
_SIGNS = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
_NAMES = "subjectAltName = IP:127.0.0.1, DNS:localhost\nauthorityKeyIdentifier = keyid\nsubjectKeyIdentifier = hash\n"


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
