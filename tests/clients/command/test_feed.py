"""`manylabel feed` and `evaluate` against a real server."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manylabel_clients import Client, ConnectionFailed, Model, StreamSummary
from manylabel_clients.command.data.checkpoints import DigestedRows, FeedCheckpoint
from manylabel_clients.http.responses import ModelStatus

Command = Callable[..., Any]
SCRIPT = Path(sys.executable).with_name("manylabel")


def write_rows(path: Path, n: int, seed: int = 0) -> Path:
    """Write a libsvm file whose labels mostly follow from its features."""
    chance = random.Random(seed)
    lines = []
    for _ in range(n):
        on = sorted(chance.sample(range(1, 9), 3))
        labels = [str(f) for f in on if f <= 4 and chance.random() < 0.9]
        lines.append(f"{','.join(labels)} {' '.join(f'{f}:1' for f in on)}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_feed_learns_every_row_and_shows_measures(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    client.create_model(name)
    file = write_rows(tmp_path / "rows.svm", 200)
    done = manylabel("feed", name, str(file)).checked()
    assert "200 rows fed" in done.out
    assert "micro-F1" in done.out
    assert "200/200" in done.err.replace(" ", "")
    again = manylabel("feed", name, str(file), "--complete", "--json")
    result = json.loads(again.out)
    assert (result["examples"], result["updates"]) == (200, 400)
    assert again.err == ""
    assert client.model(name).status().updates == 400


def test_feed_reads_every_format(manylabel: Command, client: Client, name: str, tmp_path: Path) -> None:
    client.create_model(name)
    table = tmp_path / "rows.csv"
    table.write_text("f1,f2,rock,jazz\n1,0,1,0\n0,1,0,1\n")
    lines = tmp_path / "rows.ndjson"
    lines.write_text('{"x": {"f1": 1}, "y": ["rock"]}\n{"x": {"f2": 1}, "y": ["jazz"]}\n')
    arff = tmp_path / "rows.arff"
    arff.write_text(
        "@relation r\n@attribute f1 numeric\n@attribute f2 numeric\n@attribute rock {0,1}\n@attribute jazz {0,1}\n"
        "@data\n1,0,1,0\n0,1,0,1\n"
    )
    npz = tmp_path / "rows.npz"
    np.savez(npz, X=np.eye(2), Y=np.eye(2, dtype=np.int8), label_names=np.array(["rock", "jazz"]))
    assert "the label attributes are unknown" in manylabel("feed", name, str(arff)).err
    for labels in ("-2", "rock,jazz"):
        assert manylabel("feed", name, str(arff), "--labels", labels).status == 0
    assert manylabel("feed", name, str(table), "--labels", "2").status == 0
    for file in (npz, lines):
        assert manylabel("feed", name, str(file)).status == 0
    status = client.model(name).status()
    assert (status.updates, status.labels) == (10, 2)
    assert "does not apply to this file format" in manylabel("feed", name, str(npz), "--labels", "a").err
    assert "unknown extension" in manylabel("feed", name, str(Path(__file__))).err


def test_a_feed_stopped_by_an_invalid_line_is_resumed(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    model = client.create_model(name)
    file = write_rows(tmp_path / "rows.svm", 100)
    good = file.read_text().splitlines()
    file.write_text("\n".join([*good[:70], "1 2:oops", *good[71:]]) + "\n")
    feed = ("feed", name, str(file), "--labels", "1,2,3,4")
    stopped = manylabel(*feed, "--batch-size", "16")
    assert stopped.status == 1
    assert "line 71" in stopped.err
    assert "64 rows are learnt; continue with --resume" in stopped.err
    assert model.status().updates == 64
    file.write_text("\n".join(good) + "\n")
    assert manylabel(*feed, "--resume", "--batch-size", "50").status == 0
    assert model.status().updates == 100
    assert "0 rows fed" in manylabel(*feed, "--resume").out
    file.write_text(file.read_text() + good[0] + "\n")
    assert "1 rows fed" in manylabel(*feed, "--resume").out
    assert model.status().updates == 101


def test_resume_refuses_another_file_and_another_model(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    client.create_model(name)
    file = write_rows(tmp_path / "rows.svm", 100)
    assert "was started here" in manylabel("feed", name, str(file), "--resume").err
    assert manylabel("feed", name, str(file)).status == 0
    write_rows(file, 100, seed=1)
    assert "not begin with the rows that were learnt" in manylabel("feed", name, str(file), "--resume").err
    write_rows(file, 50)
    assert "not begin with the rows that were learnt" in manylabel("feed", name, str(file), "--resume").err
    write_rows(file, 100)
    client.model(name).delete()
    client.create_model(name)
    assert "is not the model that was fed" in manylabel("feed", name, str(file), "--resume").err
    assert client.model(name).status().updates == 0


def _heed_interrupts() -> None:
    """Restore the default, because a shell lets programs in the background, perhaps these tests, ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT], ids=lambda by: by.name)
def test_a_killed_feed_is_resumed_exactly(
    manylabel: Command, server: Any, client: Client, name: str, tmp_path: Path, by: signal.Signals
) -> None:
    model = client.create_model(name)
    file = write_rows(tmp_path / "rows.svm", 2_400)
    environment = {**os.environ, "MANYLABEL_URL": server.url, "XDG_STATE_HOME": str(tmp_path / "state")}
    command = [SCRIPT, "feed", name, str(file), "--batch-size", "2", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, preexec_fn=_heed_interrupts, **pipes) as process:
        while model.status().updates < 100:
            assert process.poll() is None
        process.send_signal(by)
        _, err = process.communicate()
    assert process.returncode == (-signal.SIGKILL if by == signal.SIGKILL else 130), err
    assert b"Traceback" not in err
    reached = model.status().updates
    assert 100 <= reached < 2_400
    done = manylabel("feed", name, str(file), "--resume", "--json").checked()
    assert model.status().updates == 2_400
    assert json.loads(done.out)["next_offset"] == 2_400


def test_a_first_batch_whose_response_is_lost_is_not_learnt_twice(
    manylabel: Command, client: Client, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = client.create_model(name)
    file = write_rows(tmp_path / "rows.svm", 10)

    def learn_but_fail(self: Model, *arguments: Any, **options: Any) -> Iterator[StreamSummary]:
        assert len(list(learn(self, *arguments, **options))) == 1
        raise ConnectionFailed("the answer is lost")

    with monkeypatch.context() as patch:
        learn = Model.learn
        patch.setattr(Model, "learn", learn_but_fail)
        assert manylabel("feed", name, str(file)).status == 3
    assert model.status().updates == 10
    assert manylabel("feed", name, str(file), "--resume").status == 0
    assert model.status().updates == 10


def test_evaluate_shows_the_measures_of_a_model(manylabel: Command, client: Client, name: str) -> None:
    model = client.create_model(name, window=10)
    model.update_many([({"a": 1}, ["b"])] * 20)
    shown = manylabel("evaluate", name)
    assert shown.status == 0
    assert "last 10" in shown.out
    measures = model.metrics()
    assert f"{measures.cumulative.micro_f1:.4f}" in shown.out
    answer = json.loads(manylabel("evaluate", name, "--json").out)
    assert answer["cumulative"]["micro_f1"] == measures.cumulative.micro_f1
    assert answer["window"]["examples"] == 10
    assert answer["window"]["baseline"]["micro_f1"] == 1, "one label, always"
    assert shown.out.count("baseline") == 2


def test_evaluate_recommends_character_ngrams_for_unseen_words(manylabel: Command, client: Client, name: str) -> None:
    few, many = ([(f"a b c new{n // 20 if same else n}", ["x"]) for n in range(1_300)] for same in (True, False))
    for model, rows, share in ((f"few-{name[-40:]}", few, False), (f"many-{name[-40:]}", many, True)):
        client.create_model(model, algorithm="falt", text={"min_length": 1}).update_many(rows)
        status = client.model(model).status()
        assert isinstance(status, ModelStatus)
        assert status.unseen_words == (1 / 4 if share else 15 / 1_200)
        for shown in (manylabel("evaluate", model), manylabel("models", "show", model)):
            assert shown.status == 0, shown.err
            assert ('"chars": 5' in shown.out) == share
        assert json.loads(manylabel("evaluate", model, "--json").out)


def test_evaluate_shows_the_history_of_the_measures(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    model = client.create_model(name, window=10, params={"drift": "adwin"})
    assert manylabel("evaluate", name, "--history").status == 0
    model.update_many([({"a": 1}, ["b"])] * 99)
    shown = manylabel("evaluate", name, "--history").checked()
    rows = [
        line.split() for line in shown.out.splitlines() if line.strip()[:1].isdigit()
    ]  # the first is unknown before
    assert (len(rows), rows[0][0], rows[-1]) == (16, "1", ["99", *[f"{196 / 197:.4f}"] * 2, "1.0000", "1.0000"])
    answer = json.loads(manylabel("evaluate", name, "--history", "--json").out)
    assert answer["examples"] == list(range(1, 100))
    assert answer["cumulative"]["micro_f1"][-1] == model.metrics().cumulative.micro_f1
    file = tmp_path / "rows.csv"
    file.touch()
    assert manylabel("evaluate", name, str(file), "--history").status == 2


def test_evaluate_shows_the_reliability_of_probabilities(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    model = client.create_model(name)
    shown = manylabel("evaluate", name, "--reliability")
    assert (shown.status, shown.out.split()[-4:]) == (0, ["-", "Brier", "score", "-"]), shown.err
    model.update_many([({"a": 1}, ["b"])] * 50 + [({"c": 1}, ["d"])] * 50)
    due = model.reliability()
    shown = manylabel("evaluate", name, "--reliability")
    rows = [row for row in map(str.split, shown.out.splitlines()) if row[1:2] == ["to"]]
    assert rows[0][:3] == ["0.00", "to", "0.05"]
    assert [row[-1] for row in rows] == [f"{each.count:,.0f}" for each in due.bins if each.count]
    assert f"{due.expected_calibration_error:.4f}" in shown.out
    answer = json.loads(manylabel("evaluate", name, "--reliability", "--json").out)
    assert (answer["brier_score"], answer["bins"][1]["from"]) == (due.brier_score, 0.05)
    answer = json.loads(manylabel("evaluate", name, "--reliability", "--label", "d", "--json").out)
    assert answer["brier_score"] == model.reliability("d").brier_score != due.brier_score
    assert manylabel("evaluate", name, "--label", "d").status == 2
    file = tmp_path / "rows.csv"
    file.touch()
    assert manylabel("evaluate", name, str(file), "--reliability").status == 2
    assert manylabel("evaluate", name, "--history", "--reliability").status == 2


def test_evaluate_a_file_measures_without_learning(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    from manylabel_core import metrics

    model = client.create_model(name, scaling="unit")
    train, held_out = write_rows(tmp_path / "train.svm", 300), write_rows(tmp_path / "test.svm", 101, seed=5)
    assert manylabel("feed", name, str(train)).status == 0
    model.update({"1": 1.0}, {"only-the-model-knows": True})
    held_out.write_text(held_out.read_text() + "only-the-file-knows 1:1\n")
    before = model.status()
    done = manylabel("evaluate", name, str(held_out), "--json", "--batch-size", "7").checked()
    measures = json.loads(done.out)
    assert model.status() == before

    columns = ["1", "2", "3", "4", "only-the-file-knows"]
    lines = [line.split(" ", 1) for line in held_out.read_text().splitlines()]
    xs = [{f.split(":")[0]: 1.0 for f in features.split()} for _, features in lines]
    Y = np.array([[c in labels.split(",") for c in columns] for labels, _ in lines], dtype=int)
    P = np.array([[c in p.labels for c in columns] for p in model.predict_many(xs)], dtype=int)
    assert measures["examples"] == 102
    for measure in ("micro_f1", "macro_f1", "f1", "precision", "recall", "hamming_loss", "subset_accuracy"):
        assert measures[measure] == pytest.approx(getattr(metrics, measure)(Y, P)), measure
    assert 0.5 < measures["micro_f1"] < 1
    table = manylabel("evaluate", name, str(held_out)).out
    assert table.split()[0] == "metric", table
    assert f"{measures['micro_f1']:.4f}" in table
    assert "test.svm" in table


def test_the_digest_is_that_of_the_values() -> None:
    long = np.arange(5_000, dtype=np.float32)
    rows: list[Any] = [({"a": 1.5}, ["p"], 1.0), {"b": [2, 3]}, long.tolist()]
    others: list[Any] = [({"a": np.float64(1.5)}, ["p"], np.float32(1.0)), {"b": np.array([2, 3])}, long]

    def digest(rows: list[Any]) -> str:
        digested = DigestedRows(rows, FeedCheckpoint("feed", True))
        assert len(list(digested)) == len(rows)
        return digested.digest

    assert digest(rows) == digest(others)
    changed = long.copy()
    changed[2_500] = 0
    assert digest([long]) != digest([changed])
