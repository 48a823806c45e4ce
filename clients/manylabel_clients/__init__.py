"""Clients of a ManyLabel server, river adapters and the `manylabel` command.

This package imports the HTTP client only. `manylabel_clients.river` has estimators and streams,
`manylabel_clients.plots` draws trained models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manylabel_clients.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    # Imported on first use: `manylabel serve` needs no HTTP client, which takes a quarter of a second to import.
    return getattr(import_module(f"{__name__}.public"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module(f"{__name__}.public").__all__})
