"""Answers about data sets."""

from pydantic import Field

from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.datasets.records import DatasetMeta


class Dataset(DatasetMeta):
    """A data set. The last five fields are there only with `details=true`."""

    label_names: list[str] = Field(default_factory=list)
    """The labels have these names, in the order of their columns."""
    label_counts: list[int] = Field(default_factory=list)
    """For each label, the number of rows for which it is relevant."""
    unlabelled: int = 0
    """Number of rows whose labels are not known."""
    missing: dict[str, int] = Field(default_factory=dict)
    """For each view, the number of rows that lack it; empty if every row has all views."""
    label_details: dict[str, dict[str, str]] = Field(default_factory=dict)
    """`title`, `description` and `uri` of labels, as they were uploaded; only if labels have some."""


class DatasetList(ResponseModel):
    """All data sets, by name."""

    datasets: list[DatasetMeta]
    damaged: list[str] = Field(default_factory=list)
    """Names of data sets that cannot be read; only there if there are any."""
