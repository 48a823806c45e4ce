"""Files with titles, descriptions and URIs of labels."""

import csv
import json
from pathlib import Path

from manylabel_clients.command.failures import Failure

FIELDS = ("title", "description", "uri")
FILE_HELP = (
    "CSV with the columns name and any of title, description and uri, or JSON: a list of objects with these fields."
)


def read_label_details(file: Path) -> dict[str, dict[str, str | None]]:
    """Return the details of labels in a file; empty cells of a CSV file are omitted."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        rows = json.loads(text) if file.suffix == ".json" else _table(text)
        edits = {row["name"]: {field: row[field] for field in FIELDS if field in row} for row in rows}
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        rule = f"must be CSV or JSON in which each row has a name and any of {', '.join(FIELDS)}"
        raise Failure(f"{file} {rule}: {error!r}") from error
    if not edits or len(edits) < len(rows):
        raise Failure(f"{file} must name at least one label, and must name each label only once")
    return edits


def _table(text: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file, without empty cells."""
    rows = list(csv.DictReader(text.splitlines(keepends=True), strict=True))
    return [{name: cell for name, cell in row.items() if cell} for row in rows]
