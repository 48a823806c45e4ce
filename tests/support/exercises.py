from manylabel_core.scaling.choices import SCALINGS
from manylabel_service.online import warmup as w
from manylabel_service.online.spec.params import PARAMS
from manylabel_service.jobs.training import warmup as t
import numpy as np
def base():
    for s in SCALINGS: w._exercise(algorithm="falt", scaling=s)
    w.next_cut(np.frombuffer(b"[1,2]", dtype=np.uint8), 0, 1, np.zeros(1, dtype=np.uint8), 0)
def options():
    w._exercise(algorithm="falt", params={"average": True, "drift": "adwin", "on_drift": "restart"})
def kernel():
    w._exercise(algorithm="kernel_falt", params={"calibrate": False})
    for strategy in PARAMS["kernel_falt"].choices("strategy"):
        w._exercise(algorithm="kernel_falt", params={"strategy": strategy, "budget": 2})
def vectors():
    for a in ("falt","salt"): w._exercise_vectors(a)
EXERCISES=dict(base=base,vectors=vectors,groups=w._exercise_groups,promise=w._exercise_promise,sparse=w._exercise_sparse_table,options=options,kernel=kernel,trainers=t.warm_up,python=lambda:None)
