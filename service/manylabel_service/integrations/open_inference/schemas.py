"""JSON of the Open Inference Protocol, version 2, with the names and shapes of the protocol."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from manylabel_service.api.schemas.base import ResponseModel, omitted_if_none
from manylabel_service.documented import Documented

MAX_TENSORS = 1_000
"""Maximum number of inputs, or of outputs, in a request; a model has far fewer."""

Parameters = Annotated[dict[str, StrictStr | StrictInt | StrictFloat | StrictBool], Field(max_length=100)]
"""Parameters by name; the protocol leaves their meaning to servers and clients."""

Sent = Annotated[dict[str, Any], Field(max_length=100)]
"""Parameters of a request; clients may add others, such as headers, with values of any type."""

Numbers = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"
]
Datatype = Literal[Numbers, "BYTES"]
OutputName = Literal["labels", "predictions", "scores", "probabilities"]


class _Asked(Documented):
    """Part of a request. Additional fields of clients are ignored."""

    model_config = ConfigDict(extra="ignore")

    parameters: Sent | None = None
    """Parameters; unknown ones are ignored."""


class InferInput(_Asked):
    """Tensor of examples."""

    name: StrictStr
    """Name of the input: `x`, or the name of a view of the model."""
    shape: Annotated[list[Annotated[int, Field(strict=True, ge=0, lt=2**63)]], Field(max_length=8)]
    """Shape: n rows, one per example, and a column per feature; n alone for BYTES."""
    datatype: Datatype
    """Type of the elements. An element of BYTES is one example: a text or a JSON object."""
    data: list[Any] | None = None
    """Elements in row-major order, flat or nested; absent for a tensor sent as binary data."""


class InferOutput(_Asked):
    """Requested output."""

    name: OutputName
    """Name of the output."""


class InferRequest(_Asked):
    """Request to predict examples by the Open Inference Protocol."""

    id: StrictStr | None = None
    """Id, which the response repeats."""
    inputs: Annotated[list[InferInput], Field(min_length=1, max_length=MAX_TENSORS)]
    """The input `x`, or one input per view."""
    outputs: Annotated[list[InferOutput], Field(max_length=MAX_TENSORS)] | None = None
    """Requested outputs; null for all that the model has."""


class AnsweredTensor(ResponseModel):
    """Tensor of a response."""

    name: OutputName
    """Name of the output."""
    shape: list[int]
    """Number of examples and, except for `labels`, number of labels."""
    datatype: Literal["BYTES", "BOOL", "FP32"]
    """Type of the elements. An element of `labels` is a JSON list of names."""
    parameters: Parameters | None = None
    """`labels`: names of the columns, a JSON list; `binary_data_size`: bytes of binary data."""
    data: list[Any] | None = None
    """Elements, flat in row-major order; absent for a tensor sent as binary data."""


class InferResponse(ResponseModel):
    """Predictions by the Open Inference Protocol."""

    model_name: str
    """Name of the model."""
    model_version: str | None = None
    """Version of a trained model that predicted."""
    id: str | None = None
    """Id of the request."""
    parameters: Parameters
    """`position`: log position of the last update included; `stale_seconds`: seconds for which the store has been
    unreachable."""
    outputs: list[AnsweredTensor]
    """Outputs in the requested order."""


class TensorDescription(ResponseModel):
    """Tensor that a model accepts or returns."""

    name: str
    """Name of the tensor."""
    datatype: Datatype
    """Type of the elements; other number types are accepted too."""
    shape: list[int]
    """Shape; a dimension of -1 has any size."""
    parameters: Parameters | None = omitted_if_none()
    """`labels`: current names of the columns, a JSON list."""


class ModelMetadata(ResponseModel):
    """Metadata of a model by the Open Inference Protocol."""

    name: str
    """Name of the model."""
    versions: list[str] | None = omitted_if_none()
    """Versions of a trained model that can be addressed."""
    platform: str
    """`manylabel_` and the name of the learner or trainer."""
    inputs: list[TensorDescription]
    """Input tensors, with one row per example."""
    outputs: list[TensorDescription]
    """Output tensors, with one row per example."""


class ServerMetadata(ResponseModel):
    """Metadata of the server by the Open Inference Protocol."""

    name: str
    """Name of the server: `manylabel`."""
    version: str
    """Release."""
    extensions: list[str]
    """Supported extensions of the protocol."""


class ServerLive(ResponseModel):
    """Response that the server is alive."""

    live: bool
    """Always true."""


class ServerReady(ResponseModel):
    """Response that the server is ready."""

    ready: bool
    """Always true."""


class ModelReady(ResponseModel):
    """Response that the model is ready."""

    name: str
    """Name of the model."""
    ready: bool
    """Always true."""
