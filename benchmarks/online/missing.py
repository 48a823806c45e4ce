"""Missing values: mean imputation compared with 0.

Prequential evaluation in file order, with the learners' defaults. A share of all values is removed at random. The
generated stream has sensors in different units, all far from 0; a label is true if a weighted sum of three sensors is
above its mean. Figures are means over draws, with the smallest and the largest difference between mean and zero.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import load_stream
from benchmarks.online.streams import prequential
from manylabel_core import FALT, SALT, KernelFALT
from manylabel_core.metrics import micro_f1

SETS = ("sensors", "yeast", "emotions")
SHARES = (0.0, 0.1, 0.3)
LEARNERS: dict[str, Callable[..., Any]] = {
    "FALT": FALT,
    "SALT": SALT,
    "KernelFALT, budget 500": partial(KernelFALT, budget=500),
}


def run(args: argparse.Namespace) -> None:
    print(f"seeds {args.seed} to {args.seed + args.drawings - 1}\n")
    print(f"{'':10}{'left out':>10}  {'':24}{'mean':>8}{'zero':>8}{'difference':>24}")
    for name in args.sets:
        X, Y = sensors(3000, 12, 6, args.seed) if name == "sensors" else load_stream(args.data, name)
        for share in SHARES:
            for learner, make in LEARNERS.items():
                seeds = range(args.seed, args.seed + (args.drawings if share else 1))
                found = [compared(make, X, Y, share, seed) for seed in seeds]
                _print_row(name, share, learner, np.array(found))


def sensors(n: int, n_sensors: int, n_labels: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Return sensors with means and spreads of all sizes, and labels that are true above a plane through the means."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n_sensors))
    weights = np.zeros((n_sensors, n_labels))
    for label in range(n_labels):
        weights[rng.choice(n_sensors, 3, replace=False), label] = rng.normal(size=3)
    spreads = 10.0 ** rng.uniform(-2, 3, n_sensors)
    return Z * spreads + spreads * rng.uniform(5, 20, n_sensors), (Z @ weights > 0).astype(np.int8)


def compared(make: Callable[..., Any], X: Any, Y: Any, share: float, seed: int) -> list[float]:
    """Return the micro-F1 with mean imputation, and with 0."""
    lacking = np.random.default_rng(seed).random(X.shape) < share
    given = np.where(lacking, np.nan, X)
    return [micro_f1(Y, prequential(make(missing=missing), given, Y)) for missing in ("mean", "zero")]


def _print_row(name: str, share: float, learner: str, found: NDArray[np.float64]) -> None:
    mean, zero = found.mean(axis=0)
    gains = found[:, 0] - found[:, 1]
    span = f"{gains.mean():+.3f} ({gains.min():+.3f} to {gains.max():+.3f})"
    print(f"{name:10}{share:10.0%}  {learner:24}{mean:8.3f}{zero:8.3f}{span:>26}", flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets, one .npz each")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="datasets; all of them by default")
    parser.add_argument("--drawings", type=int, default=5, help="how often values are left out, each time others")
    parser.add_argument("--seed", type=int, default=0, help="of the first drawing, and of the generated stream")
