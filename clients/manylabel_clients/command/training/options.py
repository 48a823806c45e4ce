"""Options of all training commands: the trainer, its parameters, the rows for evaluation."""

from typing import Annotated, Any

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.options import named_values

DEFAULT_SEARCH = "default"
"""Value that selects the trainer's suggestions for a search."""

Params = Annotated[
    list[str] | None,
    Option(
        "--param", metavar="NAME=VALUE", help="Parameter of the trainer with a JSON value, such as C=0.1. Repeatable."
    ),
]
Holdout = Annotated[
    float | None,
    Option(metavar="SHARE", help="Share of rows held out for evaluation, such as 0.2."),
]
Seed = Annotated[int, Option(min=0, help="Random seed.")]


def search_of(pairs: list[str] | None, trials: int | None, folds: int, metric: str) -> dict[str, Any] | None:
    """Return the search of the options; None without one."""
    if not pairs:
        return None
    kind: dict[str, Any] = {"kind": "grid"} if trials is None else {"kind": "random", "trials": trials}
    space = {} if pairs == [DEFAULT_SEARCH] else {"params": named_values(pairs, "--search")}
    return {**kind, **space, "folds": folds, "measure": metric}
