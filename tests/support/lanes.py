"""The two lanes of tests: `quick`, which `make test` runs, and `rest`, which `make test-all` runs.

The lane of a test follows from the fixtures that it uses:

- A fixture that starts processes, or needs a package that only the extra `dev` has, is declared with `in_rest`. A test
  that uses it, through other fixtures too, is in the rest.
- A parameter that names a store with a server (`SERVERS`) counts like such a fixture.
- All other tests are quick. Those with examples of Hypothesis, or with the fixture `n_examples`, are in both lanes: the
  quick lane has fewer examples (tests/conftest.py).

tests/support/lane_plugin.py selects a lane, and guards the quick one.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

LANES = ("quick", "rest")
SERVERS = {"redis", "cluster", "redis-outside", "s3"}
"""Parameters that name a store which needs a server."""
F = TypeVar("F", bound=Callable[..., Any])


def in_rest(fixture: F) -> F:
    """Declare that tests with a fixture are in the rest; the decorator is below that of the fixture."""
    fixture.lane = "rest"  # type: ignore[attr-defined]
    return fixture


def allowed(fixture: F) -> F:
    """Declare that quick tests with a fixture may start processes; the decorator is below that of the fixture."""
    fixture.lane = "allowed"  # type: ignore[attr-defined]
    return fixture


def lanes_of(item: pytest.Item) -> set[str]:
    """Return the lanes that a test is in."""
    if "rest" in declared(item) or not SERVERS.isdisjoint(_parameters(item)):
        return {"rest"}
    return set(LANES) if _has_examples(item) else {"quick"}


def declared(item: pytest.Item) -> set[str]:
    """Return what the fixtures of a test are declared as."""
    definitions = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
    return {lane for each in definitions if (lane := getattr(each[-1].func, "lane", None))}


def _parameters(item: pytest.Item) -> set[str]:
    call = getattr(item, "callspec", None)
    return set() if call is None else {each for each in call.params.values() if isinstance(each, str)}


def _has_examples(item: pytest.Item) -> bool:
    names: list[str] = item.fixturenames  # type: ignore[attr-defined]
    return item.get_closest_marker("hypothesis") is not None or "n_examples" in names
