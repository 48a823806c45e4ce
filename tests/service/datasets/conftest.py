"""Settings, and stores of datasets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.lanes import in_rest
from tests.support.limits import settings_of

from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.settings import Settings


@pytest.fixture
def settings_with(tmp_path: Path) -> Callable[..., Settings]:
    """Settings whose data directory is the test's own."""

    def make(**settings: Any) -> Settings:
        return settings_of(data_dir=tmp_path / "data", **settings)

    return make


@pytest.fixture
@in_rest  # it forks readers of uploads
def catalogue(settings_with: Callable[..., Settings]) -> Callable[..., DatasetStore]:
    """Make catalogues: ``catalogue(store, max_datasets=2)``."""
    return lambda store, **settings: DatasetStore(store, settings_with(**settings))
