"""The effect of titles of labels: prequential metrics without titles, with titles, and with wrong titles.

All labels are declared. Titles are the names of the labels (on yso_titles_en with synonyms); wrong titles are those of
other labels.
"""

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data_sets import load_records
from benchmarks.text.many_labels import FIELDS, LEFT_OUT
from manylabel_core import FALT
from manylabel_core.metrics import macro_f1, micro_f1, ndcg_at
from manylabel_core.online.models.stack.titles import MAX_TITLE_WORDS
from manylabel_core.records import RecordEncoder, TextSettings
from manylabel_core.records.text import TextReader
from manylabel_core.rows import as_rows, as_targets

SETS = ("reuters21578", "debtags", "yso_titles_en")
ROWS = {"yso_titles_en": 4_000}
"""Number of first rows learnt, if not all."""
BLOCK = 100
BEST = 10


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    print(f"\n{'titles of labels':32}{'micro':>8}{'macro':>8}{'NDCG':>8}{'never seen':>14}{'us a row':>10}")
    for name in SETS:
        fields = FIELDS.get(name, ["text"])
        records = [each for each in load_records(args.data, name) if each.get("split") != "unused"][: ROWS.get(name)]
        tags = [each["tags"] for each in records]
        labels = {label: column for column, label in enumerate(dict.fromkeys(tag for own in tags for tag in own))}
        Y = np.zeros((len(records), len(labels)), np.int8)
        for row, own in zip(Y, tags, strict=True):
            row[[labels[tag] for tag in own]] = 1
        titles = _titles(args.data, name, list(labels))
        other = [titles[at] for at in np.random.default_rng(args.seed).permutation(len(titles))]
        for kind, given in (("without", None), ("with", titles), ("of others", other)):
            _print_row(f"{name} {kind}", records, Y, fields, given)


def _print_row(name: str, records: list[dict[str, Any]], Y: Any, fields: list[str], titles: list[str] | None) -> None:
    settings = TextSettings(fields=fields)
    encoder, reader = RecordEncoder(settings), TextReader(settings)
    model, features, words, seconds = FALT(), dict[str, int](), dict[str, int](), 0.0
    model.pipeline.grow(0, Y.shape[1])
    if titles is not None:
        read = [list(dict.fromkeys(reader.tokens(title, lambda count: None)))[:MAX_TITLE_WORDS] for title in titles]
        model.pipeline.set_titles(
            {at: [words.setdefault(word, len(words)) for word in own] for at, own in enumerate(read)}
        )
    margins = np.zeros(Y.shape)
    for first in range(0, len(records), BLOCK):
        part, known = records[first : first + BLOCK], len(features)
        xs = [encoder.encode({key: value for key, value in each.items() if key not in LEFT_OUT}) for each in part]
        for feature in (feature for x in xs for feature in x):
            features.setdefault(feature, len(features))
        X = np.zeros((len(xs), len(features)), np.float32)
        for row, x in zip(X, xs, strict=True):
            row[[features[feature] for feature in x]] = list(x.values())
        rows, truth = as_rows(X)[0].without_zeros(), as_targets(Y[first : first + BLOCK])
        pairs = [(at, *feature.split("=", 1)) for feature, at in features.items() if at >= known and "=" in feature]
        linked = [(at, words[word]) for at, field, word in pairs if field in fields and word in words]
        before = time.process_time()
        model.pipeline.grow(len(features), Y.shape[1])
        model.pipeline.link([at for at, _ in linked], np.array([word for _, word in linked], dtype=np.int64))
        scores = model.pipeline.learn(rows, truth).scores
        seconds += time.process_time() - before
        margins[first : first + BLOCK] = scores[:, 1:] - scores[:, :1]
    found = micro_f1(Y, margins > 0), macro_f1(Y, margins > 0), ndcg_at(Y, margins, k=100)
    figures = "".join(f"{figure:8.3f}" for figure in found)
    print(f"{name:32}{figures}{_never_seen(Y, margins):>14}{1e6 * seconds / len(Y):10.0f}", flush=True)


def _never_seen(Y: Any, margins: Any) -> str:
    """Return the number of labels that were among the best for their first example."""
    firsts = Y.argmax(axis=0)
    ranks = [(margins[row] > margins[row, label]).sum() for label, row in enumerate(firsts)]
    return f"{sum(rank < BEST for rank in ranks)} of {len(ranks):,}"


def _titles(folder: Path, name: str, labels: list[str]) -> list[str]:
    if name == "yso_titles_en":
        with gzip.open(folder / f"{name}.names.json.gz", "rt", encoding="utf-8") as file:
            names = json.load(file)
        return [" ".join(names.get(label, [])) for label in labels]
    return [label.partition("::")[2] or label for label in labels]
