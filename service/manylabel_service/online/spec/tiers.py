"""Tiers of compiled functions (`manylabel_core.kernels`) that a spec and a stored state need besides `base`."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from manylabel_service.online.spec.params import PARAMS
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import TrainedSpec

_BASE_ALGORITHMS = ("falt", "salt")
_OPTIONS = ("average", "drift", "step")
"""Parameters whose default needs only `base`."""

_NO_GROUPS = 3
"""Bytes of groups and parents without any."""
_NO_PROMISE = 12
"""Maximum bytes of promises without a promise."""


def tiers_of_spec(spec: ModelSpec | TrainedSpec) -> tuple[str, ...]:
    """Return the tiers that a model of a spec needs."""
    if not isinstance(spec, ModelSpec):
        return ()
    tiers = ("kernel",) if spec.algorithm.startswith("kernel_") else ()
    params, fields = spec.params.model_dump(), PARAMS[spec.algorithm].model_fields
    usual = all(params[name] == fields[name].default for name in _OPTIONS if name in params)
    return tiers if usual and (tiers or spec.algorithm in _BASE_ALGORITHMS) else (*tiers, "options")


def tiers_of_arrays(arrays: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    """Return the tiers that the arrays of a state need, which are not verified yet."""
    needs = {
        "vectors": any(arrays.get("learner.vectors.lengths", ())),
        "groups": len(arrays.get("groups", ())) > _NO_GROUPS,
        "promise": len(arrays.get("promise", ())) > _NO_PROMISE,
        "sparse": any(name.startswith("learner.") and name.endswith(".ends") for name in arrays),
    }
    return tuple(tier for tier, needed in needs.items() if needed)
