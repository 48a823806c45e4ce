"""Any log gives the same states with sparse tables of weights as with dense ones."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.service.online.folds import SPECS, Log, append, fold_one_by_one, learn, logs, named, new_model

from manylabel_core.online.models.linear import sparse_table
from manylabel_service.errors import LimitExceeded
from manylabel_service.online.size_limits import check_arrays
from manylabel_service.online.state.controls import Relabel
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.settings import Settings


@given(st.sampled_from(SPECS), logs())
def test_a_log_has_the_same_outcomes_and_states(spec: dict[str, object], log: Log) -> None:
    """Updates, changes of labels, and rollbacks to snapshots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_table, "MIN_SPARSE_BLOCKS", 1)
        expected, states = fold_one_by_one(new_model(**spec), log)
        patch.setattr(sparse_table, "DENSE_BYTES", 40)
        told, sparse_states = fold_one_by_one(new_model(**spec), log)
        assert told == expected
        patch.setattr(sparse_table, "DENSE_BYTES", 2**62)
        for position, state in sparse_states.items():
            assert OnlineModel.from_bytes(state).to_bytes() == states[position]


def test_features_of_a_sparse_table_count_for_the_limit_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_table, "MIN_SPARSE_BLOCKS", 1)
    monkeypatch.setattr(sparse_table, "DENSE_BYTES", 0)
    model = new_model()
    learn(model, (named(a=1, b=2, c=3), ["x"]))
    append(model, Relabel("x", "y"))
    data = model.to_bytes()
    assert OnlineModel.from_bytes(data, lambda arrays: check_arrays(arrays, Settings(max_features=3))).nbytes

    def check(arrays: Mapping[str, NDArray[Any]]) -> None:
        names = {name: array for name, array in arrays.items() if not name.startswith("features")}
        check_arrays(names, Settings(max_features=2))

    with pytest.raises(LimitExceeded, match="features of the snapshot"):
        OnlineModel.from_bytes(data, check)
