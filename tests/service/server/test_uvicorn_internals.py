"""The attributes of private classes of uvicorn that the server uses exist in the installed version."""

import ast
import inspect
import tomllib
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from manylabel_service.server.answer_cycle import ResponseCycle
from manylabel_service.server.protocol import BoundedProtocol

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def of_self(cls: type, context: type[ast.expr_context]) -> set[str]:
    """Attributes of `self` that the methods of a class load, or store."""
    tree = ast.parse(inspect.getsource(cls))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and isinstance(node.ctx, context)
    }


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(BoundedProtocol, HttpToolsProtocol), (ResponseCycle, RequestResponseCycle)],
    ids=["protocol", "cycle"],
)
def test_inherited_attributes_exist(ours: type, theirs: type) -> None:
    own = of_self(ours, ast.Store) | vars(ours).keys()
    provided = of_self(theirs, ast.Store) | {name for cls in theirs.__mro__ for name in vars(cls)}
    inherited = of_self(ours, ast.Load) - own
    assert inherited, "uvicorn's attributes are used"
    assert inherited <= provided
    overridden = {name for name in vars(ours) if callable(vars(ours)[name]) and not name.startswith("__")} & provided
    for name in overridden:
        parameters = list(inspect.signature(getattr(theirs, name)).parameters)
        assert list(inspect.signature(getattr(ours, name)).parameters) == parameters, name


def test_only_tested_versions_of_uvicorn_are_allowed() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    every = chain(project.get("dependencies", ()), *project.get("optional-dependencies", {}).values())
    (uvicorn,) = [each for each in map(Requirement, every) if each.name == "uvicorn"]
    assert uvicorn.specifier.contains(version("uvicorn"))
    major, minor = map(int, version("uvicorn").split(".")[:2])
    assert not uvicorn.specifier.contains(f"{major}.{minor + 1}.0")
