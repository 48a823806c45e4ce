"""Titles, descriptions and URIs of the labels of a dataset."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import IO, Any

from manylabel_core.datasets.limits import BadDataset

MAX_CHARACTERS = {"title": 500, "description": 4_000, "uri": 2_000}
"""Fields of a label, with the maximum number of characters of each."""

MAX_DETAILS_BYTES = 16 * 2**20
"""Maximum size of a JSON file of label details."""

LabelDetails = Mapping[str, Mapping[str, str]]
"""Fields by label; labels without fields, and fields without text, are omitted."""


def read_label_details(source: IO[bytes], label_names: Collection[str]) -> LabelDetails:
    """Return the label details of a JSON file: an object of fields for each label; null means no text."""
    data = source.read(MAX_DETAILS_BYTES + 1)
    if len(data) > MAX_DETAILS_BYTES:
        raise BadDataset(f"label_details must have at most {MAX_DETAILS_BYTES:,} bytes")
    try:
        document = json.loads(data)
        given = {
            label: {field: text for field, text in fields.items() if text is not None}
            for label, fields in document.items()
        }
        return checked_details({label: fields for label, fields in given.items() if fields}, label_names)
    except (ValueError, AttributeError, RecursionError) as error:
        example = '{"cats": {"title": "Cats and kittens"}}'
        raise BadDataset(f"label_details must be a JSON object such as {example}: {error}") from error


def checked_details(details: Any, label_names: Collection[str]) -> LabelDetails:
    """Return label details; raise ValueError if a label or field is unknown or a text is too long."""
    known = frozenset(label_names)
    for label, fields in details.items():
        if label not in known:
            raise ValueError(f"the dataset has no label {label!r}")
        for field, text in fields.items():
            most = MAX_CHARACTERS.get(field)
            if most is None:
                raise ValueError(f"{field!r} of label {label!r} is not one of {', '.join(MAX_CHARACTERS)}")
            if not isinstance(text, str) or not 1 <= len(text) <= most:
                raise ValueError(f"the {field} of label {label!r} must be a text of 1 to {most:,} characters")
            text.encode()  # lone surrogates are not valid text
    found: LabelDetails = details
    return found
