"""The build names all that two processes must have in common to learn the same bits."""

from __future__ import annotations

import platform
import sys
import unicodedata
from types import SimpleNamespace
from typing import Any

import numba
import pytest

from manylabel_service.models import build

CHANGES: dict[str, tuple[Any, str, Any]] = {
    "machine": (platform, "machine", lambda: "riscv64"),
    "python": (sys, "implementation", SimpleNamespace(cache_tag="cpython-399")),
    "unicode": (unicodedata, "unidata_version", "99.0.0"),
    "compiled": (numba, "config", SimpleNamespace(DISABLE_JIT=1)),
    "library": (build, "version", lambda library: "99.0"),
}


def digest() -> str:
    return build.build_id.__wrapped__()


@pytest.mark.parametrize("part", CHANGES)
def test_a_different_host_has_a_different_build(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest()
    monkeypatch.setattr(*CHANGES[part])
    assert digest() != before


def test_the_same_host_is_the_same_build() -> None:
    assert digest() == digest() == build.build_id()
