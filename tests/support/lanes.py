"""The two lanes of tests: `quick`, which `make test` runs, and `rest`, which `make test-all` runs.

The lane of a test follows from the fixtures that it uses:

- A fixture that starts processes, or needs a package that only the extra `dev` has, is declared with `in_rest`. A test
  that uses it, through other fixtures too, is in the rest.
- A parameter that names a store with a server (`SERVERS`) counts like such a fixture.
- All other tests are quick. Those with examples of Hypothesis are in both lanes: fewer examples in the quick lane, all
  in the rest. So is a test that uses the fixture `n_examples` (tests/conftest.py).

`Guard` fails a quick test that does what only the rest may, and a test that compiles what `make compiled` should have.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from numba.core import event

LANES = ("quick", "rest")
SERVERS = {"redis", "cluster"}
"""Parameters that name a store which needs a server."""
DEV_ONLY = {"annif_client", "cvxpy", "kubernetes_validate", "mcp", "onnx", "onnxruntime", "pandas", "pypaperless"}
"""Modules of packages that only the extra `dev` has."""
PROGRAMS = ("python", "manylabel", "redis-server")
"""Beginnings of names of programs that only tests in the rest start."""
FORKED = "tests.forked_program"
"""Audit event of tests/support/forked_server.py, with the name of the module."""

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
    if "rest" in _declared(item) or not SERVERS.isdisjoint(_parameters(item)):
        return {"rest"}
    return set(LANES) if _has_examples(item) else {"quick"}


def _declared(item: pytest.Item) -> set[str]:
    """Return what the fixtures of a test are declared as."""
    definitions = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
    return {lane for each in definitions if (lane := getattr(each[-1].func, "lane", None))}


def _parameters(item: pytest.Item) -> set[str]:
    call = getattr(item, "callspec", None)
    return set() if call is None else {each for each in call.params.values() if isinstance(each, str)}


def _has_examples(item: pytest.Item) -> bool:
    names: list[str] = item.fixturenames  # type: ignore[attr-defined]
    return item.get_closest_marker("hypothesis") is not None or "n_examples" in names


class Guard(event.Listener):
    """What the running test may not do, as far as it did it.

    Parameters
    ----------
    compiled : whether `make compiled` has run, so that no test should compile a function of manylabel_core.
    """

    def __init__(self, compiled: bool) -> None:
        self._found: list[str] = []
        self._quick = False
        self._compiling: list[Any] = []
        self._may_compile = False
        sys.addaudithook(self._hear)
        if compiled:
            event.register("numba:compile", self)

    @contextmanager
    def watching(self, item: pytest.Item) -> Iterator[None]:
        """Observe a test from its first fixture to its last."""
        self._quick = "quick" in lanes_of(item) and "allowed" not in _declared(item)
        self._may_compile = "compiles" in item.fixturenames  # type: ignore[attr-defined]
        try:
            yield
        finally:
            self._quick = False

    def check(self) -> None:
        """Fail the running test if it has done what it may not do."""
        if self._found:
            found, self._found = self._found, []
            pytest.fail("\n".join(found), pytrace=False)

    def _hear(self, name: str, arguments: tuple[Any, ...]) -> None:
        if not self._quick:
            return
        if name == "import" and arguments[0].partition(".")[0] in DEV_ONLY:
            self._found.append(f"a quick test imports {arguments[0]}: give it a fixture declared with in_rest")
        elif name == FORKED or (name == "subprocess.Popen" and _name(arguments[0]).startswith(PROGRAMS)):
            self._found.append(f"a quick test starts {_name(arguments[0])}: give it the fixture `programs`")

    def on_start(self, event: Any) -> None:
        self._compiling.append(event.data["dispatcher"].py_func)

    def on_end(self, event: Any) -> None:
        """Note a function of manylabel_core, unless it is compiled for a function of the test's own."""
        function = self._compiling.pop()
        callers = (each.__module__.partition(".")[0] for each in self._compiling)
        if not function.__module__.startswith("manylabel_core.") or not {"manylabel_core", "numba"}.issuperset(callers):
            return
        if not self._may_compile:
            name = f"{function.__module__}.{function.__qualname__}"
            self._found.append(f"a test compiles {name} {event.data['args']}, which `make compiled` has not")


def _name(program: Any) -> str:
    return os.path.basename(os.fsdecode(program))
