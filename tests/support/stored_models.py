"""Every kind of stored document, found without a list of them."""

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator

import manylabel_service
from manylabel_service.storage import StoredModel


def stored_models() -> list[type[StoredModel]]:
    """The models of the documents of the service, by name."""
    for module in pkgutil.walk_packages(manylabel_service.__path__, "manylabel_service."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ModuleNotFoundError):  # it needs an optional package
                importlib.import_module(module.name)
    found = {each for each in _below(StoredModel) if each.__module__.startswith("manylabel_service.")}
    return sorted(found, key=lambda each: each.__name__)


def _below(parent: type[StoredModel]) -> Iterator[type[StoredModel]]:
    for child in parent.__subclasses__():
        yield child
        yield from _below(child)
