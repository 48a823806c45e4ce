"""Files as people have them, in every command that reads a file: one reader, and a report before anything is learnt."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manylabel_clients import Client

Command = Callable[..., Any]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of a European Excel: decimal commas, words for missing values, row numbers, cells without tags."""
    path = tmp_path / "songs.csv"
    lines = [
        f"{i};{'NA' if i % 9 == 0 else f'{80 + i},5'};{'TRUE' if i % 2 else 'FALSE'};{i:05d};"
        f"{'' if i % 3 == 0 else 'rock|loud' if i % 2 else 'calm'}"
        for i in range(60)
    ]
    path.write_text("\ufeff;tempo;live;code;tags\r\n" + "\r\n".join(lines) + "\r\n", encoding="utf-8")
    return path


def test_a_dry_run_shows_what_would_be_learnt(manylabel: Command, client: Client, name: str, table: Path) -> None:
    without = manylabel("feed", name, str(table), "--tags", "tags", "--dry-run")
    assert (without.status, f"without a model: manylabel train {table} --dry-run" in without.err) == (1, True)
    client.create_model(name)
    fed = manylabel("feed", name, str(table), "--tags", "tags", "--dry-run", "--json").checked()
    trained = manylabel("train", str(table), "--tags", "tags", "--dry-run", "--json").checked()
    report = json.loads(fed.out)
    assert report == json.loads(trained.out)
    assert client.model(name).status().updates == 0
    kinds = {column["name"]: column["kind"] for column in report["columns"]}
    assert kinds == {"column 1": "ignored", "tempo": "number", "live": "flag", "code": "category", "tags": "labels"}
    assert (report["rows"], report["unlabelled"]) == (60, 20)
    assert report["labels"] == {"rock": 20, "loud": 20, "calm": 20}
    assert report["first"][1] == {"x": {"tempo": 81.5, "live": 1.0, "code": "00001"}, "y": ["rock", "loud"]}
    shown = manylabel("feed", name, str(table), "--tags", "tags", "--dry-run").checked().out
    for words in (
        "60 rows, 40 with known labels",
        "flag (TRUE is 1, FALSE is 0)",
        "number (decimal commas)",
        "3 labels: rock 20, loud 20, calm 20",
        '{"x": {"tempo": 81.5',
        "note: column 'column 1' seems to have the names of the rows and is ignored",
        "note: column 'code' has codes with leading zeros",
    ):
        assert words in shown, (words, shown)


def test_what_is_left_out_is_counted(manylabel: Command, client: Client, name: str, table: Path) -> None:
    model = client.create_model(name)
    fed = manylabel("feed", name, str(table), "--tags", "tags").checked()
    assert "40 rows fed" in fed.out
    assert "20 rows omitted: their labels are unknown; --empty none" in fed.out
    assert "note: column 'code' has codes with leading zeros" in fed.err
    refused = manylabel("update", name, str(table), "--tags", "tags")
    assert (refused.status, "line 2: its labels are unknown; add --empty none" in refused.err) == (1, True)
    assert "use feed, which omits such rows" in refused.err
    updated = manylabel("update", name, str(table), "--tags", "tags", "--empty", "none", "--number", "code").checked()
    assert "60 examples learnt" in updated.out
    assert model.status().updates == 100


def test_one_reader_for_all_commands(manylabel: Command, client: Client, name: str, table: Path) -> None:
    options = ("--tags", "tags", "--ignore", "code")
    model = client.create_model(name)
    manylabel("feed", name, str(table), *options).checked()
    xs = [{"tempo": 81.5, "live": 1.0}, {"tempo": 82.5, "live": 0.0}]
    predicted = manylabel("predict", name, str(table), *options, "--json").checked().out.splitlines()
    assert [json.loads(line)["scores"] for line in predicted[1:3]] == [one.scores for one in model.predict_many(xs)]
    assert json.loads(manylabel("evaluate", name, str(table), *options, "--json").checked().out)["examples"] == 40
    added = manylabel("datasets", "add", name, str(table), *options).checked().out
    assert "60 rows, 40 with known labels" in added
    assert "number (decimal commas)" in added
    report = (client.dataset(name, details=True).details or {})["report"]
    assert report["columns"][1]["missing"] == 7
    client.delete_dataset(name)


def test_the_test_file_has_the_kinds_of_the_training_file(manylabel: Command, tmp_path: Path) -> None:
    """A file of which all codes are digits has categories if those of the training file are."""
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text(
        "code,n,l\n" + "".join(f"{'7B' if i % 2 else '12'},{i},{'p' if i % 2 else 'q'}\n" for i in range(40))
    )
    test.write_text("code,n,l\n12,1,q\n12,2,q\n")
    done = manylabel("train", str(train), "--tags", "l", "--test", str(test), "--json", "--threads", "1").checked()
    assert json.loads(done.out)["measures"]["micro_f1"] == 1.0


def test_every_command_reads_the_text_fields_of_the_model(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    """Without --text, the text fields of the model are text: 1984 is a word there."""
    path, tags = tmp_path / "books.csv", ("--tags", "tags")
    path.write_text("title,tags\n1984,a\n2001,b\n")
    model = client.create_model(name, text={"fields": ["title", "other"]})
    for command in ("update", "feed"):
        manylabel(command, name, str(path), *tags).checked()
    with path.open("a") as file:
        file.write("1984 2001,a;b\n")
    resumed = manylabel("feed", name, str(path), *tags, "--resume", "--json").checked()
    assert json.loads(resumed.out)["examples"] == 1
    assert (model.status().updates, model.status().features) == (5, 2)
    predicted = manylabel("predict", name, str(path), *tags, "--json").checked().out.splitlines()
    assert json.loads(predicted[0])["scores"] == model.predict({"title": "1984"}).scores


WRONG = [
    ((), "name the label columns of the file with --labels"),
    (("--tags", "nothing"), "column of tags 'nothing' is not among the columns"),
    (("--tags", "tags", "--weight", "absent"), "absent"),
    (("--tags", "tags", "--ignore", "tags"), "a column with labels cannot be ignored"),
    (("--tags", "tags", "--labels", "1"), "cannot be combined with label columns"),
]


def test_a_file_or_options_that_do_not_fit_are_refused(
    manylabel: Command, client: Client, name: str, tmp_path: Path, table: Path
) -> None:
    model = client.create_model(name)
    other, lines, weights = tmp_path / "a.txt", tmp_path / "songs.ndjson", tmp_path / "weights.csv"
    other.write_text("a,l\n1,p\n")
    lines.write_text('{"x": {"tempo": 1}, "y": ["rock"]}\n')
    weights.write_text("a,tags,w\n1,x,2\n2,y,0\n")
    cases = [
        ((*command, str(table), *wrong), words) for command in (("train",), ("feed", name)) for wrong, words in WRONG
    ]
    cases += [((*command, str(other)), ".csv") for command in (("train",), ("feed", name), ("datasets", "add", name))]
    cases += [
        (("update", name, str(table), "--labels", "tags"), "label 'tags' is"),
        (("update", name, str(lines), "--tags", "tags"), "line 1: its labels are unknown"),
        (("update", name, '{"x": {"tempo": 1}, "y": []}', "--tags", "tags"), "are for files that end with .csv, .tsv"),
        (("feed", name, str(weights), "--tags", "tags", "--weight", "w"), "line 3: the weight in column"),
    ]
    for command, words in cases:
        done = manylabel(*command)
        assert (done.status, words in done.err, "Traceback" in done.err) == (1, True, False), (command, done)
    assert model.status().updates == 0


@pytest.mark.parametrize("trained", [False, True])
def test_a_later_file_is_read_with_the_kinds_of_the_model(
    manylabel: Command, client: Client, name: str, tmp_path: Path, trained: bool
) -> None:
    """A column of codes that has only digits this time, truth values, and another order of columns."""
    first, later, other = tmp_path / "first.csv", tmp_path / "later.csv", tmp_path / "other.csv"
    rows = (f"{'7B' if i % 2 else '12'},{i % 9},{i % 2 == 1},{'p' if i % 2 else 'q'}\n".upper() for i in range(60))
    first.write_text("code,n,live,l\n" + "".join(rows))
    model = client.model(name)
    if trained:
        client.upload_dataset(name, first, labels="l", separator="")
        assert client.train("m3l", name, name, promote="always").wait().state == "succeeded"
    else:
        client.create_model(name)
        manylabel("feed", name, str(first), "--tags", "l").checked()
    kinds = {"code": "category", "n": "number", "live": "number" if trained else "flag"}
    assert {each.name: each.kind for each in model.status().fields} == kinds
    later.write_text("live,extra,n,code\n1,x,3,12\nTRUE,y,NA,12\nFALSE,z,four,12\n")
    done = manylabel("predict", name, str(later), "--json").checked()
    xs = [{"code": "12", "n": 3, "live": 1}, {"code": "12", "live": 1}, {"code": "12", "live": 0}]
    xs = [{**x, "extra": extra} for x, extra in zip(xs, "xyz", strict=True)]
    assert [json.loads(line)["scores"] for line in done.out.splitlines()] == [x.scores for x in model.predict_many(xs)]
    for note in ("does not know the column extra", "1 of 2 values of column 'n' are not numbers, such as 'four'"):
        assert note in done.err, (note, done.err)
    said = manylabel("predict", name, str(later), "--json", "--category", "n", "--ignore", "extra,live").checked()
    assert "has no column live" in said.err
    assert "extra" not in said.err
    other.write_text("Code,N\n12,3\n")
    refused = manylabel("predict", name, str(other))
    assert (refused.status, "has no column that" in refused.err) == (1, True)
