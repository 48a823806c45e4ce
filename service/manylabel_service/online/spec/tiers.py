"""Tiers of compiled functions (`manylabel_core.kernels`) that a spec and a stored state need besides `base`."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from numpy.typing import NDArray

from manylabel_core.online.models.linear.sparse_table import is_sparse
from manylabel_core.online.models.linear.weight_table import may_be_sparse
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import TrainedSpec

_BASE_ALGORITHMS = ("falt", "salt")
_OPTIONS = ("drift", "step")
"""Parameters whose default needs only `base`."""

_BLOCKS = ".blocks"
"""Suffix of the name of an array that each sparse table of weights has."""
_MAX_ITEM_BYTES = 8
"""Maximum bytes of a weight."""
_NO_GROUPS = 3
"""Bytes of groups and parents without any."""
_NO_PROMISE = 25
"""Maximum bytes of promises without a promise."""


def tiers_of_spec(spec: ModelSpec | TrainedSpec) -> tuple[str, ...]:
    """Return the tiers that a model of a spec needs."""
    if not isinstance(spec, ModelSpec):
        return ()
    if spec.algorithm.startswith("kernel_"):
        return ("options", "kernel")
    params = spec.params.model_dump()
    usual = all(params[name] == default for name, default in _defaults(spec.algorithm).items())
    return () if usual and spec.algorithm in _BASE_ALGORITHMS else ("options",)


@cache
def _defaults(algorithm: str) -> Mapping[str, Any]:
    params = ModelSpec.model_validate({"name": "default", "algorithm": algorithm}).params.model_dump()
    return {name: params[name] for name in _OPTIONS if name in params}


def tiers_of_size(spec: ModelSpec | TrainedSpec, n_features: int, n_labels: int) -> tuple[str, ...]:
    """Return the tiers that a model with these columns needs in addition to the tiers of its spec."""
    size = n_features, 1 + n_labels
    return ("sparse",) if is_sparse(*size, _MAX_ITEM_BYTES) and is_sparse(*size, _item_bytes(spec)) else ()


def _item_bytes(spec: ModelSpec | TrainedSpec) -> int:
    """Return the bytes of a weight in the tables of a model that can be sparse; 0 if there are no such tables."""
    arrays = spec.learner().pipeline.arrays() if isinstance(spec, ModelSpec) else {}
    tables = [name.removesuffix(_BLOCKS) for name in arrays if name.endswith(_BLOCKS)]
    return max((arrays[name].itemsize for name in tables), default=0)


def tiers_of_arrays(arrays: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    """Return the tiers that the arrays of a state need, which are not verified yet."""
    needs = {
        "vectors": any(arrays.get("learner.vectors.lengths", ())),
        "groups": len(arrays.get("groups", ())) > _NO_GROUPS,
        "promise": len(arrays.get("promise", ())) > _NO_PROMISE,
        "sparse": any(may_be_sparse(name.removesuffix(_BLOCKS), arrays) for name in arrays if name.endswith(_BLOCKS)),
    }
    return tuple(tier for tier, needed in needs.items() if needed)
