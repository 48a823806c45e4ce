"""Digests of values, and the loop over cases that both checkouts run."""

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def digest(value: Any) -> str:
    """Return a digest of the bits of an array, a list of arrays, or a JSON value."""
    state = hashlib.sha256()
    _add(state, value)
    return state.hexdigest()[:16]


def _add(state: Any, value: Any) -> None:
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        for part in value:
            _add(state, part)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        wide = value.astype(np.float64 if value.dtype.kind == "f" else np.int64)  # exact for the values that occur
        state.update(f"{wide.dtype}{wide.shape}".encode())
        state.update(wide.tobytes())
    else:
        state.update(json.dumps(value, sort_keys=True, default=str).encode())


def print_digests(cases: Mapping[str, Callable[[], Mapping[str, Any]]]) -> None:
    """Run cases and print the digest of each of their values as JSON; a ValueError rejects a case.

    An argument of the command is a part of the names of the cases to run.
    """
    text = " ".join(sys.argv[1:])
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, str]] = {}
    for name, case in cases.items():
        if text not in name:
            continue
        try:
            found[name] = {quantity: digest(value) for quantity, value in case().items()}
        except ValueError:
            found[name] = {"refused": "ValueError"}
        except Exception as error:  # reported as a difference, with its message
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
    json.dump(found, sys.stdout)
