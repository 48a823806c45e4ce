"""Libraries that few tests use are imported at their first use, because they slow down the collection of tests."""

import importlib
from typing import Any


class _Lazy:
    def __init__(self, module: str, name: str | None) -> None:
        self._module, self._name = module, name

    def _load(self) -> Any:
        module = importlib.import_module(self._module)
        return module if self._name is None else getattr(module, self._name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks for marks of its own at each global of a module
            raise AttributeError(attribute)
        return getattr(self._load(), attribute)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._load()(*arguments, **options)


def lazy(module: str, name: str | None = None) -> Any:
    """Return a stand-in for a module, or for a function or class of one, that imports it at its first use."""
    return _Lazy(module, name)
