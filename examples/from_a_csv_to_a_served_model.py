"""From a CSV file to a trained model that is served, and how it compares with one that learns the rows one by one.

A job trains M3L, a support vector machine for all labels, from an uploaded file. An online model learns the same rows
as a stream. Both then predict rows that neither has seen.

    manylabel serve
    python examples/from_a_csv_to_a_served_model.py

It prints:

    uploaded 1500 rows, 103 features, 14 labels
    version 1 is served
    1500 rows learnt one by one
    micro-F1 of genes-m3l on 917 new rows: 0.676
    micro-F1 of genes-online on 917 new rows: 0.649
"""

import csv
import tempfile
from pathlib import Path

from river import datasets

from manylabel_clients import Client, Model
from manylabel_clients.river import feed, open_stream

KNOWN = 1500  # of 2,417 yeast genes; the rest is for the comparison


def write(path: Path, rows: list[tuple[dict[str, float], dict[str, bool]]], labels: list[str]) -> None:
    """Write rows as a typical table: a column per feature, then a column of 0 and 1 per label."""
    features = list(rows[0][0])
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*features, *labels])
        table.writerows([*(x[name] for name in features), *(int(y[label]) for label in labels)] for x, y in rows)


def micro_f1(model: Model, rows: list[tuple[dict[str, float], dict[str, bool]]]) -> float:
    """Return the micro-F1 of a model on rows that it has not learnt."""
    hits = wrong = 0
    for (_, y), guess in zip(rows, model.predict_many([x for x, _ in rows]), strict=True):
        truth = {label for label, holds in y.items() if holds}
        hits += len(truth & set(guess.labels))
        wrong += len(truth ^ set(guess.labels))
    return 2 * hits / (2 * hits + wrong)


def main() -> None:
    rows = list(datasets.Yeast())
    labels = list(rows[0][1])
    with Client() as client, tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "genes.csv"
        write(path, rows[:KNOWN], labels)

        uploaded = client.upload_dataset("genes", path, labels=len(labels))
        print(f"uploaded {uploaded.rows} rows, {uploaded.features} features, {uploaded.labels} labels")
        job = client.train(
            "m3l", "genes", model="genes-m3l", params={"kernel": "rbf", "gamma": "scale"}, promote="always"
        )
        result = job.wait().result
        print(f"version {result.version} is served")

        online = client.create_model("genes-online", algorithm="kernel_falt", params={"budget": 500})
        print(f"{feed(open_stream(path, labels=len(labels)), online).examples} rows learnt one by one")

        for name in ("genes-m3l", "genes-online"):
            score = micro_f1(client.model(name), rows[KNOWN:])
            print(f"micro-F1 of {name} on {len(rows) - KNOWN} new rows: {score:.3f}")


if __name__ == "__main__":
    main()
