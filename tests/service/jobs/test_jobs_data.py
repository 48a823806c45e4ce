"""The rows that are learnt from and the rows that are evaluated."""

import numpy as np
import pytest
from tests.service.jobs.conftest import request_of

from manylabel_core.datasets import Dataset
from manylabel_service.jobs.training.data import load
from manylabel_service.jobs.training.request import FitRequest, Part

ALL = Part(file="data", split=None)


def numbered(n: int, first: int = 0, **others) -> Dataset:
    """A dataset whose rows can be told apart."""
    X = np.arange(first, first + n, dtype=np.float32)[:, None]
    Y = others.get("labelled", np.ones(n, bool)).astype(np.int8)[:, None]
    return Dataset.of(X, Y, ("a",), **others)


def request(**changes) -> FitRequest:
    return request_of(**{"rows": ALL, **changes})


def rows(data: Dataset | None) -> list[int]:
    return [] if data is None else data.X[:, 0].astype(int).tolist()


def test_rows_of_splits_and_rows_without_labels(tmp_path):
    labelled = np.array([True, False, True, True, False, True])
    splits = {"train": np.array([0, 1, 2, 3]), "test": np.array([4, 5])}
    (tmp_path / "data").write_bytes(numbered(6, labelled=labelled, splits=splits).to_bytes())
    (tmp_path / "unlabelled").write_bytes(numbered(2, first=50).to_bytes())
    chosen = request(
        rows=Part(file="data", split="train"),
        held=Part(file="data", split="test"),
        unlabelled=Part(file="unlabelled", split=None),
    )
    learnt, unlabelled, held = load(chosen, tmp_path)
    assert (rows(learnt), rows(unlabelled), rows(held)) == ([0, 2, 3], [1, 50, 51], [5])
    assert not unlabelled.labelled.any(), "their labels are not to be learnt from, though some have them"
    learnt, unlabelled, held = load(request(held=0.5), tmp_path)
    assert sorted(rows(learnt) + rows(held)) == [0, 2, 3, 5]
    assert rows(unlabelled) == [1, 4]


def test_data_without_labelled_rows_are_refused(tmp_path):
    (tmp_path / "data").write_bytes(numbered(2, labelled=np.array([False, False])).to_bytes())
    with pytest.raises(ValueError, match="nothing to learn: the data have 0 labelled rows"):
        load(request(), tmp_path)
