"""Compile the functions that trainers need: ``python -m manylabel_service.jobs.training.warmup``.

A worker runs it in the background: the compiled functions are cached on disk for later training processes.
"""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from manylabel_service import processes

NICENESS = 19
N_ROWS = 40


def warm_up() -> None:
    """Run small fits like those of jobs: of each trainer, with kernels, on dense and sparse rows."""
    from manylabel_service.jobs.training.fitting import FitRun
    from manylabel_service.jobs.training.request import DATA

    for request, data in _fits():
        with TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # three iterations are enough to compile
            (Path(name) / DATA).write_bytes(data)
            FitRun(request, Path(name), lambda event, facts: None).run()


def _fits() -> Iterator[tuple[Any, bytes]]:
    """Yield requests for small fits, each with its dataset."""
    from manylabel_core.batch.catalogue import TRAINERS
    from manylabel_service.jobs.spec.trainers import PARAMS, complete
    from manylabel_service.jobs.training.request import DATA, FitRequest, Part

    for name, trainer in TRAINERS.items():
        known = PARAMS[name].model_fields
        short = {"max_iter": 3} if "max_iter" in known else {}
        for kernel in ({}, {"kernel": "rbf"}) if "kernel" in known else ({},):
            for data in _data(trainer.views):
                yield (
                    FitRequest(
                        kind="fit",
                        trainer=name,
                        params=complete(name, {**kernel, **short}),
                        seed=0,
                        rows=Part(file=DATA, split=None),
                        held=0.25,
                        unlabelled=None,
                        folds=2,
                        measure="micro_f1",
                        threads=1,
                        segment_work=1e9,
                        memory_bytes=2**32,
                        niceness=0,
                    ),
                    data,
                )


def _data(views: bool) -> Iterator[bytes]:
    """Yield datasets with dense and sparse rows."""
    import numpy as np
    import scipy.sparse as sp

    from manylabel_core.datasets import Dataset
    from manylabel_core.datasets.dataset import SINGLE

    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6)).astype(np.float32)
    Y = (X[:, :3] + rng.normal(size=(N_ROWS, 3)) > 0).astype(np.int8)
    for rows in (X, sp.csr_array(X * (X > 0))):
        all_views: dict[str, Any] = {"a": rows, "b": X[:, :4]} if views else {SINGLE: rows}
        names: dict[str, Any] = dict.fromkeys(all_views)
        yield Dataset(all_views, sp.csr_array(Y), ("p", "q", "r"), names).to_bytes()


if __name__ == "__main__":
    processes.die_with_parent()
    processes.give_way(NICENESS)
    warm_up()
    sys.exit(0)
