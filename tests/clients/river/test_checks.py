"""river's own checks of each estimator."""

import csv
import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import checks, datasets, stream
from tests.support.cases import for_each

from manylabel_clients import Client, river
from manylabel_clients.river import FALT, RemoteModel
from manylabel_core import online

ESTIMATORS = [getattr(river, name) for name in online.__all__]


@pytest.fixture(scope="module")
def music(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Write a seeded file with the format and size of river's Music dataset, which is then not downloaded."""
    home = tmp_path_factory.mktemp("river_data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIVER_DATA", str(home))
        data = datasets.Music()
        data.path.parent.mkdir()
        write_music(data)
        assert data.is_downloaded
        yield


def write_music(data: datasets.Music) -> None:
    layout: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "iter_csv", lambda path, **options: layout.update(options))
        data._iter()
    labels = layout["target"]
    features = {name: kind for name, kind in layout["converters"].items() if name not in labels}
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (data.n_samples, len(features)))
    Y = X @ rng.normal(size=(len(features), len(labels))) > 0.5
    kinds = features.values()
    rows = [
        [f"{100 * v:.0f}" if kind is int else f"{v:.4f}" for v, kind in zip(x, kinds, strict=True)]
        + [str(int(relevant)) for relevant in y]
        for x, y in zip(X, Y, strict=True)
    ]
    # river checks the size of a file only: zeros after the first number make up the difference.
    missing_bytes = data.size - len(as_csv([[*features, *labels], *rows]))
    for i, row in enumerate(rows):
        row[0] += "0" * (missing_bytes * (i + 1) // len(rows) - missing_bytes * i // len(rows))
    data.path.write_text(as_csv([[*features, *labels], *rows]), newline="")


def as_csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


NAMES = [check.__name__ for check in checks.yield_checks(FALT())]

pytestmark = [
    pytest.mark.usefixtures("music"),
    # river closes the file of a dataset only when it has been read to its end, which a check of 50 rows does not.
    pytest.mark.filterwarnings("ignore:unclosed file .*music.csv:ResourceWarning"),
]


def run_check(model: Any, name: str) -> None:
    assert model._unit_test_skips() == set()
    # A check holds an iterator of the data, so each run needs a new one.
    (check,) = [check for check in checks.yield_checks(model) if check.__name__ == name]
    random.seed(0)  # the checks shuffle
    check(model)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@for_each("check", NAMES)
def test_in_process(estimator: type[FALT], check: str) -> None:
    run_check(estimator(), check)


@pytest.mark.parametrize("check", [pytest.param(check, id=f"RemoteModel:{check}") for check in NAMES])
def test_on_a_server(client: Client, name: str, check: str) -> None:
    """They pass, although all clones are handles of one model."""
    client.create_model(name)
    run_check(RemoteModel(client.base_url, name), check)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_check_is_missing(estimator: type[FALT]) -> None:
    found = [check.__name__ for check in checks.yield_checks(estimator())]
    assert found == NAMES
    assert len(set(NAMES)) == len(NAMES) >= 24
    assert {"check_pickling", "check_emerging_features", "check_bounded_memory_growth"} <= set(NAMES)


def test_a_download_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the seeded file, which has the expected size, river would download the dataset."""
    monkeypatch.setenv("RIVER_DATA", str(tmp_path))
    assert not datasets.Music().is_downloaded
