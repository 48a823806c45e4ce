"""Plugin of pytest: runs one lane of tests with ``--lane=quick``, and fails tests that do what their lane may not.

A quick test may not start a server or another Python, nor import what only the extra `dev` has. With ``--compiled``
no test may compile a function of manylabel_core in this process, unless for a compiled function of its own: `make
compiled` should have done so.
"""

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from numba.core import event
from tests.support.lanes import LANES, declared, in_rest, lanes_of

from manylabel_core.kernels.signatures import call_of

DEV_ONLY = {"annif_client", "cvxpy", "kubernetes_validate", "mcp", "onnx", "onnxruntime", "pypaperless"}
"""Modules of packages that only the extra `dev` has; not pandas, which river and scikit-learn import if present."""
MORE = "tests/support/kernels.txt"
"""Specialisations that only tests use, which `make compiled` compiles too."""
PROGRAMS = ("python", "manylabel", "redis-server")
"""Beginnings of names of programs that only tests in the rest start."""
FORKED = "tests.forked_program"
"""Audit event of tests/support/forked_server.py, with the name of the module."""


class Guard(event.Listener):
    """Actions of the running test that its lane forbids.

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
        self._quick = "quick" in lanes_of(item) and "allowed" not in declared(item)
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
        if not self._may_compile and "<locals>" not in function.__qualname__:
            call = call_of(function, event.data["args"])
            self._found.append(f"a test compiles what `make compiled` has not: add it to {MORE}\n{call}")


def _name(program: Any) -> str:
    return os.path.basename(os.fsdecode(program))


GUARD = pytest.StashKey[Guard]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lanes", "lanes of tests (tests/support/lanes.py)")
    group.addoption("--lane", choices=LANES, help="run the tests of one lane; both by default")
    group.addoption("--compiled", action="store_true", help="fail tests that compile what `make compiled` should have")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[GUARD] = Guard(config.getoption("--compiled"))


@pytest.hookimpl(trylast=True)  # Hypothesis has set its marks then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if lane := config.getoption("--lane"):
        selected = [item for item in items if lane in lanes_of(item)]
        config.hook.pytest_deselected(items=[item for item in items if lane not in lanes_of(item)])
        items[:] = selected


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with item.config.stash[GUARD].watching(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    item.config.stash[GUARD].check()


@pytest.fixture
@in_rest
def programs() -> None:
    """Put a test in the rest that starts interpreters or programs by itself."""


@pytest.fixture
@in_rest
def dev_extra() -> None:
    """Put a test in the rest that needs a package which only the extra `dev` has, such as an oracle."""


@pytest.fixture
def compiles() -> None:
    """Let a test compile functions in this process that `make compiled` has not compiled."""
