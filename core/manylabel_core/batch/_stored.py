"""Estimators that can be written as bytes and read again, without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manylabel_core.batch._state import pack, unpack
from manylabel_core.state import DamagedState, dump, load

FITTED_LAST = "duality_gap_"
"""An attribute that is there once a fit has come to its end."""


class Stored(BaseEstimator):
    """An estimator whose fitted attributes, all with names that end in "_", are its model."""

    _fitted_last = FITTED_LAST

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that, with the parameters and the plain values of `to_bytes`, are the fitted model."""
        return pack(self._attributes(), "")[0]

    def to_bytes(self) -> bytes:
        """Parameters and fitted model in the form of `manylabel_core.state`, a safetensors file.

        Raises
        ------
        ValueError
            If a parameter cannot be written. (A callable kernel is left out: give it to `from_bytes` again.)
        """
        parameters = {name: value for name, value in self.get_params(deep=False).items() if not callable(value)}
        arrays, model = pack(self._attributes(), "")
        more, params = pack(parameters, "param.")
        return dump(arrays | more, {"estimator": type(self).__name__, "parameters": params, "model": model})

    @classmethod
    def from_bytes(cls, data: bytes, **parameters: Any) -> Self:
        """The estimator that `to_bytes` wrote: equal scores, bit for bit.

        Parameters
        ----------
        data : bytes
        **parameters
            In place of those written; a callable `kernel` must be given.

        Raises
        ------
        DamagedState
            If the bytes are not what `to_bytes` wrote.
        ValueError
            If they hold another kind of estimator.
        """
        arrays, header = load(data)
        if header.get("estimator") != cls.__name__:
            raise ValueError(f"data holds the state of {header.get('estimator')}, not of {cls.__name__}")
        written = unpack(arrays, header.get("parameters", {}), "param.")
        estimator = cls(**{**written, **parameters})
        estimator._restore(unpack(arrays, header.get("model", {}), ""))
        return estimator

    def _attributes(self) -> dict[str, Any]:
        """Everything fitted."""
        check_is_fitted(self, self._fitted_last)
        return {name: value for name, value in vars(self).items() if name.endswith("_") and name[0] != "_"}

    def _restore(self, attributes: Mapping[str, Any]) -> None:
        if not all(name.isidentifier() and name.endswith("_") and name[0] != "_" for name in attributes):
            raise DamagedState("the state names something that is no fitted attribute")
        for name, value in attributes.items():
            setattr(self, name, value)
