"""Declarations of parameters: what they allow, and how classes inherit them."""

import inspect

import pytest
from sklearn.base import clone

from manylabel_core import SALT, online
from manylabel_core.parameters import NULL, Choice, Number, again, check_parameters, declared, parameter, parameters


@declared
class Base:
    size: float = parameter(1.0, Number(above=0, most=8), NULL, text="Size.")


@declared
class Middle(Base):
    kind: str = parameter("a", Choice(("a", "b")), text="Kind.")


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0.0}, "size must be a number above 0 and at most 8, not 0.0"),
        ({"size": True}, "size must be a number above 0 and at most 8, not True"),
        ({"kind": "c"}, "kind must be one of 'a', 'b', not 'c'"),
        ({"kind": None}, "kind must be one of 'a', 'b', not None"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(changes, message):
    check_parameters(Both(size=None))
    with pytest.raises(ValueError, match=f"^{message}$"):
        check_parameters(Both(**changes))


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
