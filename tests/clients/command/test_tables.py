"""CSV and NDJSON in every command that takes a file, with a column of tags and columns to ignore."""

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


def test_a_column_of_tags_in_every_command(manylabel: Command, client: Client, name: str, tagged: Path) -> None:
    client.create_model(name)
    fed = manylabel("feed", name, str(tagged), *FLAGS, "--json")
    assert fed.status == 0, fed.err
    status = client.model(name).status()
    assert (status.updates, status.features, status.labels) == (60, 2, 3), "what is ignored is no feature"
    assert client.model(name).predict({"tempo": 0, "loudness": 1}).scores.keys() == {"rock", "loud", "calm"}
    measured = manylabel("evaluate", name, str(tagged), *FLAGS, "--json")
    assert measured.status == 0, measured.err
    assert json.loads(measured.out)["examples"] == 60
    trained = manylabel("train", str(tagged), *FLAGS, "--holdout", "0.3", "--json")
    assert trained.status == 0, trained.err
    assert json.loads(trained.out)["labels"] == 3
    added = manylabel("datasets", "add", name, str(tagged), *FLAGS, "--json")
    assert added.status == 0, added.err
    told = json.loads(added.out)
    assert (told["rows"], told["features"], told["labels"]) == (60, 2, 3)
    client.delete_dataset(name)


def test_ndjson_and_plain_csv_are_fed_and_evaluated(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    lines = tmp_path / "songs.ndjson"
    lines.write_text("".join(json.dumps({"x": {"a": a, "b": b}, "y": y}) + "\n" for _, a, b, y in ROWS))
    table = tmp_path / "songs.csv"
    table.write_text(
        "a,b,rock,calm\n" + "".join(f"{a},{b},{int('rock' in y)},{int('calm' in y)}\n" for _, a, b, y in ROWS)
    )
    client.create_model(name)
    assert manylabel("feed", name, str(lines), "--json").status == 0
    assert manylabel("feed", name, str(table), "--labels", "2", "--json").status == 0
    assert client.model(name).status().updates == 120
    assert json.loads(manylabel("evaluate", name, str(lines), "--json").out)["examples"] == 60
    refused = manylabel("feed", name, str(table))
    assert (refused.status, "--labels must say which columns" in refused.err) == (1, True)


def test_wrong_columns_are_told(manylabel: Command, client: Client, name: str, tagged: Path) -> None:
    for wrong, words in (
        (("--tags", "nothing"), "column of tags 'nothing' is not among the columns"),
        (("--tags", "tags", "--ignore", "x"), "ignored column 'x' is not among the columns"),
        (("--tags", "tags", "--ignore", "tags"), "a column with labels cannot be ignored"),
        (("--tags", "tags", "--labels", "1"), "goes without label columns"),
    ):
        for command in (("train", str(tagged)), ("feed", name, str(tagged))):
            client.create_model(name, exist_ok=True)
            done = manylabel(*command, *wrong)
            assert (done.status, words in done.err) == (1, True), (command, done)
