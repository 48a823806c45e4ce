"""Generated streams: the linear ones of `drift`, and those of MOA's multi-label generator, if its jar is available.

MOA's `MetaMultilabelGenerator` draws a label set for each example, and mixes features that a binary generator makes for
positive and negative examples; another seed changes the meaning of the labels.

moa-tree      random trees without drift
moa-rbf       constantly drifting centres
moa-plane     a constantly rotating hyperplane
moa-abrupt    random trees; labels change their meaning after each quarter
"""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.online.drift import drifting

OURS = ("abrupt", "all", "gradual")
LABELS, N = 10, 10_000
"""Numbers of labels and examples of MOA's streams."""
SOURCE = Path(__file__).with_name("moa") / "Generate.java"
META = "moa.streams.generators.multilabel.MetaMultilabelGenerator -c 10"
MOA = {
    "moa-tree": (f"{META} -s (generators.RandomTreeGenerator -o 0 -u 20)",),
    "moa-rbf": (f"{META} -s (generators.RandomRBFGeneratorDrift -s 0.001 -k 50 -a 20)",),
    "moa-plane": (f"{META} -s (generators.HyperplaneGenerator -a 20 -k 10 -t 0.001)",),
    "moa-abrupt": tuple(
        f"{META} -m {seed} -s (generators.RandomTreeGenerator -o 0 -u 20 -r {seed} -i {seed})" for seed in (1, 2, 3, 4)
    ),
}
"""Parts of equal length of each of MOA's streams, by name."""


def generate(name: str, seed: int, moa: Path | None) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """Return features and labels of a stream; `moa` is the jar, which streams of MOA need."""
    if name in OURS:
        stream = drifting(name, seed)
        return stream.X, stream.Y
    if moa is None:
        raise SystemExit(f"--moa must name MOA's jar for the stream {name}")
    rows = np.concatenate([_generate_part(moa, options, N // len(MOA[name])) for options in MOA[name]])
    return rows[:, LABELS:], rows[:, :LABELS].astype(np.int8)


def _generate_part(moa: Path, options: str, n: int) -> NDArray[np.float64]:
    command = ["java", "-cp", str(moa), str(SOURCE), options, str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return np.array([[float(cell) for cell in line.split(",")] for line in done.stdout.splitlines()])
