"""Files of records, with weights and references, in every command that takes a file."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manylabel_clients import Client
from manylabel_core import metrics

Command = Callable[..., Any]
WORDS = ["war at sea", "love in spring", "a war of words", "spring tide", "sea of love"]


def record(i: int) -> tuple[dict[str, Any], list[str]]:
    title = WORDS[i % 5]
    x = {"title": f"{title} {i % 7}", "body": f"Some {WORDS[i % 3]}, and more", "country": "FJ"[i % 2], "n": i % 4}
    return x, [label for label in ("war", "love", "sea") if label in title] or ["none"]


ROWS = [record(i) for i in range(120)]
OPTIONS = ("--text", "title", "--text", "body", "--labels", "tags", "--separator", ";", "--ignore", "id, when")
TEXT = {"fields": ["title", "body"]}


@pytest.fixture(params=["tsv.gz", "jsonl"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"records.{request.param}"
    flat = [{**x, "id": i, "when": 2026, "tags": "; ".join(y)} for i, (x, y) in enumerate(ROWS)]
    text = io.StringIO()
    if "jsonl" in request.param:
        text.write("\n".join(map(json.dumps, flat)))
    else:
        writer = csv.DictWriter(text, [*flat[0]], delimiter="\t" if "tsv" in request.param else ",")
        writer.writeheader()
        writer.writerows(flat)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_records_in_every_command(manylabel: Command, client: Client, name: str, records: Path) -> None:
    fed = client.create_model(name, text=TEXT)
    manylabel("feed", name, str(records), *OPTIONS, "--json").checked()
    posted = client.create_model(f"{name[:40]}-posted", text=TEXT)
    posted.update_many(ROWS, batch_size=7)
    xs = [x for x, _ in ROWS]
    scores = [one.scores for one in posted.predict_many(xs)]
    assert [one.scores for one in fed.predict_many(xs)] == scores, "what is fed is learnt as what is posted"
    assert fed.metrics() == posted.metrics()
    measured = manylabel("evaluate", name, str(records), *OPTIONS, "--json").checked()
    assert json.loads(measured.out)["examples"] == 120
    assert json.loads(measured.out)["micro_f1"] > 0.9
    predicted = manylabel("predict", name, str(records), *OPTIONS, "--json")
    assert [json.loads(line)["scores"] for line in predicted.out.splitlines()] == scores
    trained = manylabel("train", str(records), *OPTIONS, "--holdout", "0.3", "--json", "--threads", "1").checked()
    assert json.loads(trained.out)["measures"]["micro_f1"] > 0.9
    details = records.with_name("details.csv")
    details.write_text("name,title,uri\nwar,War films,\nsea,,http://x/sea\n")
    added = manylabel(
        "datasets", "add", name, str(records), *OPTIONS, "--label-details", str(details), "--json"
    ).checked()
    told = json.loads(added.out)
    assert (told["rows"], told["labels"], told["text"]["fields"]) == (120, 4, ["title", "body"])
    stored = client.dataset(name, details=True).details or {}
    assert stored["label_details"] == {"war": {"title": "War films"}, "sea": {"uri": "http://x/sea"}}
    assert "title, body" in manylabel("datasets", "show", name).out
    client.delete_dataset(name)


def test_text_columns_must_be_text_fields_of_the_model(
    manylabel: Command, client: Client, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "books.csv"
    path.write_text("title,tags\nalpha,a\n")
    assert manylabel("models", "create", name, "--text", "body", "--text", "a, b").status == 0
    assert client.model(name).status().text["fields"] == ["body", "a", "b"]
    for command in ("feed", "evaluate"):
        done = manylabel(command, name, str(path), "--text", "title,body", "--tags", "tags")
        assert done.status == 1
        assert f"{name} does not read title as text, only body, a, b: create a model that does with" in done.err
    wrong = manylabel("feed", name, str(path), "--text", "body", "--tags", "tags")
    assert "text column 'body' is not among the columns" in wrong.err
    assert client.model(name).status().updates == 0


def test_rows_have_the_weights_of_a_column(manylabel: Command, client: Client, name: str, tmp_path: Path) -> None:
    """The weights count in feed, update and evaluate as in a request, and are stored with a dataset."""
    rows = [(x, y, (1.0, 0.5, 40.0)[i % 3]) for i, (x, y) in enumerate(ROWS[:30])]
    path, options = tmp_path / "weighted.csv", ["--labels", "tags", "--separator", ";", "--weight", "price"]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*ROWS[0][0], "tags", "price"])
        writer.writeheader()
        writer.writerows({**x, "tags": ";".join(y), "price": weight} for x, y, weight in rows)
    posted, fed, updated = (
        client.create_model(f"{name[-40:].strip('-.')}-{n}", text=TEXT) for n in ("posted", "fed", "updated")
    )
    posted.update_many(rows)
    for command, model in (("feed", fed), ("update", updated)):
        manylabel(command, model.name, str(path), *options).checked()
    xs = [x for x, _ in ROWS]
    scores = [one.scores for one in posted.predict_many(xs)]
    assert [one.scores for one in fed.predict_many(xs)] == scores
    assert [one.scores for one in updated.predict_many(xs)] == scores
    assert fed.metrics() == posted.metrics()
    measured = json.loads(manylabel("evaluate", fed.name, str(path), *options, "--json").out)
    labels = sorted({label for _, y in ROWS for label in y})
    Y = np.array([[label in y for label in labels] for _, y, _ in rows], dtype=int)
    P = np.array([[one.get(label, 0.0) > 0 for label in labels] for one in scores[:30]], dtype=int)
    weights = np.array([weight for *_, weight in rows])
    for measure in ("micro_f1", "hamming_loss"):
        assert measured[measure] == pytest.approx(getattr(metrics, measure)(Y, P, weights))
    dataset = f"{name[-40:].strip('-.')}-weighted"
    added = manylabel("datasets", "add", dataset, str(path), *options).checked()
    assert added.out.splitlines()[0].endswith("with weights")
    assert client.dataset(dataset).weighted
    assert "of rows, in measures too" in manylabel("datasets", "show", dataset).out


@pytest.mark.parametrize("kind", ["csv", "jsonl", "pairs.jsonl"])
def test_rows_have_the_references_of_a_column(
    manylabel: Command, client: Client, name: str, tmp_path: Path, kind: str
) -> None:
    refs = ["c-1", None, "c-3"]
    path, options = tmp_path / f"named.{kind}", ["--labels", "tags", "--separator", ";", "--ref", "customer"]
    flat = [{"n": n, "tags": "a;b", **({} if ref is None else {"customer": ref})} for n, ref in enumerate(refs)]
    if kind == "csv":
        path.write_text("n,tags,customer\n0,a;b,c-1\n1,a;b,\n2,a;b,c-3\n")
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, flat)))
    else:
        options = []
        pairs = [{"x": {"n": n}, "y": ["a", "b"], "ref": ref} for n, ref in enumerate(refs)]
        path.write_text("\n".join(map(json.dumps, pairs)))
    model = client.create_model(name)
    for command in ("feed", "update"):
        manylabel(command, name, str(path), *options).checked()
    found = [(example["x"], example.get("ref")) for entry in model.log() for example in entry["examples"]]
    assert found == 2 * [({"n": float(n)}, ref) for n, ref in enumerate(refs)]
    assert manylabel("evaluate", name, str(path), *options[:4]).status == 0
