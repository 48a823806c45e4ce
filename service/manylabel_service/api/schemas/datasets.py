"""Responses about datasets."""

from pydantic import Field

from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.datasets.records import DatasetMeta


class Dataset(DatasetMeta):
    """Dataset. The last five fields are present only with `details=true`."""

    label_names: list[str] = Field(default_factory=list)
    """Names of the labels, in the order of their columns."""
    label_counts: list[int] = Field(default_factory=list)
    """For each label, the number of rows for which it is relevant."""
    unlabelled: int = 0
    """Number of rows without known labels."""
    missing: dict[str, int] = Field(default_factory=dict)
    """For each view, the number of rows that lack it; empty if every row has all views."""
    label_details: dict[str, dict[str, str]] = Field(default_factory=dict)
    """`title`, `description` and `uri` of labels, as uploaded; empty if labels have none."""


class DatasetList(ResponseModel):
    """All datasets, by name."""

    datasets: list[DatasetMeta]
    damaged: list[str] = Field(default_factory=list)
    """Names of datasets that cannot be read; present only if there are any."""
