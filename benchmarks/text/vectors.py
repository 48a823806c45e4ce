"""CPU time of a record with a vector, compared with the same record without: NDJSON streams to a server on one core.

The records are those of debtags, in alternating runs, each with a new model; the vector has 384 float32 values, as a
list of numbers and as base64.
"""

import argparse
import base64
import json
import statistics
from typing import Any

import numpy as np

from benchmarks.data_sets import load_records
from benchmarks.http import servers
from benchmarks.http.stream import measure
from benchmarks.output import spread, verdict
from benchmarks.text.quality import FIELDS, TAGS

SIZE = 384
AIM = 2.0
"""Maximum ratio of the medians."""


def run(args: argparse.Namespace) -> None:
    """Print the medians and their ratios to that of words."""
    records = load_records(args.data, "debtags")[: args.records]
    vectors = np.random.default_rng(args.seed).standard_normal((len(records), SIZE)).astype(np.float32)
    kinds: dict[str, list[bytes]] = {"words": [], "list of numbers": [], "base64 of float32": []}
    for record, vector in zip(records, vectors, strict=True):
        tags = record.pop(TAGS)
        own: list[dict[str, Any]] = [
            record,
            {**record, "embedding": [float(str(value)) for value in vector]},
            {**record, "embedding": {"f32": base64.b64encode(vector.tobytes()).decode()}},
        ]
        for lines, x in zip(kinds.values(), own, strict=True):
            lines.append(json.dumps({"y": tags, "x": x}).encode() + b"\n")
    used: dict[str, list[float]] = {kind: [] for kind in kinds}
    with servers.sqlite() as store, servers.manylabel(args.port, store) as server:
        for repeat in range(args.repeats + 1):
            for number, (kind, lines) in enumerate(kinds.items()):
                name = f"m{repeat}-{number}"
                spec = {"name": name, "algorithm": "falt", "text": {"fields": FIELDS}}
                servers.post(args.port, "/v1/models", json.dumps(spec).encode())
                _, microseconds = measure(server, lines, len(lines), name)
                servers.post(args.port, f"/v1/models/{name}", b"", method="DELETE")
                if repeat:  # the first is a warm-up
                    used[kind].append(microseconds)
    words = statistics.median(used["words"])
    print(
        f"\n{len(records):,} records of debtags a run, {SIZE} values: microseconds of the server's processor a record"
    )
    for kind, found in used.items():
        ratio = statistics.median(found) / words
        aim = "" if kind == "words" else f"  {ratio:.2f} x words, {verdict(ratio, at_most=AIM)}"
        print(f"{kind:20}{spread(found, '8.1f')}{aim}")
