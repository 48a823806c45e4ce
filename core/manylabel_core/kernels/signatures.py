"""Types of arguments as text: ``learn(float32[C2], int64, (float64, bool), rows.Rows(...), 0)``.

An array is its dtype, layout and number of dimensions, with ``r`` if it is read-only; a number is numba's type of that
literal; a named tuple is the name of its class within this package, with the types of its fields.
"""

import ast
import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from numba.core import types

ROOT = "manylabel_core."


def call_of(function: Callable[..., Any], types: Iterable[Any]) -> str:
    """Return the text of a specialisation of a function in this package."""
    name = f"{function.__module__}.{function.__qualname__}".removeprefix(ROOT)
    return f"{name}({', '.join(map(to_text, types))})"


def to_text(type_: Any) -> str:
    """Return the text of a type; raise ValueError for a type of an unknown kind."""
    match type_:
        case types.Array() if type_.aligned:
            return f"{type_.dtype}[{type_.layout}{type_.ndim}{'' if type_.mutable else 'r'}]"
        case types.IntegerLiteral() | types.BooleanLiteral():
            return repr(type_.literal_value)
        case types.BaseNamedTuple():
            named: Any = type_
            cls = named.instance_class
            return f"{cls.__module__.removeprefix(ROOT)}.{cls.__qualname__}({', '.join(map(to_text, named))})"
        case types.BaseTuple():
            items: Any = type_
            return f"({''.join(to_text(each) + ', ' for each in items).rstrip()})"
        case types.Number() | types.Boolean() | types.NoneType():
            return str(type_)
    raise ValueError(f"the list of kernels has no text for the type {type_!r}")


@functools.cache
def types_of(call: str) -> tuple[Any, ...]:
    """Return the types of the arguments of a call."""
    parsed = ast.parse(call, mode="eval").body
    assert isinstance(parsed, ast.Call)
    return tuple(map(_type, parsed.args))


def _type(node: ast.expr) -> Any:
    match node:
        case ast.Constant(None):
            return types.none
        case ast.Constant() | ast.UnaryOp():
            return types.literal(ast.literal_eval(node))
        case ast.Name(name):
            return types.boolean if name == "bool" else getattr(types, name)
        case ast.Subscript(dtype, ast.Name(form)):
            layout: Any = form[0]
            return types.Array(_type(dtype), int(form[1]), layout, readonly=form.endswith("r"))
        case ast.Tuple(items):
            return types.BaseTuple.from_types(tuple(map(_type, items)))
        case ast.Call(function, items):
            module, _, name = ast.unparse(function).rpartition(".")
            cls = getattr(importlib.import_module(ROOT + module), name)
            return types.BaseTuple.from_types(tuple(map(_type, items)), cls)
    raise ValueError(f"{ast.unparse(node)!r} is not a type in the list of kernels")
