"""Declarations of parameters: what they allow, and how classes inherit them."""

import inspect
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from tests.support.cases import for_each

from manylabel_core import SALT, online
from manylabel_core.parameters import (
    FLAG,
    NULL,
    Choice,
    Number,
    again,
    check_parameters,
    declared,
    parameter,
    parameters,
)


@declared
class Base:
    size: float = parameter(1.0, Number(above=0, most=8), NULL, text="Size.")


@declared
class Middle(Base):
    kind: str = parameter("a", Choice(("a", "b")), text="Kind.")
    count: int = parameter(1, Number(integer=True, least=1, most=9), text="Count.")
    flag: bool = parameter(False, FLAG, text="Flag.")


@declared
class Other(Base):
    size: float = again(Base, "size", 2.0, description="Another size.")


@declared
class Both(Other, Middle):
    """Two bases.

    {parameters}
    """


def test_parameters_are_inherited_with_what_was_changed():
    by_name = {each.name: each for each in parameters(Both)}
    assert (by_name["size"].default, by_name["size"].description) == (2.0, "Another size.")
    assert by_name["size"].kinds == (Number(above=0, most=8), NULL)
    assert 'kind : one of "a", "b", default="a"\n        Kind.' in inspect.getdoc(Both).replace("\n    ", "\n        ")


def test_a_base_that_overrides_a_parameter_comes_first():
    """A dataclass would take the default of the first base, which only inherits it."""
    with pytest.raises(TypeError, match="list the base that overrides it first"):
        declared(type("Wrong", (Middle, Other), {}))


HUGE = 10**400, 10**5000, Fraction(10**400)
ARRAYS = np.array([1.0, 2.0]), np.array([])
NOT_ALLOWED = [
    *[("size", value, "a number above 0 and at most 8") for value in (0, -1.0, 8.5, np.nan, np.inf, "1", True)],
    *[("kind", value, "one of 'a', 'b'") for value in ("c", 1, None, ["a"])],
    *[("count", value, "an integer from 1 to 9") for value in (0, 10, 1.5, 2.0, np.nan, "3", True, None)],
    *[("flag", value, "True or False") for value in ("yes", 2, 0.5, None)],
    *[(name, value, "") for name in ("size", "kind", "count", "flag") for value in (*HUGE, *ARRAYS)],
]


def written(value):
    return "a huge number" if isinstance(value, int) and value >= 10**400 else repr(value)  # not all of its digits


@for_each(("name", "value", "allowed"), NOT_ALLOWED, ids=written)
def test_a_value_that_is_not_allowed_is_named(name, value, allowed):
    with pytest.raises(ValueError, match=f"^{name} must be {allowed}.*, not "):
        check_parameters(Both(**{name: value}))


@for_each(
    ("name", "value"),
    [
        ("size", None),
        ("size", np.float32(0.5)),
        ("count", np.int8(9)),
        *[("flag", value) for value in (True, np.bool_(True), 1, np.int64(1), 1.0)],
    ],
)
def test_numbers_of_numpy_and_truth_values_are_allowed(name, value):
    check_parameters(Both(**{name: value}))


def test_kernels_have_no_constant_by_default():
    defaults = {name: getattr(online, name)().fit_intercept for name in online.__all__}
    assert [name for name, default in defaults.items() if not default] == [
        name for name in online.__all__ if name.startswith("Kernel")
    ]


def test_parameters_are_given_by_position_too_those_of_the_algorithm_first() -> None:
    learner = SALT(0.5, 0.1)
    assert (learner.eta, learner.delta) == (0.5, 0.1)
    assert clone(learner).get_params() == learner.get_params()
    for wrong in (lambda: SALT(0.5, eta=0.1), lambda: SALT(*[None] * 40), lambda: SALT(step_size=1)):
        with pytest.raises(TypeError):
            wrong()
