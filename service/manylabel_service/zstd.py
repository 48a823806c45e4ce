"""The module for zstd: in the standard library from Python 3.14 on, else from the package backports.zstd."""

import sys
from importlib import import_module
from typing import Any


def _module() -> Any:
    """Return the module; None where Python was built without."""
    try:
        return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError:
        return None


zstd = _module()
