"""The JSON of requests and answers.

Requests are validated by these models; answers are written without them, for speed, and the tests hold the
answers against the models.
"""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StrictBool, Tag

from manylabel_core.rows import MAX_MAGNITUDE
from manylabel_service.replicas.spec import MAX_NAME_BYTES, Durability

Number = Annotated[float, Field(strict=True, ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE, allow_inf_nan=False)]
Index = Annotated[int, Field(strict=True, ge=0, le=2**31 - 2)]
# A name has at most 256 bytes; counted where it is not plain ASCII, in `convert`.
Name = Annotated[str, Field(strict=True, min_length=1, max_length=MAX_NAME_BYTES)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class SparseFeatures(_Request):
    """Values of some columns; the others are 0."""

    indices: Annotated[list[Index], Field(fail_fast=True)]
    """Columns from 0, in any order, none repeated."""
    values: Annotated[list[Number], Field(fail_fast=True)]
    """As many numbers."""


def _form_of_features(x: Any) -> str | None:
    if isinstance(x, list):
        return "dense"
    if not isinstance(x, dict):
        return None
    # Values of named features are numbers, so a list can only mean the sparse form.
    is_sparse = isinstance(x.get("indices"), list) or isinstance(x.get("values"), list)
    return "sparse" if is_sparse else "named"


def _form_of_labels(y: Any) -> str | None:
    if isinstance(y, list):
        return "complete"
    return "partial" if isinstance(y, dict) else None


FeaturesBody = Annotated[
    Annotated[list[Number], Field(fail_fast=True), Tag("dense")]
    | Annotated[SparseFeatures, Tag("sparse")]
    | Annotated[dict[Name, Number], Tag("named")],
    Discriminator(
        _form_of_features,
        custom_error_type="features",
        custom_error_message="must be a list of numbers, an object with indices and values, "
        "or an object of names and numbers",
    ),
]
LabelsBody = Annotated[
    Annotated[list[Name], Field(fail_fast=True), Tag("complete")] | Annotated[dict[Name, StrictBool], Tag("partial")],
    Discriminator(
        _form_of_labels,
        custom_error_type="labels",
        custom_error_message="must be a list of names, or an object of names and true or false",
    ),
]


class PredictItem(_Request):
    """An example to predict."""

    x: FeaturesBody
    """A number for every column, or some columns with their values, or numbers by name."""
    y: Any = None
    """Ignored."""


class UpdateItem(_Request):
    """An example to learn."""

    x: FeaturesBody
    """A number for every column, or some columns with their values, or numbers by name."""
    y: LabelsBody
    """A list of names is the complete set: every other label is false. An object is partial: labels that it
    does not name are unknown, and nothing is learnt about them."""


ItemT = TypeVar("ItemT")


class Batch(_Request, Generic[ItemT]):
    """Many examples, in order; all of them or none."""

    examples: Annotated[list[ItemT], Field(min_length=1)]


class PredictBatch(Batch[PredictItem]):
    """Examples to predict."""


class UpdateBatch(Batch[UpdateItem]):
    """Examples to learn in order, all of them or none."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Prediction(_Answer):
    """Labels and scores of one example."""

    labels: list[str]
    """Labels whose score is above 0."""
    scores: dict[str, float]
    """For each label known: its score minus the threshold."""
    threshold: float
    """The raw score that a label has to exceed."""


class At(_Answer):
    """A point in a model's log."""

    position: str
    """Opaque; says which updates the answer has seen."""


class Predicted(Prediction, At):
    """Answer to an example to predict."""


class PredictedBatch(At):
    """Answer to a batch to predict."""

    predictions: list[Prediction]


class Updated(At):
    """The update is learnt."""

    updates: int
    """Examples that the model has learnt in all."""
    durability: Durability
    """What it has survived: memory (nothing yet), log (a kill of the server), fsync (loss of power)."""


class PredictedUpdated(Prediction, Updated):
    """Answer to an example that was predicted, then learnt."""


class PredictedUpdatedBatch(Updated):
    """Answer to a batch of examples that were each predicted, then learnt."""

    predictions: list[Prediction]


class Measures(_Answer):
    """Prequential measures: each example was predicted before it was learnt. 0 while there were none."""

    examples: int
    """Examples covered."""
    precision: float
    """Mean over examples."""
    recall: float
    """Mean over examples."""
    f1: float
    """Harmonic mean of that precision and that recall."""
    micro_f1: float
    """F1 of all decisions pooled."""
    macro_f1: float
    """Mean over labels of their F1."""
    hamming_loss: float
    """Share of decisions that were wrong."""
    one_error: float
    """Share of examples whose highest scored label was wrong."""
    ranking_loss: float
    """Share of pairs of a relevant and an irrelevant label in the wrong order; ties are wrong."""
    subset_accuracy: float
    """Share of examples with every decision right."""


class WindowMeasures(Measures):
    """The same over the latest examples."""

    size: int
    """Examples that the window holds at most."""


class BothMeasures(_Answer):
    """Measures since the model was created, and over its window."""

    cumulative: Measures
    window: WindowMeasures


class Metrics(BothMeasures, At):
    """Prequential measures of a model at one position."""

    updates: int
    """Examples that the model has learnt in all."""


class ModelStatus(At):
    """A model as it is now."""

    name: str
    algorithm: str
    params: dict[str, Any]
    scaling: str
    durability: Durability
    updates: int
    """Examples learnt."""
    labels: int
    """Labels known."""
    features: int
    """Features known."""
    bytes: int
    """Memory held."""
    metrics: BothMeasures


class ModelList(_Answer):
    """All models of this server, by name."""

    models: list[ModelStatus]


class Alive(_Answer):
    """The process serves."""

    live: Literal[True]


class Ready(_Answer):
    """Every model is restored and caught up, but those that failed."""

    ready: Literal[True]
    failed: list[str]
    """Models that could not be restored; the log says why."""


class WrongPlace(BaseModel):
    """What is wrong, and where: in the body, or in a header."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    detail: str
    """What is allowed there."""
    pointer: str | None = None
    """JSON pointer (RFC 6901) into the body."""
    header: str | None = None
    """Name of the header."""


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str
    """What happened to this request, and what to do about it."""
    code: str
    """What happened, for programs."""
    instance: str
    """Path of the request."""
    request_id: str
    """As in the header X-Request-ID and in the server's log."""
    errors: list[WrongPlace]
    """The places that are wrong; at most ten."""
