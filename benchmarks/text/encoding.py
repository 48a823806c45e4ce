"""Microseconds per record to encode text: records of core, scikit-learn's HashingVectorizer, river's BagOfWords.

Each encodes the same seeded records of 60 words, 8 in a title and 52 in a text, one per call; scikit-learn also all in
one call. Contenders take turns; seconds are CPU time, the median of several runs. The outputs differ: ours encodes the
two fields separately, weights counts by 1 + log and adds two categories, a number and a flag; scikit-learn hashes to
columns of a sparse matrix and river counts in a dict, both of the joined fields.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from manylabel_core.records import RecordEncoder, TextSettings

TITLE, TEXT = 8, 52
VOCABULARY = 20_000


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    records = made(args.records, args.seed)
    timed = contenders(records)
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(args.repeats):
        for name, read in timed.items():
            began = time.process_time()
            read()
            seconds[name].append(time.process_time() - began)
    print(
        f"\n{args.records:,} records of {TITLE + TEXT} words, seed {args.seed}\n{'':52}{'us/record':>10}{'to ours':>9}"
    )
    ours = statistics.median(next(iter(seconds.values())))
    for name, runs in seconds.items():
        median = statistics.median(runs)
        print(f"{name:52}{median / args.records * 1e6:10.1f}{median / ours:9.2f}")


def contenders(records: list[dict[str, Any]]) -> dict[str, Callable[[], object]]:
    """Return the timed functions by name; ours comes first."""
    from river.feature_extraction import BagOfWords
    from sklearn.feature_extraction.text import HashingVectorizer

    joined = [f"{record['title']} {record['text']}" for record in records]
    encoder = RecordEncoder(TextSettings(fields=("title", "text")))
    accented = [{**record, "text": record["text"].replace("e", "é")} for record in records]
    hashing, bag = HashingVectorizer(), BagOfWords()
    return {
        "manylabel_core.records": partial(_each, encoder.encode, records),
        "manylabel_core.records, text with accents": partial(_each, encoder.encode, accented),
        "scikit-learn HashingVectorizer": partial(_each, lambda text: hashing.transform([text]), joined),
        "scikit-learn HashingVectorizer, all in one call": partial(hashing.transform, joined),
        "river BagOfWords": partial(_each, bag.transform_one, joined),
    }


def made(n: int, seed: int) -> list[dict[str, Any]]:
    """Return records whose words have realistic frequencies and lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 11, VOCABULARY)
    vocabulary = ["".join(map(chr, rng.integers(97, 123, length))) for length in lengths]
    frequency = 1.0 / np.arange(1, VOCABULARY + 1)
    drawn = rng.choice(VOCABULARY, size=(n, TITLE + TEXT), p=frequency / frequency.sum())
    return [
        {
            "title": " ".join(vocabulary[word] for word in row[:TITLE]).title(),
            "text": " ".join(vocabulary[word] for word in row[TITLE:]) + ".",
            "section": vocabulary[row[0] % 30],
            "priority": "optional",
            "size_kb": int(row.sum()),
            "homepage": bool(row[0] % 2),
        }
        for row in drawn
    ]


def _each(read: Callable[[Any], object], records: list[Any]) -> None:
    for record in records:
        read(record)
