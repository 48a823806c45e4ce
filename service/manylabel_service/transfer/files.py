"""The files of an archive: what they are called, and how the meta data of versions are written."""

from typing import Literal

from pydantic import TypeAdapter

from manylabel_service.trained.version import VersionMeta

META = TypeAdapter(VersionMeta)


def state_of(model: str) -> str:
    """Return the file with the state of an online model: a snapshot, as PUT /v1/models/{m} takes it.

    The file of a trained model has the metrics of the predictions that its versions served.
    """
    return f"models/{model}/state.safetensors"


def version_of(model: str, number: int, ending: Literal["safetensors", "json"]) -> str:
    """Return the file with the artifact of a version, or with its meta data."""
    return f"models/{model}/versions/{number}.{ending}"


def rows_of(dataset: str) -> str:
    """Return the file with the rows of a dataset, as `manylabel_core.datasets.Dataset.to_bytes` writes them."""
    return f"datasets/{dataset}/rows.safetensors"


def details_of(dataset: str) -> str:
    """Return the file with the label counts of a dataset."""
    return f"datasets/{dataset}/details.json"
