"""The server's OpenAPI description, without a server: ``python -m docs._site.description`` prints it."""

import json
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from manylabel_service.app import create_app
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store

Schema = dict[str, Any]


@cache
def description() -> Schema:
    """Return the description."""
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(data_dir=Path(directory), audit_file="none")
        document: Schema = create_app(settings, open_store(settings)).openapi()
    return document


if __name__ == "__main__":
    json.dump(description(), sys.stdout, indent=1)
