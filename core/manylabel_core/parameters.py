"""Parameters of learners, each declared once: default, allowed values and description.

A learner is a dataclass whose fields are made by `parameter`. Its checks, the section of its docstring, the models of
the service, the OpenAPI description, the form of the web UI and the options of the command derive from the fields.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, TypeVar, dataclass_transform

import numpy as np

from manylabel_core.checks import is_finite, shown

MAX_MATRIX_ROWS = 1000
"""Maximum number of rows of a matrix that is a parameter."""


@dataclass(frozen=True, slots=True)
class Number:
    """Range of finite numbers or integers; `above` and `below` are exclusive bounds."""

    integer: bool = False
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def allows(self, value: Any) -> bool:
        """Return whether a value is a number in the range."""
        right = isinstance(value, Integral) and not isinstance(value, bool) if self.integer else is_finite(value)
        return (
            right
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        kind = "an integer" if self.integer else "a number"
        if self.least is not None and self.most is None and self.below is None:
            return f"a finite number of at least {self.least:g}"
        if self.least is not None:
            end = f"below {self.below:g}" if self.most is None else _shown(self.most)
            return f"{kind} from {_shown(self.least)} to {end}"
        if self.most is None and self.below is None:
            return f"a finite number above {self.above:g}"
        end = f"below {self.below:g}" if self.most is None else f"at most {_shown(self.most)}"
        return f"{kind} above {self.above:g} and {end}"


@dataclass(frozen=True, slots=True)
class Choice:
    """Set of allowed strings."""

    words: tuple[str, ...]

    def allows(self, value: Any) -> bool:
        """Return whether a value is one of the strings."""
        return isinstance(value, str) and value in self.words

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.words))}"


@dataclass(frozen=True, slots=True)
class Flag:
    """True or False."""

    def allows(self, value: Any) -> bool:
        """Return whether a value is a boolean; an array is not."""
        return isinstance(value, (Real, np.bool_)) and value in (True, False)

    def __str__(self) -> str:
        return "True or False"


@dataclass(frozen=True, slots=True)
class Null:
    """None, with a meaning that the description of the parameter states."""

    def allows(self, value: Any) -> bool:
        """Return whether a value is None."""
        return value is None

    def __str__(self) -> str:
        return "None"


@dataclass(frozen=True, slots=True)
class Matrix:
    """List of rows of numbers, with at most `most_rows` rows and columns."""

    entries: Number
    most_rows: int = MAX_MATRIX_ROWS

    def allows(self, value: Any) -> bool:
        """Return whether a value is a list."""
        return isinstance(value, list)

    def __str__(self) -> str:
        return "a list of rows of numbers"


@dataclass(frozen=True, slots=True)
class Other:
    """Kind of values that JSON cannot represent; `test` decides which are allowed."""

    text: str
    test: Callable[[Any], bool]

    def allows(self, value: Any) -> bool:
        """Return whether `test` accepts a value."""
        return self.test(value)

    def __str__(self) -> str:
        return self.text


Learner = TypeVar("Learner", bound=type)
Kind = Number | Choice | Flag | Null | Matrix | Other

NULL = Null()
FLAG = Flag()


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a learner."""

    name: str
    default: Any
    kinds: tuple[Kind, ...]  # values that a server and the command accept; none if only Python can set the parameter
    description: str
    python: tuple[Kind, ...]  # values that the constructor accepts
    adjustable: bool  # whether the value may change once the learner is in use

    def check(self, value: Any) -> None:
        """Raise ValueError, with the parameter's name, if the constructor does not accept a value."""
        if not any(kind.allows(value) for kind in self.python):
            kinds = [kind for kind in self.python if not isinstance(kind, Null)]
            if isinstance(value, str):
                kinds.sort(key=lambda kind: not isinstance(kind, Choice))
            allowed = " or ".join(map(str, kinds))
            raise ValueError(f"{self.name} must be {allowed}, not {shown(value)}")


def parameter(
    default: Any, *kinds: Kind, text: str, python: tuple[Kind, ...] | None = None, adjustable: bool = False
) -> Any:
    """Return the field of a dataclass that declares a parameter; see `Parameter`. `python` defaults to `kinds`."""
    metadata = {
        "kinds": kinds,
        "description": text,
        "python": kinds if python is None else python,
        "adjustable": adjustable,
    }
    return dataclasses.field(default=default, metadata=metadata)


def again(base: type, name: str, default: Any, **changes: Any) -> Any:
    """Return a copy of a field of a base class with another default, and other attributes of `Parameter`."""
    return dataclasses.field(default=default, metadata={**_fields(base)[name].metadata, **changes})


@cache
def parameters(learner: type) -> tuple[Parameter, ...]:
    """Return the parameters of a class: first those in `leading`, then its own, then those of its bases."""
    fields, leading = _fields(learner), getattr(learner, "leading", ())
    names = (*leading, *(name for name in _names(learner) if name not in leading))
    return tuple(Parameter(name, fields[name].default, **fields[name].metadata) for name in names)


def _names(learner: type[Any]) -> Iterator[str]:
    """Yield the names of the fields, from the class to its bases, each at its first declaration in the hierarchy."""
    bases = [base for base in learner.__mro__ if "__dataclass_fields__" in vars(base)]
    fields = _fields(learner)
    own = {base: [name for name in vars(base).get("__annotations__", {}) if name in fields] for base in bases}
    homes = {name: base for base, names in own.items() for name in names}
    for base, names in own.items():
        yield from (name for name in names if homes[name] is base)


def _fields(learner: type) -> dict[str, Any]:
    """Return the fields of a class by name."""
    return {field.name: field for field in dataclasses.fields(learner)}


def check_parameters(learner: Any) -> None:
    """Raise ValueError if a parameter of a learner has a value that its declaration does not allow."""
    of: type = type(learner)
    for each in parameters(of):
        each.check(getattr(learner, each.name))


def describe_parameters(learner: type) -> str:
    """Return the section of a docstring on the parameters of a class."""
    lines = ["Parameters", "----------"]
    for each in parameters(learner):
        allowed = " or ".join(map(str, each.python))
        lines.append(f"{each.name} : {allowed}, default={each.default!r}".replace("'", '"'))
        lines.append(textwrap.fill(each.description, 116, initial_indent=4 * " ", subsequent_indent=4 * " "))
    return "\n".join(lines)


def documented(learner: Learner, shared: Mapping[str, str] = MappingProxyType({})) -> Learner:
    """Replace lines in the docstring of a class: `{parameters}` by the section on the parameters, `{name}` by the text
    with this name."""
    if learner.__doc__ and "{" in learner.__doc__:  # Python -OO removes docstrings
        texts = {"parameters": describe_parameters(learner), **shared}
        inserted = re.compile(rf"^( *)\{{({'|'.join(texts)})\}}$", re.MULTILINE)
        learner.__doc__ = inserted.sub(lambda found: textwrap.indent(texts[found[2]], found[1]), learner.__doc__)
    return learner


@dataclass_transform(eq_default=False, kw_only_default=True)
def declared(learner: Learner) -> Learner:
    """Make a class a dataclass of parameters, and complete its docstring as `documented`."""
    dataclass(eq=False, repr=False, kw_only=True)(learner)
    for name, field in _fields(learner).items():
        if getattr(learner, name) is not field.default:
            # A dataclass takes a field from its first base, even if this base only inherits it and the second base
            # overrides it.
            raise TypeError(f"{learner.__name__}.{name}: list the base that overrides it first")
    _take_positions(learner)
    return documented(learner)


def _take_positions(learner: type) -> None:
    """Make the constructor also accept positional parameters, in the order of `parameters`."""
    by_name: Callable[..., None] = vars(learner)["__init__"]
    given = inspect.signature(by_name).parameters
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    ordered = [given[each.name].replace(kind=kind) for each in parameters(learner)]
    signature = inspect.Signature([given["self"], *ordered])

    @functools.wraps(by_name)
    def constructor(self: Any, *values: Any, **named: Any) -> None:
        if not values:
            by_name(self, **named)
        else:
            by_name(**signature.bind(self, *values, **named).arguments)

    constructor.__signature__ = signature  # type: ignore[attr-defined]
    setattr(learner, "__init__", constructor)  # noqa: B010 (mypy allows no other way)


def _shown(bound: float) -> str:
    return str(int(bound)) if isinstance(bound, int) or (bound < 1e9 and bound == int(bound)) else f"{bound:g}"
