"""Module for zstd: from the standard library in Python 3.14 and later, else from the package backports.zstd."""

import sys
from importlib import import_module
from typing import Any


def _module() -> Any:
    """Return the module; None if Python was built without it."""
    try:
        return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError:
        return None


zstd = _module()
