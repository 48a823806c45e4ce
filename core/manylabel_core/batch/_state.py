"""A fitted estimator as named arrays and plain values, and back.

Arrays go as they are; a CSR array as three and its shape; text as UTF-8 bytes with offsets; a prior as its
matrix and eps; numbers, strings and None go into the JSON header.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.gram import is_sparse
from manylabel_core.priors import Prior
from manylabel_core.state import DamagedState

Arrays = dict[str, NDArray[Any]]


def pack(values: Mapping[str, Any], prefix: str) -> tuple[Arrays, dict[str, Any]]:
    """Split values into arrays, whose names start with `prefix`, and a header that says what each one is."""
    arrays: Arrays = {}
    header: dict[str, Any] = {}
    for name, value in values.items():
        kind, parts, plain = _taken_apart(name, value)
        header[name] = [kind, plain]
        arrays |= {f"{prefix}{name}{suffix}": part for suffix, part in parts.items()}
    return arrays, header


def unpack(arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The values that `pack` was given.

    Raises
    ------
    DamagedState
        If an array is missing or the header is not one of `pack`.
    """
    try:
        return {
            name: _put_together(kind, plain, lambda suffix, name=name: arrays[f"{prefix}{name}{suffix}"])
            for name, (kind, plain) in header.items()
        }
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DamagedState(f"not the state of an estimator: {error!r}") from error


def _taken_apart(name: str, value: Any) -> tuple[str, Arrays, Any]:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "number", {"": np.array(value)}, None
    if value is None or isinstance(value, bool | int | float | str):
        return "plain", {}, value
    if isinstance(value, Prior):
        return "prior", {"": value.R}, value.eps
    if is_sparse(value):
        csr = sp.csr_array(value)
        return "csr", {".data": csr.data, ".indices": csr.indices, ".indptr": csr.indptr}, list(csr.shape)
    array = np.asarray(value)
    if array.dtype == object and all(isinstance(text, str) for text in array.flat):
        texts = [text.encode() for text in array]
        offsets = np.cumsum([0, *map(len, texts)])
        return "texts", {".bytes": np.frombuffer(b"".join(texts), np.uint8), ".offsets": offsets}, None
    if array.dtype.kind in "biuf":
        return "array", {"": array}, None
    raise ValueError(f"{name} cannot be written: {type(value).__name__}")


def _put_together(kind: str, plain: Any, part: Any) -> Any:
    if kind == "plain":
        return plain
    if kind == "number":
        return part("").item()
    if kind == "prior":
        return Prior(part(""), plain)
    if kind == "csr":
        return sp.csr_array((part(".data"), part(".indices"), part(".indptr")), shape=tuple(plain))
    if kind == "texts":
        data, offsets = part(".bytes").tobytes(), part(".offsets")
        texts = [data[first:last].decode() for first, last in pairwise(offsets)]
        return np.array(texts, dtype=object)
    if kind == "array":
        return part("")
    raise ValueError(f"unknown kind {kind!r}")
