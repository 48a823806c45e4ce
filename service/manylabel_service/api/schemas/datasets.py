"""Answers about data sets."""

from pydantic import Field

from manylabel_service.api.schemas.base import Answer
from manylabel_service.datasets.records import DatasetRecord


class Dataset(DatasetRecord):
    """A data set. The last three only with `details=true`."""

    label_names: list[str] = Field(default_factory=list)
    """Of its labels, in the order of their columns."""
    label_counts: list[int] = Field(default_factory=list)
    """Rows that each label is relevant for."""
    unlabelled: int = 0
    """Rows whose labels are not known."""


class DatasetList(Answer):
    """All data sets, by name."""

    datasets: list[DatasetRecord]
