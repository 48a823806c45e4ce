"""Speed of PrML: seeded sets of the sizes of bibtex, corel5k and eurlex, and growth of a pass with n, L and the
non-zeros.

CPU seconds are printed next to wall-clock seconds, because only they are meaningful on a busy machine.
"""

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.batch.synthetic import documents
from manylabel_core.batch import PrML
from manylabel_core.solvers import Privileged, solve_privileged_dual

GAP = 1e-2
PASSES = 3
SIZES = {"bibtex-sized": (3_700, 1_836, 159), "corel5k-sized": (2_500, 499, 374)}
LARGE = (9_674, 5_000, 3_993)


class Spent(NamedTuple):
    """Wall-clock seconds and CPU seconds."""

    clock: float
    worked: float


def fits(args: argparse.Namespace) -> dict[str, Spent]:
    """Time whole fits: one round to a relative gap of 1e-2."""
    found = {}
    for name, (n, d, n_labels) in SIZES.items():
        X, Y = documents(max(200, round(n * args.scale)), d, n_labels if args.scale >= 0.5 else 20, args.seed, True)
        model, found[name] = _fit(PrML(tol=GAP, n_threads=args.threads, optimise="none", scaling="none"), X, Y)
        print(f"{name}: {X.shape[0]:,} x {d:,}, L = {Y.shape[1]}: {model.n_iter_} passes", end=", ")
        print(f"gaps up to {model.duality_gap_:.1e}, {found[name].worked:.1f} s of the processor", flush=True)
    return found


def large(args: argparse.Namespace) -> Spent:
    """Time one round at the size of eurlex."""
    n, d, n_labels = LARGE
    labels = n_labels if args.scale >= 1 else max(20, round(n_labels * args.scale))
    X, Y = documents(max(labels, round(n * args.scale)), d, labels, args.seed, True)
    rng = np.random.default_rng(args.seed)
    X = X + 0.3 * (X[rng.permutation(len(Y))] + X[rng.permutation(len(Y))])  # eurlex has about 230 values a row
    model, spent = _fit(PrML(tol=GAP, n_threads=args.threads, optimise="none", scaling="none"), X, Y)
    print(f"eurlex-sized: {X.shape[0]:,} x {d:,}, {X.nnz / X.shape[0]:.0f} values a row, L = {labels}", end=", ")
    print(f"one round, gap {model.duality_gap_:.1e}, {spent.worked:.1f} s of the processor", flush=True)
    return spent


def scaling(args: argparse.Namespace) -> None:
    """Print the CPU seconds of a D-step of a few passes by n, L and the width of rows."""
    full = {"n": 4_000, "L": 200, "d": 80}
    for axis in full:
        for share in (0.125, 0.25, 0.5, 1.0):
            size = {key: max(8, round((share if key == axis else 0.5) * value)) for key, value in full.items()}
            size["n"] = max(100, round(size["n"] * args.scale))
            spent = _passes(size, args)
            print(f"PrML, D-step: n = {size['n']:6,}  L = {size['L']:4}  d = {size['d']:4}  {spent:8.2f} s", flush=True)


def _passes(size: dict[str, int], args: argparse.Namespace) -> float:
    """Time passes over dense rows, so that d is the number of non-zeros."""
    rng = np.random.default_rng(args.seed)
    X = rng.normal(size=(size["n"], size["d"])) / np.sqrt(size["d"])
    Y = np.where(X @ rng.normal(size=(size["d"], size["L"])) > 1.5, 1, -1)
    W = rng.normal(size=(20, size["L"])) / 4
    problem = Privileged(Y, C=0.1, rho=0.3, gamma=1.0)
    start = time.process_time()
    solve_privileged_dual(X, problem, W=W, tol=1e-9, max_iter=PASSES, n_threads=args.threads)
    return time.process_time() - start


def _fit(model: PrML, X: Any, Y: Any) -> tuple[PrML, Spent]:
    start, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, (Y > 0).astype(np.int8))
    return model, Spent(time.perf_counter() - start, time.process_time() - worked)
