"""Indices to columns: in order of first appearance, whatever the indices are, in memory that follows what was seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manylabel_core.index_columns import IndexColumns

ROWS = st.lists(st.lists(st.integers(0, 12) | st.integers(0, 2**31 - 2), unique=True, max_size=6).map(sorted))


def _indices(row: list[int]) -> np.ndarray:
    return np.array(row, dtype=np.int32)


@given(ROWS, st.sampled_from([0, 4]), st.booleans())
def test_columns_follow_first_appearance(rows: list[list[int]], n_columns: int, read_only: bool) -> None:
    columns, order = IndexColumns(n_columns), list(range(n_columns))
    for row in rows:
        new = [index for index in row if index not in order]
        indices, values = _indices(row), np.array([index % 3 for index in row], dtype=np.float32)
        indices.flags.writeable = values.flags.writeable = not read_only
        assert columns.unknown(indices).tolist() == new
        due = sorted(((order + new).index(index), value) for index, value in zip(row, values, strict=True))
        for placed in (columns.place(indices, values), columns.place(indices, values, add=True)):
            assert [placed[0].tolist(), placed[1].tolist()] == [[c for c, _ in due], [v for _, v in due]]
            assert (placed[0].dtype, placed[1].dtype) == (np.int32, np.float32)
        order += new
        assert columns.indices.tolist() == order
        assert len(columns) == len(order)
        again = IndexColumns.from_array(columns.to_array())
        assert again.indices.tolist() == order
        assert again.place(_indices(sorted(order)), np.ones(len(order), np.float32))[0].tolist() == [*range(len(order))]


def test_memory_follows_what_was_seen() -> None:
    columns = IndexColumns()
    columns.add(_indices([7, 2**31 - 2]))
    assert columns.nbytes < 200
    plain = IndexColumns(10_000_000)
    assert plain.nbytes == 0
    columns.add(np.arange(100_000, dtype=np.int32) * 20_000)
    assert columns.nbytes < 40 * 100_000


def test_begins_with_recognises_earlier_states() -> None:
    columns = IndexColumns()
    states = [IndexColumns.from_array(columns.to_array())]
    for row in ([0, 1], [2], [7, 9], [3]):
        columns.add(_indices(row))
        states.append(IndexColumns.from_array(columns.to_array()))
    for n, state in enumerate(states):
        assert [state.begins_with(other) for other in states] == [m <= n for m in range(len(states))]
    assert not columns.begins_with(IndexColumns(4))


@pytest.mark.parametrize("indices", [[1, 1], [5, -1], [[1]], [1.0]], ids=str)
def test_invalid_indices_are_refused(indices: list[object]) -> None:
    array = np.array(indices)
    with pytest.raises(ValueError, match="indices"):
        IndexColumns.from_array(array if array.dtype == float else array.astype(np.int32))
