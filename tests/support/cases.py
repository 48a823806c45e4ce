"""Many small cases in one test: like `parametrize`, without the cost of a test for each case."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def for_each(
    names: str | Iterable[str], cases: Iterable[Any], ids: Iterable[str] | Callable[[Any], str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test once for each case, in the manner of ``pytest.mark.parametrize``, but as one test.

    All cases run. If any fail, the test fails with the error of the first, and notes name those that failed. Fixtures
    are set up once, so they suit tests that leave no trace in them.

    Parameters
    ----------
    names : str or iterable of str
        Names of the arguments that a case sets, separated by commas in a string.
    cases : iterable
        Values of the argument, or a sequence of values for several.
    ids : iterable of str or callable, optional
        Names of the cases in the notes, or a function that names a value; by default they are named by their values.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    bound = [dict(zip(arguments, _values(case, len(arguments)), strict=True)) for case in cases]
    assert bound, "no cases"
    name_of = ids if callable(ids) else _described
    named: list[Any] = list(ids) if isinstance(ids, Iterable) else bound

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in arguments]

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run(*positional: Any, **fixtures: Any) -> None:
                failures = _Failures()
                for name, case in zip(named, bound, strict=True):
                    try:
                        await test(*positional, **fixtures, **case)
                    except (Exception, pytest.fail.Exception) as error:
                        failures.add(name if isinstance(name, str) else _name(name, name_of), error)
                failures.end()
        else:

            @functools.wraps(test)
            def run(*positional: Any, **fixtures: Any) -> None:
                failures = _Failures()
                for name, case in zip(named, bound, strict=True):
                    try:
                        test(*positional, **fixtures, **case)
                    except (Exception, pytest.fail.Exception) as error:
                        failures.add(name if isinstance(name, str) else _name(name, name_of), error)
                failures.end()

        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _described(value: Any) -> str:
    return f"{value!r:.200}"


def _name(case: dict[str, Any], name_of: Callable[[Any], str]) -> str:
    return ", ".join(f"{name}={name_of(value)}" for name, value in case.items())


def _values(case: Any, number: int) -> Any:
    if hasattr(case, "marks"):  # pytest.param
        assert not case.marks, "a case cannot have marks of its own"
        return case.values
    return case if number > 1 else [case]


class _Failures:
    """The first error of a test's cases, and the names of all cases that failed."""

    def __init__(self) -> None:
        self._first: BaseException | None = None
        self._named: list[str] = []

    def add(self, name: str, error: BaseException) -> None:
        self._first = self._first or error
        self._named.append(name)

    def end(self) -> None:
        if self._first is not None:
            for name in self._named[:50]:
                self._first.add_note(f"failed with {name}")
            raise self._first
