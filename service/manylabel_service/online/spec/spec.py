"""Immutable spec of a model, as created by a client and stored."""

from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    SerializeAsAny,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json

from manylabel_core.online.learner import OnlineLearner
from manylabel_service import names
from manylabel_service.documented import Documented
from manylabel_service.online.spec.limits import LimitsField, limits_to_dict
from manylabel_service.online.spec.params import PARAMS, AnyParams, Params
from manylabel_service.online.spec.text import Text, text_to_dict
from manylabel_service.parameters import in_json

MAX_NAME_BYTES = 256
"""Maximum length of the name of a label or a feature in bytes of UTF-8."""


_LENGTH: dict[str, JsonValue] = {"minLength": 1, "maxLength": MAX_NAME_BYTES}
"""Length limits of a name for the schema; a schema counts characters, not bytes."""


def _at_most_max_bytes(name: str) -> str:
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError as error:
        raise PydanticCustomError("name_encoding", "must be valid Unicode") from error
    if not 1 <= size_bytes <= MAX_NAME_BYTES:
        raise PydanticCustomError("name_length", "must have 1 to {limit} bytes", {"limit": MAX_NAME_BYTES})
    return name


def no_repeats(names: list[str]) -> list[str]:
    """Return names unchanged; raise ValueError for duplicates."""
    for name, count in Counter(names).items():
        if count > 1:
            raise PydanticCustomError("name_repeated", "{name} is repeated", {"name": repr(name)})
    return names


LabelName = Annotated[str, AfterValidator(_at_most_max_bytes), Field(json_schema_extra=_LENGTH)]
"""Name of a label or a feature."""

_Names = Annotated[
    list[LabelName],
    Field(min_length=1, fail_fast=True, json_schema_extra={"uniqueItems": True}),
    AfterValidator(no_repeats),
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


_Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class Sources(Documented):
    """Factors of the weights of examples, by the source of their labels. Labels of people count in full."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    machine: _Share = 0.0
    """Factor for labels that a model has predicted and no person has checked; 0: nothing is learnt from them."""
    rule: _Share = 1.0
    """Factor for labels of a rule; 0: nothing is learnt from them."""

    def factor(self, source: str) -> float:
        """Return the factor of a source."""
        return self.machine if source == "machine" else self.rule if source == "rule" else 1.0


class ModelSpec(Documented):
    """Settings of a model at its creation: learner, features, labels and limits.

    Defaults of the learner are set once, at creation, so that a release with other defaults loads the same model.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=names.PATTERN)]
    """Name in the address: lower-case letters, digits, dots, dashes, underscores; at most 64."""
    algorithm: Literal[*PARAMS]  # type: ignore[valid-type]
    """Online learner."""
    params: SerializeAsAny[Params] = Field(default_factory=dict, validate_default=True)
    """Parameters of the learner; omitted ones get their defaults."""
    features: _Features | None = None
    """Allowed features: a list of names, or a number of columns. Null: features get columns as they appear."""
    labels: _Names | None = None
    """Allowed labels: a list of names. Null: labels get columns as they appear."""
    limits: LimitsField = None
    """Limits on the numbers of features and labels, and the policy above the limits. Null: the limits of the server."""
    scaling: Literal["auto", "none", "unit"] | None = None
    """Scaling of features: chosen from the stream (auto), none, or each example to unit length (unit). Null means auto,
    or none if `passes` are given."""
    missing: Literal["mean", "zero"] | None = None
    """Value of a missing quantity that most examples have: the mean of the examples that have it (only with the scaling
    auto), or 0. Null means mean with the scaling auto, and zero with any other."""
    text: Text | None = None
    """Settings for texts in records. Null: bare strings and strings of more than 200 characters are texts, other
    strings are categories."""
    old_names: Literal["follow", "refuse"] = "follow"
    """Handling of old names of renamed or merged labels in updates: `follow` learns them under the current name,
    `refuse` rejects them with 422.
    """
    sources: Sources = Field(default_factory=Sources)
    """Factors of the weights of examples, by the source of their labels."""
    window: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1000
    """Number of examples in the sliding window of the prequential measures."""

    @field_validator("params", mode="plain", json_schema_input_type=AnyParams)
    @classmethod
    def _of_the_algorithm(cls, value: Any, info: ValidationInfo) -> Any:
        params = PARAMS.get(info.data.get("algorithm", ""))
        return value if params is None else params.model_validate(value)

    @model_validator(mode="after")
    def _resolve(self) -> Self:
        """Validate the parameters by the learner, and set its defaults."""
        try:
            resolved = self.learner().resolved_params()
        except ValueError as error:
            raise _refused(str(error), self.params) from error
        params = {name: resolved[name] for name in type(self.params).model_fields}
        # From here on, the spec is immutable.
        object.__setattr__(self, "params", self.params.model_copy(update=params))
        object.__setattr__(self, "scaling", resolved["scaling"])
        object.__setattr__(self, "missing", resolved["missing"])
        object.__setattr__(self, "text", self.text or Text())
        return self

    @classmethod
    def from_bytes(cls, written: bytes | str) -> Self:
        """Return a stored spec; raise ValueError if it is invalid."""
        return cls.model_validate(from_json(written))

    def to_bytes(self) -> bytes:
        """Return the spec as bytes, for `from_bytes`."""
        return self.model_dump_json().encode()

    def described(self) -> dict[str, Any]:
        """Return the fields of the spec for statuses and lists, including defaults."""
        return {
            "name": self.name,
            "algorithm": self.algorithm,
            "params": self.params.model_dump(),
            "scaling": self.scaling,
            "missing": self.missing,
            "text": text_to_dict(self.text),
            "limits": limits_to_dict(self.limits),
            "sources": self.sources.model_dump(),
        }

    def learner(self) -> OnlineLearner:
        """Return a new, untrained learner."""
        return self.params.learner(self.scaling, self.missing)


def _refused(detail: str, params: Params) -> ValidationError:
    """Return the error for a parameter that the learner rejects, with its path."""
    name, _, rest = detail.partition(" ")
    place: tuple[str, ...] = ("params", name) if name in type(params).model_fields else (name,)
    if place == (name,) and name not in ("scaling", "missing"):
        place, rest = ("params",), detail
    words = in_json(rest)
    problem = PydanticCustomError("parameter", "{detail}", {"detail": words})
    value = getattr(params, name, None)
    return ValidationError.from_exception_data("ModelSpec", [{"type": problem, "loc": place, "input": value}])
