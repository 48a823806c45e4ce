"""`python -m benchmarks peers` on generated data, with the packages of a developer."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.peers import child, compare
from benchmarks.peers.contenders import Scored, varying
from benchmarks.peers.outside import processes
from benchmarks.peers.selection import choose_and_measure
from benchmarks.peers.tasks import Problem, Task, load_task, taken
from benchmarks.peers.theirs import machines

Command = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small set in the format of the public ones."""
    write_set(tmp_path / "emotions.npz", 150)
    return tmp_path


def write_set(path: Path, n_samples: int) -> None:
    """Write a set with two views, of whose rows three fifths are for training."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 6)).astype(np.float32)
    Y = (X[:, :3] + 0.3 * rng.normal(size=(n_samples, 3)) > 0.4).astype(np.int8)
    order = rng.permutation(n_samples)
    halves = {"train_idx": order[: n_samples * 3 // 5], "test_idx": order[n_samples * 3 // 5 :]}
    np.savez(path, X=X, Y=Y, view_id=np.arange(6) // 3, view_names=np.array(["rhythm", "timbre"]), **halves)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    # A process has one fork server. It preloads the server, because other tests need it.
    monkeypatch.setattr(child, "PRELOADED", ["tests.support.loaded_server"])

    def run(*words: str) -> str:
        parser = argparse.ArgumentParser()
        compare.add_arguments(parser)
        compare.run(parser.parse_args(words))
        return capsys.readouterr().out

    return run


def test_a_run_is_continued_and_printed(folder: Path, command: Command) -> None:
    raw = folder / "raw.jsonl"
    given = ["--data", str(folder), "--sets", "emotions", "--raw", str(raw), "--seconds", "120"]
    command(*given, "--only", "M3L, linear")
    printed = command(*given, "--only", "M3L, linear", "OneVsRest, LinearSVC", "BOOMER")
    lines = [json.loads(line) for line in raw.read_text().splitlines()]
    assert [line["contender"] for line in lines] == ["M3L, linear", "OneVsRest, LinearSVC", "BOOMER"]
    assert [line["ended"] for line in lines] == ["in good order"] * 2 + ["not run: needs --boomer"]
    assert lines[0]["measured"]["micro_f1"]["micro_f1"] > 0.8
    assert "emotions: 90 + 60 rows, 6 features (dense), 3 labels" in printed
    assert "in one of the two: " in printed
    assert f"commits: {lines[0]['commit'][:8]}" in printed
    # Its own row, and once for each metric in which it is best.
    assert command("--from", str(raw)).count("OneVsRest, LinearSVC") == 3


def test_settings_and_cuts_are_chosen_without_the_test_half(folder: Path) -> None:
    """A setting that scores by the labels of the test half is not chosen: its out-of-fold scores are noise."""
    task = load_task(folder, "emotions")

    def run(problem: Problem, setting: dict[str, bool]) -> Scored:
        rng = np.random.default_rng(1)
        if not setting["cheats"]:
            return Scored(problem.other[:, :3].astype(float), 0.0, 0.0)
        of_test = len(problem.other) == len(task.truth)
        return Scored(task.truth.astype(float) if of_test else rng.normal(size=(len(problem.other), 3)), 0.0, 0.0)

    found = choose_and_measure(task, [{"cheats": True}, {"cheats": False}], run, 60.0)
    assert found["measured"]["micro_f1"]["setting"] == {"cheats": False}
    assert found["measured"]["macro_f1"]["setting"] == {"cheats": False}
    assert found["measured"]["default"]["setting"] == {"cheats": True}
    assert 0.8 < found["measured"]["micro_f1"]["micro_f1"] < 1.0


def test_a_search_stops_when_its_time_is_over(folder: Path) -> None:
    def run(problem: Problem, setting: dict[str, int]) -> Scored:
        return Scored(problem.other[:, :3].astype(float), 0.0, 0.0)

    found = choose_and_measure(load_task(folder, "emotions"), [{"at": at} for at in range(5)], run, 0.0)
    assert (len(found["trials"]), found["left_out"]) == (1, 4)


def test_constant_labels_score_outside_of_all_others() -> None:
    rng = np.random.default_rng(0)
    Y = np.column_stack([np.zeros(9), np.ones(9), rng.permutation(9) < 4]).astype(np.int8)

    def run(problem: Problem, setting: dict[str, int]) -> Scored:
        assert problem.Y.shape == (9, 1)
        return Scored(rng.normal(size=(4, 1)), 0.0, 0.0)

    scores = varying(run)(Problem(np.zeros((9, 1)), Y, np.zeros((4, 1)), {}), {}).scores
    assert scores.shape == (4, 3)
    assert scores[:, 0].max() < scores[:, 2].min() <= scores[:, 2].max() < scores[:, 1].min()


def test_rows_of_a_sparse_matrix_have_32_bit_indices() -> None:
    wide = sp.csr_array(np.eye(4))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    part = taken(wide, np.array([2, 0]))
    assert (part.indices.dtype, part.indptr.dtype) == (np.int32, np.int32)
    assert part.toarray().tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]


def test_machines_distinguish_more_than_127_labels() -> None:
    """OneVsRestClassifier takes labels of int8 for others where there are more than 127."""
    Y = np.tile(np.eye(130, dtype=np.int8), (3, 1))
    scores = machines(Problem(Y.astype(float), Y, Y, {}), {"C": 1.0})(np.eye(130))
    assert (scores.argmax(axis=1) == np.arange(130)).all()


def test_arff_has_labels_before_features(tmp_path: Path) -> None:
    X, Y = np.array([[0.0, 2.5]]), np.array([[0, 1]], dtype=np.int8)
    for rows, line in ((X, "0,1,0.0,2.5"), (sp.csr_array(X), "{1 1,3 2.5}")):
        learnt, other = processes.write_arffs(tmp_path, Problem(rows, Y, rows, {}))
        assert learnt.read_text().splitlines()[-1] == line
        assert learnt.read_text().startswith("@relation 'task: -C 2'\n@attribute l0 {0,1}\n")
        assert other.read_text().splitlines()[-1] == line.replace("1 1,", "").replace("0,1", "0,0")  # labels are hidden


def test_views_are_columns_side_by_side(folder: Path) -> None:
    task: Task = load_task(folder, "emotions")
    assert {name: list(columns) for name, columns in task.problem.views.items()} == {
        "rhythm": [0, 1, 2],
        "timbre": [3, 4, 5],
    }
