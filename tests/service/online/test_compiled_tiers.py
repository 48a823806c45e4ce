"""Once a tier is loaded, no request that needs only this tier and `base` waits for a compiler, whatever the model."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("programs")

LOADED = """
import gc, os
from numba.core.dispatcher import Dispatcher
from manylabel_service.hosting.kernels import SERVED, load
from tests.support import exercises

def loaded():
    found = (each for each in gc.get_objects() if isinstance(each, Dispatcher))
    return {(each.py_func.__module__, each.py_func.__name__): set(each.signatures) for each in found}

def beyond(before):
    new = {function: types - before.get(function, set()) for function, types in loaded().items()}
    return {function: types for function, types in new.items() if types}
"""

EACH = """
for tier in SERVED:
    if not os.fork():
        load(("base", "options", tier) if tier == "kernel" else ("base", tier))
        before = loaded()
        assert before
        exercises.EXERCISES[tier]()
        if new := beyond(before):
            print(tier, new, flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""

ALL = """
import itertools
from manylabel_core.online.models.linear import sparse_table
from manylabel_core.scaling.choices import SCALINGS
from manylabel_service.online.spec.params import PARAMS

load(SERVED)
before = loaded()
for algorithm, params in PARAMS.items():
    steps, strategies = params.choices("step") or [None], params.choices("strategy") or [None]
    for step, strategy, scaling in itertools.product(steps, strategies, SCALINGS):
        own = {"optimise": "macro_f1", "drift": "adwin"}
        own |= {} if step is None else {"step": step}
        own |= {} if strategy is None else {"strategy": strategy, "budget": 2}
        exercises.learn(algorithm=algorithm, params=own, scaling=scaling)
    if strategies != [None]:
        for kernel in ("linear", "poly"):
            exercises.learn(algorithm=algorithm, params={"kernel": kernel, "fit_intercept": True})
for algorithm in PARAMS:
    exercises.learn_vectors(algorithm)
    exercises.learn_numbered(algorithm=algorithm)
sparse_table.MIN_SPARSE_BLOCKS, sparse_table.DENSE_BYTES = 1, 0
for algorithm, params in PARAMS.items():
    for step in params.choices("step") or [None]:
        exercises.learn(algorithm=algorithm, params={} if step is None else {"step": step})
exercises.groups()
if new := beyond(before):
    print(new)
"""


def run(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED + script], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_each_tier_has_what_its_models_need() -> None:
    run(EACH)


def test_all_tiers_have_what_all_models_need() -> None:
    run(ALL)
