"""Results of the papers of FALT, MLRL, M3L, PrML and LSA-MML compared with ours on the same data."""

import argparse
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from benchmarks.reproduce import alt, lsa_mml, m3l, mlrl, prml

PAPERS = {
    "alt": alt,
    "mlrl": mlrl,
    "m3l": m3l,
    "prml": prml,
    "lsa-mml": lsa_mml,
}
"""Papers by name, each a module with `SETS`, the names of its datasets, and `run(args)`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sets = [name for paper in PAPERS.values() for name in paper.SETS]
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--data", type=Path, required=True, help="folder with the datasets, one .npz each")
    parser.add_argument("--sets", nargs="+", choices=sorted(set(sets)), help="datasets; all of the paper by default")
    parser.add_argument(
        "--trials", type=int, default=10, help="folds, splits or samples, all of ten by default; not alt"
    )
    parser.add_argument("--setting", choices=("supervised", "semi", "both"), default="both", help="mlrl: which tables")
    parser.add_argument("--tol", type=float, default=1e-3, help="mlrl: relative duality gap of the models measured")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="alt: three folds and five orders; prml: no ablations; lsa-mml: 20 and 80 %% labelled, without maps",
    )
    parser.add_argument(
        "--kernels",
        nargs="+",
        choices=lsa_mml.KERNELS,
        help="lsa-mml: without maps (linear) or with (rbf); by default both",
    )
    parser.add_argument("--gaps", action="store_true", help="prml: instead, what stopping early does to its gain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="mlrl: folder for the drawing of the label correlations (SVG)")


def run(args: argparse.Namespace) -> None:
    print(f"seed {args.seed}, {args.trials} of the ten trials\n")
    with warnings.catch_warnings():
        # Rejected candidates need not have converged; the gaps of the chosen ones are printed.
        warnings.simplefilter("ignore", ConvergenceWarning)
        PAPERS[args.paper].run(args)
