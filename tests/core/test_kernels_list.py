"""The list of specialisations, and its text."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest
from numba import typeof
from tests.support.list_kernels import listed

import manylabel_core.kernels
from manylabel_core.kernels.listing import LIST, TIERS, kernels
from manylabel_core.kernels.signatures import call_of, to_text, types_of
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


@pytest.mark.long
def test_the_list_is_what_is_compiled_and_called() -> None:
    """Otherwise `make kernels` makes it anew."""
    assert set(listed().splitlines()) == set((files(manylabel_core.kernels) / LIST).read_text().splitlines())
