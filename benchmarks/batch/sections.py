"""Seconds to a duality gap: M3L compared with one LIBSVM or LIBLINEAR per label; MLRL; LSA-MML.

Every solver runs to the same relative duality gap, (primal - dual) / primal over all labels together: 1e-3. The other
libraries have other stopping rules, so each gets the loosest tolerance with which some labels reach the gap; the gap
reached with all labels is printed. Numbers of threads are equal: with several threads, the other libraries fit several
labels in parallel. Contenders take turns; times are medians.

SVC has a free intercept instead of M3L's constant feature; both problems are timed. LinearSVC solves exactly M3L's
problem. SVC(kernel="rbf"), which computes its kernel values itself, is timed on a few labels (with --peer-labels all
other libraries are), and its time for all is extrapolated. All data are synthetic, seeded, and generated before timing.
"""

import argparse
import contextlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.batch import privileged, views
from benchmarks.batch.peers import TOLERANCES, Fit, fit_all, linear_svc, svc, tuned
from benchmarks.batch.synthetic import Labelled, attributes, covariance, documents
from benchmarks.output import verdict
from manylabel_core.batch import MLRL
from manylabel_core.mercer import Kernel, gram, scale_gamma
from manylabel_core.solvers import DualResult, StoredGram, solve_kernel_dual, solve_linear_dual

GAP = 1e-3
LARGE_GAP = 1e-2
MLRL_LAM = 0.54
"""Lambda for a loss that is a sum over examples; the loss of MLRL is their mean. At 5,400 examples this is the default
of MLRL, 1e-4. The paper reports about 1,150 s without the value of lambda.
"""
C = 1.0
TUNED_LABELS, EXTRAPOLATED_LABELS = 5, 3
LONG_SECONDS = 20
SECTIONS = ("kernel", "linear", "mlrl", "scaling", "large", "lsa-mml", "prml")

Solve = Callable[[], DualResult]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="parts to run")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the examples, and of labels if below 0.5")
    parser.add_argument("--peer-labels", type=int, default=0, help="time peers on so many labels only (0: on all)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> None:
    print(f"{args.threads} thread(s), relative duality gap {GAP:g}, C = {C:g}, scale {args.scale:g}")
    _warm_up()
    for section in args.only:
        print(f"\n== {section}", flush=True)
        sections: dict[str, Callable[[argparse.Namespace], None]] = {
            "kernel": kernel,
            "linear": linear,
            "mlrl": mlrl,
            "scaling": scaling,
            "large": large,
            "lsa-mml": lsa_mml,
            "prml": prml,
        }
        sections[section](args)


def kernel(args: argparse.Namespace) -> None:
    """Compare M3L with an RBF kernel with one SVC per label."""
    n, n_labels = _scaled(args, 10_000, 85)
    X, Y = attributes(n, 252, n_labels, args.seed)
    rbf = Kernel("rbf", gamma=scale_gamma(X))
    print(f"n = {n:,}, d = 252, L = {n_labels}, RBF, gamma = scale; ours on a Gram matrix but for the last line")
    single = gram(rbf, X)
    R, eye = covariance(n_labels, args.seed), np.eye(n_labels)

    def ours(K: Any, S: Any, **options: Any) -> Solve:
        return lambda: solve_kernel_dual(K, Y, S, C, tol=GAP, n_threads=args.threads, **options)

    times = _race(
        {
            "R = I, float32": ours(single, eye),
            "dense R, float32": ours(single, R),
            "R = I, float32, free bias": ours(single, eye, equality=True),
            "dense R, float32, free bias": ours(single, R, equality=True),
            "R = I, float32, with its Gram matrix": lambda: ours(gram(rbf, X), eye)(),
        },
        args.repeats,
    )
    double = single.astype(np.float64)
    times |= _race(
        {
            "R = I, float64": lambda: ours(StoredGram.of(double), eye)(),
            "dense R, float64": lambda: ours(StoredGram.of(double), R)(),
            "R = I, float64, in double precision": ours(double, eye),
        },
        args.repeats,
    )
    shared = _peer("SVC, one shared Gram matrix", svc(double, Y, C, kernel="precomputed"), n_labels, args)
    own = svc(double, Y, C, kernel="rbf", gamma=rbf.gamma, X=X.astype(np.float64))
    alone = _peer("SVC(kernel='rbf')", own, n_labels, args, EXTRAPOLATED_LABELS)
    _verdict("SVC, shared Gram / R = I, float32", shared / times["R = I, float32"], at_least=12)
    _verdict("SVC, shared Gram / R = I, float64", shared / times["R = I, float64"], at_least=12)
    _verdict("SVC, shared Gram / same problem, float32", shared / times["R = I, float32, free bias"])
    _verdict("SVC(rbf) / R = I with Gram", alone / times["R = I, float32, with its Gram matrix"], at_least=60)
    for dtype in ("float32", "float64"):
        ratio = times[f"dense R, {dtype}"] / times[f"R = I, {dtype}"]
        _verdict(f"dense R / R = I, {dtype}", ratio, at_most=1.5)


def linear(args: argparse.Namespace) -> None:
    """Compare linear M3L with one LinearSVC per label."""
    for name, n, d, n_labels, binary in (
        ("bibtex-sized", 7_395, 1_836, 159, True),
        ("rcv1-sized", 23_149, 47_236, 101, False),
    ):
        n, n_labels = _scaled(args, n, n_labels)
        X, Y = documents(n, d, n_labels, args.seed, binary)
        print(
            f"{name}: {n:,} x {d:,}, {X.nnz / n:.1f} values a row, L = {n_labels}, {(Y > 0).sum() / n:.2f} labels a row"
        )
        R, eye = covariance(n_labels, args.seed), np.eye(n_labels)

        def ours(S: Any, X: Any = X, Y: Any = Y) -> Solve:
            return lambda: solve_linear_dual(X, Y, S, C, bias_feature=1.0, tol=GAP, n_threads=args.threads)

        times = _race({"R = I": ours(eye), "dense R": ours(R)}, args.repeats)
        optima = _optima(X, Y)
        peer = _peer("LinearSVC", linear_svc(X.astype(np.float64), Y, C, optima), n_labels, args)
        _verdict(f"{name}: LinearSVC / R = I", peer / times["R = I"], at_least=2)
        _verdict(f"{name}: dense R / R = I", times["dense R"] / times["R = I"], at_most=3)


def mlrl(args: argparse.Namespace) -> None:
    """Time MLRL on a matrix of the size of the RCV1 subsets after feature selection."""
    n, n_labels = _scaled(args, 5_400, 101)
    data = _dense_documents(n, 944, n_labels, args.seed)
    worked = time.process_time()
    seconds, model = _fit_mlrl(data, args.threads)
    worked = time.process_time() - worked
    print(f"linear, {n:,} x 944, L = {n_labels}, lam = {model.lam:g}", end=": ")
    print(f"{model.n_iter_} rounds, gap {model.duality_gap_:.1e}, {worked:.1f} s of the processor")
    _verdict("seconds (the paper: about 1,150)", seconds, at_most=15)


def lsa_mml(args: argparse.Namespace) -> None:
    """Time LSA-MML at the size of the paper's largest set."""
    n = max(1_000, round(20_000 * args.scale))
    data = views.seen(n, args.seed)
    spent, worked, model = views.seconds(data, args.threads)
    widths = "/".join(map(str, model.view_widths_))
    print(f"{n:,} rows, half of them labelled, views of {widths}, L = {len(model.classes_)}", end=", ")
    print(f"{model.n_components_} components, {model.n_iter_} iterations, {worked:.1f} s of the processor")
    _verdict("seconds", spent, at_most=60)


def prml(args: argparse.Namespace) -> None:
    """Time PrML at the sizes of its paper's sets."""
    for name, spent in privileged.fits(args).items():
        _verdict(f"{name}: seconds", spent.clock, at_most=60)
    privileged.scaling(args)
    _verdict("eurlex-sized: seconds", privileged.large(args).clock, at_most=120)


def scaling(args: argparse.Namespace) -> None:
    """Print how the time grows with examples, labels and features, the other two at half of their size."""
    sizes = {
        "MLRL, linear": (_mlrl_seconds, {"n": 5_400, "L": 101, "d": 944}),
        "M3L, RBF, R = I": (_m3l_seconds, {"n": 10_000, "L": 85, "d": 252}),
    }
    for name, (seconds, full) in sizes.items():
        for axis in full:
            for share in (0.125, 0.25, 0.5, 1.0):
                size = {key: max(4, round((share if key == axis else 0.5) * value)) for key, value in full.items()}
                size["n"] = max(100, round(size["n"] * args.scale))
                spent = seconds(size, args)
                print(f"{name:18} n = {size['n']:6,}  L = {size['L']:4}  d = {size['d']:4}  {spent:8.2f} s", flush=True)


def large(args: argparse.Namespace) -> None:
    """Time linear M3L on sparse data of the size of the whole RCV1, in a separate process for its peak memory."""
    command = [sys.executable, "-m", "benchmarks.batch.sections", "--scale", str(args.scale)]
    subprocess.run([*command, "--threads", str(args.threads), "--seed", str(args.seed)], check=True)


def solve_large(args: argparse.Namespace) -> None:
    n = max(1_000, round(781_265 * args.scale))
    start = time.perf_counter()
    X, Y = documents(n, 47_236, 103, args.seed)
    print(
        f"{n:,} x 47,236, {X.nnz / n:.1f} values a row, L = 103, float32; made in {time.perf_counter() - start:.0f} s"
    )
    before = _peak_gb()

    def progress(step: Any) -> None:
        print(f"  pass {step.iteration:2}: {step.seconds:7.1f} s, gap {step.gap:.1e}", flush=True)

    start = time.perf_counter()
    solve_linear_dual(X, Y, np.eye(103), C, bias_feature=1.0, tol=LARGE_GAP, n_threads=args.threads, progress=progress)
    print(f"to a gap of {LARGE_GAP:g}: {time.perf_counter() - start:.1f} s")
    print(f"peak of memory {_peak_gb():.1f} GB ({before:.1f} GB while the data was made)")
    _verdict("GB", _peak_gb(), at_most=24)


def _scaled(args: argparse.Namespace, n: int, n_labels: int) -> tuple[int, int]:
    labels = n_labels if args.scale >= 0.5 else max(8, round(2 * args.scale * n_labels))
    return max(200, round(n * args.scale)), labels


def _warm_up() -> None:
    """Compile the functions, or load them from the cache."""
    for dtype in (np.float32, np.float64):
        X, Y = documents(600, 300, 8)
        for S in (np.eye(8), covariance(8)):
            for equality in (False, True):
                solve_kernel_dual((X @ X.T).toarray().astype(dtype), Y, S, C, equality=equality)
                solve_linear_dual(X.astype(dtype), Y, S, C, equality=equality, bias_feature=1.0)
    _fit_mlrl(_dense_documents(200, 50, 8, 0), 1)


def _race(solvers: dict[str, Solve], repeats: int) -> dict[str, float]:
    """Return the median seconds of solvers that take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in solvers}
    results: dict[str, DualResult] = {}
    for _ in range(repeats):
        for name, solve in solvers.items():
            start = time.perf_counter()
            results[name] = solve()
            seconds[name].append(time.perf_counter() - start)
    for name, result in results.items():
        note = "" if result.converged else "  NOT CONVERGED"
        spent = statistics.median(seconds[name])
        print(f"{name:45} {spent:9.2f} s   gap {result.gap:.1e}, {result.n_iter} passes{note}", flush=True)
    return {name: statistics.median(spent) for name, spent in seconds.items()}


def _peer(name: str, fit: Fit, n_labels: int, args: argparse.Namespace, few: int = 0) -> float:
    """Tune a peer on some labels, time it on all or a few, and return its seconds for all."""
    labels = _spread(n_labels, few or args.peer_labels or n_labels)
    loosest = tuned(fit, _spread(n_labels, min(TUNED_LABELS, len(labels))), GAP)
    for tol in (tol for tol in TOLERANCES if tol <= loosest):  # the tuning labels were too few
        runs = [fit_all(fit, labels, tol, args.threads)]
        if runs[0].gap <= GAP:
            break
    # Fits of one label at a time take long, so only short ones are repeated.
    while len(runs) < args.repeats and runs[0].seconds < LONG_SECONDS:
        runs.append(fit_all(fit, labels, tol, args.threads))
    seconds = statistics.median(run.seconds for run in runs) * n_labels / len(labels)
    note = f", extrapolated from {len(labels)} labels" if len(labels) < n_labels else ""
    print(f"{name:45} {seconds:9.2f} s   gap {runs[0].gap:.1e}, tol = {tol:g}, {len(runs)} run(s){note}", flush=True)
    return seconds


def _spread(n_labels: int, number: int) -> list[int]:
    """Return this number of labels, evenly spread over all."""
    return [int(label) for label in np.linspace(0, n_labels - 1, min(number, n_labels))]


def _optima(X: Any, Y: Any) -> Any:
    """Return a close lower bound of the optimum of each label: the dual objectives at a much smaller gap."""
    result = solve_linear_dual(X, Y, np.eye(Y.shape[1]), C, bias_feature=1.0, tol=GAP / 100, dtype=np.float64)
    squares = (result.Z**2).sum(axis=0) + result.bias**2
    return result.alpha.sum(axis=0) - squares / 2


def _dense_documents(n: int, d: int, n_labels: int, seed: int) -> Labelled:
    X, Y = documents(n, d, n_labels, seed)
    return Labelled(X.toarray(), Y)


def _fit_mlrl(data: Labelled, n_threads: int) -> tuple[float, MLRL]:
    model = MLRL(lam=MLRL_LAM / len(data.Y), n_threads=n_threads, optimise="none", scaling="none")
    start = time.perf_counter()
    model.fit(data.X, (data.Y > 0).astype(int))
    return time.perf_counter() - start, model


def _mlrl_seconds(size: dict[str, int], args: argparse.Namespace) -> float:
    return _fit_mlrl(_dense_documents(size["n"], size["d"], size["L"], args.seed), args.threads)[0]


def _m3l_seconds(size: dict[str, int], args: argparse.Namespace) -> float:
    X, Y = attributes(size["n"], size["d"], size["L"], args.seed)
    start = time.perf_counter()
    K = gram(Kernel("rbf", gamma=scale_gamma(X)), X)
    solve_kernel_dual(K, Y, np.eye(size["L"]), C, tol=GAP, n_threads=args.threads)
    return time.perf_counter() - start


def _peak_gb() -> float:
    """Return the peak memory of this process. (The value of getrusage includes the parent process.)"""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _verdict(what: str, value: float, at_least: float | None = None, at_most: float | None = None) -> None:
    """Print a ratio or a size next to its target."""
    print(f"-> {what:50} {value:8.2f}   {verdict(value, at_least, at_most)}", flush=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="The large problem alone.")
    add_arguments(arguments)
    solve_large(arguments.parse_args())
