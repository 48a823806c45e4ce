"""Options of everything that trains: the trainer, its parameters, what to measure on."""

from typing import Annotated, Any

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.options import named_values

DEFAULT_SEARCH = "default"
"""Stands for the values that the trainer suggests for a search."""

Params = Annotated[
    list[str] | None,
    Option(
        "--param", metavar="NAME=VALUE", help="A parameter of the trainer, its value as JSON, as C=0.1. Repeatable."
    ),
]
Holdout = Annotated[
    float | None,
    Option(metavar="SHARE", help="Share of the rows to measure the model on, and not to learn from, as 0.2."),
]
Seed = Annotated[int, Option(min=0, help="Of all that is up to chance.")]


def search_of(pairs: list[str] | None, trials: int | None, folds: int, metric: str) -> dict[str, Any] | None:
    """Return the search that the options describe; None without any."""
    if not pairs:
        return None
    kind: dict[str, Any] = {"kind": "grid"} if trials is None else {"kind": "random", "trials": trials}
    space = {} if pairs == [DEFAULT_SEARCH] else {"params": named_values(pairs, "--search")}
    return {**kind, **space, "folds": folds, "measure": metric}
