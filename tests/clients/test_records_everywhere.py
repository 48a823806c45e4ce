"""Records give the same bits on every path: requests, streams, files, river and jobs, also after a kill."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manylabel_clients import Client
from manylabel_clients.command.data.files import TableOptions, open_for
from manylabel_clients.command.failures import Failure
from manylabel_clients.river import FALT, feed, open_stream
from manylabel_core import M3L, RecordVectorizer

TEXT = {"fields": ["title", "by.bio"], "ngrams": 2, "stop_words": ["the"]}
TITLES = ["The War at Sea", "ein Zug, ein Zug", "caf\u0065\u0301 \U0001f600 שלום", "हिन्दी words", "War of words", "sea"]
LABELS = ("war", "sea", "other")


def record(i: int) -> tuple[Any, list[str]]:
    title = TITLES[i % len(TITLES)]
    x = {"title": title, "country": ["FR", "J P"][i % 2], "n": i % 5 / 3, "free": i % 3 == 0, "none": None}
    x |= {"tags": [f"t{i % 4}", "all"]} if i % 4 else {"by": {"bio": f"Writes {title}", "age": i}}
    y = [label for label in LABELS[:2] if label in title.lower()] or ["other"]
    return (title if i % 11 == 10 else x), y


ROWS = [record(i) for i in range(66)]
XS = [x for x, _ in ROWS]


def test_records_are_learnt_to_the_same_bits_on_every_path(server_process: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps({"x": x, "y": y}) for x, y in ROWS).encode()))
    river = FALT(text=TEXT)
    for x, y in ROWS:
        river.learn_one(x, {label: label in y for label in LABELS})
    with server_process() as server, Client(server.start().url) as client:
        single, batch, stream, fed = (
            client.create_model(name, text=TEXT, labels=list(LABELS)) for name in ("single", "batch", "stream", "fed")
        )
        for x, y in ROWS:
            single.update(x, y)
        batch.update_many(ROWS, batch_size=7)
        assert all(answer.error is None for answer in stream.stream(ROWS, batch_size=50))
        feed(open_stream(path), fed, batch_size=13)
        scores = [one.scores for one in single.predict_many(XS)]
        for model in (batch, stream, fed):
            assert [one.scores for one in model.predict_many(XS)] == scores
            assert model.metrics() == single.metrics()
        proba = [one.probabilities for one in single.predict_many(XS, probabilities=True)]
        assert [{name: both[True] for name, both in river.predict_proba_one(x).items()} for x in XS] == proba
        text = single.status().text
        dataset = client.upload_dataset("rows", path, text=TEXT)
        assert (dataset.text, dataset.features) == (text, single.status().features)
        sources: dict[str, Any] = {"by-dataset": "rows", "by-stream": {"stream": "single", "last": 100}}
        for name, data in sources.items():
            job = client.train("m3l", data, name, params={"optimise": "none"}, promote="always").wait()
            assert (job.state, job.result.rows) == ("succeeded", len(ROWS)), job.error
        server.kill()
        server.start()
        assert [one.scores for one in client.model("single").predict_many(XS)] == scores
        vectorizer = RecordVectorizer(TEXT)
        Y = np.array([[label in y for label in LABELS] for _, y in ROWS], dtype=int)
        direct = M3L(scaling="auto", optimise="none").fit(vectorizer.fit_transform(XS), Y)
        expected = direct.decision_function(vectorizer.transform(XS))
        for name in sources:
            trained = client.model(name)
            assert trained.status().text == text
            found = np.array([[one.scores[label] for label in LABELS] for one in trained.predict_many(XS)])
            assert np.array_equal(found, expected)
        assert len(list(open_for(trained, path, None, False, TableOptions(text=["title"])).examples())) == len(ROWS)
        with pytest.raises(Failure, match=r"by-stream does not read body as text, only title, by\.bio"):
            open_for(trained, path, None, False, TableOptions(text=["body"]))
