"""Models trained by jobs of a real server: exact predictions from views, and plots."""

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.lazy import lazy
from threadpoolctl import threadpool_limits

from manylabel_clients import Client, Job, Prediction
from manylabel_core import batch, metrics
from manylabel_core.datasets import Dataset, read_dataset

datasets = lazy("river.datasets")

N_ROWS, N_TRAIN = 600, 400
WAIT_SECONDS = 120.0
VIEW_PARAMS = {"n_components": 3, "max_iter": 20}
JOBS = {
    "m3l": ({"dataset": "yeast", "split": "train"}, {"C": 0.5}),
    "mlrl": ({"dataset": "yeast", "split": "train"}, {"lam": 1e-3, "max_iter": 5}),
    "lsa_mml": ({"dataset": "views"}, VIEW_PARAMS),
}
"""Data and parameters by trainer."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The first genes of yeast, and seeded rows of two views, of which some have no labels."""
    directory = tmp_path_factory.mktemp("files")
    lines = gzip.decompress(Path(datasets.Yeast().path).read_bytes()).splitlines(keepends=True)
    (directory / "yeast.csv").write_bytes(b"".join(lines[: N_ROWS + 1]))
    rng = np.random.default_rng(3)
    hidden = rng.normal(size=(120, 3))
    views = {name: hidden @ rng.normal(size=(3, 6)) + 0.3 * rng.normal(size=(120, 6)) for name in ("sound", "text")}
    with (directory / "views.ndjson").open("w") as file:
        for row, y in enumerate(hidden > 0):
            x = {name: view[row].round(3).tolist() for name, view in views.items()}
            labels = [name for name, one in zip(("rock", "jazz", "folk"), y, strict=True) if one]
            file.write(json.dumps({"x": {"views": x}, "y": labels if row < 100 else None}) + "\n")
    return {"yeast": directory / "yeast.csv", "views": directory / "views.ndjson"}


@pytest.fixture(scope="module")
def client(module_server_process: Callable[..., Any], files: dict[str, Path]) -> Iterator[Client]:
    """A client of a server that trains, with both datasets."""
    server = module_server_process("--job-slots", "2").start()
    with Client(server.url) as client:
        client.upload_dataset("yeast", files["yeast"], labels=14, train_rows=N_TRAIN)
        client.upload_dataset("views", files["views"])
        yield client
    server.stop()


@pytest.fixture(scope="module")
def jobs(client: Client) -> dict[str, Job]:
    """A job for each trainer, whose model is named by-TRAINER."""
    return {
        trainer: client.train(trainer, data, f"by-{trainer}", params=params, promote="always")
        for trainer, (data, params) in JOBS.items()
    }


def dense_rows_of_views(data: Dataset) -> list[Any]:
    return [{"views": {name: view[row].tolist() for name, view in data.views.items()}} for row in range(data.n_rows)]


def scores_of(predictions: Sequence[Prediction], names: Sequence[str]) -> Any:
    return np.array([[one.scores[name] for name in names] for one in predictions])


def test_a_model_of_rows_with_missing_views_predicts_as_the_estimator(
    client: Client, files: dict[str, Path], tmp_path: Path
) -> None:
    """Labelled rows have sound, predicted and held-out rows have text, and unlabelled rows have both."""
    rows = [json.loads(line) for line in files["views"].read_text().splitlines()]
    for number, row in enumerate(rows):
        views = row["x"]["views"]
        if number < 60:
            del views["text"]
        elif number < 80:
            del views["sound"]
    learnt, held = tmp_path / "learnt.ndjson", tmp_path / "held.ndjson"
    learnt.write_text("".join(json.dumps(row) + "\n" for row in [*rows[:60], *rows[80:]]))
    held.write_text("".join(json.dumps(row) + "\n" for row in rows[60:80]))
    client.upload_dataset("some-sound", learnt)
    assert client.upload_dataset("text-only", held).views == {"text": 6}
    assert client.dataset("some-sound", details=True).details["missing"] == {"text": 60}
    held_out = {"dataset": "text-only"}
    job = client.train("lsa_mml", "some-sound", "sounds", params=VIEW_PARAMS, holdout=held_out, promote="always")
    result = job.wait(WAIT_SECONDS).result
    with threadpool_limits(1):  # as in a job: the last digits of BLAS depend on the number of threads
        data, asked = read_dataset(learnt, "ndjson"), read_dataset(held, "ndjson")
        direct = batch.LSAMML(**VIEW_PARAMS, scaling="auto").fit(data.views, data.Y, data.labelled, data.missing)
        scores = direct.decision_function(asked.views)
    at = [asked.label_names.index(name) for name in data.label_names]
    truth = asked.Y.toarray()[:, at]
    assert result.held_out["measures"]["micro_f1"] == metrics.micro_f1(truth, (scores > 0).astype(int)) > 0.6
    model = client.model("sounds")
    assert np.array_equal(scores_of(model.predict_many(dense_rows_of_views(asked)), data.label_names), scores)
    downloaded = batch.LSAMML.from_bytes(model.download_version(1))
    assert np.array_equal(downloaded.decision_function(asked.views), scores)
    # A single row is summed in another order: the last digits may differ.
    one = model.predict({"views": {"text": asked.views["text"][0].tolist()}})
    assert one.scores == pytest.approx(dict(zip(data.label_names, scores[0], strict=True)), rel=1e-9, abs=1e-12)


def test_the_command_plots_trained_models(
    command: Callable[..., Any], client: Client, jobs: dict[str, Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in jobs.values():
        job.wait(WAIT_SECONDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MANYLABEL_URL", client.base_url)
    done = command("models", "plot", "by-m3l")
    assert (done.status, done.out) == (0, "label-scores of by-m3l, version 1, drawn in by-m3l-label-scores.png\n")
    assert Path("by-m3l-label-scores.png").read_bytes().startswith(b"\x89PNG")
    for model, kind, out in (
        ("by-mlrl", "label-correlation", "a.svg"),
        ("by-lsa_mml", "view-weights", "b.pdf"),
        ("by-mlrl", "convergence", "c.PNG"),
    ):
        assert command("models", "plot", model, "--kind", kind, "--version", "1", "--out", out).status == 0
        assert Path(out).stat().st_size > 1000
    refused = command("models", "plot", "by-m3l", "--kind", "view-weights", "--out", "none.png")
    assert (refused.status, refused.err) == (
        1, "manylabel: version 1 has no weights of views: m3l learns from one view\n"
    )  # fmt: skip
    assert command("models", "plot", "by-m3l", "--version", "9").status == 1
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'manylabel[plots]'" in command("models", "plot", "by-m3l").err
    assert not Path("none.png").exists()
