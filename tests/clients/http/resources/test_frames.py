"""Data frames of pandas as examples."""

import json

import numpy as np
import pytest

from manylabel_clients.http.resources.examples import encode_example, rows_of

pd = pytest.importorskip("pandas", reason="only the extra dev has it")
pytestmark = pytest.mark.usefixtures("dev_extra")

FRAME = pd.DataFrame({
    "age": pd.array([42, None], dtype="Int64"),
    "size": [np.nan, 1.5],
    "colour": pd.Categorical(["red", None]),
    "urgent": pd.array([None, True], dtype="boolean"),
    "seen": pd.to_datetime(["2024-02-29", None]).year,
})  # fmt: skip


def test_rows_of_a_data_frame_are_records_without_missing_cells() -> None:
    records = [{"age": 42, "colour": "red", "seen": 2024.0}, {"size": 1.5, "urgent": True}]
    assert [json.loads(encode_example(row))["x"] for row in rows_of(FRAME)] == records
    assert json.loads(encode_example(FRAME.iloc[[0]])) == {"x": records[0]}
    assert json.loads(encode_example(FRAME.iloc[1])) == {"x": records[1]}
    assert list(rows_of(pd.DataFrame([[1.5, 2.5]]))) == [{"0": 1.5, "1": 2.5}]


def test_a_data_frame_of_several_rows_is_no_example() -> None:
    with pytest.raises(TypeError, match=r"^/x must be one row of a data frame, not 2"):
        encode_example(FRAME)
    with pytest.raises(ValueError, match="two columns have the name 'a'"):
        list(rows_of(pd.DataFrame([[1, 2]], columns=["a", "a"])))


def test_a_series_is_a_part_of_the_truth() -> None:
    for series, expected in (
        (pd.Series({"rock": 1, "jazz": 0}), {"rock": True, "jazz": False}),
        (pd.Series({"rock": True, "jazz": None}), {"rock": True}),
    ):
        assert json.loads(encode_example([1.0], series)) == {"x": [1.0], "y": expected}
