"""Tables in `update` and `predict`, and errors about their columns."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manylabel_clients import Client

Command = Callable[..., Any]
ROWS = [(f"t{i}", i % 3, i % 5, ["rock", "loud"] if i % 3 else ["calm"]) for i in range(60)]
FLAGS = ("--tags", "tags", "--separator", ";", "--ignore", "id, when")


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    path = tmp_path / "songs.csv"
    lines = [f'{id},2026,{a},{b},"{"; ".join(tags)}"' for id, a, b, tags in ROWS]
    path.write_text("\n".join(["id,when,tempo,loudness,tags", *lines]) + "\n")
    return path


def test_a_table_is_learnt_and_predicted(
    manylabel: Command, client: Client, name: str, tagged: Path, tmp_path: Path
) -> None:
    model = client.create_model(name)
    manylabel("update", name, str(tagged), *FLAGS, "--json").checked()
    status = model.status()
    assert (status.updates, status.features, status.labels) == (60, 2, 3)
    again = manylabel("predict", name, str(tagged), *FLAGS, "--json")
    plain = tmp_path / "new.csv"
    plain.write_text("tempo,loudness\n0,1\n2,1\n")
    new = manylabel("predict", name, str(plain), "--json")
    assert (again.status, new.status) == (0, 0), again.err + new.err
    scores = [json.loads(line)["scores"] for line in again.out.splitlines()]
    assert scores == [one.scores for one in model.predict_many([{"tempo": a, "loudness": b} for _, a, b, _ in ROWS])]
    wanted = [one.scores for one in model.predict_many([{"tempo": 0, "loudness": 1}, {"tempo": 2, "loudness": 1}])]
    assert [json.loads(line)["scores"] for line in new.out.splitlines()] == wanted


def test_a_table_that_cannot_be_learnt_is_refused(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    client.create_model(name)
    table, lines = tmp_path / "songs.csv", tmp_path / "songs.ndjson"
    table.write_text("tempo,tags\n1,rock\n2,\n")
    lines.write_text('{"x": {"tempo": 1}, "y": ["rock"]}\n')
    for command, words in (
        (("update", name, str(table)), "--labels must name the label columns of a CSV file"),
        (("update", name, str(table), "--tags", "tags"), "line 3: its labels are unknown"),
        (
            ("update", name, str(table), "--labels", "tags"),
            "label 'tags' is 'rock': expected 0 or 1; if",
        ),
        (("update", name, str(lines), "--tags", "tags"), "line 1: its labels are unknown"),
        (("update", name, '{"x": {"tempo": 1}, "y": []}', "--tags", "tags"), "are for files that end with .csv, .tsv"),
    ):
        done = manylabel(*command)
        assert (done.status, words in done.err) == (1, True), (command, done)
    assert client.model(name).status().updates == 0


def test_wrong_columns_are_refused(manylabel: Command, client: Client, name: str, tagged: Path) -> None:
    for wrong, words in (
        ((), "--labels must name the label columns of a CSV file"),
        (("--tags", "nothing"), "column of tags 'nothing' is not among the columns"),
        (("--tags", "tags", "--ignore", "x"), "ignored column 'x' is not among the columns"),
        (("--tags", "tags", "--ignore", "tags"), "a column with labels cannot be ignored"),
        (("--tags", "tags", "--labels", "1"), "cannot be combined with label columns"),
    ):
        for command in (("train", str(tagged)), ("feed", name, str(tagged))):
            client.create_model(name, exist_ok=True)
            done = manylabel(*command, *wrong)
            assert (done.status, words in done.err) == (1, True), (command, done)
