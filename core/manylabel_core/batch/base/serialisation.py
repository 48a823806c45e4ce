"""Estimators as bytes and back, without pickle.

A fitted estimator consists of named arrays and plain values. The file stores a CSR array as three arrays and a shape,
text as UTF-8 bytes with offsets, a prior as a matrix and eps, and a scaling as a name and arrays. The JSON header
contains numbers, strings and None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manylabel_core.checks import is_sparse
from manylabel_core.priors import Prior
from manylabel_core.scaling.fitted import FITTED_SCALINGS, FittedScaling
from manylabel_core.state import DamagedState, State

Plain = bool | int | float | str | None
"""Values that JSON represents directly."""

FITTED_LAST = "duality_gap_"
"""Attribute that exists only after a fit."""

Arrays = dict[str, NDArray[Any]]


class Serialisable(BaseEstimator):
    """Base of estimators whose model consists of the attributes with names that end in "_"."""

    _fitted_last = FITTED_LAST

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the fitted model; `to_bytes` also stores its parameters and plain values."""
        return pack(self._attributes(), "")[0]

    def to_bytes(self) -> bytes:
        """Return the parameters and the fitted model in the format of `manylabel_core.state`, a safetensors file.

        Raises
        ------
        ValueError
            If a parameter cannot be written. (A callable kernel is omitted: pass it to `from_bytes`.)
        """
        parameters = {name: value for name, value in self.get_params(deep=False).items() if not callable(value)}
        arrays, model = pack(self._attributes(), "")
        more, params = pack(parameters, "param.")
        return State(arrays | more, {"estimator": type(self).__name__, "parameters": params, "model": model}).to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, **parameters: Any) -> Self:
        """Return the estimator that `to_bytes` wrote: equal scores, bit for bit.

        `parameters` override the stored ones; a callable `kernel` must be passed.

        Raises
        ------
        DamagedState
            If the bytes were not written by `to_bytes`.
        ValueError
            If they contain another kind of estimator.
        """
        arrays, header = State.from_bytes(data)
        if header.get("estimator") != cls.__name__:
            raise ValueError(f"data holds the state of {header.get('estimator')}, not of {cls.__name__}")
        written = unpack(arrays, header.get("parameters", {}), "param.")
        estimator = cls(**{**written, **parameters})
        estimator._restore(unpack(arrays, header.get("model", {}), ""))
        return estimator

    def _attributes(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        check_is_fitted(self, self._fitted_last)
        return {name: value for name, value in vars(self).items() if name.endswith("_") and name[0] != "_"}

    def _restore(self, attributes: Mapping[str, Any]) -> None:
        if not all(name.isidentifier() and name.endswith("_") and name[0] != "_" for name in attributes):
            raise DamagedState("the state names an unknown fitted attribute")
        if self._fitted_last not in attributes:
            raise DamagedState(f"the state lacks {self._fitted_last}: the estimator was not fitted")
        for name, value in attributes.items():
            setattr(self, name, value)


def pack(values: Mapping[str, Any], prefix: str) -> tuple[Arrays, dict[str, Any]]:
    """Split values into arrays, whose names start with `prefix`, and a header with the type of each."""
    arrays: Arrays = {}
    header: dict[str, Any] = {}
    for name, value in values.items():
        kind, parts, plain = _taken_apart(name, value)
        header[name] = [kind, plain]
        arrays |= {f"{prefix}{name}{suffix}": part for suffix, part in parts.items()}
    return arrays, header


def unpack(arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the values passed to `pack`."""
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
    if isinstance(value, Plain):
        return "plain", {}, value
    if isinstance(value, Prior):
        return "prior", {"": value.R}, value.eps
    if isinstance(value, FittedScaling):
        named = value.arrays()
        return "scaling", {f".{part}": array for part, array in named.items()}, [value.name, *named]
    if isinstance(value, tuple):
        taken = [_taken_apart(f"{name}.{number}", each) for number, each in enumerate(value)]
        parts = {f".{number}{suffix}": part for number, (_, own, _) in enumerate(taken) for suffix, part in own.items()}
        return "tuple", parts, [[kind, plain] for kind, _, plain in taken]
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
    raise ValueError(f"{name} cannot be serialised: its type is {type(value).__name__}")


def _put_together(kind: str, plain: Any, part: Any) -> Any:
    if kind == "plain" and isinstance(plain, Plain):
        return plain
    if kind == "number":
        return part("").item()
    if kind == "prior":
        return Prior(part(""), plain)
    if kind == "scaling":
        scaling = FITTED_SCALINGS[plain[0]]
        return None if scaling is None else scaling.restored({name: part(f".{name}") for name in plain[1:]})
    if kind == "tuple":
        return tuple(
            _put_together(each, own, lambda suffix, number=number: part(f".{number}{suffix}"))
            for number, (each, own) in enumerate(plain)
        )
    if kind == "csr":
        return sp.csr_array((part(".data"), part(".indices"), part(".indptr")), shape=tuple(plain))
    if kind == "texts":
        data, offsets = part(".bytes").tobytes(), part(".offsets")
        texts = [data[first:last].decode() for first, last in pairwise(offsets)]
        return np.array(texts, dtype=object)
    if kind == "array":
        return part("")
    raise ValueError(f"a value has the unknown kind {kind!r}, or does not match this kind")
