"""Hints by which schemathesis gets beyond 404: names of existing things, and the format NDJSON.

It runs in an environment of its own, in which nothing of ManyLabel is installed.
"""

import json
import os
from typing import Any
from zlib import crc32

import schemathesis

KNOWN: dict[str, list[str]] = json.loads(os.environ["MANYLABEL_TEST_KNOWN"])
"""Values of path parameters that are there at the start, by the name of the parameter."""


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Put something that is there in the place of three out of four values, but where it would be deleted."""
    operation = context.operation
    if path_parameters is None or operation is None or operation.method.upper() == "DELETE":
        return path_parameters
    for name, value in path_parameters.items():
        known = KNOWN.get("dataset" if name == "name" and "/datasets/" in operation.path else name, [])
        number = crc32(repr(value).encode())
        if known and number % 4 and isinstance(value, str) and value.isalnum() and value.isascii():
            path_parameters[name] = known[number // 4 % len(known)]
    return path_parameters


@schemathesis.serializer("application/x-ndjson")
def to_ndjson(context: Any, value: Any) -> bytes:
    """Write a value as one line, a list as a line for each element."""
    lines = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@schemathesis.deserializer("application/x-ndjson")
def from_ndjson(context: Any, response: Any) -> Any:
    """Read the first line, whose schema is in the description."""
    lines = [line for line in response.content.splitlines() if line]
    return json.loads(lines[0]) if lines else {}
