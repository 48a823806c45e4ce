"""The list of specialisations, and which of them are on disk."""

import functools
import importlib
import json
import platform
import sys
import threading
from collections.abc import Collection, Iterable
from importlib.resources import files
from typing import Any, NamedTuple

import numba

from manylabel_core.compiled import SHIPPED, KernelCache
from manylabel_core.kernels.signatures import ROOT, types_of

TIERS = ("base", "vectors", "groups", "promise", "sparse", "options", "kernel", "trainers", "python")
"""Tiers of specialisations, each used with the tier ``base``:

- base : FALT and SALT on named, numbered and text features, with titles, late labels and metrics.
- vectors : features that are vectors.
- groups : groups of labels and parents.
- promise : a promised precision or parity.
- sparse : tables of weights that are too large to be dense.
- options : detection of drift, and steps other than the default.
- kernel : kernel learners.
- trainers : batch trainers.
- python : estimators in Python, in double precision.
"""

LIST = "kernels.txt"
BUILT_FOR = "built_for.json"
"""File in the folder of shipped functions with the versions and targets that they were compiled for."""


class Kernel(NamedTuple):
    """One specialisation."""

    tier: str
    """First tier that uses it."""
    called_in: str | None
    """First tier in which Python calls it; None if only compiled functions do."""
    call: str
    """Function in this package, and types of its arguments."""

    @property
    def function(self) -> str:
        """Name within this package."""
        return self.call.partition("(")[0]

    @property
    def types(self) -> tuple[Any, ...]:
        """numba's types of the arguments."""
        return types_of(self.call)

    @property
    def dispatcher(self) -> Any:
        """The function itself."""
        module, _, name = self.function.rpartition(".")
        return getattr(importlib.import_module(ROOT + module), name)


class Counts(NamedTuple):
    """Number of specialisations on disk, and in all."""

    stored: int
    total: int


_stored: set[Kernel] = set()
_loaded: set[str] = set()
_loading = threading.Lock()


@functools.cache
def kernels() -> tuple[Kernel, ...]:
    """Return all specialisations, functions before their callers."""
    found = []
    for line in (files(__package__) / LIST).read_text().splitlines():
        tier, called_in, call = line.split(maxsplit=2)
        found.append(Kernel(tier, None if called_in == "-" else called_in, call))
    return tuple(found)


def of(tiers: Collection[str]) -> list[Kernel]:
    """Return the specialisations that the tiers need, including those of other tiers that Python calls first in these
    tiers."""
    return [each for each in kernels() if each.tier in tiers or each.called_in in tiers]


def missing(wanted: Iterable[Kernel]) -> list[Kernel]:
    """Return the specialisations that are not on disk, or were compiled from other sources."""
    unseen = [each for each in wanted if each not in _stored]
    for kernel in unseen:
        dispatcher = kernel.dispatcher
        dispatcher.targetctx.refresh()
        cache = dispatcher._cache
        if isinstance(cache, KernelCache) and cache.holds(kernel.types, dispatcher.targetctx.codegen()):
            _stored.add(kernel)
    return [each for each in unseen if each not in _stored]


def count(tiers: Collection[str]) -> Counts:
    """Return how many specialisations of the tiers are on disk."""
    wanted = of(tiers)
    return Counts(len(wanted) - len(missing(wanted)), len(wanted))


def load(tiers: Iterable[str]) -> None:
    """Load the specialisations of the tiers that Python calls; compile those that are not on disk.

    A tier is loaded once in a process, and in its forks. Each tier needs ``base`` too.
    """
    with _loading:
        for tier in tiers:
            if tier not in _loaded:
                for kernel in kernels():
                    if kernel.called_in == tier:
                        kernel.dispatcher.compile(kernel.types)
                _loaded.add(tier)


def why_not_shipped() -> str:
    """Return why this process cannot use compiled functions that came with the package, as a clause."""
    try:
        built = json.loads((SHIPPED / BUILT_FOR).read_text())
    except FileNotFoundError:
        return "this package contains no compiled functions"
    for name, value in environment().items():
        if built[name] != value:
            return f"the compiled functions of this package are for {name} {built[name]}, and this is {value}"
    return "the compiled functions of this package were built from other sources"


def environment() -> dict[str, str]:
    """Return the versions on which compiled functions depend, in addition to their sources and the target."""
    python = f"{platform.python_implementation()} {sys.version_info[0]}.{sys.version_info[1]}"
    return {"Python": python, "numba": numba.__version__, "system": f"{platform.system()} on {platform.machine()}"}
