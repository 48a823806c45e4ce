"""`manylabel datasets` and `jobs` against a real server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manylabel_clients import Client
from manylabel_clients.command.output.progress import FitBar

Run = Callable[..., Any]
SLOW = ("--param", "C=1e6", "--param", "kernel=rbf", "--param", "tol=1e-9", "--param", "max_iter=1000000")


@pytest.fixture(scope="module")
def songs(server: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of a dataset of noise on the server."""
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.normal(size=(400, 6)).round(3), rng.integers(0, 2, size=(400, 2))])
    path = tmp_path_factory.mktemp("songs") / "songs.csv"
    lines = [",".join(f"{value:g}" for value in row) for row in rows]
    path.write_text("\n".join(["a,b,c,d,e,f,rock,jazz", *lines]))
    with Client(server.url) as client:
        client.upload_dataset("cmd-songs", path, labels=2, train_rows=300)
    return "cmd-songs"


def good(done: Any) -> str:
    assert done.status == 0, done.err
    return str(done.out)


def test_a_dataset_is_added_listed_shown_and_deleted(manylabel: Run, tmp_path: Path) -> None:
    path = tmp_path / "pets.csv"
    path.write_text("legs,cat,bird\n4,1,0\n2,0,1\n")
    assert "2 rows, 1 features, 2 labels" in good(manylabel("datasets", "add", "cmd-pets", str(path), "--labels", "2"))
    assert "cmd-pets" in good(manylabel("datasets"))
    shown = good(manylabel("datasets", "show", "cmd-pets"))
    assert "csv" in shown
    assert "sha256:" in shown
    document = json.loads(good(manylabel("datasets", "show", "cmd-pets", "--json")))
    assert document["details"]["label_names"] == ["cat", "bird"]
    unsaid = manylabel("datasets", "add", "cmd-other", str(tmp_path / "pets.csv"))
    assert (unsaid.status, "name the label columns of the file with --labels" in unsaid.err) == (1, True), unsaid.err
    taken = manylabel("datasets", "add", "cmd-pets", str(path), "--labels", "2")
    assert (taken.status, "dataset_exists" in taken.err) == (1, True)
    assert manylabel("datasets", "delete", "cmd-pets", stdin="n\n").status == 1
    assert "deleted" in good(manylabel("datasets", "delete", "cmd-pets", "--yes"))
    assert manylabel("datasets", "show", "cmd-pets").status == 1


def test_an_arff_is_uploaded_with_its_xml_and_an_invalid_line_is_named(manylabel: Run, tmp_path: Path) -> None:
    arff, xml = tmp_path / "pets.arff", tmp_path / "pets.xml"
    arff.write_text("@relation p\n@attribute cat {0,1}\n@attribute legs numeric\n@data\n1,4\n0,2\n")
    xml.write_text('<labels xmlns="http://mulan.sourceforge.net/labels"><label name="cat"></label></labels>')
    good(manylabel("datasets", "add", "cmd-arff", str(arff), "--labels", str(xml)))
    arff.write_text(arff.read_text() + "x,2\n")
    refused = manylabel("datasets", "add", "cmd-bad", str(arff), "--labels", str(xml))
    assert (refused.status, "line 7" in refused.err) == (1, True)
    assert "cmd-bad" not in good(manylabel("datasets"))


def test_a_job_is_submitted_and_watched_and_its_version_served(manylabel: Run, songs: str) -> None:
    options = ("--dataset", songs, "--split", "train", "--model", "cmd-model", "--trainer", "m3l", "--param", "C=0.5")
    out = good(manylabel("jobs", "submit", *options))
    assert "version 1 of cmd-model, from 300 rows" in out
    assert "held out" in out
    assert "micro-F1" in out
    (job,) = [
        one for one in map(json.loads, good(manylabel("jobs", "--json")).splitlines()) if one["model"] == "cmd-model"
    ]
    assert job["params"]["C"] == 0.5
    assert job["id"] in good(manylabel("jobs", "--state", "succeeded"))
    shown = good(manylabel("jobs", "show", job["id"]))
    assert "succeeded" in shown
    assert f"{songs} (train)" in shown
    assert "begins" in good(manylabel("jobs", "log", job["id"]))
    watched = [json.loads(line) for line in good(manylabel("jobs", "watch", job["id"], "--json")).splitlines()]
    assert watched[-1]["event"] == "state"
    assert "1 (served)" in good(manylabel("models", "versions", "cmd-model"))
    assert "serves version 1" in good(manylabel("models", "promote", "cmd-model", "1"))
    assert "m3l" in good(manylabel("models", "show", "cmd-model"))
    assert "trained (m3l)" in good(manylabel("models"))
    assert manylabel("jobs", "cancel", job["id"]).status == 1


def test_served_predictions_of_a_version_are_measured(manylabel: Run, client: Client, songs: str) -> None:
    options = ("--dataset", songs, "--split", "train", "--model", "cmd-watched", "--param", "C=0.5")
    good(manylabel("jobs", "submit", *options))
    good(manylabel("jobs", "submit", *options, "--promote", "always"))
    model = client.model("cmd-watched")
    features = client.dataset(songs).features
    kept = [model.predict([0.5] * features, keep=True) for _ in range(3)]
    assert "as served" not in good(manylabel("models", "show", "cmd-watched"))
    assert model.label(kept[0].id or "", kept[0].labels).updates == 1
    assert model.label_many([(one.id or "", ["unheard of"]) for one in kept[1:]]).updates == 3
    assert (model.metrics().version, model.metrics(version=2).cumulative.examples) == (2, 3)
    assert model.labels(version=2, sort="name").labels[0].label == "unheard of"
    assert model.metrics(version=1).cumulative.examples == 0
    assert "version 2 as served" in good(manylabel("models", "show", "cmd-watched"))
    assert "unheard of" in good(manylabel("models", "labels", "cmd-watched"))
    assert "unheard of" not in good(manylabel("models", "labels", "cmd-watched", "--version", "1"))


def test_a_version_that_is_not_served_is_told_why_and_promoted(manylabel: Run, songs: str) -> None:
    options = ("--dataset", songs, "--model", "cmd-held")
    out = good(manylabel("jobs", "submit", *options, "--split", "all"))
    assert "it is not served: it was not evaluated; manylabel models promote cmd-held 1" in out
    assert "not measured" in good(manylabel("models", "versions", "cmd-held"))
    good(manylabel("models", "promote", "cmd-held", "1"))
    assert "not measured" in next(line for line in good(manylabel("models")).splitlines() if "cmd-held" in line)
    out = good(manylabel("jobs", "submit", *options, "--param", "scaling=standard"))
    assert "it is not served: it differs from version 1: its scaling is standard, not auto" in out
    refused = manylabel("models", "promote", "cmd-held", "2")
    assert (refused.status, "version_differs" in refused.err) == (1, True)
    promoted = good(manylabel("models", "promote", "cmd-held", "2", "--force"))
    assert ("version 2" in promoted, "version 1" in promoted) == (True, True)
    assert good(manylabel("models", "promote", "cmd-held", "2")).count("version") == 1, "it was served before"
    loose = ("--param", "max_iter=1", "--param", "tol=1e-9", "--param", "scaling=standard")
    out = good(manylabel("jobs", "submit", *options, *loose, "--promote", "always"))
    assert "it is not served" not in out
    versions = good(manylabel("models", "versions", "cmd-held"))
    assert "no, gap" in next(line for line in versions.splitlines() if "3 (served)" in line)
    assert "not converged" in next(line for line in good(manylabel("models")).splitlines() if "cmd-held" in line)
    assert ["converged", "no"] in [line.split() for line in good(manylabel("models", "show", "cmd-held")).splitlines()]


def test_ctrl_c_asks_whether_to_cancel(manylabel: Run, songs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    job = good(manylabel("jobs", "submit", "--dataset", songs, "--model", "cmd-never", *SLOW, "--detach")).strip()
    with monkeypatch.context() as patch:
        patch.setattr(FitBar, "print", interrupt)
        for answer in ("n\n", ""):
            left = manylabel("jobs", "watch", job, stdin=answer)
            assert (left.status, f"manylabel jobs watch {job}" in left.err) == (130, True)
            assert json.loads(good(manylabel("jobs", "show", job, "--json")))["state"] in ("queued", "running")
        left = manylabel("jobs", "watch", job, stdin="y\n")
    assert left.status == 130
    assert f"job {job} is cancelled" in left.err
    assert json.loads(good(manylabel("jobs", "show", job, "--json")))["state"] == "cancelled"
    ended = manylabel("jobs", "watch", job)
    assert (ended.status, "was cancelled" in ended.err) == (1, True)
    assert "queued" in good(manylabel("jobs", "retry", job, "--detach"))
    assert "cancelled" in good(manylabel("jobs", "cancel", job))


def test_options_describe_a_search(manylabel: Run, songs: str) -> None:
    options = ("--dataset", songs, "--model", "cmd-searched", "--detach")
    grid = ("--search", "C=[0.1,1]", "--folds", "2")
    drawn = ("--search", 'C={"low": 0.1, "high": 1}', "--trials", "2", "--metric", "macro_f1")
    default = ("--search", "default")
    found = []
    for given, kind in ((grid, "grid"), (drawn, "random"), (default, "grid")):
        job = good(manylabel("jobs", "submit", *options, *given)).strip()
        search = json.loads(good(manylabel("jobs", "show", job, "--json")))["search"]
        assert search["kind"] == kind
        found.append(search["params"])
        good(manylabel("jobs", "cancel", job))
    assert found[0] == {"C": [0.1, 1]}
    assert len(found[2]["C"]) > 2
    refused = manylabel("jobs", "submit", *options, "--search", "c=[1]")
    assert (refused.status, "/search/params/c" in refused.err) == (1, True)


def test_invalid_jobs_are_refused(manylabel: Run, songs: str) -> None:
    for options, status, message in (
        (("--dataset", songs, "--trainer", "svm"), 1, "must be one of"),
        (("--dataset", songs, "--param", "c=1"), 1, "/params/c is unknown; known fields are"),
        (("--dataset", songs, "--param", "c"), 2, "NAME=VALUE"),
        ((), 2, "give either --dataset or --stream"),
        (("--dataset", songs, "--stream", "tags"), 2, "give either --dataset or --stream"),
    ):
        done = manylabel("jobs", "submit", "--model", "cmd-none", *options)
        assert (done.status, message in done.err) == (status, True), done.err
    assert manylabel("jobs", "show", "nobody").status == 1


def test_trainers_are_listed_with_their_parameters(manylabel: Run) -> None:
    out = good(manylabel("jobs", "trainers"))
    for word in ("m3l", "lsa_mml", "linear, rbf, poly", "number > 0"):
        assert word in out
