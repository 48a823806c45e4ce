"""The lanes of tests: each test is in one, those with examples in both, and the guard finds what a lane may not do."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from numba.core import event
from tests.support.lanes import LANES, allowed, lanes_of

SUITE = """
import subprocess, sys
import pytest
from hypothesis import given, settings, strategies as st
from tests.support.lanes import allowed, in_rest

@pytest.fixture
@in_rest
def process(): pass

@pytest.fixture
def client(process): pass

@pytest.fixture
@allowed
def smoke(): pass

@pytest.fixture(params=["sqlite", "redis"])
def store(request): return request.param

def test_plain(): pass
def test_process(client): pass
def test_store(store): pass
def test_both(client, store): pass

@pytest.mark.usefixtures("programs")
def test_program(): pass

@given(st.integers())
def test_examples(number): pass

@settings(max_examples=3)
@given(st.integers())
def test_examples_in_rest(client, number): pass
"""
QUICK = {"test_plain", "test_store[sqlite]", "test_examples"}
REST = {
    *("test_process", "test_store[redis]", "test_both[sqlite]", "test_both[redis]", "test_program", "test_examples"),
    "test_examples_in_rest",
}

Run = Callable[..., Any]


@pytest.fixture
@allowed
def run(pytester: pytest.Pytester) -> Run:
    """Run a file of tests with some options: ``run("def test(): pass", "--lane=quick")``."""

    def run(source: str, *options: str) -> Any:
        pytester.makepyfile(source)
        options = (
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-o",
            "asyncio_default_fixture_loop_scope=function",
            "-p",
            "tests.support.lane_plugin",
            *options,
        )
        return pytester.inline_run(*options)

    return run


def names(run: Run, *options: str) -> list[str]:
    (finished,) = run(SUITE, *options).getcalls("pytest_collection_finish")
    return [item.name for item in finished.session.items]


def test_a_lane_follows_from_fixtures_and_their_parameters(run: Run) -> None:
    assert set(names(run, "--lane=quick")) == QUICK
    assert set(names(run, "--lane=rest")) == REST
    assert set(names(run)) == QUICK | REST


def test_each_test_of_this_run_is_in_a_lane(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        lanes = lanes_of(item)
        has_examples = item.get_closest_marker("hypothesis") is not None or "n_examples" in item.fixturenames
        assert lanes in ({"quick"}, {"rest"}, *([set(LANES)] if has_examples else [])), item.nodeid


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def test(): subprocess.run([sys.executable, '-c', ''], check=True)", True),
        ("def test(): sys.audit('tests.forked_program', 'manylabel_service')", True),
        ("def test(): import annif_client", True),
        ("def test(): subprocess.run(['true'], check=True)", False),
        ("def test(smoke): subprocess.run([sys.executable, '-c', ''], check=True)", False),
        ("def test(client): subprocess.run([sys.executable, '-c', ''], check=True)", False),
        ("@pytest.fixture\ndef starts(): subprocess.run([sys.executable, '-c', ''])\ndef test(starts): pass", True),
    ],
    ids=["program", "fork", "package", "other program", "allowed", "rest", "fixture"],
)
def test_a_quick_test_that_starts_a_server_or_imports_an_oracle_fails(
    run: Run, pytester: pytest.Pytester, source: str, found: bool
) -> None:
    pytester.makepyfile(annif_client="")
    pytester.syspathinsert()
    preamble = SUITE.partition("def test_plain")[0]
    done = run(preamble + source)
    assert bool(_errors(done)) == found


def _errors(done: Any) -> list[Any]:
    return [report for report in done.getreports("pytest_runtest_logreport") if report.failed]


def compile_event(*functions: str) -> None:
    """Tell numba's listeners that functions are compiled, each while the one before it is."""
    first, *others = functions
    module, _, name = first.rpartition(".")
    function = SimpleNamespace(__module__=module, __qualname__=name)
    with event.trigger_event("numba:compile", {"dispatcher": SimpleNamespace(py_func=function), "args": ()}):
        if others:
            compile_event(*others)


@pytest.mark.usefixtures("compiles")
@pytest.mark.parametrize(
    ("functions", "options", "fixture", "found"),
    [
        (["manylabel_core._rows.f"], ["--compiled"], "", True),
        (["manylabel_core._rows.f"], [], "", False),
        (["manylabel_core._rows.f"], ["--compiled"], "compiles", False),
        (["test_own.f", "manylabel_core._rows.f"], ["--compiled"], "", False),
        (["test_own.f"], ["--compiled"], "", False),
        (["manylabel_core._rows.f", "numba.np.g"], ["--compiled"], "", True),
    ],
    ids=["core", "not asked", "allowed", "for a test", "of a test", "numba's own"],
)
def test_a_test_that_compiles_a_function_fails(
    run: Run, functions: list[str], options: list[str], fixture: str, found: bool
) -> None:
    done = run(
        f"from tests.test_lanes import compile_event\ndef test({fixture}): compile_event(*{functions})", *options
    )
    assert bool(_errors(done)) == found
