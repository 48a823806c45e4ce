"""Translation of requests and responses of the Open Inference Protocol to examples and predictions."""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jiter
import numpy as np
import pydantic_core
from numpy.typing import NDArray
from starlette.requests import Request

from manylabel_service.api.translation.to_json import response_too_large
from manylabel_service.api.web.bodies import length_of
from manylabel_service.api.web.large_json import read_value
from manylabel_service.api.web.problems import Problem, batch_too_large, invalid
from manylabel_service.api.web.validation import Path, validated
from manylabel_service.hosting.examples import Features
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.hosting.signature import EXAMPLE, Signature
from manylabel_service.integrations.open_inference import schemas
from manylabel_service.integrations.open_inference.tensors import (
    BINARY_SIZE,
    Tensor,
    n_examples,
    split,
    to_matrix,
    to_strings,
)
from manylabel_service.slices import in_slices
from manylabel_service.trained.inputs import Views

HEADER_LENGTH = "inference-header-content-length"
"""Header with the length of the JSON in a body; the rest is binary data."""
MAX_ROWS = 100_000
"""Maximum number of rows in all inputs of a request together; a row of one view takes about 300 bytes of memory."""

EXTENSION = "binary_tensor_data"

TEXT, JSON = "str", "json"
"""Values of the parameter `content_type` of a BYTES input: all elements are texts, or JSON."""

_DATATYPES = {"labels": "BYTES", "predictions": "BOOL", "scores": "FP32", "probabilities": "FP32"}
"""Datatypes of the outputs, in their order."""

Convert = Callable[[Any, Path], Any]


class Examples(NamedTuple):
    """Examples of a request; `at` returns the path of an example in the body."""

    values: list[Any]
    at: Callable[[int], Path]


class Output(NamedTuple):
    """Requested output, as binary data or in the JSON."""

    name: str
    binary: bool


async def read_request(request: Request, raw: bytes) -> tuple[schemas.InferRequest, list[Tensor]]:
    """Return a request and its inputs. Raises a Problem."""
    length = request.headers.get(HEADER_LENGTH)
    n_json = len(raw) if length is None else length_of(length.encode(), "Inference-Header-Content-Length")
    if n_json > len(raw):
        raise Problem("malformed_request", f"{HEADER_LENGTH} must be at most {len(raw)}, the bytes of the body")
    try:
        document = await read_value(raw[:n_json])
    except Problem as error:
        if length is None and error.code == "malformed_json":
            hint = "; before binary data, the header Inference-Header-Content-Length must have the bytes of the JSON"
            raise Problem(error.code, f"{error.detail}{hint}") from error
        raise
    asked = validated(schemas.InferRequest, document)
    return asked, split(asked.inputs, memoryview(raw)[n_json:])


async def to_examples(
    tensors: Sequence[Tensor], signature: Signature, convert: Convert, max_examples: int, max_features: int
) -> Examples:
    """Return the examples in the inputs of a request. Raises a Problem.

    `convert` converts an item like those of predict, at a path of the body, to an example.
    """
    n = n_examples(tensors[0])
    if n > max_examples:
        raise batch_too_large(f"the batch has {n:,} examples; at most {max_examples:,} are allowed")
    names = [tensor.asked.name for tensor in tensors]
    _check_names(names, signature)
    if n * len(tensors) > MAX_ROWS:
        raise batch_too_large(f"the inputs have {n * len(tensors):,} rows together; at most {MAX_ROWS:,} are allowed")
    if names == [EXAMPLE] and tensors[0].asked.datatype == "BYTES":
        return await _from_strings(tensors[0], n, convert)
    if signature.vectors and names != [EXAMPLE]:
        return await _from_vectors(tensors, n, convert, max_features)
    matrices = [await _rows(tensor, n, max_features) for tensor in tensors]
    if names == [EXAMPLE]:
        at = tensors[0].at
        return Examples([Features(None, None, row) for row in matrices[0]], lambda index: (*at, "data", index))
    values = [
        Views({name: Features(None, None, x) for name, x in zip(names, row, strict=True)})
        async for row in in_slices(zip(*matrices, strict=True))
    ]
    return Examples(values, lambda index: ("inputs", index))


def _check_names(names: Sequence[str], signature: Signature) -> None:
    """Raise a Problem for inputs that the model does not have, before they are parsed."""
    if names == [EXAMPLE]:
        return
    if len(set(names)) < len(names):
        raise invalid(("inputs",), "must not repeat a name")
    if not (signature.views or signature.vectors):
        raise invalid(("inputs",), f"must be the only input {EXAMPLE!r}: this model has no views")
    known = signature.views or (EXAMPLE, *signature.vectors)
    for index, name in enumerate(names):
        if name not in known:
            raise invalid(("inputs", index, "name"), f"must be one of {', '.join(known)}")


async def _from_vectors(tensors: Sequence[Tensor], n: int, convert: Convert, max_features: int) -> Examples:
    """Return records whose vectors are the rows of the other inputs; a row without values is omitted."""
    values = [Features((), None, np.zeros(0, dtype=np.float32))] * n
    vectors: list[dict[str, NDArray[np.float32]]] = [{} for _ in range(n)]
    for tensor in tensors:
        name, at = tensor.asked.name, tensor.at
        if name == EXAMPLE:
            if tensor.asked.datatype != "BYTES" or n_examples(tensor) != n:
                raise invalid(at, f"must be {n} texts or records, with the datatype BYTES, if there are vectors")
            values = list((await _from_strings(tensor, n, convert)).values)
            continue
        rows = await _rows(tensor, n, max_features)
        for index, row in enumerate(rows):
            lacking = np.isnan(row)
            if not lacking.any():
                vectors[index][name] = row
            elif not lacking.all():
                raise invalid((*at, "data", index), "must have a number in every element, or null in all")
    with_vectors = [
        x._replace(vectors={**(x.vectors or {}), **own} or None) for x, own in zip(values, vectors, strict=True)
    ]
    return Examples(with_vectors, lambda index: ("inputs", index))


async def _rows(tensor: Tensor, n: int, max_features: int) -> NDArray[np.float32]:
    at = tensor.at
    if tensor.asked.datatype == "BYTES":
        detail = f"must be a numeric type: only the single input {EXAMPLE!r} may be BYTES"
        raise invalid((*at, "datatype"), detail)
    if n_examples(tensor) != n:
        raise invalid((*at, "shape"), f"must have {n} examples, like the first input")
    if tensor.asked.shape[1] > max_features:
        raise invalid((*at, "shape"), f"must have at most {max_features} features, the limit of this server")
    return await to_matrix(tensor)


async def _from_strings(tensor: Tensor, n: int, convert: Convert) -> Examples:
    """Return examples that are texts, or records and other objects in JSON."""
    kind = (tensor.asked.parameters or {}).get("content_type")
    place: Path = (*tensor.at, "data")
    values = []
    async for index, text in in_slices(enumerate(await to_strings(tensor, n))):
        at = (*place, index)
        is_json = kind == JSON or (kind != TEXT and text.lstrip()[:1] == "{")
        values.append(convert({"x": _value(text, at) if is_json else text}, at))
    return Examples(values, lambda index: (*place, index))


def _value(text: str, at: Path) -> Any:
    try:
        return jiter.from_json(text.encode(), catch_duplicate_keys=True)
    except ValueError as error:
        detail = f"must be JSON ({error}); for texts that begin with a brace give the input the parameter "
        raise invalid(at, f'{detail}content_type = "{TEXT}"') from error


def wanted_outputs(asked: schemas.InferRequest, signature: Signature) -> list[Output]:
    """Return the requested outputs without duplicates, by default all outputs of the model. Raises a Problem
    invalid_request."""
    parameters = asked.parameters or {}
    all_binary = _flag(parameters.get("binary_data_output", False), "parameters", "binary_data_output")
    all_likely = not asked.outputs and signature.has_probabilities
    likely = _flag(parameters.get("probabilities", all_likely), "parameters", "probabilities")
    wanted = {}
    for index, each in enumerate(asked.outputs or ()):
        binary = (each.parameters or {}).get("binary_data", all_binary)
        wanted[each.name] = _flag(binary, "outputs", index, "parameters", "binary_data")
    if not wanted:
        wanted = dict.fromkeys(("labels", "predictions", "scores"), all_binary)
    if likely:
        wanted.setdefault("probabilities", all_binary)
    return [Output(name, binary) for name, binary in wanted.items()]


def _flag(value: Any, *at: str | int) -> bool:
    if not isinstance(value, bool):
        raise invalid(at, "must be true or false")
    return value


def n_numbers(outputs: Sequence[Output], n_examples: int, n_labels: int) -> int:
    """Return the number of scores and probabilities in a response."""
    return max(1, sum(output.name != "labels" for output in outputs)) * n_examples * n_labels


async def to_response(
    predictions: Sequence[Prediction], outputs: Sequence[Output], facts: dict[str, Any], max_bytes: int
) -> tuple[bytearray, bytearray]:
    """Return a response with these facts in two parts: the JSON, and the binary data after it. Raises a Problem
    batch_too_large for predictions above `max_bytes`."""
    # A model that learns in the meantime may know more labels at the end of a long batch than at its start.
    first, last = predictions[0].scores, predictions[-1].scores
    names = [name for name in first if name in last]
    del first, last
    document, binary = bytearray(pydantic_core.to_json(facts)[:-1] + b',"outputs":['), bytearray()
    columns = pydantic_core.to_json(names).decode()
    for number, output in enumerate(outputs):
        head = _head(output, len(predictions), names, columns)
        written, begin = (binary, len(binary)) if output.binary else (document, 0)
        document += b"," if number else b""
        if not output.binary:
            document += pydantic_core.to_json(head)[:-1] + b',"data":['
            begin = len(document)
        async for prediction in in_slices(predictions if output.name == "labels" or names else ()):
            row = _row(prediction, output, names)
            if len(document) + len(binary) + len(row) > max_bytes:
                raise response_too_large(max_bytes, "send fewer examples, or ask for fewer outputs")
            written += b"," + row if len(written) > begin and not output.binary else row
        if output.binary:
            head["parameters"][BINARY_SIZE] = len(binary) - begin
            document += pydantic_core.to_json(head)
        else:
            document += b"]}"
    document += b"]}"
    return document, binary


def _head(output: Output, n: int, names: Sequence[str], columns: str) -> dict[str, Any]:
    """Return an output without its elements."""
    of_labels = output.name == "labels"
    return {
        "name": output.name,
        "shape": [n] if of_labels else [n, len(names)],
        "datatype": _DATATYPES[output.name],
        "parameters": {} if of_labels else {"labels": columns},
    }


def _row(prediction: Prediction, output: Output, names: Sequence[str]) -> bytes:
    """Return the elements of one prediction, as binary data or as JSON without brackets."""
    if output.name == "labels":
        known = set(names)
        listed = pydantic_core.to_json([label for label in prediction.labels if label in known])
        return struct.pack("<I", len(listed)) + listed if output.binary else pydantic_core.to_json(listed.decode())
    values = prediction.probabilities if output.name == "probabilities" else prediction.scores
    assert values is not None
    row: NDArray[Any] = np.array([values.get(name, np.nan) for name in names])
    row = row > 0 if output.name == "predictions" else row.astype(np.float32)
    return row.tobytes() if output.binary else pydantic_core.to_json(row.tolist(), inf_nan_mode="null")[1:-1]


def metadata(name: str, signature: Signature) -> dict[str, Any]:
    """Return the metadata of a model in the protocol."""
    inputs = [
        {"name": each, "datatype": "BYTES", "shape": [-1]}
        if n_columns is None
        else {"name": each, "datatype": "FP32", "shape": [-1, n_columns]}
        for each, n_columns in signature.inputs.items()
    ]
    columns = {"labels": pydantic_core.to_json(signature.labels).decode()}
    outputs: list[dict[str, Any]] = [{"name": "labels", "datatype": "BYTES", "shape": [-1]}]
    for output, datatype in _DATATYPES.items():
        if output != "labels" and (output != "probabilities" or signature.has_probabilities):
            shape = [-1, len(signature.labels)]
            outputs.append({"name": output, "datatype": datatype, "shape": shape, "parameters": columns})
    facts = {"name": name, "platform": f"manylabel_{signature.kind}", "inputs": inputs, "outputs": outputs}
    return facts if signature.version is None else {**facts, "versions": [str(each) for each in signature.versions]}
