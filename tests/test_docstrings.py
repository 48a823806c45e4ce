"""Docstrings can be read by themselves, and the examples in them run and print what they say."""

import ast
import doctest
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"core": "manylabel_core", "service": "manylabel_service", "clients": "manylabel_clients"}
MODULES = {
    ".".join(path.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__"): path
    for folder, package in PACKAGES.items()
    for path in sorted((ROOT / folder / package).rglob("*.py"))
}
FRAGMENT = re.compile(r"(Of|As|The same|What)\b")
"""The beginning of what cannot be read without the line above it."""
QUESTION = re.compile(r"(How|When|Where|Whether|Who|Why)\b")
NO_VERB = re.compile(
    r"(An?|The|This|That|These|Those|It|Its|All|Any|Both|Each|Every|Everything|More|Most|No|Nobody|None|Nothing|One"
    r"|After|At|By|For|From|In|Only|Until|With|Without)\b"
)
"""Articles, pronouns and prepositions: a function does something, and a verb says what."""


@pytest.mark.parametrize("name", [name for name, path in MODULES.items() if ">>> " in path.read_text()])
def test_examples(name: str, request: pytest.FixtureRequest) -> None:
    """An example that needs a server has its address in `url`."""
    needs_server = "Client(url)" in MODULES[name].read_text()
    globs = {"url": request.getfixturevalue("url")} if needs_server else {}
    results = doctest.testmod(importlib.import_module(name), extraglobs=globs)
    assert results.failed == 0, f"{results.failed} of {results.attempted} examples of {name} failed, see above"


@pytest.fixture(scope="module")
def url(module_server_process: Callable[..., Any]) -> str:
    return str(module_server_process().start().url)


@pytest.mark.parametrize("package", ["", ".batch", ".metrics", ".online"])
def test_every_public_name_has_an_example(package: str) -> None:
    module = importlib.import_module(f"manylabel_core{package}")
    assert module.__all__
    assert [name for name in module.__all__ if ">>> " not in (getattr(module, name).__doc__ or "")] == []


@pytest.mark.parametrize("folder", PACKAGES)
def test_first_sentences_can_be_read_by_themselves(folder: str) -> None:
    found = [
        f"{place}: {sentence}"
        for _, place, sentence in first_sentences(folder)
        if FRAGMENT.match(sentence) or not sentence.endswith((".", ":"))
    ]
    assert found == []


@pytest.mark.parametrize("folder", PACKAGES)
def test_functions_begin_with_a_verb(folder: str) -> None:
    """Properties and compiled formulas are named by nouns; endpoints are described in OpenAPI by whole sentences."""
    found = [
        f"{place}: {sentence}"
        for node, place, sentence in first_sentences(folder)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (QUESTION.match(sentence) or (NO_VERB.match(sentence) and not _is_described_otherwise(node)))
    ]
    assert found == []


def _is_described_otherwise(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(re.match(r"(cached_)?property$|compiled$|router\.", ast.unparse(each)) for each in node.decorator_list)


def first_sentences(folder: str) -> Iterator[tuple[ast.AST, str, str]]:
    """Each docstring of a module, a class or a function: where it is, and its first paragraph."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if text := ast.get_docstring(node):
                line = 1 if isinstance(node, ast.Module) else node.lineno
                yield node, f"{path.relative_to(ROOT)}:{line}", " ".join(text.split("\n\n")[0].split())
