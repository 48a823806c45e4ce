"""Texts with many labels: prequential metrics, time per record, and memory.

FALT with defaults predicts and learns one record per call. A label exists from its first example on; in that example it
is not counted. Each set is learnt in a separate process, whose peak memory includes the texts. "Questions" consist of
five records of makupalat each, with a label for every fifth of a class: 4,134 labels, with numbers of texts and words
like questions to a library.
"""

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data_sets import load_records
from manylabel_core import FALT
from manylabel_core.metrics import ndcg_at
from manylabel_core.records import RecordEncoder, TextSettings
from manylabel_core.rows import Rows, Targets, as_rows, as_targets

FIELDS = {"debtags": ["title", "text"], "reuters21578": ["title", "text"]}
LEFT_OUT = ("tags", "split", "untagged", "id", "name", "date", "part")
QUESTIONS = "questions"
SETS = ("debtags", "reuters21578", "makupalat", QUESTIONS, "yso_titles_en")
COUNTED = (100, 300, 1_000, 3_000, 10_000, 19_000)
"""Numbers of labels at which the time per record is measured."""
WINDOW = 200


class Found(NamedTuple):
    """Metrics of a set, and the milliseconds per record at each of `COUNTED`."""

    figures: str
    by_labels: dict[int, float]


def run(args: argparse.Namespace) -> None:
    """Print the table, and the time per record by number of labels."""
    print(f"\n{'':16}{'records':>9}{'labels':>8}{'features':>10}", end="")
    print(f"{'micro':>8}{'macro':>8}{'NDCG':>8}{'ms/record':>11}{'MiB':>8}{'dense':>9}{'peak MiB':>10}", flush=True)
    times = {}
    for name in args.sets:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            found = process.submit(measured, args.data, name).result()
        print(f"{name:16}{found.figures}", flush=True)
        times[name] = found.by_labels
    print(f"\nmilliseconds of a record, the mean of {WINDOW} up to so many labels\n{'':16}", end="")
    print("".join(f"{count:>9,}" for count in COUNTED))
    for name, by_labels in times.items():
        shown = (f"{by_labels[count]:9.3f}" if count in by_labels else f"{'':9}" for count in COUNTED)
        print(f"{name:16}{''.join(shown)}", flush=True)


def measured(folder: Path, name: str) -> Found:
    """Learn a set."""
    records = _questions(folder) if name == QUESTIONS else load_records(folder, name)
    encoder = RecordEncoder(TextSettings(fields=FIELDS.get(name, ["text"])))
    features, labels, model = dict[str, int](), dict[str, int](), FALT()
    warm_up()
    counts = np.zeros((3, 0))
    ndcg, seconds, by_labels = [], [], {}
    for record in records:
        known = len(labels)
        x = encoder.encode({key: value for key, value in record.items() if key not in LEFT_OUT})
        columns = np.array([features.setdefault(feature, len(features)) for feature in x], np.int32)
        order = np.argsort(columns)
        values = np.array(list(x.values()), np.float32)[order]
        true = np.array(sorted(labels.setdefault(tag, len(labels)) for tag in record["tags"]), np.int32)
        rows = Rows(np.array([0, len(columns)]), columns[order], values)
        ends, signs = np.array([0, len(true)]), np.ones(len(true), np.int8)
        targets = Targets(ends, true, signs, np.ones(1, np.bool_), np.array([len(labels)]))
        before = time.process_time()
        model.pipeline.grow(len(features), len(labels))
        scores = model.pipeline.learn(rows, targets).scores[0]
        seconds.append(time.process_time() - before)
        for count in COUNTED:
            if known < count <= len(labels):
                by_labels[count] = 1e3 * float(np.mean(seconds[-WINDOW:]))
        margins = scores[1 : 1 + known] - scores[0]
        truth = np.zeros((1, known), np.int8)
        truth[0, true[true < known]] = 1
        counts = np.pad(counts, ((0, 0), (0, len(labels) - counts.shape[1])))
        counts[:, :known] += (margins > 0) & (truth[0] > 0), margins > 0, truth[0]
        if truth.any():
            ndcg.append(ndcg_at(truth, margins[np.newaxis], k=100))
    hits, predicted, positives = counts
    f1 = 2 * hits / np.maximum(predicted + positives, 1)
    micro, macro = 2 * hits.sum() / (predicted + positives).sum(), f1[predicted + positives > 0].mean()
    figures = f"{len(records):9,}{len(labels):8,}{len(features):10,}{micro:8.3f}{macro:8.3f}{np.mean(ndcg):8.3f}"
    dense = 8 * (1 + len(features)) * (1 + len(labels)) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    figures += f"{1e3 * np.mean(seconds):11.3f}{model.pipeline.nbytes / 2**20:8,.0f}{dense:9,.0f}{peak:10,.0f}"
    return Found(figures, by_labels)


def warm_up() -> None:
    """Compile everything: with a small table, and with a sparse one."""
    for n_features in (2, 300_000):
        model = FALT()
        model.pipeline.grow(n_features, 100)
        rows, truth = as_rows(np.eye(2))[0], as_targets(np.eye(2, 100, dtype=int))
        model.pipeline.learn(rows, truth)
        model.pipeline.score(rows)


def _questions(folder: Path) -> list[dict[str, Any]]:
    records, rng = load_records(folder, "makupalat"), np.random.default_rng(0)
    parts = [records[first : first + 5] for first in range(0, 15_750, 5)]
    return [
        {
            "text": " ".join(f"{record.get('title', '')} {record['text']}" for record in part),
            "tags": sorted({f"{tag}/{rng.integers(5)}" for record in part for tag in record["tags"]}),
        }
        for part in parts
    ]
