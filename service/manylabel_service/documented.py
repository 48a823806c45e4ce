"""Models with a docstring below each field; the docstrings are read when a schema is requested."""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler


class Documented(BaseModel, defer_build=True):
    """Base of models with a docstring below each field.

    The option `use_attribute_docstrings` of pydantic would parse the source of every model at startup, although only
    the OpenAPI description needs the texts.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        reference = handler(core_schema)
        properties = handler.resolve_ref_schema(reference).get("properties", {})
        for name, text in _texts_below(cls):
            field = cls.model_fields.get(name)
            place = properties.get(name if field is None else field.alias or name)
            if place is not None and (field is None or field.description is None):
                place["description"] = text
        return reference


def describe(model: type[BaseModel]) -> None:
    """Make the docstring below each field of a model its description."""
    for name, text in _texts_below(model):
        if name in model.model_fields:
            model.model_fields[name].description = text


def _texts_below(model: type) -> Iterator[tuple[str, str]]:
    """Yield the annotated names of a class and its bases, and the strings below them."""
    for base in reversed(model.__mro__):
        yield from _texts(base.__module__).get(base.__qualname__, {}).items()


@cache
def _texts(module: str) -> dict[str, dict[str, str]]:
    """Return the strings below the annotated names of each class at the top of a module."""
    if not module.startswith("manylabel_"):
        return {}
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.ClassDef):
            texts = found[node.name] = {}
            for field, below in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                    texts[ast.unparse(field.target)] = inspect.cleandoc(ast.literal_eval(below.value))
    return found
