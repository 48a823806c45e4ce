"""A compiled function calls its own package and the root of core only, and nothing that is not compiled.

Numba keeps compiled functions on disk, and `discard_stale` throws away those that may have compiled in something that
has changed since: what lies within the same rooms.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.cases import for_each

import manylabel_core

ROOT = Path(manylabel_core.__file__).parent
FILES = {file.relative_to(ROOT).as_posix(): file for file in ROOT.rglob("*.py") if not file.name.startswith("__")}
TYPES = {"compiled", "rows"}
"""The decorator, and types of arguments: nothing that is compiled in."""

COMPILED = {name: file for name, file in FILES.items() if file.name.startswith("_")}


def defines_compiled(file: Path) -> bool:
    functions = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
    decorators = [decorator for function in functions for decorator in function.decorator_list]
    return any(isinstance(decorator, ast.Name) and decorator.id == "compiled" for decorator in decorators)


def imported(file: Path) -> set[str]:
    """The modules of core that a file imports from."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.removeprefix("manylabel_core.") for name in named if name.startswith("manylabel_core")}


def test_an_underscore_means_compiled_always_and_only() -> None:
    assert COMPILED.keys() == {name for name, file in FILES.items() if defines_compiled(file)}


@for_each("name", COMPILED)
def test_compiled_calls_stay_in_the_package_or_the_root(name: str) -> None:
    package, _, rest = name.partition("/")
    for module in imported(COMPILED[name]) - TYPES:
        room, _, inner = module.partition(".")
        assert inner.rpartition(".")[2].startswith("_") or (not inner and room.startswith("_")), module
        assert not inner or (rest and room == package), module
