"""Titles, descriptions and URIs of labels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_core import Vocabulary
from manylabel_core.datasets.label_details import MAX_CHARACTERS

MAX_DESCRIBED = 1_000
"""Maximum number of labels that one request describes."""

_LABEL_BYTES = 300
"""Estimated bytes of memory of the details of a label, without their strings."""

Edit = Mapping[str, str | None]
"""New values of some fields of a label; None removes a field."""


class LabelDetails(NamedTuple):
    """Title, description and URI of a label; None for a field that the label does not have."""

    title: str | None = None
    description: str | None = None
    uri: str | None = None

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return _LABEL_BYTES + sum(sys.getsizeof(text) for text in self if text is not None)


NO_DETAILS = LabelDetails()
"""Details of a label that has none."""


class DetailsOfLabels:
    """Details of the labels of a model, by column."""

    def __init__(self) -> None:
        self._details: dict[int, LabelDetails] = {}
        self._nbytes = 0

    def __len__(self) -> int:
        return len(self._details)

    def __getitem__(self, column: int) -> LabelDetails:
        return self._details.get(column, NO_DETAILS)

    def by_column(self) -> Mapping[int, LabelDetails]:
        """Return the details of the labels that have details."""
        return self._details

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return self._nbytes

    def edit(self, column: int, edit: Edit) -> None:
        """Change some fields of the label in a column."""
        before = self._details.get(column)
        after = (before or NO_DETAILS)._replace(**edit)
        self._nbytes -= 0 if before is None else before.nbytes
        if after != NO_DETAILS:
            self._details[column] = after
            self._nbytes += after.nbytes
        elif before is not None:
            del self._details[column]

    def columns_by_uri(self) -> dict[str, int]:
        """Return the columns of labels by URI; if several labels share a URI, the last column."""
        return {of.uri: column for column, of in sorted(self._details.items()) if of.uri is not None}

    @classmethod
    def of(cls, details: Mapping[str, Edit], labels: Vocabulary) -> DetailsOfLabels:
        """Return the details of the known labels among these."""
        found = cls()
        for column, edit in zip(labels.lookup(details), details.values(), strict=True):
            if column >= 0:
                found.edit(column, edit)
        return found

    def to_array(self) -> NDArray[np.uint8]:
        """Return all details as bytes."""
        rows = [(column, *self._details[column]) for column in sorted(self._details)]
        return np.frombuffer(msgpack.packb(rows), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8], n_labels: int) -> DetailsOfLabels:
        """Restore from the output of `to_array`. Raises ValueError."""
        found = cls()
        previous = -1
        try:
            for column, *texts in msgpack.unpackb(packed.tobytes()):
                edit = dict(zip(MAX_CHARACTERS, texts, strict=True))
                check_edit(edit)
                if type(column) is not int or not previous < column < n_labels:
                    raise ValueError("columns of labels must ascend")
                found.edit(previous := column, edit)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise ValueError(f"details: {error}") from error
        return found


def nbytes_of(edits: Iterable[Edit]) -> int:
    """Return the maximum bytes of memory that these edits add."""
    return sum(LabelDetails(**edit).nbytes for edit in edits)


def check_edit(edit: Any) -> None:
    """Raise ValueError unless this is an edit of known fields whose texts are within the length limits."""
    if not isinstance(edit, dict):
        raise ValueError("the details of a label must be an object")
    for field, text in edit.items():
        most = MAX_CHARACTERS.get(field)
        if most is None or not (text is None or (isinstance(text, str) and 1 <= len(text) <= most)):
            raise ValueError(
                f"{field!r} must be null or a text within its limit, and one of {', '.join(MAX_CHARACTERS)}"
            )
