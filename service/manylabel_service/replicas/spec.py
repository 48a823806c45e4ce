"""What a client asks for when it creates a model. The spec is stored, and never changes."""

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializeAsAny,
    StrictBool,
    Tag,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from manylabel_core import FALT, SALT, KernelFALT
from manylabel_core.online.base import OnlineLearner

MAX_NAME_BYTES = 256
"""Longest name of a label or a feature, in bytes of UTF-8."""

Durability = Literal["memory", "log", "fsync"]

_Positive = Annotated[float, Field(strict=True, gt=0, le=2.0**20, allow_inf_nan=False)]


def _kind_of_number(value: Any) -> str | None:
    return {int: "count", float: "multiple"}.get(type(value))


# The paper searches M up to 4 L; the bounds keep one example's learning short.
_Passes = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=1000), Tag("count")]
    | Annotated[float, Field(strict=True, gt=0, le=4), Tag("multiple")],
    Discriminator(
        _kind_of_number,
        custom_error_type="passes",
        custom_error_message="must be an integer, or a float as a multiple of the number of labels",
    ),
]


class _Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class FaltParams(_Params):
    """FALT: a linear model, learnt by gradient steps."""

    eta: _Positive = FALT().eta
    """Step size."""
    passes: _Passes = FALT().passes
    """Most passes over one example: an integer, or a float as a multiple of the number of labels."""
    fit_intercept: StrictBool = FALT().fit_intercept
    """Whether a constant feature is added."""
    intercept_scaling: _Positive = FALT().intercept_scaling
    """That constant."""

    def learner(self, scaling: str) -> OnlineLearner:
        return FALT(**self.model_dump(), scaling=scaling)


class SaltParams(_Params):
    """SALT: a linear model with a step size per weight (AdaGrad)."""

    eta: _Positive = SALT().eta
    """Step size."""
    delta: _Positive = SALT().delta
    """Added to the root of the summed squared gradients; large values damp the first steps."""
    passes: _Passes = SALT().passes
    """Most passes over one example: an integer, or a float as a multiple of the number of labels."""
    fit_intercept: StrictBool = SALT().fit_intercept
    """Whether a constant feature is added."""
    intercept_scaling: _Positive = SALT().intercept_scaling
    """That constant."""

    def learner(self, scaling: str) -> OnlineLearner:
        return SALT(**self.model_dump(), scaling=scaling)


class KernelFaltParams(_Params):
    """Kernel FALT: a nonlinear model of support vectors."""

    eta: _Positive = KernelFALT().eta
    """Step size."""
    passes: _Passes = KernelFALT().passes
    """Most passes over one example: an integer, or a float as a multiple of the number of labels."""
    fit_intercept: StrictBool = KernelFALT().fit_intercept
    """Whether a constant is added to the kernel."""
    intercept_scaling: _Positive = KernelFALT().intercept_scaling
    """Root of that constant."""
    kernel: Literal["rbf", "linear", "poly"] = "rbf"
    """Kernel function."""
    gamma: _Positive = KernelFALT().gamma
    """Kernel coefficient: 1 / (2 s2) for an RBF kernel of width s2."""
    coef0: Annotated[float, Field(strict=True, ge=0, le=2.0**20)] = KernelFALT().coef0
    """Constant of the polynomial kernel."""
    degree: Annotated[int, Field(strict=True, ge=1, le=10)] = KernelFALT().degree
    """Degree of the polynomial kernel."""
    budget: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    """Most support vectors kept; null keeps all, up to the size limit of a model."""

    def learner(self, scaling: str) -> OnlineLearner:
        return KernelFALT(**self.model_dump(), scaling=scaling)


Params = FaltParams | SaltParams | KernelFaltParams

_PARAMS: dict[str, type[Params]] = {
    "falt": FaltParams,
    "salt": SaltParams,
    "kernel_falt": KernelFaltParams,
}


def _at_most_max_bytes(name: str) -> str:
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError as error:
        raise PydanticCustomError("name_encoding", "must be valid Unicode") from error
    if not 1 <= size_bytes <= MAX_NAME_BYTES:
        raise PydanticCustomError("name_length", "must have 1 to {limit} bytes", {"limit": MAX_NAME_BYTES})
    return name


def _no_repeats(names: list[str]) -> list[str]:
    for name, count in Counter(names).items():
        if count > 1:
            raise PydanticCustomError("name_repeated", "{name} is repeated", {"name": repr(name)})
    return names


_Names = Annotated[
    list[Annotated[str, AfterValidator(_at_most_max_bytes)]],
    Field(min_length=1),
    AfterValidator(_no_repeats),
]


def _kind_of_features(value: Any) -> str | None:
    return {list: "names", int: "number"}.get(type(value))


_Features = Annotated[
    Annotated[_Names, Tag("names")] | Annotated[int, Field(strict=True, ge=1), Tag("number")],
    Discriminator(
        _kind_of_features,
        custom_error_type="features",
        custom_error_message="must be null, a list of names, or a number of columns",
    ),
]


class ModelSpec(BaseModel):
    """A model as created: its learner, what it may see, and how safely it is kept."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$")]
    """The name in the address: lower-case letters, digits, dots, dashes, underscores; at most 64."""
    algorithm: Literal["falt", "salt", "kernel_falt"]
    """The learner."""
    params: SerializeAsAny[Params] = Field(default_factory=dict, validate_default=True)
    """The learner's parameters; those left out get their defaults."""
    features: _Features | None = None
    """Null: features get columns as they appear. A list of names, or a number of columns: only these."""
    labels: _Names | None = None
    """Null: labels get columns as they appear. A list of names: only these."""
    scaling: Literal["none", "unit", "standard"] = "none"
    """Scaling of features: none, each example to unit length, or running standardisation."""
    durability: Durability | None = None
    """How safe an update is when it is answered; null takes the server's setting."""
    window: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1000
    """Number of examples in the sliding window of the prequential measures."""

    @field_validator("params", mode="plain", json_schema_input_type=Params)
    @classmethod
    def _of_the_algorithm(cls, value: Any, info: ValidationInfo) -> Any:
        params = _PARAMS.get(info.data.get("algorithm", ""))
        return value if params is None else params.model_validate(value)

    def learner(self) -> OnlineLearner:
        """A new, untrained learner."""
        return self.params.learner(self.scaling)
