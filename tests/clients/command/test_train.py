"""`manylabel train` makes the model of the estimator from any labelled file, without a server."""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manylabel_clients.command.output.progress import FitBar
from manylabel_core import batch, metrics
from manylabel_core.datasets import read_dataset
from manylabel_core.metrics.baseline import frequent_labels
from manylabel_core.metrics.measures import MEASURES

Run = Callable[..., Any]
NAMES = ("rock", "jazz")


@pytest.fixture(scope="module")
def songs() -> tuple[np.ndarray, np.ndarray]:
    """60 rows, 4 features with few digits, 2 labels."""
    rng = np.random.default_rng(7)
    X = rng.integers(-9, 10, size=(60, 4)) / 4
    return X.astype(np.float32), (X @ rng.normal(size=(4, 2)) > 0).astype(int)


@pytest.fixture(scope="module")
def files(songs: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same rows in every format."""
    directory = tmp_path_factory.mktemp("songs")
    X, Y = songs
    rows = [(x.tolist(), y.tolist()) for x, y in zip(X, Y, strict=True)]
    attributes = [f"@attribute f{i} numeric" for i in range(4)]
    labels = [f"@attribute {name} {{0,1}}" for name in NAMES]
    relevant = [[name for name, one in zip(NAMES, y, strict=True) if one] for _, y in rows]
    texts = {
        "csv": [",".join(["f0", "f1", "f2", "f3", *NAMES]), *(_line(x, y) for x, y in rows)],
        "mulan.arff": ["@relation s", *attributes, *labels, "@data", *(_line(x, y) for x, y in rows)],
        "ndjson": [json.dumps({"x": x, "y": y}) for (x, _), y in zip(rows, relevant, strict=True)],
    }  # fmt: skip
    paths = {name: directory / (name if "." in name else f"songs.{name}") for name in texts}
    for name, lines in texts.items():
        paths[name].write_text("\n".join(lines) + "\n")
    labels_xml = "".join(f'<label name="{name}"></label>' for name in NAMES)
    (directory / "mulan.xml").write_text(f'<labels xmlns="http://mulan.sourceforge.net/labels">{labels_xml}</labels>')
    paths["npz"] = directory / "songs.npz"
    np.savez(paths["npz"], X=X, Y=Y, train_idx=np.arange(40), test_idx=np.arange(40, 60))
    return paths


def _line(*parts: list[Any]) -> str:
    return ",".join(str(value) for part in parts for value in part)


def answered(done: Any) -> dict[str, Any]:
    assert done.status == 0, done.err
    document: dict[str, Any] = json.loads(done.out)
    return document


def test_a_file_gives_the_model_of_the_estimator(
    files: dict[str, Path], songs: Any, command: Run, tmp_path: Path
) -> None:
    out = tmp_path / "model.safetensors"
    options = ("--labels", "2", "--param", "C=0.5", "--threads", "1", "--out", str(out), "--json")
    answered(command("train", str(files["csv"]), *options))
    model = batch.M3L.from_bytes(out.read_bytes())
    X, Y = songs
    direct = batch.M3L(C=0.5, scaling="auto").fit(X, Y)
    assert tuple(model.label_names_) == NAMES
    assert np.array_equal(model.decision_function(X), direct.decision_function(X))


def test_mulan_files_share_the_xml_beside_them(files: dict[str, Path], command: Run, tmp_path: Path) -> None:
    for name in ("songs-train.arff", "songs-test.arff"):
        (tmp_path / name).write_bytes(files["mulan.arff"].read_bytes())
    train, test = str(tmp_path / "songs-train.arff"), str(tmp_path / "songs-test.arff")
    assert "the label attributes are unknown" in command("train", train, "--test", test).err, (
        "nothing says which attributes are labels"
    )
    (tmp_path / "songs.xml").write_bytes(files["mulan.arff"].with_suffix(".xml").read_bytes())
    assert answered(command("train", train, "--test", test, "--json"))["labels"] == 2


def test_the_split_in_the_file_is_learnt_and_measured(files: dict[str, Path], songs: Any, command: Run) -> None:
    found = answered(command("train", str(files["npz"]), "--threads", "1", "--json"))
    X, Y = songs
    scores = batch.M3L(scaling="auto").fit(X[:40], Y[:40]).decision_function(X[40:])
    assert found["rows"] == 40
    assert found["measures"]["micro_f1"] == metrics.micro_f1(Y[40:], scores > 0)
    assert found["measures"]["ranking_loss"] == metrics.ranking_loss(Y[40:], scores)
    always = np.tile(frequent_labels(Y[:40]), (20, 1))
    assert found["baseline"]["ranking_loss"] == metrics.ranking_loss(Y[40:], always)
    assert found["baseline"].keys() == found["measures"].keys()


def test_weighted_rows_are_learnt_and_measured_with_their_weights(
    files: dict[str, Path], songs: Any, command: Run, tmp_path: Path
) -> None:
    X, Y = songs
    weights = np.resize([0.1, 1.0, 8.0], 60)
    header, *lines = files["csv"].read_text().splitlines()
    path = tmp_path / "weighted.csv"
    path.write_text("\n".join([f"w,{header}", *(f"{w},{line}" for w, line in zip(weights, lines, strict=True))]))
    options = ["--labels", "2", "--weight", "w", "--threads", "1", "--json"]
    found = answered(command("train", str(path), *options, "--test", str(path)))
    scores = batch.M3L(scaling="auto").fit(X, Y, sample_weight=weights).decision_function(X)
    assert found["measures"] == {name: MEASURES[name](Y, scores, weights) for name in found["measures"]}
    always = np.tile(frequent_labels(Y, weights), (60, 1))
    assert found["baseline"]["micro_f1"] == metrics.micro_f1(Y, always > 0, weights)


def test_a_trainer_without_weights_refuses_weighted_rows(command: Run, tmp_path: Path) -> None:
    path = tmp_path / "views.ndjson"
    views = {"x": {"views": {"a": [1.0, 2.0], "b": [3.0]}}, "y": ["u"]}
    path.write_text("\n".join(json.dumps({**views, "weight": 1 + row % 2}) for row in range(20)))
    assert (
        "lsa_mml accepts no row weights, but the file has weights"
        in command("train", str(path), "--trainer", "lsa_mml").err
    )


def test_the_seed_decides_which_rows_are_held_out(files: dict[str, Path], command: Run) -> None:
    runs = [command("train", str(files["ndjson"]), "--holdout", "0.25", "--seed", s, "--json") for s in ("1", "1", "2")]
    first, again, other = map(answered, runs)
    assert first["rows"] == other["rows"] == 45
    assert first == again
    assert first["measures"] != other["measures"]


def test_only_labelled_rows_are_held_out(command: Run, tmp_path: Path) -> None:
    path = tmp_path / "some.ndjson"
    labels = [["rock"], ["jazz"]] * 10 + [None] * 20
    path.write_text("\n".join(json.dumps({"x": [row, row % 2], "y": y}) for row, y in enumerate(labels)))
    done = command("train", str(path), "--holdout", "0.25").checked()
    assert "35 rows learnt" in done.out
    assert "5 held-out rows" in done.out


def test_a_test_file_may_have_other_columns_in_another_order(
    files: dict[str, Path], songs: Any, command: Run, tmp_path: Path
) -> None:
    X, Y = songs
    turned = tmp_path / "turned.csv"
    rows = np.column_stack([np.full(60, 9.0), X[:, ::-1], Y[:, ::-1]])
    header = ",".join(["unknown", "f3", "f2", "f1", "f0", "jazz", "rock"])
    turned.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows.tolist())]))
    found = answered(
        command("train", str(files["csv"]), "--labels", "2", "--test", str(turned), "--threads", "1", "--json")
    )
    model = batch.M3L(scaling="auto").fit(X, Y)
    assert found["measures"]["hamming_loss"] == metrics.hamming_loss(Y, model.predict(X))


@pytest.mark.parametrize("trainer", ["m3l", "lsa_mml"])
def test_rows_have_views_and_some_have_no_labels(trainer: str, songs: Any, command: Run, tmp_path: Path) -> None:
    """A third of the rows for LSA-MML also lacks a view."""
    X, Y = songs
    path, out = tmp_path / "views.ndjson", tmp_path / "model.safetensors"
    with path.open("w") as file:
        for row, (x, y) in enumerate(zip(X, Y, strict=True)):
            views = {"sound": x[:2].tolist(), "text": x[2:].tolist()}
            if trainer == "lsa_mml" and row % 3 == 0:
                del views["text"]
            relevant = [name for name, one in zip(NAMES, y, strict=True) if one]
            file.write(json.dumps({"x": {"views": views}, "y": relevant if row < 50 else None}) + "\n")
    done = command("train", str(path), "--trainer", trainer, "--threads", "1", "--out", str(out)).checked()
    assert "60 rows learnt" in done.out
    data = read_dataset(path, "ndjson")
    if trainer == "m3l":
        learnt: Any = batch.M3L.from_bytes(out.read_bytes())
        expected: Any = batch.M3L(scaling="auto").fit(X[:50], data.Y[:50])
        assert np.array_equal(learnt.decision_function(X), expected.decision_function(X))
    else:
        learnt = batch.LSAMML.from_bytes(out.read_bytes())
        expected = batch.LSAMML(scaling="auto").fit(data.views, data.Y, data.labelled, data.missing)
        assert np.array_equal(learnt.view_shares_, expected.view_shares_)
        assert learnt.view_shares_[1] < 1
        scores = expected.decision_function(data.views, data.missing)
        np.testing.assert_allclose(learnt.decision_function(data.views, data.missing), scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--param", "C=-1"], "C must be a finite number above 0, not -1"),
        (["--param", 'kernel="cubic"'], "kernel must be .*cubic"),
        (["--trainer", "lsa_mml"], "lsa_mml needs a file with several views"),
        (["--labels", "2"], "JSON lines have their labels in one field: specify its name"),
        (["--zero-based"], "an option does not apply to this file format"),
        (["--test", "TEST"], "does not match: the dataset has none of the labels"),
        (["--test", "DAMAGED"], "damaged.ndjson, line 1"),
    ],
)
def test_a_failure_is_reported_in_one_line(
    options: list[str], message: str, files: dict[str, Path], command: Run, tmp_path: Path
) -> None:
    other = tmp_path / "other.ndjson"
    other.write_text('{"x": [1, 2, 3, 4], "y": ["polka"]}\n')
    out = tmp_path / "model"
    damaged = tmp_path / "damaged.ndjson"
    damaged.write_text("{")
    arguments = [{"TEST": str(other), "DAMAGED": str(damaged)}.get(o, o) for o in options]
    done = command("train", str(files["ndjson"]), *arguments, "--out", str(out))
    assert (done.status, out.exists()) == (1, False)
    assert re.search(message, done.err), done.err
    assert done.err.count("\n") == 1, "one line, no traceback"


def test_a_model_is_private_and_no_other_file_is_touched(files: dict[str, Path], command: Run, tmp_path: Path) -> None:
    out, beside = tmp_path / "model", tmp_path / "model.new"
    beside.write_text("precious")
    before = os.umask(0)
    done = command("train", str(files["ndjson"]), "--threads", "1", "--out", str(out))
    os.umask(before)
    assert done.status == 0, done.err
    assert beside.read_text() == "precious"
    assert sorted(tmp_path.glob("[m.]*")) == [out, beside]
    assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trainer", "svm"], "Invalid value for --trainer: must be one of m3l, mlrl, .*, not 'svm'"),
        (["--param", "c=1"], "Invalid value for --param: m3l has no parameter 'c', only C, R, kernel"),
        (["--param", "random_state=1"], "has no parameter 'random_state'"),
        (
            ["--holdout", "20"],
            "Invalid value for --holdout: holdout must be a share above 0 and below 1, such as 0.2, not 20",
        ),
        (["--holdout", "0.0001"], "Invalid value for --holdout"),
        (["--holdout", "0.1", "--test", __file__], "use --test or --holdout, not both"),
    ],
)
def test_a_wrong_value_of_an_option_is_wrong_usage(
    options: list[str], message: str, files: dict[str, Path], command: Run, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    done = command("train", str(files["ndjson"]), *options, "--out", str(out))
    assert (done.status, out.exists()) == (2, False)
    assert re.search(message, " ".join(done.err.split())), done.err


SLOW = ("--param", "C=1e6", "--param", "kernel=rbf", "--param", "tol=1e-9")


def test_ctrl_c_ends_the_fit_and_saves_the_model_so_far(
    files: dict[str, Path], command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model"
    before = signal.getsignal(signal.SIGINT)
    interrupt_at(monkeypatch, {2})
    done = command("train", str(files["ndjson"]), *SLOW, "--out", str(out))
    assert (done.status, "stopped early" in done.err) == (130, True)
    assert batch.M3L.from_bytes(out.read_bytes()).duality_gap_ > 1e-9
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_saves_nothing(
    files: dict[str, Path], command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
    try:
        interrupt_at(monkeypatch, {2}, times=2)
        assert command("train", str(files["ndjson"]), *SLOW, "--out", str(tmp_path / "model")).status == 130
        assert list(tmp_path.iterdir()) == []
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, inherited)


@pytest.mark.parametrize("option", ["--test", None])
def test_a_model_is_never_written_over_an_input_file(
    files: dict[str, Path], command: Run, tmp_path: Path, option: str | None
) -> None:
    copy = tmp_path / "songs.ndjson"
    copy.write_bytes(files["ndjson"].read_bytes())
    learnt = files["ndjson"] if option else copy
    refused = command("train", str(learnt), *([option, str(copy)] if option else []), "--out", str(copy))
    assert refused.status == 2
    assert "is an input file" in refused.err
    assert copy.read_bytes() == files["ndjson"].read_bytes()


def test_an_output_that_cannot_be_written_is_refused_before_training(
    files: dict[str, Path], command: Run, tmp_path: Path
) -> None:
    refused = command("train", str(files["ndjson"]), "--trainer", "no such", "--out", str(tmp_path / "none" / "model"))
    assert refused.status == 2
    assert "cannot write a file to" in refused.err


def interrupt_at(monkeypatch: pytest.MonkeyPatch, iterations: set[int], times: int = 1) -> None:
    update = FitBar.update

    def interrupted(self: FitBar, iteration: int, gap: float | None, seconds: float) -> None:
        update(self, iteration, gap, seconds)
        if iteration in iterations:
            iterations.discard(iteration)
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(FitBar, "update", interrupted)
