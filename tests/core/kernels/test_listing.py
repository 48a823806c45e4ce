"""The list of specialisations, and its text."""

from __future__ import annotations

import importlib
import re
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba import typeof
from numba.core.dispatcher import Dispatcher
from tests.support.list_kernels import listed

import manylabel_core
import manylabel_core.kernels
from manylabel_core.kernels.listing import LIST, TIERS, Kernel, kernels
from manylabel_core.kernels.signatures import ROOT, call_of, to_text, types_of
from manylabel_core.rows import Rows


def test_each_line_is_read_back() -> None:
    for kernel in kernels():
        assert call_of(kernel.dispatcher.py_func, kernel.types) == kernel.call
        assert kernel.tier in TIERS
        assert kernel.called_in is None or TIERS.index(kernel.called_in) >= TIERS.index(kernel.tier)
    assert len({kernel.call for kernel in kernels()}) == len(kernels()) > 300


def test_types_are_read_back() -> None:
    read_only = np.zeros(2)
    read_only.setflags(write=False)
    values = [1, 1.5, True, None, np.uint64(1), np.float32(1), np.zeros((2, 3), np.int8), np.zeros((4, 4))[:, ::2]]
    values += [read_only, (), (1,), (1, 2.5), (read_only, (None, 3)), np.zeros(3, bool), np.array(0.5)]
    values += [Rows(np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32))]
    for value in values:
        type_ = typeof(value)
        assert types_of(f"f({to_text(type_)})") == (type_,)
    for literal in (0, -1, 7, True, False):
        (type_,) = types_of(f"f({literal})")
        assert (type_.literal_value, to_text(type_)) == (literal, repr(literal))


def test_an_unknown_type_has_no_text() -> None:
    with pytest.raises(ValueError, match="no text for the type"):
        to_text(typeof("text"))


def test_what_python_calls_is_listed() -> None:
    """A function that is not would be compiled by the request that needs it."""
    listed_calls = {kernel.function for kernel in kernels() if kernel.called_in is not None}
    root, missing = Path(manylabel_core.__file__).parent, set()
    for file in root.rglob("[!_]*.py"):
        text = file.read_text()
        module = importlib.import_module(ROOT + ".".join(file.relative_to(root).with_suffix("").parts))
        for name, value in vars(module).items():
            inner = vars(value) if isinstance(value, ModuleType) and f".{name}" in value.__name__ else {}
            functions = {f"{name}.{each}": function for each, function in inner.items()} | {name: value}
            for call, function in functions.items():
                if isinstance(function, Dispatcher) and re.search(rf"(?<![.\w]){re.escape(call)}\(", text):
                    missing.add(f"{function.py_func.__module__}.{function.__name__}".removeprefix(ROOT))
    assert len(missing) > 50
    assert missing - listed_calls == set()


def test_tests_alone_compile_other_types_of_listed_functions() -> None:
    """A function that only tests compile may be one that a server needs, too."""
    used = {kernel.function for kernel in kernels()}
    more = (Path(__file__).parents[2] / "support" / "kernels.txt").read_text().splitlines()
    assert {Kernel("", None, call).function for call in more} - used == set()


@pytest.mark.long
def test_the_list_is_what_is_compiled_and_called() -> None:
    """If this fails, run `make kernels`."""
    assert set(listed().splitlines()) == set((files(manylabel_core.kernels) / LIST).read_text().splitlines())
