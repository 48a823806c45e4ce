"""After `warm_up` no request waits for a compiler, whatever the model."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("programs")

SCRIPT = """
import gc, itertools
import numpy as np
from numba.core.dispatcher import Dispatcher
from manylabel_core.online.models.linear import sparse_table
from manylabel_core.scaling.choices import SCALINGS
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online import warmup
from manylabel_service.online.spec.params import PARAMS
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.log_entries import Update
from manylabel_service.online.state.model import OnlineModel

def compiled():
    found = (each for each in gc.get_objects() if isinstance(each, Dispatcher))
    return {(each.py_func.__module__, each.py_func.__name__): set(each.signatures) for each in found}

warmup.warm_up()
before = compiled()
assert before
for algorithm, params in PARAMS.items():
    steps, strategies = params.choices("step") or [None], params.choices("strategy") or [None]
    for step, strategy, scaling in itertools.product(steps, strategies, SCALINGS):
        own = {"optimise": "macro_f1", "drift": "adwin"}
        own |= {"average": len(scaling) % 2 == 0} if "average" in params.model_fields else {}
        own |= {} if step is None else {"step": step}
        own |= {} if strategy is None else {"strategy": strategy, "budget": 2}
        warmup._exercise(algorithm=algorithm, params=own, scaling=scaling)
    if strategies != [None]:
        for kernel in ("linear", "poly"):
            warmup._exercise(algorithm=algorithm, params={"kernel": kernel, "fit_intercept": True})
for algorithm in PARAMS:
    warmup._exercise_vectors(algorithm)
numbered = Features(None, np.array([3, 9], dtype=np.int32), np.ones(2, dtype=np.float32))
example = Example(numbered, Labels.all_of(["c"]))
model = OnlineModel(ModelSpec.model_validate({"name": "numbered", "algorithm": "falt"}))
ApplyBatch(model, [LogEntry("1", Update((example, example), "log", want_predictions=True))]).step(max_examples=2)
OnlineModel.from_bytes(model.to_bytes()).predict([numbered], probabilities=True)
sparse_table.MIN_SPARSE_BLOCKS, sparse_table.DENSE_BYTES = 1, 0
for algorithm, params in PARAMS.items():
    for step in params.choices("step") or [None]:
        warmup._exercise(algorithm=algorithm, params={} if step is None else {"step": step})
warmup._exercise_groups()
new = {kernel: types - before.get(kernel, set()) for kernel, types in compiled().items()}
print({kernel: types for kernel, types in new.items() if types})
"""


def test_no_kernel_is_left_to_compile() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "{}"), done.stderr
