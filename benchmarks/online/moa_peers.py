"""MOA's multi-label learners on the same streams, as far as they get within a time limit.

They run in a separate Java process, from the `moa.jar` in the wheel of capymoa: `moa/Prequential.java` writes the
prediction of each example before it is learnt. Seconds are CPU time of predicting and learning alone.

A label for which MOA gives no vote is not predicted. The published evaluator of AESAKNNS counts it as predicted
(`getVote(j, 1) >= getVote(j, 0)`), and MLSAkNN of the same authors uses the true labels of an example while predicting
it, through a shared mask. Their results are therefore not comparable and not quoted.
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.checks import is_sparse

SOURCE = Path(__file__).with_name("moa") / "Prequential.java"
MOA = {
    "MOA majority label set": "moa.classifiers.multilabel.MajorityLabelset",
    "MOA multi-label Hoeffding tree": "moa.classifiers.multilabel.MultilabelHoeffdingTree",
    "MOA MEKA, binary relevance": "moa.classifiers.multilabel.MEKAClassifier",
    "MOA AMRules, multi-label": "moa.classifiers.rules.multilabel.AMRulesMultiLabelClassifier",
    "MOA OzaBagAdwin of Hoeffding trees": (
        "moa.classifiers.multilabel.meta.OzaBagAdwinML -l multilabel.MultilabelHoeffdingTree"
    ),
}
"""Learners by name, in the syntax of MOA's command line, with their defaults."""


def predict_and_learn(
    learner: str, X: Any, Y: NDArray[np.int8], limit: float, jar: Path
) -> tuple[NDArray[np.int8], float]:
    """Return predictions for the examples reached within `limit` seconds, and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.arff"
        write_arff(path, X, Y)
        command = ["java", "-cp", str(jar), str(SOURCE), str(path), str(Y.shape[1]), learner, str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.split()
    if done.returncode or not lines:
        raise RuntimeError(done.stderr.strip().partition("\n")[0])
    rows = [[cell == "1" for cell in line] for line in lines[:-1]]
    return np.array(rows, dtype=np.int8).reshape(-1, Y.shape[1]), float(lines[-1])


def write_arff(path: Path, X: Any, Y: NDArray[np.int8]) -> None:
    """Write labels, then dense features, as MOA expects them."""
    names = [f"@attribute l{label} {{0,1}}" for label in range(Y.shape[1])]
    names += [f"@attribute f{feature} numeric" for feature in range(X.shape[1])]
    dense = X.toarray() if is_sparse(X) else np.asarray(X)
    rows = (",".join(map(repr, [*y, *x])) for y, x in zip(Y.tolist(), dense.astype(float).tolist(), strict=True))
    head = [f"@relation 'stream: -C {Y.shape[1]}'", *names, "@data"]
    path.write_text("\n".join([*head, *rows, ""]))
