"""Metadata of a dataset."""

from typing import Any

from pydantic import ConfigDict

from manylabel_service.documented import Documented
from manylabel_service.online.spec.text import Text
from manylabel_service.storage import StoredModel


class DatasetMeta(Documented):
    """Description of a dataset."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    format: str
    """Format of the uploaded file."""
    rows: int
    features: int
    """Number of features of all views together."""
    labels: int
    cardinality: float
    """Mean number of relevant labels per labelled row."""
    density: float
    """Cardinality divided by the number of labels."""
    views: dict[str, int]
    """Number of features of each view; a single view is called x."""
    splits: dict[str, int]
    """Number of rows of each split."""
    text: Text | None = None
    """Text options of records with all defaults; null if there are only numbers."""
    weighted: bool = False
    """Whether rows have weights; without them each counts once."""
    checksum: str
    """SHA-256 of the uploaded file, as `sha256:` and hexadecimal digits."""
    bytes: int
    """Size in the store in bytes."""
    created: str
    """Creation time (RFC 3339)."""


class DatasetDocument(StoredModel):
    """Document of a dataset; `id` names its blobs and is never reused.

    `deleting` is set while the server checks that no job needs the dataset; other requests treat it as deleted.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    record: DatasetMeta
    deleting: bool = False

    def _omitted(self) -> Any:
        """Return missing weights, so that an older release that shares the store can read the document."""
        return None if self.record.weighted else {"record": {"weighted"}}

    @property
    def data_key(self) -> str:
        """Key of the blob with the output of `Dataset.to_bytes`."""
        return f"{PREFIX}{self.id}/data"

    @property
    def details_key(self) -> str:
        """Key of the blob with the details of the dataset, JSON."""
        return f"{PREFIX}{self.id}/details"


PREFIX = "datasets/"
"""Prefix of the keys of all blobs of datasets."""


def id_of(key: str) -> str:
    """Return the id in the key of a blob."""
    return key.removeprefix(PREFIX).partition("/")[0]


Details = dict[str, Any]
"""{"label_names": [...], "label_counts": [...], "unlabelled": n}: numbers of rows per label, and of rows without known
labels; "missing": {view: n}, if rows lack views; "label_details": {label: {field: text}}, if labels have details; and
"report", how the uploaded file was read.
"""
