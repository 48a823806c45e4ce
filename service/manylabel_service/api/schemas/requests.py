"""Bodies of requests, which are validated by these models."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StrictBool,
    StrictStr,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from manylabel_core.datasets.label_details import MAX_CHARACTERS
from manylabel_core.label_structure import Group
from manylabel_core.parity import ParityTarget
from manylabel_core.parity.parity import MIN_AUDIT_RATE
from manylabel_core.promise import Target
from manylabel_core.records.forms import input_kind, input_kind_of_numbers
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT, MAX_MAGNITUDE
from manylabel_service import names, ulid
from manylabel_service.api.schemas.base import RequestModel
from manylabel_service.hosting.examples import MAX_REF_BYTES, Source
from manylabel_service.hosting.explanations import MAX_EXPLAIN
from manylabel_service.hosting.selection import MAX_NAMES, MAX_TOP
from manylabel_service.online.spec.spec import MAX_NAME_BYTES, LabelName, ModelSpec, no_repeats
from manylabel_service.online.state.groups import MAX_GROUP_NAME, MAX_GROUPED, MAX_GROUPS
from manylabel_service.online.state.label_details import Edit
from manylabel_service.storage import POSITION

Number = Annotated[float, Field(strict=True, ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE, allow_inf_nan=False)]
Value = Number | None
"""Number, or null for a missing value."""
Index = Annotated[int, Field(strict=True, ge=0, le=2**31 - 2)]
# A name has at most 256 bytes; `convert` counts the bytes if it is not plain ASCII.
Name = Annotated[str, Field(strict=True, min_length=1, max_length=MAX_NAME_BYTES)]

Weight = Annotated[float, Field(strict=True, gt=0, le=MAX_EXAMPLE_WEIGHT, allow_inf_nan=False)]
"""Factor of the loss of an example."""


def _check_ref(ref: str) -> str:
    if len(ref.encode(errors="surrogatepass")) > MAX_REF_BYTES:
        raise ValueError(f"must have at most {MAX_REF_BYTES} bytes")
    return ref


Ref = Annotated[str, Field(strict=True, min_length=1, max_length=MAX_REF_BYTES), AfterValidator(_check_ref)] | None
"""Reference of an example, chosen by the client."""

_UNIQUE: dict[str, JsonValue] = {"uniqueItems": True}
"""Schema for OpenAPI only; `translation` checks that items are unique, and names the field path."""

MAX_VIEWS = 1_000
"""Maximum number of views in an example; a model has far fewer."""


class SparseFeatures(RequestModel):
    """Values of some columns; the others are missing."""

    indices: Annotated[list[Index], Field(fail_fast=True, json_schema_extra=_UNIQUE)]
    """Column numbers from 0, in any order, without duplicates."""
    values: Annotated[list[Value], Field(fail_fast=True)]
    """A number for each index; null is a missing value."""


def _form_of_labels(y: Any) -> str | None:
    if isinstance(y, list):
        return "complete"
    return "partial" if isinstance(y, dict) else None


_Dense = Annotated[list[Value], Field(fail_fast=True), Tag("dense")]
_Sparse = Annotated[SparseFeatures, Tag("sparse")]
_Named = Annotated[dict[Name, Value], Tag("named")]
_Record = Annotated[dict[str, Any], Tag("record")]
_Text = Annotated[str, Field(strict=True), Tag("text")]

FeaturesBody = Annotated[
    _Dense | _Sparse | _Named,
    Discriminator(
        input_kind_of_numbers,
        custom_error_type="features",
        custom_error_message="must be a list of numbers, an object with indices and values, "
        "or an object of names and numbers",
    ),
]
LabelsBody = Annotated[
    Annotated[list[Name], Field(fail_fast=True, json_schema_extra=_UNIQUE), Tag("complete")]
    | Annotated[dict[Name, StrictBool], Tag("partial")],
    Discriminator(
        _form_of_labels,
        custom_error_type="labels",
        custom_error_message="must be a list of names, or an object of names and true or false",
    ),
]


_ALL_FORMS = (
    "must be a list of numbers, an object with indices and values, an object of names and numbers, "
    "a record (an object that also has strings, true, false, lists of strings or of numbers, or such objects), "
    "or a text"
)

NumbersBody = Annotated[
    _Dense | _Sparse | _Named,
    Discriminator(input_kind_of_numbers, custom_error_type="features", custom_error_message=_ALL_FORMS),
]
"""Input of numbers, for an example that may also be a record or a text."""

ItemBody = Annotated[
    _Dense | _Sparse | _Named | _Record | _Text,
    Discriminator(input_kind, custom_error_type="features", custom_error_message=_ALL_FORMS),
]


class PredictNumbers(RequestModel):
    """Example of numbers only to predict: the most frequent kind, which is validated faster."""

    x: NumbersBody
    y: Any = None
    weight: Any = None
    source: Any = None
    ref: Any = None


class PredictItem(RequestModel):
    """Example to predict."""

    x: ItemBody
    """A number for every column, or some columns with their values, or numbers by name, or a record: an object of
    numbers, true and false, strings, lists of strings, lists of numbers (vectors), null, and objects of these; or a
    text. A number that is null, or that is not named, is missing; a 0 is a value."""
    y: Any = None
    """Ignored in a prediction."""
    weight: Any = None
    """Ignored in a prediction."""
    source: Any = None
    """Ignored in a prediction."""
    ref: Any = None
    """Ignored in a prediction."""


class _Predicting(RequestModel):
    probabilities: StrictBool = False
    """Whether each prediction has the probability of every label."""


Pattern = Annotated[str, Field(strict=True, min_length=1, max_length=MAX_NAME_BYTES + 1)]
"""Name of a label, or a prefix of names followed by `*`; the name of a label that ends in `*` itself is written with
`\\*`."""
Patterns = Annotated[list[Pattern], Field(min_length=1, max_length=MAX_NAMES)]


class _Explaining(_Predicting):
    model_config = ConfigDict(validate_by_name=False)

    top: Annotated[int, Field(strict=True, ge=1, le=MAX_TOP)] | None = None
    """Number of labels in `scores`, best first; null for as many as the server allows, in the order of the model if all
    are listed."""
    only: Patterns | None = None
    """Labels to include: names, or prefixes of names that end in `*`."""
    except_: Patterns | None = Field(default=None, alias="except")
    """Labels to omit: names, or prefixes of names that end in `*`."""
    explain: Annotated[int, Field(strict=True, ge=0, le=MAX_EXPLAIN)] = 0
    """Number of features to list for and against each predicted label, those with the largest contributions; 0 lists
    none. Linear models only."""


class PredictRequest(_Explaining, PredictItem):
    """Example to predict, with options."""


_Views = Annotated[dict[Name, FeaturesBody], Field(max_length=MAX_VIEWS)]


class ViewsBody(RequestModel):
    """Features of several views."""

    views: _Views
    """Features of each view; views may be missing, but not all."""


def _form_of_inputs(x: Any) -> str | None:
    several = isinstance(x, dict) and x.keys() == {"views"} and isinstance(x["views"], dict)
    return "several" if several else input_kind_of_numbers(x)


_Several = Annotated[ViewsBody, Tag("several")]

InputsBody = Annotated[
    _Dense | _Sparse | _Named | _Several,
    Discriminator(
        _form_of_inputs,
        custom_error_type="features",
        custom_error_message=f"{_ALL_FORMS}; for a model with views, an object with views",
    ),
]


class TrainedNumbers(RequestModel):
    """Example of numbers only to predict by a trained model: `x` or `views`."""

    x: InputsBody | None = None
    views: _Views | None = None
    y: Any = None
    weight: Any = None
    source: Any = None
    ref: Any = None


def form_of_trained(x: Any) -> str | None:
    """Return the input kind of an example for a trained model, as `input_kind` does; "several" for views."""
    form = _form_of_inputs(x)
    return form if form == "several" else input_kind(x)


class TrainedItem(RequestModel):
    """Example to predict by a trained model: `x` or `views`."""

    x: Annotated[_Dense | _Sparse | _Named | _Several | _Record | _Text, Discriminator(form_of_trained)] | None = None
    """Features as in any example, including a record or a text; for a model with views, an object with `views`."""
    views: _Views | None = None
    """Views, if they are sent without `x`."""
    y: Any = None
    """Ignored in a prediction."""
    weight: Any = None
    """Ignored in a prediction."""
    source: Any = None
    """Ignored in a prediction."""
    ref: Any = None
    """Ignored in a prediction."""


class TrainedRequest(_Explaining, TrainedItem):
    """Example to predict by a trained model, with options."""


class UpdateNumbers(RequestModel):
    """Example of numbers only to learn: the most frequent kind, which is validated faster."""

    x: NumbersBody
    y: LabelsBody
    weight: Weight = 1.0
    source: Source = "human"
    ref: Ref = None


class UpdateItem(RequestModel):
    """Example to learn."""

    x: ItemBody
    """A number for every column, or some columns with their values, or numbers by name, or a record: an object of
    numbers, true and false, strings, lists of strings, lists of numbers (vectors), null, and objects of these; or a
    text. A number that is null, or that is not named, is missing; a 0 is a value."""
    y: LabelsBody
    """A list of names is complete: every other label is false. An object is partial: labels that it does not name are
    unknown, and nothing is learnt about them."""
    weight: Weight = 1.0
    """Factor of the loss of the example."""
    source: Source = "human"
    """Source of the labels: a person; a model (`machine`), if no person has checked them; or a rule. Only labels of
    people count in metrics and for a promise of precision; `sources` of the model sets how much it learns from other
    labels."""
    ref: Ref = None
    """Your reference for the example, 1 to 128 bytes, such as the id of a record or a customer number. It is stored
    only in the log."""


class LabelItem(RequestModel):
    """True labels of a stored prediction."""

    id: Annotated[str, Field(strict=True, json_schema_extra={"pattern": ulid.PATTERN})]
    """Id of the prediction."""
    y: LabelsBody
    """True labels, as in an example to learn."""
    weight: Weight = 1.0
    """Factor of the loss of the example."""
    source: Source = "human"
    """Source of the labels, as in an example to learn."""
    ref: Ref = None
    """Your reference for the example, as in an example to learn."""


def check_name(name: str) -> str:
    if len(name.encode(errors="surrogatepass")) > MAX_NAME_BYTES:
        raise ValueError(f"must have at most {MAX_NAME_BYTES} bytes")
    return name


def _text(field: str) -> Any:
    """Return the type of a field of a label."""
    most = MAX_CHARACTERS[field]

    def check(text: str) -> str:
        if not 1 <= len(text) <= most:
            raise ValueError(f"must have 1 to {most:,} characters")
        return text

    schema: dict[str, JsonValue] = {"minLength": 1, "maxLength": most}
    return Annotated[str, Field(strict=True, json_schema_extra=schema), AfterValidator(check)] | None


class LabelEdit(RequestModel):
    """New details of a label. An omitted field stays unchanged; null removes it."""

    title: _text("title") = None  # type: ignore[valid-type]
    """Name of the label for people, such as "Cats and kittens"."""
    description: _text("description") = None  # type: ignore[valid-type]
    """Meaning of the label in words."""
    uri: _text("uri") = None  # type: ignore[valid-type]
    """Address of the label, such as its URI in a thesaurus."""


class DescribedLabel(LabelEdit):
    """Label with its details."""

    name: Annotated[Name, AfterValidator(check_name)]
    """Name of the label."""


class LabelGroup(RequestModel):
    """Group of mutually exclusive labels."""

    name: Annotated[str, Field(strict=True, min_length=1, max_length=MAX_GROUP_NAME)]
    """Name of the group."""
    labels: Annotated[list[LabelName], Field(min_length=2, max_length=MAX_GROUPED, fail_fast=True)]
    """Labels of the group, all children of one label, or all without a parent. A label is in at most one group."""
    choose: Literal["one", "at_most_one"]
    """`one`: exactly one is true whenever the parent is, or always without a parent; `at_most_one`: at most one."""

    @property
    def group(self) -> Group:
        """The group."""
        return Group(self.name, tuple(self.labels), self.choose)


Groups = Annotated[list[LabelGroup], Field(max_length=MAX_GROUPS)]
Parents = Annotated[dict[LabelName, LabelName], Field(max_length=MAX_GROUPED)]


_Share = Annotated[float, Field(strict=True, gt=0, lt=1, allow_inf_nan=False)]


class PromiseRequest(RequestModel):
    """Promise of precision, of parity with a teacher, or of both, in the long run."""

    parity: _Share | None = None
    """Mean agreement with the teacher of the answers that are served without it (`ask` is false); null: no promise of
    parity."""
    precision: Annotated[_Share | None, Field(validate_default=True)] = None
    """Share of right labels among those applied unseen (`auto`); null: no promise of precision."""
    settled: _Share | None = 0.9
    """Share of entirely right examples among those that need no review; null: every example needs review."""
    missed: _Share = 0.02
    """Share of all true labels that may be missed in examples without review."""
    audit_rate: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] = 0.05
    """Share of settled examples that are sent to review for audits. It is also the minimum share of sure examples for
    which the teacher is asked (0.01 or more)."""
    of: Source = "machine"
    """Source of the teacher's labels. Only its labels count for parity."""
    agreement: Literal["exact", "f1"] = "exact"
    """Agreement of two label sets: 1 if they are equal, else 0; or their F1."""

    @field_validator("precision")
    @classmethod
    def _check_promised(cls, precision: float | None, info: ValidationInfo) -> float | None:
        if precision is None and "parity" in info.data and info.data["parity"] is None:
            raise ValueError("must be a number above 0 and below 1, unless parity is promised")
        return precision

    @field_validator("settled", "missed", "of", "agreement")
    @classmethod
    def _check_used(cls, value: Any, info: ValidationInfo) -> Any:
        needed = "precision" if info.field_name in ("settled", "missed") else "parity"
        if value is not None and needed in info.data and info.data[needed] is None:
            raise ValueError(f"must be omitted without {needed}")
        return value

    @field_validator("audit_rate")
    @classmethod
    def _check_audit_rate(cls, rate: float, info: ValidationInfo) -> float:
        if info.data.get("parity") is not None and rate < MIN_AUDIT_RATE:
            raise ValueError(f"must be at least {MIN_AUDIT_RATE} with parity")
        return rate

    @property
    def target(self) -> Target | None:
        """The target of the promise of precision."""
        return None if self.precision is None else Target(self.precision, self.settled, self.missed, self.audit_rate)

    @property
    def parity_target(self) -> ParityTarget | None:
        """The target of the promise of parity."""
        if self.parity is None:
            return None
        return ParityTarget(self.parity, self.of, self.agreement, self.audit_rate)


class RollbackRequest(RequestModel):
    """Request to return to a snapshot, or to any position or time of the history."""

    position: Annotated[str, Field(strict=True, json_schema_extra={"pattern": POSITION})] | None = None
    """Position of a snapshot, or of any entry in the history of the model."""
    time: Annotated[str, Field(strict=True, json_schema_extra={"format": "date-time"})] | None = None
    """Time with an offset, instead of the position; the model returns to its state at that time."""


class Batch(RequestModel):
    """Ordered batch of examples, learnt completely or not at all."""

    # Not generic: pydantic needs 0.1 s to parametrise a model whose fields have docstrings.
    examples: Annotated[list[Any], Field(min_length=1)]


class PredictBatch(_Explaining, Batch):
    """Examples to predict, with options."""

    examples: Annotated[list[PredictItem], Field(min_length=1)]


class TrainedBatch(_Explaining, Batch):
    """Examples to predict by a trained model, with options."""

    examples: Annotated[list[TrainedItem], Field(min_length=1)]


_ModelName = Annotated[str, Field(strict=True, json_schema_extra={"pattern": names.PATTERN})]


class LinearSource(RequestModel):
    """Version of a trained model that initialises an online model."""

    model: _ModelName
    """Name of the trained model."""
    version: Annotated[int, Field(strict=True, ge=1)] | None = None
    """Number of the version; null for the served one."""


class ForkSource(RequestModel):
    """Initial state of a fork: another model at a position or a time."""

    model: _ModelName
    """Name of the other online model."""
    at: StrictStr | None = None
    """Position of its log, or a time with an offset; null: now."""


class FollowSource(RequestModel):
    """Log of another model, from which the new model learns."""

    model: _ModelName
    """Name of the online model to follow, which must not follow another one."""
    from_: Annotated[Literal["start", "now"], Field(alias="from")]
    """`start`: from the beginning of the history of the other model. `now`: from the current position."""
    until: StrictStr | None = None
    """Last position, or time with an offset, to learn; null: no end."""


def _form_of_label(label: Any) -> str:
    return "described" if isinstance(label, dict | DescribedLabel) else "name"


def _no_label_repeats(labels: list[str | DescribedLabel]) -> list[str | DescribedLabel]:
    no_repeats([label if isinstance(label, str) else label.name for label in labels])
    return labels


_Labels = Annotated[
    list[
        Annotated[
            Annotated[LabelName, Tag("name")] | Annotated[DescribedLabel, Tag("described")],
            Discriminator(_form_of_label),
        ]
    ],
    Field(min_length=1, fail_fast=True, json_schema_extra=_UNIQUE),
    AfterValidator(_no_label_repeats),
]


_BESIDES_SPEC = {"init_from", "fork", "like", "follow", "labels", "groups", "parents", "promise"}
"""Fields of a request that are not fields of the spec, or have another format in the spec."""


class ModelRequest(ModelSpec):
    """Request to create a model."""

    labels: _Labels | None = None  # type: ignore[assignment]
    """List of names, or of objects with a name and details: the model accepts only these labels. Null: labels are added
    when they first appear."""
    init_from: LinearSource | None = None
    """Null: the model starts empty. Otherwise it starts with the predictions of a linear version, for `falt`; if no
    `scaling` is set, with the scaling of that version."""
    fork: ForkSource | None = None
    """Null: the model starts empty. Otherwise, it starts with the state of another model, including its algorithm,
    parameters, features and labels; then only `name` may also be set."""
    like: _ModelName | None = None
    """Name of an online model, the template: the new model gets its spec, labels, groups, parents and promise, but has
    learnt nothing. Then only `name` may also be set. Null: the other fields define the model."""
    follow: FollowSource | None = None
    """Null: the model has its own log. Otherwise it learns from the log of another model, with its own spec, and
    rejects updates.
    """
    groups: Groups = Field(default_factory=list)
    """Groups of labels that exclude each other."""
    parents: Parents = Field(default_factory=dict)
    """Parent of each child: a true label implies its parent."""
    promise: PromiseRequest | None = None
    """Promises of precision and parity; null for none."""

    @property
    def spec(self) -> ModelSpec:
        """Spec of the model."""
        names = None if self.labels is None else [x if isinstance(x, str) else x.name for x in self.labels]
        return ModelSpec.model_validate(
            {
                **self.model_dump(exclude=_BESIDES_SPEC),
                "labels": names,
            }
        )

    @property
    def details(self) -> dict[str, Edit]:
        """Details of the labels that have details."""
        described = (label for label in self.labels or () if isinstance(label, DescribedLabel))
        return {label.name: label.model_dump(exclude={"name"}) for label in described}

    @property
    def leaves_scaling(self) -> bool:
        """True if no scaling is requested."""
        return self._leaves_scaling

    @property
    def leaves_text(self) -> bool:
        """True if no text options are requested."""
        return self._leaves_text

    _leaves_scaling: bool = PrivateAttr(default=False)
    _leaves_text: bool = PrivateAttr(default=False)

    @model_validator(mode="wrap")
    @classmethod
    def _note_scaling(cls, document: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        copies = isinstance(document, dict) and (document.get("fork") or document.get("like")) is not None
        # The algorithm is a placeholder: a copy gets that of the other model.
        wanted = handler({"algorithm": "falt", **document} if copies else document)
        wanted._leaves_scaling = isinstance(document, dict) and document.get("scaling") is None
        wanted._leaves_text = isinstance(document, dict) and document.get("text") is None
        return wanted


class UpdateBatch(Batch):
    """Examples to learn in order, completely or not at all."""

    examples: Annotated[list[UpdateItem], Field(min_length=1)]


class PredictUpdateRequest(_Predicting, UpdateItem):
    """Example to predict, with options, and then to learn."""


class PredictUpdateBatch(_Predicting, UpdateBatch):
    """Examples to predict, with options, and then to learn in order, completely or not at all."""


class LabelBatch(Batch):
    """True labels of stored predictions, learnt in order, completely or not at all."""

    examples: Annotated[list[LabelItem], Field(min_length=1)]
