"""The JSON of the Open Inference Protocol, version 2, with names and shapes as the protocol has them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from manylabel_service.api.schemas.base import ResponseModel

MAX_TENSORS = 1_000
"""Inputs, or outputs, that a request may name; a model has far fewer."""

Parameters = Annotated[dict[str, StrictStr | StrictInt | StrictFloat | StrictBool], Field(max_length=100)]
"""Parameters by name: the protocol leaves their meaning to servers and clients."""

Numbers = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"
]
Datatype = Literal[Numbers, "BYTES"]
OutputName = Literal["labels", "predictions", "scores", "probabilities"]


class _Asked(BaseModel):
    """A part of a request. Clients add fields of their own, which are not read."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    parameters: Parameters | None = None
    """Parameters that are not known here are not read."""


class InferInput(_Asked):
    """A tensor of examples."""

    name: StrictStr
    """The input is `x`, or has the name of a view of the model."""
    shape: Annotated[list[Annotated[int, Field(strict=True, ge=0, lt=2**63)]], Field(max_length=8)]
    """A row is an example: n rows and as many columns as there are features, or n alone for BYTES."""
    datatype: Datatype
    """Elements are of this type. An element of BYTES is an example by itself: a text, or an object of JSON."""
    data: list[Any] | None = None
    """The elements are in row-major order, flat or nested. Only a tensor that comes as binary data has none."""


class InferOutput(_Asked):
    """An output that is wanted."""

    name: OutputName
    """The output has this name."""


class InferRequest(_Asked):
    """Examples to predict, as the Open Inference Protocol has them."""

    id: StrictStr | None = None
    """The answer has the same id."""
    inputs: Annotated[list[InferInput], Field(min_length=1, max_length=MAX_TENSORS)]
    """The input `x`, or one for each view."""
    outputs: Annotated[list[InferOutput], Field(max_length=MAX_TENSORS)] | None = None
    """These outputs are answered; without any, all that the model has."""


class AnsweredTensor(ResponseModel):
    """A tensor of the answer."""

    name: OutputName
    """The output has this name."""
    shape: list[int]
    """Number of examples, then, except for `labels`, number of labels."""
    datatype: Literal["BYTES", "BOOL", "FP32"]
    """Elements are of this type. An element of `labels` is a list of names in JSON."""
    parameters: Parameters | None = None
    """In `labels` stand the names of the columns, a list in JSON; in `binary_data_size` the bytes of binary data."""
    data: list[Any] | None = None
    """The elements are flat, in row-major order; none for a tensor that is binary data behind the JSON."""


class InferResponse(ResponseModel):
    """Predictions, as the Open Inference Protocol has them."""

    model_name: str
    """The model has this name."""
    model_version: str | None = None
    """The version that predicted, of a trained model."""
    id: str | None = None
    """The request had this id."""
    parameters: Parameters
    """In `position` stands which updates the answer has seen, in `stale_seconds` for how long the store is away."""
    outputs: list[AnsweredTensor]
    """The outputs are in the order in which they were asked for."""


class TensorDescription(ResponseModel):
    """A tensor that a model takes or answers."""

    name: str
    """The tensor has this name."""
    datatype: Datatype
    """Elements are of this type; numbers are taken in other types too."""
    shape: list[int]
    """A dimension of -1 has any size."""
    parameters: Parameters | None = None
    """In `labels` stand the names of the columns at present, a list in JSON."""


class ModelMetadata(ResponseModel):
    """A model, as the Open Inference Protocol describes it."""

    name: str
    """The model has this name."""
    versions: list[str] | None = None
    """These versions can be asked by number, of a trained model."""
    platform: str
    """It is `manylabel_` and the learner, or the trainer."""
    inputs: list[TensorDescription]
    """An example has a row in each."""
    outputs: list[TensorDescription]
    """A prediction has a row in each."""


class ServerMetadata(ResponseModel):
    """The server, as the Open Inference Protocol describes it."""

    name: str
    """The name is `manylabel`."""
    version: str
    """The release."""
    extensions: list[str]
    """The server has these extensions of the protocol."""


class ServerLive(ResponseModel):
    """The server is alive."""

    live: bool
    """It is always true."""


class ServerReady(ResponseModel):
    """The server is ready."""

    ready: bool
    """It is always true."""


class ModelReady(ResponseModel):
    """The model can be asked."""

    name: str
    """The model has this name."""
    ready: bool
    """It is always true."""
