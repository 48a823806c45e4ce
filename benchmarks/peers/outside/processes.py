"""Contenders in Java or in another Python; matrices and scores are exchanged as files.

MEKA is in the `moa.jar` of capymoa's wheel, CLUS (forests of predictive clustering trees) in the package pyclus; both
need Java only. BOOMER and PECOS need other versions than this project, so each runs in a separate virtual environment.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.contenders import Contender, varying
from benchmarks.peers.outside.exchange import read_scores, write_problem
from benchmarks.peers.selection import SEED, Run, Scored, Setting, processor_seconds
from benchmarks.peers.tasks import Problem, Task
from benchmarks.results import ONE_THREAD
from manylabel_core.checks import is_sparse

HERE = Path(__file__).parent
TREES = 300
ECC = (
    "meka.classifiers.multilabel.meta.BaggingML -I 10 -P 100 -S 1 -W meka.classifiers.multilabel.CC -- -S 0"
    " -W weka.classifiers.trees.J48 -- -C 0.25 -M 2"
)
"""Ensemble of 10 chains of J48 trees, each on a bootstrap sample."""
HEAP = "-Xmx5g"
OPENED = [
    f"--add-opens=java.base/java.{part}=ALL-UNNAMED"
    for part in ("util", "lang", "math", "net", "util.regex", "util.concurrent", "util.concurrent.atomic")
]
"""Java options: CLUS copies library objects by reflection, which newer versions of Java forbid."""
MANY_LABELS = 50


def python(interpreter: Path, script: str) -> Run:
    """Run a script of this folder with the Python of another environment."""

    def run(problem: Problem, setting: Setting) -> Scored:
        with tempfile.TemporaryDirectory() as folder:
            given, scores = Path(folder) / "problem.npz", Path(folder) / "scores.npz"
            write_problem(given, problem.X, problem.Y, problem.other)
            _call([str(interpreter), str(HERE / script), str(given), str(scores), json.dumps(setting)])
            return Scored(*read_scores(scores))

    return run


def meka(jar: Path) -> Run:
    def run(problem: Problem, setting: Setting) -> Scored:
        with tempfile.TemporaryDirectory() as folder:
            paths = write_arffs(Path(folder), problem)
            n_labels = str(problem.Y.shape[1])
            java = ["java", HEAP, "-XX:+UseSerialGC", "-cp", str(jar), str(HERE / "Meka.java")]
            lines = _call([*java, *map(str, paths), n_labels, ECC]).splitlines()
        return Scored(np.array([line.split() for line in lines[:-1]], dtype=float), *map(float, lines[-1].split()))

    return run


def clus(jar: Path) -> Run:
    """Run CLUS.

    It reports no separate time of scoring, which is part of the time of training. Sparse rows are passed as dense ones.
    """

    def run(problem: Problem, setting: Setting) -> Scored:
        began, (n_labels, n_features) = processor_seconds(), (problem.Y.shape[1], problem.X.shape[1])
        with tempfile.TemporaryDirectory() as folder:
            train, other = write_arffs(Path(folder), problem._replace(X=_dense(problem.X), other=_dense(problem.other)))
            settings = f"""
                [General]
                RandomSeed = {SEED + 1}
                [Data]
                File = {train}
                TestSet = {other}
                [Attributes]
                Target = 1-{n_labels}
                Clustering = 1-{n_labels}
                Descriptive = {n_labels + 1}-{n_labels + n_features}
                [Ensemble]
                EnsembleMethod = RForest
                Iterations = {TREES}
                SelectRandomSubspaces = SQRT
                [Output]
                WritePredictions = Test
                TrainErrors = No
                WriteModelFile = No
                """
            (Path(folder) / "forest.s").write_text("\n".join(line.strip() for line in settings.splitlines()))
            java = ["java", HEAP, "-XX:+UseSerialGC", *OPENED, "-jar", str(jar), "-forest", "forest.s"]
            _call(java, folder)
            scores = _votes(Path(folder) / "forest.test.pred.arff", n_labels)
        return Scored(scores, processor_seconds() - began, float("nan"))

    return run


def _votes(path: Path, n_labels: int) -> NDArray[np.float64]:
    """Return the votes for 1 of each label, which follow the true and the predicted labels, in either order with the
    votes for 0.
    """
    names, rows = [], []
    with path.open() as lines:
        for line in lines:
            if line.upper().startswith("@ATTRIBUTE"):
                names.append(line.rsplit(None, 1)[0].strip())
            elif line.strip() and not line.startswith("@"):
                rows.append(line.split(",")[2 * n_labels : 4 * n_labels])
    votes = np.array(rows, dtype=float)
    true = np.array([name.endswith("-1") for name in names[2 * n_labels : 4 * n_labels]])
    return votes[:, true]


def write_arffs(folder: Path, problem: Problem) -> tuple[Path, Path]:
    """Write training rows, and rows to score with labels of 0; labels are written before features."""
    n_labels = problem.Y.shape[1]
    names = [f"@attribute l{label} {{0,1}}" for label in range(n_labels)]
    names += [f"@attribute f{feature} numeric" for feature in range(problem.X.shape[1])]
    head = [f"@relation 'task: -C {n_labels}'", *names, "@data"]
    paths = folder / "train.arff", folder / "other.arff"
    unknown = np.zeros((problem.other.shape[0], n_labels), dtype=np.int8)
    for path, X, Y in zip(paths, (problem.X, problem.other), (problem.Y, unknown), strict=True):
        path.write_text("\n".join([*head, *map(_arff_row, Y, _rows(X)), ""]))
    return paths


def _dense(X: Any) -> Any:
    return X.toarray() if is_sparse(X) else X


def _rows(X: Any) -> list[Any]:
    if not is_sparse(X):
        return list(X)
    ends = X.indptr
    return [(X.indices[a:b], X.data[a:b]) for a, b in pairwise(ends)]


def _arff_row(y: NDArray[np.int8], row: Any) -> str:
    if isinstance(row, tuple):
        cells = [f"{label} 1" for label in np.flatnonzero(y).tolist()]
        columns, values = (part.tolist() for part in row)
        cells += [f"{len(y) + at} {value!r}" for at, value in sorted(zip(columns, values, strict=True))]
        return "{" + ",".join(cells) + "}"
    return ",".join(map(repr, [*y.tolist(), *row.tolist()]))


def _call(command: list[str], folder: str | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **ONE_THREAD}
    )
    if done.returncode:
        words = (done.stderr.strip() or "no message").splitlines()
        raise RuntimeError(f"{Path(command[0]).name} ended with {done.returncode}: {words[-1]}")
    return done.stdout


def clus_jar() -> Path | None:
    """Return the jar of pyclus, if it is installed."""
    try:
        path = Path(str(distribution("pyclus").locate_file("clus/clus.jar")))
    except PackageNotFoundError:
        return None
    return path if path.exists() else None


def outside(args: Any) -> tuple[Contender, ...]:
    """Return these contenders; those whose location was not passed to the command name what they need."""
    return (
        _contender("ECC-J48", "MEKA", args.meka, meka, "--meka", _one),
        _contender("RandomForest of PCTs", "pyclus", args.clus or clus_jar(), clus, "pyclus, or --clus", _one),
        _contender("BOOMER", "mlrl-boomer", args.boomer, lambda path: python(path, "boomer.py"), "--boomer", _one),
        _contender(
            "PECOS, XR-Linear", "libpecos", args.pecos, lambda path: python(path, "pecos_linear.py"), "--pecos", _costs
        ),
    )


def _contender(
    name: str, package: str, path: Path | None, make: Callable[[Path], Run], flag: str, grid: Any
) -> Contender:
    def unfit(task: Task) -> str:
        if package == "libpecos" and task.problem.Y.shape[1] < MANY_LABELS:
            return f"for {MANY_LABELS} labels or more"
        return ""

    return Contender(name, package, grid, varying(make(path or Path())), unfit, needs="" if path else flag)


def _one(task: Task) -> list[Setting]:
    return [{}]


def _costs(task: Task) -> list[Setting]:
    return [{"Cp": cost, "Cn": cost} for cost in (1.0, 0.1, 10.0)]
