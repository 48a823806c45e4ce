"""The examples in the docstrings of core run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import manylabel_core

PACKAGE = "manylabel_core"
MODULES = sorted(module.name for module in pkgutil.walk_packages(manylabel_core.__path__, f"{PACKAGE}."))


@pytest.mark.parametrize("name", [PACKAGE, *MODULES])
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    results = doctest.testmod(module, raise_on_error=False)
    assert results.failed == 0, f"{results.failed} of {results.attempted} examples of {name} failed, see above"


@pytest.mark.parametrize("name", [PACKAGE, f"{PACKAGE}.metrics"])
def test_every_public_name_has_an_example(name: str) -> None:
    package = importlib.import_module(name)
    assert package.__all__
    for public in package.__all__:
        assert ">>> " in (getattr(package, public).__doc__ or ""), f"{name}.{public}"
