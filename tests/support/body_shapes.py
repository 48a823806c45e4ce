"""Bodies of a given size in many shapes, for every call that accepts one."""

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

DEEP = 100


def _repeat(unit: bytes, size: int, begin: bytes = b"[", end: bytes = b"]") -> bytes:
    return begin + b",".join([unit] * max(1, (size - 2) // (len(unit) + 1))) + end


def _numbered(template: bytes, size: int, begin: bytes, end: bytes) -> bytes:
    return begin + b",".join(template % i for i in range(max(1, size // (len(template % 10**5) + 1)))) + end


SHAPES: dict[str, Callable[[int], bytes]] = {
    "empty lists": lambda size: _repeat(b"[]", size),
    "empty objects": lambda size: _repeat(b"{}", size),
    "objects with one field": lambda size: _repeat(b'{"":0}', size),
    "deep lists": lambda size: _repeat(b"[" * DEEP + b"0" + b"]" * DEEP, size),
    "deep objects": lambda size: _repeat(b'{"a":' * DEEP + b"0" + b"}" * DEEP, size),
    "digits": lambda size: _repeat(b"1", size),
    "numbers": lambda size: _repeat(b"0.25", size),
    "short strings": lambda size: _repeat(b'"a"', size),
    "empty strings": lambda size: _repeat(b'""', size),
    "different strings": lambda size: _numbered(b'"%05d"', size, b"[", b"]"),
    "one string": lambda size: b'"' + b"a " * (size // 2) + b'"',
    "one string not in ASCII": lambda size: b'"' + "é".encode() * (size // 2) + b'"',
    "named numbers": lambda size: _numbered(b'"%05d":1', size, b"{", b"}"),
    "named strings": lambda size: _numbered(b'"%05d":"a"', size, b"{", b"}"),
    "named flags": lambda size: _numbered(b'"%05d":true', size, b"{", b"}"),
    "named lists": lambda size: _numbered(b'"%05d":[1,2]', size, b"{", b"}"),
    "one name many times": lambda size: _repeat(b'"a":1', size, b"{", b"}"),
    "rows": lambda size: _repeat(b"[" + b"1," * 99 + b"1]", size),
    "nulls": lambda size: _repeat(b"null", size),
}
"""Makers of JSON values with about the given number of bytes."""


FOR_SCALARS = ("digits", "one string", "named numbers")
"""Shapes for a field that is no list and no object."""


@functools.cache
def made(shape: str, size: int) -> bytes:
    """Return a JSON value of a shape and of about that number of bytes."""
    return SHAPES[shape](size)


class Body(NamedTuple):
    """A body, with the name of its shape."""

    shape: str
    content: bytes


def json_bodies(models: list[dict[str, Any]], schemas: dict[str, Any], example: Any, size: int) -> Iterator[Body]:
    """Yield bodies for a call: each shape alone, as an unknown field, and in every field that the call knows.

    Parameters
    ----------
    models : of the body, as OpenAPI has them.
    schemas : those that they refer to.
    example : a body that the call accepts.
    size : bytes of a body.
    """
    for shape in SHAPES:
        yield Body(shape, made(shape, size))
        yield Body(f"{shape} in an unknown field", _with(example, ("unknown",), made(shape, size)))
    fields = dict(field for model in models for field in _fields(model, schemas, ()))
    for path, is_scalar in sorted(fields.items()):
        for shape in FOR_SCALARS if is_scalar else SHAPES:
            yield Body(f"{shape} in {'/'.join(path)}", _with(example, path, made(shape, size)))
    unknown = _numbered(b'"u%05d":1', size, b"", b"")
    yield Body("unknown fields", json.dumps(example).encode()[:-1] + b"," + unknown + b"}")
    item = json.dumps(example).encode()
    if "examples" in {path[0] for path in fields}:
        yield Body("many items", _repeat(item, size, b'{"examples":[', b"]}"))
        yield Body("many items, an option first", _repeat(item, size, b'{"probabilities":true,"examples":[', b"]}"))


def _fields(
    model: dict[str, Any], schemas: dict[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the path of each field of a model, down to objects in it, and whether it is a scalar; `*` is an element."""
    if len(path) > 3:
        return
    if "$ref" in model:
        model = schemas[model["$ref"].rpartition("/")[2]]
    choices = (*model.get("anyOf", ()), *model.get("oneOf", ()))
    if path and not choices:
        yield path, model.get("type") in ("integer", "number", "boolean") or "enum" in model or "const" in model
    for name, inside in model.get("properties", {}).items():
        yield from _fields(inside, schemas, (*path, name))
    if "items" in model:
        yield from _fields(model["items"], schemas, (*path, "*"))
    for choice in choices:
        yield from _fields(choice, schemas, path)


_HOLE = "\ue000hole"


def _with(example: Any, path: tuple[str, ...], value: bytes) -> bytes:
    """Return an example with a value at a path."""
    return json.dumps(_put(example, path)).encode().replace(json.dumps(_HOLE).encode(), value)


def _put(example: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return _HOLE
    first, *rest = path
    if first == "*":
        inside = example[0] if isinstance(example, list) and example else None
        return [_put(inside, tuple(rest))]
    given = example if isinstance(example, dict) else {}
    return {**given, first: _put(given.get(first), tuple(rest))}


def infer_bodies(size: int, n_rows: int) -> Iterator[Body]:
    """Yield bodies of the Open Inference Protocol that say more than they have."""

    def tensor(name: str, columns: int, datatype: str = "BOOL") -> dict[str, Any]:
        parameters = {"binary_data_size": 0} if not columns else {}
        data = {} if not columns else {"data": [1] * (n_rows * columns)}
        return {
            "name": name,
            "shape": [n_rows, columns],
            "datatype": datatype,
            **({"parameters": parameters} if parameters else {}),
            **data,
        }

    one = len(json.dumps(tensor("v000", 0))) + 2
    for count in (300, min(1_000, size // one)):
        yield Body(f"{count} empty inputs", json.dumps({"inputs": [tensor(f"v{i}", 0) for i in range(count)]}).encode())
        same = [tensor("x", 0)] * count
        yield Body(f"{count} empty inputs of one name", json.dumps({"inputs": same}).encode())
    for datatype in ("FP32", "UINT8", "BYTES"):
        data = {"name": "x", "shape": [size // 4, 1], "datatype": datatype}
        yield Body(f"numbers of {datatype}", _with({"inputs": [data]}, ("inputs", "*", "data"), made("digits", size)))
    wide = {"name": "x", "shape": [1, (size - 2) // 2], "datatype": "FP32"}
    yield Body("one wide row", _with({"inputs": [wide]}, ("inputs", "*", "data"), made("digits", size)))
    texts = ["{}"] * min(n_rows, size // 5)
    text = {"name": "x", "shape": [len(texts)], "datatype": "BYTES", "data": texts}
    yield Body("texts", json.dumps({"inputs": [text]}).encode())


def forms(size: int) -> Iterator[Body]:
    """Yield forms with a text."""
    yield Body("one text", b"text=" + b"a+" * (size // 2))
    yield Body("different words", b"text=" + b"+".join(b"%07d" % i for i in range(size // 8)))
    yield Body("escapes", b"text=" + b"%41" * (size // 3))
    yield Body("fields", b"text=a&" + b"&".join(b"metadata_%05d=a" % i for i in range(size // 18)))
    yield Body(
        "large fields", b"text=a&" + b"&".join(b"metadata_%d=%b" % (i, b"a+" * (size // 100)) for i in range(50))
    )
    yield Body("one field many times", b"&".join([b"text=a"] * (size // 7)))
    yield Body("empty fields", b"&" * size)


def lines(size: int, line_bytes: int) -> Iterator[Body]:
    """Yield bodies of lines of JSON: many small ones, and large ones in each shape."""
    small = b'{"x":{"a":1},"y":["b"]}\n'
    yield Body("small lines", small * (size // len(small)))
    yield Body("empty lines", b"\n" * size)
    yield Body("empty lists", b"[]\n" * (size // 3))
    for shape in SHAPES:
        for field in ("x", "y", "unknown"):
            line = _with({"x": {"a": 1}, "y": []}, (field,), made(shape, line_bytes))
            yield Body(f"{shape} in {field} of a line", line + b"\n")


def files(size: int) -> Iterator[tuple[str, Body]]:
    """Yield files of datasets, each with its format."""
    for body in lines(size, size):
        yield "ndjson", body
    yield "csv", Body("wide", b",".join(b"c%d" % i for i in range(size // 8)) + b",y\n" + b"1,1\n")
    yield "csv", Body("long", b"a,y\n" + b"1,1\n" * (size // 4))
    yield "csv", Body("commas", b"a,y\n" + b"," * size)
    yield "csv", Body("quotes", b'a,y\n"' + b'""' * (size // 2))
    yield "libsvm", Body("many labels", b",".join(b"%d" % i for i in range(size // 8)) + b" 1:1\n")
    yield "libsvm", Body("long", b"1 1:1\n" * (size // 6))
    yield "libsvm", Body("wide", b"1 " + b" ".join(b"%d:1" % i for i in range(1, size // 8)) + b"\n")
    yield "arff", Body("attributes", b"@relation r\n" + b"@attribute a numeric\n" * (size // 21) + b"@data\n")
    yield "mulan", Body("bytes", b"\x00\xff" * (size // 2))
