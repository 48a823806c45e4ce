"""Files that pass a problem to another Python and return scores; needs NumPy and SciPy only."""

import json
import sys
import time

import numpy as np
import scipy.sparse as sp


def write_problem(path, X, Y, other):
    """Write the training rows, their labels, and the rows to score, dense or as CSR arrays."""
    arrays = {"Y": Y}
    for name, rows in (("X", X), ("other", other)):
        if sp.issparse(rows):
            arrays |= {f"{name}_{part}": getattr(rows, part) for part in ("data", "indices", "indptr", "shape")}
        else:
            arrays[name] = rows
    np.savez(path, **arrays)


def read_scores(path):
    """Return scores, and the seconds to learn and to score."""
    with np.load(path, allow_pickle=False) as file:
        return file["scores"].astype(np.float64), *map(float, file["seconds"])


def answer(fit):
    """Run `fit(X, Y, setting)`, which returns a scoring function, by the arguments `PROBLEM SCORES SETTING`."""
    with np.load(sys.argv[1], allow_pickle=False) as file:
        X, Y, other = _rows(file, "X"), file["Y"], _rows(file, "other")
    began = time.process_time()
    score = fit(X, Y, json.loads(sys.argv[3]))
    learnt = time.process_time()
    scores = score(other)
    scores = scores.toarray() if sp.issparse(scores) else np.asarray(scores)
    np.savez(sys.argv[2], scores=scores, seconds=[learnt - began, time.process_time() - learnt])


def _rows(file, name):
    if name in file:
        return np.ascontiguousarray(file[name], dtype=np.float32)
    parts = (file[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_matrix(tuple(parts), shape=tuple(file[f"{name}_shape"]), dtype=np.float32)
