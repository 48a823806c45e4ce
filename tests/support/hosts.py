"""Other hosts than this one: older processors, and names that resolve to any address."""

import socket
from typing import Any

import pytest

WITHOUT_FMA = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX2_Usable,-FMA,-FMA_Usable,-FMA4"}
"""The C library as on an older x86-64 processor; without effect elsewhere."""


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Have names resolve to these addresses."""

    def getaddrinfo(host: str, port: Any, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
