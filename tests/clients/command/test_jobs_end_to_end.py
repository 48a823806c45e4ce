"""Trained over HTTP, by real jobs of a real server, and predicting as the estimator does that is used directly."""

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
TRAINERS = {
    "m3l": (batch.M3L, {"C": 0.5}),
    "mlrl": (batch.MLRL, {"lam": 1e-3, "max_iter": 5}),
    "lsa_mml": (batch.LSAMML, {"n_components": 3, "max_iter": 20}),
}
"""Jobs submitted together at the beginning: with thresholds, with relations of labels, and from views."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The first genes of yeast, and a seeded set of two views of which some rows have no labels."""
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
    """A job for each trainer."""
    learnt = {"dataset": "yeast", "split": "train"}
    data = {name: {"dataset": "views"} if name == "lsa_mml" else learnt for name in TRAINERS}
    return {
        name: client.train(name, data[name], f"by-{name}", params=params, promote="always")
        for name, (_, params) in TRAINERS.items()
    }


@pytest.fixture(scope="module")
def yeast(files: dict[str, Path]) -> Dataset:
    return read_dataset(files["yeast"], "csv", label_columns=14)


def dense_rows(data: Dataset) -> list[Any]:
    """The rows as a client sends them: float32 as JSON writes them, in views where there are several."""
    if len(data.views) == 1:
        return [list(map(float, row)) for row in np.asarray(data.X)]
    return dense_rows_of_views(data)


def dense_rows_of_views(data: Dataset) -> list[Any]:
    return [{"views": {name: view[row].tolist() for name, view in data.views.items()}} for row in range(data.n_rows)]


def scores_of(predictions: Sequence[Prediction], names: Sequence[str]) -> Any:
    return np.array([[one.scores[name] for name in names] for one in predictions])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # they have few iterations
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_trained_model_scores_as_the_estimator_itself(
    trainer: str, client: Client, jobs: dict[str, Job], yeast: Dataset, files: dict[str, Path]
) -> None:
    done = jobs[trainer].wait(WAIT_SECONDS)
    assert (done.result.model, done.result.version) == (f"by-{trainer}", 1)
    kind, params = TRAINERS[trainer]
    with threadpool_limits(1):  # as a job has it: the last digits of BLAS depend on it
        if trainer == "lsa_mml":
            data = asked = read_dataset(files["views"], "ndjson")
            direct = kind(**params, scaling="auto").fit(data.views, data.Y, data.labelled)
            scores = direct.decision_function(data.views)
        else:
            data, asked = yeast.take(np.arange(N_TRAIN)), yeast.take(np.arange(N_TRAIN, N_ROWS))
            direct = kind(**params, scaling="auto").fit(data.X, data.Y)
            scores = direct.decision_function(asked.X)
    model = client.model(f"by-{trainer}")
    predictions = model.predict_many(dense_rows(asked))
    assert np.array_equal(scores_of(predictions, data.label_names), scores)
    assert [set(one.labels) for one in predictions] == [
        {name for name, relevant in zip(data.label_names, row, strict=True) if relevant} for row in scores > 0
    ]
    # Alone it is a sum in another order: the last digits may differ.
    assert model.predict(dense_rows(asked)[0]).scores == pytest.approx(predictions[0].scores, rel=1e-9, abs=1e-12)
    downloaded = kind.from_bytes(model.download_version(1))
    assert np.array_equal(downloaded.decision_function(asked.views if trainer == "lsa_mml" else asked.X), scores)


def test_rows_lack_views_from_the_file_to_the_prediction(
    client: Client, files: dict[str, Path], tmp_path: Path
) -> None:
    """Labelled rows have sound, rows asked about and measured on have text, and unlabelled ones have both."""
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
    params = {"n_components": 3, "max_iter": 20}
    job = client.train(
        "lsa_mml", "some-sound", "sounds", params=params, holdout={"dataset": "text-only"}, promote="always"
    )
    result = job.wait(WAIT_SECONDS).result
    with threadpool_limits(1):
        data, asked = read_dataset(learnt, "ndjson"), read_dataset(held, "ndjson")
        direct = batch.LSAMML(**params, scaling="auto").fit(data.views, data.Y, data.labelled, data.missing)
        scores = direct.decision_function(asked.views)
    at = [asked.label_names.index(name) for name in data.label_names]
    truth = asked.Y.toarray()[:, at]
    assert result.held_out["measures"]["micro_f1"] == metrics.micro_f1(truth, (scores > 0).astype(int)) > 0.6
    model = client.model("sounds")
    assert np.array_equal(scores_of(model.predict_many(dense_rows_of_views(asked)), data.label_names), scores)
    one = model.predict({"views": {"text": asked.views["text"][0].tolist()}})
    assert one.scores == pytest.approx(dict(zip(data.label_names, scores[0], strict=True)), rel=1e-9, abs=1e-12)


def test_what_there_is_to_see_of_models(client: Client, jobs: dict[str, Job]) -> None:
    for trainer in ("mlrl", "lsa_mml"):
        jobs[trainer].wait(WAIT_SECONDS)
    seen = client.model("by-mlrl").detail()
    assert np.allclose(np.diag(seen.label_correlation["values"]), 1)
    assert len(seen.convergence["iteration"]) == len(seen.convergence["objective"]) > 1
    assert client.model("by-lsa_mml").detail(1).view_weights.keys() == {"sound", "text"}
    assert {model.name for model in client.models()} >= {f"by-{trainer}" for trainer in ("mlrl", "lsa_mml")}


def test_the_command_draws_them(
    command: Callable[..., Any], client: Client, jobs: dict[str, Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for trainer in ("m3l", "mlrl", "lsa_mml"):
        jobs[trainer].wait(WAIT_SECONDS)
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


def test_a_search_finds_what_is_best_on_its_folds(client: Client) -> None:
    search = {"kind": "grid", "params": {"C": [1e-6, 0.1]}, "folds": 2, "measure": "micro_f1"}
    job = client.train("m3l", {"dataset": "yeast", "split": "train"}, "searched", search=search, key="once")
    events = list(job.events())
    result = job.wait(WAIT_SECONDS).result
    assert events[-1].data["state"] == "succeeded"
    assert result.params["C"] == 0.1
    assert [trial["params"] for trial in result.trials] == [{"C": 1e-6}, {"C": 0.1}]
    assert all(len(trial["scores"]) == 2 for trial in result.trials)
    again = client.train("m3l", {"dataset": "yeast", "split": "train"}, "searched", search=search, key="once")
    assert again.id == job.id
    assert len(client.model("searched").versions()) == 1
