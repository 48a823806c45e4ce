"""Docstrings are whole sentences, and their examples run and print what they show."""

import ast
import doctest
import functools
import importlib
import re
from collections.abc import Callable
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
"""First words of a text that needs the line above it."""
QUESTION = re.compile(r"(How|When|Where|Whether|Who|Why)\b")
NO_VERB = re.compile(
    r"(An?|The|This|That|These|Those|It|Its|All|Any|Both|Each|Every|Everything|More|Most|No|Nobody|None|Nothing|One"
    r"|After|At|By|For|From|In|Only|Until|With|Without)\b"
)
"""First words that are no verb: articles, pronouns and prepositions."""


EXAMPLES = [name for name, path in MODULES.items() if ">>> " in path.read_text()]
NEED_SERVER = [name for name in EXAMPLES if "Client(url)" in MODULES[name].read_text()]


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(NEED_SERVER)))
def test_examples(name: str) -> None:
    _run_examples(name)


@pytest.mark.parametrize("name", NEED_SERVER)
def test_examples_on_a_server(name: str, url: str) -> None:
    """The name `url` is the address of a server."""
    _run_examples(name, url=url)


def _run_examples(name: str, **known: str) -> None:
    results = doctest.testmod(importlib.import_module(name), extraglobs=known)
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
def test_first_paragraphs_are_whole_sentences(folder: str) -> None:
    found = [
        f"{place}: {sentence}"
        for _, place, sentence in first_sentences(folder)
        if FRAGMENT.match(sentence) or not sentence.endswith((".", ":"))
    ]
    assert found == []


@pytest.mark.parametrize("folder", PACKAGES)
def test_functions_begin_with_a_verb(folder: str) -> None:
    """Properties and compiled formulas may begin with a noun, and endpoints with any sentence."""
    found = [
        f"{place}: {sentence}"
        for node, place, sentence in first_sentences(folder)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (QUESTION.match(sentence) or (NO_VERB.match(sentence) and not _is_described_otherwise(node)))
    ]
    assert found == []


def _is_described_otherwise(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(re.match(r"(cached_)?property$|compiled$|router\.", ast.unparse(each)) for each in node.decorator_list)


@functools.cache
def first_sentences(folder: str) -> list[tuple[ast.AST, str, str]]:
    """Return the node, the place and the first paragraph of each docstring of a module, a class or a function."""
    found: list[tuple[ast.AST, str, str]] = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if text := ast.get_docstring(node):
                line = 1 if isinstance(node, ast.Module) else node.lineno
                place = f"{path.relative_to(ROOT)}:{line}"
                found.append((node, place, " ".join(text.split("\n\n")[0].split())))
    return found
